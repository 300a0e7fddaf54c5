"""Tests of the measurements of `catnip reproduce linux`, made with this machine's kernel."""

import os
import signal
import subprocess
import sys
from functools import partial
from io import StringIO
from pathlib import Path
from subprocess import Popen
from threading import Timer
from types import SimpleNamespace
from typing import cast

import pytest

from catnip import api
from catnip._core import InputError
from catnip.base.progress import Progress, side_by_side
from catnip.papers.linux import captures, stack
from catnip.papers.linux.captures import FULL, PACED, SINGLE, STATE
from catnip.papers.linux.runs import KernelRuns, capturing, catch_up, missing_requirement
from catnip.papers.linux.stack import BASE, LAST

FOR_S = 10.0


def runs(quick: bool = True) -> KernelRuns:
    with Progress(quiet=True) as progress:
        return KernelRuns(quick, None, 1, progress)


def test_a_capture_has_what_tcpdump_had_no_time_for(tmp_path: Path) -> None:
    if missing := missing_requirement():
        pytest.skip(missing)
    knock = "[socket.socket().connect_ex((os.environ['CATNIP_OUTSIDE'], 9)) for _ in range(50)]"
    with api.link() as link, capturing(link, tmp_path / "sent.pcap") as capture:
        named = [one for one in Path("/proc").glob("[0-9]*/cmdline") if str(capture) in one.read_text()]
        [tcpdump] = [int(one.parent.name) for one in named]
        os.kill(tcpdump, signal.SIGSTOP)
        wakes = Timer(1.5, os.kill, (tcpdump, signal.SIGCONT))
        wakes.start()
        link.run([sys.executable, "-c", f"import os, socket; {knock}"], check=True)
    wakes.join()
    shown = subprocess.run(
        ["tcpdump", "-n", "-r", str(capture), "tcp"], capture_output=True, text=True, check=True
    )
    assert len(shown.stdout.splitlines()) == 100, "each SYN and each RST"


def test_a_capture_ends_though_packets_came_before_its_filter_and_fails_where_some_were_dropped() -> None:
    def ends(*told: str) -> int:
        lines = StringIO("".join(f"{line} by kernel\n" for line in told))
        catch_up(cast("Popen[str]", SimpleNamespace(stderr=lines, send_signal=lambda _: None)))
        return len(lines.read().splitlines())

    counters = "{} packets captured, 9 packets received by filter, 0 packets dropped"
    assert ends(*[counters.format(7)] * 50) > 0, "some lines stay unread"
    reads = [counters.format(at) for at in (1, 1, 1, 7, 9)]
    assert ends(*reads) == 0, "all that is read is waited for"
    with pytest.raises(InputError, match="too slow for 1 of 9"):
        ends("8 packets captured, 9 packets received by filter, 1 packet dropped")
    with pytest.raises(InputError, match="tcpdump exited"):
        ends("catnip0: The interface disappeared")


def test_what_leaves_a_real_server_is_marked_as_its_capture_demands() -> None:
    if missing := missing_requirement("nginx"):
        pytest.skip(missing)
    documents = captures.captured(FULL, "nginx", False, SINGLE, 5, 1)
    assert documents.right_documents == documents.documents == 8 * 5 + len(captures.SIZES), documents.faults
    assert documents.bad_checksums == documents.gaps == 0
    documents = captures.captured(STATE, "nginx", False, PACED, 5, 1)
    assert documents.right_documents == documents.documents, documents.faults
    assert min(documents.must_be_high, documents.must_be_med, documents.must_be_low) > 20


def test_a_slow_line_loses_fewer_marked_packets_than_others() -> None:
    if missing := missing_requirement("nginx"):
        pytest.skip(missing)
    report = runs().progress.task("a short run")
    jobs = [partial(stack.emulated, "cubic", BASE, 1, system, FOR_S) for system in (stack.DROP_TAIL, LAST)]
    blind, marked = side_by_side(jobs, 2, report)
    assert blind.loss.high_share[0] == 0, "who is told to mark nothing marks nothing"
    assert 0.1 < marked.loss.high_share[0] < 0.6
    assert marked.loss.high_loss[0] < marked.loss.low_loss[0]
    assert min(len(one.of(stack.ALL)) for one in (blind, marked)) > 0
    assert blind.errors == marked.errors == 0

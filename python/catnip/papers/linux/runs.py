"""Requirements and tools of all measurements with this machine's kernel."""

import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from catnip import api
from catnip._core import InputError
from catnip.api import Link
from catnip.base.programs import AGENT, cannot_control, cannot_mark, program
from catnip.papers.runs import Runs
from catnip.papers.testbed.runs import can_run
from catnip.papers.unavailable import Unavailable

TRIES = 3
LOOK_S, IDLE_LOOKS = 0.05, 20
"""Interval between requests for tcpdump's counters, s, and number of requests without progress to allow."""
USUAL_SEEDS = {"linux-stack": 12, "linux-wan": 10, "newcwv-real": 30}


class KernelRuns(Runs):
    """Runs with this machine's kernel, made on demand."""

    quick_says = "two of seven configurations, 12 s each"

    def usual_seeds(self, name: str) -> int:
        """Returns the number of runs of a scenario at full length."""
        return USUAL_SEEDS.get(name, 1)

    def require(self, *servers: str) -> None:
        """Raises Unavailable if this machine cannot make measurements with these Web servers."""
        if missing := missing_requirement(*servers):
            raise Unavailable(missing)


def missing_requirement(*servers: str) -> str | None:
    """Returns the reason why this machine cannot make measurements with these Web servers; None if it can."""
    return cannot_control() or cannot_mark() or can_run(*servers)


@contextmanager
def controllers() -> Iterator[None]:
    """Provides the agent's congestion controllers to every network namespace; the agent marks nothing."""
    with api.link() as link, agent_behind(link, "--mark", "none"):
        yield


@contextmanager
def agent_behind(link: Link, *options: str) -> Iterator[None]:
    """Runs an agent with these options behind a link during the block."""
    agent = str(program(AGENT))
    started = link.run([agent, "start", *options], capture_output=True, text=True, timeout=60)
    if started.returncode:
        raise InputError(f"linux: {started.stderr.strip().removeprefix('error: ')}")
    try:
        yield
    finally:
        link.run([agent, "stop"], capture_output=True, check=True, timeout=60)


def device(link: Link) -> str:
    """Returns the name of the network device behind a link."""
    shown = link.run(["ip", "-json", "route"], capture_output=True, text=True, check=True)
    return str(json.loads(shown.stdout)[0]["dev"])


TRACE = """
# systemd mounts it, a bare system does not; a second mount at the same place is an error.
mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing
cd /sys/kernel/tracing/instances
mkdir "$0"
cd "$0"
trap 'cd ..; rmdir "$0"' EXIT
echo 65536 > buffer_size_kb
echo tai > trace_clock
for event in tcp_probe tcp_cong_state_set; do echo 1 > events/tcp/$event/enable; done
echo ready >&2
read _ || true
echo 0 > tracing_on
! grep -h '^overrun: [1-9]' per_cpu/cpu*/stats >&2
cat trace
"""
"""Script that traces the windows of this machine's TCP until its standard input ends, and prints them."""


@contextmanager
def tracing(trace: Path) -> Iterator[Path]:
    """Writes the windows of all TCP senders of this machine during the block, as the kernel traces them.

    Times are those of captures, since 1970.
    """
    name = f"catnip-{os.getpid()}-{threading.get_ident()}"
    command = ["unshare", "--mount", "sh", "-ec", TRACE, name]
    pipe = subprocess.PIPE
    with (
        trace.open("w") as written,
        subprocess.Popen(command, stdin=pipe, stdout=written, stderr=pipe, text=True) as tracer,
    ):
        assert tracer.stdin is not None and tracer.stderr is not None
        told = tracer.stderr.readline()
        try:
            if told != "ready\n":
                raise InputError(f"linux: the kernel's trace: {told.strip()}")
            yield trace
        finally:
            tracer.stdin.close()
            problems = tracer.stderr.read().strip()
    if problems or tracer.returncode:
        raise InputError(f"linux: the kernel's trace: {problems or 'it was not read'}")
    # TAI is ahead by the leap seconds, if the machine knows them.
    if ahead_s := round(time.clock_gettime(time.CLOCK_TAI) - time.time()):
        lines = trace.read_text()
        trace.write_text(re.sub(r"\d+(?=\.\d{6}: tcp_)", lambda at: str(int(at[0]) - ahead_s), lines))


@contextmanager
def capturing(link: Link, capture: Path) -> Iterator[Path]:
    """Captures all TCP packets of the device behind a link with tcpdump during the block."""
    options = ["--immediate-mode", "-B", "65536", "-s", "120", "-w", str(capture)]
    command = ["tcpdump", "-Z", "root", "-i", device(link), *options, "tcp"]
    watch = link.start(command, stderr=subprocess.PIPE, text=True)
    assert watch.stderr is not None
    watch.stderr.readline()
    try:
        yield capture
        # Packets in flight are to be in the capture, too.
        time.sleep(0.5)
        catch_up(watch)
    finally:
        watch.send_signal(signal.SIGINT)
        watch.communicate(timeout=30)


def catch_up(watch: "subprocess.Popen[str]") -> None:
    """Waits until tcpdump has read all packets buffered by the kernel, because its end would discard them."""
    assert watch.stderr is not None
    before, idle_looks = 0, 0
    while idle_looks < IDLE_LOOKS:
        watch.send_signal(signal.SIGUSR1)
        # Example: "250 packets captured, 250 packets received by filter, 0 packets dropped by kernel"
        counters = watch.stderr.readline()
        counts = re.findall(r"(\d+) packets?", counters)
        if len(counts) != 3:
            raise InputError(f"linux: tcpdump exited: {counters.strip()}")
        captured, received, dropped = map(int, counts)
        if dropped:
            raise InputError(f"linux: tcpdump was too slow for {dropped} of {received} packets")
        if captured == received:
            return
        # The received packets include those that arrived before the filter was set, which tcpdump never
        # reads.
        idle_looks = 0 if captured > before else idle_looks + 1
        before = captured
        time.sleep(LOOK_S)

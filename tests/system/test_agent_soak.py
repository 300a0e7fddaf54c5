"""Tests of the agent under load: repeated attachment and detachment, and many short connections."""

import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event

import pytest

import catnip
from agents import PORT, Host, fetch_all, trouble, verified
from catnip.base import programs

REASON = programs.cannot_control() or programs.cannot_mark()
pytestmark = [
    pytest.mark.skipif(REASON is not None, reason=f"no agent: {REASON}"),
    pytest.mark.skipif(not shutil.which("bpftool"), reason="no bpftool"),
]

SOAK_S = float(os.environ.get("CATNIP_SOAK_S", "5"))
"""Duration of a soak test, s; `make soak` takes ten minutes for each."""
TIMES = int(os.environ.get("CATNIP_ATTACH", "5"))
"""Number of times that an agent is attached and detached; a thousand in `make soak`."""


def loaded() -> set[tuple[str, int]]:
    """Returns kind and id of each BPF program and map of CATNIP, except those that agents hold."""
    found = set()
    for kind in ("prog", "map"):
        shown = subprocess.run(
            ["bpftool", "--json", kind, "show"], capture_output=True, text=True, check=True
        )
        for one in json.loads(shown.stdout or "[]"):
            if one.get("name", "").startswith(("catnip_", "agent_bp", "flows", "newcwv")):
                found.add((kind, one["id"]))
    return found - held_by_agents()


def held_by_agents() -> set[tuple[str, int]]:
    """Returns kind and id of the BPF programs and maps that a running agent or one of its links holds."""
    held = set()
    for comm in Path("/proc").glob("[0-9]*/comm"):
        with suppress(FileNotFoundError, ProcessLookupError):  # The process has just ended.
            if comm.read_text() == "catnip-agent\n":
                for about in comm.with_name("fdinfo").iterdir():
                    held |= {
                        (kind, int(of))
                        for kind, of in re.findall(r"(prog|map)_id:\s*(\d+)", about.read_text())
                    }
    return held


def settled(before: set[tuple[str, int]]) -> bool:
    """Waits until no BPF program or map is left that is not in `before`; returns false after 20 s.

    The kernel frees programs some time after the last process that uses them has ended.
    """
    for _ in range(100):
        if loaded() <= before:
            return True
        time.sleep(0.2)
    return False


def test_attached_and_detached_again_and_again_under_load_it_leaves_nothing(tmp_path: Path) -> None:
    complaints, before = trouble(), loaded()
    with catnip.link(rate="100Mbit", delay="2ms") as link:
        host = Host(link, tmp_path)
        ended = Event()

        def load() -> int:
            connection = http.client.HTTPConnection(link.inside, PORT, timeout=60)
            received = 0
            while not ended.is_set():
                connection.request("GET", "/50000")
                received += len(connection.getresponse().read())
            connection.close()
            return received

        with host.nginx(), ThreadPoolExecutor(4) as pool:
            loads = [pool.submit(load) for _ in range(4)]
            try:
                for _ in range(TIMES):
                    with host.marking():
                        pass
            finally:
                ended.set()
            assert all(one.result() % 50_000 == 0 for one in loads)
        assert host.setting("net.ipv4.tcp_min_tso_segs") == "2"
    assert settled(before), (loaded(), before)
    assert trouble() == complaints


def test_short_and_long_connections_keep_their_marks_and_the_agent_its_memory(tmp_path: Path) -> None:
    complaints = trouble()
    with catnip.link(rate="50Mbit", delay="5ms", loss="bernoulli:0.5%", queue="drop-tail:4000") as link:
        host = Host(link, tmp_path)
        with host.nginx(), host.marking("--segments", "single"), host.captured() as capture:
            pid = json.loads(host.agent("status", "--json"))["pid"]
            at_first = resident(pid)
            until = time.monotonic() + SOAK_S
            rounds = 0
            while time.monotonic() < until:
                for _ in range(200):
                    with socket.create_connection((link.inside, PORT), timeout=30) as short:
                        short.sendall(b"GET /1 HTTP/1.0\r\n\r\n")
                        while short.recv(4096):
                            pass
                fetch_all(link.inside, rounds, 1)
                rounds += 1
            assert resident(pid) <= 1.2 * at_first
            counts = host.counts()
        sums = verified(capture)
    assert sums["agreement"] >= 0.99, sums["faults"][:10]
    assert sums["connections"] >= 200 * rounds
    # SYN-ACKs, including the lost ones.
    assert counts[("handshake", "high")] >= 200 * rounds
    assert trouble() == complaints


def resident(pid: int) -> int:
    """Returns the resident memory of a process, pages."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1])

"""What marking costs: the time of the program at the device, and what is left of the throughput.

    .venv/bin/python benches/agent.py [PAIRS]

As root. One transfer between two namespaces over a pair of virtual Ethernet devices, during which an agent
comes and goes. It prints one object: nanoseconds per run of the program as the kernel counts them, and the
throughput with an agent over that without, as a ratio with its interval. Once without a limit of segments,
and once with segments that leave one by one, where each packet has a run of its own.

Source and sink share a processor. On two of a virtual machine, throughput is how soon the other one wakes,
and varies by a factor of six. On one, which never sleeps, it is the work of both hosts, and repeats to half a
percent.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from catnip import stats

AGENT = [sys.executable, "-m", "catnip", "agent"]
PAIRS, SECONDS, SETTLES_S = 20, 1.0, 0.3
ON_ONE = ["taskset", "--cpu-list", str(max(os.sched_getaffinity(0))), sys.executable]
HERE, THERE = "10.77.0.1", "10.77.0.2"
SINK = """
import socket
with socket.create_server(("", 9000)) as server:
    print("ready", flush=True)
    buffer = bytearray(1 << 20)
    while True:
        connection, _ = server.accept()
        with connection:
            while connection.recv_into(buffer):
                pass
"""
SOURCE = """
import socket, sys, time
data, sent, said = bytes(1 << 20), 0, 0.0
with socket.create_connection((sys.argv[1], 9000)) as connection:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
    while True:
        sent += connection.send(data)
        now = time.monotonic()
        if now > said + 0.02:
            said = now
            print(now, sent, flush=True)
"""


def main() -> None:
    """Measures and prints."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS
    told = {}
    with namespaces() as inside:
        for which in ("kernel", "single"):
            if which == "single":
                # As the agent has it, which puts back what it has found.
                run([*inside, "ip", "link", "set", "dev", "here", "gso_max_segs", "1"])
                run([*inside, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/tcp_min_tso_segs"])
            told[which] = measured(inside, which, pairs)
    print(json.dumps(told, indent=2))


def measured(inside: list[str], which: str, pairs: int) -> dict[str, Any]:
    """One long transfer, during which an agent comes and goes."""
    spans: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    start = [*inside, *AGENT, "start", "--device", "here", "--segments", which]
    with tempfile.TemporaryFile("w+") as said:
        with running([*inside, *ON_ONE, "-c", SOURCE, THERE], said):
            time.sleep(2 * SETTLES_S)
            for pair in range(pairs):
                for marks in (False, True) if pair % 2 else (True, False):
                    if marks:
                        run(start)
                    time.sleep(SETTLES_S)
                    begun = time.monotonic()
                    time.sleep(SECONDS)
                    spans[marks].append((begun, time.monotonic()))
                    if marks:
                        run([*inside, *AGENT, "stop"])
            # To count costs time, too.
            run(start)
            with counting():
                time.sleep(SECONDS)
                spent, runs = program()
            run([*inside, *AGENT, "stop"])
        said.seek(0)
        times, sent = np.array([line.split() for line in said.read().splitlines()[:-1]], float).T
    gbit = {
        marks: [
            8e-9 * float(np.subtract(*np.interp([end, begun], times, sent)) / (end - begun))
            for begun, end in of
        ]
        for marks, of in spans.items()
    }
    ratio = stats.ratio(gbit[True], gbit[False])
    return {
        "nanoseconds_per_run": round(spent / runs, 1),
        "runs_per_second": round(runs / SECONDS),
        "gbit_without": round(float(np.mean(gbit[False])), 2),
        "throughput_ratio": [round(float(x), 3) for x in (ratio.mean, ratio.low, ratio.high)],
    }


def program() -> tuple[int, int]:
    """Nanoseconds and runs of the marker."""
    shown = json.loads(run(["bpftool", "--json", "prog", "show", "name", "catnip_mark"]))
    # One is shown by itself, several as a list: ours is the newest.
    found = shown if isinstance(shown, dict) else max(shown, key=lambda one: one["id"])
    return found["run_time_ns"], found["run_cnt"]


@contextmanager
def namespaces() -> Iterator[list[str]]:
    """Two, with a wire between them and a sink in the second one; how to enter the first one."""
    names = ["catnip-here", "catnip-there"]
    enter = [["nsenter", f"--net=/var/run/netns/{name}"] for name in names]
    for name in names:
        run(["ip", "netns", "add", name])
    try:
        ends = ["here", "netns", names[0], "type", "veth", "peer", "there", "netns", names[1]]
        run(["ip", "link", "add", *ends])
        for command, device, address in zip(enter, ("here", "there"), (HERE, THERE), strict=True):
            run([*command, "ip", "addr", "add", f"{address}/24", "dev", device])
            run([*command, "ip", "link", "set", "dev", device, "up"])
        with running([*enter[1], *ON_ONE, "-c", SINK], subprocess.PIPE) as sink:
            assert sink.stdout is not None
            sink.stdout.readline()
            time.sleep(0.2)
            yield enter[0]
    finally:
        for name in names:
            run(["ip", "netns", "del", name])


@contextmanager
def counting() -> Iterator[None]:
    """The kernel counts what its programs take."""
    counts = Path("/proc/sys/kernel/bpf_stats_enabled")
    before = counts.read_text()
    counts.write_text("1")
    try:
        yield
    finally:
        counts.write_text(before)


@contextmanager
def running(command: list[str], out: IO[str] | int) -> Iterator[subprocess.Popen[bytes]]:
    """A program that is there for a while, and not longer, whatever happens."""
    process = subprocess.Popen(command, stdout=out)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def run(command: list[str]) -> str:
    """A command that must succeed: what it prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


if __name__ == "__main__":
    main()

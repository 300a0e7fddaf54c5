"""What marking costs: the time of the program at the device, and what is left of the throughput.

    .venv/bin/python benches/agent.py [PAIRS]

As root. It moves data between two namespaces over a pair of virtual Ethernet devices, with and without an
agent by turns, and prints one object: nanoseconds per run of the program as the kernel counts them, and the
throughput with over that without, as a ratio with its interval. Once without a limit of segments, once with
segments that leave one by one, where each packet has a run of its own.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from catnip import stats

AGENT = [sys.executable, "-m", "catnip", "agent"]
PAIRS, SECONDS = 12, 2.0
HERE, THERE = "10.77.0.1", "10.77.0.2"
SINK = """
import os, socket
# Source and sink keep to their processors, so that the scheduler is not what is measured.
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
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
import os, socket, sys, time
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
address, seconds = sys.argv[1], float(sys.argv[2])
data, sent = bytes(1 << 20), 0
with socket.create_connection((address, 9000)) as connection:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sent += connection.send(data)
print(sent * 8 / seconds / 1e9)
"""


def main() -> None:
    """Measures and prints."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS
    with namespaces() as inside:
        told = {}
        for which in ("kernel", "single"):
            speeds_of: dict[bool, list[float]] = {False: [], True: []}
            nanoseconds, packets = [], []
            for _ in range(pairs):
                if which == "single":
                    # As the agent has it, which puts back what it has found.
                    run([*inside, "ip", "link", "set", "dev", "here", "gso_max_segs", "1"])
                    run([*inside, "sysctl", "-qw", "net.ipv4.tcp_min_tso_segs=1"])
                speeds_of[False].append(speed(inside, SECONDS))
                run([*inside, *AGENT, "start", "--device", "here", "--segments", which])
                speeds_of[True].append(speed(inside, SECONDS))
                # To count costs time, too.
                run(["sysctl", "-qw", "kernel.bpf_stats_enabled=1"])
                speed(inside, SECONDS / 2)
                spent, runs = program()
                run(["sysctl", "-qw", "kernel.bpf_stats_enabled=0"])
                nanoseconds.append(spent / runs)
                packets.append(runs / (SECONDS / 2))
                run([*inside, *AGENT, "stop"])
            ratio = stats.ratio(speeds_of[True], speeds_of[False])
            told[which] = {
                "nanoseconds_per_run": round(float(np.mean(nanoseconds)), 1),
                "runs_per_second": round(float(np.mean(packets))),
                "gbit_without": round(float(np.mean(speeds_of[False])), 2),
                "throughput_ratio": [round(float(x), 3) for x in (ratio.mean, ratio.low, ratio.high)],
            }
        print(json.dumps(told, indent=2))


def speed(inside: list[str], seconds: float) -> float:
    """What gets through, Gbit/s."""
    return float(run([*inside, sys.executable, "-c", SOURCE, THERE, str(seconds)]))


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
    stats_before = run(["sysctl", "-n", "kernel.bpf_stats_enabled"]).strip()
    for name in names:
        run(["ip", "netns", "add", name])
    try:
        ends = ["here", "netns", names[0], "type", "veth", "peer", "there", "netns", names[1]]
        run(["ip", "link", "add", *ends])
        for command, device, address in zip(enter, ("here", "there"), (HERE, THERE), strict=True):
            run([*command, "ip", "addr", "add", f"{address}/24", "dev", device])
            run([*command, "ip", "link", "set", "dev", device, "up"])
        sink = subprocess.Popen([*enter[1], sys.executable, "-c", SINK], stdout=subprocess.PIPE)
        assert sink.stdout is not None
        sink.stdout.readline()
        time.sleep(0.2)
        yield enter[0]
        sink.kill()
    finally:
        run(["sysctl", "-qw", f"kernel.bpf_stats_enabled={stats_before}"])
        for name in names:
            run(["ip", "netns", "del", name])


def run(command: list[str]) -> str:
    """A command that must succeed: what it prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


if __name__ == "__main__":
    main()

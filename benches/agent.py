"""Cost of marking: run time of the agent's BPF program per packet, and its effect on TCP throughput.

    .venv/bin/python benches/agent.py [PAIRS]

The benchmark runs as root. Two connections between two namespaces, each over a pair of virtual Ethernet
devices of its own, send alternately, fifteen times a second. An agent first marks the packets that leave one
of the two devices, and later the packets that leave the other device. The output is a JSON object with the
nanoseconds per run of the program, as counted by the kernel, and the ratio of the throughput of the marked
connection to the throughput of the unmarked connection. The ratio is a median over all turns with its
interval, because the host of a virtual machine takes the processor away during some turns. There are two
measurements: one without a limit on the number of segments per packet, and one with a single segment per
packet, in which the program runs once for each segment. With single segments it also measures the agent
without a limit by user, and runs over packets full of responses with ordinary headers, and of the header that
takes longest.

Sources and sinks share a processor. With two processors of a virtual machine, throughput depends on how soon
a sleeping processor wakes up, and varies by a factor of six. A single processor never sleeps, so that
throughput depends only on the work of both hosts. Turns are short because the speed of a machine varies from
one second to the next by more than the cost of marks.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from scipy.stats import quantile_test

AGENT = [sys.executable, "-m", "catnip", "agent"]
PAIRS, COUNTS_S = 2000, 1.0
ON_ONE = ["taskset", "--cpu-list", str(max(os.sched_getaffinity(0))), sys.executable]
DEVICES = ("first", "second")
PORT = 9000
SINK = """
import socket, sys
with socket.create_server(("", int(sys.argv[1]))) as server:
    print("ready", flush=True)
    buffer = bytearray(1 << 20)
    while True:
        connection, _ = server.accept()
        with connection:
            while connection.recv_into(buffer):
                pass
"""
# Program of the sender. In each turn it first sends until the other connection's data has drained, and then
# measures.
SOURCE = """
import socket, sys, time
settles_s, turn_s, data = 0.005, 0.03, bytes(1 << 20)
connections = []
for number in range(2):
    connection = socket.create_connection((f"10.77.{number}.2", int(sys.argv[1]) + number))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
    connections.append(connection)
def send(connection, seconds):
    sent, begun = 0, time.monotonic()
    while (now := time.monotonic()) < begun + seconds:
        sent += connection.send(data)
    return 8e-9 * sent / (now - begun)
while True:
    begun, rates = time.monotonic(), []
    for connection in connections:
        send(connection, settles_s)
        rates.append(send(connection, turn_s))
    print(begun, *rates, flush=True)
"""
# Program of a sender of responses, which are read from its standard input.
RESPONDS = """
import socket, sys
some = sys.stdin.buffer.read()
with socket.create_connection(("10.77.0.2", int(sys.argv[1]))) as connection:
    while True:
        connection.sendall(some)
"""
ORDINARY = """HTTP/1.1 200 OK
Date: Sat, 28 Nov 2026 02:06:11 GMT
Server: nginx/1.22.1
Content-Type: text/html; charset=utf-8
Last-Modified: Fri, 27 Nov 2026 10:00:00 GMT
ETag: "0123456789abcdef"
Cache-Control: public, max-age=3600
Vary: Accept-Encoding
Strict-Transport-Security: max-age=31536000; includeSubDomains
X-Content-Type-Options: nosniff
X-Frame-Options: SAMEORIGIN
Set-Cookie: session=0123456789abcdef0123456789abcdef; Path=/; Secure; HttpOnly
Accept-Ranges: bytes
Connection: keep-alive
Content-Length: 700

"""
# Every byte of these lines may belong to a length.
LONGEST = "HTTP/1.1 200 OK\n" + "Content-Length\n" * 4000 + "Content-Length: 1\n\n"
RESPONSES = {"ordinary": (ORDINARY, 700), "longest": (LONGEST, 1)}
"""Headers of responses, and the number of bytes that follow."""


def main() -> None:
    """Measures the agent's cost with and without multi-segment packets, and prints the results as JSON."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS
    told: dict[str, Any] = {}
    with namespaces() as inside:
        for which in ("kernel", "single"):
            if which == "single":
                # The agent sets these values, too, and restores the previous ones.
                for device in DEVICES:
                    run([*inside, "ip", "link", "set", "dev", device, "gso_max_segs", "1"])
                run([*inside, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/tcp_min_tso_segs"])
            told[which] = measured(inside, which, pairs)
        told["without_limit"] = measured(inside, "single", pairs, "--user-limit", "none")
        told["headers"] = {name: of_responses(inside, *RESPONSES[name]) for name in RESPONSES}
    print(json.dumps(told, indent=2))


def measured(inside: list[str], which: str, pairs: int, *options: str) -> dict[str, Any]:
    """Measures the agent in the segment mode `which`, `kernel` or `single`, at each device in turn.

    `options` are further options of the agent.

    Returns nanoseconds per run of the BPF program, Gbit/s of the unmarked connection, and the ratio of marked
    to unmarked throughput with its interval. `inside` is the command prefix of the sender's namespace,
    `pairs` the number of turns of each connection.
    """
    marked, plain = [], []
    spent = runs = 0
    with running([*inside, *ON_ONE, "-c", SOURCE, str(PORT)], subprocess.PIPE) as source:
        assert source.stdout is not None
        for number, device in enumerate(DEVICES):
            run([*inside, *AGENT, "start", "--device", device, "--segments", which, *options])
            since, turns = time.monotonic(), 0
            while turns < pairs // 2:
                begun, *rates = map(float, source.stdout.readline().split())
                if begun > since:
                    marked.append(rates[number])
                    plain.append(rates[1 - number])
                    turns += 1
            # The kernel counts only after the turns, because counting takes time.
            with counting():
                time.sleep(COUNTS_S)
                more_spent, more_runs = program()
            spent, runs = spent + more_spent, runs + more_runs
            run([*inside, *AGENT, "stop"])
    ratios = np.divide(marked, plain)
    bounds = quantile_test(ratios, q=1.0).confidence_interval()
    ratio = (float(np.median(ratios)), bounds.low, bounds.high)
    return {
        "nanoseconds_per_run": round(spent / runs, 1),
        "gbit_without": round(float(np.median(plain)), 2),
        "throughput_ratio": [round(float(x), 4) for x in ratio],
    }


def of_responses(inside: list[str], header: str, body: int) -> dict[str, float]:
    """Returns the nanoseconds of a run for packets full of these responses, and the share of header bytes."""
    head = header.replace("\n", "\r\n").encode()
    some = (head + bytes(body)) * (1 + (1 << 20) // len(head))
    run([*inside, *AGENT, "start", "--controllers", "none", "--device", DEVICES[0], "--segments", "single"])
    try:
        with running([*inside, *ON_ONE, "-c", RESPONDS, str(PORT)], None, some), counting():
            time.sleep(COUNTS_S / 2)
            begin = program()
            time.sleep(COUNTS_S)
            spent, runs = np.subtract(program(), begin)
    finally:
        run([*inside, *AGENT, "stop"])
    share = len(head) / (len(head) + body)
    return {"nanoseconds_per_run": round(float(spent / runs), 1), "header_share": round(share, 3)}


def program() -> tuple[int, int]:
    """Returns the total run time (ns) and number of runs of the agent's BPF program, from the kernel."""
    shown = json.loads(run(["bpftool", "--json", "prog", "show", "name", "catnip_mark"]))
    # bpftool prints an object for one program and a list for several; our program is the newest.
    found = shown if isinstance(shown, dict) else max(shown, key=lambda one: one["id"])
    return found["run_time_ns"], found["run_cnt"]


@contextmanager
def namespaces() -> Iterator[list[str]]:
    """Creates two network namespaces, connected by two veth pairs, with a receiver at the end of each pair.

    Yields the command prefix that enters the first namespace.
    """
    names = ["catnip-here", "catnip-there"]
    enter = [["nsenter", f"--net=/var/run/netns/{name}"] for name in names]
    for name in names:
        run(["ip", "netns", "add", name])
    try:
        with ExitStack() as sinks:
            for number, device in enumerate(DEVICES):
                ends = [device, "netns", names[0], "type", "veth", "peer", device, "netns", names[1]]
                run(["ip", "link", "add", *ends])
                for command, host in zip(enter, (1, 2), strict=True):
                    run([*command, "ip", "addr", "add", f"10.77.{number}.{host}/24", "dev", device])
                    run([*command, "ip", "link", "set", "dev", device, "up"])
                command = [*enter[1], *ON_ONE, "-c", SINK, str(PORT + number)]
                sink = sinks.enter_context(running(command, subprocess.PIPE))
                assert sink.stdout is not None
                sink.stdout.readline()
            time.sleep(0.2)
            yield enter[0]
    finally:
        for name in names:
            run(["ip", "netns", "del", name])


@contextmanager
def counting() -> Iterator[None]:
    """Enables the kernel's statistics of BPF programs during the block."""
    counts = Path("/proc/sys/kernel/bpf_stats_enabled")
    before = counts.read_text()
    counts.write_text("1")
    try:
        yield
    finally:
        counts.write_text(before)


@contextmanager
def running(
    command: list[str], out: IO[str] | int | None, given: bytes | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a program, which reads `given` if that is not None, during the block and kills it afterwards."""
    process = subprocess.Popen(command, stdin=None if given is None else subprocess.PIPE, stdout=out)
    try:
        if process.stdin is not None and given is not None:
            process.stdin.write(given)
            process.stdin.close()
        yield process
    finally:
        process.kill()
        process.wait()


def run(command: list[str]) -> str:
    """Runs a command that must succeed; returns its output."""
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


if __name__ == "__main__":
    main()

"""Congestion windows of the agent's controllers in this kernel and of the simulator on one path (CWV-S5).

A server sends documents of the same size, each after an idle period, over one connection and one link. The
link loses packets given by their numbers.
"""

import csv
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from catnip import api, context
from catnip._core import InputError
from catnip.analysis import measures
from catnip.api import Link
from catnip.papers.linux.runs import KernelRuns, agent_behind, capturing, device
from catnip.papers.quantity import Quantities
from catnip.papers.rows import Rows, where

measured = Quantities()

RATE, DELAY_MS, QUEUE = "20Mbit", 20, "drop-tail:2000"
SEGMENT, PORT = 1448, 8081
BURSTS, BURST_BYTES, SILENCE_S = 4, 200_000, 2.0
TRACED_BURSTS, TRACED_SILENCE_S, TRACED_LOSS = 3, 5.0, "packets:60"
"""Bursts whose windows are traced; after the lost packet the first one uses its whole window."""
NUMBERS = ("time_s", "cwnd_bytes", "ssthresh_bytes", "pipe_ack_bytes")
SCRIPTS = {"none": "none", "one": "packets:90", "two": "packets:60,150"}
"""Loss model of the link by name of the case. The server's packets are numbered from 1."""
NEW_CWV = {"control": "reno", "validation": "newcwv"}
SIDE_BY_SIDE, TRIES = 3, 6
"""Number of concurrent links, and number of tries for a link that is late because the machine is busy."""
SERVER = """
import json, socket, struct, sys, time
sys.path.insert(0, sys.argv[1])
from catnip import context
control, tells = sys.argv[2].encode(), sys.argv[3] == "tells"
def cwnd(connection):
    return struct.unpack_from("I", connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256), 80)[0]
with socket.create_server(("", 8081)) as server:
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control)
    print("ready", flush=True)
    for line in sys.stdin:
        sizes = json.loads(line)
        connection, _ = server.accept()
        used = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\\0").decode()
        windows = []
        with connection:
            for size in sizes:
                connection.recv(1)
                before = cwnd(connection)
                if tells:
                    context.document(connection, size)
                # The window as the kernel has it once the first segment has left after a silence.
                connection.sendall(bytes(min(size, 1448)))
                windows.append([before, cwnd(connection)])
                connection.sendall(bytes(max(size - 1448, 0)))
            connection.recv(1)
            windows.append([cwnd(connection)] * 2)
        print(json.dumps([used, windows]), flush=True)
"""


@measured
def window_ratio(runs: KernelRuns, lost: str, nth: int) -> float:
    """Ratio of the kernel's cwnd to the simulator's at the end of the `nth` burst (from 1), with newCWV."""
    kernel, ours = _of(runs)[lost]
    return kernel[nth - 1] / ours[nth - 1]


@measured
def retained_share(runs: KernelRuns, lost: str) -> float:
    """Smallest ratio of the kernel's cwnd after an idle period of 2 s to cwnd before it, with newCWV."""
    return runs.cached("kept windows", lambda: _retained(runs))[lost]


@measured
def kernel_traced(runs: KernelRuns) -> str:
    """CWV-S13: names of the columns of the agent's table that hold a sender's state at every event."""
    names = ("time_s", "cwnd_bytes", "ssthresh_bytes", "pipe_ack_bytes", "phase")
    table = _traced(runs)[0]
    # Before it, ssthresh is not known; pipeACK is not either until the next sample.
    later = slice(int(np.flatnonzero(table["kind"] == "recovered")[0]), None)
    known = {
        name: np.isfinite(table[name][later]) if name in NUMBERS else table[name][later] != ""
        for name in names
        if name in table
    }
    return ", ".join(name for name, values in known.items() if values.all())


@measured
def kernel_phases_around_silence(runs: KernelRuns) -> str:
    """CWV-S13: phases of newCWV in the kernel before and after its second idle period of 5 s."""
    table = _traced(runs)[0]
    before = _last_of_bursts(table)[1]
    assert table["kind"][before + 1] == "start", "a burst begins with its first packet"
    return f"{table['phase'][before]}, {table['phase'][before + 1]}"


@measured
def traced_over_simulated(runs: KernelRuns, column: str, nth: int) -> float:
    """CWV-S13: ratio of the kernel's value to the simulator's at the end of the `nth` burst (from 1).

    The column is cwnd_bytes or pipe_ack_bytes.
    """
    kernel, ours = (rows[column][_last_of_bursts(rows)[nth - 1]] for rows in _traced(runs))
    return float(kernel) / float(ours)


def read_windows(table: Path) -> Rows:
    """Returns the columns of an agent's table of windows; unknown values are NaN.

    Raises InputError if events of a connection are missing.
    """
    with table.open(encoding="utf-8", newline="") as opened:
        rows = list(csv.DictReader(opened))
    assert rows, "a connection by newCWV has events"
    texts = {name: [row[name] for row in rows] for name in rows[0]}
    counted = Counter[tuple[str, str]]()
    for connection in zip(texts["local_port"], texts["remote"], texts["event"], strict=True):
        if int(connection[2]) != counted[connection[:2]]:
            raise InputError(f"{table}: events of {connection[1]} are missing before {connection[2]}")
        counted[connection[:2]] += 1
    return {
        name: np.array([float(value or "nan") for value in column] if name in NUMBERS else column)
        for name, column in texts.items()
    }


def burst(
    control: str,
    sizes: Sequence[int],
    idle_s: float,
    *,
    sets_context: bool = False,
    capture: Path | None = None,
    windows: Path | None = None,
    **link_options: str | int | bool,
) -> list[list[int]]:
    """Sends bursts of these sizes from a server in the kernel and returns its cwnd, segments.

    The result has cwnd before and after the first segment of each response, and twice cwnd at the end. The
    measurement is repeated if the certificate of the link is red, as on a busy machine. `windows` is a file
    for the agent's table of windows.
    """
    # A transfer has so few packets that a single late one makes the certificate red; less than half a round
    # trip of lateness is harmless.
    tolerance = {"tolerance": f"{3 * DELAY_MS // 4}ms"}
    options = {"rate": RATE, "delay": f"{DELAY_MS}ms", "queue": QUEUE, **tolerance, **link_options}
    for _ in range(TRIES):
        with api.link(**options) as link:
            measured = _measure_behind(link, control, sizes, idle_s, sets_context, capture, windows)
        if link.certificate["verdict"] != "red":
            return measured
    raise InputError(f"linux: the certificate of the link was red {TRIES} times")


def simulated(tcp: dict[str, Any], sizes: Sequence[int], idle_s: float, loss: str = "none") -> Rows:
    """Returns the events of a simulated server with such bursts on the same path; all sizes are equal."""
    [size] = set(sizes)
    access = {"rate": "10Gbit", "delay": "0ms", "queue": "drop-tail:10000"}
    bottleneck = {"rate": RATE, "delay": f"{DELAY_MS}ms", "queue": QUEUE, "there": {"loss": loss}}
    scenario = {
        "id": "X",
        "title": "Bursts of one connection",
        "seeds": 1,
        "duration": "30s",
        "node": {
            "server": {"kind": "host", "processing": "none"},
            "router": {"kind": "router"},
            "client": {"kind": "host", "processing": "none"},
        },
        "link": {
            "near": {"from": "server", "to": "router", **access},
            "far": {"from": "router", "to": "client", **bottleneck},
        },
        "tcp": {"profile": "linux-6", **tcp},
        "traffic": {
            "web": {
                "kind": "tmix",
                "clients": "client",
                "servers": "server",
                "generate": {
                    "connections": 1,
                    "over": "1ms",
                    "epochs": f"constant:value={len(sizes)}",
                    "request_bytes": "constant:value=1",
                    "response_bytes": f"constant:value={size}",
                    "idle_s": f"constant:value={idle_s}",
                },
            }
        },
    }
    events = measures.select(api.run(scenario, tables=["events"]).tables["events"], 0)
    return where(events, events["end"] == "server")


def _traced(runs: KernelRuns) -> tuple[Rows, Rows]:
    """Returns the agent's table of a connection with silences of 5 s, and the simulator's ACKs of one."""

    def measure() -> tuple[Rows, Rows]:
        runs.require()
        sizes = [BURST_BYTES] * TRACED_BURSTS
        with tempfile.TemporaryDirectory(prefix="catnip-windows-") as folder:
            table = Path(folder) / "windows.csv"
            report = runs.progress.task("windows of newCWV at each event")
            burst("catnip_newcwv", sizes, TRACED_SILENCE_S, windows=table, up=f"loss={TRACED_LOSS}")
            kernel = read_windows(table)
        report(1, 1)
        events = simulated(NEW_CWV, sizes, TRACED_SILENCE_S, TRACED_LOSS)
        return kernel, where(events, events["kind"] == "ack")

    return runs.cached("traced windows", lambda: runs.parts.get("traced windows", measure))


def _last_of_bursts(rows: Rows) -> list[int]:
    """Returns the index of the last ACK before each silence, and of the last one."""
    acks = np.flatnonzero(rows["kind"] == "ack")
    pauses = np.flatnonzero(np.diff(rows["time_s"][acks]) > TRACED_SILENCE_S / 2)
    found = [*acks[pauses], acks[-1]]
    assert len(found) == TRACED_BURSTS, "silences are longer than round trips"
    return [int(at) for at in found]


def ends(events: Rows, count: int) -> list[float]:
    """Returns cwnd in segments at the end of each burst: at the last ACK before an idle period."""
    acks = where(events, events["kind"] == "ack")
    times, windows = acks["time_s"], acks["cwnd_bytes"] / SEGMENT
    last = np.append(np.flatnonzero(np.diff(times) > SILENCE_S / 4), len(times) - 1)
    assert len(last) == count, "silences are longer than round trips"
    return list(windows[last])


def _of(runs: KernelRuns) -> dict[str, tuple[list[float], list[float]]]:
    """Returns the kernel's and the simulator's cwnd at the end of each burst, by the loss case's name."""
    return runs.cached(
        "windows",
        lambda: {
            lost: (
                [float(before) for before, _ in windows[1:]],
                ends(simulated(NEW_CWV, [BURST_BYTES] * BURSTS, SILENCE_S, SCRIPTS[lost]), BURSTS),
            )
            for lost, windows in _scripted(runs).items()
        },
    )


def _retained(runs: KernelRuns) -> dict[str, float]:
    return {
        lost: min(after / before for before, after in windows[1:-1])
        for lost, windows in _scripted(runs).items()
    }


def _scripted(runs: KernelRuns) -> dict[str, list[list[int]]]:
    def measure() -> dict[str, list[list[int]]]:
        runs.require()
        report = runs.progress.task("windows of newCWV")
        sizes = [BURST_BYTES] * BURSTS
        jobs = {
            lost: partial(burst, "catnip_newcwv", sizes, SILENCE_S, up=f"loss={loss}")
            for lost, loss in SCRIPTS.items()
        }
        return runs.each("windows", jobs, SIDE_BY_SIDE, report)

    return runs.cached("scripted windows", measure)


def _measure_behind(
    link: Link,
    control: str,
    sizes: Sequence[int],
    idle_s: float,
    sets_context: bool,
    capture: Path | None,
    windows: Path | None,
) -> list[list[int]]:
    link.run(["sh", "-c", "echo 1 > /proc/sys/net/ipv4/tcp_no_metrics_save"], check=True)
    # Controllers registered by another agent do not receive the context set here.
    options = ["--controllers", "all"] if sets_context else []
    if windows:
        windows.unlink(missing_ok=True)
        options = ["--controllers", "all", "--windows", str(windows)]
    with agent_behind(link, "--device", device(link), "--mark", "none", *options):
        return _served(link, control, sizes, idle_s, sets_context, capture)


def _served(
    link: Link,
    control: str,
    sizes: Sequence[int],
    idle_s: float,
    sets_context: bool,
    capture: Path | None,
) -> list[list[int]]:
    source = str(Path(context.__file__).parents[1])
    command = [sys.executable, "-c", SERVER, source, control, "tells" if sets_context else "is silent"]
    pipe = subprocess.PIPE
    server = link.start(command, stdin=pipe, stdout=pipe, text=True)
    assert server.stdout is not None
    assert server.stdout.readline() == "ready\n", "the server does not listen"
    with capturing(link, capture) if capture else nullcontext():
        print(json.dumps(list(sizes)), file=server.stdin, flush=True)
        with socket.create_connection((link.inside, PORT), timeout=30) as connection:
            for at, size in enumerate(sizes):
                time.sleep(idle_s if at else 0)
                connection.sendall(b"x")
                remaining = size
                while remaining:
                    remaining -= len(connection.recv(min(remaining, 1 << 16)))
            time.sleep(0.2)
            connection.sendall(b"x")
            used, windows = json.loads(server.stdout.readline())
    assert used == control, "the kernel lacks the controller"
    server.communicate(timeout=10)
    return list(windows)

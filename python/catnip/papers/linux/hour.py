"""An hour of bursts by newCWV in this kernel over a lossy link: what breaks in it (CWV-S5)."""

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import numpy as np

from catnip import api
from catnip.api import Link
from catnip.papers.linux.runs import KernelRuns, agent_behind, device
from catnip.papers.quantity import Quantities

measured = Quantities()

PARTS, PART_S = 6, 600.0
CONTROLS = ("catnip_newcwv", "catnip_newcwv_p")
CONNECTIONS, BURSTS = 4, 10
"""Number of connections at a time with each controller, and of bursts until a connection is replaced."""
LINK: Mapping[str, str] = {
    "rate": "50Mbit",
    "delay": "20ms",
    "queue": "drop-tail:100",
    "loss": "gilbert-elliott:to_bad=0.002,to_good=0.25,loss_bad=1",
}
PORTS = {control: 8081 + at for at, control in enumerate(CONTROLS)}
PERIOD = 251
"""Length of the repeated pattern of a burst, whose first byte the client chooses."""
TROUBLE = re.compile(r"WARNING:|BUG:|Oops|refcount|use-after-free|general protection")
KERNEL_LOG = Path("/dev/kmsg")
SERVER = f"""
import socket, sys, threading
def serve(connection):
    with connection:
        while request := connection.recv(8, socket.MSG_WAITALL):
            first, size = request[0], int.from_bytes(request[1:], "big")
            pattern = bytes((first + at) % {PERIOD} for at in range({PERIOD}))
            connection.sendall((pattern * (size // {PERIOD} + 1))[:size])
with socket.create_server(("", int(sys.argv[2]))) as server:
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, sys.argv[1].encode())
    print("ready", flush=True)
    while True:
        threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
"""


@measured
def troubles_in_an_hour(runs: KernelRuns) -> str:
    """CWV-S5: number of kernel warnings, broken connections and bursts with a wrong byte in an hour."""
    return str(sum(troubles for troubles, _ in _hour(runs)))


@measured
def bursts_in_an_hour(runs: KernelRuns) -> str:
    """CWV-S5: number of bursts in that hour."""
    return str(sum(bursts for _, bursts in _hour(runs)))


def _hour(runs: KernelRuns) -> list[tuple[int, int]]:
    """Returns the numbers of troubles and of bursts of each part of the hour."""

    def measure() -> list[tuple[int, int]]:
        runs.require()
        report = runs.progress.task("an hour of newCWV")
        found = []
        for number in range(PARTS):
            seed = runs.first_seed + number
            found.append(runs.parts.get(("hour", seed), partial(part, seed, PART_S)))
            report(number + 1, PARTS)
        return found

    return runs.cached("hour", measure)


def part(seed: int, duration_s: float) -> tuple[int, int]:
    """Measures for a part of the hour and returns the numbers of troubles and of bursts.

    The certificate of the link is not read: what is late here is not wrong.
    """
    with _new_lines(KERNEL_LOG) as log, api.link(**LINK, seed=seed) as link:
        with agent_behind(link, "--device", device(link), "--mark", "none", "--controllers", "all"):
            for control, port in PORTS.items():
                _serve(link, control, port)
            until = time.monotonic() + duration_s
            with ThreadPoolExecutor(CONNECTIONS * len(CONTROLS)) as pool:
                clients = [
                    pool.submit(_fetch, link.inside, port, (seed, at, port), until)
                    for port in PORTS.values()
                    for at in range(CONNECTIONS)
                ]
                results = [client.result() for client in clients]
        complaints = sum(bool(TROUBLE.search(line)) for line in log())
    broken, bursts = (sum(column) for column in zip(*results, strict=True))
    return broken + complaints, bursts


def _serve(link: Link, control: str, port: int) -> None:
    command = [sys.executable, "-c", SERVER, control, str(port)]
    server = link.start(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    assert server.stdout.readline() == "ready\n", "the server does not listen"


def _fetch(address: str, port: int, seed: tuple[int, ...], until: float) -> tuple[int, int]:
    """Fetches bursts after silences until a time; returns the numbers of broken and of all bursts."""
    random = np.random.default_rng(seed)
    broken = bursts = 0
    while time.monotonic() < until:
        try:
            with socket.create_connection((address, port), timeout=60) as connection:
                for _ in range(BURSTS):
                    first, size = int(random.integers(PERIOD)), int(min(random.lognormal(9.9, 1.5), 1e6)) + 1
                    connection.sendall(bytes([first]) + size.to_bytes(7, "big"))
                    received = _received(connection, size)
                    places = np.arange(len(received), dtype=np.int64)
                    is_whole = len(received) == size
                    expected = (first + places % PERIOD) % PERIOD
                    is_right = np.array_equal(np.frombuffer(received, np.uint8), expected)
                    broken += not (is_whole and is_right)
                    bursts += 1
                    # Most silences are short; one in twenty outlasts the period over which pipeACK is kept.
                    time.sleep(5 if random.random() < 0.05 else random.exponential(0.3))
        except OSError:
            broken += 1
    return broken, bursts


def _received(connection: socket.socket, size: int) -> bytes:
    """Returns the next `size` bytes, fewer if the peer closes the connection."""
    parts = []
    while size and (read := connection.recv(min(size, 1 << 16))):
        parts.append(read)
        size -= len(read)
    return b"".join(parts)


@contextmanager
def _new_lines(log: Path) -> Iterator[Callable[[], list[str]]]:
    """Opens the kernel's log at its end; the returned function reads the lines that were added since."""

    def added() -> list[str]:
        lines = []
        with suppress(BlockingIOError):
            while True:
                try:
                    line = os.read(opened, 1 << 13)
                except BrokenPipeError:
                    # Lines were overwritten before they were read.
                    line = b"WARNING: lines of the log are missing"
                if not line:
                    break
                lines += line.decode(errors="replace").splitlines()
        return lines

    opened = os.open(log, os.O_RDONLY | os.O_NONBLOCK)
    try:
        os.lseek(opened, 0, os.SEEK_END)
        yield added
    finally:
        os.close(opened)

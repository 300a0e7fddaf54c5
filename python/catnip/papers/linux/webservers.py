"""Bursts that unmodified Web servers send by newCWV of this kernel after silences (CWV-S15)."""

import http.client
import tempfile
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from catnip import api
from catnip._core import InputError
from catnip.analysis import stats
from catnip.analysis.interval import Interval
from catnip.analysis.measures import Floats
from catnip.papers.linux.captures import serving
from catnip.papers.linux.runs import KernelRuns, agent_behind, device
from catnip.papers.linux.windows import (
    BURST_BYTES,
    BURSTS,
    DELAY_MS,
    NEW_CWV,
    QUEUE,
    RATE,
    SILENCE_S,
    TRIES,
    read_windows,
    simulated,
)
from catnip.papers.quantity import Quantities
from catnip.papers.rows import Rows
from catnip.testbed import site

measured = Quantities()

REPEATS = 5
"""Number of connections of a measurement."""
CONTROL = "catnip_newcwv"
Indices: TypeAlias = NDArray[Any]


@dataclass(frozen=True)
class Served:
    """Bursts that a Web server has sent over several connections."""

    times_s: Floats
    """Time from a request to its last byte at the client: a row per connection, a column per burst."""
    sent_s: Floats
    """Time from the first packet to the last ACK at the server by newCWV; empty with another control."""
    retained: float
    """Smallest ratio of cwnd after a silence to cwnd before it; NaN if the agent does not report windows."""


@measured
def served_over_simulated(runs: KernelRuns, server: str, nth: int) -> Interval:
    """Time of a Web server's `nth` burst (from 1) by newCWV of the kernel, over the simulator's."""
    ours_s = _simulated_s(runs)[nth - 1]
    return stats.mean(_of(runs, server, CONTROL).sent_s[:, nth - 1] / ours_s)


@measured
def served_retained(runs: KernelRuns, server: str) -> float:
    """Smallest ratio of a Web server's cwnd after an idle period of 2 s to cwnd before it, with newCWV."""
    return _of(runs, server, CONTROL).retained


@measured
def served_gain_pct(runs: KernelRuns, server: str) -> Interval:
    """Gain of newCWV of the kernel over its Reno, in the time of the bursts after silences, percent."""
    ours, reno = (_of(runs, server, control).times_s[:, 1:].mean(axis=1) for control in (CONTROL, "reno"))
    return stats.reduction_pct(ours, reno)


def _of(runs: KernelRuns, server: str, control: str) -> Served:
    def measure() -> Served:
        runs.require(server)
        report = runs.progress.task(f"bursts of {server}, {control}")
        served = _measured(server, control)
        report(1, 1)
        return served

    key = ("served", server, control)
    return runs.cached(key, lambda: runs.parts.get(key, measure))


def _measured(server: str, control: str) -> Served:
    """Measures again if the certificate of the link is red, as on a busy machine."""
    tolerance = f"{3 * DELAY_MS // 4}ms"
    for _ in range(TRIES):
        with (
            tempfile.TemporaryDirectory(prefix="catnip-webservers-") as name,
            api.link(rate=RATE, delay=f"{DELAY_MS}ms", queue=QUEUE, tolerance=tolerance) as link,
        ):
            folder = Path(name)
            link.run(["sh", "-c", "echo 1 > /proc/sys/net/ipv4/tcp_no_metrics_save"], check=True)
            table = folder / "windows.csv"
            options = ["--device", device(link), "--mark", "none", "--control", control]
            options += ["--controllers", "all", "--windows", str(table)]
            with agent_behind(link, *options), serving(link, server, folder):
                times_s = np.array([_fetched_s(link.inside) for _ in range(REPEATS)])
            if control == CONTROL:
                rows = read_windows(table)
                served = Served(times_s, sent_times_s(rows), retained(rows))
            else:
                served = Served(times_s, np.array([]), float("nan"))
        if link.certificate["verdict"] != "red":
            return served
    raise InputError(f"linux: the certificate of the link was red {TRIES} times")


def _fetched_s(address: str) -> list[float]:
    """Fetches bursts over one connection and returns their times, s."""
    connection = http.client.HTTPConnection(address, site.PORT, timeout=60)
    connection.connect()
    times_s = []
    for at in range(BURSTS):
        time.sleep(SILENCE_S if at else 0)
        began = time.monotonic()
        connection.request("GET", f"/{BURST_BYTES}")
        received = len(connection.getresponse().read())
        times_s.append(time.monotonic() - began)
        assert received == BURST_BYTES, "a response has the size of its file"
    # The ACK of the FIN is none of the last burst's.
    time.sleep(SILENCE_S)
    connection.close()
    return times_s


def sent_times_s(rows: Rows) -> Floats:
    """Returns the time from the first packet of each burst to its last ACK, s: a row per connection."""
    return np.array(
        [[rows["time_s"][burst[-1]] - rows["time_s"][burst[0]] for burst in of] for of in _bursts(rows)]
    )


def retained(rows: Rows) -> float:
    """Returns the smallest ratio of cwnd at a start after a silence to cwnd at the event before it."""
    cwnd = rows["cwnd_bytes"]
    return min(
        float(cwnd[after[0]] / cwnd[before[-1]]) for of in _bursts(rows) for before, after in pairwise(of)
    )


def _bursts(rows: Rows) -> list[list[Indices]]:
    """Returns the indices of the events of each burst, from its first packet on, by connection.

    A FIN that is acknowledged after a silence is no burst, and neither is a client that fetches nothing.
    """
    found = []
    for remote in np.unique(rows["remote"]):
        of = np.flatnonzero(rows["remote"] == remote)
        silences = np.flatnonzero(np.diff(rows["time_s"][of]) > SILENCE_S / 2) + 1
        bursts = [one for one in np.split(of, silences) if rows["kind"][one[0]] == "start"]
        if bursts:
            found.append(bursts)
    return found


def _simulated_s(runs: KernelRuns) -> list[float]:
    """Returns the time of each burst in the simulator, from its first packet to its last ACK, s."""

    def measure() -> list[float]:
        events = simulated(NEW_CWV, [BURST_BYTES] * BURSTS, SILENCE_S)
        times_s = events["time_s"][(events["kind"] == "send") | (events["kind"] == "ack")]
        pauses = np.flatnonzero(np.diff(times_s) > SILENCE_S / 2) + 1
        parts = np.split(times_s, pauses)
        assert len(parts) == BURSTS, "silences are longer than round trips"
        return [float(part[-1] - part[0]) for part in parts]

    return runs.cached("simulated bursts of a server", measure)

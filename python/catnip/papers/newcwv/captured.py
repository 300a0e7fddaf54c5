"""Quantities of bursts in packet captures (CWV-S17), found by the code that finds those of runs."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from catnip import _core
from catnip.analysis import stats
from catnip.analysis.interval import Interval
from catnip.analysis.measures import select
from catnip.base import paths
from catnip.papers.newcwv.runs import BurstRuns
from catnip.papers.quantity import Quantities
from catnip.papers.rows import Rows

measured = Quantities()

SCENARIO = "newcwv-short"
"""Scenario of five minutes of the paper's Web traffic, short enough for a capture."""
CLOSE_S = 1e-6
TIMES = ("start_s", "time_s")
SAME = ("first_byte", "bytes", "sent", "retransmitted", "number")


@measured
def bursts_of_capture_off(runs: BurstRuns, variant: str) -> str:
    """Number of bursts that a capture at the server and the table of bursts do not have in common.

    A burst is the same if its times and its idle period differ by less than 1 us, its bytes and packets
    not at all; each burst is the counterpart of at most one. The idle period before the first burst of a
    connection is left out: it counts from the opening, half a round trip earlier at the client.
    """
    captured, of_run = _both(runs, variant)
    runs.sample = len(of_run["start_s"])
    return str(off(captured, of_run))


@measured
def idle_above_pct(runs: BurstRuns, variant: str, idle_s: float) -> Interval:
    """Share of the bursts of a capture at the server that follow a longer silence, percent."""
    captured, _ = _both(runs, variant)
    return stats.share_pct(int((captured["idle_s"] > idle_s).sum()), len(captured["idle_s"]))


def off(one: Rows, other: Rows) -> int:
    """Returns the number of bursts of two tables that have no counterpart of their own in the other."""
    free = np.ones(len(other["start_s"]), dtype=bool)
    for at in range(len(one["start_s"])):
        alike = free.copy()
        for name in TIMES:
            alike &= np.abs(other[name] - one[name][at]) < CLOSE_S
        for name in SAME:
            alike &= other[name] == one[name][at]
        alike &= (other["number"] == 0) | (np.abs(other["idle_s"] - one["idle_s"][at]) < CLOSE_S)
        free[np.flatnonzero(alike)[:1]] = False
    alone = int(free.sum())
    return len(one["start_s"]) - (len(free) - alone) + alone


def _both(runs: BurstRuns, variant: str) -> tuple[Rows, Rows]:
    """Returns the ended bursts of a capture at the server and of the table of bursts, of one run."""
    return runs.cached(("captured", variant), lambda: _run(runs, variant))


def _run(runs: BurstRuns, variant: str) -> tuple[Rows, Rows]:
    scenario, seed = paths.scenario(SCENARIO), runs.first_seed
    report = runs.progress.task("a capture of a run")
    table = scenario.run([variant], [seed], ["bursts"], 0, None)["bursts"]
    report(1, 2)
    with tempfile.TemporaryDirectory(prefix="catnip-newcwv-") as folder:
        file = Path(folder) / "server.pcapng"
        scenario.write_logs(variant, seed, file, ["server"], None)
        captured, *_ = _core.read_bursts(file)
    report(2, 2)
    of_run = select(table, 0, "web")
    # Times of a capture count from its first packet, the opening of the first connection at the server.
    first = float(np.asarray(captured["start_s"]).min()) if len(captured["start_s"]) else 0.0
    shift = float(of_run["start_s"].min()) - first
    moved = {name: np.asarray(column) for name, column in captured.items()}
    moved["start_s"] = moved["start_s"] + shift
    return _ended(moved), _ended(of_run)


def _ended(rows: Mapping[str, Any]) -> Rows:
    ended = ~np.isnan(np.asarray(rows["time_s"]))
    return {name: np.asarray(column)[ended] for name, column in rows.items()}

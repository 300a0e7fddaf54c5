"""CWV-E14 and E15, beyond the paper: other responses to idle periods behind today's queues, and marks."""

import numpy as np

from catnip.analysis import bursts, measures, stats
from catnip.analysis.interval import Interval
from catnip.analysis.measures import Floats
from catnip.papers.newcwv.runs import BEYOND, Runs
from catnip.papers.quantity import Quantities

measured = Quantities()

QUEUES = {
    "drop tail": "drop-tail:30000B",
    "CATNIP-Good": "catnip-good:30000B",
    "CoDel": "codel:20",
    "FQ-CoDel": "fq-codel:20",
}
HOSTS = (
    "NewReno",
    "CUBIC",
    "ten segments, no restart",
    "newCWV",
    "newCWV, paced",
    "newCWV on CUBIC",
    "newCWV on CUBIC, paced",
)
MARKED = ("NewReno, marked", "newCWV", "newCWV, marked", "newCWV, paced", "newCWV, paced, marked")
REFERENCE = ("NewReno", "drop tail")
IDLE_S = 1


@measured
def gain_behind_pct(runs: Runs, host: str, queue: str, burst_kb: float) -> Interval:
    """Mean reduction of burst times relative to NewReno behind drop tail, percent.

    The bursts exceed `burst_kb` and follow idle periods of more than a second.
    """
    pairs = runs.pairs(BEYOND, variant(host, queue), variant(*REFERENCE)).within(1000 * burst_kb, IDLE_S)
    return bursts.gain(pairs, runs.seeds(BEYOND))


@measured
def marks_over_memory_points(runs: Runs, burst_kb: float, than: str) -> Interval:
    """CWV-E15: gain of newCWV with marks less that of the host `than`, percentage points.

    Both are behind CATNIP-Good; gains are those of `gain_behind_pct`.
    """
    one, other = (per_seed(runs, host, "CATNIP-Good", burst_kb) for host in ("newCWV, marked", than))
    return stats.paired_difference(one, other)


@measured
def marks_and_memory_points(runs: Runs, burst_kb: float) -> Interval:
    """CWV-E15: gain of newCWV with marks less the gains of marks alone and newCWV alone, percentage points.

    All are behind CATNIP-Good; gains are those of `gain_behind_pct`.
    """
    both, marks, memory = (
        per_seed(runs, host, "CATNIP-Good", burst_kb)
        for host in ("newCWV, marked", "NewReno, marked", "newCWV")
    )
    return stats.paired_difference(both, marks + memory)


@measured
def mean_time_s(runs: Runs, host: str, queue: str, burst_kb: float) -> Interval:
    """Mean time of bursts above a size that follow idle periods of more than a second, s."""
    rows = runs.bursts(BEYOND, variant(host, queue))
    chosen = (rows["bytes"] > 1000 * burst_kb) & (rows["idle_s"] > IDLE_S)
    times = [rows["time_s"][chosen & (rows["seed"] == seed)].mean() for seed in runs.seeds(BEYOND)]
    return stats.mean(times)


@measured
def ftp_behind_mbps(runs: Runs, host: str, queue: str) -> Interval:
    """Throughput of the file transfer beside a host's bursts behind a queue, Mbit/s."""
    known = runs.variants(BEYOND)
    rows = measures.select(runs.tables(BEYOND)["ports"], known.index(variant(host, queue)))
    here = {key: column[rows["port"] == "sink"] for key, column in rows.items()}
    return stats.mean(measures.per_seed(here, "delivered_bytes", runs.seeds(BEYOND)) * 8 / 3600 / 1e6)


def per_seed(runs: Runs, host: str, queue: str, burst_kb: float) -> Floats:
    """Returns the value of `gain_behind_pct` in each run."""
    pairs = runs.pairs(BEYOND, variant(host, queue), variant(*REFERENCE)).within(1000 * burst_kb, IDLE_S)
    seed, gains = pairs.reference["seed"], pairs.gain_pct
    return np.array([gains[seed == one].mean() for one in runs.seeds(BEYOND)])


def variant(host: str, queue: str) -> str:
    """Returns the name of the scenario's variant for a host and a queue."""
    return f"{host} / queue={QUEUES[queue]}"

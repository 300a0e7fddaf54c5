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
    """Mean gain over NewReno behind drop tail of bursts above a size after more than a second."""
    pairs = runs.pairs(BEYOND, variant(host, queue), variant(*REFERENCE)).within(1000 * burst_kb, IDLE_S)
    return bursts.gain(pairs, runs.seeds(BEYOND))


@measured
def marks_over_memory_points(runs: Runs, burst_kb: float, than: str) -> Interval:
    """CWV-E15: gain of newCWV with marks behind CATNIP-Good less that of another host there, points."""
    one, other = (per_seed(runs, host, "CATNIP-Good", burst_kb) for host in ("newCWV, marked", than))
    return stats.paired_difference(one, other)


@measured
def marks_and_memory_points(runs: Runs, burst_kb: float) -> Interval:
    """CWV-E15: gain of newCWV with marks less the sum of the gains of marks and of newCWV alone, points."""
    both, marks, memory = (
        per_seed(runs, host, "CATNIP-Good", burst_kb)
        for host in ("newCWV, marked", "NewReno, marked", "newCWV")
    )
    return stats.paired_difference(both, marks + memory)


@measured
def mean_time_s(runs: Runs, host: str, queue: str, burst_kb: float) -> Interval:
    """Mean time of bursts above a size after more than a second."""
    rows = runs.bursts(BEYOND, variant(host, queue))
    chosen = (rows["bytes"] > 1000 * burst_kb) & (rows["idle_s"] > IDLE_S)
    times = [rows["time_s"][chosen & (rows["seed"] == seed)].mean() for seed in runs.seeds(BEYOND)]
    return stats.mean(times)


@measured
def ftp_behind_mbps(runs: Runs, host: str, queue: str) -> Interval:
    """Throughput of the file transfer."""
    known = runs.variants(BEYOND)
    rows = measures.select(runs.tables(BEYOND)["ports"], known.index(variant(host, queue)))
    here = {key: column[rows["port"] == "sink"] for key, column in rows.items()}
    return stats.mean(measures.per_seed(here, "delivered_bytes", runs.seeds(BEYOND)) * 8 / 3600 / 1e6)


def per_seed(runs: Runs, host: str, queue: str, burst_kb: float) -> Floats:
    """Returns the mean gain over NewReno behind drop tail in each run, percent."""
    pairs = runs.pairs(BEYOND, variant(host, queue), variant(*REFERENCE)).within(1000 * burst_kb, IDLE_S)
    seed, gains = pairs.reference["seed"], pairs.gain_pct
    return np.array([gains[seed == one].mean() for one in runs.seeds(BEYOND)])


def variant(host: str, queue: str) -> str:
    """Returns the name of a host behind a queue in the scenario."""
    return f"{host} / queue={QUEUES[queue]}"

"""CWV-E14 and E15, beyond the paper: responses to idle periods, and marks, behind today's queues."""

from catnip.analysis import bursts, stats
from catnip.analysis.interval import Interval
from catnip.analysis.measures import Floats
from catnip.papers.newcwv import gains
from catnip.papers.newcwv.runs import BEYOND, BurstRuns
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
def gain_behind_pct(runs: BurstRuns, host: str, queue: str, burst_kb: float) -> Interval:
    """Mean reduction of burst times of a server `host` behind `queue`, percent.

    The reference is NewReno behind drop tail. The bursts are larger than `burst_kb` and follow idle periods
    of more than a second.
    """
    pairs = runs.pairs(BEYOND, variant(host, queue), variant(*REFERENCE)).within(1000 * burst_kb, IDLE_S)
    return bursts.gain(pairs, runs.seeds(BEYOND))


@measured
def marks_over_memory_points(runs: BurstRuns, burst_kb: float, than: str) -> Interval:
    """CWV-E15: gain of newCWV with marks minus the gain of the server `than`, percentage points.

    Both servers are behind CATNIP-Good; gains are those of `gain_behind_pct`.
    """
    one, other = (per_seed(runs, host, "CATNIP-Good", burst_kb) for host in ("newCWV, marked", than))
    return stats.paired_difference(one, other)


@measured
def marks_and_memory_points(runs: BurstRuns, burst_kb: float) -> Interval:
    """CWV-E15: gain of newCWV with marks minus the sum of the gains of newCWV and of marks alone, points.

    Marks alone are NewReno with marks. All servers are behind CATNIP-Good; gains are those of
    `gain_behind_pct`.
    """
    both, marks, memory = (
        per_seed(runs, host, "CATNIP-Good", burst_kb)
        for host in ("newCWV, marked", "NewReno, marked", "newCWV")
    )
    return stats.paired_difference(both, marks + memory)


@measured
def mean_time_s(runs: BurstRuns, host: str, queue: str, burst_kb: float) -> Interval:
    """Mean time of a server's bursts above a size that follow idle periods of more than a second, s."""
    rows = runs.bursts(BEYOND, variant(host, queue))
    chosen = (rows["bytes"] > 1000 * burst_kb) & (rows["idle_s"] > IDLE_S)
    times = [rows["time_s"][chosen & (rows["seed"] == seed)].mean() for seed in runs.seeds(BEYOND)]
    return stats.mean(times)


@measured
def ftp_behind_mbps(runs: BurstRuns, host: str, queue: str) -> Interval:
    """Throughput of the file transfer beside the bursts of a server behind a queue, Mbit/s."""
    return stats.mean(gains.throughput_mbps(runs, BEYOND, variant(host, queue)))


def per_seed(runs: BurstRuns, host: str, queue: str, burst_kb: float) -> Floats:
    """Returns the value of `gain_behind_pct` in each run."""
    return gains.per_seed(runs, BEYOND, variant(host, queue), burst_kb, IDLE_S, variant(*REFERENCE))


def variant(host: str, queue: str) -> str:
    """Returns the name of the variant of the scenario `BEYOND` for a server and a queue."""
    return f"{host} / queue={QUEUES[queue]}"

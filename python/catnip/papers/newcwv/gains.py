"""CWV-S9, S11, S12, E1, E6 to E9 and E11: HTTP bursts under each congestion control over three paths."""

import numpy as np

from catnip.analysis import bursts, measures, stats
from catnip.analysis.bursts import IDLE_S, SIZES_BYTES
from catnip.analysis.interval import Interval
from catnip.analysis.measures import Floats
from catnip.papers.newcwv.runs import FREE, NEW_CWV, NEW_RENO, PACED, SEGMENT, SHARED, BurstRuns
from catnip.papers.quantity import Quantities
from catnip.papers.rows import where

measured = Quantities()

SHORTEST_S, LONGEST_S = IDLE_S[0], IDLE_S[-1]
SMALLEST_KB, LARGEST_KB = SIZES_BYTES[0] // 1000, SIZES_BYTES[-1] // 1000
HOUR_S = 3600
ON_THE_WIRE = (SEGMENT + 52) / SEGMENT


@measured
def gain_pct(runs: BurstRuns, path: str, burst_kb: float, idle_s: float, variant: str = NEW_CWV) -> Interval:
    """Mean reduction of burst times relative to NewReno, percent.

    The bursts are larger than `burst_kb` and follow idle periods above `idle_s`.
    """
    return _gain_pct(runs, path, burst_kb, idle_s, variant)


@measured
def average_gain_pct(runs: BurstRuns, path: str, variant: str = NEW_CWV) -> Interval:
    """Mean of the gains per run over all classes of burst sizes and idle periods, percent."""
    each = [per_seed(runs, path, variant, size / 1000, idle) for size in SIZES_BYTES for idle in IDLE_S]
    return stats.mean(np.mean(each, axis=0))


@measured
def min_gain_pct(runs: BurstRuns, path: str, variant: str = NEW_CWV) -> Interval:
    """Smallest `gain_pct` over all classes of burst sizes and idle periods, percent."""
    return stats.least(_classes(runs, path, variant))


@measured
def greatest_gain_pct(runs: BurstRuns, path: str, variant: str = NEW_CWV) -> Interval:
    """Largest `gain_pct` over all classes of burst sizes and idle periods, percent."""
    return stats.greatest(_classes(runs, path, variant))


@measured
def large_over_small_points(runs: BurstRuns, path: str) -> Interval:
    """Gain of newCWV for bursts above 80 KB minus that for bursts above 5 KB, percentage points.

    Both follow idle periods of more than a second.
    """
    return _difference(runs, path, NEW_CWV, (LARGEST_KB, SHORTEST_S), (SMALLEST_KB, SHORTEST_S))


@measured
def long_over_short_points(runs: BurstRuns, path: str, burst_kb: float) -> Interval:
    """Gain of newCWV after idle periods above 15 s minus that after those above 1 s, percentage points."""
    return _difference(runs, path, NEW_CWV, (burst_kb, LONGEST_S), (burst_kb, SHORTEST_S))


@measured
def falls_with_size_points(runs: BurstRuns, path: str) -> Interval:
    """Fall of the gain from bursts above a size to those above a larger one, least of all cases, points."""
    steps = [[per_seed(runs, path, NEW_CWV, size / 1000, idle) for size in SIZES_BYTES] for idle in IDLE_S]
    return stats.least([stats.descent(sizes, stats.family(len(IDLE_S))) for sizes in steps])


@measured
def sooner_at_every_decile_s(runs: BurstRuns, path: str, variant: str = NEW_CWV) -> Interval:
    """CWV-E17: how much sooner bursts end than with NewReno, at the least favourable decile of times, s.

    The bursts are those above 5 KB after idle periods above a second. The curve of the times lies before that
    of NewReno at every decile if the result is above zero.
    """
    pairs = runs.pairs(path, variant).within(SIZES_BYTES[0], SHORTEST_S)
    seeds, deciles = runs.seeds(path), np.arange(0.1, 0.95, 0.1)
    seed = pairs.reference["seed"]
    theirs, ours = (
        np.array([np.quantile(rows["time_s"][seed == one], deciles) for one in seeds])
        for rows in (pairs.reference, pairs.other)
    )
    each = stats.family(len(deciles))
    return stats.least([stats.mean(sooner, each) for sooner in (theirs - ours).T])


@measured
def outside_figure(runs: BurstRuns, path: str, low: float, high: float) -> Interval:
    """CWV-E17: greatest distance of a class's gain from a figure's range of gains, `low` to `high` percent.

    The distance is a fraction: 0.15 is fifteen percentage points. It is 0 inside the range.
    """
    outside = [_distance(one, low, high) * 0.01 for one in _classes(runs, path, NEW_CWV)]
    return stats.greatest(outside)


@measured
def paced_over_unpaced_points(runs: BurstRuns, burst_kb: float, idle_s: float) -> Interval:
    """CWV-E9: gain of newCWV beside the file transfer with pacing minus that without pacing, points."""
    paced, unpaced = (per_seed(runs, SHARED, name, burst_kb, idle_s) for name in (PACED, NEW_CWV))
    return stats.paired_difference(paced, unpaced)


@measured
def gain_with_processing_points(runs: BurstRuns) -> Interval:
    """CWV-S8: gain of newCWV with hosts that take up to 20 us per packet minus that without, points.

    Bursts above 5 KB after idle periods of more than a second, beside the file transfer.
    """
    taken, usual = (per_seed(runs, path, NEW_CWV, 5, 1) for path in ("newcwv-processing", SHARED))
    return stats.paired_difference(taken, usual)


@measured
def loss_ratio(runs: BurstRuns, path: str, variant: str = NEW_CWV) -> Interval:
    """CWV-E7: ratio of the bursts' share of retransmitted segments to that with NewReno."""
    one, other = (_lost(runs, path, name) for name in (variant, NEW_RENO))
    return stats.ratio(one, other)


@measured
def loss_pct(runs: BurstRuns, path: str, variant: str) -> Interval:
    """Share of retransmissions among all segments of bursts, percent."""
    return stats.mean(100 * _lost(runs, path, variant))


@measured
def ftp_ratio(runs: BurstRuns, variant: str) -> Interval:
    """CWV-E11: ratio of the file transfer's goodput beside bursts of `variant` to that beside NewReno's."""
    return stats.ratio(ftp_mbps(runs, variant), ftp_mbps(runs, NEW_RENO))


@measured
def ftp_goodput_mbps(runs: BurstRuns, variant: str) -> Interval:
    """CWV-E11: goodput of the file transfer beside the bursts of `variant`, Mbit/s."""
    return stats.mean(ftp_mbps(runs, variant))


@measured
def web_kbps(runs: BurstRuns) -> Interval:
    """CWV-S9: mean rate of the Web servers' data, without retransmissions, kbit/s."""
    rows = runs.bursts(FREE, NEW_RENO)
    return stats.mean(measures.per_seed(rows, "bytes", runs.seeds(FREE)) * 8 / HOUR_S / 1e3)


@measured
def unpaired_per_mille(runs: BurstRuns, path: str, variant: str) -> float:
    """CWV-S9: bursts that occur with only one of NewReno and `variant`, per thousand that occur with both."""
    pairs = runs.pairs(path, variant)
    return 1e3 * pairs.unpaired / (2 * len(pairs.reference["seed"]))


@measured
def fewest_bursts(runs: BurstRuns) -> Interval:
    """CWV-S12: mean number of bursts per run in the rarest class: above 80 KB, after more than 15 s."""
    seed = runs.pairs(SHARED, NEW_CWV).within(1000 * LARGEST_KB, LONGEST_S).reference["seed"]
    return stats.mean([int((seed == one).sum()) for one in runs.seeds(SHARED)])


@measured
def silent_share_pct(runs: BurstRuns) -> Interval:
    """CWV-E1: share of idle time in the lifetime of connections with several bursts, percent.

    The path has no rate limit.
    """
    rows = runs.bursts(FREE, NEW_RENO)
    later = rows["number"] > 0
    shares = []
    for seed in runs.seeds(FREE):
        here = later & (rows["seed"] == seed)
        silent, sending = rows["idle_s"][here].sum(), rows["time_s"][here].sum()
        shares.append(100 * silent / (silent + sending))
    return stats.mean(shares)


def ftp_mbps(runs: BurstRuns, variant: str) -> Floats:
    """Returns the goodput of the file transfer in each run, Mbit/s."""
    return np.asarray(throughput_mbps(runs, SHARED, variant) / ON_THE_WIRE)


def throughput_mbps(runs: BurstRuns, path: str, variant: str) -> Floats:
    """Returns the throughput of the file transfer in each run, headers included, Mbit/s."""
    rows = measures.select(runs.tables(path)["ports"], runs.variants(path).index(variant))
    sink = where(rows, rows["port"] == "sink")
    return measures.per_seed(sink, "delivered_bytes", runs.seeds(path)) * 8 / HOUR_S / 1e6


def _classes(runs: BurstRuns, path: str, variant: str) -> list[Interval]:
    """Returns the gain of each class of sizes and idle periods, with intervals that hold all at once."""
    each = stats.family(len(SIZES_BYTES) * len(IDLE_S))
    return [
        _gain_pct(runs, path, size / 1000, idle, variant, each) for size in SIZES_BYTES for idle in IDLE_S
    ]


def _gain_pct(
    runs: BurstRuns, path: str, burst_kb: float, idle_s: float, variant: str, confidence: float = 0.95
) -> Interval:
    pairs = runs.pairs(path, variant).within(1000 * burst_kb, idle_s)
    return bursts.gain(pairs, runs.seeds(path), confidence)


def _distance(value: Interval, low: float, high: float) -> Interval:
    """Returns the distance of a value from a range."""
    ends = [max(low - end, end - high, 0.0) for end in (value.low, value.mean, value.high)]
    is_across = value.low <= high and low <= value.high
    return Interval(ends[1], 0.0 if is_across else min(ends), max(ends), value.n)


def _difference(
    runs: BurstRuns, path: str, variant: str, one: tuple[float, float], other: tuple[float, float]
) -> Interval:
    left, right = (per_seed(runs, path, variant, *which) for which in (one, other))
    return stats.paired_difference(left, right)


def per_seed(
    runs: BurstRuns, path: str, variant: str, burst_kb: float, idle_s: float, reference: str = NEW_RENO
) -> Floats:
    """Returns the mean gain of the bursts above a size and idle period in each run, percent."""
    pairs = runs.pairs(path, variant, reference).within(1000 * burst_kb, idle_s)
    seed, gains = pairs.reference["seed"], pairs.gain_pct
    return np.array([gains[seed == one].mean() for one in runs.seeds(path)])


def _lost(runs: BurstRuns, path: str, variant: str) -> Floats:
    rows = runs.bursts(path, variant)
    retransmitted, sent = (
        measures.per_seed(rows, name, runs.seeds(path)) for name in ("retransmitted", "sent")
    )
    return np.asarray(retransmitted / sent)

"""Quantities of CAT-E17, why marks help: timeouts, resets of the congestion window, and windows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from catnip.analysis import measures, stats
from catnip.analysis.interval import Interval
from catnip.analysis.measures import Floats
from catnip.papers.catnip.runs import VariantRuns
from catnip.papers.quantity import Quantities
from catnip.papers.reference import number
from catnip.papers.rows import where
from catnip.store.tables import Table

measured = Quantities()

SCENARIO = "catnip-e4"
SEGMENT_BYTES = number("catp09")


@dataclass(frozen=True)
class Windows:
    """Means over the transfers of each run, one element per run."""

    timeouts: Floats
    """Expiries of the retransmission timer per transfer."""
    resets: Floats
    """Expiries per transfer that reduce the congestion window to one segment, from a larger one."""
    cwnd_segments: Floats
    """Congestion window when a data packet is sent, mean over the packets."""
    cwnd_over_time_segments: Floats
    """Congestion window, mean over the time from first to last event of each transfer."""


@measured
def timeouts_ratio(runs: VariantRuns, variant: str, base: str) -> Interval:
    """CAT-E17: ratio of the retransmission timeouts per transfer to those with the variant `base`."""
    return _ratio(runs, variant, base, "timeouts")


@measured
def resets_ratio(runs: VariantRuns, variant: str, base: str) -> Interval:
    """CAT-E17: ratio of the resets to one segment per transfer to those with the variant `base`."""
    return _ratio(runs, variant, base, "resets")


@measured
def cwnd_ratio(runs: VariantRuns, variant: str, base: str) -> Interval:
    """CAT-E17: ratio of the mean congestion window of sent packets to that with the variant `base`."""
    return _ratio(runs, variant, base, "cwnd_segments")


@measured
def cwnd_over_time_ratio(runs: VariantRuns, variant: str, base: str) -> Interval:
    """CAT-E17: ratio of the mean congestion window over time to that with the variant `base`."""
    return _ratio(runs, variant, base, "cwnd_over_time_segments")


@measured
def per_hundred_transfers(runs: VariantRuns, variant: str, what: str) -> Interval:
    """CAT-E17: `timeouts` or `resets` per hundred transfers."""
    each: Floats = getattr(_of(runs)[variant], what)
    return stats.mean(100 * each)


@measured
def cwnd_segments(runs: VariantRuns, variant: str) -> Interval:
    """CAT-E17: mean congestion window when a data packet is sent, segments."""
    return stats.mean(_of(runs)[variant].cwnd_segments)


def _ratio(runs: VariantRuns, variant: str, base: str, what: str) -> Interval:
    ours, theirs = (getattr(_of(runs)[name], what) for name in (variant, base))
    return stats.ratio(ours, theirs)


def _of(runs: VariantRuns) -> Mapping[str, Windows]:
    seeds = runs.seeds(SCENARIO)

    def reduced(events: Table) -> Windows:
        return windows(events, seeds)

    return runs.cached(
        "windows", lambda: runs.run_each(SCENARIO, "events", reduced, seeds, "windows of transfers")
    )


def windows(events: Table, seeds: Sequence[int]) -> Windows:
    """Returns the means of each run, from the rows of the table `events` of one variant."""
    [rows] = measures.by_variant(events, 1)
    each = [_of_run(where(rows, rows["seed"] == seed)) for seed in seeds]
    return Windows(*(np.array(column, np.float64) for column in zip(*each, strict=True)))


def _of_run(rows: Mapping[str, np.ndarray[Any, Any]]) -> tuple[float, float, float, float]:
    mine = where(rows, rows["end"] == "server")
    order = np.lexsort((np.arange(len(mine["time_s"])), mine["connection"]))
    kind, connection = (mine[key][order] for key in ("kind", "connection"))
    time_s, cwnd = mine["time_s"][order], mine["cwnd_bytes"][order] / SEGMENT_BYTES
    transfers = len(np.unique(connection))
    expired = np.flatnonzero(kind == "rto")
    # The row of a timeout has the window after it, so the window before is that of the preceding row.
    before = cwnd[expired - 1]
    assert (connection[expired - 1] == connection[expired]).all(), "a timer runs only after a packet"
    resets = int((before > 1.5).sum())
    lasts_s = np.where(np.diff(connection) == 0, np.diff(time_s), 0.0)
    over_time = float((cwnd[:-1] * lasts_s).sum() / lasts_s.sum())
    return len(expired) / transfers, resets / transfers, float(cwnd[kind == "send"].mean()), over_time

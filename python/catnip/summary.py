"""What a reader asks first of any run: how its transfers fared, by traffic group, and what its links did."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from catnip import measures, stats
from catnip.interval import Interval
from catnip.measures import Floats
from catnip.survival import Estimate, Times
from catnip.tables import Table

_RUN = ("variant", "seed")
_COUNTED = [f"{what}_{colour}" for what in ("arrived", "dropped") for colour in ("high", "med", "low")]
TABLES: Mapping[str, Sequence[str]] = {
    "runs": (*_RUN, "hops"),
    "groups": (
        *(*_RUN, "group", "kind", "started", "finished", "connections", "goodput_mbps"),
        *("sent", "retransmitted", "timeouts", "rtt_mean_s", "rtt_samples", "fairness"),
    ),
    "transfers": (*_RUN, "group", "number", "time_s", "waited_s"),
    "ports": (*_RUN, "port", *_COUNTED, "utilization", "queue_mean_packets", "queue_delay_mean_s"),
}
"""Tables that a summary takes, and what of them."""
Rows: TypeAlias = Mapping[str, NDArray[Any]]
Read: TypeAlias = Callable[[str, int], Rows]
"""The rows of a table that a variant has, by its number."""

MEANS = {"pages": "page_time_s", "keystrokes": "echo_s", "transfers": "completed_s"}
"""What the mean time of each kind is called."""
POINTS = 400
"""Of a curve."""
QUANTILES = {"median_s": 0.5, "p95_s": 0.95, "p99_s": 0.99}
"""Told where there are enough transfers that some take longer."""


@dataclass(frozen=True)
class OfGroup:
    """The transfers of a traffic group over all seeds: pages, keystrokes, or connections."""

    kind: str
    """What they are: `pages`, `keystrokes` or `transfers`."""
    started: int
    finished: int
    """Before the end of the run. Times are those of these; where others are missing, the longest are."""
    means: Mapping[str, Interval]
    """Of finished ones, by measure; quantiles, where it is known how many take longer; and rates."""
    restricted_s: Interval | None = None
    """The mean of what a transfer takes or `horizon_s`, whichever is less, by Kaplan and Meier: what is known
    of those that have not finished counts, too. None where all have finished in all variants."""
    horizon_s: float = math.nan
    curve: tuple[Floats, Floats] = field(default=(np.zeros(0), np.zeros(0)), repr=False)
    """Times, ascending, and the share of transfers that take longer than each: enough for a drawing."""
    values: Mapping[str, Floats] = field(default_factory=dict, repr=False)
    """By measure, values that vary with the seeds and have its mean: one for each, or for a block of them."""

    @property
    def is_cut_short(self) -> bool:
        """The end of the run has kept some from finishing."""
        return self.finished < self.started

    def less(self, other: "OfGroup") -> dict[str, Interval]:
        """By measure, how much more this is than the other, seed by seed."""
        both = [key for key in self.values if key in other.values]
        made = {key: _paired(self.values[key], other.values[key]) for key in both}
        return {key: difference for key, difference in made.items() if difference is not None}


@dataclass(frozen=True)
class Summary:
    """Of one variant over its seeds."""

    groups: Mapping[str, OfGroup]
    links: Mapping[str, Mapping[str, Interval]]
    """By port, that is, by link and direction."""
    hops: int
    """Packets times the links that they have crossed."""

    def counts(self) -> tuple[int, int]:
        """Transfers finished and started, of all groups."""
        groups = self.groups.values()
        return sum(group.finished for group in groups), sum(group.started for group in groups)


def of_tables(
    tables: Mapping[str, Table], variants: Sequence[str], seeds: Sequence[int]
) -> dict[str, Summary]:
    """The same of whole tables."""
    parts = {name: measures.by_variant(tables[name], len(variants)) for name in TABLES}
    return summarize(lambda name, variant: parts[name][variant], variants, seeds)


def summarize(read: Read, variants: Sequence[str], seeds: Sequence[int]) -> dict[str, Summary]:
    """Each variant's groups and links; the seeds ascend. No more rows are in memory than one variant has."""
    horizons_s = _horizons_s(read, len(variants), seeds)
    return {
        name: Summary(
            _groups(read, variant, seeds, horizons_s),
            _links(read("ports", variant), seeds),
            int(read("runs", variant)["hops"].sum()),
        )
        for variant, name in enumerate(variants)
    }


def _horizons_s(read: Read, variants: int, seeds: Sequence[int]) -> dict[str, float]:
    """Of groups that are cut short in a variant: how long all variants are looked at, which is as long as
    something is known of each."""
    cut_short: set[str] = set()
    for variant in range(variants):
        groups = read("groups", variant)
        cut_short |= set(groups["group"][groups["finished"] < groups["started"]].tolist())
    made: dict[str, float] = {}
    longest_s = dict.fromkeys(cut_short, 0.0)
    for variant in range(variants) if cut_short else ():
        transfers = read("transfers", variant)
        for group in cut_short:
            times = _times(_of(transfers, "group", group), seeds)
            if len(times.waited_s):
                made[group] = min(made.get(group, math.inf), times.known_until_s())
                longest_s[group] = max(longest_s[group], float(times.waited_s[-1]))
    return {group: longest_s[group] if math.isinf(until_s) else until_s for group, until_s in made.items()}


def _groups(
    read: Read, variant: int, seeds: Sequence[int], horizons_s: Mapping[str, float]
) -> dict[str, OfGroup]:
    groups, transfers = read("groups", variant), read("transfers", variant)
    made = {}
    for name in dict.fromkeys(groups["group"].tolist()):
        rows, waits = _of(groups, "group", name), _of(transfers, "group", name)
        if rows["started"].any() or rows["connections"].any():
            made[str(name)] = _of_group(rows, waits, seeds, horizons_s.get(name, math.nan))
    return made


def _of_group(rows: Rows, waits: Rows, seeds: Sequence[int], horizon_s: float) -> OfGroup:
    kind = str(rows["kind"][0])
    values = _rates(rows, seeds)
    over = {key: column[~np.isnan(waits["time_s"])] for key, column in waits.items()}
    if len(over["time_s"]):
        mean = _page_means if kind == "pages" else _seed_means
        values[MEANS[kind]] = mean(over, seeds)
    means = {key: stats.mean(known) for key, of in values.items() if len(known := of[~np.isnan(of)])}
    times = _times(waits, seeds)
    for key, share in QUANTILES.items():
        enough = len(times.waited_s) * (1 - share) >= 1 - 1e-9
        if enough and (estimate := times.quantile(share)) is not None:
            means[key], values[key] = estimate.interval, estimate.values
    restricted: Estimate | None = None
    if not math.isnan(horizon_s) and len(times.waited_s):
        restricted = times.restricted_mean(horizon_s)
        values["restricted_s"] = restricted.values
    return OfGroup(
        kind,
        int(rows["started"].sum()),
        int(rows["finished"].sum()),
        means,
        restricted.interval if restricted else None,
        horizon_s,
        times.curve(POINTS),
        values,
    )


def _times(waits: Rows, seeds: Sequence[int]) -> Times:
    return Times.of(waits["waited_s"], ~np.isnan(waits["time_s"]), waits["seed"], seeds)


def _rates(rows: Rows, seeds: Sequence[int]) -> dict[str, Floats]:
    """What connections got of the network, whether they are over or not; of each seed."""
    place = np.searchsorted(np.asarray(seeds, dtype=np.uint64), rows["seed"])

    def by_seed(values: NDArray[Any]) -> Floats:
        made = np.full(len(seeds), np.nan)
        made[place] = values
        return made

    with np.errstate(divide="ignore", invalid="ignore"):  # a share of nothing is NaN
        made = {
            "goodput_mbps": by_seed(rows["goodput_mbps"]),
            "rtt_ms": by_seed(1e3 * rows["rtt_mean_s"]),
            "fairness": by_seed(rows["fairness"]),
            "retransmitted_pct": by_seed(100 * rows["retransmitted"] / rows["sent"]),
            "timeouts": by_seed(rows["timeouts"] / rows["connections"]),
        }
    return {key: values for key, values in made.items() if not np.isnan(values).all()}


def _seed_means(over: Rows, seeds: Sequence[int]) -> Floats:
    run = np.searchsorted(np.asarray(seeds, dtype=np.uint64), over["seed"])
    return _mean_by(run, over["time_s"], len(seeds))


def _page_means(over: Rows, seeds: Sequence[int]) -> Floats:
    """Of known pages each counts the same, as in the papers' averages; of drawn ones each fetch."""
    run = np.searchsorted(np.asarray(seeds, dtype=np.uint64), over["seed"])
    numbers, place = np.unique(over["number"], return_inverse=True)
    cells = run * len(numbers) + place
    each = _mean_by(cells, over["time_s"], len(seeds) * len(numbers)).reshape(len(seeds), len(numbers))
    here = ~np.isnan(each)
    # Runs that have fetched nothing say nothing.
    if here[here.any(axis=1)].all():
        return _mean_by(np.repeat(np.arange(len(seeds)), len(numbers)), each.ravel(), len(seeds))
    return _seed_means(over, seeds)


def _mean_by(cell: NDArray[np.intp], values: Floats, cells: int) -> Floats:
    with np.errstate(invalid="ignore"):  # the mean of nothing is NaN
        return np.asarray(np.bincount(cell, values, cells) / np.bincount(cell, minlength=cells))


def _paired(ours: Floats, theirs: Floats) -> Interval | None:
    if len(ours) != len(theirs):
        return None
    known = ~(np.isnan(ours) | np.isnan(theirs))
    return stats.paired_difference(ours[known], theirs[known]) if known.any() else None


def _of(rows: Rows, column: str, value: str) -> Rows:
    chosen = rows[column] == value
    return {key: values[chosen] for key, values in rows.items()}


def _links(ports: Rows, seeds: Sequence[int]) -> dict[str, dict[str, Interval]]:
    made = {}
    for name in dict.fromkeys(ports["port"].tolist()):
        here = _of(ports, "port", name)
        port = measures.loss_of(here, seeds)
        measured = {
            "utilization_pct": stats.mean(100 * measures.per_seed(here, "utilization", seeds)),
            "queue_packets": stats.mean(measures.per_seed(here, "queue_mean_packets", seeds)),
            "queue_delay_ms": stats.mean(1e3 * measures.per_seed(here, "queue_delay_mean_s", seeds)),
            "loss_pct": stats.mean(100 * port.loss),
        }
        if port.high_share.any():
            measured["high_share_pct"] = stats.mean(100 * port.high_share)
            measured["high_loss_pct"] = stats.mean(100 * port.high_loss)
            measured["low_loss_pct"] = stats.mean(100 * port.low_loss)
        made[str(name)] = measured
    return made

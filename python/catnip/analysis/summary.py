"""Summary of any run: transfers by traffic group, and the load of the links."""

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from catnip import _core
from catnip._core import Scenario
from catnip.analysis.interval import Interval
from catnip.analysis.stopping import widened
from catnip.store.tables import Column, Table

if TYPE_CHECKING:
    from catnip.store.runs import Progress

TABLES: Mapping[str, Sequence[str]] = _core.SUMMARY_TABLES
"""Columns that a summary needs of each results table, by the name of the table."""
QUANTILES: Sequence[str] = _core.QUANTILES
"""Names of the measures that are quantiles; a quantile is absent if too few transfers take longer."""
BUSY = "busy_goodput_mbps"
"""Measure of whole tables only: the goodput of users while they have an activity."""
ALIKE_WITHIN = 1e-3
Read: TypeAlias = Callable[[str, int], Mapping[str, Column]]
"""Function that returns the columns of a results table for one variant, given the table's name and the
variant's index."""


@dataclass(frozen=True)
class GroupSummary:
    """Transfers of a traffic group over all seeds: pages, keystrokes, or connections."""

    kind: str
    """Kind of the transfers: `pages`, `keystrokes` or `transfers`."""
    started: int
    finished: int
    """Number of transfers finished before the end of the run. Means exclude unfinished transfers, which take
    longer."""
    means: Mapping[str, Interval]
    """Means over the finished transfers, quantiles if known, and rates, each by the name of its measure."""
    restricted_s: Interval | None = None
    """Restricted mean transfer time, s: each time counts as at most `horizon_s`, and unfinished transfers
    count by the method of Kaplan and Meier. None if all transfers of all variants have finished."""
    horizon_s: float = math.nan
    curve: tuple[Sequence[float], Sequence[float]] = field(default=((), ()), repr=False)
    """Survival curve for drawing: ascending times, and the share of transfers that take longer than each."""
    band: tuple[Sequence[float], Sequence[float]] = field(default=((), ()), repr=False)
    """Ends of the pointwise 95 % intervals of the curve at its points; NaN for a single seed."""
    values: Mapping[str, Sequence[float]] = field(default_factory=dict, repr=False)
    """Values by measure, one for each seed or block of seeds; the mean of these values is that in `means`."""
    seeds: int = 0
    """Number of seeds of the variant."""
    confidence: float = 0.95
    """Confidence of the intervals, higher if they are those of one of several looks
    (`catnip.analysis.stopping`)."""
    milestones: Mapping[str, "GroupSummary"] = field(default_factory=dict, repr=False)
    """Times until each milestone of recorded pages, by its name in the table `loads`, as those of a group;
    empty for other groups, and if that table was not made (`catnip.analysis.milestones`)."""

    @property
    def is_cut_short(self) -> bool:
        """True if the end of the run kept some transfers from finishing."""
        return self.finished < self.started

    @property
    def is_alike(self) -> bool:
        """True if all transfers of several runs take the same time to a tenth of a percent.

        The runs are then one replicate, whatever their number, and the spread of their means says nothing.
        """
        times_s = self.curve[0]
        is_repeated = len(times_s) > 0 and self.finished > 1 and any(one.n > 1 for one in self.means.values())
        return is_repeated and not self.is_cut_short and times_s[-1] <= (1 + ALIKE_WITHIN) * times_s[0]

    def less(self, other: "GroupSummary") -> dict[str, Interval]:
        """Returns this group's measures minus those of the other group, by measure and paired by seed."""
        both = (key for key in self.values if key in other.values)
        paired = {key: _core.paired_difference(self.values[key], other.values[key]) for key in both}
        less = {key: Interval(*difference) for key, difference in paired.items() if difference is not None}
        less |= {
            key: Interval(one.mean, math.nan, math.nan, one.n)
            for key, one in less.items()
            if any(math.isnan(of.means[key].low) for of in (self, other) if key in of.means)
        }
        return {key: widened(one, self.confidence) for key, one in less.items()}

    @property
    def main(self) -> str:
        """Name of the measure that matters most: the restricted mean, the mean time, or goodput."""
        known = {**self.means, **({} if self.restricted_s is None else {"restricted_s": self.restricted_s})}
        return next(key for key in ("restricted_s", *_core.TRANSFER_TIMES, "goodput_mbps") if key in known)

    def of_look(self, confidence: float) -> "GroupSummary":
        """Returns the summary with the confidence of one of several looks."""
        means = {key: widened(one, confidence) for key, one in self.means.items()}
        restricted_s = None if self.restricted_s is None else widened(self.restricted_s, confidence)
        milestones = {name: one.of_look(confidence) for name, one in self.milestones.items()}
        return replace(
            self, means=means, restricted_s=restricted_s, confidence=confidence, milestones=milestones
        )


@dataclass(frozen=True)
class Summary:
    """Summary of the runs of one variant over all seeds."""

    groups: Mapping[str, GroupSummary]
    links: Mapping[str, Mapping[str, Interval]]
    """Measures of each port, that is, of one direction of a link, by the port's name."""
    hops: int
    """Packet-hops: number of links crossed, summed over all packets."""

    def of_look(self, confidence: float) -> "Summary":
        """Returns the summary with the confidence of one of several looks."""
        groups = {name: group.of_look(confidence) for name, group in self.groups.items()}
        links = {
            port: {key: widened(one, confidence) for key, one in measures.items()}
            for port, measures in self.links.items()
        }
        return replace(self, groups=groups, links=links)

    def counts(self) -> tuple[int, int]:
        """Returns the number of finished transfers and the number of started transfers of all groups."""
        groups = self.groups.values()
        return sum(group.finished for group in groups), sum(group.started for group in groups)


def of_runs(
    scenario: Scenario,
    variants: Sequence[str],
    seeds: Sequence[int],
    threads: int = 0,
    progress: "Progress | None" = None,
) -> dict[str, Summary]:
    """Executes all runs and returns the summary of each variant; keeps no tables. Raises InputError."""
    summaries = _core.summarize_runs(scenario, list(variants), list(seeds), threads, progress)
    return _by_name(variants, summaries, [len(seeds)] * len(variants))


def of_tables(
    tables: Mapping[str, Table],
    variants: Sequence[str],
    seeds: Sequence[int],
    counts: Sequence[int] | None = None,
) -> dict[str, Summary]:
    """Returns the summary of each variant from whole results tables, whose rows are ordered by variant.

    `counts` is as in `summarize`.
    """
    needed = {name: {key: tables[name][key] for key in columns} for name, columns in TABLES.items()}
    if counts is not None:
        return summarize(partial(rows_of, needed), variants, seeds, counts)
    summaries = _core.summarize_tables(needed, len(variants), list(seeds))
    return _by_name(variants, summaries, [len(seeds)] * len(variants))


def summarize(
    read: Read, variants: Sequence[str], seeds: Sequence[int], counts: Sequence[int] | None = None
) -> dict[str, Summary]:
    """Returns the summary of each variant. The seeds must ascend; `read` is called variant by variant.

    With `counts`, each variant has the first of the seeds only, in this number.
    """
    numbers = [len(seeds)] * len(variants) if counts is None else list(counts)
    return _by_name(variants, _core.summarize(read, numbers, list(seeds)), numbers)


def rows_of(tables: Mapping[str, Table], name: str, variant: int) -> dict[str, Column]:
    """Returns the rows of a variant in a table that is ordered by variant."""
    columns = tables[name]
    first, end = (bisect_left(columns["variant"], one) for one in (variant, variant + 1))
    return {key: column[first:end] for key, column in columns.items() if key != "variant"}


def _by_name(
    variants: Sequence[str], summaries: Sequence[Mapping[str, Any]], counts: Sequence[int]
) -> dict[str, Summary]:
    numbered = zip(variants, summaries, counts, strict=True)
    return {name: _summary(**of, seeds=count) for name, of, count in numbered}


def _summary(groups: Mapping[str, Any], links: Mapping[str, Any], hops: int, seeds: int) -> Summary:
    return Summary(
        {name: _of_group(**of, seeds=seeds) for name, of in groups.items()},
        {port: _intervals(link) for port, link in links.items()},
        hops,
    )


def _of_group(means: Mapping[str, Any], restricted_s: tuple[Any, ...] | None, **of: Any) -> GroupSummary:
    restricted = None if restricted_s is None else Interval(*restricted_s)
    return GroupSummary(means=_intervals(means), restricted_s=restricted, **of)


def _intervals(means: Mapping[str, Any]) -> dict[str, Interval]:
    return {key: Interval(*value) for key, value in means.items()}

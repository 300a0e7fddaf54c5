"""What a reader asks first of any run: how its transfers fared, by traffic group, and what its links did."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from catnip import _core
from catnip._core import Scenario
from catnip.analysis.interval import Interval
from catnip.store.tables import Column, Table

if TYPE_CHECKING:
    from catnip.store.runs import Progress

TABLES: Mapping[str, Sequence[str]] = _core.SUMMARY_TABLES
"""Tables that a summary takes, and what of them."""
QUANTILES: Sequence[str] = _core.QUANTILES
"""Measures that are told where there are enough transfers that some take longer."""
Read: TypeAlias = Callable[[str, int], Mapping[str, Column]]
"""Columns of the rows of a table that a variant has, by its number."""


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
    curve: tuple[Sequence[float], Sequence[float]] = field(default=((), ()), repr=False)
    """Times, ascending, and the share of transfers that take longer than each: enough for a drawing."""
    values: Mapping[str, Sequence[float]] = field(default_factory=dict, repr=False)
    """By measure, values that vary with the seeds and have its mean: one for each, or for a block of them."""

    @property
    def is_cut_short(self) -> bool:
        """The end of the run has kept some from finishing."""
        return self.finished < self.started

    def less(self, other: "OfGroup") -> dict[str, Interval]:
        """By measure, how much more this is than the other, seed by seed."""
        both = (key for key in self.values if key in other.values)
        paired = {key: _core.paired_difference(self.values[key], other.values[key]) for key in both}
        return {key: Interval(*difference) for key, difference in paired.items() if difference is not None}


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


def of_runs(
    scenario: Scenario,
    variants: Sequence[str],
    seeds: Sequence[int],
    threads: int = 0,
    progress: "Progress | None" = None,
) -> dict[str, Summary]:
    """Does all runs, of which nothing is kept but this. Raises InputError."""
    made = _core.summarize_runs(scenario, list(variants), list(seeds), threads, progress)
    return _by_name(variants, made)


def of_tables(
    tables: Mapping[str, Table], variants: Sequence[str], seeds: Sequence[int]
) -> dict[str, Summary]:
    """Of whole tables, whose rows are in the order of variants."""
    needed = {name: {key: tables[name][key] for key in columns} for name, columns in TABLES.items()}
    return _by_name(variants, _core.summarize_tables(needed, len(variants), list(seeds)))


def summarize(read: Read, variants: Sequence[str], seeds: Sequence[int]) -> dict[str, Summary]:
    """Each variant's groups and links; the seeds ascend. No more rows are in memory than one variant has."""
    return _by_name(variants, _core.summarize(read, len(variants), list(seeds)))


def _by_name(variants: Sequence[str], made: Sequence[Mapping[str, Any]]) -> dict[str, Summary]:
    return {name: _summary(**of) for name, of in zip(variants, made, strict=True)}


def _summary(groups: Mapping[str, Any], links: Mapping[str, Any], hops: int) -> Summary:
    return Summary(
        {name: _of_group(**of) for name, of in groups.items()},
        {port: _intervals(link) for port, link in links.items()},
        hops,
    )


def _of_group(means: Mapping[str, Any], restricted_s: tuple[Any, ...] | None, **of: Any) -> OfGroup:
    restricted = None if restricted_s is None else Interval(*restricted_s)
    return OfGroup(means=_intervals(means), restricted_s=restricted, **of)


def _intervals(means: Mapping[str, Any]) -> dict[str, Interval]:
    return {key: Interval(*value) for key, value in means.items()}

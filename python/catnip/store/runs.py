"""Execution of runs in batches whose tables are stored, so that an interrupted call can resume."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from catnip._core import Scenario
from catnip.store.tables import CodedTable

if TYPE_CHECKING:
    from catnip.store.points import Points

Progress: TypeAlias = Callable[[int, int], None]

PART_S = 3.0
"""Approximate duration of a batch, s; an interruption loses at most one batch."""
BLOCK = 16
"""Largest number of consecutive variants of a share: their rows are read together later."""


@dataclass(frozen=True)
class Request:
    """Scenario of some runs, its variants, and the tables to fill."""

    scenario: Scenario
    variants: Sequence[str]
    tables: Sequence[str]
    series: str | None = None
    """Interval of time series; None if there are none."""
    threads: int = 0


@dataclass(frozen=True)
class Rule:
    """When a variant has enough seeds."""

    looks: Sequence[int]
    """Numbers of seeds after which is looked, in ascending order."""
    base_of: Mapping[int, int]
    """Variant with which a variant is compared; it gets as many seeds as the one that needs most."""
    is_settled: "Callable[[Points, int, int], bool]"
    """Returns true if a variant, given by its index, is settled by its first seeds, given by their number.
    The rows of these seeds are stored, those of its base, too."""
    is_judged: Callable[[int], bool]
    """Returns false for a variant that has enough seeds as soon as all others have."""


def all_seeds(count: int) -> Rule:
    """Returns the rule by which every variant gets `count` seeds."""
    return Rule([count], {}, lambda *_: True, lambda _: True)


def complete(
    points: "Points",
    request: Request,
    counts: Mapping[int, int],
    report: Callable[[int], None] = lambda _: None,
    executor: "Executor | None" = None,
) -> None:
    """Executes the runs that are not yet stored, by default on threads of this process.

    `counts` has the number of seeds of each variant, by its index. `report` receives the number of runs that
    are done, those that were stored before included.
    """
    points.look()
    gaps = {variant: points.missing(variant, count) for variant, count in counts.items()}
    pending = Pending((variant, first, end) for variant, of in gaps.items() for first, end in of)
    done = sum(counts.values()) - pending.runs
    report(done)
    if not pending.runs:
        return

    def add(task: Task, tables: Mapping[str, CodedTable]) -> None:
        nonlocal done
        points.add(task.variants, task.first, task.end, tables)
        done += task.runs

    (executor or Threads()).execute(request, pending, add, lambda within: report(done + within))


@dataclass(frozen=True)
class Task:
    """Runs that are executed together: variants with the seeds `first` to `end - 1`."""

    variants: tuple[int, ...]
    first: int
    end: int

    @property
    def runs(self) -> int:
        """Number of runs."""
        return len(self.variants) * (self.end - self.first)


class Pending:
    """Runs that are still to be executed: variants, each with a range of seeds, in order."""

    def __init__(self, gaps: Iterable[tuple[int, int, int]]) -> None:
        self._gaps = list(gaps)
        self._gaps.reverse()
        self.runs = sum(end - first for _, first, end in self._gaps)
        """Number of runs that have not been taken."""

    def take(self, size: int) -> Task | None:
        """Takes about `size` runs: variants with the same seeds, or some seeds of one variant."""
        if not self._gaps:
            return None
        variant, first, end = self._gaps.pop()
        if end - first > size:
            self._gaps.append((variant, first + size, end))
            task = Task((variant,), first, first + size)
        else:
            variants = [variant]
            while self._gaps and self._gaps[-1][1:] == (first, end) and len(variants) < size // (end - first):
                variants.append(self._gaps.pop()[0])
            task = Task(tuple(variants), first, end)
        self.runs -= task.runs
        return task


class Executor(Protocol):
    """Executor of runs: threads of this process, or workers elsewhere."""

    def execute(
        self,
        request: Request,
        pending: Pending,
        add: "Callable[[Task, Mapping[str, CodedTable]], None]",
        report: Callable[[int], None],
    ) -> None:
        """Executes what is pending, and calls `add` with the tables of each task.

        `report` receives the number of runs that are done but in no finished task.
        """
        ...


class Threads:
    """Threads of this process, on all of which the runs of one task after the other are executed."""

    def execute(
        self,
        request: Request,
        pending: Pending,
        add: "Callable[[Task, Mapping[str, CodedTable]], None]",
        report: Callable[[int], None],
    ) -> None:
        """Implements `Executor`."""
        size = 4 * (request.threads or os.cpu_count() or 1)
        while task := pending.take(size):
            began_s = perf_counter()
            tables = request.scenario.run(
                [request.variants[variant] for variant in task.variants],
                list(range(task.first, task.end)),
                list(request.tables),
                request.threads,
                lambda done, _: report(done),
                request.series,
                coded=True,
            )
            add(task, tables)
            size = next_size(size, perf_counter() - began_s)


def next_size(size: int, seconds: float) -> int:
    """Returns the number of runs that take about `PART_S`, after `size` runs have taken `seconds`."""
    return max(1, round(size * min(4.0, PART_S / max(seconds, 1e-3))))


def carry_out(
    points: "Points",
    request: Request,
    share: Sequence[int],
    rule: Rule,
    report: Callable[[int, int], None],
    executor: "Executor | None" = None,
) -> None:
    """Executes the runs of a share of the variants until the rule is satisfied for each of them.

    The rows of a base that another share has not yet stored are made here, too.
    """

    def fill(counts: Mapping[int, int], total: int) -> None:
        complete(points, request, counts, lambda done: report(min(done, total), total), executor)

    active = list(share)
    for look in rule.looks:
        wanted = {variant: look for variant in active}
        wanted |= {rule.base_of[variant]: look for variant in active if variant in rule.base_of}
        fill(dict(sorted(wanted.items())), len(share) * look)
        active = [
            variant
            for variant in active
            if rule.is_judged(variant)
            and not (look < rule.looks[-1] and rule.is_settled(points, variant, look))
        ]


def settled(points: "Points", variants: int, rule: Rule) -> list[int] | None:
    """Returns the number of seeds that the rule gives each variant; None if runs are missing."""
    points.look()
    counts = [rule.looks[0]] * variants
    if any(points.missing(variant, rule.looks[0]) for variant in range(variants)):
        return None
    active = [variant for variant in range(variants) if rule.is_judged(variant)]
    for look, following in zip(rule.looks, rule.looks[1:], strict=False):
        active = [variant for variant in active if not rule.is_settled(points, variant, look)]
        for variant in active:
            for of in (variant, rule.base_of.get(variant, variant)):
                counts[of] = following
                if points.missing(of, following):
                    return None
    return counts


def share_of(variants: int, number: int, shares: int) -> list[int]:
    """Returns the variants of share `number`, from 1 to `shares`: blocks of consecutive ones, in turn."""
    block = max(1, min(BLOCK, variants // (4 * shares)))
    return [variant for variant in range(variants) if variant // block % shares == number - 1]


def axes_of(scenario: Scenario, variants: Sequence[str]) -> dict[str, list[Any]]:
    """Returns the axes of some variants of a scenario: keys that vary, with a value for each variant."""
    position = {name: index for index, name in enumerate(scenario.variants)}
    indices = [position[name] for name in variants]
    return {key: [values[index] for index in indices] for key, values in scenario.axes.items()}

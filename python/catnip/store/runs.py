"""Execution of runs in batches whose tables are stored, so that an interrupted call can resume."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from catnip._core import Scenario
from catnip.store.tables import CodedTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

Progress: TypeAlias = Callable[[int, int], None]
Rows: TypeAlias = "dict[str, NDArray[Any]]"

PART_S = 3.0
"""Approximate duration of a batch, s; an interruption loses at most one batch."""


class RunStore(Protocol):
    """Interface of a store for the tables of finished runs, which are ordered by variant and seed."""

    def done(self) -> int:
        """Returns the number of runs whose tables are stored."""
        ...

    def store(self, tables: Mapping[str, CodedTable], variant: int, first: int, end: int) -> None:
        """Stores tables of the runs `first` to `end - 1`; `variant` is the index of their first variant."""
        ...

    def rows(self, table: str, columns: Sequence[str], variant: int) -> Rows:
        """Returns the columns of a stored table for the variant with this index."""
        ...


def complete(
    stored: RunStore,
    scenario: Scenario,
    variants: Sequence[str],
    seeds: Sequence[int],
    tables: Sequence[str],
    *,
    threads: int = 0,
    every: str | None = None,
    progress: Progress | None = None,
) -> None:
    """Executes the runs that are not yet in `stored`, in batches; `every` is the interval of time series."""
    total = len(variants) * len(seeds)
    size = 4 * (threads or os.cpu_count() or 1)
    while (done := stored.done()) < total:
        variant, seed = divmod(done, len(seeds))
        if seed == 0 and size >= len(seeds):
            some, of = variants[variant : variant + size // len(seeds)], seeds
        else:
            some, of = variants[variant : variant + 1], seeds[seed : seed + size]
        began_s = perf_counter()
        report = partial(_shifted, progress, done, total) if progress else None
        results = scenario.run(list(some), list(of), list(tables), threads, report, every, coded=True)
        stored.store(results, variant, done, done + len(some) * len(of))
        size = max(1, round(size * min(4.0, PART_S / max(perf_counter() - began_s, 1e-3))))


def axes_of(scenario: Scenario, variants: Sequence[str]) -> dict[str, list[Any]]:
    """Returns the axes of some variants of a scenario: keys that vary, with a value for each variant."""
    indices = [scenario.variants.index(name) for name in variants]
    return {key: [values[index] for index in indices] for key, values in scenario.axes.items()}


def _shifted(progress: Progress, before: int, total: int, done: int, _of: int) -> None:
    progress(before + done, total)

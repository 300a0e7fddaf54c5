"""Does runs a few at a time. What is done is kept, on disk or as far as it is needed: no more is there."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from catnip._core import Scenario
from catnip.store.tables import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

Progress: TypeAlias = Callable[[int, int], None]
Rows: TypeAlias = "dict[str, NDArray[Any]]"

PART_S = 3.0
"""About so long a run goes on before what it has done is safe."""


class Keeper(Protocol):
    """Where the tables of runs are, which follow each other by variant and seed."""

    def done(self) -> int:
        """How many runs there are."""
        ...

    def keep(self, made: Mapping[str, Table], variant: int, first: int, end: int) -> None:
        """Keeps the tables of the runs from `first` to before `end`; their first variant has this number."""
        ...

    def rows(self, table: str, columns: Sequence[str], variant: int) -> Rows:
        """Some columns of a table, of the variant with this number."""
        ...


def complete(
    keeper: Keeper,
    scenario: Scenario,
    variants: Sequence[str],
    seeds: Sequence[int],
    tables: Sequence[str],
    *,
    threads: int = 0,
    every: str | None = None,
    progress: Progress | None = None,
) -> None:
    """Does the runs that are missing; `every` is the interval of time series."""
    total = len(variants) * len(seeds)
    size = 4 * (threads or os.cpu_count() or 1)
    while (done := keeper.done()) < total:
        variant, seed = divmod(done, len(seeds))
        if seed == 0 and size >= len(seeds):
            some, of = variants[variant : variant + size // len(seeds)], seeds
        else:
            some, of = variants[variant : variant + 1], seeds[seed : seed + size]
        began_s = perf_counter()
        told = partial(_shifted, progress, done, total) if progress else None
        made = scenario.run(list(some), list(of), list(tables), threads, told, every)
        keeper.keep(made, variant, done, done + len(some) * len(of))
        size = max(1, round(size * min(4.0, PART_S / max(perf_counter() - began_s, 1e-3))))


def axes_of(scenario: Scenario, variants: Sequence[str]) -> dict[str, list[Any]]:
    """In what these variants of a scenario differ."""
    places = [scenario.variants.index(name) for name in variants]
    return {key: [values[place] for place in places] for key, values in scenario.axes.items()}


def _shifted(progress: Progress, before: int, total: int, done: int, _of: int) -> None:
    progress(before + done, total)

"""Runs of a paper's scenarios: their seeds, their cost, and results that quantities share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import numpy as np

from catnip.base import paths
from catnip.base.progress import Progress
from catnip.store.tables import Table

Made = TypeVar("Made")


@dataclass
class Campaign:
    """Executor of a paper's scenarios on demand; all variants of a scenario have the same seeds."""

    quick: bool
    seed_count: int | None
    """Number of seeds in place of the scenario's usual number."""
    first_seed: int
    progress: Progress
    sample: int = 1
    """Sample size since the last reset: the largest number of seeds of a requested scenario."""
    _kept: dict[object, tuple[Any, int]] = field(default_factory=dict)
    _costs: list[tuple[str, int, float]] = field(default_factory=list)

    def usual_seeds(self, name: str) -> int:
        """Returns the number of seeds of a scenario if the caller gives none."""
        raise NotImplementedError(name)

    def seeds(self, name: str) -> list[int]:
        """Returns the seeds of the runs of a scenario."""
        return list(range(self.first_seed, self.first_seed + (self.seed_count or self.usual_seeds(name))))

    def kept(self, key: object, make: Callable[[], Made]) -> Made:
        """Returns the result of `make`, called at the first request and cached for all later ones.

        The sample size of the result counts for every quantity that requests it.
        """
        if key not in self._kept:
            before, self.sample = self.sample, 1
            self._kept[key] = make(), self.sample
            self.sample = before
        made, sample = self._kept[key]
        self.sample = max(self.sample, sample)
        return cast(Made, made)

    def run(
        self,
        name: str,
        variants: Sequence[str],
        wanted: Sequence[str],
        told: Callable[[int, int], Any],
        changes: Sequence[tuple[str, str]] = (),
        seeds: Sequence[int] = (),
    ) -> Mapping[str, Table]:
        """Runs variants of a scenario and returns their tables; records the cost of the runs.

        `changes` replaces keys of the scenario, `seeds` its usual seeds.
        """
        seeds = list(seeds) or self.seeds(name)
        made = paths.scenario(name, changes).run(list(variants), seeds, [*wanted, "runs"], 0, told)
        self._costs.append((name, len(variants) * len(seeds), float(np.sum(made["runs"]["hops"]))))
        return made

    def cost(self) -> list[tuple[str, int, float]]:
        """Returns name, number of runs and packet-hops of each scenario: a cost equal on every machine."""
        names = dict.fromkeys(name for name, *_ in self._costs)
        parts = {name: [cost for of, *cost in self._costs if of == name] for name in names}
        return [(name, *(sum(column) for column in zip(*part, strict=True))) for name, part in parts.items()]

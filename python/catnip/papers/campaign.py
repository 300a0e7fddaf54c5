"""Runs of a paper's scenarios: with which seeds, what they took, and what is made of them, each once."""

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
    """Runs scenarios on demand; the seeds of all variants of a scenario are the same."""

    quick: bool
    seed_count: int | None
    """In place of the usual number."""
    first_seed: int
    progress: Progress
    sample: int = 1
    """Seeds of the scenario with the most that was asked for since this was last set."""
    _kept: dict[object, tuple[Any, int]] = field(default_factory=dict)
    _costs: list[tuple[str, int, float]] = field(default_factory=list)

    def usual_seeds(self, name: str) -> int:
        """How many a scenario has if nobody says."""
        raise NotImplementedError(name)

    def seeds(self, name: str) -> list[int]:
        """Of the runs of a scenario."""
        return list(range(self.first_seed, self.first_seed + (self.seed_count or self.usual_seeds(name))))

    def kept(self, key: object, make: Callable[[], Made]) -> Made:
        """What several quantities share, made once; the seeds behind it are those of whoever asks for it."""
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
        """Tables of variants of a scenario, some keys changed, over all seeds or these; notes their cost."""
        seeds = list(seeds) or self.seeds(name)
        made = paths.scenario(name, changes).run(list(variants), seeds, [*wanted, "runs"], 0, told)
        self._costs.append((name, len(variants) * len(seeds), float(np.sum(made["runs"]["hops"]))))
        return made

    def cost(self) -> list[tuple[str, int, float]]:
        """Scenario, runs and packet-hops: nothing that differs from machine to machine."""
        names = dict.fromkeys(name for name, *_ in self._costs)
        parts = {name: [cost for of, *cost in self._costs if of == name] for name in names}
        return [(name, *(sum(column) for column in zip(*part, strict=True))) for name, part in parts.items()]

"""Scenario runs, each executed once, with the page times and losses on which the claims depend."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from catnip._core import Scenario
from catnip.analysis import measures, stats
from catnip.analysis.interval import Interval
from catnip.analysis.measures import Floats, PortLoss
from catnip.base import paths
from catnip.base.progress import Progress
from catnip.store.tables import Table

TABLES = ["pages", "ports", "connections", "runs"]


@dataclass(frozen=True)
class Result:
    """Runs of one variant of a scenario over its seeds."""

    tables: Mapping[str, Table]
    variant: int
    seeds: Sequence[int]

    def page_means(self, group: str | None = None) -> Floats:
        """Mean time of each page (columns) in each run (rows), seconds."""
        return measures.page_times(self.tables["pages"], self.variant, self.seeds, np.mean, group)

    @cached_property
    def page_medians(self) -> Floats:
        """Median time of each page in each run, seconds."""
        return measures.page_times(self.tables["pages"], self.variant, self.seeds, np.median)

    @cached_property
    def page_deviations(self) -> Floats:
        """Sample standard deviation of each page's time in each run, seconds."""
        return measures.page_times(self.tables["pages"], self.variant, self.seeds, measures.deviation)

    @cached_property
    def port(self) -> PortLoss:
        """Losses at the bottleneck towards the clients."""
        return measures.port_loss(self.tables["ports"], self.variant, self.seeds)

    def rows(self, table: str, group: str | None = None) -> dict[str, np.ndarray]:
        """Returns the rows of a table for this variant, optionally of one traffic group."""
        return measures.select(self.tables[table], self.variant, group)

    def loss_pct(self) -> Interval:
        """Share of arriving packets dropped at the bottleneck, percent."""
        return stats.mean(100 * self.port.loss)

    def sender_loss(self, group: str) -> Floats:
        """Share of a group's data packets that were dropped, as a fraction."""
        return measures.sender_loss(self.tables["connections"], self.variant, self.seeds, group)

    def overall_mean_s(self, group: str | None = None) -> Floats:
        """Mean over the ten pages of their mean times, one value per run."""
        return np.asarray(self.page_means(group).mean(axis=1))


@dataclass
class Runs:
    """Scenario runs, made on demand and kept; all variants have the same seeds."""

    seed_count: int | None
    first_seed: int
    progress: Progress
    longest: list[int] = field(default_factory=list)
    kept: dict[str, Any] = field(default_factory=dict)
    """Cache of results other than runs that several quantities share, by name."""
    sample: int = 1
    """Sample size since the last reset: the largest number of seeds of a requested scenario."""
    _made: dict[str, dict[str, Result]] = field(default_factory=dict)

    def of(self, name: str) -> dict[str, Result]:
        """Returns the variants of a scenario by name."""
        if name not in self._made:
            self._made[name] = self._run(paths.scenario(name))
        made = self._made[name]
        self.sample = max(self.sample, *(len(result.seeds) for result in made.values()))
        return made

    def _run(self, scenario: Scenario) -> dict[str, Result]:
        # A scenario of one seed is deterministic.
        count = 1 if scenario.seeds == 1 else self.seed_count or scenario.seeds
        seeds = list(range(self.first_seed, self.first_seed + count))
        self.longest = max(self.longest, seeds, key=len)
        variants = scenario.variants
        tables: Mapping[str, Table] = scenario.run(
            variants, seeds, TABLES, 0, self.progress.task(scenario.id)
        )
        return {name: Result(tables, index, seeds) for index, name in enumerate(variants)}

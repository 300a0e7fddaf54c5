"""Runs of the CATNIP paper's scenarios, each executed once, with page times and losses for its claims."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from catnip.analysis import measures, stats
from catnip.analysis.interval import Interval
from catnip.analysis.measures import Floats, PortLoss
from catnip.base import paths
from catnip.papers.runs import Runs
from catnip.store.tables import Table

TABLES = ("pages", "ports", "connections")


@dataclass(frozen=True)
class Result:
    """Runs of one variant of a scenario, over all seeds."""

    tables: Mapping[str, Table]
    variant: int
    seeds: Sequence[int]

    def page_means(self, group: str | None = None) -> Floats:
        """Returns the mean time of each page (columns) in each run (rows), s."""
        return measures.page_times(self.tables["pages"], self.variant, self.seeds, np.mean, group)

    @cached_property
    def page_medians(self) -> Floats:
        """Median time of each page (columns) in each run (rows), s."""
        return measures.page_times(self.tables["pages"], self.variant, self.seeds, np.median)

    @cached_property
    def page_deviations(self) -> Floats:
        """Sample standard deviation of each page's time (columns) in each run (rows), s."""
        return measures.page_times(self.tables["pages"], self.variant, self.seeds, measures.deviation)

    @cached_property
    def port(self) -> PortLoss:
        """Losses at the bottleneck in the direction of the clients."""
        return measures.port_loss(self.tables["ports"], self.variant, self.seeds)

    def rows(self, table: str, group: str | None = None) -> dict[str, np.ndarray]:
        """Returns the rows of a table for this variant, optionally of one traffic group."""
        return measures.select(self.tables[table], self.variant, group)

    def loss_pct(self) -> Interval:
        """Returns the share of arriving packets that the bottleneck drops, percent."""
        return stats.mean(100 * self.port.loss)

    def sender_loss(self, group: str) -> Floats:
        """Returns the fraction of a traffic group's data packets that were dropped, for each run."""
        return measures.sender_loss(self.tables["connections"], self.variant, self.seeds, group)

    def overall_mean_s(self, group: str | None = None) -> Floats:
        """Returns the mean over the ten pages of the mean page time, s, for each run."""
        return np.asarray(self.page_means(group).mean(axis=1))


class VariantRuns(Runs):
    """Runs of the CATNIP paper's scenarios, all variants of a scenario at once."""

    quick_seeds = 10

    @property
    def longest(self) -> list[int]:
        """Seeds of the executed scenario with the most seeds."""
        return max((self.seeds(name) for name, *_ in self.cost()), key=len, default=[])

    def seeds(self, name: str) -> list[int]:
        """Returns the seeds of the runs of a scenario; a scenario of one seed is deterministic."""
        seeds = super().seeds(name)
        return seeds[:1] if paths.scenario(name).seeds == 1 else seeds

    def of(self, name: str) -> dict[str, Result]:
        """Returns the results of all variants of a scenario, by the variant's name."""
        return self.cached(name, lambda: self._of(name))

    def _of(self, name: str) -> dict[str, Result]:
        scenario, seeds = paths.scenario(name), self.seeds(name)
        tables = self.run(name, scenario.variants, TABLES, self.progress.task(scenario.id))
        return {variant: Result(tables, index, seeds) for index, variant in enumerate(scenario.variants)}

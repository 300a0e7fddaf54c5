"""Runs of the dumbbell, each made once, reduced to their bursts; and single connections, event by event."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from catnip import bursts, measures, paths
from catnip.bursts import Pairs
from catnip.progress import Progress
from catnip.results import Table

SEEDS, BEYOND_SEEDS, QUICK_SEEDS = 30, 5, 2
"""The paper has five iterations (cwvp10); with thirty a verdict is settled."""
NEW_RENO, NEW_CWV, PACED, CWV, LINUX = "NewReno", "newCWV", "newCWV, paced", "CWV", "Linux"
FREE, CONGESTED, SHARED = "newcwv", "newcwv-congested", "newcwv-ftp"
"""The paths of figure 7, of figures 8 and 9, and of the tables."""
BEYOND = "newcwv-beyond"
"""Servers and queues that the paper does not have."""
SEGMENT = 1448
Rows = Mapping[str, NDArray[Any]]
Made = TypeVar("Made")


@dataclass
class Runs:
    """Runs variants on demand and remembers them; the seeds of all are the same."""

    quick: bool
    seed_count: int | None
    first_seed: int
    progress: Progress
    sample: int = 1
    _kept: dict[object, Any] = field(default_factory=dict)
    _costs: list[tuple[str, int, float, float]] = field(default_factory=list)

    def seeds(self, name: str) -> list[int]:
        """Of the runs of a scenario."""
        usual = QUICK_SEEDS if self.quick else BEYOND_SEEDS if name == BEYOND else SEEDS
        count = self.seed_count or usual
        return list(range(self.first_seed, self.first_seed + count))

    def tables(self, name: str) -> Mapping[str, Table]:
        """Bursts, ports and costs of all variants of a scenario."""
        self.sample = len(self.seeds(name))
        return self.kept(("tables", name), lambda: self._run(name, self.seeds(name)))

    def variants(self, name: str) -> list[str]:
        """Of a scenario."""
        return list(paths.scenario(name).variants)

    def bursts(self, name: str, variant: str) -> Rows:
        """What the Web server has sent."""
        return self.kept(
            ("bursts", name, variant),
            lambda: measures.select(self.tables(name)["bursts"], self.variants(name).index(variant), "web"),
        )

    def pairs(self, name: str, variant: str, reference: str = NEW_RENO) -> Pairs:
        """The same bursts under two algorithms."""
        known = self.variants(name)
        return self.kept(
            ("pairs", name, variant, reference),
            lambda: bursts.pair(
                self.tables(name)["bursts"], known.index(reference), known.index(variant), "web"
            ),
        )

    def events(self, name: str, variant: str, seed: int | None = None) -> Rows:
        """Everything that happened in one run of a scenario."""
        return self.kept(
            ("events", name, variant, seed),
            lambda: measures.select(
                paths.scenario(name).run([variant], [seed or self.first_seed], ["events"], 0, _silent)[
                    "events"
                ],
                0,
            ),
        )

    def kept(self, key: object, make: Callable[[], Made]) -> Made:
        """What several quantities share, made once."""
        if key not in self._kept:
            self._kept[key] = make()
        return cast(Made, self._kept[key])

    def cost(self) -> list[tuple[str, int, float, float]]:
        """Scenario, runs, packet-hops and seconds that they took."""
        return self._costs

    def _run(self, name: str, seeds: list[int]) -> Mapping[str, Table]:
        scenario, began_s = paths.scenario(name), perf_counter()
        told = self.progress.task(scenario.id)
        made = scenario.run(list(scenario.variants), seeds, ["bursts", "ports", "runs"], 0, told)
        hops, took_s = float(np.sum(made["runs"]["hops"])), perf_counter() - began_s
        self._costs.append((name, len(self.variants(name)) * len(seeds), hops, took_s))
        return made


def _silent(_done: int, _of: int) -> None:
    pass

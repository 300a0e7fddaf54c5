"""Base class of the runs of a paper: their seeds, their cost, and results that several quantities share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Self, TypeVar, cast

import numpy as np

from catnip._core import Scenario
from catnip.base import paths
from catnip.base.progress import Progress, side_by_side
from catnip.papers.parts import Parts
from catnip.report.values import THIS
from catnip.store.tables import Column, Table

Key = TypeVar("Key")
Result = TypeVar("Result")


@dataclass
class Runs:
    """Runs of a paper's scenarios, made on demand; all variants of a scenario have the same seeds."""

    quick: bool
    seed_count: int | None
    """Number of seeds that replaces the usual number; None keeps it."""
    first_seed: int
    progress: Progress
    parts: Parts = field(default=Parts(), kw_only=True)
    """Results of finished steps, which are not repeated."""
    block: int = field(default=1, kw_only=True)
    """Factor by which the number of seeds is larger than usual."""
    changes: tuple[tuple[str, str], ...] = field(default=(), kw_only=True)
    """Keys of all scenarios with values that replace theirs, as in a map."""
    kernel: str = field(default=THIS, kw_only=True)
    """Kernel that measures, one of the paper's."""
    is_changed: bool = field(default=False, init=False)
    """True once a scenario was run with `changes` that are not empty."""
    sample: int = field(default=1, init=False)
    """Largest number of seeds of any result requested since the last reset of this attribute to 1."""
    _cache: dict[object, tuple[Any, int]] = field(default_factory=dict, init=False)
    _costs: list[tuple[str, int, float]] = field(default_factory=list, init=False)
    quick_seeds: ClassVar[int] = 1
    """Number of seeds of a quick run."""
    quick_says: ClassVar[str] = ""
    """What a quick run has less of, besides seeds."""

    @property
    def measured_by(self) -> str:
        """End of a sentence that names the kernel that measures; empty for that of this machine."""
        return ""

    def usual_seeds(self, name: str) -> int:
        """Returns the number of seeds of a scenario in a run at full length."""
        return paths.scenario(name).seeds

    def seeds(self, name: str) -> list[int]:
        """Returns the seeds of a scenario's runs: the configured, quick or usual number of them."""
        usual = self.quick_seeds if self.quick else self.usual_seeds(name)
        return self.first_seeds((self.seed_count or usual) * self.block)

    def first_seeds(self, count: int) -> list[int]:
        """Returns `count` consecutive seeds, beginning with `first_seed`."""
        return list(range(self.first_seed, self.first_seed + count))

    def cached(self, key: object, make: Callable[[], Result]) -> Result:
        """Returns the result of `make`, which is called at the first request for `key` and then cached.

        The sample size of the result counts for every quantity that requests it.
        """
        if key not in self._cache:
            before, self.sample = self.sample, 1
            self._cache[key] = make(), self.sample
            self.sample = before
        result, sample = self._cache[key]
        self.count_sample(sample)
        return cast(Result, result)

    def count_sample(self, size: int) -> None:
        """Raises `sample` to `size`, the sample size of a requested result."""
        self.sample = max(self.sample, size)

    def run(
        self,
        name: str,
        variants: Sequence[str],
        tables: Sequence[str],
        report: Callable[[int, int], Any] | None = None,
        changes: Sequence[tuple[str, str]] = (),
        seeds: Sequence[int] = (),
    ) -> Mapping[str, Table]:
        """Runs variants of a scenario and returns their tables; records sample size and cost of the runs.

        `changes` replaces keys of the scenario, `seeds` its usual seeds. `report` receives the progress.
        """
        seeds = list(seeds) or self.seeds(name)
        self.count_sample(len(seeds))
        changes, self.is_changed = (*self.changes, *changes), bool(self.changes)
        scenario = paths.scenario(name, changes)
        needed = [*tables, "runs"]

        def run(of: Sequence[str], report: Callable[[int, int], Any] | None) -> Mapping[str, Table]:
            return scenario.run(list(of), seeds, needed, 0, report)

        if self.parts.folder is None:
            results = run(variants, report)
        else:
            total = len(variants) * len(seeds)
            each = []
            for index, variant in enumerate(variants):
                part = shifted(report, index * len(seeds), total) if report else None
                key = ("run", name, tuple(changes), variant, seeds[0], len(seeds), tuple(needed))
                each.append(self.parts.get(key, partial(run, [variant], part)))
            results = _joined(each)
        self._costs.append((name, len(variants) * len(seeds), float(np.sum(results["runs"]["hops"]))))
        return results

    def run_each(
        self, name: str, table: str, reduced: Callable[[Table], Result], seeds: list[int], label: str = ""
    ) -> dict[str, Result]:
        """Runs the variants of a scenario one by one and returns the reduced `table` of each.

        Only one full table at a time is in memory. The progress has the `label`, by default the scenario's
        id.
        """
        scenario = paths.scenario(name, self.changes)
        report = self.progress.task(label or scenario.id)
        self.count_sample(len(seeds))
        self.is_changed = bool(self.changes)
        results = {}
        changes = (self.changes,) if self.changes else ()
        for done, variant in enumerate(scenario.variants, 1):
            key = ("run each", name, *changes, variant, table, label, seeds[0], len(seeds))
            results[variant] = self.parts.get(
                key, partial(_reduced, scenario, variant, seeds, table, reduced)
            )
            report(done, len(scenario.variants))
        return results

    def each(
        self,
        name: str,
        jobs: Mapping[Key, Callable[[], Result]],
        at_once: int,
        report: Callable[[int, int], None],
    ) -> dict[Key, Result]:
        """Returns the results of measurements that mostly wait, by key; `at_once` of them run concurrently.

        Each result is a part, so that an interruption loses only the measurements that run.
        """
        made = [partial(self.parts.get, (name, self.first_seed, key), job) for key, job in jobs.items()]
        return dict(zip(jobs, side_by_side(made, at_once, report), strict=True))

    def changed(self, changes: tuple[tuple[str, str], ...], seeds: int) -> Self:
        """Returns runs with other values of these keys, and `seeds` seeds unless others are asked for."""
        count = self.seed_count or (None if self.quick else seeds)
        return type(self)(
            self.quick,
            count,
            self.first_seed,
            self.progress,
            parts=self.parts,
            changes=changes,
            kernel=self.kernel,
        )

    def cost(self) -> list[tuple[str, int, float]]:
        """Returns name, number of runs and packet-hops of each scenario: a cost equal on every machine."""
        names = dict.fromkeys(name for name, *_ in self._costs)
        parts = {name: [cost for of, *cost in self._costs if of == name] for name in names}
        return [(name, *(sum(column) for column in zip(*part, strict=True))) for name, part in parts.items()]


def _reduced(
    scenario: Scenario,
    variant: str,
    seeds: list[int],
    table: str,
    reduced: Callable[[Table], Result],
) -> Result:
    return reduced(scenario.run([variant], seeds, [table])[table])


def _joined(parts: Sequence[Mapping[str, Table]]) -> dict[str, Table]:
    """Returns the tables of several variants from the tables of each variant, in order."""
    joined: dict[str, Table] = {}
    for name in parts[0]:
        columns: dict[str, Column] = {}
        for key in parts[0][name]:
            of_parts = [part[name][key] for part in parts]
            if key == "variant":
                of_parts = [np.asarray(one) + np.uint64(at) for at, one in enumerate(of_parts)]
            if isinstance(of_parts[0], np.ndarray):
                columns[key] = np.concatenate([np.asarray(one) for one in of_parts])
            else:
                columns[key] = [value for one in of_parts for value in one]  # type: ignore[assignment]
        joined[name] = columns
    return joined


def shifted(report: Callable[[int, int], Any], before: int, total: int) -> Callable[[int, int], None]:
    """Returns a progress callback for a part of `total` jobs, `before` of which are done already."""

    def receive(done: int, _of: int) -> None:
        report(before + done, total)

    return receive

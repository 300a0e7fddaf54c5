"""Runs of `catnip run`: their seeds, who makes them, and the summaries of what there is in the end."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from catnip._core import InputError, Scenario
from catnip.analysis import summary
from catnip.analysis.stopping import Until, confidence_of, looks_of
from catnip.analysis.summary import Summary
from catnip.base.locks import last_of_several_writers, one_of_several_writers, only_writer
from catnip.base.progress import Progress
from catnip.base.verbosity import note
from catnip.report.summary_tables import STOPPING, Pairs, bases, is_settled, pairs_of
from catnip.store import runs, sites
from catnip.store.runs import Request, Rule
from catnip.store.tables import Column

if TYPE_CHECKING:
    from catnip.store.points import Points


@dataclass(frozen=True)
class Plan:
    """Variants to run, and how many seeds each gets."""

    scenario: Scenario
    variants: Sequence[str]
    first_seed: int
    looks: Sequence[int]
    """Numbers of seeds after which is looked; a single one without a rule."""
    rule: Until | None
    against: str | None
    """Variant, or value of an axis, with which the others are compared; None if they are not."""

    @property
    def axes(self) -> Mapping[str, Sequence[Any]]:
        """Axes of the variants."""
        return runs.axes_of(self.scenario, self.variants)

    @property
    def base_of(self) -> Mapping[str, str]:
        """Variant with which each is compared."""
        if self.against is None:
            return {}
        return bases(self.against, self.axes, self.variants)

    def seeds(self, counts: Iterable[int]) -> Sequence[int]:
        """Returns the seeds of all variants together, whose numbers are given."""
        return range(self.first_seed, self.first_seed + max(counts))

    @cached_property
    def has_milestones(self) -> bool:
        """True if the runs may load recorded pages, of which the summaries then have the milestones."""
        return sites.may_load(self.scenario)

    @property
    def tables(self) -> Sequence[str]:
        """Tables that the summaries need."""
        return [*summary.TABLES, *(["loads"] if self.has_milestones else [])]

    def told(self) -> str | None:
        """Returns the rule as a sentence; None if there is none."""
        return self.rule.told(self.looks, self.looks[0]) if self.rule is not None else None

    def stopping(self) -> Rule:
        """Returns when a variant has enough seeds."""
        if self.rule is None:
            return runs.all_seeds(self.looks[0])
        index = {name: number for number, name in enumerate(self.variants)}
        compared = self.base_of if self.rule.is_of_difference else {}
        base_of = {index[name]: index[base] for name, base in compared.items()}
        is_judged: Callable[[int], bool] = (
            base_of.__contains__ if self.rule.is_of_difference else lambda _: True
        )
        return Rule(self.looks, base_of, partial(self._is_settled, base_of), is_judged)

    def _is_settled(self, base_of: Mapping[int, int], points: "Points", variant: int, count: int) -> bool:
        assert self.rule is not None
        together = [variant, base_of[variant]] if variant in base_of else [variant]
        ours, *theirs = self.summarized(points, together, [count] * len(together)).values()
        return is_settled(self.rule, ours, theirs[0] if theirs else None)

    def summarized(
        self, points: "Points", variants: Sequence[int], counts: Sequence[int]
    ) -> dict[str, Summary]:
        """Returns the summaries of some variants, each over the first of its seeds."""

        def read(table: str, number: int) -> Mapping[str, Column]:
            return points.rows(table, summary.TABLES[table], variants[number], counts[number])

        names = [self.variants[variant] for variant in variants]
        summaries = summary.summarize(read, names, self.seeds(counts), counts)
        if self.rule is None:
            return summaries
        confidence = confidence_of(len(self.looks))
        return {name: one.of_look(confidence) for name, one in summaries.items()}


@dataclass(frozen=True)
class Outcome:
    """Summaries of a plan's runs."""

    summaries: Mapping[str, Summary]
    pairs: Pairs
    counts: Sequence[int]
    """Number of seeds of each variant."""


def planned(
    scenario: Scenario,
    variants: Sequence[str],
    seeds: int | None,
    first_seed: int,
    until: str | None,
    against: str | None,
) -> Plan:
    """Returns the plan of options or else of the scenario's table [sweep]. Raises InputError."""
    range_of_seeds, swept_until, swept_against = scenario.sweep
    of_scenario = f"{scenario.path}: sweep"
    option, text, other = f"{of_scenario}.until", swept_until, "sweep.against"
    if until is not None:
        option, text, other = "--until", until, "--against"
    rule = None if text is None else Until.parse(text, STOPPING, option)
    if rule is None and range_of_seeds is not None:
        low, high = range_of_seeds
        raise InputError(f"{of_scenario}.seeds: {low}..{high}: needs a rule, sweep.until")
    against = against or (rule.against if rule is not None else None) or swept_against
    if rule is not None and rule.is_of_difference and against is None:
        raise InputError(f"{option}: {text}: needs {other}")
    if rule is not None and rule.against not in (None, against):
        raise InputError(f"{option}: {text}: {against} is compared with, not {rule.against}")
    first, last = range_of_seeds or (scenario.seeds, None)
    first = seeds or first
    looks = [first] if rule is None else looks_of(first, None if last is None else max(first, last))
    plan = Plan(scenario, variants, first_seed, looks, rule, against)
    # What is compared with nothing is told before any run.
    _ = plan.base_of
    return plan


def outcome_of(
    plan: Plan,
    out: Path | None,
    written: set[str],
    threads: int,
    series: str | None,
    shard: tuple[int, int] | None,
    dask: str | None,
    *,
    quiet: bool,
) -> Outcome | None:
    """Executes the runs of a plan, and writes the tables `written` to the folder `out`, if there is one.

    Returns None if runs of other shares are missing. Raises InputError.
    """
    with Progress(quiet=quiet) as progress, _executor(dask, threads) as executor:
        advance = progress.task(plan.scenario.id)
        if out is None:
            return _in_memory(plan, threads, executor, advance)
        return _on_disk(plan, out, written, threads, series, shard, executor, advance)


def _in_memory(plan: Plan, threads: int, executor: runs.Executor | None, progress: runs.Progress) -> Outcome:
    """Executes all runs and keeps their summaries only. Raises InputError."""
    if plan.rule is None and executor is None and not plan.has_milestones:
        seeds = list(plan.seeds(plan.looks))
        summaries = summary.of_runs(plan.scenario, plan.variants, seeds, threads, progress)
        return _outcome(plan, summaries, [plan.looks[0]] * len(plan.variants))
    from catnip.store.points import InMemory, Points  # noqa: PLC0415 -- few runs need it

    points = Points(InMemory(), plan.variants, plan.first_seed)
    request = Request(plan.scenario, plan.variants, plan.tables, None, threads)
    rule, everything = plan.stopping(), range(len(plan.variants))
    runs.carry_out(points, request, everything, rule, progress, executor)
    counts = runs.settled(points, len(plan.variants), rule)
    assert counts is not None, "all runs are there"
    return _of_points(plan, points, counts)


def _on_disk(
    plan: Plan,
    folder: Path,
    written: set[str],
    threads: int,
    series: str | None,
    shard: tuple[int, int] | None,
    executor: runs.Executor | None,
    progress: runs.Progress,
) -> Outcome | None:
    """Executes all runs, or a share of them, and writes the tables `written` to the folder.

    Returns None if runs of other shares are missing, or another process is about to write the tables. Raises
    InputError.
    """
    from catnip.store import results  # noqa: PLC0415 -- needs the Parquet library

    manifest = results.Manifest.of(plan.scenario, plan.variants, plan.seeds(plan.looks[:1]), series=series)
    needed = written | set(plan.tables)
    rule = plan.stopping()
    if shard is not None:
        with one_of_several_writers(folder):
            points, _ = results.points_of(folder, manifest, needed)
            request = Request(plan.scenario, plan.variants, sorted(needed), series, threads)
            runs.carry_out(
                points, request, runs.share_of(len(plan.variants), *shard), rule, progress, executor
            )
        # Another share may have stored its last runs while this one held the lock, and left the tables to it.
        if runs.settled(points, len(plan.variants), rule) is None:
            return None
    with only_writer(folder) if shard is None else last_of_several_writers(folder) as is_busy:
        if is_busy:
            return None
        keeps = shard is not None or plan.scenario.is_plan
        with results.carried_out(
            folder,
            plan.scenario,
            manifest,
            needed,
            threads=threads,
            progress=progress,
            rule=rule,
            executor=executor,
            keeps=keeps,
        ) as stored:
            outcome = _of_points(plan, stored.points, stored.counts)
            stored.write(folder, written)
    note(f"wrote the tables to {folder}")
    return outcome


@contextmanager
def _executor(dask: str | None, threads: int) -> Iterator[runs.Executor | None]:
    """Connects to a scheduler of Dask during the block, or starts one; yields None for threads."""
    if dask is None:
        yield None
        return
    from catnip.store import cluster  # noqa: PLC0415 -- needs a library of its own

    with cluster.connected(dask, threads) as workers:
        yield workers


def _of_points(plan: Plan, points: "Points", counts: Sequence[int]) -> Outcome:
    summaries = plan.summarized(points, range(len(plan.variants)), counts)
    if plan.has_milestones:
        summaries = _with_milestones(plan, points, summaries, counts)
    if len(set(counts)) == 1:
        return _outcome(plan, summaries, counts)
    index = {name: number for number, name in enumerate(plan.variants)}
    pairs = {}
    for name, base in plan.base_of.items():
        # Both have the seeds that the one with fewer has.
        together = [index[name], index[base]]
        count = min(counts[number] for number in together)
        ours, theirs = plan.summarized(points, together, [count, count]).values()
        pairs[name] = ours, theirs
    return Outcome(summaries, pairs, counts)


def _with_milestones(
    plan: Plan, points: "Points", summaries: Mapping[str, Summary], counts: Sequence[int]
) -> dict[str, Summary]:
    from catnip.analysis import milestones  # noqa: PLC0415 -- few runs need it

    def read(table: str, variant: int) -> Mapping[str, Column]:
        return points.rows(table, milestones.TABLES[table], variant, counts[variant])

    return milestones.with_milestones(summaries, read, counts, plan.seeds(counts))


def _outcome(plan: Plan, summaries: Mapping[str, Summary], counts: Sequence[int]) -> Outcome:
    pairs = {} if plan.against is None else pairs_of(plan.against, plan.axes, summaries)
    return Outcome(summaries, pairs, counts)

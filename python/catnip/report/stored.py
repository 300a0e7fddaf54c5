"""Stored results as tables and as JSON: their summary, and what differs between two of them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from catnip._core import InputError
from catnip.analysis import summary
from catnip.analysis.summary import Summary
from catnip.report import summary_tables
from catnip.report.model import Table
from catnip.report.output import interval, print_table

if TYPE_CHECKING:
    from catnip.api import Results


def document(read: "Results", against: str | None, other: "Results | None") -> dict[str, Any]:
    """Returns the summary of stored results, their differences, and those to other results, for JSON."""
    base_of = {} if against is None else summary_tables.bases(against, read.axes, read.variants)
    pairs = {} if against is None else summary_tables.pairs_of(against, read.axes, read.summary)
    found = summary_tables.summaries_document(read.summary, pairs, base_of)
    head = {"title": read.title, "seeds": list(read.seeds), "axes": dict(read.axes), **found}
    head["fairness"] = {name: interval(value) for name, value in read.fairness.items()}
    if other is None:
        return head
    compared = {
        name: summary_tables.differences_document(here, there) for name, here, there in _both(read, other)
    }
    return {**head, "compared": compared}


def print_fairness(read: "Results") -> None:
    """Prints Jain's index over the users of all groups, if there are several."""
    if read.fairness:
        rows = [(name, str(value)) for name, value in read.fairness.items()]
        print_table("All groups together", ("variant", "Jain's index"), rows)


def print_comparison(read: "Results", other: "Results", name: str) -> None:
    """Prints the differences of the variants that both results have, paired by seed."""
    for table in comparison(read, other, name):
        summary_tables.print_one(table)


def comparison(read: "Results", other: "Results", name: str) -> Iterator[Table]:
    """Yields tables of the differences between the variants of two results, one for each traffic group."""
    title = f"Difference to {name}, paired by seed"
    pairs = {variant: (here, there) for variant, here, there in _both(read, other)}
    yield from summary_tables.paired_differences(title, pairs)


def _both(read: "Results", other: "Results") -> Iterator[tuple[str, Summary, Summary]]:
    """Yields each variant that both have, with the summaries over the seeds that both have."""
    variants = [name for name in read.variants if name in other.variants]
    seeds = {name: sorted(_seeds_of(read, name) & _seeds_of(other, name)) for name in variants}
    if not any(seeds.values()):
        what = "seed" if variants else "variant"
        raise InputError(f"--compare: the results have no {what} in common")
    for name, common in seeds.items():
        if common:
            here, there = (summary.of_tables(of.only([name], common), [name], common) for of in (read, other))
            yield name, here[name], there[name]


def _seeds_of(results: "Results", variant: str) -> set[int]:
    if results.seed_counts is None:
        return set(results.seeds)
    return set(results.seeds[: results.seed_counts[results.variants.index(variant)]])

"""Tables and figures of the report on a run: summary, distributions of times, values along axes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from catnip._core import Scenario
from catnip.analysis.summary import GroupSummary, Summary
from catnip.base import provenance
from catnip.figures import cells, lines
from catnip.figures.lines import FEW, Line, Panel
from catnip.report import effects, summary_tables, sweeps
from catnip.report.levels import short
from catnip.report.model import Again, Figure, RunOfScenario, Table
from catnip.report.summary_tables import BY_INTERVAL, Pairs
from catnip.store.runs import axes_of

Summaries = Mapping[str, Summary]
Axes = Mapping[str, Sequence[Any]]
SWEPT = {
    **{measure: f"mean {label}" for measure, label in summary_tables.TIMES.items()},
    "p95_s": "95th percentile, s",
    "goodput_mbps": "goodput, Mbit/s",
    "rtt_ms": "round trip, ms",
    "fairness": "Jain's index",
}
MAX_PANELS = 8
MAX_MAPS = 4


def figures(scenario: Scenario, seeds: Sequence[int], summaries: Summaries, axes: Axes) -> list[Figure]:
    """Returns the figures of a run: distributions of times, measures along an axis, and over two axes."""
    figures = []
    distributions = list(_distributions(summaries))
    if distributions:
        title = f"{scenario.title}: distribution of times"
        caption = (
            "Share of transfers that take longer, on logarithmic axes: 10 % is the 90th percentile. "
            "Bands are pointwise 95 % intervals over the seeds. "
            "Transfers that the end of the run cuts short are included (Kaplan-Meier estimate)."
        )
        drawn = lines.panels(title, distributions[:MAX_PANELS])
        figures.append(Figure("times", "Distribution of times", caption, drawn, seeds=seeds))
    curves = sweeps.curves_of(axes, list(summaries))
    if curves is not None:
        along = short(curves.across.key)
        title = f"{scenario.title}: results by {along}"
        caption = "Means over the seeds with 95 % intervals; quantiles of all transfers together."
        if curves.left_out:
            shown = len(curves.lines)
            caption += f" Shown are {shown} of {shown + curves.left_out} lines."
        drawn = lines.panels(title, list(sweeps.panels(curves, summaries, SWEPT))[:MAX_PANELS])
        figures.append(Figure("axis", f"Results by {along}", caption, drawn, seeds=seeds))
    maps, left_out = sweeps.maps_of(axes, summaries, MAX_MAPS)
    if maps:
        over = f"{maps[0].ylabel} and {maps[0].xlabel}"
        caption = f"Means over the seeds, below them half of the 95 % interval if it is known.{left_out}"
        drawn = cells.heat_maps(f"{scenario.title}: results by {over}", maps)
        figures.append(Figure("map", f"Results by {over}", caption, drawn, seeds=seeds))
    return figures


def page(
    scenario: Scenario,
    seeds: Sequence[int],
    summaries: Summaries,
    drawn: Sequence[Figure],
    against: str | None,
    pairs: Pairs | None = None,
    again: Again | None = None,
) -> str:
    """Returns the HTML report of a run, with the figures `drawn` and what it takes to repeat the runs."""
    from catnip.report import html  # noqa: PLC0415 -- needs a library of its own

    axes = axes_of(scenario, list(summaries))
    base = _base(seeds, summaries, against)
    compared = pairs or ({} if base is None else summary_tables.pairs_of(base, axes, summaries))
    shown = tables(scenario, seeds, summaries, base, compared)
    points = sweeps.point_table(axes, summaries)
    headline, more = _headline(seeds, summaries, axes, base, compared)
    run = RunOfScenario(
        scenario.id, scenario.title, headline, scenario.text, shown, drawn, seeds, points, more, again
    )
    return html.render_run(run, provenance.command_line(), provenance.commit())


def tables(
    scenario: Scenario,
    seeds: Sequence[int],
    summaries: Summaries,
    base: str | None,
    pairs: Pairs,
) -> list[Table]:
    """Returns the summary tables of a run, with differences to `base` unless it is None."""
    tables = summary_tables.tables(scenario.title, seeds, summaries, BY_INTERVAL)
    if base is not None:
        tables += list(summary_tables.differences(base, pairs, BY_INTERVAL))
    return [_for_page(table) for table in tables if table.rows]


def _base(seeds: Sequence[int], summaries: Summaries, against: str | None) -> str | None:
    """Returns what the variants are compared with: `against` or, if None, the first of several variants."""
    several = len(summaries) > 1 and len(seeds) > 1
    return against if against is not None or not several else next(iter(summaries))


def _headline(
    seeds: Sequence[int], summaries: Summaries, axes: Axes, base: str | None, pairs: Pairs
) -> tuple[str, list[str]]:
    """Returns the headline of a run, and what is told below it in smaller letters."""
    finished, started = map(sum, zip(*(one.counts() for one in summaries.values()), strict=True))
    count = f"{len(summaries)} variants, {len(seeds)} seeds: {finished} of {started} transfers finished."
    base_of = {} if base is None else summary_tables.bases(base, axes, list(summaries))
    told = effects.sentences(pairs, base_of)
    if not told and len(summaries) == 1:
        [(name, only)] = summaries.items()
        told = [says for says in [effects.alone(name, only)] if says]
    return (f"{told[0]}.", [*(f"{says}." for says in told[1:]), count]) if told else (count, [])


def _for_page(table: Table) -> Table:
    """Returns a table with its title in one line, and without the rows that are too many for a page."""
    note = " ".join(filter(None, (table.note, sweeps.cut_note(len(table.rows)))))
    title = table.title.replace("\n", ": ")
    return replace(table, title=title, rows=table.rows[: sweeps.MOST_ROWS], note=note)


def _distributions(summaries: Summaries) -> Iterator[Panel]:
    """Yields a panel for each group whose transfer times vary, if the panel has at most `FEW` curves."""
    for group, of in _by_group(summaries).items():
        curves = [_curve(name, one) for name, one in of.items() if len(one.curve[0]) > 1]
        if 0 < len(curves) <= FEW:
            kind = next(iter(of.values())).kind
            yield Panel(f"{group}: {kind}", "time, s", "share that takes longer", curves, share=True)


def _curve(name: str, of: GroupSummary) -> Line:
    """Returns times and the share of transfers that take longer than each, with intervals, at least 0.1 %.

    A logarithmic axis cannot show a share of zero.
    """
    at_s, lasting = of.curve
    shares, low, high = (np.maximum(values, 1e-3) for values in (lasting, *of.band))
    return Line(name, at_s, shares, low, high) if len(low) == len(shares) else Line(name, at_s, shares)


def _by_group(summaries: Summaries) -> dict[str, dict[str, GroupSummary]]:
    groups = dict.fromkeys(group for one in summaries.values() for group in one.groups)
    return {
        group: {name: one.groups[group] for name, one in summaries.items() if group in one.groups}
        for group in groups
    }

"""Tables and figures of the report on a run: summary, distributions of times, values along axes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from catnip._core import Scenario
from catnip.analysis.summary import GroupSummary, Summary
from catnip.base import provenance
from catnip.figures import lines
from catnip.figures.lines import FEW, Line, Panel
from catnip.report import summary_tables
from catnip.report.model import Figure, RunOfScenario, Table
from catnip.report.summary_tables import Pairs
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


def figures(scenario: Scenario, seeds: Sequence[int], summaries: Summaries, axes: Axes) -> list[Figure]:
    """Returns the figures of a run: distributions of transfer times, and measures along the longest axis."""
    figures = []
    distributions = list(_distributions(summaries))
    if distributions:
        title = f"{scenario.title}: distribution of times"
        caption = (
            "Share of transfers that take longer, on logarithmic axes: 10 % is the 90th percentile. "
            "Transfers that the end of the run cuts short are included (Kaplan-Meier estimate)."
        )
        drawn = lines.panels(title, distributions[:MAX_PANELS])
        figures.append(Figure("times", "Distribution of times", caption, drawn, seeds=seeds))
    sweep = list(_sweep(summaries, axes))
    if sweep:
        title = f"{scenario.title}: results by {_along(axes)}"
        caption = "Means over the seeds with 95 % intervals; quantiles of all transfers together."
        drawn = lines.panels(title, sweep[:MAX_PANELS])
        figures.append(Figure("axis", f"Results by {_along(axes)}", caption, drawn, seeds=seeds))
    return figures


def page(
    scenario: Scenario,
    seeds: Sequence[int],
    summaries: Summaries,
    drawn: Sequence[Figure],
    against: str | None,
    pairs: Pairs | None = None,
) -> str:
    """Returns the HTML report of a run, with the figures `drawn`."""
    from catnip.report import html  # noqa: PLC0415 -- needs a library of its own

    axes = axes_of(scenario, list(summaries))
    finished, started = map(sum, zip(*(one.counts() for one in summaries.values()), strict=True))
    headline = f"{len(summaries)} variants, {len(seeds)} seeds: {finished} of {started} transfers finished."
    shown = tables(scenario, seeds, summaries, axes, against, pairs)
    run = RunOfScenario(scenario.id, scenario.title, headline, scenario.text, shown, drawn, seeds)
    return html.render_run(run, provenance.command_line(), provenance.commit())


def tables(
    scenario: Scenario,
    seeds: Sequence[int],
    summaries: Summaries,
    axes: Axes,
    against: str | None,
    pairs: Pairs | None = None,
) -> list[Table]:
    """Returns the summary tables of a run, with differences to `against` or, if None, the first variant."""
    several = len(summaries) > 1 and len(seeds) > 1
    base = against if against is not None or not several else next(iter(summaries))
    tables = summary_tables.tables(scenario.title, seeds, summaries)
    if base is not None:
        tables += list(
            summary_tables.differences(base, pairs or summary_tables.pairs_of(base, axes, summaries))
        )
    return [replace(table, title=_one_line(table.title)) for table in tables if table.rows]


def _one_line(title: str) -> str:
    return title.replace("\n", ": ")


def _distributions(summaries: Summaries) -> Iterator[Panel]:
    """Yields a panel for each group whose transfer times vary, if the panel has at most `FEW` curves."""
    for group, of in _by_group(summaries).items():
        curves = [Line(name, *_curve(one)) for name, one in of.items() if len(one.curve[0]) > 1]
        if 0 < len(curves) <= FEW:
            kind = next(iter(of.values())).kind
            yield Panel(f"{group}: {kind}", "s", "take longer", curves, share=True)


def _curve(of: GroupSummary) -> tuple[Any, Any]:
    """Returns times and the share of transfers that take longer than each, at least 0.1 %.

    A logarithmic axis cannot show a share of zero.
    """
    at_s, lasting = of.curve
    return at_s, np.maximum(lasting, 1e-3)


def _sweep(summaries: Summaries, axes: Axes) -> Iterator[Panel]:
    """Yields a panel for each group and measure, with values along the axis that has the most values.

    A panel has a line for each combination of values of the other axes.
    """
    if not axes:
        return
    key = _longest(axes)
    levels = list(dict.fromkeys(axes[key]))
    if len(levels) < 2:
        return
    numbers = [_number(level) for level in levels]
    are_numbers = all(number is not None for number in numbers) and len(set(numbers)) == len(levels)
    at = dict(zip(levels, numbers if are_numbers else range(len(levels)), strict=True))
    order = sorted(levels, key=lambda level: at[level]) if are_numbers else levels
    others = [other for other in axes if other != key]
    series: dict[str, dict[Any, str]] = {}
    for index, name in enumerate(summaries):
        label = ", ".join(f"{_short(other)}={summary_tables.shown(axes[other][index])}" for other in others)
        series.setdefault(label or "all", {})[axes[key][index]] = name
    for group, of in _by_group(summaries).items():
        for measure, called in SWEPT.items():
            drawn = []
            for label, names in series.items():
                present = [level for level in order if level in names and names[level] in of]
                values = [(at[level], of[names[level]].means.get(measure)) for level in present]
                known = [(x, interval) for x, interval in values if interval is not None]
                if known:
                    means, low, high = (
                        [getattr(interval, part) for _, interval in known] for part in ("mean", "low", "high")
                    )
                    drawn.append(Line(label, [x for x, _ in known], means, low, high, dots=True))
            if drawn and len(drawn) <= FEW:
                names_ = () if are_numbers else [summary_tables.shown(level) for level in order]
                yield Panel(f"{group}: {called}", _short(key), called, drawn, names_)


def _by_group(summaries: Summaries) -> dict[str, dict[str, GroupSummary]]:
    groups = dict.fromkeys(group for one in summaries.values() for group in one.groups)
    return {
        group: {name: one.groups[group] for name, one in summaries.items() if group in one.groups}
        for group in groups
    }


def _longest(axes: Axes) -> str:
    """Returns the axis with the most values; at a tie, an axis whose values are numbers."""

    def length(key: str) -> tuple[int, bool]:
        return len(set(map(summary_tables.shown, axes[key]))), None not in map(_number, axes[key])

    return max(axes, key=length)


def _along(axes: Axes) -> str:
    return _short(_longest(axes))


def _short(key: str) -> str:
    return key.rsplit(".", 1)[-1]


def _number(level: Any) -> float | None:
    try:
        return float(level)
    except (TypeError, ValueError):
        return None

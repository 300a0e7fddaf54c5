"""Points of a sweep: curves along one axis, heat maps over two, and a table of all."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np

from catnip.analysis.interval import Interval
from catnip.analysis.summary import GroupSummary, Summary
from catnip.figures.cells import Cells
from catnip.figures.lines import FEW, Line, Panel
from catnip.report.levels import Scale, name_of, scale_of, spread
from catnip.report.model import Cell, PointTable
from catnip.report.summary_tables import BY_INTERVAL, DIFFERENCES, is_unusual, shown

Summaries = Mapping[str, Summary]
Axes = Mapping[str, Sequence[Any]]
MOST_ROWS = 1000
"""Largest number of rows of a table in a page."""
MOST_COLUMNS, MOST_LINES = 14, 20
"""Largest numbers of columns and rows of a heat map."""
LEAST_CELLS = 6
"""Number of cells from which on a heat map shows more than a table does."""


@dataclass(frozen=True)
class Curves:
    """Variants by their value of one axis: for each combination of the others, a line."""

    across: Scale
    lines: Mapping[str, Mapping[str, str]]
    """Names of the variants by the label of the line and by the value of the axis."""
    is_joined: bool
    """False if every variant has its own values of all axes, as in a Latin hypercube."""
    left_out: int = 0
    """Number of lines that are not shown."""


def curves_of(axes: Axes, variants: Sequence[str]) -> Curves | None:
    """Returns the variants along the axis with the most numbers; None if no axis has two values."""
    scales = {key: scale_of(key, values) for key, values in axes.items()}
    known = {key: scale for key, scale in scales.items() if len(scale.at) > 1}
    if not known:
        return None
    across = max(known.values(), key=lambda scale: (scale.is_number, len(scale.at)))
    others = [key for key in known if key != across.key]
    lines: dict[str, dict[str, str]] = {}
    for index, name in enumerate(variants):
        label = ", ".join(f"{name_of(other, axes)}={shown(axes[other][index])}" for other in others)
        lines.setdefault(label or "all", {})[shown(axes[across.key][index])] = name
    if len(lines) > FEW and max(map(len, lines.values())) == 1:
        alone = {at: name for of in lines.values() for at, name in of.items()}
        return Curves(across, {"all": alone}, is_joined=len(alone) < len(variants))
    chosen = spread(list(lines), FEW)
    return Curves(across, {label: lines[label] for label in chosen}, True, len(lines) - len(chosen))


def panels(curves: Curves, summaries: Summaries, measures: Mapping[str, str]) -> Iterator[Panel]:
    """Yields a panel for each group and measure, with values along the axis."""
    across = curves.across
    for group in groups_of(summaries):
        of_group = [of for one in summaries.values() if (of := one.groups.get(group)) is not None]
        for measure, called in measures.items():
            if not any(is_unusual(measure, of) for of in of_group):
                continue
            drawn = []
            for label, names in curves.lines.items():
                present = [(at, summaries[names[text]]) for text, at in across.at.items() if text in names]
                values = [
                    (at, interval)
                    for at, one in present
                    if group in one.groups and (interval := one.groups[group].means.get(measure))
                ]
                if values:
                    means, low, high = (
                        [getattr(interval, part) for _, interval in values]
                        for part in ("mean", "low", "high")
                    )
                    x = [at for at, _ in values]
                    drawn.append(Line(label, x, means, low, high, dots=True, joined=curves.is_joined))
            if drawn:
                names_ = () if across.is_number else list(across.at)
                title = f"{group}: {called}"
                yield Panel(title, across.label, called, drawn, names_, log=across.is_log)


def maps_of(axes: Axes, summaries: Summaries, most: int) -> tuple[list[Cells], str]:
    """Returns heat maps of each group's main measure over two axes, and a sentence on what they leave out."""
    scales = sorted(
        (scale for key, values in axes.items() if len((scale := scale_of(key, values)).at) > 1),
        key=lambda scale: (not scale.is_number, -len(scale.at)),
    )
    if len(scales) < 2 or len(scales[0].at) * len(scales[1].at) < LEAST_CELLS:
        return [], ""
    across, upwards = scales[:2]
    columns, rows = spread(list(across.at), MOST_COLUMNS), spread(list(upwards.at), MOST_LINES)
    grid = _Grid(across, upwards, rows, columns, name_of(across.key, axes), name_of(upwards.key, axes))
    others = [scale.key for scale in scales[2:]]
    variants: dict[str, dict[tuple[str, str], str]] = {}
    for index, name in enumerate(summaries):
        label = ", ".join(f"{name_of(other, axes)}={shown(axes[other][index])}" for other in others)
        place = shown(axes[upwards.key][index]), shown(axes[across.key][index])
        variants.setdefault(label, {})[place] = name
    if max(map(len, variants.values())) * 2 < len(across.at) * len(upwards.at):
        return [], ""
    all_maps = [
        cells
        for group in groups_of(summaries)
        for label, places in variants.items()
        if (cells := _cells(group, label, places, summaries, grid))
    ]
    shown_maps = spread(all_maps, most)
    left_out = [
        f"{len(columns)} of {len(across.at)} values of {name_of(across.key, axes)}"
        * (len(columns) < len(across.at)),
        f"{len(rows)} of {len(upwards.at)} values of {name_of(upwards.key, axes)}"
        * (len(rows) < len(upwards.at)),
        f"{len(shown_maps)} of {len(all_maps)} maps" * (len(shown_maps) < len(all_maps)),
    ]
    told = ", ".join(filter(None, left_out))
    return shown_maps, f" Shown are {told}." if told else ""


def point_table(axes: Axes, summaries: Summaries) -> PointTable | None:
    """Returns the table of points, at most `MOST_ROWS`, with their main measures; None without axes."""
    if not axes:
        return None
    scales = {key: scale_of(key, values) for key, values in axes.items()}
    heads = [name_of(key, axes) for key in axes]
    groups = groups_of(summaries)
    measures = {group: _main(group, summaries) for group in groups}
    called = [
        DIFFERENCES[of] if len(groups) == 1 else f"{group}: {DIFFERENCES[of]}"
        for group, of in measures.items()
    ]
    numbers = [*(scale.is_number for scale in scales.values()), *(True for _ in called), True]
    rows = []
    for index, one in zip(range(MOST_ROWS), summaries.values(), strict=False):
        texts = {key: shown(axes[key][index]) for key in axes}
        values = [_value(one.groups.get(group), measure) for group, measure in measures.items()]
        seeds = max((of.seeds for of in one.groups.values()), default=0)
        rows.append(
            [
                *(Cell(text, f"{scales[key].at[text]:g}") for key, text in texts.items()),
                *(
                    Cell("–", "") if of is None else Cell(f"{of:{BY_INTERVAL}}", f"{of.mean!r}")
                    for of in values
                ),
                Cell(str(seeds), str(seeds)),
            ]
        )
    return PointTable([*heads, *called, "seeds"], numbers, rows, cut_note(len(summaries)))


def cut_note(rows: int) -> str:
    """Returns what a page says of a table with this number of rows: nothing if it shows all."""
    if rows <= MOST_ROWS:
        return ""
    return f"The first {MOST_ROWS} of {rows} rows: --json and the tables of --out have all."


def groups_of(summaries: Summaries) -> list[str]:
    """Returns the traffic groups of all variants."""
    return list(dict.fromkeys(group for one in summaries.values() for group in one.groups))


@dataclass(frozen=True)
class _Grid:
    """Two axes of a heat map, with the values that are shown."""

    across: Scale
    upwards: Scale
    rows: Sequence[str]
    columns: Sequence[str]
    xlabel: str
    ylabel: str


def _main(group: str, summaries: Summaries) -> str:
    """Returns the main measure of a group: that of the most of its variants."""
    found = [of.main for one in summaries.values() if (of := one.groups.get(group)) is not None]
    return max(dict.fromkeys(found), key=found.count)


def _value(of: GroupSummary | None, measure: str) -> Interval | None:
    if of is None:
        return None
    return of.restricted_s if measure == "restricted_s" else of.means.get(measure)


def _cells(
    group: str,
    label: str,
    places: Mapping[tuple[str, str], str],
    summaries: Summaries,
    grid: _Grid,
) -> Cells | None:
    """Returns the heat map of a group; None if no value is known."""
    measure = _main(group, summaries)
    rows, columns = grid.rows, grid.columns
    mean, half = (np.full((len(rows), len(columns)), np.nan) for _ in range(2))
    for at in np.ndindex(*mean.shape):
        name = places.get((rows[at[0]], columns[at[1]]))
        value = None if name is None else _value(summaries[name].groups.get(group), measure)
        if value is not None and not isnan(value.mean):
            mean[at], half[at] = value.mean, (value.high - value.low) / 2
    if np.isnan(mean).all():
        return None
    title = f"{group}, {label}" if label else group
    labels = grid.xlabel, grid.ylabel
    return Cells(
        title, DIFFERENCES[measure], mean, half, rows, columns, *labels, group, grid.upwards.is_number
    )

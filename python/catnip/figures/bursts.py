"""Figures of bursts: heat maps over size and idle period, quantities of a connection over time, bars."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from catnip.figures import style
from catnip.figures.style import FAINT, INK, NO_LOOKS, ON_COLOUR, PAPER, STYLE, WIDTH, Look

STEP, LINE, DOTS = "step", "line", "dots"
MANY = 6
"""Largest number of columns with which a heat map has horizontal column labels; otherwise slanted ones."""


@dataclass(frozen=True)
class Map:
    """Heat map: values by row and column, and optionally values of another source below them."""

    title: str
    values: NDArray[np.float64]
    beneath: NDArray[np.float64] | None = None
    unsure: NDArray[np.bool_] | None = None
    """Mask of the uncertain cells, whose values are shown in brackets."""


@dataclass(frozen=True)
class Track:
    """Quantity over time, such as a congestion window; drawn as steps, as a line or as dots."""

    label: str
    x: NDArray[Any]
    y: NDArray[Any]
    how: str = STEP


@dataclass(frozen=True)
class Strip:
    """Panel of a figure with several quantities (`Track`) over one time axis."""

    title: str
    ylabel: str
    tracks: Sequence[Track]
    marks: Sequence[float] = ()
    """Values on the y axis at which reference lines are drawn."""


def heat_maps(
    title: str,
    maps: Sequence[Map],
    rows: Sequence[str],
    columns: Sequence[str],
    labels: tuple[str, str],
    height: float = 3.9,
) -> str:
    """Draws heat maps side by side, with one colour scale around zero and the value printed in each cell."""
    reach = max(float(np.abs(one.values).max()) for one in maps)
    with mpl.rc_context(STYLE | {"axes.grid": False}):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        grid = figure.subplots(1, len(maps), squeeze=False, sharey=True)[0]
        style.title(figure, title)
        for axes, one in zip(grid, maps, strict=True):
            axes.set_title(one.title)
            scale = {"cmap": "PuOr_r", "vmin": -2.6 * reach, "vmax": 2.6 * reach}
            axes.pcolormesh(one.values, shading="nearest", edgecolors=PAPER, linewidth=1.5, **scale)
            for (row, column), value in np.ndenumerate(one.values):
                _cell(axes, row, column, value, one)
            slanted = {"rotation": 40, "ha": "right"} if len(columns) > MANY else {}
            axes.set_xticks(range(len(columns)), columns, **slanted)
            axes.set_yticks(range(len(rows)), rows)
            axes.set_xlabel(labels[1])
            axes.set_ylim(len(rows) - 0.5, -0.5)
            axes.spines[:].set_visible(False)
            axes.tick_params(length=0)
        grid[0].set_ylabel(labels[0])
        return style.svg(figure, title)


def strips(
    title: str,
    drawn: Sequence[Strip],
    xlabel: str,
    height: float = 2.5,
    beside: bool = False,
    looks: Mapping[str, int] = NO_LOOKS,
) -> str:
    """Draws panels above each other over one time axis or, with `beside`, side by side with own time axes.

    `looks` maps names of series to indices in `style.LOOKS`, for series that have the same look in other
    figures.
    """
    rows, columns = (1, len(drawn)) if beside else (len(drawn), 1)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, height * rows + 0.6), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False, sharex=not beside, sharey=beside).ravel()
        style.title(figure, title)
        for axes, strip in zip(grid, drawn, strict=True):
            axes.set_title(strip.title)
            for mark in strip.marks:
                axes.axhline(mark, color=FAINT, linewidth=0.8, ls=":")
            for index, track in enumerate(strip.tracks):
                _track(axes, track, style.look(track.label, index, looks))
            axes.set_ylim(0, 1.06 * max(np.nanmax(track.y) for track in strip.tracks))
            if len(strip.tracks) > 1 and not beside:
                axes.legend(loc="best", ncols=2)
        for axes in grid if beside else grid[-1:]:
            axes.set_xlabel(xlabel)
        for axes, strip in zip(grid[:1] if beside else grid, drawn, strict=False):
            axes.set_ylabel(strip.ylabel)
        if beside:
            figure.legend(*grid[0].get_legend_handles_labels(), loc="outside lower left", ncols=4)
        return style.svg(figure, title)


def grouped_bars(
    title: str,
    groups: Sequence[str],
    values: Mapping[str, Sequence[Any]],
    ylabel: str,
    looks: Mapping[str, int] = NO_LOOKS,
) -> str:
    """Draws groups of bars with intervals; `values` has, for each series, one interval per group.

    `looks` is as in `strips`.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 4.6), layout="constrained")
        axes = figure.subplots()
        style.title(figure, title)
        width = 0.84 / len(values)
        for index, (name, intervals) in enumerate(values.items()):
            x = np.arange(len(groups)) + (index - (len(values) - 1) / 2) * width
            means = [one.mean for one in intervals]
            axes.bar(x, means, 0.92 * width, **style.look(name, index, looks).bar, label=name)
            style.whiskers(
                axes, x, means, [one.low for one in intervals], [one.high for one in intervals], INK
            )
        axes.axhline(0, color=FAINT, linewidth=0.8)
        axes.set_xticks(range(len(groups)), groups)
        axes.set_ylabel(ylabel)
        figure.legend(loc="outside lower left", ncols=4)
        return style.svg(figure, title)


def _cell(axes: Axes, row: int, column: int, value: float, drawn: Map) -> None:
    lift = 0.0 if drawn.beneath is None else 0.14
    number = f"{round(value)}"
    if drawn.unsure is not None and drawn.unsure[row, column]:
        number = f"({number})"
    axes.text(column, row - lift, number, ha="center", va="center", color=ON_COLOUR)
    if drawn.beneath is not None:
        text = f"{drawn.beneath[row, column]:.0f}"
        small: dict[str, Any] = {"fontsize": 7.5, "style": "italic"}
        axes.text(column, row + 0.24, text, ha="center", va="center", color=ON_COLOUR, **small)


def _track(axes: Axes, track: Track, look: Look) -> None:
    if track.how == DOTS:
        axes.plot(track.x, track.y, ls="", marker=".", ms=3, color=look.colour, label=track.label)
    elif track.how == STEP:
        shown = _corners(track.y)
        axes.step(track.x[shown], track.y[shown], where="post", **look.line, label=track.label)
    else:
        axes.plot(track.x, track.y, **look.line, label=track.label)


def _corners(y: NDArray[Any]) -> NDArray[np.bool_]:
    """Returns a mask of the points of a step line at which its value changes, and of its ends."""
    is_corner = np.ones(len(y), dtype=bool)
    is_corner[1:-1] = (y[1:] != y[:-1])[:-1] & ~(np.isnan(y[1:]) & np.isnan(y[:-1]))[:-1]
    return is_corner

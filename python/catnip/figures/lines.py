"""Panels of lines: distributions of times, and quantities along an axis of a scenario or over time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator
from numpy.typing import ArrayLike

from catnip.figures import style
from catnip.figures.style import STYLE, WIDTH

ABREAST = 2
ROW = 3.6  # inches
FEW = 8
"""Largest number of lines that are distinguishable in a panel."""
SHARES = {1.0: "100 %", 0.5: "50 % (median)", 0.1: "10 % (p90)", 0.05: "5 % (p95)", 0.01: "1 % (p99)"}
"""Ticks of an axis of shares that take longer, with the percentile of each."""


@dataclass(frozen=True)
class Line:
    """Line of a panel: values, optionally with intervals and with a dot at each point."""

    label: str
    x: ArrayLike
    y: ArrayLike
    low: ArrayLike | None = None
    high: ArrayLike | None = None
    dots: bool = False
    joined: bool = True
    """False for dots without a line."""


@dataclass(frozen=True)
class Panel:
    """Panel of lines; `names` are labels for positions on the x axis if its values are not numbers."""

    title: str
    xlabel: str
    ylabel: str
    lines: Sequence[Line]
    names: Sequence[str] = ()
    log: bool = False
    """True for a logarithmic x axis."""
    share: bool = False
    """True if the lines are shares from 1 % to 100 % over times, both on logarithmic axes."""
    band: tuple[float, float] | None = None
    """Accepted values, shaded; an end may be infinite."""
    usual: float | None = None
    """Position on the x axis of what is usual, marked by a line."""


def panels(title: str, drawn: Sequence[Panel]) -> str:
    """Draws panels in two columns; a series has the same look in all panels."""
    labels = list(dict.fromkeys(line.label for panel in drawn for line in panel.lines))
    rows = -(-len(drawn) // ABREAST)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, ROW * rows + 0.25 * -(-len(labels) // 3)), layout="constrained")
        grid = figure.subplots(rows, min(ABREAST, len(drawn)), squeeze=False).ravel()
        style.title(figure, title)
        for axes, panel in zip(grid, drawn, strict=False):
            _draw(axes, panel, labels)
        for axes in grid[len(drawn) :]:
            axes.set_axis_off()
        if len(labels) > 1:
            style.legend_below(figure, grid, 3)
        return style.svg(figure, title)


def _draw(axes: Axes, panel: Panel, labels: Sequence[str]) -> None:
    axes.set_title(panel.title)
    for line in panel.lines:
        look = style.look(line.label, labels.index(line.label), style.NO_LOOKS)
        shown: dict[str, Any] = {"marker": "o", "ms": 4} if line.dots else {}
        draw_style = "steps-post" if panel.share else "default"
        style_of = look.line if line.joined else {**look.line, "ls": ""}
        axes.plot(line.x, line.y, **style_of, **shown, drawstyle=draw_style, label=line.label)
        if line.low is not None and line.high is not None:
            y = np.asarray(line.y, dtype=float)
            low, high = (np.asarray(end, dtype=float) for end in (line.low, line.high))
            # An unknown end of an interval is NaN. It is drawn at the mean, so the interval is invisible
            # there.
            low, high = (np.where(np.isfinite(end), end, y) for end in (low, high))
            if panel.share:
                axes.fill_between(
                    line.x, low, high, step="post", color=look.colour, alpha=0.15, lw=0, zorder=1
                )
                continue
            style.whiskers(axes, np.asarray(line.x), y.tolist(), low.tolist(), high.tolist(), look.colour)
    axes.set(xlabel=panel.xlabel, ylabel=panel.ylabel)
    if panel.log:
        axes.set(xscale="log")
        _plain_numbers(axes)
        at = sorted({float(x) for line in panel.lines for x in np.asarray(line.x)})
        if len(at) <= FEW:
            axes.set_xticks(at)
    if panel.names:
        axes.set_xticks(range(len(panel.names)), panel.names)
    if panel.share:
        axes.set(xscale="log", yscale="log", ylim=(0.01, 1))
        axes.set_yticks(list(SHARES), list(SHARES.values()))
        axes.yaxis.set_minor_locator(NullLocator())
        _plain_numbers(axes)
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    elif panel.band is None:
        axes.set_ylim(bottom=0)
    else:
        _shade(axes, panel.band)
    if panel.usual is not None:
        grey = style.LOOKS[style.BASE].colour
        axes.axvline(panel.usual, color=grey, linewidth=1, linestyle=":", zorder=0)


def _plain_numbers(axes: Axes) -> None:
    """Writes the numbers of a logarithmic x axis as they are."""
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _shade(axes: Axes, band: tuple[float, float]) -> None:
    """Shades a band; an infinite end is the edge of the panel, which shows some of the band at least."""
    low, high = axes.get_ylim()
    edges = [edge for edge in band if np.isfinite(edge)]
    room = 0.08 * (max(high, *edges) - min(low, *edges))
    low, high = min(low, *(edge - room for edge in edges)), max(high, *(edge + room for edge in edges))
    axes.set_ylim(low, high)
    axes.axhspan(
        max(low, band[0]), min(high, band[1]), color=style.LOOKS[2].colour, alpha=0.12, lw=0, zorder=0
    )

"""Figures of transfer times: models and simulated means over a size, and distributions of times."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from catnip.analysis.interval import Interval
from catnip.figures import style
from catnip.figures.style import FAINT, INK, NO_LOOKS, STYLE, WIDTH


@dataclass(frozen=True)
class Curve:
    """Line of a panel: the values of a model at the points `x` of the panel."""

    label: str
    y: Sequence[float]


@dataclass(frozen=True)
class Panel:
    """Panel with curves of models at the points `x`, and simulated means with their own x values."""

    title: str
    x: Sequence[float]
    simulated: Sequence[tuple[float, Interval]]
    curves: Sequence[Curve]


def latency_panels(
    title: str,
    panels: Sequence[Panel],
    xlabel: str = "transfer size, KB",
    ylabel: str = "transfer time, s",
    simulated: str = "simulated, 95 % interval",
    looks: Mapping[str, int] = NO_LOOKS,
) -> str:
    """Draws panels side by side, each with its own time scale; a model has the same look in all panels.

    `looks` maps names of series to indices in `style.LOOKS`, for series that have the same look in other
    figures.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 4.6), layout="constrained")
        grid = figure.subplots(1, len(panels), squeeze=False)[0]
        style.title(figure, title)
        names = dict.fromkeys(curve.label for panel in panels for curve in panel.curves)
        lines = {name: style.look(name, index, looks).line for index, name in enumerate(names)}
        for axes, panel in zip(grid, panels, strict=True):
            axes.set_title(panel.title)
            for curve in panel.curves:
                axes.plot(panel.x, curve.y, **lines[curve.label])
            _points(axes, panel)
            axes.set(xlabel=xlabel, ylim=(0, None))
        grid[0].set_ylabel(ylabel)
        handles = [Line2D([], [], label=name, **line) for name, line in lines.items()]
        if any(panel.simulated for panel in panels):
            handles.insert(0, Line2D([], [], marker="o", color=INK, ls="", ms=5, label=simulated))
        figure.legend(handles=handles, loc="outside lower left", ncols=6, columnspacing=1.6)
        return style.svg(figure, title)


def distributions(
    title: str,
    samples: Sequence[tuple[str, NDArray[Any]]],
    xlabel: str = "transfer time, s",
    looks: Mapping[str, int] = NO_LOOKS,
) -> str:
    """Draws the frequencies of transfer times and their cumulative distribution, for each named sample."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 4.4), layout="constrained")
        frequency, cumulative = figure.subplots(1, 2)
        style.title(figure, title)
        end = max(float(np.quantile(times, 0.995)) for _, times in samples)
        bins = np.linspace(0, end, 60)
        for index, (label, times) in enumerate(samples):
            line = style.look(label, index, looks).line | {"linewidth": 1.4}
            share = 100 * np.histogram(times, bins)[0] / len(times)
            frequency.stairs(share, bins, label=label, **line)
            ordered = np.sort(times)
            height = np.arange(1, len(ordered) + 1) / len(ordered)
            cumulative.plot(ordered, height, **line)
        frequency.set_title("Frequency, % per bin")
        cumulative.set_title("Cumulative distribution")
        for axes in (frequency, cumulative):
            axes.set(xlabel=xlabel, xlim=(0, end), ylim=(0, None))
        frequency.legend(loc="upper right")
        return style.svg(figure, title)


def _points(axes: Axes, panel: Panel) -> None:
    if not panel.simulated:
        return
    x = [at for at, _ in panel.simulated]
    means = [interval.mean for _, interval in panel.simulated]
    bounds = (
        [interval.low for _, interval in panel.simulated],
        [interval.high for _, interval in panel.simulated],
    )
    style.whiskers(axes, np.asarray(x), means, *bounds, FAINT)
    axes.scatter(x, means, s=24, color=INK, zorder=4)
    axes.xaxis.set_major_locator(MaxNLocator(8))

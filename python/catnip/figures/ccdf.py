"""Figures of complementary distribution functions (share of samples above x), and of values over a rate."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter
from numpy.typing import NDArray

from catnip.analysis.interval import Interval
from catnip.figures import style
from catnip.figures.style import NO_LOOKS, STYLE, WIDTH, Look

MIN_SHARE = 0.01


@dataclass(frozen=True)
class Curve:
    """Complementary distribution function: share of samples above each value of x, with its 95 % interval."""

    label: str
    x: NDArray[np.float64]
    share: Sequence[Interval]


@dataclass(frozen=True)
class Panel:
    """Panel of a figure; `limits` are values of x at which reference lines are drawn."""

    title: str
    curves: Sequence[Curve]
    limits: Sequence[float] = ()


def ccdf_panels(title: str, panels: Sequence[Panel], xlabel: str, looks: Mapping[str, int] = NO_LOOKS) -> str:
    """Draws panels of complementary distribution functions side by side, from 1 % to 100 %, with intervals.

    `looks` maps names of series to indices in `style.LOOKS`, for series that have the same look in other
    figures.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 4.8), layout="constrained")
        grid = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
        style.title(figure, title)
        for axes, panel in zip(grid, panels, strict=True):
            axes.set_title(panel.title)
            for limit in panel.limits:
                axes.axvline(limit, color=style.FAINT, linewidth=0.8, ls=":")
            for index, curve in enumerate(panel.curves):
                _draw(axes, curve, style.look(curve.label, index, looks))
            ends = [float(curve.x[-1]) for curve in panel.curves]
            axes.set(xlabel=xlabel, yscale="log", ylim=(MIN_SHARE, 1), xlim=(0, max(ends)))
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))
            axes.yaxis.set_minor_formatter(NullFormatter())
            axes.legend(loc="upper right")
        return style.svg(figure, title)


def over_rates(
    title: str,
    rates: Sequence[float],
    values: Mapping[str, Sequence[Interval]],
    xlabel: str,
    ylabel: str,
    looks: Mapping[str, int] = NO_LOOKS,
) -> str:
    """Draws values over the rate of a link, a line with intervals for each series.

    `looks` is as in `ccdf_panels`.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 4.8), layout="constrained")
        axes = figure.subplots()
        style.title(figure, title)
        for index, (name, intervals) in enumerate(values.items()):
            means = [interval.mean for interval in intervals]
            look = style.look(name, index, looks)
            axes.plot(rates, means, **look.line, marker="o", ms=4, label=name)
            low, high = ([getattr(one, end) for one in intervals] for end in ("low", "high"))
            style.whiskers(axes, np.asarray(rates), means, low, high, look.colour)
        axes.set(xlabel=xlabel, ylabel=ylabel, ylim=(0, None), xticks=list(rates))
        axes.legend(loc="lower right", ncols=2)
        return style.svg(figure, title)


def _draw(axes: Axes, curve: Curve, look: Look) -> None:
    mean, low, high = (
        np.array([getattr(one, part) for one in curve.share]) for part in ("mean", "low", "high")
    )
    # A logarithmic axis has no zero, so zero is drawn below the lower end of the axis.
    mean = np.maximum(mean, MIN_SHARE / 10)
    axes.plot(curve.x, mean, **look.line, label=curve.label)
    axes.fill_between(
        curve.x,
        np.maximum(np.nan_to_num(low), MIN_SHARE / 10),
        np.nan_to_num(high),
        color=look.colour,
        alpha=0.12,
        linewidth=0,
    )

"""Bar charts of page times, page by page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from catnip.figures import style
from catnip.figures.style import INK, NO_LOOKS, PAPER, STYLE, VERMILION, WIDTH, Look


@dataclass(frozen=True)
class Series:
    """Bars of page times, one per page: our values with intervals, and those of the paper and of ns-2."""

    label: str
    mean: Sequence[float]
    mean_low: Sequence[float]
    mean_high: Sequence[float]
    sd: Sequence[float]
    paper_mean: Sequence[float] | None = None
    paper_sd: Sequence[float] | None = None
    ns2_mean: Sequence[float] | None = None
    ns2_low: Sequence[float] | None = None
    ns2_high: Sequence[float] | None = None
    ns2_sd: Sequence[float] | None = None


def page_bars(title: str, series: Sequence[Series], looks: Mapping[str, int] = NO_LOOKS) -> str:
    """Draws mean and standard deviation of the page times, page by page, for each series.

    `looks` maps names of series to indices in `style.LOOKS`, for series that have the same look in other
    figures.
    """
    drawn = [style.look(one.label, index, looks) for index, one in enumerate(series)]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 6.8), layout="constrained")
        above, below = figure.subplots(2, sharex=True)
        style.title(figure, title)
        width = 0.84 / len(series)
        for index, (one, look) in enumerate(zip(series, drawn, strict=True)):
            pages = np.arange(1, len(one.mean) + 1) + (index - (len(series) - 1) / 2) * width
            above.bar(pages, one.mean, 0.9 * width, **look.bar)
            below.bar(pages, one.sd, 0.9 * width, **look.bar)
            style.whiskers(above, pages, one.mean, one.mean_low, one.mean_high, INK)
            _mark_paper(above, pages - 0.22 * width, one.paper_mean)
            _mark_paper(below, pages - 0.22 * width, one.paper_sd)
            _mark_ns2(above, pages + 0.22 * width, one.ns2_mean)
            _mark_ns2(below, pages + 0.22 * width, one.ns2_sd)
            if one.ns2_mean is not None and one.ns2_low is not None and one.ns2_high is not None:
                style.whiskers(
                    above, pages + 0.22 * width, one.ns2_mean, one.ns2_low, one.ns2_high, VERMILION
                )
        count = len(series[0].mean)
        below.set(xlabel="page", xlim=(0.45, count + 0.55), xticks=range(1, count + 1))
        below.tick_params(axis="x", length=0)
        above.tick_params(axis="x", length=0)
        above.set_title("Mean page time, s")
        below.set_title("Standard deviation, s")
        figure.legend(
            handles=_bar_legend(series, drawn), loc="outside lower left", ncols=4, columnspacing=1.6
        )
        return style.svg(figure, title)


def _mark_paper(axes: Axes, x: NDArray[Any], values: Sequence[float] | None) -> None:
    if values is not None:
        axes.scatter(x, values, s=17, marker="D", color=INK, zorder=4, linewidths=0)


def _mark_ns2(axes: Axes, x: NDArray[Any], values: Sequence[float] | None) -> None:
    if values is not None:
        axes.scatter(x, values, s=17, facecolors=PAPER, edgecolors=VERMILION, linewidths=1.1, zorder=4)


def _bar_legend(series: Sequence[Series], looks: Sequence[Look]) -> list[Patch | Line2D]:
    handles: list[Patch | Line2D] = [
        Patch(**look.bar, label=one.label) for one, look in zip(series, looks, strict=True)
    ]
    handles.append(Line2D([], [], color=INK, marker="|", ls="", ms=10, label="95 % interval over seeds"))
    if any(one.paper_mean is not None for one in series):
        handles.append(Line2D([], [], color=INK, marker="D", ls="", ms=4.5, label="paper"))
    if any(one.ns2_mean is not None for one in series):
        ns2 = Line2D(
            [], [], color=VERMILION, marker="o", ms=4.5, mfc=PAPER, label="ns-2 and range of its runs"
        )
        handles.append(ns2)
    return handles

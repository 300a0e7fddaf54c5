"""Times of page loads, measured beside simulated."""

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from numpy.typing import ArrayLike

from catnip.figures import style
from catnip.figures.style import BLUE, GRID, STYLE, VERMILION, WIDTH

ROW = 0.44  # inches
APART = 0.17
"""Distance of measured and simulated times from the middle of their row."""


@dataclass(frozen=True)
class Loads:
    """Measured and simulated times of a page over a link, s."""

    name: str
    measured_s: ArrayLike
    simulated_s: ArrayLike


def beside(title: str, loads: Sequence[Loads], close: float) -> str:
    """Draws each measured time as a dot, and below it the median and the range of the simulated ones.

    The fraction `close` of the measured median is shaded on both sides of it.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, ROW * len(loads) + 1.6), layout="constrained")
        axes = figure.subplots()
        style.title(figure, title)
        for row, one in enumerate(loads):
            measured, simulated = np.asarray(one.measured_s), np.asarray(one.simulated_s)
            median, half = np.median(measured), np.array([-0.4, 0.4])
            axes.fill_betweenx(row + half, (1 - close) * median, (1 + close) * median, color=GRID, lw=0)
            axes.plot(
                measured, np.full(len(measured), row - APART), "o", color=BLUE, ms=4.5, mew=0, alpha=0.6
            )
            axes.hlines(row + APART, simulated.min(), simulated.max(), color=VERMILION, lw=2)
            axes.plot(np.median(simulated), row + APART, "D", color=VERMILION, ms=6, mew=0)
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_yticks(range(len(loads)), [one.name for one in loads])
        axes.set(xlabel="load event, s", ylim=(len(loads) - 0.4, -0.6))
        axes.grid(False, axis="y")
        handles = [
            style.dot(BLUE, "Chromium, one load each"),
            Line2D([], [], marker="D", color=VERMILION, lw=2, ms=6, label="simulated, median and range"),
            Patch(facecolor=GRID, label=f"within {100 * close:g} % of Chromium's median"),
        ]
        figure.legend(handles=handles, loc="outside lower left", ncols=3)
        return style.svg(figure, title)

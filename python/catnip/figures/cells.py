"""Heat maps of means with their intervals, one for each traffic group."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, isnan, log10
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from catnip.figures import style
from catnip.figures.style import ON_COLOUR, PAPER, STYLE, WIDTH

COLOURS = mpl.colormaps["viridis"].resampled(32)
"""Colours from dark to light, equally far apart for the eye and for those who see no red or green."""
ON_DARK_COLOUR = "#fefefe"
"""Text colour on dark cells, which are the same on a dark page."""
ROW = 0.46  # inches
FEW_COLUMNS = 7
"""Largest number of columns with which two heat maps stand side by side."""


@dataclass(frozen=True)
class Cells:
    """Heat map: means and halves of their intervals by row and column, NaN where there are none."""

    title: str
    measure: str
    mean: NDArray[np.float64]
    half: NDArray[np.float64]
    rows: Sequence[str]
    columns: Sequence[str]
    xlabel: str
    ylabel: str
    scale: str
    """Name of the colour scale, which maps of the same name share."""
    upwards: bool = True
    """True if the first row is the lowest, as of numbers."""


def heat_maps(title: str, maps: Sequence[Cells]) -> str:
    """Draws heat maps with their colour scales as legends, and mean and half-width in each cell."""
    abreast = 2 if len(maps) > 1 and len(maps[0].columns) <= FEW_COLUMNS else 1
    lines = -(-len(maps) // abreast)
    height = lines * (ROW * len(maps[0].rows) + 1.0) + 0.4
    with mpl.rc_context(STYLE | {"axes.grid": False}):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        grid = figure.subplots(lines, abreast, squeeze=False).ravel()
        style.title(figure, title)
        for axes, one in zip(grid, maps, strict=False):
            alike = [other.mean for other in maps if other.scale == one.scale]
            ends = min(map(np.nanmin, alike)), max(map(np.nanmax, alike))
            _draw(figure, axes, one, (float(ends[0]), float(ends[1])))
        for axes in grid[len(maps) :]:
            axes.set_axis_off()
        return style.svg(figure, title)


def _draw(figure: Figure, axes: Axes, cells: Cells, ends: tuple[float, float]) -> None:
    axes.set_title(cells.title)
    low, high = ends
    decimals = _decimals(high)
    if low == high:
        low, high = low - 0.5, high + 0.5
    mesh = axes.pcolormesh(
        np.ma.masked_invalid(cells.mean),
        shading="nearest",
        cmap=COLOURS,
        vmin=low,
        vmax=high,
        edgecolors=PAPER,
        linewidth=1.5,
    )
    for (row, column), mean in np.ndenumerate(cells.mean):
        texts = f"{mean:.{decimals}f}", f"± {cells.half[row, column]:#.2g}".rstrip(".")
        _write(axes, (row, column), texts, (mean - low) / (high - low))
    axes.set_xticks(range(len(cells.columns)), cells.columns)
    axes.set_yticks(range(len(cells.rows)), cells.rows)
    axes.set(xlabel=cells.xlabel, ylabel=cells.ylabel)
    if not cells.upwards:
        axes.invert_yaxis()
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    legend = figure.colorbar(mesh, ax=axes, label=cells.measure, aspect=3 * len(cells.rows), pad=0.02)
    legend.outline.set_visible(False)
    legend.ax.tick_params(length=0)


def _decimals(greatest: float) -> int:
    """Returns the number of decimals with which the greatest value has three digits."""
    return 0 if greatest == 0 else min(6, max(0, 2 - floor(log10(abs(greatest)))))


def _write(axes: Axes, at: tuple[int, int], texts: tuple[str, str], share: float) -> None:
    """Writes mean and half-width into a cell with the colour at `share` of the scale."""
    (row, column), (mean, half) = at, texts
    centre: dict[str, Any] = {"ha": "center", "va": "center"}
    if isnan(share):
        axes.text(column, row, "–", color=style.FAINT, **centre)
        return
    red, green, blue, _ = COLOURS(share)
    is_light = 0.3 * red + 0.59 * green + 0.11 * blue > 0.5
    colour = ON_COLOUR if is_light else ON_DARK_COLOUR
    if "nan" in half:
        axes.annotate(mean, (column, row), color=colour, fontsize=9, **centre)
        return
    for text, size, lift in ((mean, 9, 5), (half, 7, -6)):
        axes.annotate(
            text, (column, row), (0, lift), textcoords="offset points", color=colour, fontsize=size, **centre
        )

"""What all figures share: one look, and SVG that can stand in a page: the same data give the same bytes."""

import io
import re
from collections.abc import Sequence
from html import escape
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

INK = "#1f2933"
FAINT = "#7b8794"
# Okabe and Ito's colours, told apart by everyone; grey first, for the case the others are compared with.
COLOURS = ("#a3acb6", "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9")
BLUE, VERMILION = "#0072b2", "#d55e00"
WIDTH = 11  # inches; the same for all, so that their letters are of one size in a page

STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["Inter", "Helvetica Neue", "Arial", "Liberation Sans", "DejaVu Sans"],
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": "#c3cad2",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10.5,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": "#e8ebee",
    "grid.linewidth": 0.8,
    "xtick.color": "#c3cad2",
    "ytick.color": "#c3cad2",
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "lines.linewidth": 1.2,
    "figure.constrained_layout.h_pad": 0.09,
}


def title(figure: Figure, title: str) -> None:
    """The finding, above everything."""
    figure.suptitle(title, x=0.003, ha="left", fontsize=12.5, fontweight="bold")


def whiskers(
    axes: Axes,
    x: NDArray[Any],
    mean: Sequence[float],
    low: Sequence[float],
    high: Sequence[float],
    colour: str,
) -> None:
    """Intervals around points."""
    centre = np.asarray(mean)
    sizes = [np.maximum(centre - low, 0), np.maximum(np.asarray(high) - centre, 0)]
    axes.errorbar(x, centre, yerr=np.nan_to_num(sizes), fmt="none", ecolor=colour, elinewidth=1.1)


def colours(count: int) -> list[str]:
    """So many colours, in their order."""
    return [COLOURS[index % len(COLOURS)] for index in range(count)]


def dot(colour: str, label: str) -> Line2D:
    """A dot for a legend."""
    return Line2D([], [], marker="o", color=colour, ls="", ms=6, label=label)


def svg(figure: Figure, title: str) -> str:
    """The drawing as an element of a page: it takes the page's width and shares no id with another figure."""
    file = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": title}):
        no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(file, format="svg", metadata=no_metadata)
    text = file.getvalue()
    text = text[text.index("<svg") :]
    used = set(re.findall(r"(?:url\(|href=\")#([^)\"]+)", text))
    text = re.sub(r' id="([^"]+)"', lambda found: found[0] if found[1] in used else "", text)
    opening, body = text.split(">", 1)
    opening = re.sub(r' (?:width|height)="[^"]*"', "", opening)
    return f'{opening} role="img"><title>{escape(title)}</title>{body}'

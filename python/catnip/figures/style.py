"""Style that all figures share, and their conversion to SVG; equal data give equal bytes."""

import hashlib
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from catnip.base import files

PAPER = "#ffffff"
INK = "#1f2933"
FAINT = "#616e7c"
RULE, GRID = "#c3cad2", "#e8ebee"
ON_COLOUR = "#1f2932"
"""Text colour on the cells of heat maps, whose fill does not change on a dark page."""
BLUE, VERMILION = "#0072b2", "#d55e00"
WIDTH = 11  # inches; equal for all figures, so that a page has one size of letters


@dataclass(frozen=True)
class Look:
    """Appearance of a series: a colour, and dashes and a hatch that distinguish it without colours."""

    colour: str
    dashes: str | tuple[int, tuple[float, ...]]
    hatch: str

    @property
    def line(self) -> dict[str, Any]:
        """Matplotlib properties of a line with this look."""
        return {"color": self.colour, "ls": self.dashes, "linewidth": 1.8}

    @property
    def bar(self) -> dict[str, Any]:
        """Matplotlib properties of a bar or a patch with this look; its hatch is drawn in `PAPER`."""
        return {"facecolor": self.colour, "edgecolor": PAPER, "hatch": self.hatch, "linewidth": 0}


# Colours of Okabe and Ito, which colour-blind readers can distinguish, two more colours, and five shades from
# light to dark.
LOOKS = (
    Look(BLUE, "-", ""),
    Look("#e69f00", (0, (5, 1.6)), "///"),
    Look("#cc79a7", (0, (6, 1.5, 1, 1.5)), "++"),
    Look("#009e73", (0, (1, 1.3)), "\\\\\\"),
    Look("#56b4e9", (0, (6, 1.2, 1, 1.2, 1, 1.2)), "xx"),
    Look(VERMILION, (0, (9, 2.5)), "--"),
    Look("#8a5300", (0, (3, 1.2, 1, 1.2)), "||"),
    Look("#7b8794", (0, (2.5, 2)), ""),
    Look("#bba6d8", "-", "///"),
    Look("#9c80c6", (0, (6, 1.5)), "\\\\\\"),
    Look("#7d5bb3", (0, (6, 1.5, 1, 1.5)), "++"),
    Look("#5e3c97", (0, (2, 1.2)), "xx"),
    Look("#412173", (0, (1, 1)), "--"),
)
BASE = 7
"""Index in `LOOKS` of the grey look, for the reference with which other series are compared."""
RAMP = 8
"""Index in `LOOKS` of the first of five looks from light to dark, for series that have an order."""

NO_LOOKS: Mapping[str, int] = {}

ON_DARK: Mapping[str, str] = {
    PAPER: "#14191f",
    INK: "#e4e9ee",
    FAINT: "#9aa8b6",
    RULE: "#4b5865",
    GRID: "#2a333c",
    BLUE: "#4ba3e3",
    "#e69f00": "#e9a820",
    "#cc79a7": "#dd92ba",
    "#009e73": "#25b98d",
    "#56b4e9": "#8ed0f7",
    VERMILION: "#f0803a",
    "#8a5300": "#c9965a",
    "#7b8794": "#8e9aa7",
    "#bba6d8": "#6b4fa3",
    "#9c80c6": "#8668c0",
    "#7d5bb3": "#a487d8",
    "#5e3c97": "#c3aeec",
    "#412173": "#e2d8fa",
}
"""Colour on a dark page for each colour of the figures."""

# Matplotlib includes the font, and letters are drawn as paths, so viewers need no font.
STYLE: dict[Any, Any] = {
    # Names and titles are texts, also with dollar signs.
    "text.parse_math": False,
    "svg.fonttype": "path",
    "font.family": "DejaVu Sans",
    "mathtext.fontset": "dejavusans",
    "font.size": 9.5,
    "text.color": INK,
    "axes.facecolor": "none",
    "axes.labelcolor": INK,
    "axes.edgecolor": RULE,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "hatch.linewidth": 0.9,
    "xtick.color": RULE,
    "ytick.color": RULE,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "legend.handlelength": 2.8,
    "lines.linewidth": 1.2,
    "figure.constrained_layout.h_pad": 0.09,
}


def title(figure: Figure, title: str) -> None:
    """Writes the title of a figure, which states its main result, above all panels."""
    figure.suptitle(title, x=0.003, ha="left", fontsize=12, fontweight="bold")


def look(name: str, index: int, looks: Mapping[str, int]) -> Look:
    """Returns the look of a series: the look number `looks[name]` or, without an entry, `index`."""
    return LOOKS[looks.get(name, index) % len(LOOKS)]


def whiskers(
    axes: Axes,
    x: NDArray[Any],
    mean: Sequence[float],
    low: Sequence[float],
    high: Sequence[float],
    colour: str,
) -> None:
    """Draws error bars from `low` to `high` around the means."""
    centre = np.asarray(mean)
    sizes = [np.maximum(centre - low, 0), np.maximum(np.asarray(high) - centre, 0)]
    axes.errorbar(x, centre, yerr=np.nan_to_num(sizes), fmt="none", ecolor=colour, elinewidth=1.1)


def legend_below(figure: Figure, panels: Iterable[Axes], columns: int) -> None:
    """Draws one legend for the series of all panels below them, each series once."""
    handles: dict[str, Artist] = {}
    for axes in panels:
        artists, names = axes.get_legend_handles_labels()
        handles |= dict(zip(names, artists, strict=True))
    figure.legend(list(handles.values()), list(handles), loc="outside lower left", ncols=columns)


def dot(colour: str, label: str) -> Line2D:
    """Returns a legend entry with a dot of this colour."""
    return Line2D([], [], marker="o", color=colour, ls="", ms=6, label=label)


class Svg(str):
    """Figure as the text of an SVG element, which can be written as PDF and PNG, too."""

    __slots__ = ("_figure",)
    _figure: Figure

    @classmethod
    def of(cls, text: str, figure: Figure) -> "Svg":
        """Returns the text of this figure."""
        drawn = cls(text)
        drawn._figure = figure
        return drawn

    def as_bytes(self, kind: str) -> bytes:
        """Returns the figure as `pdf` or `png`, the latter with 200 dots per inch."""
        file = io.BytesIO()
        metadata: dict[str, Any] = {"pdf": {"CreationDate": None}, "png": {"Software": None}}[kind]
        with mpl.rc_context(STYLE):
            self._figure.savefig(file, format=kind, dpi=200, metadata=metadata)
        return file.getvalue()

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """Returns the text only, as stored results need nothing else."""
        return str, (str(self),)


def write(file: Path, drawn: str) -> None:
    """Writes a figure as its file's name says: .pdf, .png, or otherwise SVG."""
    kind = file.suffix.lower().removeprefix(".")
    if kind in {"pdf", "png"} and isinstance(drawn, Svg):
        with files.replacing(file) as aside:
            aside.write_bytes(drawn.as_bytes(kind))
    else:
        files.write(file, drawn)


def svg(figure: Figure, title: str) -> Svg:
    """Returns a figure as an SVG element for a page, with ids that no other figure of the page has.

    Letters are drawn as outlines, so the element has a description with the text of the figure.
    """
    file = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": title}):
        no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(file, format="svg", metadata=no_metadata)
    text = file.getvalue()
    opening, body = _with_own_ids(_tight(text[text.index("<svg") :])).split(">", 1)
    opening = re.sub(r' (?:width|height)="[^"]*"', "", opening)
    about = f"<title>{escape(title)}</title><desc>{escape(_description(figure))}</desc>"
    return Svg.of(f'{opening} role="img">{about}{body}', figure)


def in_page(svg: str) -> str:
    """Returns an SVG without its background, with CSS variables (see `variables`) as colours."""
    groundless = re.sub(rf'<path d="[^"]*" style="fill: {PAPER}"/>\n', "", svg, count=1)
    return re.sub(
        r"#[0-9a-f]{6}\b",
        lambda found: f"var({_variable(found[0])})" if found[0] in ON_DARK else found[0],
        groundless,
    )


def variables(dark: bool) -> str:
    """Returns the CSS declarations of the colours of all figures, for a light or a dark page."""
    return " ".join(f"{_variable(light)}: {ON_DARK[light] if dark else light};" for light in ON_DARK)


def _variable(colour: str) -> str:
    return f"--c{colour[1:]}"


def _tight(text: str) -> str:
    """Returns an SVG without comments and empty groups, with coordinates to a hundredth of a point."""
    text = re.sub(r"<!--.*?-->\s*", "", text, flags=re.DOTALL)
    text = re.sub(r'(?<= )(?:d|x|y|x1|x2|y1|y2|points)="[^"]*"', lambda found: _short(found[0]), text)
    text = re.sub(r"translate\([^)]*\)", lambda found: _short(found[0]), text)
    # The shapes of a pattern take the page's colours only from a style attribute.
    text = re.sub(r'(<rect[^>]*?) fill="([^"]*)"', r'\1 style="fill: \2"', text)
    empty = re.compile(r"<g(?: [^>]*)?/>\s*|<g(?: [^>]*)?>\s*</g>\s*")
    while empty.search(text):
        text = empty.sub("", text)
    return re.sub(r"\n\s+", "\n", text)


def _short(numbers: str) -> str:
    joined = re.sub(r" ?([A-Zz]) ?", r"\1", " ".join(numbers.split()))
    return re.sub(r"-?\d+\.\d+", lambda found: f"{round(float(found[0]), 2) + 0:g}", joined)


def _with_own_ids(text: str) -> str:
    """Returns an SVG that has only ids in use, renamed so that no other figure has them."""
    used = dict.fromkeys(re.findall(r"(?:url\(|href=\")#([^)\"]+)", text))
    own = hashlib.sha256(text.encode()).hexdigest()[:8]
    names = {id: f"f{own}-{number}" for number, id in enumerate(used)}
    text = re.sub(
        r' id="([^"]+)"', lambda found: f' id="{names[found[1]]}"' if found[1] in used else "", text
    )
    return re.sub(r"((?:url\(|href=\")#)([^)\"]+)", lambda found: found[1] + names[found[2]], text)


def _description(figure: Figure) -> str:
    """Returns the text of a figure for its description: titles and labels of panels, series and notes."""
    panels = [axes for axes in figure.axes if axes.get_visible()]
    legends = [*figure.legends, *(legend for axes in panels if (legend := axes.get_legend()))]
    written = {
        "Panels": [axes.get_title(loc="left") for axes in panels],
        "Across": [axes.get_xlabel() for axes in panels],
        "Upwards": [axes.get_ylabel() for axes in panels],
        "Shown": [text.get_text() for legend in legends for text in legend.get_texts()],
        "Notes": [text.get_text() for axes in panels for text in axes.texts if _has_letters(text.get_text())],
    }
    parts = ((name, list(dict.fromkeys(filter(None, texts)))) for name, texts in written.items())
    return " ".join(f"{name}: {'; '.join(texts)}." for name, texts in parts if texts)


def _has_letters(text: str) -> bool:
    return any(letter.isalpha() for letter in text)

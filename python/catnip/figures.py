"""The figures of the papers, as SVG text that can stand in a page: the same data give the same bytes."""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator
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


@dataclass(frozen=True)
class Series:
    """One bar per page: ours with its interval, beside what the paper prints and what ns-2 gives."""

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


def single_loss_profile(
    k: Sequence[int],
    ours_s: Sequence[float],
    ns2_s: Sequence[float],
    no_loss_s: float,
    timed_out: Sequence[bool],
) -> str:
    """Transfer time when only packet k is lost; `timed_out` says which losses waited for the timer."""
    late = [packet for packet, waited in zip(k, timed_out, strict=True) if waited]
    title = f"Losing packet {_ranges(late)} costs a timeout"
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 4.8), layout="constrained")
        axes = figure.subplots()
        _title(figure, title)
        axes.axhline(no_loss_s, color=FAINT, linewidth=1)
        axes.annotate(
            f"no loss: {no_loss_s:.2f} s",
            (max(k) + 0.8, no_loss_s),
            (0, -4),
            textcoords="offset points",
            ha="right",
            va="top",
            color=FAINT,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )
        colours = [VERMILION if waited else BLUE for waited in timed_out]
        axes.vlines(k, no_loss_s, ours_s, color=colours, linewidth=2.2, alpha=0.45)
        axes.scatter(k, ours_s, s=38, color=colours, zorder=3)
        axes.scatter(k, ns2_s, s=92, facecolors="none", edgecolors=INK, linewidths=1, zorder=4)
        axes.set(yscale="log", ylim=(0.87 * no_loss_s, 1.2 * max(*ours_s, *ns2_s)), xlim=(0.2, max(k) + 0.8))
        axes.yaxis.set_major_locator(FixedLocator([0.5, 1, 1.5, 2, 3, 4, 6, 8, 10, 15, 20]))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_xticks(list(k), minor=False)
        axes.tick_params(axis="x", labelsize=9)
        axes.set(xlabel="which packet is lost", ylabel="transfer time, s")
        handles = [
            _dot(VERMILION, "repaired by a timeout"),
            _dot(BLUE, "repaired by fast retransmit"),
            Line2D([], [], marker="o", mfc="none", mec=INK, ms=9, ls="", label="ns-2"),
        ]
        axes.legend(handles=handles, loc="upper right", bbox_to_anchor=(1, 1))
        return _svg(figure, title)


def sequence_plots(
    panels: Sequence[tuple[str, Sequence[float], Sequence[int]]], title: str = "Packets as they are sent"
) -> str:
    """Packet number over sending time, one panel per (title, times, packet numbers), two to a row."""
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    with mpl.rc_context(STYLE | {"axes.grid.axis": "both"}):
        figure = Figure(figsize=(WIDTH, 0.6 + 3.2 * rows), layout="constrained")
        grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        _title(figure, title)
        for axes, (name, times, seqs) in zip(grid.flat, panels, strict=False):
            again = _repeated(seqs)
            axes.set_title(name)
            axes.plot(times, seqs, color=BLUE, alpha=0.35, linewidth=1)
            axes.scatter(times, seqs, s=22, color=[VERMILION if r else BLUE for r in again], zorder=3)
            axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        for axes in grid[-1]:
            axes.set_xlabel("time, s")
        for axes in grid[:, 0]:
            axes.set_ylabel("packet")
        for axes in grid.flat[len(panels) :]:
            axes.set_visible(False)
        if any(any(_repeated(seqs)) for _, _, seqs in panels):
            handles = [_dot(BLUE, "sent"), _dot(VERMILION, "sent again")]
            grid.flat[0].legend(handles=handles, loc="lower right")
        return _svg(figure, title)


def page_bars(title: str, series: Sequence[Series]) -> str:
    """Mean and standard deviation of the page times, page by page, for each series."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 6.8), layout="constrained")
        above, below = figure.subplots(2, sharex=True)
        _title(figure, title)
        width = 0.84 / len(series)
        for index, (one, colour) in enumerate(zip(series, _colours(len(series)), strict=True)):
            pages = np.arange(1, len(one.mean) + 1) + (index - (len(series) - 1) / 2) * width
            above.bar(pages, one.mean, 0.9 * width, color=colour)
            below.bar(pages, one.sd, 0.9 * width, color=colour)
            _whiskers(above, pages, one.mean, one.mean_low, one.mean_high, INK)
            _mark_paper(above, pages - 0.22 * width, one.paper_mean)
            _mark_paper(below, pages - 0.22 * width, one.paper_sd)
            _mark_ns2(above, pages + 0.22 * width, one.ns2_mean)
            _mark_ns2(below, pages + 0.22 * width, one.ns2_sd)
            if one.ns2_mean is not None and one.ns2_low is not None and one.ns2_high is not None:
                _whiskers(above, pages + 0.22 * width, one.ns2_mean, one.ns2_low, one.ns2_high, VERMILION)
        count = len(series[0].mean)
        below.set(xlabel="page", xlim=(0.45, count + 0.55), xticks=range(1, count + 1))
        below.tick_params(axis="x", length=0)
        above.tick_params(axis="x", length=0)
        above.set_title("Mean page time, s")
        below.set_title("Standard deviation, s")
        figure.legend(handles=_bar_legend(series), loc="outside lower left", ncols=4, columnspacing=1.6)
        return _svg(figure, title)


def _title(figure: Figure, title: str) -> None:
    figure.suptitle(title, x=0.003, ha="left", fontsize=12.5, fontweight="bold")


def _whiskers(
    axes: Axes,
    x: NDArray[Any],
    mean: Sequence[float],
    low: Sequence[float],
    high: Sequence[float],
    colour: str,
) -> None:
    centre = np.asarray(mean)
    sizes = [np.maximum(centre - low, 0), np.maximum(np.asarray(high) - centre, 0)]
    axes.errorbar(x, centre, yerr=np.nan_to_num(sizes), fmt="none", ecolor=colour, elinewidth=1.1)


def _mark_paper(axes: Axes, x: NDArray[Any], values: Sequence[float] | None) -> None:
    if values is not None:
        axes.scatter(x, values, s=17, marker="D", color=INK, zorder=4, linewidths=0)


def _mark_ns2(axes: Axes, x: NDArray[Any], values: Sequence[float] | None) -> None:
    if values is not None:
        axes.scatter(x, values, s=17, facecolors="white", edgecolors=VERMILION, linewidths=1.1, zorder=4)


def _bar_legend(series: Sequence[Series]) -> list[Patch | Line2D]:
    handles: list[Patch | Line2D] = [
        Patch(color=colour, label=one.label)
        for one, colour in zip(series, _colours(len(series)), strict=True)
    ]
    handles.append(Line2D([], [], color=INK, marker="|", ls="", ms=10, label="95 % interval over seeds"))
    if any(one.paper_mean is not None for one in series):
        handles.append(Line2D([], [], color=INK, marker="D", ls="", ms=4.5, label="paper"))
    if any(one.ns2_mean is not None for one in series):
        ns2 = Line2D(
            [], [], color=VERMILION, marker="o", ms=4.5, mfc="white", label="ns-2 and range of its runs"
        )
        handles.append(ns2)
    return handles


def _colours(count: int) -> list[str]:
    return [COLOURS[index % len(COLOURS)] for index in range(count)]


def _dot(colour: str, label: str) -> Line2D:
    return Line2D([], [], marker="o", color=colour, ls="", ms=6, label=label)


def _repeated(seqs: Sequence[int]) -> list[bool]:
    firsts = {seq: index for index, seq in reversed(list(enumerate(seqs)))}
    return [firsts[seq] < index for index, seq in enumerate(seqs)]


def _ranges(numbers: Sequence[int]) -> str:
    """1, 2, 3, 26 as `1–3 or 26`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    shown = [str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs]
    return " or ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))


def _svg(figure: Figure, title: str) -> str:
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

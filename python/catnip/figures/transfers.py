"""Figures of single transfers: the cost of one loss, and packets over time."""

from collections.abc import Sequence

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from catnip.base.ranges import runs_of
from catnip.figures import style
from catnip.figures.style import BLUE, FAINT, INK, PAPER, STYLE, VERMILION, WIDTH


def single_loss_profile(
    k: Sequence[int],
    ours_s: Sequence[float],
    ns2_s: Sequence[float],
    no_loss_s: float,
    timed_out: Sequence[bool],
) -> str:
    """Draws the transfer times if only packet k is lost; `timed_out` is true for repairs by a timeout."""
    with_timeout = [packet for packet, waited in zip(k, timed_out, strict=True) if waited]
    title = f"Losing packet {_ranges(with_timeout)} costs a timeout"
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 4.8), layout="constrained")
        axes = figure.subplots()
        style.title(figure, title)
        axes.axhline(no_loss_s, color=FAINT, linewidth=1)
        axes.annotate(
            f"no loss: {no_loss_s:.2f} s",
            (max(k) + 0.8, no_loss_s),
            (0, -4),
            textcoords="offset points",
            ha="right",
            va="top",
            color=FAINT,
            bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 1},
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
        axes.set(xlabel="lost packet", ylabel="transfer time, s")
        handles = [
            style.dot(VERMILION, "repaired by a timeout"),
            style.dot(BLUE, "repaired by fast retransmit"),
            Line2D([], [], marker="o", mfc="none", mec=INK, ms=9, ls="", label="ns-2"),
        ]
        axes.legend(handles=handles, loc="upper right", bbox_to_anchor=(1, 1))
        return style.svg(figure, title)


def sequence_plots(
    panels: Sequence[tuple[str, Sequence[float], Sequence[int]]],
    title: str = "Packets in the order of transmission",
) -> str:
    """Draws packet numbers over send times, two panels in a row: each has title, times and packet numbers."""
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    with mpl.rc_context(STYLE | {"axes.grid.axis": "both"}):
        figure = Figure(figsize=(WIDTH, 0.6 + 3.2 * rows), layout="constrained")
        grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        style.title(figure, title)
        for axes, (name, times, seqs) in zip(grid.flat, panels, strict=False):
            repeated = _repeated(seqs)
            axes.set_title(name)
            axes.plot(times, seqs, color=BLUE, alpha=0.35, linewidth=1)
            axes.scatter(times, seqs, s=22, color=[VERMILION if r else BLUE for r in repeated], zorder=3)
            axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        for axes in grid[-1]:
            axes.set_xlabel("time, s")
        for axes in grid[:, 0]:
            axes.set_ylabel("packet")
        for axes in grid.flat[len(panels) :]:
            axes.set_visible(False)
        if any(any(_repeated(seqs)) for _, _, seqs in panels):
            handles = [style.dot(BLUE, "sent"), style.dot(VERMILION, "sent again")]
            grid.flat[0].legend(handles=handles, loc="lower right")
        return style.svg(figure, title)


def _repeated(seqs: Sequence[int]) -> list[bool]:
    firsts = {seq: index for index, seq in reversed(list(enumerate(seqs)))}
    return [firsts[seq] < index for index, seq in enumerate(seqs)]


def _ranges(numbers: Sequence[int]) -> str:
    """Formats numbers in words, with consecutive ones as ranges: 1, 2, 3, 26 as `1–3 or 26`."""
    shown = [f"{first}" if first == last else f"{first}–{last}" for first, last in runs_of(numbers)]
    return " or ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))

"""Sequence plots: segment numbers over send times, with the segments of two senders in one panel."""

from collections.abc import Mapping
from collections.abc import Sequence as Listed
from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from catnip.figures import style
from catnip.figures.style import BLUE, STYLE, VERMILION, WIDTH

ABREAST = 2
ROW = 3.8  # inches


@dataclass(frozen=True)
class Sequence:
    """Segments of one sender: send times, numbers, and whether each is a retransmission."""

    times_s: Listed[float]
    segments: Listed[int]
    is_retransmission: Listed[bool]


def overlaid(title: str, panels: Mapping[str, Mapping[str, Sequence]]) -> str:
    """Draws a panel for each transfer: one sender's segments as dots, the other's as circles around them."""
    rows = -(-len(panels) // ABREAST)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, ROW * rows + 0.4), layout="constrained")
        grid = figure.subplots(rows, min(ABREAST, len(panels)), squeeze=False).ravel()
        style.title(figure, title)
        for axes, (name, senders) in zip(grid, panels.items(), strict=False):
            axes.set_title(name)
            for index, (label, sender) in enumerate(senders.items()):
                _draw(axes, label, sender, index)
            axes.set(xlabel="time since the first segment, s", ylabel="segment")
            axes.set_ylim(bottom=0)
            axes.set_xlim(left=0)
        for axes in grid[len(panels) :]:
            axes.set_axis_off()
        style.legend_below(figure, grid, 4)
        return style.svg(figure, title)


def _draw(axes: Axes, label: str, sender: Sequence, index: int) -> None:
    colour = (BLUE, VERMILION)[index]
    looks = (("o", "x"), ("o", "s"))[index]
    for is_retransmission, marker, suffix in ((False, looks[0], ""), (True, looks[1], ", again")):
        points = [
            point
            for *point, flag in zip(sender.times_s, sender.segments, sender.is_retransmission, strict=True)
            if flag == is_retransmission
        ]
        hollow = index == 1
        axes.plot(
            [at for at, _ in points],
            [segment for _, segment in points],
            ls="",
            marker=marker,
            ms=(8 if is_retransmission else 6) if hollow else (6 if is_retransmission else 2.4),
            mfc="none" if hollow else colour,
            mec=colour,
            mew=0.8 if hollow else 1.2,
            label=f"{label}{suffix}",
        )

"""Waterfalls of page loads, as the developer tools of browsers draw them: a row for each object."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TypeAlias

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from catnip.figures import style
from catnip.figures.style import BLUE, FAINT, INK, RULE, STYLE, VERMILION, WIDTH

Dashes: TypeAlias = str | tuple[int, tuple[float, ...]]
MOST_ROWS = 60
"""Largest number of objects that a waterfall shows."""
LONGEST_NAME = 32
"""Largest number of characters of a name that is not shortened."""
ROW = 0.2  # inches
HEAD = 1.55
"""Height of title, legend and axis, inches."""
MANY_ROWS = 25
"""Number of rows from which on the axis is also above them."""
NARROWEST = 1 / 750
"""Width of the narrowest part, about a pixel, as a share of the axis."""
PARTS = {
    "look_up": ("look-up of the name", "#009e73", 0.72),
    "queued": ("queued", RULE, 0.22),
    "connect": ("connect", "#e69f00", 0.72),
    "tls": ("TLS", "#cc79a7", 0.72),
    "wait": ("wait for the first byte", "#56b4e9", 0.44),
    "receive": ("receive", BLUE, 0.72),
}
"""Label, colour and height of each part of a fetch, by its name; what only waits is thin."""
MARKS: Sequence[tuple[str, str, Dashes]] = (
    ("first byte", FAINT, ":"),
    ("first rendering", "#5e3c97", (0, (4, 1.5))),
    ("load event", VERMILION, "-"),
)
"""Name, colour and dashes of the line of each milestone."""


@dataclass(frozen=True)
class Bar:
    """Fetch of an object: its name, size and begin, and the durations of its parts in their order, ms."""

    name: str
    bytes: int
    start_ms: float
    parts_ms: Mapping[str, float]


def waterfall(title: str, bars: Sequence[Bar], marks_ms: Mapping[str, float], end_ms: float) -> str:
    """Draws a waterfall; the time axis ends at `end_ms`. `marks_ms` has the times of milestones by name."""
    shown = bars[:MOST_ROWS]
    rows = len(shown) + (len(bars) > len(shown))
    with mpl.rc_context(STYLE | {"axes.grid.axis": "x", "font.size": 9}):
        figure = Figure(figsize=(WIDTH, ROW * max(rows, 4) + HEAD), layout="constrained")
        axes = figure.subplots()
        style.title(figure, title)
        for row, bar in enumerate(shown):
            _draw(axes, row, bar, end_ms)
        _columns(axes, shown)
        parts: list[Artist] = [
            Patch(facecolor=colour, label=label)
            for part, (label, colour, _) in PARTS.items()
            if any(bar.parts_ms[part] > 0 for bar in shown)
        ]
        marks: list[Artist] = []
        for name, colour, dashes in MARKS:
            if name in marks_ms:
                axes.axvline(marks_ms[name], color=colour, ls=dashes, linewidth=1.3, zorder=3)
                label = f"{name}, {marks_ms[name]:.0f} ms"
                marks.append(Line2D([], [], label=label, color=colour, ls=dashes, linewidth=1.3))
        left_out = [f"and {len(bars) - len(shown)} more"] * (rows - len(shown))
        axes.set_yticks(range(rows), [*(_shortened(bar.name) for bar in shown), *left_out])
        axes.set(xlabel="time since the begin of the load, ms", xlim=(0, end_ms), ylim=(rows - 0.4, -0.6))
        axes.spines["left"].set_visible(False)
        if rows > MANY_ROWS:
            axes.tick_params(axis="x", top=True, labeltop=True)
        _legend(figure, parts, marks)
        return style.svg(figure, title)


def _legend(figure: Figure, parts: Sequence[Artist], marks: Sequence[Artist]) -> None:
    """Adds a legend with the parts in its first row and the milestones in its second one."""
    # A legend is filled column by column.
    nothing = Patch(facecolor="none", label="")
    columns = list(zip_longest(parts, marks, fillvalue=nothing))
    handles = [one for column in columns for one in column]
    figure.legend(
        handles=handles, loc="outside lower left", ncols=len(columns), columnspacing=1.6, handlelength=1.8
    )


def _draw(axes: Axes, row: int, bar: Bar, end_ms: float) -> None:
    narrowest_ms = NARROWEST * end_ms
    at_ms = bar.start_ms
    for name, duration_ms in bar.parts_ms.items():
        _, colour, height = PARTS[name]
        if duration_ms > 0:
            # A part that would be narrower than the following one is drawn over it.
            width_ms = max(duration_ms, narrowest_ms)
            above = 2.2 if duration_ms < narrowest_ms else 2
            axes.barh(row, width_ms, height, at_ms, color=colour, linewidth=0, zorder=above)
        at_ms += duration_ms


def _columns(axes: Axes, bars: Sequence[Bar]) -> None:
    """Writes size and time of each object to the right of the rows."""
    across = axes.get_yaxis_transform()
    for at, head in ((1.055, "KB"), (1.115, "ms")):
        axes.text(at, -1, head, transform=across, ha="right", va="center", color=FAINT)
    for row, bar in enumerate(bars):
        for at, text in ((1.055, f"{bar.bytes / 1e3:.1f}"), (1.115, f"{sum(bar.parts_ms.values()):.0f}")):
            axes.text(at, row, text, transform=across, ha="right", va="center", color=INK)


def _shortened(name: str) -> str:
    if len(name) <= LONGEST_NAME:
        return name
    half = (LONGEST_NAME - 1) // 2
    return f"{name[:half]}…{name[-half:]}"

"""Figures of what happens over time: windows, queues, rates and round trips, one variant above another."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from catnip.analysis.timelines import Timeline, Values
from catnip.figures import style
from catnip.figures.style import FAINT, STYLE, VERMILION, WIDTH

ROW = 2.5  # inches
MARK = "#009e73"
OF_PRIORITY = {"LOW": style.RAMP, "MED": style.RAMP + 2, "HIGH": style.RAMP + 4}
"""Indices in `style.LOOKS`, from light to dark."""


@dataclass(frozen=True)
class Curve:
    """Values over time; `is_bound` for a thin line, such as that of a threshold."""

    label: str
    at_s: Values
    values: Values
    is_bound: bool = False


@dataclass(frozen=True)
class Ticks:
    """Events that are shown as short strokes at the lower edge."""

    label: str
    at_s: Values
    colour: str


@dataclass(frozen=True)
class Strip:
    """Panel whose x axis is the time."""

    title: str
    ylabel: str
    curves: Sequence[Curve]
    stacked: Mapping[str, Values] = field(default_factory=dict)
    """Values that are drawn one upon another, over the times of the first curve, which is their sum."""
    ticks: Sequence[Ticks] = ()


def windows(title: str, drawn: Sequence[Timeline]) -> str:
    """Draws cwnd and ssthresh, and beside them the data in flight, of each sampled connection."""

    def cwnd(of: Timeline) -> Strip:
        curves = [Curve(one.name, one.at_s, one.cwnd_bytes / 1e3) for one in of.senders]
        bounds = [Curve(one.name, one.at_s, one.ssthresh_bytes / 1e3, is_bound=True) for one in of.senders]
        return Strip(
            f"{of.variant}: cwnd, and ssthresh (thin)",
            "kB",
            [*curves, *_below(bounds, curves)],
            ticks=_losses(of),
        )

    def in_flight(of: Timeline) -> Strip:
        curves = [Curve(one.name, one.at_s, one.in_flight_bytes / 1e3) for one in of.senders]
        return Strip(f"{of.variant}: data in flight", "kB", curves)

    return strips(title, [cwnd, in_flight], drawn)


def queues(title: str, drawn: Sequence[Timeline]) -> str:
    """Draws the packets in the first link's queue by priority, and beside them the delay at all links."""

    def waiting(of: Timeline) -> Strip:
        link = of.links[0]
        total = np.sum([np.zeros(len(link.at_s)), *link.packets.values()], axis=0)
        marks = [Ticks("CE mark", link.marks_s, MARK)] if len(link.marks_s) else []
        ticks = [Ticks("drop", link.drops_s, VERMILION), *marks]
        curve = Curve("packets", link.at_s, total)
        return Strip(f"{of.variant}: queue of {link.name}", "packets", [curve], link.packets, ticks)

    def delay(of: Timeline) -> Strip:
        curves = [Curve(link.name, link.at_s, link.delay_s * 1e3) for link in of.links]
        return Strip(f"{of.variant}: time in the queue and in transmission", "ms", curves)

    return strips(title, [waiting, delay], drawn)


def rates(title: str, drawn: Sequence[Timeline]) -> str:
    """Draws the goodput of each sampled connection, and beside it the rate of each link."""

    def goodput(of: Timeline) -> Strip:
        curves = [Curve(one.name, *_smooth(one.at_s, one.goodput_mbps)) for one in of.senders]
        return Strip(f"{of.variant}: goodput of connections", "Mbit/s", curves)

    def of_links(of: Timeline) -> Strip:
        curves = [Curve(link.name, *_smooth(link.at_s, link.rate_mbps)) for link in of.links]
        return Strip(f"{of.variant}: rate of links", "Mbit/s", curves)

    return strips(title, [goodput, of_links], drawn)


def round_trips(title: str, drawn: Sequence[Timeline]) -> str:
    """Draws the smoothed round trip of each sampled connection."""

    def srtt(of: Timeline) -> Strip:
        curves = [Curve(one.name, one.at_s, one.srtt_s * 1e3) for one in of.senders]
        return Strip(f"{of.variant}: smoothed round trip", "ms", curves)

    return strips(title, [srtt], drawn)


def strips(title: str, columns: Sequence[Callable[[Timeline], Strip]], drawn: Sequence[Timeline]) -> str:
    """Draws a row of panels for each timeline; all have one time axis, and a column has one scale."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, ROW * len(drawn) + 0.9), layout="constrained")
        grid = figure.subplots(len(drawn), len(columns), sharex=True, sharey="col", squeeze=False)
        style.title(figure, title)
        panels = [[column(of) for column in columns] for of in drawn]
        labels = list(dict.fromkeys(_labels(panels)))
        for axes, strip in zip(grid.ravel(), (strip for row in panels for strip in row), strict=True):
            _draw(axes, strip, labels)
        for axes in grid[-1]:
            axes.set_xlabel("time, s")
        start, end = drawn[0].range_s
        grid[0][0].set_xlim(start, max(end, start + 1e-9))
        for axes in grid.ravel():
            axes.set_ylim(bottom=0)
        style.legend_below(figure, grid.ravel(), 4)
        return style.svg(figure, title)


def _labels(panels: Sequence[Sequence[Strip]]) -> list[str]:
    return [curve.label for row in panels for strip in row if not strip.stacked for curve in strip.curves]


def _draw(axes: Axes, strip: Strip, labels: Sequence[str]) -> None:
    axes.set_title(strip.title)
    axes.set_ylabel(strip.ylabel)
    if strip.stacked:
        at_s = strip.curves[0].at_s
        bottom: Values = np.zeros(len(at_s))
        for priority, values in strip.stacked.items():
            look = style.LOOKS[OF_PRIORITY[priority]]
            axes.fill_between(
                at_s, bottom, bottom + values, step="post", color=look.colour, lw=0, label=priority
            )
            bottom = bottom + values
    else:
        for curve in strip.curves:
            look = style.look(curve.label, labels.index(curve.label), style.NO_LOOKS)
            if curve.is_bound:
                axes.plot(
                    curve.at_s, curve.values, color=look.colour, lw=0.7, alpha=0.7, drawstyle="steps-post"
                )
                continue
            axes.plot(curve.at_s, curve.values, **{**look.line, "linewidth": 1.2}, label=curve.label)
    for number, ticks in enumerate(strip.ticks):
        # Each kind has a band of its own at the upper edge, whatever the scale.
        top, low = 1.0 - 0.05 * number, 0.955 - 0.05 * number
        transform = axes.get_xaxis_transform()
        if len(ticks.at_s):
            axes.vlines(
                ticks.at_s,
                low,
                top,
                color=ticks.colour,
                lw=0.8,
                transform=transform,
                label=ticks.label,
            )


def _losses(of: Timeline) -> list[Ticks]:
    every = [
        ("drop", VERMILION, [one.drops_s for one in of.senders]),
        ("timeout", FAINT, [one.timeouts_s for one in of.senders]),
    ]
    together = [Ticks(label, np.concatenate([*at_s, []]), colour) for label, colour, at_s in every]
    return [ticks for ticks in together if len(ticks.at_s)]


def _below(bounds: Sequence[Curve], curves: Sequence[Curve]) -> list[Curve]:
    """Returns thresholds without the values far above all windows, which would squeeze the windows."""
    values = np.concatenate([curve.values for curve in curves] or [np.zeros(1)])
    highest = 1.3 * float(np.nanmax(values, initial=0))
    return [
        Curve(one.label, one.at_s, np.where(one.values > highest, np.nan, one.values), is_bound=True)
        for one in bounds
    ]


def _smooth(at_s: Values, rates: Values) -> tuple[Values, Values]:
    """Returns means of ten intervals, as single intervals have few packets."""
    known = np.isfinite(rates)
    at_s, rates = at_s[known], rates[known]
    if not len(rates):
        return at_s, rates
    parts = max(1, len(rates) // 10)
    means = [float(np.mean(part)) for part in np.array_split(rates, parts)]
    return np.array([part[-1] for part in np.array_split(at_s, parts)]), np.array(means)

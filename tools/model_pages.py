"""Pages of docs/models: every model beside simulations of the same transfers, drawn and in tables.

`tools/model_pages.py docs/models` writes figures, accuracy.md and a part of index.md there. It also writes
accuracy.csv, from which commands compute the regions in which models can be trusted. `make validate` calls
it. The same code gives the same bytes.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from numpy.typing import NDArray
from scipy.special import stdtrit

from catnip import models
from catnip._core import Scenario
from catnip.analysis import stats
from catnip.analysis.interval import Interval
from catnip.base import paths
from catnip.figures import style
from catnip.figures.style import FAINT, INK, LOOKS, PAPER, STYLE, WIDTH
from catnip.modelling import accuracy, case
from catnip.modelling.accuracy import Point
from catnip.modelling.case import Case, Simulated

TRIALS, SEED = 10_000, 1
SHORT, LONG = (1, 3, 6, 12, 23, 36), (46, 65, 79, 92, 115, 129, 143)
SIZES = SHORT + LONG
"""Sizes of the hysteresis paper, 1 to 200 KB, in packets."""
LONGER = {500: 1000, 2000: 300, 10_000: 100, 20_000: 100}
"""Numbers of simulated transfers of larger sizes, by size in packets; these means need fewer."""
LOSSES = (0.0, 0.01, 0.03, 0.05, 0.08, 0.1)
COMPARED_LOSSES = (0.0, 0.001, 0.003, 0.01, 0.03, 0.05, 0.08, 0.1, 0.15, 0.2)
DRAWN = (0.01, 0.05, 0.1)
STEADY_LOSSES = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2)
PATHS = (Case(1, 0.0), Case(1, 0.0, rtt_s=0.05), Case(1, 0.0, b=1, delack_s=0.0))
"""Paths of the simulations: that of the hysteresis paper, one with a shorter round trip, and one with an ACK
per packet."""
WHAT: Sequence[Simulated] = ("reno", "partial_catnip", "download")
DELAY_S = 0.033
"""One-way delay in the figures of the models of WZK, s."""

RFC9438_WINDOWS = {
    0.1: {1e-2: 12, 1e-3: 38, 1e-4: 187, 1e-5: 1054, 1e-6: 5926, 1e-7: 33325, 1e-8: 187400},
    0.01: {1e-2: 12, 1e-3: 38, 1e-4: 120, 1e-5: 379, 1e-6: 1200, 1e-7: 5926, 1e-8: 33325},
}
"""Average window of CUBIC with C = 0.4 by round trip (s) and loss rate: RFC 9438 section 5.1, Tables 1, 2."""

Means = Mapping[tuple[int, float, bool], Interval]
"""Mean simulated transfer times, by packets, loss rate, and whether the ends are marked."""


@dataclass(frozen=True)
class Latency:
    """Latency model, or a variant of one, as a function of packets and loss rate."""

    label: str
    of: Callable[[Any, Any], Any]
    marks: bool = False


@dataclass(frozen=True)
class Rate:
    """Rate model as a function of the loss rate, on the path of the simulated transfers."""

    label: str
    of: Callable[[Any], Any]


HYSTERESIS = Latency("hysteresis", models.hysteresis)
LATENCIES: Mapping[str, tuple[str, Sequence[Latency]]] = {
    "padhye-latency": (
        "Without slow start a rate is a bad guess at a short transfer's time",
        (
            Latency("Padhye, send rate", models.padhye_latency),
            Latency(
                "Padhye, receive rate",
                lambda n, p: models.padhye_latency(n, p, rate="receive"),
            ),
        ),
    ),
    "cardwell-98": (
        "Cardwell-98: low where losses are few, right at 10 % from 23 packets on",
        (
            Latency("Cardwell-98", models.cardwell98),
            Latency(
                "Cardwell-98, every loss a timeout",
                lambda n, p: models.cardwell98(n, p, use_Q=False),
            ),
        ),
    ),
    "cardwell-00": (
        "Cardwell-00 follows long transfers if the rate is the receive rate",
        (
            Latency("Cardwell-00", models.cardwell00),
            Latency(
                "Cardwell-00, send rate",
                lambda n, p: models.cardwell00(n, p, rate="send"),
            ),
        ),
    ),
    "sikdar": (
        "After Sikdar (reconstructions): one too high, one far too low for long lossy transfers",
        (
            Latency("Sikdar, three cases", models.sikdar_threecase),
            Latency("Sikdar, fitted", models.sikdar_empirical),
        ),
    ),
    "hysteresis": (
        "Hysteresis: within 11 % for 12 to 143 packets at 5 to 10 % loss",
        (
            HYSTERESIS,
            Latency(
                "hysteresis, last cycle without loss",
                lambda n, p: models.hysteresis(n, p, last_cycle_loss=False),
            ),
        ),
    ),
    "partial-catnip": (
        "Partial CATNIP: within 20 % of the simulation up to 143 packets",
        (Latency("Partial CATNIP", models.partial_catnip, marks=True),),
    ),
    "recursive": (
        "The recursion is low, by 10 to 15 % for most transfers",
        (Latency("recursive, by rounds", models.recursive_short_flow),),
    ),
}
"""Title, which states the main result, and models of each figure of latencies, by the name of its page."""

MATHIS_DELAYED = math.sqrt(0.75)
RATES: Mapping[str, tuple[str, Sequence[Rate]]] = {
    "mathis": (
        "Mathis: too fast even where losses are rare, and twice as fast as goodput at 6 %",
        (
            Rate("Mathis, window 24", lambda p: models.mathis(p, C=MATHIS_DELAYED, Wmax=24)),
            Rate("Mathis", lambda p: models.mathis(p, C=MATHIS_DELAYED)),
        ),
    ),
    "pftk": (
        "PFTK: the receive rate is the one that goodput follows",
        (
            Rate("receive rate", models.pftk_throughput),
            Rate("send rate", models.pftk_full),
            Rate("short form", models.pftk_approx),
            Rate("without timeouts", models.pftk_td_only),
        ),
    ),
    "tfrc": (
        "TFRC's equation promises what TCP sends, not what arrives",
        (
            Rate("TFRC", models.tfrc_rfc5348),
            Rate("PFTK, receive rate", models.pftk_throughput),
        ),
    ),
}

BAND = Patch(color=FAINT, alpha=0.25, linewidth=0, label="its 95 % interval")

DOWNLOADS = (
    Latency("Wang-Zhang-Keshav", lambda n, pl: models.wzk_new(n, pl, DELAY_S)),
    Latency("Model C, high", lambda n, pl: models.model_c_high(n, pl, DELAY_S)),
    Latency("Model C, low", lambda n, pl: models.model_c_low(n, pl, DELAY_S)),
)

IN_TABLE = tuple(one for _, shown in LATENCIES.values() for one in shown)
FIGURES = (*RATES, "cubic", *LATENCIES, "wang-zhang-keshav", "model-c")


def simulate(paths: Sequence[Case] = PATHS, trials: int = TRIALS) -> list[Point]:
    """Simulates all points to compare: transfers of every size, and long ones for rates, on every path."""
    times = [
        Point.of(what, at, case.simulated(at, what, min(trials, LONGER.get(packets, trials)), SEED))
        for path in paths
        for packets in (*SIZES, *LONGER)
        for p in COMPARED_LOSSES
        for what in WHAT
        for at in [replace(path, packets=packets, p=p)]
    ]
    rates = [
        Point.of(what, at, mean)
        for path in paths
        for p in STEADY_LOSSES
        for at in [replace(path, packets=max(LONGER), p=p)]
        for what, mean in case.simulated_rates(at, min(trials, LONGER[at.packets]), SEED).items()
    ]
    return times + rates


def means_of(points: Iterable[Point]) -> Means:
    """Returns the mean transfer times over the hysteresis paper's path, by packets, loss and marking."""
    return {
        (one.case.packets, one.case.p, one.simulated == "partial_catnip"): one.mean
        for one in points
        if one.simulated in ("reno", "partial_catnip")
        and one.case == Case(one.case.packets, one.case.p)
        and one.case.p in LOSSES
    }


def elsewhere_of(points: Iterable[Point]) -> dict[Case, Interval]:
    """Returns the mean transfer times of eight cases over the path with the shorter round trip."""
    cases = [Case(n, p, rtt_s=0.05) for n in (1, 6, 23, 143) for p in (0.01, 0.1)]
    times = {one.case: one.mean for one in points if one.simulated == "reno"}
    return {one: times[one] for one in cases if one in times}


def simulate_steady(losses: Sequence[float] = STEADY_LOSSES, seeds: int = 20) -> dict[float, Interval]:
    """Simulates the goodput of the scenario steady-state at more loss rates, packets per second."""
    axis = ", ".join(f'"bernoulli:{p}"' for p in losses)
    text, found = re.subn(r"(?m)^values = .*$", f"values = [{axis}]", paths.scenario("steady-state").text)
    assert found == 1
    scenario = Scenario.parse("steady-state.toml", text)
    goodput = {}
    for p, variant in zip(losses, scenario.variants, strict=True):
        rows = scenario.run([variant], list(range(SEED, SEED + seeds)), ["connections"])["connections"]
        goodput[p] = stats.mean(20_000 / (np.asarray(rows["acked_s"]) - np.asarray(rows["start_s"])))
    return goodput


def latency_figure(title: str, shown: Sequence[Latency], means: Means) -> str:
    """Draws transfer times over the size (above) and the models' errors against the simulation (below)."""
    marks = shown[0].marks
    fine = np.arange(1, SIZES[-1] + 8)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 6.4), layout="constrained")
        grid = figure.subplots(2, len(DRAWN), sharex=True, sharey="row", height_ratios=(1.25, 1))
        style.title(figure, title)
        for (above, below), p in zip(grid.T, DRAWN, strict=True):
            simulated = [means[n, p, marks] for n in SIZES]
            at = np.array([one.mean for one in simulated])
            for index, one in enumerate(shown):
                line = LOOKS[index].line
                above.plot(fine, one.of(fine, p), **line)
                off = 100 * (np.asarray(one.of(np.array(SIZES), p)) / at - 1)
                below.plot(SIZES, off, marker="o", ms=3.5, **line)
            if marks:
                plain = [means[n, p, False].mean for n in SIZES]
                above.scatter(SIZES, plain, s=18, facecolors=PAPER, edgecolors=FAINT, zorder=3)
            _points(above, SIZES, simulated)
            _band(below, SIZES, simulated)
            above.set(xscale="log", yscale="log", title=f"{100 * p:g} % loss", ylim=(0.25, 35))
            low, high = below.get_ylim()
            below.set(xlabel="transfer size, packets", ylim=(min(low, -45), max(high, 25)))
            _ticks(below, (1, 3, 6, 12, 23, 46, 92, 143))
        _seconds(grid[0, 0])
        grid[0, 0].set_ylabel("transfer time, s")
        grid[1, 0].set_ylabel("model apart from simulation, %")
        handles: list[Artist] = [_dot(INK, "simulated"), BAND]
        if marks:
            handles.append(_dot(PAPER, "simulated, nothing marked", FAINT))
        _legend(figure, handles, [one.label for one in shown])
        return style.svg(figure, title)


def rate_figure(title: str, shown: Sequence[Rate], goodput: Mapping[float, Interval]) -> str:
    """Draws rates over the loss (left) and the models' errors against simulated goodput (right)."""
    p = np.array(list(goodput))
    simulated = list(goodput.values())
    at = np.array([one.mean for one in simulated])
    fine = np.geomspace(p[0] / 1.3, p[-1] * 1.3, 240)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 4.6), layout="constrained")
        left, right = figure.subplots(1, 2, sharex=True)
        style.title(figure, title)
        for index, one in enumerate(shown):
            line = LOOKS[index].line
            left.plot(100 * fine, one.of(fine), **line)
            off = 100 * (np.asarray(one.of(p)) / at - 1)
            right.plot(100 * p, off, marker="o", ms=3.5, **line)
        _points(left, list(100 * p), simulated)
        _band(right, list(100 * p), simulated)
        left.set(xscale="log", yscale="log", title="Rate, packets/s", ylim=(0.7, 400))
        right.set(title="Model apart from simulated goodput, % (cut at 150)", ylim=(-30, 150))
        left.yaxis.set_minor_locator(NullLocator())
        left.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        for axes in (left, right):
            axes.set_xlabel("loss, %")
            _ticks(axes, (0.02, 0.1, 0.5, 1, 2, 5, 10, 20))
        _legend(figure, [_dot(INK, "simulated goodput"), BAND], [one.label for one in shown])
        return style.svg(figure, title)


def cubic_figure() -> str:
    """Draws the average window of CUBIC over the loss, by the model and by the tables of RFC 9438."""
    title = "CUBIC: the model and the tables of RFC 9438"
    fine = np.geomspace(1e-8, 2e-2, 200)
    labels = {"W_cubic": "CUBIC's own window", "W_reno_friendly": "Reno-friendly window"}
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 4.6), layout="constrained")
        grid = figure.subplots(1, 2, sharey=True)
        style.title(figure, title)
        for axes, (rtt_s, table) in zip(grid, RFC9438_WINDOWS.items(), strict=True):
            windows = models.evaluate("cubic", p=fine, RTT_s=rtt_s)
            axes.plot(fine, windows["rate_pps"] * rtt_s, color=LOOKS[4].colour, lw=6, alpha=0.35)
            for index, key in enumerate(labels):
                axes.plot(fine, windows[key], **LOOKS[index].line)
            axes.scatter(list(table), list(table.values()), s=24, color=INK, zorder=4)
            axes.set(xscale="log", yscale="log", xlabel="loss rate", title=f"round trip {1e3 * rtt_s:g} ms")
            axes.invert_xaxis()
            axes.xaxis.set_minor_locator(NullLocator())
            axes.yaxis.set_minor_locator(NullLocator())
        grid[0].set_ylabel("average window, packets")
        handles: list[Artist] = [
            _dot(INK, "RFC 9438, Tables 1 and 2"),
            Patch(color=LOOKS[4].colour, alpha=0.35, label="the larger: the model"),
        ]
        _legend(figure, handles, list(labels.values()))
        return style.svg(figure, title)


def download_figure(title: str, panels: Sequence[tuple[str, Any, Any]], xlabel: str, x: NDArray[Any]) -> str:
    """Draws the times of downloads, with set-up and request, by the models of WZK.

    A panel consists of a title, packets and loss rate; either packets or loss rate is an array.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 4.4), layout="constrained")
        grid = figure.subplots(1, len(panels))
        style.title(figure, title)
        for axes, (name, packets, loss) in zip(grid, panels, strict=True):
            for index, one in enumerate(DOWNLOADS):
                axes.plot(x, one.of(packets, loss), **LOOKS[index].line)
            axes.set(title=name, xlabel=xlabel, ylim=(0, None), xlim=(0, None))
        grid[0].set_ylabel("time with set-up and request, s")
        _legend(figure, [], [one.label for one in DOWNLOADS])
        return style.svg(figure, title)


def over_loss() -> str:
    """Draws the new model of WZK and Model C over the loss."""
    loss = np.linspace(0, 0.2, 81)
    panels = [(f"{kb} KB ({n} packets)", n, loss) for kb, n in ((3, 3), (10, 8), (30, 22))]
    title = "The new model starts near Model C low and ends above Model C high"
    return download_figure(title, panels, "loss of either direction, %", 100 * loss)


def over_size() -> str:
    """Draws the new model of WZK and Model C over the size."""
    packets = np.arange(1, 71)
    panels = [(f"{100 * pl:g} % loss of either direction", packets, pl) for pl in (0.02, 0.05, 0.1)]
    title = "Model C: whether a lost ACK counts as a lost packet is a factor of two for long files"
    return download_figure(title, panels, "file, packets", packets)


def figures(means: Means, goodput: Mapping[float, Interval]) -> dict[str, str]:
    """Returns every figure of docs/models as SVG, by the name of its page."""
    return {
        **{page: rate_figure(title, shown, goodput) for page, (title, shown) in RATES.items()},
        "cubic": cubic_figure(),
        **{page: latency_figure(title, shown, means) for page, (title, shown) in LATENCIES.items()},
        "wang-zhang-keshav": over_loss(),
        "model-c": over_size(),
    }


def accuracy_page(means: Means, goodput: Mapping[float, Interval], elsewhere: Mapping[Case, Interval]) -> str:
    """Returns the text of docs/models/accuracy.md, with the numbers behind the figures."""
    width = 100 * max((one.high - one.low) / 2 / one.mean for one in means.values())
    trials = next(iter(means.values())).n
    lines = [
        "# How close the models are",
        "",
        "Written by `make validate`; do not edit. Simulated: Reno with delayed ACKs, round trip 200 ms,"
        " window 24, least timeout 1 s, first timeout 3 s, random loss of data;"
        f" {trials} transfers per point, 95 % intervals of ±{width:.1f} % or less.",
        "Short transfers are 1 to 50 KB (1 to 36 packets), long ones 64 to 200 KB (46 to 143), the sizes of"
        f" the hysteresis paper; of 500 packets and more {min(LONGER.values())} to {max(LONGER.values())}"
        " transfers are simulated. What follows from the numbers: [index](index.md#which-model-to-trust).",
        "",
        "## Mean absolute difference, %, and in brackets the bias",
    ]
    groups = (("Short transfers", SHORT), ("Long transfers", LONG), ("500 packets and more", tuple(LONGER)))
    for name, sizes in groups:
        lines += ["", *_table([name, *map(_percent, LOSSES)], _average_rows(means, sizes))]
    lines += [
        "",
        "## The closest model at each point",
        "",
        "Among the forms for unmarked transfers, with the difference in %. Being closest at one point can be"
        " luck: read along the rows.",
        "",
        *_table(["packets", *map(_percent, LOSSES)], _closest_rows(means)),
        "",
        "## The first timeout",
        "",
        "The hysteresis model with the two timeouts that a sender can meet: 3 s before it has timed a packet,"
        " 1 s after. Difference in %.",
        "",
        *_table(["packets", "T0", *map(_percent, LOSSES)], _first_timeout_rows(means)),
        "",
        "## Standard deviation of the time, s",
        "",
        "The hysteresis model draws how a loss is repaired, but neither whether there is one nor how long the"
        " timeouts last; so its samples differ far less than transfers do.",
        "",
        *_table(["packets", "", *map(_percent, LOSSES[1:])], _spread_rows(means)),
        "",
        "## On another path",
        "",
        "Difference in % with a round trip of 50 ms and the same timeouts; what holds at 200 ms need not"
        " hold here.",
        "",
        *_table(
            ["packets, loss", *(f"{one.packets}, {_percent(one.p)}" for one in elsewhere)],
            _elsewhere_rows(elsewhere),
        ),
        "",
        "## Goodput of long transfers",
        "",
        "20 transfers of 20 000 packets per point (scenario `steady-state` at more loss rates), packets"
        " per second; the models as difference in %.",
        "",
        *_table(["loss", "simulated", *(one.label for one in _rates())], _rate_rows(goodput)),
        "",
    ]
    return "\n".join(lines)


BEGIN, END = "<!-- written by `make validate` -->", "<!-- until here -->"
GROUPS = {
    "1 packet": (1,),
    "3 and 6": (3, 6),
    "12 to 36": (12, 23, 36),
    "46 to 143": LONG,
    "500 and 2000": (500, 2000),
    "10 000 and 20 000": (10_000, 20_000),
}
LOSS_GROUPS = {
    "none": (0.0,),
    "0.1 and 0.3 %": (0.001, 0.003),
    "1 %": (0.01,),
    "3 and 5 %": (0.03, 0.05),
    "8 and 10 %": (0.08, 0.1),
    "15 and 20 %": (0.15, 0.2),
}


def with_trust(page: str) -> str:
    """Returns the page index.md with a new section on trusted models, computed from accuracy.csv."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{trust()}\n{END}{after}"


def trust() -> str:
    """Returns Markdown tables of the regions in which each model can be trusted, by path.

    A second table lists the models closest to the simulation for each kind of transfer.
    """
    columns = [f"round trip {1e3 * path.rtt_s:g} ms{', an ACK per packet' * (path.b == 1)}" for path in PATHS]
    trusted = [
        [f"{one.label}, {unit}", *(accuracy.trusted_for(one, path) for path in PATHS)]
        for listed, unit in ((case.LATENCIES, "time"), (case.RATES, "rate"))
        for one in listed
    ]
    closest = [
        [name, *(_closest(sizes, losses) for losses in LOSS_GROUPS.values())]
        for name, sizes in GROUPS.items()
    ]
    width = 100 * max((one.mean.high - one.mean.low) / 2 / one.mean.mean for one in accuracy.points())
    return "\n".join(
        [
            "",
            f"Regions by path; the means have 95 % intervals of ±{width:.1f} % or less:",
            "",
            *_table(["model", *columns], trusted),
            "",
            "The two models of transfer times that stay closest, if they are within the limit, and how far"
            f" off they are, %; {columns[0]}:",
            "",
            *_table(["transfer", *LOSS_GROUPS], closest),
            "",
        ]
    )


def _closest(sizes: Sequence[int], losses: Sequence[float]) -> str:
    """Returns the models within the limit at all of these sizes and losses of the first path, best first."""
    cells = [
        one.errors
        for one in accuracy.points()
        if one.simulated == "reno"
        and one.case == replace(PATHS[0], packets=one.case.packets, p=one.case.p)
        and one.case.packets in sizes
        and one.case.p in losses
    ]
    ends = {key: (min(at[key] for at in cells), max(at[key] for at in cells)) for key in cells[0]}
    by_worst = sorted(ends, key=lambda key: max(-ends[key][0], ends[key][1]))
    good = [key for key in by_worst if max(-ends[key][0], ends[key][1]) <= accuracy.LIMIT][:2]
    labels = {one.key: one.label for one in case.LATENCIES}
    said = (f"{labels[key]} {_signed(*ends[key])}" for key in good)
    return "; ".join(said) or "none"


def _signed(low: float, high: float) -> str:
    ends = dict.fromkeys(f"{100 * end:+.0f}" for end in (low, high))
    return " to ".join(ends)


def _average_rows(means: Means, sizes: Sequence[int]) -> list[list[str]]:
    rows = []
    for one in IN_TABLE:
        off = np.array([[_off(one, n, p, means) for n in sizes] for p in LOSSES])
        rows.append([one.label, *(f"{np.abs(at).mean():.0f} ({at.mean():+.0f})" for at in off)])
    return rows


def _closest_rows(means: Means) -> list[list[str]]:
    rows = []
    for n in SIZES:
        row = [str(n)]
        for p in LOSSES:
            off = {one.label: _off(one, n, p, means) for one in IN_TABLE if not one.marks}
            label = min(off, key=lambda name: abs(off[name]))
            row.append(f"{label} ({off[label]:+.0f})")
        rows.append(row)
    return rows


def _elsewhere_rows(elsewhere: Mapping[Case, Interval]) -> list[list[str]]:
    return [
        [
            model.label,
            *(f"{100 * (case.latency(model, at) / one.mean - 1):+.0f}" for at, one in elsewhere.items()),
        ]
        for model in case.LATENCIES
        if model.simulated == "reno"
    ]


def _first_timeout_rows(means: Means) -> list[list[str]]:
    return [
        [str(n), f"{t0_s} s", *(f"{_off(_with_timeout(t0_s), n, p, means):+.0f}" for p in LOSSES)]
        for n in SHORT[:4]
        for t0_s in (1, 3)
    ]


def _with_timeout(t0_s: float) -> Latency:
    return Latency("hysteresis", lambda n, p: models.hysteresis(n, p, T0_s=t0_s))


def _spread_rows(means: Means) -> list[list[str]]:
    rows = []
    for n in (12, 36, 143):
        model = models.evaluate("hysteresis", N=n, p=np.array(LOSSES[1:]))["exact_sd_s"]
        simulated = [means[n, p, False] for p in LOSSES[1:]]
        rows.append([str(n), "simulated", *(f"{_deviation(one):.2f}" for one in simulated)])
        rows.append([str(n), "hysteresis", *(f"{value:.2f}" for value in model)])
    return rows


def _deviation(interval: Interval) -> float:
    """Returns the standard deviation of the values whose mean has this interval."""
    of_mean = (interval.high - interval.low) / 2 / float(stdtrit(interval.n - 1, 0.975))
    return of_mean * math.sqrt(interval.n)


def _rates() -> list[Rate]:
    return [one for _, shown in RATES.values() for one in shown][:7]


def _rate_rows(goodput: Mapping[float, Interval]) -> list[list[str]]:
    return [
        [
            _percent(p),
            f"{one.mean:.3g} ± {(one.high - one.low) / 2:.1g}",
            *(f"{100 * (float(rate.of(p)) / one.mean - 1):+.0f}" for rate in _rates()),
        ]
        for p, one in goodput.items()
    ]


def _off(model: Latency, packets: int, p: float, means: Means) -> float:
    return 100 * (float(model.of(packets, p)) / means[packets, p, model.marks].mean - 1)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    written = [columns, ["---"] * len(columns), *rows]
    return [f"| {' | '.join(row)} |" for row in written]


def _percent(p: float) -> str:
    return f"{100 * p:g} %"


def _points(axes: Axes, x: Sequence[float], simulated: Sequence[Interval]) -> None:
    means = [one.mean for one in simulated]
    low, high = [one.low for one in simulated], [one.high for one in simulated]
    style.whiskers(axes, np.asarray(x), means, low, high, FAINT)
    axes.scatter(x, means, s=20, color=INK, zorder=4)


def _band(axes: Axes, x: Sequence[float], simulated: Sequence[Interval]) -> None:
    """Draws the interval of the simulated mean, relative to the mean, as a band around an error of zero."""
    half = [100 * (one.high - one.low) / 2 / one.mean for one in simulated]
    axes.fill_between(x, np.negative(half), half, color=FAINT, alpha=0.25, linewidth=0)
    axes.axhline(0, color=FAINT, linewidth=1)


def _ticks(axes: Axes, values: Sequence[float]) -> None:
    axes.xaxis.set_major_locator(FixedLocator(list(values)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _seconds(axes: Axes) -> None:
    axes.yaxis.set_major_locator(FixedLocator([0.3, 0.5, 1, 2, 5, 10, 20]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _dot(colour: str, label: str, edge: str | None = None) -> Line2D:
    return Line2D([], [], marker="o", color=colour, mec=edge or colour, ls="", ms=5, label=label)


def _legend(figure: Figure, handles: Sequence[Artist], labels: Sequence[str]) -> None:
    lines = [Line2D([], [], **LOOKS[index].line, label=label) for index, label in enumerate(labels)]
    figure.legend(handles=[*handles, *lines], loc="outside lower left", ncols=6, columnspacing=1.6)


@click.command(help=__doc__)
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def main(folder: Path) -> None:
    """Writes accuracy.md and a section of index.md into the folder, and the figures into its figures/."""
    points, goodput = simulate(), simulate_steady()
    means, elsewhere = means_of(points), elsewhere_of(points)
    accuracy.FILE.write_text(accuracy.text(points), encoding="utf-8")
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    for name, svg in figures(means, goodput).items():
        (folder / "figures" / f"{name}.svg").write_text(svg, encoding="utf-8")
    (folder / "accuracy.md").write_text(accuracy_page(means, goodput, elsewhere), encoding="utf-8")
    index = folder / "index.md"
    index.write_text(with_trust(index.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()

"""Figures 1, 2, 5, 6 and 7 of the CATNIP paper redrawn, a table of five routers, and the main result."""

from dataclasses import replace
from statistics import fmean

import numpy as np

from catnip.analysis import stats
from catnip.analysis.interval import Interval
from catnip.figures.lines import Line, Panel, panels
from catnip.figures.pages import Series, page_bars
from catnip.figures.style import BASE
from catnip.figures.transfers import sequence_plots, single_loss_profile
from catnip.papers.catnip import printed
from catnip.papers.catnip.pages import average_gain
from catnip.papers.catnip.runs import Result, VariantRuns
from catnip.papers.catnip.transfers import (
    PACKETS,
    SOURCES,
    completion_s,
    sends,
    timeouts_by_lost_packet,
    trace,
)
from catnip.report.model import Figure, Table

LOOKS = {
    "Reno over DropTail": BASE,
    "Reno": BASE,
    "Reno+RBPLW": 1,
    "ECA": 3,
    "ECA+RBPLW": 2,
    "Reno over CATNIP-Good": 0,
    "Reno+RBPLW over CATNIP-Good": 1,
    "ECA over CATNIP-Good": 3,
    "ECA+RBPLW over CATNIP-Good": 2,
    "Reno over RED": 4,
    "Reno over CATNIP-RED": 0,
    "ECA over RED": 6,
    "ECA over CATNIP-RED": 3,
}
"""Indices in `style.LOOKS` of the series of all figures.

A source has the same look with either of the two routers that drop by priority, CATNIP-Good and CATNIP-RED.
"""


BUFFERS, THINK_S = (3, 5, 7, 10, 20, 30), (60, 40, 30, 20, 15)
"""Buffers (packets) and mean think times (s) of CAT-E18."""
ROUTERS = ("DropTail", "CATNIP-Good")


def loss_profile(runs: VariantRuns) -> Figure:
    """Draws figure 1 of the CATNIP paper: transfer time of a document by the number of its lost packet."""
    results = runs.of("catnip-e1")
    times = {k: completion_s(results[f"k = {k}"]).mean() for k in range(1, PACKETS + 1)}
    ns2 = printed.single_loss_s()
    svg = single_loss_profile(
        list(times),
        [float(mean) for mean in times.values()],
        [ns2[k][0] for k in times],
        float(completion_s(results["no loss"]).mean()),
        [count > 0 for count in timeouts_by_lost_packet(runs).values()],
    )
    caption = (
        "Transfer time of a 28-packet document that loses one packet, once. The first and the "
        "last three packets cost a retransmission timeout, the first one the initial timeout of 6 "
        "s; the others are repaired by fast retransmit. The paper's figure is not available; it "
        "is replaced by ns-2 2.35 with the settings of that time."
    )
    return Figure("catnip-e1", "Figure 1: not all packet losses are equal", caption, svg)


def burst_patterns(_runs: VariantRuns) -> Figure:
    """Draws figure 2 of the CATNIP paper: when each source sends the packets of a 14-packet document."""
    panels = [(name, *sends(trace(14, **options))) for name, options in SOURCES.items()]
    caption = (
        "Packets of a 14-packet document as the server sends them over 1 Mbit/s and 100 ms. RBPLW "
        "spreads the last window over a round trip; ECA sends 4 and 3 packets instead of 7."
    )
    svg = sequence_plots(panels, "The last burst is paced (RBPLW) or reduced (ECA)")
    return Figure("catnip-e2", "Figure 2: burst control at the source", caption, svg)


def droptail(runs: VariantRuns) -> Figure:
    """Draws figure 5 of the CATNIP paper: page times of the four sources over DropTail routers."""
    results = runs.of("catnip-e3")
    series = [_series(name, results[f"{name}/DropTail"], name, "DropTail") for name in SOURCES]
    series[0] = _with_ns2(series[0], "DropTail")
    caption = (
        "Mean and standard deviation of page times over DropTail routers for the four sources, "
        "without marking. Bars: this simulator. Diamonds: the paper's single runs (Tables II and "
        "III). Circles: ns-2 2.35, with the range of its ten runs. A source alone changes little."
    )
    svg = page_bars("Sources alone change little", series, LOOKS)
    return Figure("catnip-e3", "Figure 5: DropTail routers", caption, svg)


def catnip_good(runs: VariantRuns) -> Figure:
    """Draws figure 6 of the CATNIP paper: page times over CATNIP-Good routers, and of Reno over DropTail."""
    results = runs.of("catnip-e4")
    series = [
        _with_ns2(
            _series("Reno over DropTail", results["Reno/DropTail"], "Reno", "DropTail"), "CatTail", "SPM"
        ),
        *(
            _series(f"{name} over CATNIP-Good", results[f"{name}/CATNIP-Good"], name, "CATNIP-Good")
            for name in SOURCES
        ),
    ]
    series[1] = _with_ns2(series[1], "CatGood", "SPM")
    series[3] = _with_ns2(series[3], "CatGood", "ECA")
    caption = (
        "Mean and standard deviation of page times with marking sources over CATNIP-Good routers, "
        "compared with Reno over DropTail. Routers that drop LOW packets first make all pages "
        "faster and far less variable, with every source."
    )
    svg = page_bars("Routers that drop uncritical packets first remove the long page times", series, LOOKS)
    return Figure("catnip-e4", "Figure 6: CATNIP-Good routers", caption, svg)


def red(runs: VariantRuns) -> Figure:
    """Draws figure 7 of the CATNIP paper: page times over RED and CATNIP-RED routers."""
    results = runs.of("catnip-e6")
    names = ("Reno/RED", "Reno/CATNIP-RED", "ECA/RED", "ECA/CATNIP-RED")
    series = [
        _with_ns2(
            _series("Reno over DropTail", results["Reno/DropTail"], "Reno", "DropTail"), "CatTail", "SPM"
        ),
        *(_series(name.replace("/", " over "), results[name]) for name in names),
    ]
    series[1] = _with_ns2(series[1], "RED")
    caption = (
        "RED and CATNIP-RED. The paper's values appear only in a figure that is not available, so "
        "none are shown. RED alone changes little; RED that drops LOW packets first is as good as "
        "CATNIP-Good."
    )
    svg = page_bars("CATNIP works together with RED", series, LOOKS)
    return Figure("catnip-e6", "Figure 7: RED and CATNIP-RED routers", caption, svg)


def losses(runs: VariantRuns) -> Figure:
    """Draws the gain by marks over the loss of DropTail, which buffers and think times set (CAT-E18)."""
    results = runs.of("catnip-e18")

    def curve(buffer: int) -> Line:
        variants = [f"{{}} / buffer={buffer} / mean={think_s}" for think_s in THINK_S]
        tails, goods = ([results[name.format(router)] for name in variants] for router in ROUTERS)
        gains = [
            average_gain(good.page_means(), tail.page_means())
            for good, tail in zip(goods, tails, strict=True)
        ]
        return Line(
            f"{buffer} packets of buffer",
            [tail.loss_pct().mean for tail in tails],
            [one.mean for one in gains],
            [one.low for one in gains],
            [one.high for one in gains],
            dots=True,
        )

    paper = printed.paper_gain_pct("CATNIP-Good", "mean", "mean")
    of_paper = Line("paper: 10 packets", [printed.paper_loss_pct("Reno", "DropTail")], [paper], dots=True)
    panel = Panel(
        "Mean page times: reduction by CATNIP-Good, average over the pages",
        "loss with DropTail, %",
        "reduction, %",
        [*map(curve, BUFFERS), of_paper],
    )
    caption = (
        "Each curve has one buffer; its points have mean think times of 60, 40, 30, 20 and 15 s, from left "
        "to right, with 95 % intervals. Where little is lost, marks gain little."
    )
    svg = panels("What marks gain depends on what is lost", [panel])
    return Figure("catnip-e18", "Losses of 1 to 10 %", caption, svg)


FIGURES = (loss_profile, burst_patterns, droptail, catnip_good, red, losses)


def headline(runs: VariantRuns) -> str:
    """Returns the main result of the reproduction in two sentences."""
    results = runs.of("catnip-e4")
    base, good = results["Reno/DropTail"], results["Reno/CATNIP-Good"]
    faster = average_gain(good.page_means(), base.page_means())
    steadier = average_gain(good.page_deviations, base.page_deviations)
    high, low = 100 * good.port.high_loss.mean(), 100 * good.port.low_loss.mean()
    base_high, base_low = 100 * base.port.high_loss.mean(), 100 * base.port.low_loss.mean()
    paper = printed.paper_gain_pct("CATNIP-Good", "mean", "mean")
    return (
        f"Routers that drop uncritical packets first make Web pages {faster.mean:.0f} % faster on average "
        f"(95 % interval {faster.low:.0f} to {faster.high:.0f}; the paper: {paper:.0f}) and their times "
        f"{steadier.mean:.0f} % steadier, although they lose more packets in all: {high:.2f} % of the "
        f"crucial ones instead of {base_high:.1f} %, {low:.1f} % of the others instead of {base_low:.1f} %."
    )


def five_routers(runs: VariantRuns) -> Table:
    """Returns the table of mean page times of Reno sources over five routers, with the paper's values."""
    good, bad, red_runs = (runs.of(name) for name in ("catnip-e4", "catnip-e5", "catnip-e6"))
    columns = {
        "DropTail": good["Reno/DropTail"],
        "RED": red_runs["Reno/RED"],
        "CATNIP-Good": good["Reno/CATNIP-Good"],
        "CATNIP-Bad": bad["Reno/CATNIP-Bad"],
        "CATNIP-RED": red_runs["Reno/CATNIP-RED"],
    }
    means = {
        name: printed.paper_pages("Reno", name, "mean") for name in ("DropTail", "CATNIP-Good", "CATNIP-Bad")
    }
    ours = {
        name: [stats.mean(column) for column in result.page_means().T] for name, result in columns.items()
    }

    def cell(name: str, page: int) -> str:
        paper = f" ({means[name][page]:.2f})" if name in means else ""
        return f"{ours[name][page].mean:.2f} ± {_half(ours[name][page]):.2f}{paper}"

    def average(name: str) -> str:
        paper = f" ({fmean(means[name]):.2f})" if name in means else ""
        overall = stats.mean(columns[name].overall_mean_s())
        return f"{overall.mean:.2f} ± {_half(overall):.2f}{paper}"

    rows = [[f"page {page}", *(cell(name, page - 1) for name in columns)] for page in printed.PAGES]
    rows.append(["all pages", *(average(name) for name in columns)])
    rows.append(["loss, %", *(f"{result.loss_pct().mean:.2f}" for result in columns.values())])
    return Table(
        title="Mean page time in s: Reno sources over five routers",
        columns=["", *columns],
        rows=rows,
        note="Ours ± half of the 95 % interval over seeds; in brackets the paper's run, where it prints one.",
    )


def _half(interval: Interval) -> float:
    return (interval.high - interval.low) / 2


def _series(label: str, result: Result, tcp: str = "", router: str = "") -> Series:
    """Returns the bars of one variant, with the paper's values for `tcp` over `router` if it prints any."""
    means = [stats.mean(column) for column in result.page_means().T]
    paper_mean, paper_sd = (printed.paper_pages(tcp, router, column) or None for column in ("mean", "sdev"))
    return Series(
        label=label,
        mean=[interval.mean for interval in means],
        mean_low=[interval.low for interval in means],
        mean_high=[interval.high for interval in means],
        sd=list(np.asarray(result.page_deviations.mean(axis=0))),
        paper_mean=paper_mean,
        paper_sd=paper_sd,
    )


def _with_ns2(series: Series, queue: str, tcp: str = "") -> Series:
    mean, low, high = (
        printed.ns2_pages(queue, column, tcp) for column in ("mean", "run_mean_lo", "run_mean_hi")
    )
    return replace(series, ns2_mean=mean, ns2_low=low, ns2_high=high)

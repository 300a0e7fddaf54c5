"""Experiments with the ten pages and 100 clients: CAT-E3 to CAT-E8 and CAT-E12."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from catnip import stats
from catnip.figures.pages import Series, page_bars
from catnip.papers import reference
from catnip.papers.catnip import published
from catnip.papers.catnip.runs import Result, Runs
from catnip.papers.claims import Beside, Claim, at_least, at_most, exactly, reported, within
from catnip.papers.outcome import Figure, Part, Table
from catnip.stats import Interval

PAGES = len(published.PAGES)
USER_BYTES = 221_356
USER_CONNECTIONS = 45
USERS = 100
SOURCES = ("Reno", "Reno+RBPLW", "ECA", "ECA+RBPLW")


def droptail(runs: Runs) -> Part:
    """CAT-E3, Figure 5: what a source can do alone."""
    results = runs.of("catnip-e3")
    reno = results["Reno/DropTail"]
    ns2 = published.ns2_loss_pct("DropTail")
    reduction = {
        name: _reduction_pct(results[f"{name}/DropTail"].port.loss, reno.port.loss) for name in SOURCES
    }
    means = {name: results[f"{name}/DropTail"].overall_mean_s() for name in SOURCES}
    beside_paper = Beside(paper=published.paper_loss_pct("Reno", "DropTail"), oracle=published.mean(ns2))
    claims = [
        within("CAT-E3", "Reno: loss, % (paper ± 0.5)", reno.loss_pct(), 2.96, 3.96, **beside_paper),
        within(
            "CAT-E3",
            "Reno: loss, % (range of ns-2's runs)",
            reno.loss_pct(),
            min(ns2),
            max(ns2),
            **beside_paper,
        ),
        at_least(
            "CAT-E3",
            "pages whose pooled mean is within ns-2's run range",
            _inside(_pooled(reno.page_means()), "DropTail", "run_mean"),
            PAGES,
            note="medians-and-means-against-ns-2",
        ),
        at_least(
            "CAT-E3",
            "pages whose pooled median is within ns-2's run range",
            _inside(_pooled(reno.page_medians), "DropTail", "run_median", slack_s=5e-4),
            PAGES,
            note="medians-and-means-against-ns-2",
        ),
        at_least(
            "CAT-E3",
            "ECA: loss lower than Reno's by, %",
            reduction["ECA"],
            0,
            paper=17.1,
            oracle=_ns2_eca_reduction(),
        ),
        within("CAT-E3", "RBPLW: loss lower than Reno's by, %", reduction["Reno+RBPLW"], 0, 20, paper=10.4),
        reported("CAT-E3", "ECA+RBPLW: loss lower than Reno's by, %", reduction["ECA+RBPLW"], paper=11.0),
        *(
            within(
                "CAT-E3",
                f"{name}: mean page time over Reno's, %",
                stats.ratio(means[name], means["Reno"]) * 100,
                80,
                120,
                paper=_paper_ratio_pct(name, "DropTail"),
            )
            for name in SOURCES[1:]
        ),
    ]
    series = [_series(name, results[f"{name}/DropTail"], name, "DropTail") for name in SOURCES]
    series[0] = _with_ns2(series[0], "DropTail")
    caption = (
        "Mean and standard deviation of page times over DropTail routers for the four sources, "
        "without marking. Bars: this simulator. Diamonds: the paper's single runs (Tables II and "
        "III). Circles: ns-2 2.35, with the range of its ten runs. A source alone changes little."
    )
    svg = page_bars("Sources alone change little", series)
    return Part(claims, [Figure("catnip-e3", "Figure 5: DropTail routers", caption, svg)])


def catnip_good(runs: Runs) -> Part:
    """CAT-E4, Figure 6: what a router can do with the context."""
    results = runs.of("catnip-e4")
    base, good = results["Reno/DropTail"], results["Reno/CATNIP-Good"]
    faster = _page_reductions_pct(good.page_means(), base.page_means())
    steadier = _page_reductions_pct(good.page_deviations, base.page_deviations)
    high, low = stats.mean(100 * good.port.high_loss), stats.mean(100 * good.port.low_loss)
    means = [results[f"{name}/CATNIP-Good"].overall_mean_s().mean() for name in SOURCES]
    paper_faster = _paper_reductions_pct("CATNIP-Good", "mean")
    paper_steadier = _paper_reductions_pct("CATNIP-Good", "sdev")
    ns2_high = published.mean(published.ns2_loss_pct("CatGood", "SPM", "hi"))
    ns2_low = published.mean(published.ns2_loss_pct("CatGood", "SPM", "lo"))
    paper_high = published.paper_loss_pct("Reno", "CATNIP-Good", "high")
    paper_low = published.paper_loss_pct("Reno", "CATNIP-Good", "low")
    ns2_total = published.mean(published.ns2_loss_pct("CatGood", "SPM"))
    ns2_faster = _ns2_reductions_pct("CatGood", "mean")
    claims = [
        at_most("CAT-E4", "Reno: HIGH loss, %", high, 1.0, paper=paper_high, oracle=ns2_high),
        reported("CAT-E4", "Reno: LOW loss, %", low, paper=paper_low, oracle=ns2_low),
        at_most(
            "CAT-E4",
            "Reno: HIGH loss over LOW loss",
            stats.ratio(good.port.high_loss, good.port.low_loss),
            0.2,
            paper=paper_high / paper_low,
            oracle=ns2_high / ns2_low,
        ),
        within(
            "CAT-E4", "share of HIGH packets, %", stats.mean(100 * good.port.high_share), 37, 45, paper=39.7
        ),
        at_least("CAT-E4", "pages that are faster than over DropTail", _count(faster > 0), 9, paper=10),
        within(
            "CAT-E4",
            "gains of nine pages: smallest, %",
            _nth_smallest(faster, 1),
            10,
            90,
            paper=_nth_smallest(paper_faster, 1),
            oracle=_nth_smallest(ns2_faster, 1),
            note="gains-are-smaller-than-the-paper-prints",
        ),
        within(
            "CAT-E4",
            "gains of nine pages: largest, %",
            float(faster.max()),
            10,
            90,
            paper=max(paper_faster),
            oracle=max(ns2_faster),
        ),
        reported(
            "CAT-E4",
            "gain of the remaining page, %",
            float(faster.min()),
            paper=min(paper_faster),
            oracle=min(ns2_faster),
        ),
        within(
            "CAT-E4",
            "average gain over the pages, %",
            _average_reduction(good.page_means(), base.page_means()),
            35,
            65,
            paper=published.mean(paper_faster),
            oracle=published.mean(ns2_faster),
            note="gains-are-smaller-than-the-paper-prints",
        ),
        at_least("CAT-E4", "pages with a lower standard deviation", _count(steadier > 0), PAGES, paper=10),
        at_least(
            "CAT-E4",
            "average reduction of the standard deviation, %",
            _average_reduction(good.page_deviations, base.page_deviations),
            50,
            paper=published.mean(paper_steadier),
        ),
        within(
            "CAT-E4",
            "Reno: loss over that of DropTail, %",
            stats.ratio(good.port.loss, base.port.loss) * 100,
            80,
            120,
            paper=100 * 3.74 / 3.46,
            oracle=100 * ns2_total / published.mean(published.ns2_loss_pct("CatTail", "SPM")),
        ),
        at_most(
            "CAT-E4",
            "largest difference between sources, % of Reno's mean",
            100 * max(abs(mean / means[0] - 1) for mean in means),
            20,
            note="eca-gains-more-than-in-the-paper",
        ),
        *_agrees_with_ns2("CAT-E4", "Reno", good, "CatGood", "SPM"),
        *_agrees_with_ns2("CAT-E4", "ECA", results["ECA/CATNIP-Good"], "CatGood", "ECA"),
    ]
    series = [
        _with_ns2(_series("Reno over DropTail", base, "Reno", "DropTail"), "CatTail", "SPM"),
        *(
            _series(f"{name} over CATNIP-Good", results[f"{name}/CATNIP-Good"], name, "CATNIP-Good")
            for name in SOURCES
        ),
    ]
    series[1] = _with_ns2(series[1], "CatGood", "SPM")
    series[3] = _with_ns2(series[3], "CatGood", "ECA")
    caption = (
        "The same with marking sources over CATNIP-Good routers, beside Reno over DropTail. Routers "
        "that drop LOW packets first make all pages faster and far steadier, whatever the source "
        "does."
    )
    svg = page_bars("Routers that know which packets are crucial remove the long waits", series)
    return Part(claims, [Figure("catnip-e4", "Figure 6: CATNIP-Good routers", caption, svg)])


def catnip_bad(runs: Runs) -> Part:
    """CAT-E5: the same context used for evil."""
    results = runs.of("catnip-e5")
    base = results["Reno/DropTail"]
    claims: list[Claim] = []
    for name, tcp in (("Reno", "SPM"), ("ECA", "ECA")):
        bad = results[f"{name}/CATNIP-Bad"]
        high = published.mean(published.ns2_loss_pct("CatBad", tcp, "hi"))
        low = published.mean(published.ns2_loss_pct("CatBad", tcp, "lo"))
        paper_high = published.paper_loss_pct(name, "CATNIP-Bad", "high")
        paper_low = published.paper_loss_pct(name, "CATNIP-Bad", "low")
        claims += [
            at_least(
                "CAT-E5",
                f"{name}: HIGH loss over LOW loss",
                stats.ratio(bad.port.high_loss, bad.port.low_loss),
                3,
                paper=paper_high / paper_low,
                oracle=high / low,
                note="catnip-bad-is-less-bad",
            ),
            at_least(
                "CAT-E5",
                f"{name}: mean page time over that of Reno/DropTail",
                stats.ratio(bad.overall_mean_s(), base.overall_mean_s()),
                1.3,
                paper=sum(published.paper_pages(name, "CATNIP-Bad", "mean"))
                / sum(published.paper_pages("Reno", "DropTail", "mean")),
                oracle=_ns2_overall("CatBad", tcp) / _ns2_overall("CatTail", "SPM"),
                note="catnip-bad-is-less-bad",
            ),
            at_least(
                "CAT-E5",
                f"{name}: longest page time, s",
                float(bad.rows("pages")["time_s"].max()),
                18,
                paper=18.3,
            ),
            *_agrees_with_ns2("CAT-E5", name, bad, "CatBad", tcp),
        ]
    return Part(claims)


def red(runs: Runs) -> Part:
    """CAT-E6, Figure 7: CATNIP together with RED."""
    results = runs.of("catnip-e6")
    base, plain, catnip = results["Reno/DropTail"], results["Reno/RED"], results["Reno/CATNIP-RED"]
    ns2 = published.ns2_loss_pct("RED")
    faster = _page_reductions_pct(catnip.page_means(), plain.page_means())
    steadier = _page_reductions_pct(catnip.page_deviations, plain.page_deviations)
    by_source = abs(results["ECA/RED"].overall_mean_s().mean() / plain.overall_mean_s().mean() - 1)
    by_router = abs(catnip.overall_mean_s().mean() / plain.overall_mean_s().mean() - 1)
    sensitivity = ("Reno/RED gentle", "Reno/RED max_p=0.3", "Reno/RED max_p=1", "Reno/RED no wait")
    claims = [
        within(
            "CAT-E6", "RED: loss, %", plain.loss_pct(), 3, 5, paper="3.8 to 4.1", oracle=published.mean(ns2)
        ),
        within(
            "CAT-E6",
            "RED: loss, % (range of ns-2's runs)",
            plain.loss_pct(),
            min(ns2),
            max(ns2),
            oracle=published.mean(ns2),
        ),
        reported(
            "CAT-E6",
            "RED: loss minus that of DropTail, points",
            stats.paired_difference(100 * plain.port.loss, 100 * base.port.loss),
            paper="0.3 to 0.6",
            oracle=published.mean(ns2) - published.mean(published.ns2_loss_pct("DropTail")),
        ),
        *(
            reported(
                "CAT-E6",
                f"{name.removeprefix('Reno/')}: loss, %",
                results[name].loss_pct(),
                paper="3.8 to 4.1",
            )
            for name in sensitivity
        ),
        at_least("CAT-E6", "pages faster with CATNIP-RED than with RED", _count(faster > 0), 9, paper=10),
        at_least("CAT-E6", "pages steadier with CATNIP-RED than with RED", _count(steadier > 0), 9, paper=10),
        at_most(
            "CAT-E6",
            "change of the mean page time by the source (ECA) over that by the router",
            by_source / by_router,
            1.0,
            note="eca-gains-more-than-in-the-paper",
        ),
    ]
    names = ("Reno/RED", "Reno/CATNIP-RED", "ECA/RED", "ECA/CATNIP-RED")
    series = [
        _with_ns2(_series("Reno over DropTail", base, "Reno", "DropTail"), "CatTail", "SPM"),
        *(_series(name.replace("/", " over "), results[name]) for name in names),
    ]
    series[1] = _with_ns2(series[1], "RED")
    caption = (
        "RED and CATNIP-RED. The paper's values exist only in its lost figure, so none are shown. RED"
        " alone changes little; RED that drops LOW packets first is as good as CATNIP-Good."
    )
    svg = page_bars("CATNIP works together with RED", series)
    return Part(claims, [Figure("catnip-e6", "Figure 7: RED and CATNIP-RED routers", caption, svg)])


def fairness(runs: Runs) -> Part:
    """CAT-E7: 50 ECA and 50 Reno sources share the bottleneck."""
    paper = {"DropTail": (3.05, 3.68), "CATNIP-Good": (3.23, 3.95)}
    claims: list[Claim] = []
    for router, result in runs.of("catnip-e7").items():
        loss = {group: result.sender_loss(group) for group in ("eca", "reno")}
        times = stats.ratio(result.overall_mean_s("eca"), result.overall_mean_s("reno")) * 100
        claims += [
            at_most(
                "CAT-E7",
                f"{router}: loss of ECA over that of Reno",
                stats.ratio(loss["eca"], loss["reno"]),
                1.0,
                paper=paper[router][0] / paper[router][1],
            ),
            reported(
                "CAT-E7", f"{router}: loss of ECA, %", stats.mean(100 * loss["eca"]), paper=paper[router][0]
            ),
            reported(
                "CAT-E7", f"{router}: loss of Reno, %", stats.mean(100 * loss["reno"]), paper=paper[router][1]
            ),
            _same_times(router, times),
        ]
    return Part(claims)


def http11(runs: Runs) -> Part:
    """CAT-E8: one connection per page."""
    results = runs.of("catnip-e8")
    base, good = results["Reno/DropTail"], results["Reno/CATNIP-Good"]
    over_http10 = runs.of("catnip-e4")["Reno/CATNIP-Good"]
    faster = _page_reductions_pct(good.page_means(), base.page_means())
    steadier = _page_reductions_pct(good.page_deviations, base.page_deviations)
    share, share10 = good.port.high_share, over_http10.port.high_share
    return Part(
        [
            at_least("CAT-E8", "pages that are faster than over DropTail", _count(faster > 0), 8, paper=10),
            within("CAT-E8", "gains of eight pages: smallest, %", _nth_smallest(faster, 2), 0, 85, paper=7),
            within("CAT-E8", "gains of eight pages: largest, %", float(faster.max()), 0, 85, paper=76),
            reported("CAT-E8", "gain of the slowest page, %", float(faster.min()), paper=7),
            at_least("CAT-E8", "pages with a lower standard deviation", _count(steadier > 0), 9, paper=10),
            within("CAT-E8", "share of HIGH packets, %", stats.mean(100 * share), 12, 28, paper=20),
            at_most(
                "CAT-E8",
                "share of HIGH packets over that of HTTP/1.0",
                stats.ratio(share, share10),
                1,
                paper=0.5,
            ),
            at_most(
                "CAT-E8",
                "loss over that of HTTP/1.0",
                stats.ratio(good.port.loss, over_http10.port.loss),
                1,
                paper=2.59 / 3.74,
            ),
            reported("CAT-E8", "loss, %", good.loss_pct(), paper=2.59),
        ]
    )


def workload(runs: Runs) -> Part:
    """CAT-E12: users, bytes, packets, load."""
    results = runs.of("catnip-e12")
    claims: list[Claim] = []
    for name, result in results.items():
        connections = result.rows("connections")
        users = USERS * len(result.seeds)
        claims += [
            exactly(
                "CAT-E12",
                f"{name}: connections per user",
                f"{len(connections['bytes']) / users:g}",
                "45",
                paper=45,
            ),
            exactly(
                "CAT-E12",
                f"{name}: bytes per user",
                f"{connections['bytes'].sum() / users:.0f}",
                str(USER_BYTES),
            ),
            reported(
                "CAT-E12",
                f"{name}: load of 100 users in session, Mbit/s",
                stats.mean(USERS * USER_BYTES * 8 / (60 * _session_min(result)) / 1e6),
                paper=0.6,
            ),
            reported("CAT-E12", f"{name}: session of a user, min", stats.mean(_session_min(result)), paper=5),
            reported("CAT-E12", f"{name}: loss, %", result.loss_pct(), paper=3.46),
        ]
    sent = stats.mean(results["think 40 s"].rows("runs")["packets_sent"])
    ns2_sent = [int(row["sent"]) for row in reference.rows("ns2/catnip_loss_by_seed.csv") if _calibrated(row)]
    packets = sum(-(-int(row["bytes"]) // 512) for row in reference.rows("catnip_pages.csv"))
    return Part(
        [
            *claims,
            exactly("CAT-E12", "packets per user without loss", str(packets), "454", paper="about 460"),
            within(
                "CAT-E12",
                "data packets sent per run (range of ns-2's runs)",
                sent,
                min(ns2_sent),
                max(ns2_sent),
                paper=47_918,
                oracle=published.mean([float(n) for n in ns2_sent]),
            ),
        ]
    )


def headline(runs: Runs) -> str:
    """The main result in two sentences."""
    results = runs.of("catnip-e4")
    base, good = results["Reno/DropTail"], results["Reno/CATNIP-Good"]
    faster = _average_reduction(good.page_means(), base.page_means())
    steadier = _average_reduction(good.page_deviations, base.page_deviations)
    high, low = 100 * good.port.high_loss.mean(), 100 * good.port.low_loss.mean()
    base_high, base_low = 100 * base.port.high_loss.mean(), 100 * base.port.low_loss.mean()
    paper = published.mean(_paper_reductions_pct("CATNIP-Good", "mean"))
    return (
        f"Routers that drop uncritical packets first make Web pages {faster.mean:.0f} % faster on average "
        f"(95 % interval {faster.low:.0f} to {faster.high:.0f}; the paper: {paper:.0f}) and their times "
        f"{steadier.mean:.0f} % steadier, although they lose more packets in all: {high:.2f} % of the "
        f"crucial ones instead of {base_high:.1f} %, {low:.1f} % of the others instead of {base_low:.1f} %."
    )


def five_routers(runs: Runs) -> Table:
    """Mean page time of Reno sources over each router, with the paper's beside it."""
    good, bad, red_runs = (runs.of(name) for name in ("catnip-e4", "catnip-e5", "catnip-e6"))
    columns = {
        "DropTail": good["Reno/DropTail"],
        "RED": red_runs["Reno/RED"],
        "CATNIP-Good": good["Reno/CATNIP-Good"],
        "CATNIP-Bad": bad["Reno/CATNIP-Bad"],
        "CATNIP-RED": red_runs["Reno/CATNIP-RED"],
    }
    printed = {
        name: published.paper_pages("Reno", name, "mean")
        for name in ("DropTail", "CATNIP-Good", "CATNIP-Bad")
    }
    ours = {
        name: [stats.mean(column) for column in result.page_means().T] for name, result in columns.items()
    }

    def cell(name: str, page: int) -> str:
        paper = f" ({printed[name][page]:.2f})" if name in printed else ""
        return f"{ours[name][page].mean:.2f} ± {_half(ours[name][page]):.2f}{paper}"

    def average(name: str) -> str:
        paper = f" ({published.mean(printed[name]):.2f})" if name in printed else ""
        overall = stats.mean(columns[name].overall_mean_s())
        return f"{overall.mean:.2f} ± {_half(overall):.2f}{paper}"

    rows = [[f"page {page + 1}", *(cell(name, page) for name in columns)] for page in range(PAGES)]
    rows.append(["all pages", *(average(name) for name in columns)])
    rows.append(["loss, %", *(_percent(result) for result in columns.values())])
    return Table(
        title="Mean page time in s: Reno sources over five routers",
        columns=["", *columns],
        rows=rows,
        note="Ours ± half of the 95 % interval over seeds; in brackets the paper's run, where it prints one.",
    )


def _percent(result: Result) -> str:
    return f"{result.loss_pct().mean:.2f}"


def _half(interval: Interval) -> float:
    return (interval.high - interval.low) / 2


def _pooled(per_run: np.ndarray) -> np.ndarray:
    return np.asarray(per_run.mean(axis=0))


def _count(holds: np.ndarray) -> float:
    return float(holds.sum())


def _nth_smallest(values: Sequence[float] | np.ndarray, n: int) -> float:
    """Counted from 0: leaves the n smallest out."""
    return float(np.sort(values)[n])


def _inside(values: np.ndarray, queue: str, column: str, slack_s: float = 0.0) -> float:
    """How many pages lie within the range of ns-2's runs."""
    low, high = (np.array(published.ns2_pages(queue, f"{column}_{end}")) for end in ("lo", "hi"))
    return _count((values >= low - slack_s) & (values <= high + slack_s))


def _agrees_with_ns2(id: str, name: str, result: Result, queue: str, tcp: str) -> list[Claim]:
    """Loss by priority within the range of ns-2's runs, and the mean over the pages within 15 % of ns-2's."""
    claims = []
    for priority, values in (("hi", result.port.high_loss), ("lo", result.port.low_loss)):
        ns2 = published.ns2_loss_pct(queue, tcp, priority)
        label = {"hi": "HIGH", "lo": "LOW"}[priority]
        claim = f"{name}: {label} loss, % (range of ns-2's runs)"
        claims.append(
            within(id, claim, stats.mean(100 * values), min(ns2), max(ns2), oracle=published.mean(ns2))
        )
    ns2_mean = _ns2_overall(queue, tcp)
    overall = stats.mean(result.overall_mean_s())
    claim = f"{name}: mean page time, s (ns-2 ± 15 %)"
    return [*claims, within(id, claim, overall, 0.85 * ns2_mean, 1.15 * ns2_mean, oracle=ns2_mean)]


def _ns2_overall(queue: str, tcp: str) -> float:
    return published.mean(published.ns2_pages(queue, "mean", tcp))


def _ns2_eca_reduction() -> float:
    reno = published.mean(published.ns2_loss_pct("CatTail", "SPM"))
    return 100 * (1 - published.mean(published.ns2_loss_pct("CatTail", "ECA")) / reno)


def _reduction_pct(ours: np.ndarray, base: np.ndarray) -> Interval:
    quotient = stats.ratio(ours, base) * 100
    return Interval(100 - quotient.mean, 100 - quotient.high, 100 - quotient.low, quotient.n)


def _page_reductions_pct(ours: np.ndarray, base: np.ndarray) -> np.ndarray:
    """By how much each page's pooled value is lower, percent."""
    return np.asarray(100 * (1 - _pooled(ours) / _pooled(base)))


def _average_reduction(ours: np.ndarray, base: np.ndarray) -> Interval:
    """The average of the pages' reductions; its interval by leaving out one run at a time (jackknife)."""
    n = len(ours)
    whole = float(_page_reductions_pct(ours, base).mean())
    if n == 1:
        return stats.mean([whole])
    kept = [np.arange(n) != left_out for left_out in range(n)]
    pseudo = [n * whole - (n - 1) * float(_page_reductions_pct(ours[k], base[k]).mean()) for k in kept]
    return stats.mean(pseudo)


def _paper_reductions_pct(router: str, column: str) -> list[float]:
    base, ours = (published.paper_pages("Reno", name, column) for name in ("DropTail", router))
    return [100 * (1 - b / a) for a, b in zip(base, ours, strict=True)]


def _ns2_reductions_pct(queue: str, column: str) -> list[float]:
    base, ours = (published.ns2_pages(name, column, "SPM") for name in ("CatTail", queue))
    return [100 * (1 - b / a) for a, b in zip(base, ours, strict=True)]


def _paper_ratio_pct(tcp: str, router: str) -> float | None:
    """Mean over the pages relative to that of Reno/DropTail, percent, where the paper prints a table."""
    ours, base = published.paper_pages(tcp, router, "mean"), published.paper_pages("Reno", "DropTail", "mean")
    return 100 * published.mean(ours) / published.mean(base) if ours else None


def _series(label: str, result: Result, tcp: str = "", router: str = "") -> Series:
    """Bars of one variant, with the paper's values where it prints them."""
    means = [stats.mean(column) for column in result.page_means().T]
    paper_mean, paper_sd = (published.paper_pages(tcp, router, column) or None for column in ("mean", "sdev"))
    return Series(
        label=label,
        mean=[interval.mean for interval in means],
        mean_low=[interval.low for interval in means],
        mean_high=[interval.high for interval in means],
        sd=list(_pooled(result.page_deviations)),
        paper_mean=paper_mean,
        paper_sd=paper_sd,
    )


def _with_ns2(series: Series, queue: str, tcp: str = "") -> Series:
    mean, low, high = (
        published.ns2_pages(queue, column, tcp) for column in ("mean", "run_mean_lo", "run_mean_hi")
    )
    return replace(series, ns2_mean=mean, ns2_low=low, ns2_high=high)


def _same_times(router: str, ratio_pct: Interval) -> Claim:
    """Within 10 %, or not distinguishable."""
    claim = f"{router}: mean page time of ECA over that of Reno, %"
    if ratio_pct.low <= 100 <= ratio_pct.high:
        return within(
            "CAT-E7", f"{claim} (interval holds 100)", ratio_pct, ratio_pct.low, ratio_pct.high, paper=100
        )
    return within("CAT-E7", claim, ratio_pct, 90, 110, paper=100, note="eca-gains-more-than-in-the-paper")


def _session_min(result: Result) -> np.ndarray:
    """From the start of a user's first page to the end of the last one, mean over users, per run."""
    rows = result.rows("pages")
    spans = []
    for seed in result.seeds:
        of_seed = rows["seed"] == seed
        client = rows["client"][of_seed]
        start, end = rows["start_s"][of_seed], rows["start_s"][of_seed] + rows["time_s"][of_seed]
        per_user = [end[client == user].max() - start[client == user].min() for user in np.unique(client)]
        spans.append(float(np.mean(per_user)) / 60)
    return np.array(spans)


def _calibrated(row: dict[str, str]) -> bool:
    return (row["queue"], row["think"]) == ("DropTail", published.CALIBRATED_THINK)

"""Figures 2, 6 to 8 and 11 to 13 of the DiffServ paper redrawn, tables, and the main result in words."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import numpy as np

from catnip.analysis import stats
from catnip.analysis.claims import show, show_interval
from catnip.analysis.measures import Floats
from catnip.figures.ccdf import Curve, Panel, ccdf_panels, over_rates
from catnip.figures.style import RAMP
from catnip.papers.diffserv import beyond, schemes
from catnip.papers.diffserv.runs import (
    APPL_110,
    APPL_250,
    CODEL,
    DROP_TAIL,
    ER_TBM,
    FQ_CODEL,
    RATES_MBPS,
    RED,
    SCHEMES,
    TCP_DS,
    TCP_RAND,
    WEB_10,
    WEB_11,
    Result,
    Times,
    TreeRuns,
)
from catnip.papers.diffserv.schemes import SLOW_LINKS
from catnip.papers.reference import published
from catnip.report.model import Figure, Table

Measure: TypeAlias = Callable[[Result], Floats]

GOOD_S, BAD_S = 5, 10
ECHO_LIMIT_S = 0.15
COMPARED = (DROP_TAIL, APPL_250, TCP_DS, CODEL, FQ_CODEL)
PAPERS_HOSTS, TODAYS_HOSTS = "diffserv-small", "diffserv-today"
LOOKS = {
    **{scheme: number for number, scheme in enumerate(SCHEMES)},
    FQ_CODEL: 5,
    CODEL: 7,
    **{name: RAMP + index for index, name in enumerate(SLOW_LINKS[4:])},
}
"""Indices in `style.LOOKS` of the series of all figures.

FQ-CoDel shares a look with TCP-RAND, but no figure has both.
"""


def congestion_10(runs: TreeRuns) -> Figure:
    """Draws the top of figure 2: page times of HTTP/1.0 over drop tail, a curve per bottleneck rate."""
    return _congestion(runs, "1.0", WEB_10)


def congestion_11(runs: TreeRuns) -> Figure:
    """Draws the bottom of figure 2: page times of HTTP/1.1 over drop tail, a curve per bottleneck rate."""
    return _congestion(runs, "1.1", WEB_11)


def by_application(runs: TreeRuns) -> Figure:
    """Draws figure 6: page times under application-based marking, a curve per bottleneck rate."""
    panels = [Panel(scheme, _over_rates(runs, scheme), (GOOD_S, BAD_S)) for scheme in (APPL_250, APPL_110)]
    caption = (
        "HTTP/1.0. The tokens for the MED packets of 81 KB take 2.6 s at 250 kbit/s and 5.9 s at "
        "110 kbit/s, where 5 s would be good. The paper: good at both rates, as long as the "
        "bottleneck carries all marked packets."
    )
    svg = ccdf_panels("Pages marked by application", panels, "page time, s", _of_rates(panels))
    return Figure("diffserv-application", "Figure 6: pages under application-based marking", caption, svg)


def slow_links(runs: TreeRuns) -> Figure:
    """Draws figure 7: echo times over slow links, with marking and with a separate queue for Telnet."""
    echoes = {name: schemes.slow_echoes(runs, name) for name in SLOW_LINKS}
    panels = [
        Panel("One queue", [_curve(name, echoes[name], 3) for name in SLOW_LINKS[:4]]),
        Panel(
            "A queue for Telnet", [_curve(name, echoes[name], 1) for name in SLOW_LINKS[4:]], (ECHO_LIMIT_S,)
        ),
    ]
    caption = (
        "All links ten times slower, users with a round trip of 80 ms. The paper: marking "
        "protects echoes from loss, but not from queueing delay; a separate queue with a weight "
        "of 20 % or more does. Dotted: 150 ms."
    )
    svg = ccdf_panels("Echoes over slow links", panels, "echo, s", LOOKS)
    return Figure("diffserv-slow-links", "Figure 7: echoes over slow links", caption, svg)


def file_times(runs: TreeRuns) -> Figure:
    """Draws figure 8: file times at 75 Mbit/s under application-based marking and without it."""
    curves = [
        _curve(scheme, runs.tree(scheme, 75).connections["ftp-probe"], 40)
        for scheme in (DROP_TAIL, RED, APPL_110, APPL_250)
    ]
    caption = (
        "Files of 200 KB, 75 Mbit/s. The paper: marking slows down files, more so at higher rates of MED."
    )
    svg = ccdf_panels("Files under application-based marking", [Panel("", curves)], "file time, s", LOOKS)
    return Figure("diffserv-files", "Figure 8: file times at 75 Mbit/s", caption, svg)


def by_state(runs: TreeRuns) -> Figure:
    """Draws figure 11: page times under TCP-state-based marking, a curve per bottleneck rate."""
    panel = Panel("", _over_rates(runs, TCP_DS), (GOOD_S, BAD_S))
    caption = (
        "HTTP/1.0. The paper: from 60 Mbit/s on all downloads complete within desirable limits, predictably."
    )
    svg = ccdf_panels("Pages marked by TCP's state", [panel], "page time, s", _of_rates([panel]))
    return Figure("diffserv-state", "Figure 11: pages under TCP-state-based marking", caption, svg)


def pages_of_schemes(runs: TreeRuns) -> Figure:
    """Draws the page times of figure 12: a curve for each scheme, at 100 Mbit/s."""
    curves = [_curve(scheme, runs.tree(scheme, 100).pages[WEB_10], 25) for scheme in SCHEMES]
    caption = "HTTP/1.0, 100 Mbit/s. Lines: 5 s (good) and 10 s (users give up)."
    svg = ccdf_panels("Pages at 100 Mbit/s", [Panel("", curves, (GOOD_S, BAD_S))], "page time, s", LOOKS)
    return Figure("diffserv-pages", "Figure 12: pages of all schemes", caption, svg)


def echoes_of_schemes(runs: TreeRuns) -> Figure:
    """Draws the echo times of figure 12: a curve for each scheme, at 100 Mbit/s."""
    curves = [_curve(scheme, runs.tree(scheme, 100).echoes, 2.5) for scheme in SCHEMES]
    caption = "100 Mbit/s, all round trips. Dotted: 150 ms. A step at 1 s is the first timeout."
    svg = ccdf_panels("Echoes at 100 Mbit/s", [Panel("", curves, (ECHO_LIMIT_S,))], "echo, s", LOOKS)
    return Figure("diffserv-echoes", "Figure 12: echoes of all schemes", caption, svg)


def files_of_schemes(runs: TreeRuns) -> Figure:
    """Draws figure 13: finished files per second over the bottleneck rate, a line for each scheme."""
    values = {
        scheme: [stats.mean(schemes.files_per_s(runs.tree(scheme, rate))) for rate in RATES_MBPS]
        for scheme in SCHEMES
    }
    caption = "Files completed per second by all users together."
    svg = over_rates("Files per second", RATES_MBPS, values, "bottleneck, Mbit/s", "files per second", LOOKS)
    return Figure("diffserv-files-per-second", "Figure 13: files of all schemes", caption, svg)


def todays_queues(runs: TreeRuns) -> Figure:
    """Draws page times with marking and with today's queues, for the paper's end systems and for today's."""
    hosts = {"the paper's end systems": PAPERS_HOSTS, "today's end systems": TODAYS_HOSTS}
    panels = [
        Panel(
            f"Pages, {name}",
            [_curve(scheme, runs.small(scheme, 60, of).pages[WEB_10], 25) for scheme in COMPARED],
            (GOOD_S, BAD_S),
        )
        for name, of in hosts.items()
    ]
    caption = (
        "A fifth of the tree, HTTP/1.0, 60 Mbit/s for 400 users. Today's end systems: SACK, limited transmit,"
        " first timeout of 1 s."
    )
    title = "Marking compared with queues of today"
    svg = ccdf_panels(title, panels, "page time, s", LOOKS)
    return Figure("diffserv-worth", "Beyond the paper: marking or a fair queue", caption, svg)


FIGURES = (
    congestion_10,
    congestion_11,
    by_application,
    slow_links,
    file_times,
    by_state,
    pages_of_schemes,
    echoes_of_schemes,
    files_of_schemes,
    todays_queues,
)


def headline(runs: TreeRuns) -> str:
    """Returns the main result of the reproduction in two sentences."""
    shown = (DROP_TAIL, APPL_250, TCP_DS)
    slow = {scheme: 100 * runs.tree(scheme, 100).pages[WEB_10].above(GOOD_S).mean() for scheme in shown}
    files = 100 * schemes.files_ratio(runs, TCP_DS, 100).mean
    fair = 100 * runs.small(FQ_CODEL, 60, TODAYS_HOSTS).pages[WEB_10].above(GOOD_S).mean()
    marked = 100 * runs.small(TCP_DS, 60, TODAYS_HOSTS).pages[WEB_10].above(GOOD_S).mean()
    return (
        f"At 100 Mbit/s {slow[DROP_TAIL]:.0f} % of the pages take more than 5 s over drop tail,"
        f" {slow[APPL_250]:.1f} % if packets are marked by application and {slow[TCP_DS]:.1f} % if they are"
        f" marked by the window, which leaves files {files:.0f} % of what RED gives them."
        f" With today's end systems at 60 Mbit/s a fair queue without any marks leaves {fair:.1f} % of the"
        f" pages above 5 s, marking by the window {marked:.1f} %."
    )


def findings(runs: TreeRuns) -> Table:
    """Returns the table of the findings in the paper's text, with its numbers."""

    def slow(scheme: str, rate: int, limit_s: float, http: str = "1.0") -> str:
        return f"{show_interval(schemes.pages_above_pct(runs, scheme, rate, limit_s, http))} %"

    def files(scheme: str, rate: int) -> str:
        return show_interval(schemes.files_ratio(runs, scheme, rate))

    def variation(other: str) -> str:
        return show_interval(beyond.variation_ratio(runs, other, 100))

    slow_echoes = schemes.echoes_above_pct(runs, DROP_TAIL, 100, 1)
    rows = [
        (
            "Over drop tail at 100 Mbit/s pages of HTTP/1.0 take more than 10 s",
            _printed("dsc05", " %"),
            slow(DROP_TAIL, 100, 10),
        ),
        ("at 60 Mbit/s", _printed("dsc06", " %"), slow(DROP_TAIL, 60, 10)),
        ("With HTTP/1.1 fewer do: at 100 Mbit/s", _printed("dsc07", " %"), slow(DROP_TAIL, 100, 10, "1.1")),
        ("at 60 Mbit/s", _printed("dsc08", " %"), slow(DROP_TAIL, 60, 10, "1.1")),
        (
            "One echo in ten takes about a second at 100 Mbit/s",
            _printed("dsc09", " %"),
            f"{show_interval(slow_echoes)} %",
        ),
        (
            f"Marked by application, hardly a page takes more than 10 s: {APPL_250}, 60 Mbit/s",
            "",
            slow(APPL_250, 60, 10),
        ),
        (
            f"Lower rates for MED make pages wait at their source: {APPL_110}, above 5 s, 60 Mbit/s",
            "",
            slow(APPL_110, 60, 5),
        ),
        (
            "Files pay for it: files per second over those with RED, 60 Mbit/s",
            "very poor",
            files(APPL_250, 60),
        ),
        ("Marked by TCP's state, pages are good from 60 Mbit/s on: above 10 s", "0", slow(TCP_DS, 60, 10)),
        ("above 5 s", "", slow(TCP_DS, 60, 5)),
        ("and files do not pay: over those with RED, 60 Mbit/s", "like RED", files(TCP_DS, 60)),
        (
            "Marking the aggregate at the edge does not help: above 5 s, 100 Mbit/s",
            "not better",
            slow(ER_TBM, 100, 5),
        ),
        ("with RED", "", slow(RED, 100, 5)),
        ("Randomized marking is no different: above 5 s, 100 Mbit/s", "none", slow(TCP_RAND, 100, 5)),
        ("with plain marking", "", slow(TCP_DS, 100, 5)),
        ("at 60 Mbit/s", "", slow(TCP_RAND, 60, 5)),
        ("with plain marking, 60 Mbit/s", "", slow(TCP_DS, 60, 5)),
        (
            "Long transfers vary less: variation over that with drop tail",
            _printed("dsc17"),
            variation(DROP_TAIL),
        ),
    ]
    columns, note = ("finding", "paper", "here"), "95 % intervals over seeds."
    return Table("What the paper found", columns, rows, note, in_order=True)


def of_schemes(runs: TreeRuns) -> Table:
    """Returns the table of all schemes over all rates."""
    trees = [
        (f"{scheme}, {rate} Mbit/s", runs.tree(scheme, rate)) for scheme in SCHEMES for rate in RATES_MBPS
    ]
    measures = {
        "loss, %": lambda tree: 100 * tree.forward.loss(),
        **OF_PAGES,
        "echo > 1 s, %": lambda tree: 100 * tree.echoes.above(1),
        "files per s": schemes.files_per_s,
    }
    note = "Pages are the measured ones of HTTP/1.0. 95 % intervals over seeds."
    return _table("All schemes", "scheme", trees, measures, note)


def beside_a_fair_queue(runs: TreeRuns) -> Table:
    """Returns the table of marking beside a fair queue, with the paper's and today's hosts."""
    trees = [
        (f"{hosts} end systems, {rate} Mbit/s, {scheme}", runs.small(scheme, rate, name))
        for hosts, name in (("the paper's", PAPERS_HOSTS), ("today's", TODAYS_HOSTS))
        for rate in (60, 100)
        for scheme in COMPARED
    ]
    measures = {
        **OF_PAGES,
        "echo, ms": lambda tree: 1e3 * tree.echoes.quantile(0.5),
        "99 %, ms": lambda tree: 1e3 * tree.echoes.quantile(0.99),
        "files per s": schemes.files_per_s,
    }
    note = "A fifth of the tree; rates as for the whole one."
    return _table("Where marking is still worth it", "case", trees, measures, note)


OF_PAGES: Mapping[str, Measure] = {
    "page, s": lambda tree: tree.pages[WEB_10].per_seed(np.mean),
    "> 5 s, %": lambda tree: 100 * tree.pages[WEB_10].above(GOOD_S),
    "> 10 s, %": lambda tree: 100 * tree.pages[WEB_10].above(BAD_S),
}


def _table(
    title: str, first: str, trees: Iterable[tuple[str, Result]], measures: Mapping[str, Measure], note: str
) -> Table:
    """Returns a table with a row for each result of `trees` and a column for each measure.

    A measure returns one value per run; a cell has their mean with its interval.
    """
    rows = [
        (name, *(show_interval(stats.mean(measure(tree))) for measure in measures.values()))
        for name, tree in trees
    ]
    return Table(title, (first, *measures), rows, note)


def cost(runs: TreeRuns) -> Table:
    """Returns the table of simulated runs and what they cost."""
    rows = [(name, f"{count}", f"{hops / 1e6:.0f}") for name, count, hops in runs.cost()]
    columns = ("scenario", "runs", "million packet-hops")
    return Table("Simulated runs", columns, rows, "Each run simulates 350 s.")


def _congestion(runs: TreeRuns, http: str, group: str) -> Figure:
    panel = Panel("", _over_rates(runs, DROP_TAIL, group), (GOOD_S, BAD_S))
    caption = (
        "Drop tail on all links; each curve is labelled with the rate of its bottleneck and the "
        "loss there. Dotted: 5 s (good) and 10 s (users give up)."
    )
    title = f"Pages over drop tail: HTTP/{http}"
    svg = ccdf_panels(title, [panel], "page time, s", _of_rates([panel]))
    return Figure(f"diffserv-congestion-{http.replace('.', '')}", f"Figure 2: HTTP/{http}", caption, svg)


def _over_rates(runs: TreeRuns, scheme: str, group: str = WEB_10) -> list[Curve]:
    curves = []
    for rate in RATES_MBPS:
        tree = runs.tree(scheme, rate)
        label = f"{rate} Mbit/s ({100 * tree.forward.loss().mean():.1f} % lost)"
        curves.append(_curve(label, tree.pages[group], 50 if scheme == DROP_TAIL else 15))
    return curves


def _of_rates(panels: Iterable[Panel]) -> dict[str, int]:
    """Returns the looks of curves by their position in a panel, that is, by the rate of the bottleneck."""
    return {curve.label: RAMP + index for panel in panels for index, curve in enumerate(panel.curves)}


def _curve(label: str, times: Times, end_s: float) -> Curve:
    x = np.linspace(0, end_s, 251)
    of_runs = (np.sort(times.seconds[times.seed == seed]) for seed in range(times.seeds))
    above = np.array([1 - np.searchsorted(run, x, side="right") / max(1, len(run)) for run in of_runs])
    return Curve(label, x, [stats.mean(column) for column in above.T])


def _printed(id: str, unit: str = "") -> str:
    return f"{show(published(id))}{unit}"

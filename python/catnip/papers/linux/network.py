"""Quantities of the CATNIP paper's WAN emulation with marks by the server's kernel (CAT-E10, E13)."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from catnip.analysis import stats
from catnip.analysis.interval import Interval
from catnip.analysis.measures import Floats
from catnip.base import paths
from catnip.base.programs import AGENT, program
from catnip.papers.emulation import unaccounted
from catnip.papers.linux.runs import KernelRuns
from catnip.papers.quantity import Quantities
from catnip.papers.testbed import wan
from catnip.papers.testbed.wan import ALL_PAGES, BUFFERS_KB, Emulated
from catnip.papers.unavailable import Unavailable
from catnip.report.model import Table

measured = Quantities()

SCENARIO = "linux-wan"
NONE, PARTIAL, FULL, LAST = "FIFO", "partial SPM", "full SPM", "last packets"
MARKS = {NONE: "none", PARTIAL: "spm-partial", FULL: "spm", LAST: "last-only"}
PAPER = (PARTIAL, FULL)
SERVERS = ("nginx", "apache")
SIDE_BY_SIDE = 4
"""Number of runs at a time. Each takes an eighth of two cores; real servers must not wait for a core."""


@measured
def wan_loss_pct(
    runs: KernelRuns, buffer_kb: int, marks: str, packets: str = "all", server: str = "nginx"
) -> Interval:
    """CAT-E10, E13: share of packets towards the clients that the router drops, percent.

    `packets` selects `all`, `high` or `low` packets. With `share`, the result is the share of HIGH packets
    among all arriving packets instead.
    """
    return wan.mean_pct([one.loss for one in _of(runs, buffer_kb, marks, server)], packets)


@measured
def wan_time_ratio(
    runs: KernelRuns,
    buffer_kb: int,
    marks: str,
    than: str = NONE,
    server: str = "nginx",
    pages: Sequence[int] = ALL_PAGES,
) -> Interval:
    """CAT-E10, E13: mean over `pages` of the ratio of the page time with `marks` to that with `than`.

    The ratio has one value per pair of runs with the same seed.
    """
    return stats.mean(
        _ratios(runs, buffer_kb, marks, than, server)[:, [page - 1 for page in pages]].mean(axis=1)
    )


@measured
def wan_largest_page_gain_pct(
    runs: KernelRuns, buffer_kb: int, marks: str, server: str = "nginx"
) -> Interval:
    """CAT-E16: largest reduction of a page's time from FIFO to `marks`, over the ten pages, percent."""
    return wan.largest_gain_pct(_ratios(runs, buffer_kb, marks, NONE, server))


@measured
def wan_spread_is_larger(
    runs: KernelRuns, marks: str, at_kb: Sequence[int], than_at_kb: Sequence[int], server: str = "nginx"
) -> str:
    """CAT-E10: `yes` if page-time ratios vary more at every buffer of `at_kb` than at any of `than_at_kb`.

    A ratio is that of a page's time with `marks` to its time with FIFO. The variation is the standard
    deviation over the ten pages.
    """
    spread = {kb: float(_ratios(runs, kb, marks, NONE, server).mean(axis=0).std()) for kb in BUFFERS_KB}
    return "yes" if min(spread[kb] for kb in at_kb) > max(spread[kb] for kb in than_at_kb) else "no"


@measured
def wan_red_runs(runs: KernelRuns) -> str:
    """CAT-E10: number of runs whose certificate is still red after the last try."""
    emulated = [one for key in _known(runs) for one in _of(runs, *key)]
    runs.sample = len(emulated)
    return str(sum(one.is_red for one in emulated))


@measured
def wan_unaccounted(runs: KernelRuns) -> str:
    """CAT-E10: number of packets that the emulator itself lost, over all runs."""
    return str(sum(unaccounted(one.certificate) for key in _known(runs) for one in _of(runs, *key)))


def table(runs: KernelRuns) -> Table:
    """Returns the table of page times, losses and shares of HIGH packets, by server, buffer and marks."""
    rows = []
    for buffer_kb, marks, server in _known(runs):
        ratio = "1" if marks == NONE else str(wan_time_ratio(runs, buffer_kb, marks, server=server))
        kinds = ("all",) if marks == NONE else ("all", "high", "low", "share")
        lost = [str(wan_loss_pct(runs, buffer_kb, marks, kind, server)) for kind in kinds]
        rows.append([f"{server}, {buffer_kb} KB, {marks}", ratio, *lost, *["–"] * (4 - len(lost))])
    columns = ["", "page time over FIFO's", "lost, %", "HIGH lost, %", "LOW lost, %", "HIGH, %"]
    note = (
        "100 simulated clients, a real server, marks of its kernel, a 10 Mbit/s bottleneck in real time with "
        "buffers in bytes. Page times are means of the ten pages' ratios, in pairs of runs."
    )
    return Table("Table XI with the kernel's own marks", columns, rows, note)


def _known(runs: KernelRuns) -> list[tuple[int, str, str]]:
    """Returns buffer, marks and server of each measured configuration; a quick run has one server."""
    servers = SERVERS[:1] if runs.quick else SERVERS
    known = [(kb, marks, server) for server in servers for kb in BUFFERS_KB for marks in (NONE, *PAPER)]
    return known if runs.quick else [*known, (64, LAST, "nginx")]


def _of(runs: KernelRuns, buffer_kb: int, marks: str, server: str) -> list[Emulated]:
    if (buffer_kb, marks, server) not in _known(runs):
        raise Unavailable("a quick run has one server, and the paper's marks only")
    of = runs.cached(("wan", server), lambda: _runs(runs, server))[buffer_kb, marks, server]
    runs.count_sample(len(of))
    return of


def _ratios(runs: KernelRuns, buffer_kb: int, marks: str, than: str, server: str) -> Floats:
    ours, theirs = (wan.fetched(_of(runs, buffer_kb, one, server)).times_s for one in (marks, than))
    return np.asarray(ours / theirs)


def _runs(runs: KernelRuns, server: str) -> dict[tuple[int, str, str], list[Emulated]]:
    runs.require(server)
    scenario = str(paths.scenario_file(SCENARIO))
    of_server = [key for key in _known(runs) if key[-1] == server]
    jobs = {
        ((buffer_kb, marks, server), seed): partial(
            wan.emulated,
            scenario,
            f"{buffer_kb} KB {'FIFO' if marks == NONE else 'CATNIP'}",
            seed,
            {"CATNIP_AGENT": str(program(AGENT)), "CATNIP_MARK": MARKS[marks], "CATNIP_HTTP": server},
        )
        for buffer_kb, marks, _ in of_server
        for seed in runs.seeds(SCENARIO)
    }
    report = runs.progress.task("100 clients and a server with a marking kernel")
    results: dict[tuple[int, str, str], list[Emulated]] = {}
    for (key, _), one in runs.each(SCENARIO, jobs, SIDE_BY_SIDE, report).items():
        results.setdefault(key, []).append(one)
    return results

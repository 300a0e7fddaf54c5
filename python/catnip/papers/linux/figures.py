"""Figures and tables of the benefit of marks in this kernel, and of the papers' experiments with it."""

import platform

import numpy as np

from catnip.analysis.interval import Interval
from catnip.figures.bursts import grouped_bars
from catnip.papers.linux import network, stack
from catnip.papers.linux.runs import KernelRuns
from catnip.papers.linux.stack import BASE, HALF, KERNEL, LAST, MARKED, OTHERS, SIMULATED, SPM
from catnip.papers.testbed.printed import table_xi
from catnip.papers.testbed.wan import BUFFERS_KB
from catnip.report.model import Figure, Table


def cubic(runs: KernelRuns) -> Figure:
    """Draws LIN-E1: change of the mean fetch time with CUBIC due to marks, for each configuration."""
    return _cells(runs, "cubic")


def bbr(runs: KernelRuns) -> Figure:
    """Draws LIN-E2: change of the mean fetch time with BBR due to marks, for each configuration."""
    return _cells(runs, "bbr")


def _cells(runs: KernelRuns, control: str) -> Figure:
    name = stack.CONTROLS[control]
    values = {
        f"{system}, {by}": [
            stack.change_pct(runs, control, cell, system, by=by) for cell in stack.ONE_AT_A_TIME
        ]
        for system in (LAST, SPM)
        for by in (KERNEL, SIMULATED)
    }
    caption = (
        "Thirty clients fetch files of 8 to 50 kB over 1.5 Mbit/s with a round trip of 40 ms. Bars: change "
        "of the mean fetch time from DropTail without marks; negative values are faster. Each group changes "
        f"one setting. Whiskers are 95 % intervals of {len(runs.seeds(stack.EMULATED))} pairs of real runs "
        f"and of {stack.MODEL_SEEDS} simulated ones."
    )
    if control == "bbr":
        caption += " The simulator has no BBR without RACK."
    title = f"Effect of marks on {name} of Linux {platform.release().split('-')[0]}"
    names = [
        cell.replace(" of ", "\nof ").replace(" window", "\nwindow").replace(" RACK", "\nRACK")
        for cell in stack.ONE_AT_A_TIME
    ]
    svg = grouped_bars(title, names, values, "change of the mean fetch time, %")
    return Figure(f"linux-{control}", f"Marks and {name}", caption, svg)


def wan(runs: KernelRuns) -> Figure:
    """Draws CAT-E10, E13: change of the mean page time relative to FIFO, by buffer, marks and server."""
    values: dict[str, list[Interval]] = {
        f"{marks}, {server}": [network.wan_time_ratio(runs, kb, marks, server=server) for kb in BUFFERS_KB]
        for server in network.SERVERS
        for marks in network.PAPER
    }
    printed = [table_xi("mean_relative_time", kb) for kb in BUFFERS_KB]
    values["paper"] = [Interval(value, value, value, 1) for value in printed]
    values = {
        name: [Interval(100 * (one.mean - 1), 100 * (one.low - 1), 100 * (one.high - 1), one.n) for one in of]
        for name, of in values.items()
    }
    caption = (
        "A hundred clients, one real server, marks by its kernel. Bars: change of the mean time "
        "of the ten pages from FIFO."
    )
    title = "Table XI with the kernel's own marks"
    svg = grouped_bars(
        title, [f"{kb} KB" for kb in BUFFERS_KB], values, "change of page time against FIFO, %"
    )
    return Figure("linux-wan", title, caption, svg)


FIGURES = (cubic, bbr, wan)


def headline(runs: KernelRuns) -> str:
    """Returns the main result of the measurements in a few sentences."""
    cubic, bbr = (stack.change_pct(runs, control, BASE, LAST) for control in stack.CONTROLS)
    spm = stack.change_pct(runs, "cubic", BASE, SPM)
    deep = stack.change_pct(runs, "cubic", "40 packets of buffer", LAST)
    off = np.mean([abs(one.mean) for one in stack.predictions_off_points(runs)])
    full = network.wan_time_ratio(runs, 64, network.FULL)
    return (
        f"With Linux {platform.release().split('-')[0]} at both ends and ten packets of buffer, marks of the "
        f"last packets change the mean time of a fetch by {_pct(cubic)} with CUBIC and {_pct(bbr)} with BBR, "
        f"full SPM by {_pct(spm)} with CUBIC; with forty packets, where less is lost, the last packets by "
        f"{_pct(deep)}. The simulator's predictions of the change are {off:.1f} points off on average. With "
        f"full SPM by the server's own kernel, pages of Table XI at 64 KB take {full.mean:.2f} "
        f"of FIFO's time."
    )


def slow_line(runs: KernelRuns, control: str) -> Table:
    """Returns the table of what marks change on the slow line with a congestion controller."""
    rows = []
    for cell in stack.ONE_AT_A_TIME:
        base = stack.fetch_s(runs, control, cell, stack.DROP_TAIL)
        for system in (LAST, SPM):
            changes = [
                _against(stack.change_pct(runs, control, cell, system, statistic, by))
                for statistic in stack.STATISTICS
                for by in (KERNEL, SIMULATED)
            ]
            rows.append([f"{cell}, {system}", f"{base.mean:.3f}", *changes])
    columns = ["", "DropTail, mean, s"]
    columns += [f"{statistic}, {by}" for statistic in stack.STATISTICS for by in (KERNEL, SIMULATED)]
    note = (
        "Change of fetch times against DropTail without marks, percent, with 95 % intervals over pairs of "
        f"runs with the same seed at the same time: {len(runs.seeds(stack.EMULATED))} of {stack.FOR_S:.0f} s "
        f"by the kernel, {stack.MODEL_SEEDS} by the simulator."
    )
    return Table(f"{stack.CONTROLS[control]}: what marks change", columns, rows, note)


def others(runs: KernelRuns) -> Table:
    """Returns the table of marked and unmarked transfers side by side."""
    rows = []
    for control, name in stack.CONTROLS.items():
        for system in (LAST, SPM):
            cells = [
                _against(stack.change_pct(runs, control, HALF, system, statistic, by, group))
                for group in (MARKED, OTHERS)
                for statistic in ("mean", "95th percentile")
                for by in (KERNEL, SIMULATED)
            ]
            rows.append([f"{name}, {system}", *cells])
    columns = [""] + [
        f"{group}: {statistic}, {by}"
        for group in ("marked", "unmarked")
        for statistic in ("mean", "95th percentile")
        for by in (KERNEL, SIMULATED)
    ]
    note = "One of two servers marks. Changes of fetch times from each against DropTail, percent."
    return Table("Marked and unmarked side by side", columns, rows, note)


def losses(runs: KernelRuns) -> Table:
    """Returns the table of losses at the slow line."""
    rows = []
    for control, name in stack.CONTROLS.items():
        for cell in stack.ONE_AT_A_TIME:
            for system in stack.SYSTEMS:
                kinds = ("all",) if system == stack.DROP_TAIL else ("all", "high", "low", "share")
                cells = [
                    f"{stack.loss_pct(runs, control, cell, system, kind, by).mean:.1f}"
                    for kind in kinds
                    for by in (KERNEL, SIMULATED)
                ]
                rows.append([f"{name}, {cell}, {system}", *cells, *["–"] * (8 - len(cells))])
    columns = [""] + [
        f"{column}, {by}"
        for column in ("lost", "HIGH lost", "LOW lost", "HIGH of all")
        for by in (KERNEL, SIMULATED)
    ]
    return Table(
        "What the slow line drops, %",
        columns,
        rows,
        "Packets towards the readers, of those that came; means of all runs.",
    )


def _against(change: Interval) -> str:
    """Formats a change, with its interval if there are several runs; a dash if there is none."""
    if not change.n:
        return "–"
    known = f" [{change.low:+.0f}, {change.high:+.0f}]" if change.n > 1 else ""
    return f"{change.mean:+.0f}{known}"


def _pct(value: Interval) -> str:
    known = f" [{value.low:.0f}, {value.high:.0f}]" if value.n > 1 else ""
    return f"{round(value.mean):+d} %{known}"

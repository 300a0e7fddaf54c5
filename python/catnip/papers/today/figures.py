"""Figures of the steps, the queues and single changes, tables, and the main result in words."""

import numpy as np

from catnip.analysis.claims import show_interval
from catnip.analysis.interval import Interval
from catnip.figures.bursts import Map, grouped_bars, heat_maps
from catnip.figures.style import RAMP
from catnip.papers.today import quantities
from catnip.papers.today.cells import (
    ALL_SETS,
    ALONE,
    BASE,
    CONTEXT,
    DROP_TAIL,
    FQ_CODEL,
    HALF,
    PAGE_SETS,
    QUEUES,
    STEPS,
    UNMARKED,
)
from catnip.papers.today.runs import OLD_QUEUES, OTHERS, CellRuns
from catnip.report.model import Figure, Table

GOOD = "CATNIP-Good"
TAIL = "95th percentile"
OTHER_QUEUES = [queue for queue in QUEUES if queue != DROP_TAIL]
LOOKS = {
    GOOD: 0,
    "CATNIP-RED": 1,
    FQ_CODEL: 3,
    **{name: RAMP + 2 * index for index, name in enumerate(quantities.QUANTILES)},
    "file transfer": 1,
}


def steps(runs: CellRuns) -> Figure:
    """Draws TDY-E1: gain over DropTail in the paper's network, by step from the paper's hosts to today's."""
    values = {
        queue: [quantities.gain_in_the_old_network_pct(runs, step, queue) for step in STEPS]
        for queue in OLD_QUEUES
        if queue != DROP_TAIL
    }
    caption = (
        "The paper's own network: 100 readers, ten pages, 1.5 Mbit/s and ten packets of buffer. "
        "From left to right the hosts are updated to those of today in cumulative steps. Bars: "
        "gain over DropTail with the same hosts."
    )
    title = "Remaining gain as the hosts are updated to those of today"
    names = [name.replace(", ", ",\n").replace(" window", "\nwindow") for name in STEPS]
    svg = grouped_bars(title, names, values, "gain, %", LOOKS)
    return Figure("today-steps", "From 2002 to today", caption, svg)


def queues_ten(runs: CellRuns) -> Figure:
    """Draws TDY-E2: change of the ten pages' times from DropTail, behind each queue."""
    return _queues(runs, "ten", "The ten pages behind each queue")


def queues_mix(runs: CellRuns) -> Figure:
    """Draws TDY-E3: change of the times of today's pages from DropTail, behind each queue."""
    return _queues(runs, "mix", "Pages of today behind each queue")


def queues_sites(runs: CellRuns) -> Figure:
    """Draws TDY-E9: change of the times of sites as browsers fetch them now, behind each queue."""
    return _queues(runs, "sites", "Sites with names, TLS and HTTP/2 behind each queue")


def one_at_a_time(runs: CellRuns) -> Figure:
    """Draws TDY-E4: change of the 95th percentile of page times from DropTail, by cell and queue."""
    maps = [_map(runs, name, page_set.says) for name, page_set in PAGE_SETS.items()]
    caption = (
        "Change of the 95th percentile of page times from DropTail in the same row, percent. "
        "Brackets: the 95 % interval includes zero. Each row changes one setting."
    )
    title = "95th percentile of page times, against DropTail"
    rows = list(PAGE_SETS["ten"].cells())
    svg = heat_maps(title, maps, rows, OTHER_QUEUES, ("", ""), 0.36 * len(rows) + 1.9)
    return Figure("today-cells", "One setting at a time", caption, svg)


FIGURES = (steps, queues_ten, queues_mix, one_at_a_time, queues_sites)


def headline(runs: CellRuns) -> str:
    """Returns the main result of the simulations in words, with its intervals."""
    first, *_, last = (quantities.gain_in_the_old_network_pct(runs, step, GOOD) for step in STEPS)
    sentences = [
        f"In the paper's own network CATNIP-Good makes pages {_pct(first)} faster with the paper's hosts"
        f" and {_pct(last)} with those of today."
    ]
    for page_set, where in ALL_SETS.items():
        good, fair = (quantities.change_pct(runs, page_set, BASE, queue, TAIL) for queue in (GOOD, FQ_CODEL))
        others = quantities.file_change_pct(runs, page_set, BASE, GOOD)
        sentences.append(
            f"Where {where.says} share a line with a file transfer, marks and CATNIP-Good change the 95th"
            f" percentile of page times by {_pct(good)} against DropTail, and the rate of the file transfer"
            f" by {_pct(others)}; FQ-CoDel, which needs no marks, changes the former by {_pct(fair)}."
        )
    bare, alone = (quantities.change_pct(runs, "ten", cell, GOOD, TAIL) for cell in (UNMARKED, ALONE))
    sentences.append(
        f"If handshakes are not marked, what the ten pages gain turns into {_pct(bare)}; without the file"
        f" transfer it is {_pct(alone)}."
    )
    return " ".join(sentences)


def where(runs: CellRuns, page_set: str) -> Table:
    """Returns the table of page times behind queues that use marks, a row for each cell of a set of pages."""
    cells = ALL_SETS[page_set].cells()
    shared = set.intersection(*(set(ALL_SETS[page_set].cell(cell)[1]) for cell in cells))
    context = [queue for queue in CONTEXT if queue in shared]
    rows = []
    for cell in cells:
        over = [_against(quantities.change_pct(runs, page_set, cell, queue, TAIL)) for queue in context]
        beside = [
            _against(quantities.change_pct(runs, page_set, cell, GOOD, quantile, FQ_CODEL))
            for quantile in quantities.QUANTILES
        ]
        base = show_interval(quantities.page_s(runs, page_set, cell, DROP_TAIL, TAIL))
        rows.append((cell, base, *over, *beside))
    columns = (
        "",
        "DropTail, s",
        *context,
        f"{GOOD} over {FQ_CODEL}: median",
        "95th percentile",
        "99th percentile",
    )
    note = (
        "Change of the 95th percentile of page times against DropTail in the same row, percent; the last"
        " three columns against FQ-CoDel. Where an interval holds zero, context buys nothing that these runs"
        " could see."
    )
    return Table(f"Where context buys time: {ALL_SETS[page_set].says}", columns, rows, note)


def others(runs: CellRuns) -> Table:
    """Returns the table of what each queue costs those who do not mark, and the file transfer."""
    rows = []
    for page_set, where in PAGE_SETS.items():
        for queue in OTHER_QUEUES:
            file = _against(quantities.file_change_pct(runs, page_set, BASE, queue))
            unmarked = [
                _against(quantities.change_pct(runs, page_set, HALF, queue, quantile, group=OTHERS))
                for quantile in ("median", TAIL)
            ]
            marked = _against(quantities.change_pct(runs, page_set, HALF, queue, TAIL))
            rows.append((where.says, queue, file, *unmarked, marked))
    columns = (
        "",
        "queue",
        "rate of the file transfer",
        "unmarked pages: median",
        "unmarked: 95th percentile",
        "marked: 95th percentile",
    )
    note = (
        "Change against DropTail, percent. The file transfer is beside pages that are all marked; the other"
        " columns are of runs in which half of the servers mark."
    )
    return Table("What it costs others", columns, rows, note)


def all_queues(runs: CellRuns, page_set: str) -> Table:
    """Returns the table of page times behind all queues, of a set of pages."""
    rows = []
    for queue in QUEUES:
        result = runs.cell(page_set, BASE)[queue]
        times = [
            show_interval(quantities.page_s(runs, page_set, BASE, queue, name))
            for name in quantities.QUANTILES
        ]
        loss = [f"{100 * float(np.nanmean(result.loss[priority])):.2f}" for priority in ("high", "low")]
        line = (
            f"{result.file_mbps.mean():.2f}",
            f"{1e3 * result.queue_s.mean():.1f}",
            f"{100 * result.utilization.mean():.0f}",
        )
        rows.append((queue, *times, *line, *loss))
    columns = (
        "queue",
        "median, s",
        "95th percentile, s",
        "99th percentile, s",
        "file, Mbit/s",
        "waiting, ms",
        "in use, %",
        "HIGH lost, %",
        "LOW lost, %",
    )
    title = f"All queues, hosts as Linux has them: {ALL_SETS[page_set].says}"
    note = "Waiting: what the line's queue adds on average, to packets of all traffic."
    return Table(title, columns, rows, note)


def _queues(runs: CellRuns, page_set: str, title: str) -> Figure:
    values = {
        name: [quantities.change_pct(runs, page_set, BASE, queue, name) for queue in OTHER_QUEUES]
        for name in quantities.QUANTILES
    }
    values["file transfer"] = [
        quantities.file_change_pct(runs, page_set, BASE, queue) for queue in OTHER_QUEUES
    ]
    caption = (
        f"Hosts as Linux has them; {ALL_SETS[page_set].says} beside a file transfer. Negative values are"
        " shorter page times than behind DropTail, and a slower file transfer."
    )
    svg = grouped_bars(title, OTHER_QUEUES, values, "change against DropTail, %", LOOKS)
    return Figure(f"today-{page_set}", title, caption, svg)


def _map(runs: CellRuns, page_set: str, says: str) -> Map:
    changes = [
        [quantities.change_pct(runs, page_set, cell, queue, TAIL) for queue in OTHER_QUEUES]
        for cell in PAGE_SETS[page_set].cells()
    ]
    means = np.array([[one.mean for one in row] for row in changes])
    unsure = np.array([[one.low <= 0 <= one.high for one in row] for row in changes])
    return Map(says, means, unsure=unsure)


def _against(change: Interval) -> str:
    return f"{change.mean:+.0f} [{change.low:+.0f}, {change.high:+.0f}]"


def _pct(value: Interval) -> str:
    return f"{round(value.mean)} % [{round(value.low)}, {round(value.high)}]"

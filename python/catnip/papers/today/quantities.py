"""Benefit of context and its cost to other traffic: changes of page times and of a file's rate, per run."""

import numpy as np

from catnip.analysis import stats
from catnip.analysis.interval import Interval
from catnip.analysis.measures import Floats
from catnip.papers.catnip.pages import average_gain
from catnip.papers.catnip.printed import paper_gain_pct
from catnip.papers.quantity import Quantities
from catnip.papers.reference import rows
from catnip.papers.today.cells import ALL_SETS, BEYOND, DROP_TAIL
from catnip.papers.today.runs import MARKED, CellRuns, Result

measured = Quantities()
printed = Quantities()
printed(paper_gain_pct)

QUANTILES = {"median": 0.5, "95th percentile": 0.95, "99th percentile": 0.99}
WEIGHED = ("p10", "p25", "p50", "p75", "p90")
"""Percentiles of page weight on the Web that the five pages of today represent, in order."""


@measured
def gain_in_the_old_network_pct(runs: CellRuns, step: str, queue: str) -> Interval:
    """TDY-E1: mean reduction of the ten pages' times by a queue, with the hosts of a step, percent.

    The reference is DropTail with the same hosts.
    """
    return average_gain(runs.old(step, queue), runs.old(step, DROP_TAIL))


@measured
def page_s(
    runs: CellRuns, page_set: str, cell: str, queue: str, quantile: str, group: str = MARKED
) -> Interval:
    """Quantile of all page times in a cell behind a queue, s."""
    return _quantile(runs.cell(page_set, cell)[queue], quantile, group)[0]


@measured
def change_pct(
    runs: CellRuns,
    page_set: str,
    cell: str,
    queue: str,
    quantile: str,
    than: str = DROP_TAIL,
    group: str = MARKED,
) -> Interval:
    """Change of a quantile of all page times from the queue `than` to `queue`, in a cell, percent."""
    results = runs.cell(page_set, cell)
    ours, theirs = (_quantile(results[name], quantile, group)[1] for name in (queue, than))
    return _change_pct(ours, theirs)


@measured
def file_change_pct(runs: CellRuns, page_set: str, cell: str, queue: str, than: str = DROP_TAIL) -> Interval:
    """Change of the file transfer's rate from the queue `than` to `queue`, in a cell, percent."""
    results = runs.cell(page_set, cell)
    return _change_pct(results[queue].file_mbps, results[than].file_mbps)


@measured
def longest_tail_s(runs: CellRuns, page_set: str, beyond: bool = False) -> Interval:
    """Largest 99th percentile of page times over the cells and queues of a set of pages, s.

    The cells are those of single factors, or, with `beyond`, those of `BEYOND`.

    Times can be measured only up to the time between the start of a page and the end of its run.
    """
    names = BEYOND if beyond else ALL_SETS[page_set].cells()
    cells = (runs.cell(page_set, cell).values() for cell in names)
    return stats.greatest([_quantile(one, "99th percentile", MARKED)[0] for each in cells for one in each])


@measured
def object_kb(_runs: CellRuns, quantile: float) -> float:
    """TDY-S1: quantile of the sizes of all objects of today's pages except the HTML, KB."""
    sizes = [size for percentile in WEIGHED for size in _sizes(percentile)[1:]]
    return float(np.quantile(sizes, quantile)) / 1024


@printed
def almanac(item: str, percentile: str) -> float:
    """Value of the item `item` in the Web Almanac at a percentile."""
    return next(float(row[percentile]) for row in rows("today_almanac.csv") if row["what"] == item)


def _quantile(result: Result, quantile: str, group: str) -> tuple[Interval, Floats]:
    return result.pages[group].quantile(QUANTILES[quantile], result.runs)


def _change_pct(ours: Floats, theirs: Floats) -> Interval:
    one = stats.ratio(ours, theirs) * 100
    return Interval(one.mean - 100, one.low - 100, one.high - 100, one.n)


def _sizes(percentile: str) -> list[int]:
    page = str(1 + WEIGHED.index(percentile))
    return [int(row["bytes"]) for row in rows("today_pages.csv") if row["page"] == page]

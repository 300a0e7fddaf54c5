"""Agreement of simulated page times with those of Chromium: quantities, the table and the main result."""

import operator
import os
import platform
import subprocess

import numpy as np
from numpy.typing import ArrayLike

from catnip.analysis.interval import Interval
from catnip.analysis.resampling import of_medians
from catnip.papers.pages.cells import Cell
from catnip.papers.pages.runs import PageRuns
from catnip.papers.quantity import Quantities
from catnip.report.model import Table
from catnip.web.chromium import find

measured = Quantities()

CLOSE = 0.1
"""Fraction of Chromium's median within which the simulated one is asked to be."""
PAIRS = ((10, "slow-4g"), (60, "lte"), (60, "fast-3g"))
"""Objects and links of the sites that are loaded with HTTP/1.1 and HTTP/2."""


@measured
def ratio(runs: PageRuns, objects: int, http: str, link: str, loss_pct: float = 0.0) -> Interval:
    """PAG-E1 to E4: ratio of the simulated median of a cell's page times to Chromium's."""
    return _ratio(runs, Cell(objects, http, link, loss_pct))


@measured
def median_s(
    runs: PageRuns, objects: int, http: str, link: str, source: str, loss_pct: float = 0.0
) -> Interval:
    """PAG-E1 to E4: median of a cell's page times, s, simulated (`source` is `ours`) or in Chromium."""
    cell = Cell(objects, http, link, loss_pct)
    times = runs.simulated(cell) if source == "ours" else runs.measured(cell).load_s
    return of_medians(operator.pos, times)


@measured
def same_sign(runs: PageRuns, objects: int, link: str) -> str:
    """PAG-E5: `yes` if the version of HTTP that is faster in Chromium, by its median, is so simulated."""
    real, ours = (_less(runs, objects, link, source).mean for source in ("Chromium", "ours"))
    return "yes" if np.sign(real) == np.sign(ours) else "no"


@measured
def http2_less_s(runs: PageRuns, objects: int, link: str, source: str) -> Interval:
    """PAG-E5: median page time with HTTP/2 less that with HTTP/1.1, s, simulated or in Chromium."""
    return _less(runs, objects, link, source)


@measured
def missing_objects(runs: PageRuns) -> str:
    """PAG-S1: number of loads in which Chromium did not receive all objects of its site."""
    loads = [(cell, objects) for cell in runs.cells for objects in runs.measured(cell).objects]
    return str(sum(objects != cell.objects for cell, objects in loads))


@measured
def failed(runs: PageRuns) -> str:
    """PAG-S1: number of loads that did not end in three tries."""
    return str(sum(runs.measured(cell).failed for cell in runs.cells))


@measured
def red_certificates(runs: PageRuns) -> str:
    """PAG-S1: number of loads whose link was red, or whose programs waited for cores, in all three tries."""
    return str(sum(runs.measured(cell).red for cell in runs.cells))


@measured
def repeated(runs: PageRuns) -> float:
    """PAG-S1: number of loads that were repeated for one of these reasons."""
    return float(sum(runs.measured(cell).repeated for cell in runs.cells))


def headline(runs: PageRuns) -> str:
    """Returns the main result of the comparison in a few sentences."""
    ratios = [_ratio(runs, cell).mean for cell in runs.cells]
    close = sum(abs(one - 1) <= CLOSE for one in ratios)
    pairs = sum(same_sign(runs, *pair) == "yes" for pair in PAIRS)
    again, red = int(repeated(runs)), red_certificates(runs)
    return (
        f"In {close} of {len(ratios)} cases the simulated median page time is within {100 * CLOSE:g} % of "
        f"that in {_browser()} behind an emulated link; over all cases it is that time times "
        f"{min(ratios):.2f} to {max(ratios):.2f}. The version of HTTP that is faster in the browser is so in "
        f"the simulation in {pairs} of {len(PAIRS)} comparisons. Measured on Linux {platform.release()} with "
        f"{os.cpu_count()} cores: {again} loads were repeated because a link was out of tolerance, programs "
        f"waited for cores or the page did not load, and {red} were still so in the last try."
    )


def page_times(runs: PageRuns) -> Table:
    """Returns the table of medians and ranges of the page times of all cells."""
    rows = [
        [
            cell.name,
            _median_of(runs.measured(cell).load_s),
            _median_of(runs.simulated(cell)),
            str(_ratio(runs, cell)),
        ]
        for cell in runs.cells
    ]
    columns = ["", "Chromium, s", "simulated, s", "simulated over Chromium"]
    loads = len(runs.measured(runs.cells[0]).load_s)
    note = (
        f"Medians of the times until the end of the load event, with least and greatest, of {loads} loads "
        f"and {len(runs.simulated(runs.cells[0]))} simulated ones; ratio of the medians with its interval."
    )
    return Table("Page times", columns, rows, note)


def _ratio(runs: PageRuns, cell: Cell) -> Interval:
    return of_medians(operator.truediv, runs.simulated(cell), runs.measured(cell).load_s)


def _less(runs: PageRuns, objects: int, link: str, source: str) -> Interval:
    cells = Cell(objects, "2", link), Cell(objects, "1.1", link)
    times: list[ArrayLike] = [
        runs.simulated(cell) if source == "ours" else runs.measured(cell).load_s for cell in cells
    ]
    return of_medians(operator.sub, *times)


def _median_of(times_s: ArrayLike) -> str:
    least, middle, greatest = np.quantile(np.asarray(times_s), (0, 0.5, 1))
    return f"{middle:.3f} ({least:.3f} to {greatest:.3f})"


def _browser() -> str:
    """Returns name and version of the browser."""
    told = subprocess.run(
        [find("chromium") or "true", "--version"], capture_output=True, text=True, check=False
    )
    return " ".join(told.stdout.split()[:2]) or "Chromium"

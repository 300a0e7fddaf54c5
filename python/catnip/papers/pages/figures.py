"""Measured page times beside simulated ones."""

from catnip.figures.loads import Loads, beside
from catnip.papers.pages.agreement import CLOSE
from catnip.papers.pages.runs import PageRuns
from catnip.report.model import Figure


def page_times(runs: PageRuns) -> Figure:
    """Draws all loads of each cell, and median and range of the simulated ones."""
    loads = [Loads(cell.name, runs.measured(cell).load_s, runs.simulated(cell)) for cell in runs.cells]
    title = "Page times in Chromium and simulated"
    caption = (
        "Dots: loads of replayed sites in headless Chromium behind emulated links. Diamonds and bars: median "
        "and range of the simulated loads. Shaded: within 10 % of Chromium's median. Sites are recorded "
        "without a link, and never over the one that is simulated."
    )
    return Figure("page_times", title, caption, beside(title, loads, CLOSE))


FIGURES = (page_times,)

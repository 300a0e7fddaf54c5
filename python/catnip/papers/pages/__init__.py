"""Page times in a browser beside simulated ones.

Headless Chromium loads replayed sites behind emulated links, and the same loads are simulated. All that a
simulation knows of a site is a recording of one load without a link.
"""

from catnip.papers.pages import agreement, figures
from catnip.papers.pages.runs import PAGES, PageRuns
from catnip.papers.paper import Paper, Part

COMPARED = ["PAG-E1", "PAG-E2", "PAG-E3", "PAG-E4"]

PAPER = Paper(
    runs=PageRuns,
    live=agreement.measured,
    figures=figures.FIGURES,
    headline=Part(agreement.headline, [*COMPARED, "PAG-E5", "PAG-S1"]),
    tables=[Part(agreement.page_times, COMPARED)],
    seeds=lambda runs: runs.seeds(PAGES),
    quick_without=("PAG-E2", "PAG-E3", "PAG-E4", "PAG-E5"),
)

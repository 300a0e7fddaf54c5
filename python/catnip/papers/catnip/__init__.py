"""The CATNIP paper (Wu and Williamson, 2002): its components CAT-S1 to S19 and its experiments.

ns-2 2.35 at the same settings is the first oracle. The paper's tables and the direction of its results are
the second.
"""

from catnip.papers.catnip import components, figures, pages, printed, transfers, windows
from catnip.papers.catnip.runs import VariantRuns
from catnip.papers.paper import Paper, Part

PAPER = Paper(
    runs=VariantRuns,
    simulated=components.measured | transfers.measured | pages.measured | windows.measured,
    printed=printed.printed,
    figures=figures.FIGURES,
    headline=Part(figures.headline, ["CAT-E4"]),
    tables=[Part(figures.five_routers, ["CAT-E4", "CAT-E5", "CAT-E6"])],
    seeds=lambda runs: runs.longest,
)

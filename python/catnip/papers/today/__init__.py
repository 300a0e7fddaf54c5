"""Value of context today: the pages of 2002 and of today, with today's end systems, behind today's queues.

No paper examines this. The results are measurements of this simulator, whose hosts and queues are compared
with the kernel, with RFCs and with other simulators elsewhere.
"""

from catnip.papers.paper import Paper
from catnip.papers.today import figures, quantities
from catnip.papers.today.cells import TEN
from catnip.papers.today.runs import CellRuns

PAPER = Paper(
    runs=CellRuns,
    simulated=quantities.measured,
    printed=quantities.printed,
    figures=figures.FIGURES,
    headline=figures.headline,
    tables=figures.tables,
    seeds=lambda runs: runs.seeds(TEN.scenario),
)

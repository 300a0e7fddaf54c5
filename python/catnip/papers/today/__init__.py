"""Value of context today: the pages of 2002 and of today, with today's end systems, behind today's queues.

No paper examines this. The results are measurements of this simulator, whose hosts and queues are compared
with the kernel, with RFCs and with other simulators elsewhere.
"""

from functools import partial

from catnip.papers.paper import Paper, Part
from catnip.papers.today import figures, quantities
from catnip.papers.today.cells import ALL_SETS, PAGE_SETS, TEN
from catnip.papers.today.runs import CellRuns

PAPER = Paper(
    runs=CellRuns,
    simulated=quantities.measured,
    printed=quantities.printed,
    figures=figures.FIGURES,
    headline=Part(figures.headline, ["TDY-E1", "TDY-E2", "TDY-E3", "TDY-E4", "TDY-E5", "TDY-E9"]),
    tables=[
        *(Part(partial(figures.where, page_set=one), ["TDY-E4"]) for one in PAGE_SETS),
        Part(partial(figures.where, page_set="sites"), ["TDY-E10"]),
        Part(figures.others, ["TDY-E5"]),
        *(
            Part(partial(figures.all_queues, page_set=one), [of])
            for one, of in zip(ALL_SETS, ("TDY-E2", "TDY-E3", "TDY-E9"), strict=True)
        ),
    ],
    seeds=lambda runs: runs.seeds(TEN.scenario),
)

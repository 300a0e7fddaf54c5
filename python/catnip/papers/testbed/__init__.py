"""The testbed paper (Wang, Zhang and Keshav): real servers and clients over emulated links, and its model.

The claims cover its components TB-S1 to S14 and its experiments, and experiments of other papers that need a
real server. The kernel is today's, with settings close to the paper's, and the models use its timeouts. A
simulated kernel of the paper's time is compared as well.
"""

from functools import partial

from catnip.papers.paper import Paper, Part
from catnip.papers.testbed import figures, latency, printed, systems, wan
from catnip.papers.testbed.runs import FetchRuns

PAPER = Paper(
    runs=FetchRuns,
    live=systems.measured | latency.measured | figures.measured | wan.measured,
    printed=printed.printed,
    figures=figures.FIGURES,
    headline=Part(figures.headline),
    tables=[
        Part(figures.comparison, ["TB-E2", "TB-E6"]),
        Part(figures.stacks, ["TB-E4", "TB-E8"]),
        Part(wan.table, ["CAT-E10"]),
        *(Part(partial(wan.trade, server=server), ["CAT-E10"]) for server in wan.SERVERS),
    ],
    quick_without=("TB-S7", "TB-E5", "TB-E9", "TB-E10", "CAT-S24", "CAT-S25", "CAT-E10", "CAT-E16"),
)

"""Linux as an oracle: a kernel and the simulated profile linux-6 on the same links.

The kernel is that of this machine, or one in virtual time. A real sender and receiver use an emulated link,
a simulated pair uses a simulated one. Both links lose, delay and mark the same packets, which a case lists by
number.
"""

from catnip.papers.linux_tcp import agreement, figures
from catnip.papers.linux_tcp.runs import LONG, TransferRuns
from catnip.papers.paper import Paper, Part
from catnip.report.values import THIS, VIRTUAL

PAPER = Paper(
    runs=TransferRuns,
    live=agreement.measured,
    figures=figures.FIGURES,
    headline=Part(agreement.headline, ["LNX-E1", "LNX-E2"]),
    tables=[
        Part(agreement.likenesses, ["LNX-E1"]),
        Part(agreement.long_flows, ["LNX-E3"]),
        Part(agreement.differences, ["LNX-E1"]),
        Part(agreement.drawn_likenesses, ["LNX-E4"]),
        Part(agreement.drawn_differences, ["LNX-E4"]),
    ],
    seeds=lambda runs: runs.seeds(LONG),
    kernels=(THIS, VIRTUAL),
    quick_without=("LNX-E3", "LNX-E4"),
)

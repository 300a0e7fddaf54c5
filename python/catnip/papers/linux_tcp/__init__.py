"""Linux as an oracle: this machine's kernel and the simulated profile linux-6 on the same links.

A real sender and receiver use an emulated link, a simulated pair uses a simulated one. Both links lose, delay
and mark the same packets, which a case lists by number.
"""

from catnip.papers.linux_tcp import agreement, figures
from catnip.papers.linux_tcp.runs import LONG, TransferRuns
from catnip.papers.paper import Paper

PAPER = Paper(
    runs=TransferRuns,
    live=agreement.measured,
    figures=figures.FIGURES,
    headline=agreement.headline,
    tables=agreement.tables,
    seeds=lambda runs: runs.seeds(LONG),
    quick_without=("LNX-E3",),
)

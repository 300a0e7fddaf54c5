"""The papers' prototypes and experiments on this machine's kernel: marks, newCWV, and the benefit of both.

An agent marks the packets of unmodified servers and registers congestion controllers. Routers are emulated in
real time. The results are compared with those of the simulator.
"""

from functools import partial

from catnip.papers.linux import bursts, captures, figures, hour, network, stack, webservers, windows
from catnip.papers.linux.runs import KernelRuns
from catnip.papers.newcwv import printed as newcwv_printed
from catnip.papers.paper import Paper, Part
from catnip.papers.testbed import printed as testbed_printed

PAPER = Paper(
    runs=KernelRuns,
    live=captures.measured
    | network.measured
    | bursts.measured
    | stack.measured
    | windows.measured
    | hour.measured
    | webservers.measured,
    printed=testbed_printed.printed | newcwv_printed.printed,
    figures=figures.FIGURES,
    headline=Part(figures.headline, ["LIN-E1", "LIN-E2", "LIN-E4", "CAT-E13"]),
    tables=[
        Part(partial(figures.slow_line, control="cubic"), ["LIN-E1"]),
        Part(partial(figures.slow_line, control="bbr"), ["LIN-E2"]),
        Part(figures.others, ["LIN-E3"]),
        Part(figures.losses, ["LIN-E1", "LIN-E2"]),
        Part(network.table, ["CAT-E10", "CAT-E13"]),
        Part(bursts.table, ["CWV-E6", "CWV-E7", "CWV-E8", "CWV-E9"]),
        Part(captures.table, ["CAT-S20", "CAT-S21", "IDS-S21"]),
    ],
    seeds=lambda runs: runs.seeds(stack.EMULATED),
    quick_without=(
        "LIN-E5",
        "CAT-E10",
        "CAT-E13",
        "CAT-E16",
        "CWV-S5",
        "CWV-S13",
        "CWV-S15",
        "CWV-E6",
        "CWV-E7",
        "CWV-E8",
        "CWV-E9",
        "CWV-E10",
        "CWV-E11",
    ),
)

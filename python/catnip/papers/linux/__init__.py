"""The papers' prototypes and experiments on this machine's kernel: marks, newCWV, and the benefit of both.

An agent marks the packets of unmodified servers and registers congestion controllers. Routers are emulated in
real time. The results are compared with those of the simulator.
"""

from collections.abc import Sequence

from catnip.base.progress import Progress
from catnip.papers.linux import bursts, captures, network, stack, windows
from catnip.papers.linux.figures import FIGURES, headline, tables
from catnip.papers.linux.runs import Runs
from catnip.papers.newcwv import printed as newcwv_printed
from catnip.papers.quantity import Quantities
from catnip.papers.testbed import printed as testbed_printed

__all__ = ["FIGURES", "LIVE", "MEASURED", "PRINTED", "headline", "seeds", "start", "tables"]

MEASURED = Quantities(
    captures.measured | network.measured | bursts.measured | stack.measured | windows.measured
)
PRINTED = Quantities(testbed_printed.printed | newcwv_printed.printed)
LIVE = tuple(MEASURED)


def start(quick: bool, seeds: int | None, first_seed: int, progress: Progress) -> Runs:
    """Returns the measurements, made on demand; `seeds` is the number of runs of each cell."""
    return Runs(quick, seeds, first_seed, progress)


def seeds(runs: Runs) -> Sequence[int]:
    """Returns the seeds of the slow line."""
    return runs.seeds(stack.REAL)

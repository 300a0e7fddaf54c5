"""Linux as an oracle: this machine's kernel and the simulated profile linux-6 on the same links.

A real sender and a real receiver stand at the ends of an emulated link, a simulated pair at those of a
simulated one. Both links lose, delay and mark the same packets, which a case names one by one.
"""

from collections.abc import Sequence

from catnip.base.progress import Progress
from catnip.papers.linux_tcp import agreement, figures
from catnip.papers.linux_tcp.agreement import headline, tables
from catnip.papers.linux_tcp.runs import Runs
from catnip.papers.quantity import Quantities

__all__ = ["FIGURES", "LIVE", "MEASURED", "PRINTED", "headline", "seeds", "start", "tables"]

FIGURES = figures.FIGURES
MEASURED = Quantities(agreement.measured)
PRINTED = Quantities()
LIVE = tuple(MEASURED)


def start(quick: bool, seeds: int | None, first_seed: int, progress: Progress) -> Runs:
    """Cases and long transfers, made on demand; `seeds` is the number of long transfers."""
    return Runs(quick, seeds, first_seed, progress)


def seeds(runs: Runs) -> Sequence[int]:
    """Those of the long transfers."""
    return runs.seeds

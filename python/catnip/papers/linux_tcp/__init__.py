"""Linux as an oracle: this machine's kernel and the simulated profile linux-6 on the same links.

A real sender and receiver use an emulated link, a simulated pair uses a simulated one. Both links lose, delay
and mark the same packets, which a case lists by number.
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
    """Returns the cases and long transfers, made on demand; `seeds` is the number of long transfers."""
    return Runs(quick, seeds, first_seed, progress)


def seeds(runs: Runs) -> Sequence[int]:
    """Returns the seeds of the long transfers."""
    return runs.seeds

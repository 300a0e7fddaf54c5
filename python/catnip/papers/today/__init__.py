"""Value of context today: the pages of 2002 and of today, with today's end systems, behind today's queues.

No paper examines this. The results are measurements of this simulator, whose hosts and queues are compared
with the kernel, with RFCs and with other simulators elsewhere.
"""

from collections.abc import Sequence

from catnip.base.progress import Progress
from catnip.papers.quantity import Quantities
from catnip.papers.today import quantities
from catnip.papers.today.cells import TEN
from catnip.papers.today.figures import FIGURES, headline, tables
from catnip.papers.today.runs import Runs

__all__ = ["FIGURES", "LIVE", "MEASURED", "PRINTED", "headline", "seeds", "start", "tables"]

MEASURED = Quantities(quantities.measured)
PRINTED = quantities.printed
LIVE: tuple[str, ...] = ()


def start(quick: bool, seeds: int | None, first_seed: int, progress: Progress) -> Runs:
    """Returns the cells, made on demand."""
    return Runs(quick, seeds, first_seed, progress)


def seeds(runs: Runs) -> Sequence[int]:
    """Returns the seeds of the ten pages."""
    return runs.seeds(TEN.scenario)

"""The CATNIP paper (Wu and Williamson, 2002): its systems CAT-S1 to S19 and its experiments.

ns-2 2.35 at the same settings is the first oracle. The paper's tables and the direction of its results are
the second.
"""

from collections.abc import Sequence

from catnip.base.progress import Progress
from catnip.papers.catnip import components, figures, pages, printed, transfers
from catnip.papers.catnip.figures import FIGURES, headline
from catnip.papers.catnip.runs import Runs
from catnip.papers.quantity import Quantities
from catnip.report.model import Table

__all__ = ["FIGURES", "LIVE", "MEASURED", "PRINTED", "headline", "seeds", "start", "tables"]

QUICK_SEEDS = 10

MEASURED = Quantities(components.measured | transfers.measured | pages.measured)
PRINTED = printed.printed
LIVE: tuple[str, ...] = ()


def start(quick: bool, seeds: int | None, first_seed: int, progress: Progress) -> Runs:
    """Returns the scenario runs, made on demand."""
    return Runs(seeds or (QUICK_SEEDS if quick else None), first_seed, progress)


def tables(runs: Runs) -> Sequence[Table]:
    """Returns the table of page times over five routers."""
    return [figures.five_routers(runs)]


def seeds(runs: Runs) -> Sequence[int]:
    """Returns the seeds of the longest experiment."""
    return runs.longest

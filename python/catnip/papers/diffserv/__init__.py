"""Service differentiation for interactive applications (Noureddine and Tobagi, 2002): IDS-S1 to IDS-E13.

Two experiments go beyond the paper: IDS-E14, today's queues and end systems, and IDS-E15, users who mark all
their packets HIGH.
"""

from collections.abc import Sequence

from catnip.base.progress import Progress
from catnip.papers.diffserv import beyond, components, printed, schemes, traffic
from catnip.papers.diffserv.figures import FIGURES, headline, tables
from catnip.papers.diffserv.runs import Runs
from catnip.papers.quantity import Quantities

__all__ = ["FIGURES", "LIVE", "MEASURED", "PRINTED", "headline", "seeds", "start", "tables"]

MEASURED = Quantities(traffic.measured | components.measured | schemes.measured | beyond.measured)
PRINTED = printed.printed
LIVE: tuple[str, ...] = ()


def start(quick: bool, seeds: int | None, first_seed: int, progress: Progress) -> Runs:
    """Returns the runs of the tree, made on demand; `quick` takes a fifth of the tree."""
    return Runs(quick, seeds, first_seed, progress)


def seeds(runs: Runs) -> Sequence[int]:
    """Returns the seeds of the experiments on a fifth of the tree, which have the most."""
    return runs.seeds("diffserv-small")

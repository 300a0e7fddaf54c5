"""newCWV and pacing for HTTP (Hossain and Fairhurst, 2023): CWV-S1 to CWV-E13.

Two experiments go beyond the paper: CWV-E14, other responses to idle periods behind today's queues, and
CWV-E15, newCWV combined with marks.
"""

from collections.abc import Sequence

from catnip.base.progress import Progress
from catnip.papers.newcwv import beyond, gains, printed, real, single
from catnip.papers.newcwv.figures import FIGURES, headline, tables
from catnip.papers.newcwv.runs import SHARED, Runs
from catnip.papers.quantity import Quantities

__all__ = ["FIGURES", "LIVE", "MEASURED", "PRINTED", "headline", "seeds", "start", "tables"]

MEASURED = Quantities(single.measured | gains.measured | beyond.measured | real.measured)
PRINTED = printed.printed
LIVE = tuple(real.measured)


def start(quick: bool, seeds: int | None, first_seed: int, progress: Progress) -> Runs:
    """Returns the runs of the dumbbell, made on demand."""
    return Runs(quick, seeds, first_seed, progress)


def seeds(runs: Runs) -> Sequence[int]:
    """Returns the seeds of the hours of HTTP."""
    return runs.seeds(SHARED)

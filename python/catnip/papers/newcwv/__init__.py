"""newCWV and pacing for HTTP (Hossain and Fairhurst, 2023): CWV-S1 to CWV-E13.

What the paper does not ask is CWV-E14, other answers to silence behind today's queues, and CWV-E15, bursts
that are both remembered and marked.
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
    """Runs of the dumbbell, made on demand."""
    return Runs(quick, seeds, first_seed, progress)


def seeds(runs: Runs) -> Sequence[int]:
    """The seeds of the hours of HTTP."""
    return runs.seeds(SHARED)

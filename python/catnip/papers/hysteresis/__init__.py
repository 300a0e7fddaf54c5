"""The hysteresis model of short transfers: its components HYS-S1 to S14 and its experiments.

Simulations repeat the paper's design. The models' values are checked against independent ones.
"""

from collections.abc import Sequence

from catnip.base.progress import Progress
from catnip.papers.hysteresis import accuracy, components, marking, printed
from catnip.papers.hysteresis.figures import FIGURES, headline, tables
from catnip.papers.hysteresis.trials import PAPER_TRIALS, Trials
from catnip.papers.quantity import Quantities

__all__ = ["FIGURES", "LIVE", "MEASURED", "PRINTED", "headline", "seeds", "start", "tables"]

TRIALS = 20_000

MEASURED = Quantities(components.measured | accuracy.measured | marking.measured)
PRINTED = printed.printed
LIVE: tuple[str, ...] = ()


def start(quick: bool, seeds: int | None, first_seed: int, progress: Progress) -> Trials:
    """Returns the simulated transfers, made on demand."""
    return Trials(seeds or (PAPER_TRIALS if quick else TRIALS), first_seed, progress)


def seeds(trials: Trials) -> Sequence[int]:
    """Returns the seed of each trial."""
    return trials.seeds

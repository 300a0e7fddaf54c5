"""The testbed paper (Wang, Zhang and Keshav): real servers and clients over emulated links, and its model.

The claims cover its components TB-S1 to S14 and its experiments, and experiments of other papers that need a
real server. The kernel is today's, with settings close to the paper's, and the models use its timeouts. A
simulated kernel of the paper's time is compared as well.
"""

from collections.abc import Sequence

from catnip.base.progress import Progress
from catnip.papers.quantity import Quantities
from catnip.papers.testbed import figures, latency, printed, systems, wan
from catnip.papers.testbed.figures import FIGURES, headline, tables
from catnip.papers.testbed.runs import SERVERS, Runs

__all__ = ["FIGURES", "LIVE", "MEASURED", "PRINTED", "headline", "seeds", "start", "tables"]

QUICK = 0.01

MEASURED = Quantities(systems.measured | latency.measured | figures.measured | wan.measured)
PRINTED = printed.printed
LIVE = tuple(systems.measured | latency.measured | figures.measured | wan.measured)


def start(quick: bool, seeds: int | None, first_seed: int, progress: Progress) -> Runs:
    """Returns the measurements, made on demand; `seeds` is the number of fetches per point."""
    scale = seeds / latency.FETCHES if seeds else QUICK if quick else 1.0
    return Runs(scale, first_seed, progress, servers=tuple(SERVERS))


def seeds(runs: Runs) -> Sequence[int]:
    """Returns the seed of the first link; the other links have consecutive seeds."""
    return [runs.first_seed]

"""IDS-S8 to S19: single parts, driven and measured by crates/lab/tests/papers/components_diffserv.rs."""

from catnip.papers import component_results
from catnip.papers.diffserv.runs import Runs
from catnip.papers.quantity import Quantities

measured = Quantities()


@measured
def driven_alone(_runs: Runs, says: str) -> float:
    """Largest value of a statement over its seeds."""
    return max(component_results.alone(says))

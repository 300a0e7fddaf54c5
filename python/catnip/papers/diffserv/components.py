"""IDS-S8 to S19: results of the tests in crates/lab/tests/papers/components_diffserv.rs."""

from catnip.papers import component_results
from catnip.papers.diffserv.runs import TreeRuns
from catnip.papers.quantity import Quantities

measured = Quantities()


@measured
def driven_alone(_runs: TreeRuns, says: str) -> float:
    """Largest value, over its seeds, of the component test whose claim is `says`."""
    return max(component_results.alone(says))

"""IDS-S8 to S19: results of the component tests in crates/lab/tests/papers/components_diffserv.rs."""

from catnip.papers import component_results
from catnip.papers.diffserv.runs import TreeRuns
from catnip.papers.quantity import Quantities

measured = Quantities()


@measured
def driven_alone(_runs: TreeRuns, says: str) -> float:
    """Largest value over the seeds that the component test with the claim `says` has recorded."""
    return max(component_results.alone(says))

"""IDS-S8 to S19: results of the tests in crates/lab/tests/papers/components_diffserv.rs."""

from catnip.papers import component_results
from catnip.papers.diffserv.runs import Runs
from catnip.papers.quantity import Quantities

measured = Quantities()


@measured
def driven_alone(_runs: Runs, says: str) -> float:
    """Largest value of the component test with the claim `says` over its seeds."""
    return max(component_results.alone(says))

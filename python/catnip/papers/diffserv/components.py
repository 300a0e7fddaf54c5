"""IDS-S8 to S19: parts on their own, as crates/lab/tests/components_diffserv.rs drives and measures them."""

import csv
from functools import cache

from catnip import paths
from catnip.papers.diffserv.runs import Runs
from catnip.papers.quantity import Quantities

measured = Quantities()


@measured
def component(_runs: Runs, of: str, says: str) -> float:
    """The largest value of a statement over its seeds."""
    return max(value for id, claim, value in _rows() if (id, claim) == (of, says))


@cache
def _rows() -> list[tuple[str, str, float]]:
    with (paths.root() / "validation" / "components-diffserv.csv").open(
        encoding="utf-8", newline=""
    ) as opened:
        return [(row["id"], row["claim"], float(row["value"])) for row in csv.DictReader(opened)]

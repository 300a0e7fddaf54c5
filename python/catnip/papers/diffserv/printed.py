"""Values of ns-2 with which the claims of the DiffServ paper's reproduction are compared."""

from collections.abc import Sequence

from catnip.papers.quantity import Quantities
from catnip.papers.reference import rows

printed = Quantities()

NAMES = {"newreno": "NewReno", "reno": "Reno", "sack": "Sack1"}


@printed
def timeouts_in_ns2(recovery: str, lost: Sequence[int]) -> float:
    """IDS-S2: number of timeouts in ns-2 of a transfer of 100 packets that loses the packets `lost`.

    The link has 1 Mbit/s and 50 ms.
    """
    values = ("ns235", NAMES[recovery], f"d{'_'.join(map(str, lost))}", "1000")
    table = rows("ns2/traces/summary.csv")
    keys = ("preset", "variant", "scenario", "queue_limit")
    return next(float(row["timeouts"]) for row in table if tuple(row[key] for key in keys) == values)

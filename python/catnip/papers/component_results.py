"""Results of tests of single components with many random arrivals, from python/catnip/measured."""

import csv
from functools import cache

from catnip.base import paths


def alone(says: str) -> list[float]:
    """Returns the values that the component test with the claim `says` has recorded, in order of seeds."""
    return _values()[says]


@cache
def _values() -> dict[str, list[float]]:
    values: dict[str, list[float]] = {}
    for file in sorted(paths.MEASURED.glob("*.csv")):
        with file.open(encoding="utf-8", newline="") as opened:
            for row in csv.DictReader(opened):
                values.setdefault(row["claim"], []).append(float(row["value"]))
    return values

"""Results of component tests, from python/catnip/measured: single components under many random arrivals."""

import csv
from functools import cache

from catnip.base import paths


def alone(says: str) -> list[float]:
    """Returns the values of the component test whose claim is `says`, in the order of their seeds."""
    return _values()[says]


@cache
def _values() -> dict[str, list[float]]:
    values: dict[str, list[float]] = {}
    for file in sorted(paths.MEASURED.glob("*.csv")):
        with file.open(encoding="utf-8", newline="") as opened:
            for row in csv.DictReader(opened):
                values.setdefault(row["claim"], []).append(float(row["value"]))
    return values

"""Reference values, printed in papers or measured by others, from the CSV files of the package."""

import csv
from functools import cache

from catnip.base import paths


@cache
def rows(file: str) -> list[dict[str, str]]:
    """Returns the rows of the reference table with this file name, each as a dict of texts."""
    of_papers = {path.name: path for path in paths.tables()}
    with (of_papers.get(file) or paths.REFERENCE / file).open(encoding="utf-8", newline="") as opened:
        return list(csv.DictReader(opened))


def published(id: str) -> float | str | None:
    """Returns the value of the reference row `id`: a number, a range in words, or None.

    The row is one of `*_claims.csv` or `*_parameters.csv`.
    """
    row = row_of(id)
    if "value" in row:
        return _number(row["value"])
    low, high = row["low"], row["high"]
    return _number(low) if low == high else f"{low} to {high}"


def number(id: str) -> float:
    """Returns the value of the reference row `id`, which must be a number."""
    value = published(id)
    assert isinstance(value, float), f"{id}: {value} is not a number"
    return value


def end_of_row(id: str, end: str) -> float:
    """Returns the `low` or `high` end of the value range of the reference row `id`."""
    return float(row_of(id)[end])


def row_of(id: str) -> dict[str, str]:
    """Returns the row of a `*_claims.csv` or `*_parameters.csv` with this id."""
    return _by_id()[id]


def ids() -> list[str]:
    """Returns the ids of all rows of `*_claims.csv` and `*_parameters.csv`."""
    return list(_by_id())


@cache
def _by_id() -> dict[str, dict[str, str]]:
    files = [path.name for path in paths.tables() if path.stem.endswith(("_claims", "_parameters"))]
    return {row["id"]: row for file in files for row in rows(file)}


def _number(text: str) -> float | str | None:
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        return text

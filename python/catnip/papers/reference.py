"""Published and measured numbers, from validation/reference."""

import csv
from functools import cache

from catnip import paths


@cache
def rows(file: str) -> list[dict[str, str]]:
    """The rows of a reference table."""
    with (paths.reference() / file).open(encoding="utf-8", newline="") as opened:
        return list(csv.DictReader(opened))

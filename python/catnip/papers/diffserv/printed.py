"""What the paper prints, from the reference tables."""

from catnip.papers.quantity import Quantities
from catnip.papers.reference import row_of

printed = Quantities()


@printed
def as_text(id: str) -> str:
    """A row, as it is printed."""
    row = row_of(id)
    return row.get("value") or row["low"]

"""What a reproduction hands over to the command line and the report."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from catnip.papers.claims import Claim


@dataclass(frozen=True)
class Table:
    """A table of the report, cells as they are printed; the first column names the row."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


@dataclass(frozen=True)
class Figure:
    """A figure of the report; the caption says what to see in it. `name` is that of its file."""

    name: str
    title: str
    caption: str
    svg: str


@dataclass(frozen=True)
class Reproduction:
    """Everything that a report shows about one paper; `seeds` are those of the longest experiment."""

    title: str
    headline: str
    claims: Sequence[Claim]
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    seeds: Sequence[int] = field(default_factory=list)

"""Names and types of the results tables, which the core declares and `catnip list` describes."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from catnip import _core

if TYPE_CHECKING:
    from numpy.typing import NDArray

Column: TypeAlias = "NDArray[Any] | list[str] | list[bool]"
Table: TypeAlias = "Mapping[str, Column]"
CodedColumn: TypeAlias = "Column | tuple[list[str], NDArray[Any]]"
"""Column, or a pair for a column of names: the distinct names, and the index of each row's name."""
CodedTable: TypeAlias = "Mapping[str, CodedColumn]"

COLUMNS = {name: tuple(column for column, *_ in columns) for name, _, columns in _core.tables()}
KINDS = {name: {column: kind for column, kind, *_ in columns} for name, _, columns in _core.tables()}
"""Kind of each column, `integer`, `float` or `text`, by the names of its table and of the column. In files,
the variant is a text."""
TABLES = tuple(COLUMNS)
SERIES = ("link_series", "connection_series")
"""Tables of time series, with a row per interval; runs that make them need the interval's length."""
USUAL = tuple(name for name in TABLES if name not in {"bursts", "events", *SERIES})
"""Results tables made by default: all except bursts, events and time series, which take time and memory."""

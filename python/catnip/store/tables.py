"""Names and types of the tables of results, which the core declares and `catnip list` describes."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from catnip import _core

if TYPE_CHECKING:
    from numpy.typing import NDArray

Column: TypeAlias = "NDArray[Any] | list[str] | list[bool]"
Table: TypeAlias = "Mapping[str, Column]"

TABLES = tuple(name for name, _, _ in _core.tables())
SERIES = ("link_series", "connection_series")
"""Time series, with a row per interval; they need the length of the interval."""
USUAL = tuple(name for name in TABLES if name not in {"bursts", "events", *SERIES})
"""Tables made by default; tables derived from single packets take time and memory."""

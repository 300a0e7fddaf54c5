"""The form of the tables of results, which the core declares and `catnip list` describes."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from numpy.typing import NDArray

from catnip import _core

Column: TypeAlias = NDArray[Any] | list[str] | list[bool]
Table: TypeAlias = Mapping[str, Column]

TABLES = tuple(name for name, _, _ in _core.tables())

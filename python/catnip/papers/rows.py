"""Rows of result tables, as arrays by column."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from numpy.typing import NDArray

Rows: TypeAlias = Mapping[str, NDArray[Any]]


def where(rows: Rows, chosen: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Returns the rows selected by `chosen`, a mask or indices."""
    return {key: values[chosen] for key, values in rows.items()}

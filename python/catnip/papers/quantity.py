"""Registry of the functions that compute the values of claims, from runs or from reference tables."""

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


class Quantities(dict[str, Callable[..., Any]]):
    """Functions that compute the values of claims, by name; filled by using the object as a decorator.

    Measured quantities take the runs as their first argument. Printed quantities read reference tables.
    """

    def __call__(self, function: Function) -> Function:
        """Adds a function to the registry and returns it; for use as a decorator."""
        if function.__name__ in self:
            raise ValueError(f"{function.__name__}: duplicate name of a quantity")
        self[function.__name__] = function
        return function

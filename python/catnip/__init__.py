"""CATNIP: simulation, models and emulation of context-aware Web transport.

>>> import catnip
>>> results = catnip.run("slow-start", seeds=2)
>>> results.to_polars("groups").height
18
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from catnip._core import InputError, Scenario, __version__, kinds, profiles, trace
    from catnip.api import Results, link, read, run

_FROM = {
    "catnip._core": ("InputError", "Scenario", "__version__", "kinds", "profiles", "trace"),
    "catnip.api": ("Results", "link", "read", "run"),
}
__all__ = [
    "InputError",
    "Results",
    "Scenario",
    "__version__",
    "kinds",
    "link",
    "profiles",
    "read",
    "run",
    "trace",
]


def __getattr__(name: str) -> Any:
    """Imports a public name on first use, so that `catnip --help` is fast."""
    for module, names in _FROM.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)

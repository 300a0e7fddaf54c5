"""CATNIP: packet-level simulation of context-aware Web transport."""

from catnip._core import InputError, Scenario, __version__, kinds, profiles, trace

__all__ = ["InputError", "Scenario", "__version__", "kinds", "profiles", "trace"]

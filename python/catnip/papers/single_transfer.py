"""Simulation of a single transfer, event by event."""

from collections.abc import Sequence
from typing import Any

from catnip import _core

FREE = ("recovery", "control", "pacing", "marker", "size", "window", "tick_phase")
"""Options of a traced transfer for which the TCP profile has the default."""


def trace(profile: str, packets: int, drop: Sequence[int] = (), **options: Any) -> dict[str, Any]:
    """Simulates a transfer that loses the packets `drop`, and returns the columns of its events."""
    arguments: dict[str, Any] = {**dict.fromkeys(FREE), "delayed_ack": False, "seed": 1, **options}
    events, _ = _core.trace(profile=profile, packets=packets, drop=list(drop), **arguments)
    return dict(events)

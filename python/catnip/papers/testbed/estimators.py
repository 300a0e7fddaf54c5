"""What the models say of a fetch, given the timers of a kernel."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from catnip import models
from catnip.papers.reference import number

SEGMENT_BYTES = int(number("tbp14"))
HEADER_BYTES = 260
"""What nginx puts before a file."""

LEAST_DELAY_S = 1e-4
"""A delay of zero has no round trip; this is what crossing the emulator takes."""


@dataclass(frozen=True)
class Timers:
    """Retransmission timers of a kernel; where it times the handshake, its data start with a sample."""

    first_s: float
    times_handshake: bool
    least_s: float = number("tbp09") / 1e3


TODAY = Timers(first_s=1.0, times_handshake=True)
PAPER = Timers(first_s=number("tbp08"), times_handshake=False)

Estimator: TypeAlias = Callable[[int, float, float, Timers], float]
"""Packets, loss of each direction, one-way delay in s and timers to the time of a fetch in s."""


def packets(size_kb: int) -> int:
    """Segments of a file and its HTTP header."""
    return -(-(size_kb * 1024 + HEADER_BYTES) // SEGMENT_BYTES)


def new_model(data: int, loss: float, delay_s: float, timers: Timers) -> float:
    """The new model (section III-C): data start with the timeout of the handshake unless that was timed."""
    delay_s = max(delay_s, LEAST_DELAY_S)
    parts = models.evaluate("wzk_new", data=data, pl=loss, delay_s=delay_s, Ts_s=timers.first_s)
    if not timers.times_handshake:
        return float(parts["t_s"])
    timeout_s = float(parts["IT0_s"])
    timeouts_s = models.wzk_chain(data, float(parts["p"]), IT0_s=timeout_s, r0_s=timeout_s)
    return float(parts["t_handshk_s"] + timeouts_s + parts["t_xfer_s"])


def model_c(data: int, loss: float, delay_s: float, timers: Timers, high: bool) -> float:
    """Model C with the loss of one way, or of both; its first timeout is that of a sender with a sample."""
    model = models.model_c_high if high else models.model_c_low
    timeout_s = max(6 * delay_s, timers.least_s)
    return float(model(data, loss, max(delay_s, LEAST_DELAY_S), T0_s=timeout_s, Ts_s=timers.first_s))


NEW, LOW, HIGH = "new model", "Model C low", "Model C high"

ESTIMATORS: Mapping[str, Estimator] = {
    NEW: new_model,
    LOW: partial(model_c, high=False),
    HIGH: partial(model_c, high=True),
}

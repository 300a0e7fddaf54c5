"""Fetch times predicted by the testbed paper's models, given the retransmission timers of a kernel."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from catnip import models
from catnip.papers.reference import number

SEGMENT_BYTES = int(number("tbp14"))
HEADER_BYTES = 260
"""Size of the HTTP header that nginx sends before a file."""

MIN_DELAY_S = 1e-4
"""Smallest one-way delay given to the models, s: the time to cross the emulator. Zero is not allowed."""


@dataclass(frozen=True)
class Timers:
    """Retransmission timers of a kernel; `times_handshake` is true if the handshake gives an RTT sample."""

    first_s: float
    times_handshake: bool
    min_s: float = number("tbp09") / 1e3


TODAY = Timers(first_s=1.0, times_handshake=True)
PAPER = Timers(first_s=number("tbp08"), times_handshake=False)

Estimator: TypeAlias = Callable[[int, float, float, Timers], float]
"""Function that returns a predicted fetch time (s), given the number of packets, the loss of each direction,
the one-way delay (s) and the timers."""


def packets(size_kb: int) -> int:
    """Returns the number of segments of a file of `size_kb` KB and its HTTP header."""
    return -(-(size_kb * 1024 + HEADER_BYTES) // SEGMENT_BYTES)


def new_model(data: int, loss: float, delay_s: float, timers: Timers) -> float:
    """Returns the fetch time by the testbed paper's new model (section III-C), s.

    The first timeout of the data is computed from an RTT sample if the handshake gives one. Otherwise it is
    the timeout of the handshake.
    """
    delay_s = max(delay_s, MIN_DELAY_S)
    parts = models.evaluate("wzk_new", data=data, pl=loss, delay_s=delay_s, Ts_s=timers.first_s)
    if not timers.times_handshake:
        return float(parts["t_s"])
    timeout_s = float(parts["IT0_s"])
    timeouts_s = models.wzk_chain(data, float(parts["p"]), IT0_s=timeout_s, r0_s=timeout_s)
    return float(parts["t_handshk_s"] + timeouts_s + parts["t_xfer_s"])


def model_c(data: int, loss: float, delay_s: float, timers: Timers, high: bool) -> float:
    """Returns the fetch time by Model C, s, with the loss of one direction or, if `high`, of both.

    The first timeout is computed as by a sender with an RTT sample.
    """
    model = models.model_c_high if high else models.model_c_low
    timeout_s = max(6 * delay_s, timers.min_s)
    return float(model(data, loss, max(delay_s, MIN_DELAY_S), T0_s=timeout_s, Ts_s=timers.first_s))


NEW, LOW, HIGH = "new model", "Model C low", "Model C high"

ESTIMATORS: Mapping[str, Estimator] = {
    NEW: new_model,
    LOW: partial(model_c, high=False),
    HIGH: partial(model_c, high=True),
}

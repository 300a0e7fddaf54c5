"""Seeds until it is decided: looks at the intervals after blocks of seeds, whose sizes are fixed before.

Who looks again and again at a 95 % interval and stops when it pleases has an interval that misses more often
than in 5 % of cases. So each of the looks has an interval that misses in its share of the 5 %, and all looks
together miss in no more.
"""

import math
from dataclasses import dataclass

from catnip import _core
from catnip._core import InputError
from catnip.analysis.interval import Interval

BLOCKS = (1, 2, 4, 8)
"""Numbers of seeds at each look, in multiples of the first number."""
CONFIDENCE = 1 - 0.05 / len(BLOCKS)
"""Confidence of the intervals at each look."""


@dataclass(frozen=True)
class Until:
    """When to stop: a relative half-width of the intervals, or None to stop when all is decided."""

    share: float | None = None

    @classmethod
    def parse(cls, text: str) -> "Until":
        """Returns the rule written as `decided` or as a percentage such as `5%`. Raises InputError."""
        if text == "decided":
            return cls()
        number, percent, rest = text.partition("%")
        try:
            share = float(number) / 100
        except ValueError:
            share = math.nan
        if not percent or rest or not 0 < share < 1:
            raise InputError(f"--until: {text}: expected decided, or a percentage such as 5%")
        return cls(share)

    def is_narrow(self, value: Interval) -> bool:
        """Returns true if half of the interval is at most this share of the value."""
        return self.share is not None and (value.high - value.low) / 2 <= self.share * abs(value.mean)

    def __str__(self) -> str:
        until = "decided" if self.share is None else f"within {100 * self.share:g} %"
        times = ", ".join(map(str, BLOCKS))
        return (
            f"Seeds are added until {until}: looks at {times} times the first number of seeds, each with"
            f" {100 * CONFIDENCE:g} % intervals, so that all looks together miss in 5 % of cases at most."
        )


def widened(value: Interval) -> Interval:
    """Returns a 95 % interval of a mean over seeds with the confidence of a look."""
    if value.n < 2 or math.isnan(value.low):
        return value
    factor = _core.t_quantile(value.n - 1, (1 + CONFIDENCE) / 2) / _core.t_quantile(value.n - 1, 0.975)
    low, high = (value.mean + factor * (end - value.mean) for end in (value.low, value.high))
    return Interval(value.mean, low, high, value.n)

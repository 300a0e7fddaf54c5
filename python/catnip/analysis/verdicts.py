"""Verdicts: comparison of a value and its interval with an acceptance band.

The rule is the same for any number of seeds. A value is *reproduced* if its whole interval lies in the band,
*not reproduced* if the whole interval lies outside, and *undecided* if the interval reaches over an edge. So
a wider interval around the same value can only make a verdict undecided.
"""

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from catnip.analysis.interval import Interval

Verdict: TypeAlias = Literal["reproduced", "not reproduced", "undecided", "reported"]
Measured: TypeAlias = Interval | float | str
"""Value to judge: a mean with its interval, or an exact number or text, which has none."""

VERDICTS: tuple[Verdict, ...] = ("reproduced", "not reproduced", "undecided", "reported")
MOST_SEEDS = 1_000_000
"""Largest number of seeds that `seeds_to_decide` returns."""


@dataclass(frozen=True)
class Band:
    """Range of accepted values, both ends included; an end may be infinite."""

    low: float = -math.inf
    high: float = math.inf

    def verdict(self, ours: Measured) -> Verdict:
        """Returns the verdict on a value.

        A number without interval is exact: it cannot be undecided. An interval without bounds, that of a
        single seed, decides nothing. A text, such as `none`, lies in no range.
        """
        if isinstance(ours, Interval):
            if math.isnan(ours.low) or math.isnan(ours.high):
                return "undecided"
            low, high = ours.low, ours.high
        elif isinstance(ours, str) or math.isnan(ours):
            return "not reproduced"
        else:
            low = high = ours
        if self.low <= low and high <= self.high:
            return "reproduced"
        return "not reproduced" if high < self.low or low > self.high else "undecided"

    def seeds_to_decide(self, ours: Interval) -> int | None:
        """Returns about how many seeds decide an undecided value if its mean stays where it is.

        An interval shrinks with the root of the number of seeds. Returns None without an interval, or for a
        mean so close to an edge that more than `MOST_SEEDS` are needed.
        """
        half = (ours.high - ours.low) / 2
        distance = min(abs(ours.mean - edge) for edge in (self.low, self.high))
        if ours.n < 2 or not math.isfinite(half) or distance * math.sqrt(MOST_SEEDS) <= half:
            return None
        return min(MOST_SEEDS, math.ceil(ours.n * max(1.0, half / distance) ** 2))


@dataclass(frozen=True)
class Exactly:
    """The one accepted text, such as a list of burst sizes."""

    text: str

    def verdict(self, ours: Measured) -> Verdict:
        """Returns the verdict on a value, which is exact."""
        return "reproduced" if ours == self.text else "not reproduced"

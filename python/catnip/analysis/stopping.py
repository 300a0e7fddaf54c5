"""Seeds until it is decided: looks at the intervals after blocks of seeds, whose sizes are fixed before.

Who looks again and again at a 95 % interval and stops when it pleases has an interval that misses more often
than in 5 % of cases. So each of the looks has an interval that misses in its share of the 5 %, and all looks
together miss in no more.
"""

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from catnip import _core
from catnip._core import InputError
from catnip.analysis.interval import Interval

BLOCKS = (1, 2, 4, 8)
"""Numbers of seeds at each look, in multiples of the first number."""


def looks_of(first: int, last: int | None = None) -> list[int]:
    """Returns the number of seeds at each look: doubled from the first on, to `last` or as in `BLOCKS`."""
    if last is None:
        return [block * first for block in BLOCKS]
    doubled = [first << power for power in range(last.bit_length())]
    return [*(count for count in doubled if count < last), last]


def confidence_of(looks: int) -> float:
    """Returns the confidence of the intervals at each of several looks."""
    return 1 - 0.05 / looks


CONFIDENCE = confidence_of(len(BLOCKS))
"""Confidence of the intervals at each look of `BLOCKS`."""


@dataclass(frozen=True)
class Until:
    """When to stop: as soon as an interval is narrow enough, or excludes a bound."""

    share: float | None = None
    """Relative half-width of the interval; None to stop when the interval excludes the bound."""
    measure: str | None = None
    """Measure of every traffic group that has it; None for the measure that matters most."""
    against: str | None = None
    """Variant, or value of an axis, with which the others are compared; None if they are not, or by
    `--against`."""
    bound: float | None = None
    """Bound on the measure itself; None for a bound of 0 on the difference."""

    @classmethod
    def parse(cls, text: str, measures: Collection[str] = (), option: str = "--until") -> "Until":
        """Returns the rule written as `[MEASURE] [against BASE or NUMBER] [X%]`, or `decided`.

        Without `measures`, the measure and what it is compared with are left out. Raises InputError.
        """
        expected = "expected decided, or a percentage such as 5%"
        if measures:
            expected += (
                ", after a measure and what it is compared with, as in page_time_s against queue=red 2%"
            )
        problem = InputError(f"{option}: {text}: {expected}")
        head, has_base, rest = f" {text} ".partition(" against ")
        words, base = head.split(), rest.strip()
        aim = ""
        if base:
            before, _, last = base.rpartition(" ")
            if last.endswith("%") or last == "decided":
                base, aim = before.strip(), last
        elif words and (words[-1].endswith("%") or words[-1] == "decided"):
            aim = words.pop()
        measure = words[0] if words else None
        if len(words) > 1 or (has_base and not base) or not (aim or base):
            raise problem
        if (words or base) and not measures:
            raise problem
        if measure is not None and measure not in measures:
            known = ", ".join(measures)
            raise InputError(f"{option}: {text}: {measure!r} is not one of {known}")
        share = None if aim in ("", "decided") else _share(aim)
        if share is not None and not 0 < share < 1:
            raise problem
        bound = _number(base)
        if bound is None:
            return cls(share, measure, base or None)
        if share is not None or measure is None:
            raise InputError(f"{option}: {text}: a bound needs a measure, and no percentage")
        return cls(None, measure, None, bound)

    @property
    def is_of_difference(self) -> bool:
        """True if the rule is about the difference to another variant."""
        return self.against is not None or (self.share is None and self.bound is None)

    def is_narrow(self, value: Interval, of: float | None = None) -> bool:
        """Returns true if half of the interval is at most this share of the value, or of `of`."""
        base = value.mean if of is None else of
        return self.share is not None and (value.high - value.low) / 2 <= self.share * abs(base)

    def is_satisfied(self, value: Interval, of: float | None = None) -> bool:
        """Returns true if an interval is narrow enough, as a share of `of`, or excludes the bound."""
        if self.share is not None:
            return self.is_narrow(value, of)
        bound = self.bound or 0.0
        return value.low > bound or value.high < bound

    def __str__(self) -> str:
        return self.told(BLOCKS)

    def told(self, blocks: Sequence[int], first: int = 1) -> str:
        """Returns the rule as a sentence; `blocks` has the numbers of seeds in multiples of `first`."""
        until = "decided" if self.share is None else f"within {100 * self.share:g} %"
        if self.measure is not None:
            until = f"{self.measure} is {until}"
        if self.bound is not None:
            until += f" against {self.bound:g}"
        if self.against is not None:
            until += f" against {self.against}"
        times = ", ".join(f"{count / first:g}" for count in blocks)
        confidence = 100 * confidence_of(len(blocks))
        return (
            f"Seeds are added until {until}: looks at {times} times the first number of seeds, each with"
            f" {confidence:.4g} % intervals, so that all looks together miss in 5 % of cases at most."
        )


def widened(value: Interval, confidence: float = CONFIDENCE) -> Interval:
    """Returns a 95 % interval of a mean over seeds with the confidence of a look."""
    if value.n < 2 or math.isnan(value.low) or confidence == 0.95:
        return value
    factor = _core.t_quantile(value.n - 1, (1 + confidence) / 2) / _core.t_quantile(value.n - 1, 0.975)
    low, high = (value.mean + factor * (end - value.mean) for end in (value.low, value.high))
    return Interval(value.mean, low, high, value.n)


def _share(text: str) -> float:
    """Returns the share that a percentage says; NaN if it says none."""
    number = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)%", text)
    return float(number[1]) / 100 if number else math.nan


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None

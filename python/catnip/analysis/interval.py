"""Mean with confidence interval; separate from `stats`, whose libraries load slowly."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Interval:
    """Mean and its confidence interval; the bounds are NaN for a single value."""

    mean: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        return format(self)

    def __format__(self, spec: str) -> str:
        """Formats the interval as `[+][.DIGITSf]`: by default with three digits, `+` always with the sign.

        An unknown bound is shown as `…`.
        """
        sign, _, digits = spec.partition(".")
        number = f".{digits or '3f'}"
        half = (self.high - self.low) / 2
        mean = format(self.mean, sign + number)
        if math.isnan(half):
            return mean
        if math.isclose(self.mean, (self.low + self.high) / 2, rel_tol=1e-9, abs_tol=1e-12):
            return f"{mean} ± {half:{number}}"
        low, high = (f"{end:{number}}" if math.isfinite(end) else "…" for end in (self.low, self.high))
        return f"{mean} ({low} to {high})"

    def __mul__(self, factor: float) -> "Interval":
        """Returns the interval with mean and bounds multiplied by `factor`, for example to convert a unit."""
        low, high = sorted((self.low * factor, self.high * factor))
        return Interval(self.mean * factor, low, high, self.n)


UNKNOWN = Interval(math.nan, math.nan, math.nan, 0)
"""Statistic of no values."""

"""A mean with its confidence interval; apart from `stats`, whose libraries are slow to load."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Interval:
    """A mean and its confidence interval; the bounds are NaN where one value alone cannot give them."""

    mean: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        return format(self)

    def __format__(self, sign: str) -> str:
        """With the sign in any case if `sign` is `+`. An end that is not known is left open."""
        half = (self.high - self.low) / 2
        mean = f"{self.mean:{sign}.3f}"
        if math.isnan(half):
            return mean
        if math.isclose(self.mean, (self.low + self.high) / 2, rel_tol=1e-9, abs_tol=1e-12):
            return f"{mean} ± {half:.3f}"
        low, high = (f"{end:.3f}" if math.isfinite(end) else "…" for end in (self.low, self.high))
        return f"{mean} ({low} to {high})"

    def __mul__(self, factor: float) -> "Interval":
        """The same quantity in another unit."""
        low, high = sorted((self.low * factor, self.high * factor))
        return Interval(self.mean * factor, low, high, self.n)

"""Mean with confidence interval; separate from `stats`, whose libraries load slowly."""

import math
from dataclasses import dataclass

USUAL_DECIMALS, MOST_DECIMALS = 3, 6


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

        `[+]g` has the decimals that the interval supports: those of two significant digits of half its width,
        at most six; three if the width is unknown or less than that. An unknown bound is shown as `…`.
        """
        sign, _, digits = spec.partition(".")
        number = f".{digits or f'{USUAL_DECIMALS}f'}"
        if sign.endswith("g"):
            sign, number = sign.removesuffix("g"), f"z.{self._decimals()}f"
        half = (self.high - self.low) / 2
        mean = format(self.mean, sign + number)
        if math.isnan(half):
            return mean
        if math.isclose(self.mean, (self.low + self.high) / 2, rel_tol=1e-9, abs_tol=1e-12):
            return f"{mean} ± {half:{number}}"
        low, high = (f"{end:{number}}" if math.isfinite(end) else "…" for end in (self.low, self.high))
        return f"{mean} ({low} to {high})"

    def _decimals(self) -> int:
        """Returns the number of decimals that the interval supports."""
        reach = [abs(end - self.mean) for end in (self.low, self.high) if math.isfinite(end)]
        half = sum(reach) / len(reach) if reach else 0.0
        if half < 0.5 * 10.0**-MOST_DECIMALS:
            return USUAL_DECIMALS
        exponent = int(f"{half:.1e}".partition("e")[2])
        return min(max(1 - exponent, 0), MOST_DECIMALS)

    def __mul__(self, factor: float) -> "Interval":
        """Returns the interval with mean and bounds multiplied by `factor`, for example to convert a unit."""
        low, high = sorted((self.low * factor, self.high * factor))
        return Interval(self.mean * factor, low, high, self.n)


UNKNOWN = Interval(math.nan, math.nan, math.nan, 0)
"""Statistic of no values."""

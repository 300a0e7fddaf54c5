"""How long things take when some have not ended yet: shares, quantiles and means of times that are cut short.

The curve is that of Kaplan and Meier (JASA 53, 1958). How much it varies is learned by leaving out blocks of
seeds in turn (Tukey's jackknife): seeds are independent of each other, transfers of one run are not.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from catnip import stats
from catnip.interval import Interval

Floats = NDArray[np.float64]
BLOCKS = 50
"""Seeds are left out in no more parts than these."""


@dataclass(frozen=True)
class Estimate:
    """A number, its interval, and a value for each block of seeds whose mean it is, for differences."""

    interval: Interval
    values: Floats


@dataclass(frozen=True)
class Times:
    """How long things have taken or, if they are not over, have lasted; ascending, what is over first."""

    waited_s: Floats
    is_over: NDArray[np.bool_]
    block: NDArray[np.intp]
    blocks: int

    @classmethod
    def of(
        cls, waited_s: Floats, is_over: NDArray[np.bool_], seed: NDArray[np.uint64], seeds: Sequence[int]
    ) -> "Times":
        """Of runs with these ascending seeds. The same seeds are in the same blocks whatever the times."""
        run = np.searchsorted(np.asarray(seeds, dtype=np.uint64), seed)
        blocks = min(len(seeds), BLOCKS)
        order = np.lexsort((~is_over, waited_s))
        return cls(waited_s[order], is_over[order], (run * blocks // len(seeds))[order], blocks)

    def known_until_s(self) -> float:
        """Until when it is known how many take longer: if the longest is over, that is none."""
        if not len(self.waited_s):
            return math.inf
        longest_s = self.waited_s[-1]
        return math.inf if self.is_over[self.waited_s == longest_s].all() else float(longest_s)

    def restricted_mean(self, horizon_s: float) -> Estimate:
        """The mean of the time or the horizon, whichever is less."""
        return self._varied(
            self._mean(self._all(), horizon_s),
            [self._mean(self.block != left_out, horizon_s) for left_out in range(self.blocks)],
        )

    def quantile(self, share: float) -> Estimate | None:
        """The least time within which so many are over; None if too few are.

        The interval is Woodruff's (JASA 47, 1952): the shares that an interval around `share` of those that
        are over by then reaches to, read off the same curve.
        """
        lasting = self._lasting(self._all())
        at_s = self._reached(lasting, share)
        if math.isinf(at_s):
            return None
        over_by = 1 - self._lasting_at(self._all(), at_s)
        without = [1 - self._lasting_at(self.block != left_out, at_s) for left_out in range(self.blocks)]
        shares = self._varied(over_by, without)
        if self.blocks == 1:
            return Estimate(Interval(at_s, math.nan, math.nan, 1), np.array([at_s]))
        deviates = shares.values - shares.values.mean()
        t = stats.t_quantile(self.blocks - 1, 0.975)
        reach = t * float(deviates.std(ddof=1)) / math.sqrt(self.blocks)
        low_s, high_s = (self._reached(lasting, share + way) for way in (-reach, reach))
        # So long it takes for the share to rise by the reach: that is how shares become times.
        slope_s = (high_s - low_s) / 2 if math.isfinite(high_s) else at_s - low_s
        slope_s = slope_s / reach if reach > 0 else 0.0
        return Estimate(Interval(at_s, low_s, high_s, self.blocks), at_s - slope_s * deviates)

    def curve(self, most: int) -> tuple[Floats, Floats]:
        """Times at which something is over, and the share that takes longer: so many points at most.

        They are closer to each other where few are left, which is what quantiles are read from.
        """
        lasting = self._lasting(self._all())
        over_s, share = self.waited_s[self.is_over], lasting[self.is_over]
        if len(over_s) > most:
            ranks = len(over_s) - np.geomspace(1, len(over_s), most).round().astype(np.intp)
            chosen = np.unique(ranks)
            over_s, share = over_s[chosen], share[chosen]
        return over_s, share

    def _varied(self, whole: float, without: Sequence[float]) -> Estimate:
        """An estimate from all, and from all but each block."""
        if self.blocks == 1:
            return Estimate(Interval(whole, math.nan, math.nan, 1), np.array([whole]))
        values = self.blocks * whole - (self.blocks - 1) * np.array(without)
        spread = stats.mean(values)
        half = (spread.high - spread.low) / 2
        return Estimate(Interval(whole, whole - half, whole + half, self.blocks), values)

    def _all(self) -> NDArray[np.bool_]:
        return np.ones(len(self.is_over), dtype=bool)

    def _lasting(self, chosen: NDArray[np.bool_]) -> Floats:
        """The estimated share of the chosen that takes longer than each of them."""
        over = self.is_over[chosen]
        at_risk = np.arange(len(over), 0, -1)
        return np.asarray(np.cumprod(np.where(over, (at_risk - 1) / at_risk, 1.0)))

    def _lasting_at(self, chosen: NDArray[np.bool_], at_s: float) -> float:
        last = int(np.searchsorted(self.waited_s[chosen], at_s, side="right"))
        return float(self._lasting(chosen)[last - 1]) if last else 1.0

    def _reached(self, lasting: Floats, share: float) -> float:
        """When so many are over; infinite if that is not known."""
        if share <= 0:
            return float(self.waited_s[0])
        # Rounding must not move a whole step of the curve.
        place = int(np.argmax(lasting <= 1 - share + 1e-12))
        reached = len(lasting) and lasting[place] <= 1 - share + 1e-12
        return float(self.waited_s[place]) if reached else math.inf

    def _mean(self, chosen: NDArray[np.bool_], horizon_s: float) -> float:
        """The area beneath the curve, up to the horizon."""
        at_s = np.minimum(np.concatenate([[0.0], self.waited_s[chosen], [horizon_s]]), horizon_s)
        return float((np.diff(at_s) * np.concatenate([[1.0], self._lasting(chosen)])).sum())

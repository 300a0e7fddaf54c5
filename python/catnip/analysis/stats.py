"""Means over seeds, with confidence intervals for small samples."""

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from catnip import _core
from catnip.analysis.interval import Interval

Statistic: TypeAlias = Callable[[NDArray[np.intp]], float]
"""Function that returns a statistic of the runs with the given indices."""


def mean(values: ArrayLike, confidence: float = 0.95) -> Interval:
    """Returns the mean of independent values, one per seed, with its t-interval."""
    sample = _sample(values)
    return _around(float(sample.mean()), sample, confidence)


def paired_difference(left: ArrayLike, right: ArrayLike, confidence: float = 0.95) -> Interval:
    """Returns the mean of left - right, paired by seed, so that common variation cancels out."""
    a, b = _pair(left, right)
    return mean(a - b, confidence)


def difference(left: Interval, right: Interval, confidence: float = 0.95) -> Interval:
    """Returns left - right of independent means with t-intervals of 95 % (Welch, Biometrika 34, 1947)."""
    errors = [_standard_error(one) for one in (left, right)]
    variance = sum(error**2 for error in errors)
    value, n = left.mean - right.mean, min(left.n, right.n)
    if math.isnan(variance):
        return Interval(value, math.nan, math.nan, n)
    if variance == 0:
        return Interval(value, value, value, n)
    freedom = variance**2 / sum(e**4 / (one.n - 1) for e, one in zip(errors, (left, right), strict=True))
    half = _core.t_quantile(freedom, (1 + confidence) / 2) * math.sqrt(variance)
    return Interval(value, value - half, value + half, n)


def ratio(left: ArrayLike, right: ArrayLike, confidence: float = 0.95) -> Interval:
    """Returns mean(left) / mean(right) of values paired by seed.

    The interval follows from the ratio estimator: to first order, the ratio varies like the mean of (left -
    ratio * right) / mean(right).
    """
    a, b = _pair(left, right)
    with np.errstate(divide="ignore", invalid="ignore"):  # a ratio to zero is infinite or NaN
        quotient = float(a.mean() / b.mean())
        return _around(quotient, (a - quotient * b) / b.mean(), confidence)


def reduction_pct(ours: ArrayLike, base: ArrayLike, confidence: float = 0.95) -> Interval:
    """Returns by how much mean(ours) is below mean(base), percent, of values paired by seed."""
    quotient = ratio(ours, base, confidence) * 100
    return Interval(100 - quotient.mean, 100 - quotient.high, 100 - quotient.low, quotient.n)


def jackknife(statistic: Statistic, runs: int, confidence: float = 0.95) -> Interval:
    """Returns a statistic of all `runs`, with the interval from leaving out one run at a time.

    Use the jackknife for statistics that are not a mean of one value per run, such as a quantile of all
    times.
    """
    return _around(statistic(np.arange(runs)), pseudo_values(statistic, runs), confidence)


def pseudo_values(statistic: Statistic, runs: int) -> NDArray[np.float64]:
    """Returns the contribution of each run to a statistic of all runs.

    The contributions are the pseudo-values of Tukey's jackknife (Miller, Biometrika 61, 1974). Their mean is
    the statistic without its first-order bias.
    """
    every = np.arange(runs)
    full = statistic(every)
    if runs == 1:
        return _sample([full])
    return _sample([runs * full - (runs - 1) * statistic(np.delete(every, run)) for run in every])


def family(count: int) -> float:
    """Returns the confidence of each of `count` intervals that all hold at once in 95 % of cases.

    The shares that they may miss add up to 5 % (Bonferroni), whether or not the values depend on each other.
    """
    return 1 - 0.05 / count


def least(values: Sequence[Interval]) -> Interval:
    """Returns the least of several true values, from an interval of each with the confidence of `family`."""
    return _of_sides(values, min)


def greatest(values: Sequence[Interval]) -> Interval:
    """Returns the greatest of several true values, from intervals with the confidence of `family`."""
    return _of_sides(values, max)


def ranked(values: Sequence[Interval], rank: int) -> Interval:
    """Returns the true value of a rank, 0 for the least, from intervals with the confidence of `family`."""
    return _of_sides(values, lambda ends: sorted(ends)[rank])


def count(values: Sequence[Interval], low: float = -math.inf, high: float = math.inf) -> Interval:
    """Returns how many true values lie in a range, from intervals with the confidence of `family`.

    Certain are those whose whole interval lies in the range, and possible those whose interval touches it.
    """
    inside = sum(low <= one.mean <= high for one in values)
    certain = sum(low <= one.low and one.high <= high for one in values)
    possible = sum(one.low <= high and low <= one.high for one in values)
    return Interval(inside, certain, possible, min(one.n for one in values))


def descent(steps: Sequence[ArrayLike], confidence: float = 0.95) -> Interval:
    """Returns by how much values fall at least, over all pairs of one value and a later one.

    Each step has one value per seed. The values fall strictly if the result is above zero.
    """
    pairs = list(combinations([_sample(one) for one in steps], 2))
    each = 1 - (1 - confidence) / len(pairs)
    return least([paired_difference(earlier, later, each) for earlier, later in pairs])


def share_pct(hits: int, trials: int, confidence: float = 0.95) -> Interval:
    """Returns the share of independent trials that succeed, percent, with Wilson's interval (1927)."""
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share, weight = hits / trials, 1 + z**2 / trials
    centre = (share + z**2 / (2 * trials)) / weight
    half = z / weight * math.sqrt(share * (1 - share) / trials + (z / (2 * trials)) ** 2)
    low = centre - half if hits > 0 else 0.0
    high = centre + half if hits < trials else 1.0
    return Interval(100 * share, 100 * low, 100 * high, trials)


def negative(value: Interval) -> Interval:
    """Returns the interval of minus a value."""
    return Interval(-value.mean, -value.high, -value.low, value.n)


def shifted(value: Interval, by: float) -> Interval:
    """Returns the interval of a value plus a constant."""
    return Interval(value.mean + by, value.low + by, value.high + by, value.n)


def magnitude(value: Interval) -> Interval:
    """Returns the interval of the absolute value; its lower bound is zero if the interval holds zero."""
    low, high = sorted((abs(value.low), abs(value.high)))
    return Interval(abs(value.mean), 0.0 if value.low <= 0 <= value.high else low, high, value.n)


def drawn(
    statistic: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    means: ArrayLike,
    errors: ArrayLike,
    n: int,
    confidence: float = 0.95,
) -> Interval:
    """Returns a statistic of several means of many values each, with an interval from their errors.

    Each mean is drawn from its normal distribution 2000 times; `statistic` takes an array with a row for each
    drawing. The interval holds the statistic of the means. The seed of the drawings is fixed.
    """
    centre, spread = _sample(means), _sample(errors)
    at = centre + spread * np.random.default_rng(1).standard_normal((2000, len(centre)))
    value = float(statistic(centre[None, :])[0])
    low, high = np.quantile(statistic(at), ((1 - confidence) / 2, (1 + confidence) / 2))
    return Interval(value, min(float(low), value), max(float(high), value), n)


def _of_sides(values: Sequence[Interval], chosen: Callable[[list[float]], float]) -> Interval:
    """Returns the means, the lower bounds and the upper bounds, each reduced by `chosen`."""
    mean, low, high = (chosen([getattr(one, side) for one in values]) for side in ("mean", "low", "high"))
    return Interval(mean, low, high, min(one.n for one in values))


def _around(centre: float, deviates: NDArray[np.float64], confidence: float) -> Interval:
    n = len(deviates)
    if n == 1:
        return Interval(centre, math.nan, math.nan, n)
    half = _core.t_quantile(n - 1, (1 + confidence) / 2) * float(deviates.std(ddof=1)) / math.sqrt(n)
    return Interval(centre, centre - half, centre + half, n)


def _standard_error(value: Interval) -> float:
    return (value.high - value.low) / 2 / _core.t_quantile(value.n - 1, 0.975) if value.n > 1 else math.nan


def _sample(values: ArrayLike | Sequence[float]) -> NDArray[np.float64]:
    sample = np.asarray(values, dtype=np.float64)
    if sample.ndim != 1 or not len(sample):
        raise ValueError(f"one value per seed is needed, not an array of shape {sample.shape}")
    return sample


def _pair(left: ArrayLike, right: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    a, b = _sample(left), _sample(right)
    if len(a) != len(b):
        raise ValueError(f"{len(a)} and {len(b)} values cannot be paired")
    return a, b

"""Means over seeds, with confidence intervals for small samples."""

import math
from collections.abc import Callable, Sequence
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


def ratio(left: ArrayLike, right: ArrayLike, confidence: float = 0.95) -> Interval:
    """Returns mean(left) / mean(right) of values paired by seed.

    The interval follows from the ratio estimator: to first order, the ratio varies like the mean of (left -
    ratio * right) / mean(right).
    """
    a, b = _pair(left, right)
    with np.errstate(divide="ignore", invalid="ignore"):  # a ratio to zero is infinite or NaN
        quotient = float(a.mean() / b.mean())
        return _around(quotient, (a - quotient * b) / b.mean(), confidence)


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


def _around(centre: float, deviates: NDArray[np.float64], confidence: float) -> Interval:
    n = len(deviates)
    if n == 1:
        return Interval(centre, math.nan, math.nan, n)
    half = _core.t_quantile(n - 1, (1 + confidence) / 2) * float(deviates.std(ddof=1)) / math.sqrt(n)
    return Interval(centre, centre - half, centre + half, n)


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

"""Means over seeds with the interval that such few values allow."""

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from catnip import _core
from catnip.analysis.interval import Interval

Statistic: TypeAlias = Callable[[NDArray[np.intp]], float]
"""Of some runs, which it is told by their numbers from 0."""


def mean(values: ArrayLike, confidence: float = 0.95) -> Interval:
    """The mean of independent values, one per seed, with its t-interval."""
    sample = _sample(values)
    return _around(float(sample.mean()), sample, confidence)


def paired_difference(left: ArrayLike, right: ArrayLike, confidence: float = 0.95) -> Interval:
    """The mean of left - right, seed by seed: what both sides share cancels out."""
    a, b = _pair(left, right)
    return mean(a - b, confidence)


def ratio(left: ArrayLike, right: ArrayLike, confidence: float = 0.95) -> Interval:
    """mean(left) / mean(right) of values paired by seed.

    The interval is that of the ratio estimator: to first order, the ratio varies like the mean of
    (left - ratio * right) / mean(right).
    """
    a, b = _pair(left, right)
    with np.errstate(divide="ignore", invalid="ignore"):  # a ratio to nothing is infinite or NaN
        quotient = float(a.mean() / b.mean())
        return _around(quotient, (a - quotient * b) / b.mean(), confidence)


def jackknife(statistic: Statistic, runs: int, confidence: float = 0.95) -> Interval:
    """A statistic of all runs together, with the interval that leaving out one at a time gives.

    For what is no mean of one value per run, as a quantile of all their times is not.
    """
    return _around(statistic(np.arange(runs)), pseudo_values(statistic, runs), confidence)


def pseudo_values(statistic: Statistic, runs: int) -> NDArray[np.float64]:
    """What each run adds to a statistic of all (Tukey's jackknife: Miller, Biometrika 61, 1974).

    Their mean is the statistic without its bias of first order.
    """
    every = np.arange(runs)
    whole = statistic(every)
    if runs == 1:
        return _sample([whole])
    return _sample([runs * whole - (runs - 1) * statistic(np.delete(every, run)) for run in every])


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

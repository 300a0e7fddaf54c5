"""Bootstrap of means of heavy-tailed values, and of medians.

It is separate from `stats` because SciPy's statistics load slowly.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import bootstrap

from catnip.analysis import stats
from catnip.analysis.interval import Interval

LEAST = 6
"""Smallest sample whose values hold its median between them with 95 % confidence."""


def mean(values: ArrayLike, confidence: float = 0.95, resamples: int = 2000) -> Interval:
    """Returns the mean of independent values with a bootstrap interval.

    The interval is bias-corrected and accelerated (Efron, 1987): if a few large values dominate the mean, the
    upper bound of a t-interval is too low. The seed of the resampling is fixed, so equal values give equal
    intervals.
    """
    sample = np.asarray(values, dtype=np.float64)
    if np.ptp(sample) == 0:
        return stats.mean(sample, confidence)
    settings = {"n_resamples": resamples, "confidence_level": confidence, "batch": 100}
    result = bootstrap((sample,), np.mean, **settings, random_state=np.random.default_rng(0))
    ends = result.confidence_interval
    return Interval(float(sample.mean()), float(ends.low), float(ends.high), len(sample))


def of_medians(
    statistic: Callable[..., Any], *samples: ArrayLike, confidence: float = 0.95, resamples: int = 4000
) -> Interval:
    """Returns a statistic of the medians of independent samples, with a bootstrap interval.

    `statistic` takes the medians in the order of the samples, numbers or arrays. Each sample is resampled by
    itself, and the interval is that of percentiles, as leaving out one value says little of a median. Its
    ends are unknown if a sample has fewer than `LEAST` values. `n` is the size of the smallest sample.
    """
    values = [np.asarray(one, dtype=np.float64) for one in samples]
    n, centre = min(map(len, values)), float(statistic(*map(np.median, values)))
    if n < LEAST:
        return Interval(centre, math.nan, math.nan, n)
    rng = np.random.default_rng(0)
    drawn = [np.median(rng.choice(one, (resamples, len(one))), axis=1) for one in values]
    low, high = np.quantile(statistic(*drawn), ((1 - confidence) / 2, (1 + confidence) / 2))
    return Interval(centre, min(float(low), centre), max(float(high), centre), n)

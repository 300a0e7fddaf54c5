"""Bootstrap means of heavy-tailed values; separate from `stats` because SciPy's statistics load slowly."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import bootstrap

from catnip.analysis import stats
from catnip.analysis.interval import Interval


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

"""Tests of censored times against SciPy, and of intervals against their coverage."""

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from pytest import approx
from scipy.special import stdtrit
from scipy.stats import CensoredData, ecdf

from catnip._core import InputError, Times, t_quantile

RUNS = 4


@pytest.fixture(params=range(100))
def rows(request: pytest.FixtureRequest) -> tuple[Any, Any, Any]:
    """Returns up to forty durations of four runs: many are equal, and some are censored."""
    rng = np.random.default_rng(request.param)
    count = int(rng.integers(1, 41))
    waited = rng.integers(1, 10, count).astype(float)
    return waited, rng.random(count) < rng.random(), rng.integers(0, RUNS, count)


def test_the_curve_is_that_of_scipy(rows: tuple[Any, Any, Any]) -> None:
    waited, over, _ = rows
    curve = ecdf(CensoredData(waited[over], right=waited[~over])).sf
    of = Times(*rows, RUNS)
    for share in (0.1, 0.5, 0.95):
        reached = curve.quantiles[curve.probabilities <= 1 - share + 1e-12]
        estimate = of.quantile(share)
        assert (estimate is None) == (len(reached) == 0)
        assert estimate is None or estimate[0][0] == reached[0]
    horizon_s = 10.0
    steps = np.diff(np.concatenate([[0.0], curve.quantiles, [horizon_s]]))
    area = (steps * np.concatenate([[1.0], curve.probabilities])).sum()
    (mean, *_), _ = of.restricted_mean(horizon_s)
    assert mean == approx(area)


def test_values_vary_around_what_they_estimate_as_the_interval_says(rows: tuple[Any, Any, Any]) -> None:
    (mean, _, high, _), values = Times(*rows, RUNS).restricted_mean(10.0)
    half = 3.182446 * np.std(values, ddof=1) / math.sqrt(RUNS)
    assert high - mean == approx(half, rel=1e-5, abs=1e-9)


def test_nineteen_of_twenty_intervals_of_a_quantile_hold_it() -> None:
    # Runs of thirty exponential times each; a factor common to a run makes its times dependent.
    rng = np.random.default_rng(1)
    runs, each, tries = 12, 30, 400
    run = np.repeat(np.arange(runs), each).tolist()

    def drawn(count: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.asarray(rng.exponential(size=count * each) * np.repeat(rng.uniform(0.7, 1.3, count), each))

    reference = {share: np.quantile(drawn(100_000), share) for share in (0.5, 0.9)}
    held = dict.fromkeys(reference, 0)
    apart = dict.fromkeys(reference, 0)
    for _ in range(tries):
        here, there = (Times(drawn(runs).tolist(), [True] * (runs * each), run, runs) for _ in range(2))
        for share, value in reference.items():
            one, two = here.quantile(share), there.quantile(share)
            assert one is not None
            assert two is not None
            (_, low, high, _), values = one
            held[share] += int(low <= value <= high)
            less = np.subtract(values, two[1])
            apart[share] += int(abs(less.mean()) <= 2.201 * less.std(ddof=1) / math.sqrt(runs))
    for share in reference:
        assert 0.91 <= held[share] / tries <= 0.99, (share, held)
        assert 0.91 <= apart[share] / tries <= 0.99, (share, apart)


@pytest.mark.parametrize(("degrees", "share"), [*product([1, 2, 3, 9, 29, 99, 999], [0.9, 0.975, 0.995])])
def test_quantiles_of_students_distribution_are_those_of_scipy(degrees: int, share: float) -> None:
    assert t_quantile(degrees, share) == approx(stdtrit(degrees, share), rel=1e-10)


def test_lists_of_different_lengths_and_unknown_runs_are_refused() -> None:
    for is_over, run in (([True], [0, 0]), ([True, False], [0]), ([True, True], [0, 1])):
        with pytest.raises(InputError):
            Times([1.0, 2.0], is_over, run, 1)

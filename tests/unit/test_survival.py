"""Times that are cut short, against a library that knows them, and intervals against what they promise."""

import math
from typing import Any

import numpy as np
import pytest
from pytest import approx
from scipy.stats import CensoredData, ecdf

from catnip.survival import Times

SEEDS = [1, 2, 3, 4]


@pytest.fixture(params=range(100))
def rows(request: pytest.FixtureRequest) -> tuple[Any, Any, Any]:
    """Up to forty times, many of them alike, some not over, of four runs."""
    rng = np.random.default_rng(request.param)
    count = int(rng.integers(1, 41))
    waited = rng.integers(1, 10, count).astype(float)
    return waited, rng.random(count) < rng.random(), rng.choice(np.array(SEEDS, dtype=np.uint64), count)


def test_the_curve_is_that_of_scipy(rows: tuple[Any, Any, Any]) -> None:
    waited, over, _ = rows
    curve = ecdf(CensoredData(waited[over], right=waited[~over])).sf
    of = Times.of(*rows, SEEDS)
    for share in (0.1, 0.5, 0.95):
        reached = curve.quantiles[curve.probabilities <= 1 - share + 1e-12]
        told = of.quantile(share)
        assert (told is None) == (len(reached) == 0)
        assert told is None or told.interval.mean == reached[0]
    horizon_s = 10.0
    steps = np.diff(np.concatenate([[0.0], curve.quantiles, [horizon_s]]))
    area = (steps * np.concatenate([[1.0], curve.probabilities])).sum()
    assert of.restricted_mean(horizon_s).interval.mean == approx(area)


def test_values_vary_around_what_they_estimate_as_the_interval_says(rows: tuple[Any, Any, Any]) -> None:
    estimate = Times.of(*rows, SEEDS).restricted_mean(10.0)
    half = 3.182446 * estimate.values.std(ddof=1) / math.sqrt(4)
    assert estimate.interval.high - estimate.interval.mean == approx(half, rel=1e-5, abs=1e-9)


def test_nineteen_of_twenty_intervals_of_a_quantile_hold_it() -> None:
    # Runs of thirty exponential times each, stretched alike within a run: they are not independent.
    rng = np.random.default_rng(1)
    runs, each, tries = 12, 30, 400
    seeds = np.repeat(np.arange(runs, dtype=np.uint64), each)

    def drawn(count: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.asarray(rng.exponential(size=count * each) * np.repeat(rng.uniform(0.7, 1.3, count), each))

    truth = {share: np.quantile(drawn(100_000), share) for share in (0.5, 0.9)}
    held = dict.fromkeys(truth, 0)
    apart = dict.fromkeys(truth, 0)
    for _ in range(tries):
        here, there = (
            Times.of(drawn(runs), np.ones(runs * each, dtype=bool), seeds, range(runs)) for _ in range(2)
        )
        for share, value in truth.items():
            one, two = here.quantile(share), there.quantile(share)
            assert one is not None
            assert two is not None
            held[share] += int(one.interval.low <= value <= one.interval.high)
            less = one.values - two.values
            apart[share] += int(abs(less.mean()) <= 2.201 * less.std(ddof=1) / math.sqrt(runs))
    for share in truth:
        assert 0.91 <= held[share] / tries <= 0.99, (share, held)
        assert 0.91 <= apart[share] / tries <= 0.99, (share, apart)


@pytest.mark.parametrize("count", [1, 2, 49, 50, 51, 120, 1000])
def test_the_same_seeds_are_in_the_same_blocks(count: int) -> None:
    seeds = np.arange(count, dtype=np.uint64)
    all_, some = (
        Times.of(seeds[::step].astype(float), seeds[::step] >= 0, seeds[::step], range(count))
        for step in (1, 3)
    )
    of_all = dict(zip(all_.waited_s, all_.block, strict=True))
    assert all(of_all[at] == block for at, block in zip(some.waited_s, some.block, strict=True))
    assert all_.blocks == min(count, 50) == len(set(all_.block.tolist()))

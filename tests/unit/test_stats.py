"""Tests of intervals against values calculated by hand, with t quantiles from a printed table."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from pytest import approx
from scipy.stats import binomtest

from catnip import _core
from catnip.analysis import stats
from catnip.analysis.interval import Interval

T_2, T_3 = 4.302653, 3.182446  # 97.5 % quantiles of Student's t with 2 and 3 degrees of freedom


def test_a_share_has_wilsons_interval() -> None:
    for hits, trials in [(0, 7), (3, 7), (396, 400), (400, 400)]:
        oracle = binomtest(hits, trials).proportion_ci(0.95, method="wilson")
        share = stats.share_pct(hits, trials)
        assert share.low == approx(100 * oracle.low, abs=1e-9)
        assert share.high == approx(100 * oracle.high, abs=1e-9)
        assert (share.mean, share.n) == (100 * hits / trials, trials)


def test_mean_of_three_values() -> None:
    interval = stats.mean([1, 2, 6])  # deviations -2, -1, 3: variance 14 / 2 = 7
    half = T_2 * math.sqrt(7 / 3)
    assert (interval.mean, interval.n) == (3, 3)
    assert interval.low == approx(3 - half)
    assert interval.high == approx(3 + half)


def test_one_value_has_no_interval() -> None:
    interval = stats.mean([5.0])
    assert interval.mean == 5
    assert math.isnan(interval.low)
    assert math.isnan(interval.high)
    assert str(interval) == "5.000"


def test_equal_values_have_an_interval_of_no_width() -> None:
    assert stats.mean([0.25] * 4) == Interval(0.25, 0.25, 0.25, 4)


def test_pairing_removes_what_both_sides_share() -> None:
    shared = [100, 200, 300, 400]
    interval = stats.paired_difference([x + d for x, d in zip(shared, (1, 2, 3, 2), strict=True)], shared)
    half = T_3 * math.sqrt((2 / 3) / 4)  # deviations -1, 0, 1, 0: variance 2 / 3
    assert interval.mean == 2
    assert interval.high - interval.mean == approx(half)


def test_ratio_of_means() -> None:
    # 6/3, 7/4, 11/5: ratio of means 24/12 = 2; residuals 0, -1, 1; each over the mean 4.
    interval = stats.ratio([6, 7, 11], [3, 4, 5])
    half = T_2 * math.sqrt(1 / 3) / 4
    assert interval.mean == 2
    assert interval.high - interval.mean == approx(half)


def test_exact_ratio_has_no_width() -> None:
    interval = stats.ratio([2, 4, 6], [1, 2, 3])
    assert (interval.low, interval.mean, interval.high) == (2, 2, 2)


def test_ratio_to_nothing_is_infinite() -> None:
    assert stats.ratio([1, 2], [0, 0]).mean == math.inf


def test_change_of_unit_keeps_the_bounds_in_order() -> None:
    interval = Interval(0.2, 0.1, 0.3, 5)
    assert interval * 100 == Interval(20, 10, 30, 5)
    assert (f"{interval}", f"{interval:+.1f}") == ("0.200 ± 0.100", "+0.2 ± 0.1")
    assert f"{Interval(36.2, 34.1, math.inf, 5):.0f}" == "36 (34 to …)"
    assert (interval * -1).low == -0.3


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (Interval(139.802, 137.282, 142.322, 9), "139.8 ± 2.5"),
        (Interval(0.02781, 0.02471, 0.03091, 9), "0.0278 ± 0.0031"),
        (Interval(1239.2, 1116.2, 1362.2, 9), "1239 ± 123"),
        (Interval(50.0, 40.04, 59.96, 9), "50 ± 10"),
        (Interval(9.653452, 9.653451, 9.653453, 9), "9.653452 ± 0.000001"),
        (Interval(-0.001, -0.101, 0.099, 9), "0.00 ± 0.10"),
        (Interval(3, 3, 3, 9), "3.000 ± 0.000"),
        (Interval(1.2345, math.nan, math.nan, 1), "1.234"),
        (Interval(0.771, 0.653, 1.324, 9), "0.77 (0.65 to 1.32)"),
        (Interval(36.2, 34.1, math.inf, 9), "36.2 (34.1 to …)"),
        (Interval(36.2, -math.inf, math.inf, 9), "36.200 (… to …)"),
    ],
)
def test_a_mean_and_its_ends_have_the_decimals_that_the_interval_supports(
    value: Interval, shown: str
) -> None:
    assert f"{value:g}" == shown
    assert f"{value:+g}" == f"{'' if shown.startswith('-') else '+'}{shown}"


@pytest.mark.parametrize(("left", "right"), [([1, 2], [1]), ([], []), ([[1]], [[1]])])
def test_what_cannot_be_paired_is_refused(left: list[int], right: list[int]) -> None:
    with pytest.raises(ValueError, match=r"paired|one value per seed"):
        stats.ratio(left, right)


def test_the_jackknife_of_a_mean_is_the_mean_with_its_t_interval() -> None:
    values = np.array([1.0, 2.0, 4.0, 9.0])
    jackknife, plain = stats.jackknife(lambda runs: float(values[runs].mean()), 4), stats.mean(values)
    assert (jackknife.mean, jackknife.low, jackknife.high, jackknife.n) == approx(
        (plain.mean, plain.low, plain.high, 4)
    )
    assert math.isnan(stats.jackknife(lambda runs: float(values[runs].mean()), 1).low)


def test_pseudo_values_take_the_first_order_from_a_bias() -> None:
    # The variance with denominator n is too small by a factor of (n - 1) / n.
    values = np.array([1.0, 2.0, 4.0, 9.0])
    values_of_runs = stats.pseudo_values(lambda runs: float(values[runs].var()), 4)
    assert values_of_runs.mean() == approx(values.var(ddof=1))


SOME = [Interval(1, 0, 2, 9), Interval(3, 2.5, 3.5, 8), Interval(2, 1, 5, 7)]


def test_the_least_of_several_is_bounded_by_the_least_bounds() -> None:
    assert stats.least(SOME) == Interval(1, 0, 2, 7)
    assert stats.greatest(SOME) == Interval(3, 2.5, 5, 7)
    assert stats.ranked(SOME, 1) == Interval(2, 1, 3.5, 7)


def test_what_is_counted_is_certain_if_the_whole_interval_is_inside() -> None:
    assert stats.count(SOME, low=1) == Interval(3, 2, 3, 7)
    assert stats.count(SOME, 2, 4) == Interval(2, 1, 3, 7)
    assert stats.count(SOME, 6) == Interval(0, 0, 0, 7)
    assert stats.count(SOME, high=2) == Interval(2, 1, 2, 7), "the ends belong to the range"
    assert stats.count(SOME, high=1) == Interval(1, 0, 2, 7)


def test_values_fall_by_the_least_step_of_all_pairs() -> None:
    first, second, third = [5.0, 7.0], [4.0, 5.0], [1.0, 1.0]
    fall = stats.descent([first, second, third])
    # Steps of 1 and 2, of 3 and 4, and from the first to the third of 4 and 6, whose interval is the widest.
    quantile = math.tan(math.pi * (0.5 - 0.05 / 6))
    assert (fall.mean, fall.low, fall.high) == approx((1.5, 5 - quantile, 1.5 + quantile / 2))
    assert stats.descent([third, second, first]).mean == -5


def test_a_family_shares_its_five_percent() -> None:
    assert [stats.family(count) for count in (1, 5, 30)] == approx([0.95, 0.99, 1 - 0.05 / 30])


def test_a_magnitude_may_be_zero_if_the_interval_holds_zero() -> None:
    assert stats.magnitude(Interval(-2, -3, -1, 4)) == Interval(2, 1, 3, 4)
    assert stats.magnitude(Interval(-1, -3, 1, 4)) == Interval(1, 0, 3, 4)
    assert stats.negative(Interval(1, 0, 3, 4)) == Interval(-1, -3, 0, 4)
    assert stats.shifted(Interval(1, 0, 3, 4), -1) == Interval(0, -1, 2, 4)
    assert stats.negative(Interval(2, 1, 3, 4)) == Interval(-2, -3, -1, 4)
    assert stats.reduction_pct([1, 1], [2, 2]) == Interval(50, 50, 50, 2)


def test_a_reduction_has_its_lower_bound_where_the_ratio_has_its_upper_one() -> None:
    # 3 / 4, residuals of -0.5 and 0.5 over 2: deviation 0.25 sqrt(2), over sqrt(2) 0.25, t quantile 12.7062.
    reduction = stats.reduction_pct([1, 2], [2, 2])
    half = 12.7062 * 25
    assert [reduction.mean, reduction.low, reduction.high] == approx([25, 25 - half, 25 + half])


def test_a_statistic_of_means_varies_as_its_means_do() -> None:
    def total(means: np.ndarray) -> np.ndarray:
        return np.asarray(means.sum(axis=1))

    drawn = stats.drawn(total, [1.0, 2.0], [0.3, 0.4], 9)
    assert (drawn.mean, drawn.n) == (3, 9)
    assert (drawn.low, drawn.high) == approx((3 - 1.96 * 0.5, 3 + 1.96 * 0.5), abs=0.06)
    assert stats.drawn(total, [1.0, 2.0], [0, 0], 9) == Interval(3, 3, 3, 9)


DRAWS: dict[str, Callable[[np.random.Generator, tuple[int, int]], NDArray[np.float64]]] = {
    "normal": lambda rng, shape: 10 + rng.standard_normal(shape),
    "lognormal": lambda rng, shape: np.exp(rng.standard_normal(shape)),
    "timeouts": lambda rng, shape: 0.3 + 0.05 * rng.standard_normal(shape) + 6 * (rng.random(shape) < 0.03),
    "ties": lambda rng, shape: rng.choice([1, 1.5, 2, 3], shape, p=[0.45, 0.3, 0.17, 0.08]),
}
"""Times of single transfers."""


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("seeds", [2, 3, 5, 10, 30])
def test_the_truth_is_in_95_percent_of_the_intervals_of_runs_of_500_transfers(name: str, seeds: int) -> None:
    rng, sets = np.random.default_rng(seeds), 4000
    runs = DRAWS[name](rng, (20_000, 500)).mean(axis=1)
    truth = float(DRAWS[name](rng, (1000, 4000)).mean())
    held = {"mean": 0, "ratio": 0, "difference": 0}
    for left, right in zip(*rng.choice(runs, (2, sets, seeds)), strict=True):
        means = stats.mean(left), stats.mean(1.3 * right)
        intervals = {
            "mean": (means[0], truth),
            "ratio": (stats.ratio(1.3 * right, left), 1.3),
            "difference": (stats.difference(means[1], means[0]), 0.3 * truth),
        }
        for kind, (interval, expected) in intervals.items():
            held[kind] += interval.low <= expected <= interval.high
    # The degrees of freedom of a difference are estimated, which makes its intervals wide for few seeds.
    at_most = {"mean": 0.97, "ratio": 0.97, "difference": 0.97 if seeds > 3 else 0.99}
    assert all(0.93 <= held[kind] / sets <= at_most[kind] for kind in held), held


def test_a_difference_of_independent_means_has_welchs_interval() -> None:
    # Variances of the means 1/3 and 4/3: 25/9 / (1/9/2 + 16/9/2) = 2.94 degrees of freedom.
    left, right = stats.mean([9, 10, 11]), stats.mean([2, 4, 6])
    value = stats.difference(left, right)
    half = _core.t_quantile(50 / 17, 0.975) * math.sqrt(5 / 3)
    assert (value.mean, value.low, value.high, value.n) == approx((6, 6 - half, 6 + half, 3))
    assert T_3 * math.sqrt(5 / 3) < half < T_2 * math.sqrt(5 / 3)
    exact = Interval(4, 4, 4, 3)
    assert stats.difference(exact, Interval(1, 1, 1, 3)) == Interval(3, 3, 3, 3)
    assert math.isnan(stats.difference(left, stats.mean([4])).low)

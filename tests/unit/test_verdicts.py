"""Tests of the rule of judging, by hand and as properties of random intervals and bands."""

import math
from random import Random

import pytest

from catnip.analysis.interval import Interval
from catnip.analysis.verdicts import Band, Exactly, Measured, Verdict

NAN = math.nan


def interval(low: float, high: float, n: int = 30) -> Interval:
    return Interval((low + high) / 2, low, high, n)


@pytest.mark.parametrize(
    ("ours", "band", "verdict"),
    [
        (interval(1, 3), Band(1, 3), "reproduced"),
        (interval(1, 3), Band(1.1, 9), "undecided"),
        (interval(1, 3), Band(2.9, 9), "undecided"),
        (interval(1, 3), Band(3.1, 9), "not reproduced"),
        (interval(1, 3), Band(high=3), "reproduced"),
        (interval(1, 3), Band(high=2), "undecided"),
        (interval(1, 3), Band(high=0.9), "not reproduced"),
        (interval(1, 3), Band(low=1), "reproduced"),
        (interval(1, 3), Band(low=2), "undecided"),
        (interval(1, 3), Band(low=3.1), "not reproduced"),
        (interval(0, 9), Band(2, 3), "undecided"),
        (interval(1, 3, n=2), Band(3, 9), "undecided"),
        (Interval(2, NAN, NAN, 1), Band(0, 9), "undecided"),
        (Interval(2, NAN, NAN, 1), Band(8, 9), "undecided"),
        (2.0, Band(1, 3), "reproduced"),
        (2.0, Band(2, 2), "reproduced"),
        (2.0, Band(2.1, 3), "not reproduced"),
        (NAN, Band(0, 9), "not reproduced"),
        ("none", Band(0, 9), "not reproduced"),
        ("1, 2", Exactly("1, 2"), "reproduced"),
        ("1, 3", Exactly("1, 2"), "not reproduced"),
    ],
)
def test_a_verdict_follows_from_interval_and_band(
    ours: Measured, band: Band | Exactly, verdict: Verdict
) -> None:
    assert band.verdict(ours) == verdict


def drawn(random: Random) -> tuple[Interval, Band]:
    mean = random.uniform(-3, 3)
    ends = sorted(random.uniform(-3, 3) for _ in range(2))
    band = Band(*random.choice([ends, [-math.inf, ends[0]], [ends[0], math.inf]]))
    left, right = random.expovariate(1), random.expovariate(1)
    return Interval(mean, mean - left, mean + right, random.choice([2, 3, 5, 30])), band


def wider(one: Interval, random: Random) -> Interval:
    return Interval(one.mean, one.low - random.expovariate(2), one.high + random.expovariate(2), one.n)


def test_a_wider_interval_can_only_turn_a_verdict_into_undecided() -> None:
    random = Random(1)
    seen = set()
    for _ in range(20_000):
        narrow, band = drawn(random)
        before, after = band.verdict(narrow), band.verdict(wider(narrow, random))
        assert after in {before, "undecided"}
        seen.add((before, after))
    assert len(seen) == 5, "each verdict is kept by some, and two of them are lost by some"


def test_a_verdict_does_not_depend_on_the_number_of_seeds() -> None:
    random = Random(2)
    for _ in range(2_000):
        one, band = drawn(random)
        of_few = Interval(one.mean, one.low, one.high, 2)
        assert band.verdict(one) == band.verdict(of_few)


def test_an_exact_value_is_never_undecided() -> None:
    random = Random(3)
    assert {drawn(random)[1].verdict(random.uniform(-3, 3)) for _ in range(1_000)} == {
        "reproduced",
        "not reproduced",
    }


@pytest.mark.parametrize(
    ("ours", "band", "seeds"),
    [
        (
            interval(1, 3),
            Band(high=2.5),
            120,
        ),  # half of the interval is 1, and 0.5 is left: four times as many
        (interval(1, 3), Band(1.9, 9), 3000),
        (interval(1, 3, n=5), Band(low=2.25), 80),
        (interval(1, 3), Band(high=2), None),
        (Interval(2, NAN, NAN, 1), Band(0, 3), None),
    ],
)
def test_an_undecided_value_tells_how_many_seeds_decide_it(
    ours: Interval, band: Band, seeds: int | None
) -> None:
    needed = band.seeds_to_decide(ours)
    assert needed == (seeds if seeds is None else pytest.approx(seeds, rel=0.01, abs=1))

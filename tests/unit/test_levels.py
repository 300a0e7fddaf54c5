"""Tests of the positions of the values of axes."""

from typing import Any

import pytest

from catnip.report.levels import scale_of, spread
from catnip.report.summary_tables import shown


@pytest.mark.parametrize(
    ("values", "at", "label"),
    [
        (["20ms", "5ms", "20ms"], {"5ms": 5, "20ms": 20}, "delay, ms"),
        (["500us", "1ms", "0.1s"], {"500us": 500, "1ms": 1000, "0.1s": 100_000}, "delay, us"),
        (["1Mbit", "500kbit"], {"500kbit": 0.5, "1Mbit": 1}, "delay, Mbit"),
        (["64KB", "1MB"], {"64KB": 64, "1MB": 1024}, "delay, KB"),
        (["drop-tail:20", "drop-tail:5"], {"drop-tail:5": 5, "drop-tail:20": 20}, "delay, drop-tail"),
        (["bernoulli:1e-3", "bernoulli:0.1"], None, "delay, bernoulli"),
        (["exponential:mean=2s", "exponential:mean=1s"], None, "delay, exponential:mean s"),
        ([3, 1, 2.5], {"1": 1, "2.5": 2.5, "3": 3}, "delay"),
        (["1%", "0.5%"], {"0.5%": 0.5, "1%": 1}, "delay, %"),
    ],
)
def test_numbers_with_units_are_in_order_and_to_scale(
    values: list[Any], at: dict[str, float] | None, label: str
) -> None:
    scale = scale_of("link.line.delay", values)
    assert scale.is_number and scale.label == label
    assert list(scale.at.values()) == sorted(scale.at.values())
    if at is not None:
        assert list(scale.at) == list(at)
        assert scale.at == pytest.approx(at)


@pytest.mark.parametrize(
    "values",
    [
        ["drop-tail:20", "red:5"],
        ["5ms", "1Mbit"],
        ["5ms", "5"],
        ["1s", "1000ms"],
        [True, False],
        ["fq-codel", "codel"],
        ["", "1"],
        ["trace:a/1.txt", "trace:a/2.txt"],
    ],
)
def test_other_values_follow_each_other_in_the_order_of_the_scenario(values: list[Any]) -> None:
    scale = scale_of("link.line.queue", values)
    assert not scale.is_number and scale.label == "queue"
    assert list(scale.at.values()) == [0, 1]
    assert list(scale.at) == list(map(shown, values))


@pytest.mark.parametrize(
    ("values", "is_log"),
    [
        (["5ms", "10ms", "20ms", "40ms", "80ms"], True),
        ([f"{delay}ms" for delay in range(5, 200, 5)], False),
        (["1ms", "100ms"], False),
        (["0ms", "1ms", "10ms", "100ms"], False),
        (["2ms", "3ms", "4ms"], False),
        (["a", "b", "c"], False),
    ],
)
def test_an_axis_is_logarithmic_where_its_values_are_spread_so(values: list[str], is_log: bool) -> None:
    assert scale_of("delay", values).is_log == is_log


def test_some_of_many_are_at_equal_distances_with_both_ends() -> None:
    assert spread(range(100), 4) == [0, 33, 66, 99]
    assert spread("abc", 4) == ["a", "b", "c"]

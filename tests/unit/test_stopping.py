"""Tests of rules of stopping: how they are written, and what satisfies them."""

import pytest

from catnip._core import InputError, t_quantile
from catnip.analysis.interval import Interval
from catnip.analysis.stopping import Until, confidence_of, looks_of, widened

MEASURES = ("page_time_s", "completed_s")


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("decided", Until()),
        ("5%", Until(0.05)),
        ("page_time_s 2.5%", Until(0.025, "page_time_s")),
        ("page_time_s decided", Until(None, "page_time_s")),
        ("page_time_s against queue=red:10 2%", Until(0.02, "page_time_s", "queue=red:10")),
        ("page_time_s against queue=red:10", Until(None, "page_time_s", "queue=red:10")),
        ("against CATNIP / loss=a decided", Until(None, None, "CATNIP / loss=a")),
        ("against CATNIP / loss=a 3%", Until(0.03, None, "CATNIP / loss=a")),
        ("page_time_s against 0.5", Until(None, "page_time_s", None, 0.5)),
    ],
)
def test_a_rule_is_read_as_it_is_written(text: str, rule: Until) -> None:
    assert Until.parse(text, MEASURES) == rule


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        "0%",
        "100%",
        "nan%",
        "-5%",
        "1e-1%",
        "page_time_s",
        "page_time_s completed_s 5%",
        "5% page_time_s",
        "against",
        "page_time_s against",
        "against 0.5",
        "page_time_s against 0.5 5%",
        "load_s 5%",
    ],
)
def test_what_is_no_rule_is_one_line(text: str) -> None:
    with pytest.raises(InputError) as refused:
        Until.parse(text, MEASURES)
    assert str(refused.value).startswith(f"--until: {text}: ") and "\n" not in str(refused.value)


def test_where_there_are_no_measures_a_rule_has_none() -> None:
    for text in ("page_time_s 5%", "against a", "page_time_s against 0.5"):
        with pytest.raises(InputError, match=r"expected decided, or a percentage such as 5%$"):
            Until.parse(text)


def test_looks_are_doubled_up_to_the_last() -> None:
    assert looks_of(5) == [5, 10, 20, 40]
    assert looks_of(5, 200) == [5, 10, 20, 40, 80, 160, 200]
    assert looks_of(7, 7) == [7]
    assert looks_of(3, 12) == [3, 6, 12]


def test_intervals_of_looks_miss_together_as_often_as_one() -> None:
    value = Interval(10.0, 8.0, 12.0, 5)
    assert widened(value, confidence_of(1)) == value
    at_look = widened(value, confidence_of(5))
    ratio = t_quantile(4, 0.995) / t_quantile(4, 0.975)
    assert at_look.high - 10 == pytest.approx(2 * ratio, rel=1e-12)


def test_an_interval_satisfies_a_rule_if_it_is_narrow_or_excludes_the_bound() -> None:
    value = Interval(10.0, 9.0, 11.0, 5)
    assert Until(0.1).is_satisfied(value) and not Until(0.09).is_satisfied(value)
    assert Until(0.02).is_satisfied(value, of=50.0) and not Until(0.02).is_satisfied(value, of=49.0)
    assert Until().is_satisfied(value) and not Until().is_satisfied(Interval(1.0, -1.0, 3.0, 5))
    assert Until(bound=8.9).is_satisfied(value) and Until(bound=11.1).is_satisfied(value)
    assert not Until(bound=9.0).is_satisfied(value) and not Until(bound=10.0).is_satisfied(value)

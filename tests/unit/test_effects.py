"""Headlines of reports: effects in percent with their intervals, against values computed by hand."""

import math

import pytest

from catnip.analysis.interval import Interval
from catnip.analysis.summary import GroupSummary, Summary
from catnip.report import effects


def group(means: dict[str, Interval], **values: list[float]) -> GroupSummary:
    return GroupSummary("pages", 10, 10, means, values=values)


def summary(**groups: GroupSummary) -> Summary:
    return Summary(groups, {}, 1)


def test_the_interval_of_a_change_is_that_of_a_ratio_by_linearization() -> None:
    change = effects.change_pct([9, 7], [10, 10])
    assert change is not None
    # The ratio is 0.8. What is left of each seed is 1 and -1: the standard error of their mean is 1, and
    # t(1) is 12.706, so that the interval is 127.06 % of the base's mean of 10 wide to either side.
    assert change.mean == pytest.approx(-20)
    assert change.n == 2
    assert change.high - change.mean == pytest.approx(127.062, abs=1e-3)
    assert change.mean - change.low == pytest.approx(127.062, abs=1e-3)


def test_what_both_vary_together_by_does_not_widen_the_interval() -> None:
    change = effects.change_pct([8.0, 80.001, 8000.0], [10.0, 100.0, 10000.0])
    assert change is not None
    assert change.mean == pytest.approx(-20, abs=0.001)
    assert change.high - change.low < 0.01


@pytest.mark.parametrize(
    ("ours", "base"), [([1], [1]), ([1, 2], [1, 2, 3]), ([1, math.nan], [1, 2]), ([1, 2], [0, 0])]
)
def test_without_pairs_of_known_values_there_is_no_change(ours: list[float], base: list[float]) -> None:
    assert effects.change_pct(ours, base) is None


@pytest.mark.parametrize(
    ("measure", "change", "says"),
    [
        ("p95_s", (-30, -34, -26), "A: 30 % [26, 34] faster than B at the 95th percentile"),
        ("p95_s", (12.3, 2.06, 22.54), "A: 12 % [2.1, 23] slower than B at the 95th percentile"),
        ("page_time_s", (-5.04, -9, -1.08), "A: 5.0 % [1.1, 9.0] faster than B by mean page time"),
        ("goodput_mbps", (20, 15, 25), "A: 20 % [15, 25] more goodput than B"),
        ("goodput_mbps", (-20, -25, -15), "A: 20 % [15, 25] less goodput than B"),
        (
            "p95_s",
            (-3, -8, 2),
            "A: no difference to B that these runs see: the 95th percentile -3.0 % [-8.0, 2.0]",
        ),
        ("goodput_mbps", (1, -1, 3), "A: no difference to B that these runs see: goodput 1.0 % [-1.0, 3.0]"),
    ],
)
def test_an_effect_is_told_in_one_sentence(
    measure: str, change: tuple[float, float, float], says: str
) -> None:
    assert effects.sentence("A", "B", measure, Interval(*change, 10)) == says


def test_of_many_variants_those_with_the_largest_effects_are_told() -> None:
    base = group({}, p95_s=[10, 11, 12])
    pairs = {}
    for number in range(1, 8):
        ours = group({}, p95_s=[value * (1 - number / 10) for value in (10.01, 10.98, 12.02)])
        pairs[f"v{number}"] = (summary(web=ours), summary(web=base))
    told = effects.sentences(pairs, dict.fromkeys(pairs, "base"))
    assert [says.split(":")[0] for says in told] == ["v7", "v6", "v5", "v4"]
    assert told[0].startswith("v7: 70 % [")


def test_of_runs_that_are_all_alike_no_interval_is_told() -> None:
    times = ([1.0] * 10, [1 - number / 10 for number in range(10)])
    base = GroupSummary(
        "pages", 10, 10, {"p95_s": Interval(1, 1, 1, 2)}, curve=times, values={"p95_s": [1, 1]}
    )
    assert base.is_alike
    assert effects.effect_of(group({}, p95_s=[0.8, 0.9]), base) is None


def test_with_several_groups_each_sentence_names_its_group() -> None:
    ours = summary(web=group({}, p95_s=[8, 9]), file=group({}, goodput_mbps=[2, 3]))
    base = summary(web=group({}, p95_s=[10, 12]), file=group({}, goodput_mbps=[4, 5]))
    told = effects.sentences({"A": (ours, base)}, {"A": "B"})
    assert [says.split(": ")[0] for says in told] == ["web", "file"]


def test_a_single_variant_tells_its_percentile_with_its_unit() -> None:
    of = summary(web=group({"p95_s": Interval(2.345, 2.1, 2.5, 10)}))
    assert effects.alone("default", of) == "default: web: 95th percentile 2.35 [2.1, 2.5] s"

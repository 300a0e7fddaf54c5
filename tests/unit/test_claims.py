"""Tests of the verdicts of claims, which depend on interval, band and documented deviations."""

import json
import math

import pytest

from catnip.analysis import claims
from catnip.analysis.claims import Claim, at_least, at_most, exactly, reported, within
from catnip.analysis.interval import Interval

OURS = Interval(2.0, 1.0, 3.0, 30)
FEW = Interval(2.0, 1.0, 3.0, 29)


@pytest.mark.parametrize(
    ("claim", "verdict"),
    [
        (within("X", "inside", OURS, 1.5, 2.5), "pass"),
        (within("X", "on the edge", OURS, 2.0, 2.5), "pass"),
        (within("X", "the mean counts, not the interval", OURS, 2.1, 3.0), "fail"),
        (at_most("X", "equal", OURS, 2.0), "pass"),
        (at_most("X", "above", OURS, 1.9), "fail"),
        (at_least("X", "equal", OURS, 2.0), "pass"),
        (at_least("X", "below", OURS, 2.1), "fail"),
        (within("X", "few seeds: the interval overlaps", FEW, 2.9, 4.0), "pass"),
        (within("X", "few seeds: the interval lies outside", FEW, 3.1, 4.0), "fail"),
        (at_most("X", "few seeds: overlap below", FEW, 1.1), "pass"),
        (at_most("X", "few seeds: outside", FEW, 0.9), "fail"),
        (at_least("X", "few seeds: overlap above", FEW, 2.9), "pass"),
        (at_least("X", "few seeds: all of it below", FEW, 3.1), "fail"),
        (exactly("X", "same", "1, 2, 4, 7", "1, 2, 4, 7"), "pass"),
        (exactly("X", "other", "1, 2, 4, 7", "1, 2, 4, 4, 3"), "fail"),
        (reported("X", "no band", OURS), "reported"),
        (within("X", "a miss with a reason", OURS, 3, 4, note="red-loses-less"), "deviation"),
        (within("X", "a reason that is not needed", OURS, 1, 4, note="red-loses-less"), "pass"),
        (within("X", "not a number", math.nan, 0, 1), "fail"),
    ],
    ids=lambda value: value.claim if isinstance(value, Claim) else "",
)
def test_verdict(claim: Claim, verdict: str) -> None:
    assert claim.verdict == verdict
    assert bool(claim.note) == (verdict == "deviation")


def test_json_has_the_agreed_keys() -> None:
    claim = within("CAT-E4.share", "HIGH share, %", OURS, 1, 3, paper=40, oracle=38)
    assert claim.as_json() == {
        "id": "CAT-E4.share",
        "claim": "HIGH share, %",
        "paper": 40,
        "oracle": 38,
        "ours": 2.0,
        "low": 1.0,
        "high": 3.0,
        "band": "1 to 3",
        "verdict": "pass",
        "seeds": 30,
    }


def test_json_of_a_deviation_names_its_anchor() -> None:
    claim = at_most("CAT-E6", "loss", OURS, 1, note="red-loses-less")
    assert claim.as_json()["note"] == "red-loses-less"


def test_json_never_holds_nan() -> None:
    lone = within("X", "one seed", Interval(math.inf, math.nan, math.nan, 1), 0, 1)
    assert json.loads(json.dumps(lone.as_json(), allow_nan=False))["ours"] is None


def test_only_undocumented_misses_fail() -> None:
    evaluated = [at_most("A", "", 2, 1), at_most("B", "", 2, 1, note="why"), at_most("C", "", 0, 1)]
    assert [claim.id for claim in claims.failed(evaluated)] == ["A"]
    assert claims.tally(evaluated) == {"pass": 1, "deviation": 1, "fail": 1}


def test_markdown_links_a_deviation_to_its_reason() -> None:
    evaluated = [at_most("CAT-E6", "a|b", OURS, 1, paper="3.8–4.1", note="red-loses-less")]
    *_, row = claims.markdown(evaluated, "../docs/deviations.md").splitlines()
    assert row.startswith("| CAT-E6 | a\\|b | 3.8–4.1 | – | 2 [1, 3] | 30 | ≤ 1 | ")
    assert row.endswith(" | [deviation](../docs/deviations.md#red-loses-less) |")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        ("some", "some"),
        (0, "0"),
        (4.0, "4"),
        (0.48321, "0.483"),
        (0.00412, "0.00412"),
        (2.78e-8, "3×10⁻⁸"),
        (47918, "47918"),
        (99.96, "100"),
        (-3.456, "-3.46"),
        (10, "10"),
        (math.inf, "inf"),
    ],
)
def test_numbers_show_three_digits(value: claims.Value, shown: str) -> None:
    assert claims.show(value) == shown

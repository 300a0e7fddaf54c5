"""Tests of claims: their fields, explanations, counts and tables."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from catnip._core import InputError
from catnip.analysis import claims
from catnip.analysis.claims import Claim, judged
from catnip.analysis.interval import Interval
from catnip.analysis.verdicts import Band, Exactly
from catnip.papers import statement
from catnip.report.model import Held

OURS = Interval(2.0, 1.0, 3.0, 30)


def claim(id: str, ours: Any, band: Band | None, **more: Any) -> Claim:
    return judged(id, "a claim", ours, band, **more)


def test_json_has_the_agreed_keys() -> None:
    one = judged("CAT-E4.share", "HIGH share, %", OURS, Band(1, 3), paper=40, oracle=38, source="acceptance")
    assert one.as_json() == {
        "id": "CAT-E4.share",
        "claim": "HIGH share, %",
        "paper": 40,
        "oracle": 38,
        "ours": 2.0,
        "low": 1.0,
        "high": 3.0,
        "over_paper": 0.05,
        "band": "1 to 3",
        "source": "acceptance",
        "verdict": "reproduced",
        "explained_by": "",
        "note": "",
        "seeds": 30,
        "seeds_to_decide": None,
    }


def test_json_never_holds_nan() -> None:
    lone = claim("X", Interval(math.inf, math.nan, math.nan, 1), Band(0, 1))
    assert json.loads(json.dumps(lone.as_json(), allow_nan=False))["ours"] is None


@pytest.mark.parametrize(
    ("ours", "verdict", "note", "by"),
    [
        (2.0, "reproduced", "", ""),
        (4.0, "not reproduced", "why", "Y"),
        (Interval(3, 2, 4, 5), "undecided", "why", ""),
    ],
)
def test_nothing_but_a_miss_is_explained(ours: Any, verdict: str, note: str, by: str) -> None:
    one = claim("X", ours, Band(0, 3), note="why", explained_by="Y")
    assert (one.verdict, one.note, one.explained_by) == (verdict, note, by)


def test_an_explanation_is_a_claim_that_holds() -> None:
    missed = claim("A", 2, Band(high=1), explained_by="B")
    holds, fails = claim("B", 1, Band(high=1)), claim("B", 2, Band(high=1))
    other = claim("C", 2, Band(high=1), explained_by="C")
    assert [one.explained_by for one in claims.explained([missed, holds])] == ["B", ""]
    assert [one.explained_by for one in claims.explained([missed, fails])] == ["", ""]
    assert [one.explained_by for one in claims.explained([missed], [holds])] == ["B"]
    assert claims.explained([other])[0].explained_by == "", "nothing explains itself"
    assert [one.id for one in claims.unexplained(claims.explained([missed, holds, other]))] == ["C"]


def test_the_summary_counts_what_is_explained() -> None:
    some = claims.explained(
        [
            claim("A", 2, Band(high=1), explained_by="C"),
            claim("B", 2, Band(high=1)),
            claim("C", 0, Band(high=1)),
            claim("D", OURS, Band(high=2)),
            claim("E", 1, None),
        ]
    )
    assert claims.tally(some) == {"reproduced": 1, "not reproduced": 2, "undecided": 1, "reported": 1}
    assert (
        claims.summary(some) == "reproduced 1, not reproduced 2 of which 1 explained, undecided 1, reported 1"
    )


def test_a_row_tells_the_ratio_to_the_paper_and_what_would_decide() -> None:
    one = judged("CAT-E6.x", "a|b", OURS, Band(high=2.5), paper=4, note="red-loses-less", source="paper")
    *_, row = claims.markdown([one], "../docs/deviations.md").splitlines()
    assert row == (
        "| CAT-E6.x | a\\|b | 4 | – | 2 [1, 3] | 0.5 | 30 | ≤ 2.5 | paper "
        "| [undecided: needs about 120 seeds](../docs/deviations.md#red-loses-less) |"
    )


def test_a_row_links_what_explains_it() -> None:
    both = [claim("A", 2, Band(high=1), explained_by="B", note="why"), claim("B", 1, Band(high=1))]
    row = claims.markdown(claims.explained(both), "d.md").splitlines()[2]
    assert row.endswith("| [not reproduced, explained](d.md#why) by B |")


@pytest.mark.parametrize(
    ("band", "shown"),
    [
        (None, "none"),
        (Band(1, 2), "1 to 2"),
        (Band(high=2), "≤ 2"),
        (Band(low=2), "≥ 2"),
        (Exactly("1, 2"), "1, 2"),
    ],
)
def test_a_band_as_text(band: Band | Exactly | None, shown: str) -> None:
    assert claims.band_shown(band) == shown


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


@pytest.mark.parametrize(
    ("counts", "told"),
    [
        ((3, 0, 0), "holds"),
        ((3, 1, 0), "holds in part: 3 of 4"),
        ((3, 0, 2), "holds in part: 3 of 5, 2 undecided"),
        ((0, 2, 0), "does not hold"),
        ((0, 2, 1), "does not hold, 1 undecided"),
        ((0, 0, 2), "is undecided"),
    ],
)
def test_a_sentence_holds_as_far_as_its_claims_are_reproduced(
    counts: tuple[int, int, int], told: str
) -> None:
    assert Held("Marks help", *counts).told == told


SENTENCES = """
title = "x"
[experiments]
X-E1 = "one"
X-E10 = "ten"
[figures]
[[sentence]]
says = "Marks help"
by = ["X-E1"]
where = "under load"
[[claim]]
experiment = "X-E1"
says = "gain"
quantity = "gain"
at_least = 0
source = "own"
[[claim]]
experiment = "X-E1"
says = "loss"
quantity = "loss"
[[claim]]
experiment = "X-E10"
says = "another"
quantity = "gain"
at_least = 0
source = "own"
"""


def test_a_sentence_is_judged_by_the_claims_with_a_band_whose_ids_begin_as_it_says(tmp_path: Path) -> None:
    file = tmp_path / "claims.toml"
    file.write_text(SENTENCES)
    [sentence] = statement.read(file).sentences
    assert (sentence.says, sentence.by, sentence.where) == ("Marks help", ("X-E1.gain",), "under load")
    for wrong, named in (
        (SENTENCES.replace('by = ["X-E1"]', 'by = ["X-E2"]'), "by = X-E2: no claim with a band"),
        (SENTENCES.replace('by = ["X-E1"]', 'by = ["X-E1.loss"]'), "by = X-E1.loss"),
        (SENTENCES.replace("where", "region"), "region: there is no such key"),
        (
            SENTENCES.replace("[[claim]]", "[[sentence]]\nsays = 'y'\nby = ['X-E1']\n" * 10 + "[[claim]]", 1),
            "11",
        ),
    ):
        file.write_text(wrong)
        with pytest.raises(InputError, match=re.escape(named)) as error:
            statement.read(file)
        assert str(error.value).startswith(f"{file}: sentence")

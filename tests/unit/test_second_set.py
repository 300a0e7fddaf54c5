"""Tests of the comparison of the published verdicts with those on other seeds."""

import pytest
import second_set

from catnip.analysis.claims import Claim, judged
from catnip.analysis.interval import Interval
from catnip.analysis.verdicts import Band

BAND = Band(0.0, 10.0)


def row(id: str, low: float, high: float, band: Band | None = BAND) -> Claim:
    return judged(id, "a claim", Interval((low + high) / 2, low, high, 30), band)


def test_the_committed_page_is_that_of_the_committed_values() -> None:
    assert second_set.PAGE.read_text(encoding="utf-8") == second_set.page()


def test_a_row_is_unstable_if_it_is_reproduced_in_one_set_and_not_reproduced_in_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inside, outside, between = (4, 6), (11, 13), (9, 11)
    pairs = {
        "same": (inside, (5, 7)),
        "lost": (inside, outside),
        "found": (outside, inside),
        "missed twice": (outside, outside),
        "open": (between, inside),
    }
    both = [(row(name, *one), row(name, *other)) for name, (one, other) in pairs.items()]
    both.append((row("reported", *inside, band=None), row("reported", *outside, band=None)))
    monkeypatch.setattr(second_set, "_pairs", lambda _: both)
    monkeypatch.setattr(second_set, "SIMULATED", ("catnip",))
    page = second_set.page()
    assert "| [catnip](catnip.md) | 2 | 1 | 2 |" in page
    listed = [line.split(" | ")[0] for line in page.splitlines() if line.count("|") == 7]
    assert listed == ["| row", "| ---", "| lost **unstable**", "| found **unstable**", "| open"]
    assert "| open | 0 to 10 | 10 [9, 11] | undecided | 5 [4, 6] | reproduced |" in page

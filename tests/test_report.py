"""The report stands alone, and says what it was given."""

import re
from html.parser import HTMLParser

import pytest

from catnip.figures.transfers import single_loss_profile
from catnip.papers.claims import at_most, within
from catnip.papers.outcome import Figure, Reproduction, Table
from catnip.report import render
from catnip.stats import Interval

PROFILE = single_loss_profile(
    k=[1, 2, 3, 4], ours_s=[7.6, 2.4, 2.5, 1.9], ns2_s=[7.7, 2.4, 2.5, 1.9], no_loss_s=1.07,
    timed_out=[True, True, False, True],
)  # fmt: skip
OUTCOME = Reproduction(
    title="A <title> & more",
    headline="Half the time.",
    claims=[
        within("CAT-E1", "transfer time, s", Interval(1.071, 1.07, 1.072, 10), 1.05, 1.12, paper=1.1),
        at_most("CAT-E6", "loss, %", 4.0, 3.0, note="red-loses-less"),
    ],
    figures=[Figure("one-loss", "Figure 1", "One loss.", PROFILE)],
    tables=[Table("Main", ["sender", "s"], [["Reno", "0.61 ± 0.03"]], "Ten seeds.")],
    seeds=[1, 2, 3],
)


@pytest.fixture(scope="module")
def page() -> str:
    return render(OUTCOME, "catnip reproduce catnip --seed 1")


class Links(HTMLParser):
    """Collects what a browser would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("src", "srcset", "href", "xlink:href", "data", "poster") and value:
                self.found.append(value)
        assert tag not in ("script", "link", "iframe", "object", "img")


def test_nothing_is_fetched(page: str) -> None:
    links = Links()
    links.feed(page)
    assert all(link.startswith("#") for link in links.found)
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", page))
    assert "@import" not in page
    assert set(re.findall(r'(\S+)="https?://', page)) <= {"xmlns", "xmlns:xlink"}


def test_everything_is_shown(page: str) -> None:
    for expected in (
        "A &lt;title&gt; &amp; more",
        "Half the time.",
        "[1.07, 1.07]",
        "1.05 to 1.12",
        'class="badge pass"',
        'class="badge deviation"',
        "deviations.md#red-loses-less",
        "0.61 ± 0.03",
        "Ten seeds.",
        "One loss.",
        "catnip reproduce catnip --seed 1",
        "1, 2, 3",
    ):
        assert expected in page


def test_the_same_outcome_gives_the_same_page(page: str) -> None:
    assert render(OUTCOME, "catnip reproduce catnip --seed 1") == page


def test_a_report_without_figures_and_tables() -> None:
    assert "<figure>" not in render(Reproduction("T", "H", [], seeds=[1]), "catnip")

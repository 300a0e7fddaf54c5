"""Tests in a browser that the headings of a report's tables sort them, by mouse and by keys."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from catnip.analysis import claims
from catnip.analysis.claims import judged
from catnip.analysis.interval import Interval
from catnip.analysis.verdicts import Band
from catnip.report import html
from catnip.report.model import Command, Reproduction, Table
from conftest import Run
from plans import FILES
from visitor import BROWSER, Visitor, readable

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium")

SWEEP = (
    FILES
    + """
[[axis]]
keys = ["link.line.delay", "link.line.queue"]
values = [["80ms", "red:8"], ["5ms", "drop-tail:8"], ["20ms", "pie:8"]]
"""
)
ROWS = [
    ["b", "1.23 [1.1, 1.3] s", "10 packets", "length=10"],
    ["a", "–", "9 packets", "length=100"],
    ["e", "-5 ± 2 *", "", "length=20"],
    ["d", "2×10⁻⁸", "unbounded", "–"],
    ["c", "+18 (+2%)", "1.5e3", "length=9"],
]
OUTCOME = Reproduction(
    title="T",
    headline="H.",
    claims=[
        judged("A-E1.one", "<b>first</b>", 20.0, Band(high=3)),
        judged("A-E1.two", "second", Interval(7.0, 6.0, 8.0, 9), Band(high=30), paper=3.5),
        judged("A-E1.three", "third", "the same", None),
        judged("A-E2.one", "fourth", 300.0, Band(high=3)),
        judged("A-E2.two", "fifth", 4.0, Band(high=30)),
    ],
    tables=[
        Table("Mixed", ["", "time, s", "queue", "case"], ROWS),
        Table("Read on", ["", "value"], [["one", "2"], ["of it", "1"]], in_order=True),
        Table("Alone", ["", "value"], [["one", "2"]]),
    ],
    seeds=[1],
    experiments={"A-E1": "one", "A-E2": "two"},
)
FIRST = "[...document.querySelector('{}').querySelectorAll('tbody tr')].map(row => row.cells[0].textContent)"
MIXED = FIRST.format("#table-1 + * table, #table-1 ~ * table")
SORTS = "[...document.querySelector('{}').tHead.rows[0].cells].map(head => head.getAttribute('aria-sort'))"


@pytest.fixture
def visitor() -> Iterator[Visitor]:
    with Visitor.start() as browser:
        yield browser


@pytest.fixture
def reproduced(visitor: Visitor) -> Iterator[Visitor]:
    """Yields a browser with the report of `OUTCOME`."""
    page = html.render(OUTCOME, Command("catnip"), None)
    with readable(page.encode()) as url:
        visitor.visit(url)
        yield visitor


def click(visitor: Visitor, table: str, column: int) -> None:
    visitor.ask(f"document.querySelector('{table}').tHead.rows[0].cells[{column}].firstChild.click()")


@pytest.mark.parametrize(
    ("column", "upwards", "downwards"),
    [(0, "abcde", "edcba"), (1, "edbca", "cbdea"), (2, "abcde", "cbade"), (3, "cbead", "aebcd")],
    ids=["words", "numbers with intervals, signs and powers", "numbers, then words", "words with numbers"],
)
def test_a_heading_sorts_upwards_then_downwards_and_restores(
    reproduced: Visitor, column: int, upwards: str, downwards: str
) -> None:
    shown = []
    for _ in range(3):
        click(reproduced, "table", column)
        shown.append(("".join(reproduced.ask(MIXED)), reproduced.ask(SORTS.format("table"))[column]))
    assert shown == [(upwards, "ascending"), (downwards, "descending"), ("baedc", "none")]


def test_only_the_column_by_which_a_table_is_sorted_says_so(reproduced: Visitor) -> None:
    click(reproduced, "table", 0)
    click(reproduced, "table", 1)
    assert reproduced.ask(SORTS.format("table")) == ["none", "ascending", "none", "none"]


def test_enter_and_space_sort_like_a_click(reproduced: Visitor) -> None:
    reproduced.ask("document.querySelector('table button').focus()")
    shown = []
    for key in ("Enter", " "):
        reproduced.press(key)
        shown.append("".join(reproduced.ask(MIXED)))
    assert shown == ["abcde", "edcba"]
    assert reproduced.ask("document.activeElement.textContent") == "row", "the focus stays"


def test_tables_whose_rows_read_on_and_those_of_one_row_have_no_buttons(reproduced: Visitor) -> None:
    count = "[...document.querySelectorAll('table')].map(one => one.querySelectorAll('button').length)"
    assert reproduced.ask(count) == [4, 0, 0, 8]


@pytest.mark.parametrize(
    "changed",
    ["t.tBodies[0].rows[1].cells[1].rowSpan = 2", "t.tBodies[0].append(t.tBodies[0].rows[0])"],
    ids=["rowspan", "a heading amid rows"],
)
def test_a_table_whose_rows_belong_together_has_no_buttons(visitor: Visitor, changed: str) -> None:
    script = f"<script>{{ const t = document.querySelector('.claims'); {changed}; }}</script><script>"
    page = html.render(OUTCOME, Command("catnip"), None)
    with readable(page.replace("<script>", script, 1).encode()) as url:
        visitor.visit(url)
        assert visitor.ask("document.querySelectorAll('.claims button').length") == 0
        assert visitor.ask("document.querySelectorAll('table button').length") == 4


def test_claims_stay_with_their_experiment_and_the_filter_goes_on(reproduced: Visitor) -> None:
    click(reproduced, ".claims", 4)
    says = "[...document.querySelectorAll('.claims tbody tr')].filter(row => row.checkVisibility())"
    shown = f"{says}.map(row => row.querySelector('th').textContent.replace('#', ''))"
    assert reproduced.ask(shown) == [
        "A-E1: one", "second", "<b>first</b>", "third",
        "A-E2: two", "fifth", "fourth",
    ]  # fmt: skip
    reproduced.ask("document.getElementById('only-not-reproduced').click()")
    assert reproduced.ask(shown) == ["A-E1: one", "<b>first</b>", "A-E2: two", "fourth"]
    click(reproduced, ".claims", 4)
    reproduced.ask("document.getElementById('only-reproduced').click()")
    assert reproduced.ask(shown) == ["A-E1: one", "second", "A-E2: two", "fifth"]
    reproduced.ask("document.getElementById('only-all').click()")
    assert reproduced.ask(shown)[:3] == ["A-E1: one", "<b>first</b>", "second"]
    assert len(claims.tally(OUTCOME.claims)) == 3


def test_points_are_sorted_by_the_values_of_their_axes(visitor: Visitor, catnip: Run, tmp_path: Path) -> None:
    file, page = tmp_path / "sweep.toml", tmp_path / "page.html"
    file.write_text(SWEEP)
    assert catnip("run", file, "--report", page).code == 0
    shown = []
    with readable(page.read_bytes()) as url:
        visitor.visit(url)
        for column in (0, 0, 1, 2):
            click(visitor, ".points", column)
            shown.append(" ".join(visitor.ask(FIRST.format(".points"))))
    assert shown == ["5ms 20ms 80ms", "80ms 20ms 5ms", "80ms 5ms 20ms", "5ms 20ms 80ms"]

"""Tests in a browser of the layout of reports: wide tables use the window, narrow windows scroll them."""

from collections.abc import Iterator

import pytest

from catnip.analysis.claims import judged
from catnip.analysis.verdicts import Band
from catnip.report import html
from catnip.report.model import Command, Reproduction, Table
from visitor import BROWSER, Visitor, readable

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium")

CELLS = [f"{number}.123 ± 0.456" for number in range(10, 22)]
WIDE = Table("Wide", ["variant", *(f"measure {number}" for number in range(12))], [["a=b / c=d", *CELLS]] * 3)
SMALL = Table("Small", ["variant", "measure"], [["a", "1"], ["b", "2"]])
PROSE = Table("Prose", ["variant", "words"], [["a", 60 * "many words "]])
MISS = judged("CAT-E6.loss", 9 * "a long claim, ", 4.0, Band(high=3), note="todays-linux-beats-the-model")
OTHER = judged("CAT-E6.mean", "a short claim", 1.0, Band(high=3))
OUTCOME = Reproduction("T", "H.", [MISS, OTHER], tables=[WIDE, SMALL, PROSE], seeds=[1])
WIDTHS = [400, 800, 1280, 2560]
BOX = "document.querySelectorAll('.scroll:has(> table)')[{}]"


@pytest.fixture(scope="module")
def visitor() -> Iterator[Visitor]:
    page = html.render(OUTCOME, Command("catnip"), None)
    with readable(page.encode()) as url, Visitor.start() as browser:
        browser.visit(url)
        yield browser


def box(visitor: Visitor, number: int) -> dict[str, float]:
    """Returns the sides of the box of a table, the width of what it shows and of what is in it."""
    found: dict[str, float] = visitor.ask(f"""(() => {{
      const box = {BOX.format(number)}, {{ left, right }} = box.getBoundingClientRect();
      return {{ left, right, shown: box.clientWidth, inside: box.scrollWidth }};
    }})()""")
    return found


def column(visitor: Visitor) -> float:
    """Returns the width of the text column."""
    width: float = visitor.ask("document.querySelector('h2').getBoundingClientRect().width")
    return width


@pytest.mark.parametrize("width", WIDTHS)
def test_no_page_is_wider_than_its_window(visitor: Visitor, width: int) -> None:
    visitor.show(width)
    assert visitor.ask("document.documentElement.scrollWidth") <= width
    assert box(visitor, 0)["left"] >= 0
    assert box(visitor, 0)["right"] <= width


def test_a_wide_table_is_wider_than_the_text_where_there_is_room(visitor: Visitor) -> None:
    visitor.show(2560)
    wide, small, prose = (box(visitor, number) for number in range(3))
    assert wide["shown"] == wide["inside"] > column(visitor) == small["shown"] == prose["shown"]
    assert wide["left"] + wide["right"] == pytest.approx(small["left"] + small["right"], abs=1)


@pytest.mark.parametrize("width", [400, 800])
def test_a_wide_table_scrolls_in_its_box_by_keys_beside_its_first_column(
    visitor: Visitor, width: int
) -> None:
    visitor.show(width)
    wide = box(visitor, 0)
    assert wide["inside"] > wide["shown"] <= column(visitor)
    about = visitor.ask(f"['tabindex', 'role', 'aria-label'].map(of => {BOX.format(0)}.getAttribute(of))")
    assert about == ["0", "region", "Table: Wide"]
    visitor.ask(f"{BOX.format(0)}.focus(); {BOX.format(0)}.scrollLeft = 200")
    assert visitor.ask(f"document.activeElement === {BOX.format(0)}")
    lefts = visitor.ask(
        f"[...{BOX.format(0)}.querySelectorAll('tr')].map(row => row.cells[0].getBoundingClientRect().left)"
    )
    assert lefts == pytest.approx([wide["left"]] * 4), "the heads and the rows"
    second = f"{BOX.format(0)}.querySelector('td').getBoundingClientRect().left"
    before = visitor.ask(second)
    visitor.press("ArrowRight")
    visitor.wait(f"{second} < {before}")


@pytest.mark.parametrize("width", WIDTHS)
def test_whatever_scrolls_can_be_reached_by_keys_and_has_a_name(visitor: Visitor, width: int) -> None:
    visitor.show(width)
    unreachable = """[...document.querySelectorAll('body *')].filter(one =>
      one.scrollWidth > one.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(one).overflowX) &&
      !(one.tabIndex === 0 && one.getAttribute('role') === 'region' && one.getAttribute('aria-label'))
    ).map(one => one.outerHTML.slice(0, 80))"""
    assert visitor.ask(unreachable) == []


def test_the_tab_key_visits_links_boxes_buttons_and_the_filter_in_the_order_of_the_page(
    visitor: Visitor,
) -> None:
    visitor.visit(visitor.ask("location.href"))
    focusable = "[...document.querySelectorAll('a[href], button, input:checked, [tabindex]')]"
    count = visitor.ask(f"{focusable}.length")
    visited = []
    for _ in range(count):
        visitor.press("Tab")
        visited.append(visitor.ask(f"{focusable}.indexOf(document.activeElement)"))
    assert visited == list(range(count))


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_paper_is_white_and_shows_all_columns(visitor: Visitor, dark: bool) -> None:
    visitor.show(1000, dark=dark, media="print")
    try:
        assert visitor.ask("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert visitor.ask(f"getComputedStyle({BOX.format(0)}).overflowX") == "visible"
        hidden = "['nav', '.anchor', '.hint'].map(of => getComputedStyle(document.querySelector(of)).display)"
        assert visitor.ask(hidden) == ["none"] * 3
        assert (
            box(visitor, 0)["right"] <= 1000 and visitor.ask("document.documentElement.scrollWidth") <= 1000
        )
    finally:
        visitor.show(1000)


def test_claims_and_the_tables_of_reasons_scroll_in_boxes_of_their_own(visitor: Visitor) -> None:
    visitor.show(800)
    assert visitor.ask("[...document.querySelectorAll('table')].every(one => one.closest('.scroll'))")
    assert visitor.ask("document.querySelectorAll('.reason table[aria-label]').length") > 0

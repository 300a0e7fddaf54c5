"""Tests of the HTML report: self-contained, complete and accessible."""

import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise, product
from pathlib import Path

import pytest

from catnip.analysis import claims
from catnip.analysis.claims import judged
from catnip.analysis.interval import Interval
from catnip.analysis.verdicts import VERDICTS, Band
from catnip.base import paths, provenance
from catnip.figures.style import ON_DARK, PAPER
from catnip.figures.transfers import single_loss_profile
from catnip.papers import runner
from catnip.report import html
from catnip.report.model import Command, Figure, Reproduction, Table

PROFILE = single_loss_profile(
    k=[1, 2, 3, 4], ours_s=[7.6, 2.4, 2.5, 1.9], ns2_s=[7.7, 2.4, 2.5, 1.9], no_loss_s=1.07,
    timed_out=[True, True, False, True],
)  # fmt: skip
LOSS = judged(
    "CAT-E6.loss", "loss, %", 4.0, Band(high=3), note="catnip-bad-is-less-bad", explained_by="CAT-E1.page"
)
OUTCOME = Reproduction(
    title="A <title> & more",
    headline="Half the time.",
    claims=[
        LOSS,
        judged(
            "CAT-E1.time", "transfer time, s", Interval(1.071, 1.07, 1.072, 10), Band(1.05, 1.12), paper=1.1
        ),
        judged("CAT-E1.page", "page 1, s", 2e-8, Band(0, 1), source="paper"),
    ],
    figures=[Figure("one-loss", "Figure 1", "One loss of 6 s.", PROFILE, "CAT-E1", [1, 2, 3])],
    tables=[Table("Main", ["", "s"], [["Reno", "0.61 ± 0.03"], ["ECA", "–"]], "Ten seeds.")],
    seeds=[*range(1, 20_001), 30_000],
    experiments={"CAT-E1": "one loss", "CAT-E6": "routers"},
)
COMMAND = Command("catnip", ["CAT-E1", "CAT-E6"], ["--quick", "--seed 1"])
COMMIT = 40 * "a"


@pytest.fixture(scope="module")
def page() -> str:
    return html.render(OUTCOME, COMMAND, COMMIT)


class Elements(HTMLParser):
    """Parser of a page that collects its elements with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))

    def all(self, *attributes: str) -> list[str]:
        """Returns the values of these attributes over all elements."""
        return [has[name] for _, has in self.found for name in attributes if name in has]


def text(page: str) -> str:
    """Returns the visible text of a page, with plain spaces in place of no-break spaces."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", page.replace("\u00a0", " ")))


def test_nothing_is_fetched(page: str) -> None:
    elements = Elements(page)
    fetched = elements.all("src", "srcset", "href", "xlink:href", "data", "poster")
    assert all(link.startswith("#") for link in fetched)
    assert not {tag for tag, _ in elements.found} & {"link", "iframe", "object", "img"}
    assert [has for tag, has in elements.found if tag == "script"] == [{}]
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", page))
    assert "@import" not in page
    assert set(re.findall(r'(\S+)="https?://', page)) <= {"xmlns", "xmlns:xlink"}


def test_every_link_leads_to_one_place_in_the_page(page: str) -> None:
    elements = Elements(page)
    ids = Counter(elements.all("id"))
    assert {count for count in ids.values()} == {1}
    assert {link[1:] for link in elements.all("href", "xlink:href")} <= set(ids)
    assert set(elements.all("for")) <= set(ids)


def test_everything_is_shown(page: str) -> None:
    for expected in (
        "A &lt;title&gt; &amp; more",
        "Half the time.",
        "[1.07, 1.07], n = 10",
        "1.05 to 1.12",
        "2×10⁻⁸",
        'class="badge reproduced"',
        'class="badge not-reproduced"',
        "0.61 ± 0.03",
    ):
        assert expected in page
    for expected in ("Ten seeds. – marks a missing value.", "One loss of 6 s.", "CAT-E6: routers"):
        assert expected in text(page)


def test_a_page_of_many_seeds_is_as_short_as_one_of_few(page: str) -> None:
    assert "seeds 1 to 20000, 30000<" in page
    assert len(page) - len(html.render(replace(OUTCOME, seeds=[1]), COMMAND, COMMIT)) < 50


def test_a_figure_says_what_draws_it_again(page: str) -> None:
    line = f"commit {COMMIT[:12]}, seeds 1 to 3: catnip reproduce catnip --experiment CAT-E1 --quick --seed 1"
    assert f"{line} --figures figures" in text(page)


def test_the_page_says_what_makes_it_again(page: str) -> None:
    assert COMMAND.line("--report report.html") in page
    assert f"<dd>{COMMIT}</dd>" in page
    assert "byte for byte" in page
    assert all(f"{name} " in page for name in html.LIBRARIES)


def test_a_page_that_cannot_be_made_again_says_so() -> None:
    changed = text(html.render(OUTCOME, COMMAND, f"{COMMIT}+"))
    assert f"{COMMIT}, with uncommitted changes" in changed
    assert f"commit {COMMIT[:12]}, changed, seeds" in changed
    assert "byte for byte" not in changed
    assert "not in a checkout" in html.render(OUTCOME, COMMAND, None)
    assert "depend on more than the seed" in text(
        html.render(replace(OUTCOME, is_repeatable=False), COMMAND, COMMIT)
    )


def test_a_miss_leads_to_what_explains_it_and_to_its_reason_in_the_page(page: str) -> None:
    row = page.split(f'id="{LOSS.anchor}"')[1].split("</tr>", maxsplit=1)[0]
    assert f'href="#{OUTCOME.claims[2].anchor}"' in row
    assert "not reproduced, explained" in page
    anchor = f"why-{LOSS.note}"
    assert f'href="#{anchor}"' in page
    reason = page.split(f'id="{anchor}"')[1].split("</article>", maxsplit=1)[0]
    assert "HIGH packets are lost 1.8 times as often" in text(reason)
    assert f'href="#{LOSS.anchor}"' in reason


@pytest.mark.parametrize("name", runner.PAPERS)
def test_a_page_finds_every_reason(name: str) -> None:
    claims = [
        judged(one.id, one.says, 2, Band(high=1), note=one.note)
        for one in runner.data(name).statements
        if one.note
    ]
    outcome = Reproduction("T", "H", claims, seeds=[1], experiments=runner.experiments(name))
    page = html.render(outcome, COMMAND, COMMIT)
    assert {f"why-{one.note}" for one in claims} <= set(Elements(page).all("id"))


def test_without_the_document_a_reason_is_named_only(
    page: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(paths, "deviations", lambda: tmp_path / "deviations.md")
    alone = html.render(OUTCOME, COMMAND, COMMIT)
    assert f"deviations.md#{LOSS.note}" in alone
    assert "why-" not in alone


@pytest.mark.parametrize("name", runner.PAPERS)
def test_each_claim_of_a_paper_has_an_anchor_of_its_own(name: str) -> None:
    claims = [judged(one.id, one.says, 1.0, None) for one in runner.data(name).statements]
    assert len({claim.anchor for claim in claims}) == len(claims)


def test_an_anchor_stays_whatever_comes_out_and_whatever_else_is_claimed() -> None:
    other = judged("CAT-E6.loss", "other words", 1.0, Band(high=5))
    assert LOSS.anchor == other.anchor == "CAT-E6-7e5e21"


def test_claims_stand_by_experiment_in_the_order_of_the_paper(page: str) -> None:
    positions = [
        page.index(f'id="{id}"') for id in ("CAT-E1", OUTCOME.claims[1].anchor, "CAT-E6", LOSS.anchor)
    ]
    assert positions == sorted(positions)


def test_a_page_has_its_text_without_the_script_which_inserts_no_markup(page: str) -> None:
    before, script = page.split("<script>")
    assert script.count("</script>") == 1 and script.endswith("</script>\n</body>\n</html>")
    assert not re.search(r"<button|aria-sort=", before.split("</style>")[1])
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|eval|Function|fetch|import", script
    )


def test_a_table_whose_rows_read_on_from_those_above_is_not_sorted() -> None:
    [table] = OUTCOME.tables
    kept = html.render(replace(OUTCOME, tables=[table, replace(table, in_order=True)]), COMMAND, COMMIT)
    assert re.findall("<table.*?>", kept)[:3] == [
        '<table class="sortable">', "<table>", '<table class="claims sortable">',
    ]  # fmt: skip


def test_a_reader_comes_from_the_headline_to_the_pictures_then_to_the_tables_then_to_the_claims(
    page: str,
) -> None:
    order = [
        'class="headline"',
        'id="contents"',
        'id="one-loss"',
        'id="table-1"',
        'id="claims"',
        'id="again"',
    ]
    positions = [page.index(one) for one in order]
    assert positions == sorted(positions)
    contents = page.split('id="contents"')[1].split("</nav>", maxsplit=1)[0]
    targets = re.findall(r'href="#(.*?)"', contents)
    assert targets == ["one-loss", "table-1", "claims", "reasons", "again"]
    experiments = page.split('id="experiments"')[1].split("</nav>", maxsplit=1)[0]
    assert re.findall(r'href="#(.*?)"', experiments) == ["CAT-E1", "CAT-E6"]


def test_the_first_sentence_of_a_headline_is_large_and_the_others_below_it_are_not() -> None:
    said = "On Linux 6.18.44 it takes 37 % [35, 38] less. With FIFO (1.5 s) it does not; 9 of 12 do."
    page = html.render(replace(OUTCOME, headline=said), COMMAND, COMMIT)
    paragraphs = re.findall(r'<p class="(?:headline|more)">(.*?)</p>', page)
    assert [text(one) for one in paragraphs] == re.split(r"(?<=less\.) ", said)


def test_a_claim_without_a_ratio_shows_no_empty_cell(page: str) -> None:
    assert not re.search(r"<td[^>]*></td>", page)
    ratios = re.findall(r'<td class="number( none)?" data-name="ours over the paper\'s">(.*?)</td>', page)
    assert sorted(ratios) == [("", "0.974"), (" none", "–"), (" none", "–")]


def test_a_verdict_can_be_chosen_without_a_script(page: str) -> None:
    for shown in claims.tally(OUTCOME.claims):
        verdict = shown.replace(" ", "-")
        assert f'id="only-{verdict}"' in page
        assert f"main:has(#only-{verdict}:checked) tr.claim:not(.{verdict}, :target)" in page


def test_a_page_has_one_title_and_its_headings_leave_no_level_out(page: str) -> None:
    levels = [int(tag[1]) for tag, _ in Elements(page).found if re.fullmatch(r"h\d", tag)]
    assert levels.count(1) == 1 and levels[0] == 1
    assert all(deeper - level <= 1 for level, deeper in pairwise(levels))
    assert Elements(page).found[0] == ("html", {"lang": "en"})


def test_every_region_has_a_name_of_its_own_and_every_drawing_says_what_is_seen(page: str) -> None:
    elements = Elements(page)
    names = Counter(has["aria-label"] for _, has in elements.found if has.get("role") == "region")
    assert len(names) >= 4 and set(names.values()) == {1}
    drawings = re.findall("<svg.*?</svg>", page, re.DOTALL)
    assert all(re.match(r'<svg[^>]* role="img"><title>.+</title><desc>.+</desc>', one) for one in drawings)
    assert len(drawings) == page.count("<figcaption><b>Figure 1.</b> One loss")


def test_every_link_is_named_by_its_target(page: str) -> None:
    anchors = [has["aria-label"] for _, has in Elements(page).found if has.get("class") == "anchor"]
    assert len(set(anchors)) == len(anchors) > 6


def test_every_table_names_itself_and_its_headers(page: str) -> None:
    elements = Elements(page.split('id="reasons"', maxsplit=1)[0])
    tags = Counter(tag for tag, _ in elements.found)
    assert tags["caption"] == tags["table"] == 2
    assert all(
        "aria-label" in has for tag, has in Elements(page.split('id="reasons"')[1]).found if tag == "table"
    )
    assert all("scope" in has for tag, has in elements.found if tag == "th")


def test_the_same_outcome_gives_the_same_page(page: str) -> None:
    assert html.render(OUTCOME, COMMAND, COMMIT) == page


def test_a_report_without_figures_and_tables() -> None:
    alone = html.render(Reproduction("T", "H", [], seeds=[1]), COMMAND, COMMIT)
    assert "<figure" not in alone
    assert "<tbody>" not in alone


def test_the_commit_of_a_report_is_that_of_the_manifest() -> None:
    assert re.fullmatch(r"[0-9a-f]{40}\+?", provenance.commit() or COMMIT)


def luminance(colour: str) -> float:
    """Returns the relative luminance (WCAG 2.2) of a colour #rrggbb."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Returns the contrast ratio (WCAG 2.2) of two colours #rrggbb."""
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_contrast_is_that_of_the_specification() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.005)


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_every_text_of_a_page_has_a_contrast_of_4_5(page: str, mode: str) -> None:
    light, dark = re.findall(r":root \{(.*?)\}", page, re.DOTALL)
    variables = dict(re.findall(r"--(\w[\w-]*): (#[0-9a-f]{6});", light))
    if mode == "dark":
        variables |= dict(re.findall(r"--(\w[\w-]*): (#[0-9a-f]{6});", dark))
    shown = set(re.findall(r"(?<![-\w])color: var\(--(\w[\w-]*)\)", page))
    verdicts = {name for name in shown if f"{name}-wash" in variables}
    assert verdicts == {name.replace(" ", "-") for name in VERDICTS}
    pairs = {*product(shown - verdicts, ("paper", "wash")), *((name, f"{name}-wash") for name in verdicts)}
    assert len(pairs) >= 12
    for text, ground in pairs:
        ratio = contrast(variables[text], variables[ground])
        assert ratio >= 4.5, f"{text} on {ground}: {ratio:.2f}"


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_the_letters_of_a_drawing_have_a_contrast_of_4_5(mode: str) -> None:
    colours = {light: dark if mode == "dark" else light for light, dark in ON_DARK.items()}
    letters = set(re.findall(r'<g style="fill: (#[0-9a-f]{6})[^"]*"[^>]*>\s*<(?:defs|use)', PROFILE))
    assert letters
    for colour in letters:
        assert contrast(colours[colour], colours[PAPER]) >= 4.5, colour


def test_a_drawing_in_a_page_has_only_colours_that_the_page_sets(page: str) -> None:
    drawing = page.split("<svg")[1].split("</svg>", maxsplit=1)[0]
    assert not re.findall(r"#[0-9a-f]{6}\b(?![-\w])", re.sub(r"#f[0-9a-f]{8}-", "", drawing))
    used = set(re.findall(r"var\((--c[0-9a-f]{6})\)", drawing))
    for scheme in re.findall(r":root \{(.*?)\}", page, re.DOTALL):
        assert used <= set(re.findall(r"(--c[0-9a-f]{6}):", scheme))

"""Tests of the claims of each paper in `claims.toml`: readable, complete, and excused only for a miss."""

import inspect
import re
from pathlib import Path

import pytest

from catnip._core import InputError
from catnip.analysis.interval import Interval
from catnip.papers import reference, runner, statement
from catnip.papers.runner import PAPERS, evaluate
from catnip.papers.statement import Computed, Row, Statement
from published import published

ROOT = Path(__file__).resolve().parents[2]


def anchors() -> set[str]:
    """Returns the anchors of all headings of docs/deviations.md."""
    headings = re.findall(r"^#+ (.+)$", (ROOT / "docs" / "deviations.md").read_text(), re.MULTILINE)
    return {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", PAPERS)
def test_every_quantity_exists_and_takes_its_arguments(name: str) -> None:
    paper = runner.load(name)
    for one in runner.data(name).statements:
        inspect.signature(paper.measured[one.ours.quantity]).bind(None, **one.ours.arguments)


@pytest.mark.parametrize("name", PAPERS)
def test_everything_that_is_printed_beside_a_claim_is_in_a_reference_table(name: str) -> None:
    paper = runner.load(name)
    for one in runner.data(name).statements:
        for source in (one.paper, one.oracle):
            if isinstance(source, Computed):
                paper.printed[source.quantity](**source.arguments)
            elif isinstance(source, Row):
                assert reference.published(source.id) is not None, source


@pytest.mark.parametrize(
    ("name", "prefix"),
    [("catnip", "cat"), ("diffserv", "ds"), ("hysteresis", "hys"), ("newcwv", "cwv"), ("testbed", "tb")],
)
def test_every_row_of_the_reference_tables_is_claimed_or_excused(name: str, prefix: str) -> None:
    stated = runner.data(name)
    claimed = {row for one in stated.statements for row in one.rows}
    for one in stated.statements:
        for source in (one.paper, one.oracle):
            if isinstance(source, Row):
                claimed.add(source.id)
            elif isinstance(source, Computed):
                claimed |= {value for value in source.arguments.values() if value in reference.ids()}
    rows = {id for id in reference.ids() if id.startswith(prefix)}
    assert claimed | set(stated.excused) == rows, "neither claimed nor excused, or not in the tables"
    assert not claimed & set(stated.excused), "claimed, so there is nothing to excuse"


@pytest.mark.parametrize("name", PAPERS)
def test_every_reason_is_documented(name: str) -> None:
    reasons = {one.deviation for one in runner.data(name).statements} - {""}
    assert reasons or name in {"linux-tcp", "today"}, "nothing of it deviates"
    assert reasons <= anchors()


@pytest.mark.parametrize("name", PAPERS)
def test_the_published_table_has_these_claims_and_excuses_only_what_misses(name: str) -> None:
    shown = {(id, says): verdict for id, says, *_, verdict in published(name)}
    stated = {(one.id, one.says): one for one in runner.data(name).statements}
    assert set(shown) == set(stated)
    excused = {key for key, one in stated.items() if one.deviation}
    assert {key for key, verdict in shown.items() if verdict == "deviation"} == excused
    assert "fail" not in shown.values()


@pytest.mark.parametrize("name", PAPERS)
def test_the_bands_of_the_published_table_are_those_of_the_claims(name: str) -> None:
    bands = {(id, says): band for id, says, _, band, _ in published(name)}
    paper = runner.load(name)
    for one in runner.data(name).statements:
        claim = runner.evaluate(one, 0.0, runner.printed(paper, one.paper), runner.printed(paper, one.oracle))
        assert bands[one.id, one.says] == claim.band, one.says


def test_every_link_of_the_published_tables_leads_somewhere() -> None:
    for name in PAPERS:
        text = (ROOT / "validation" / f"{name}.md").read_text(encoding="utf-8")
        assert set(re.findall(r"deviations\.md#([^)]+)\)", text)) <= anchors()


def stated(band: str, bound: object = None, **more: object) -> Statement:
    return Statement("X-E1", "a claim", Computed("q", {}), band, bound, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("claim", "ours", "paper", "oracle", "verdict", "band"),
    [
        (stated("within", [1, 2]), 1.5, None, None, "pass", "1 to 2"),
        (stated("within", [1, 2]), 2.5, None, None, "fail", "1 to 2"),
        (stated("at_most", 2), 2.5, None, None, "fail", "≤ 2"),
        (stated("at_least", 2), 2.5, None, None, "pass", "≥ 2"),
        (stated("equals", "3"), 3, None, None, "pass", "3"),
        (stated("oracle_range", True), 2.0, None, [1.0, 3.0], "pass", "1 to 3"),
        (stated("oracle_range", True), 4.0, None, [1.0, 3.0], "fail", "1 to 3"),
        (stated("near", {"of": "paper", "points": 0.5}), 3.9, 3.5, None, "pass", "3 to 4"),
        (stated("near", {"of": "paper", "percent": 10}), 3.9, 3.5, None, "fail", "3.15 to 3.85"),
        (stated("near", {"of": "oracle", "factor": 2}), 3.9, None, 2, "pass", "1 to 4"),
        (stated(""), 3.9, None, None, "reported", "none"),
        (stated("at_most", 2, deviation="why", explains=(2, 3)), 2.5, None, None, "deviation", "≤ 2"),
        (stated("at_most", 2, deviation="why", explains=(2, 3)), 3.5, None, None, "fail", "≤ 2"),
        (stated("at_most", 2, deviation="why", explains=(2, 3)), 1.5, None, None, "pass", "≤ 2"),
    ],
)
def test_a_verdict_follows_from_value_band_and_how_far_a_reason_goes(
    claim: Statement, ours: object, paper: object, oracle: object, verdict: str, band: str
) -> None:
    evaluated = evaluate(claim, ours, paper, oracle)
    assert (evaluated.verdict, evaluated.band) == (verdict, band)
    assert evaluated.note == ("why" if verdict == "deviation" else "")


def test_what_others_have_stands_beside_ours() -> None:
    evaluated = evaluate(stated("oracle_range", True), Interval(2, 1, 3, 30), 2.5, [1.0, 4.0])
    assert (
        evaluated.paper,
        evaluated.oracle,
        evaluated.ours,
        evaluated.low,
        evaluated.high,
        evaluated.seeds,
    ) == (2.5, 2.5, 2, 1, 3, 30)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('id = "A"\nsays = "s"\nquantity = "q"\nbound = 1', "claim 's': bound: there is no such key"),
        (
            'id = "A"\nsays = "s"\nquantity = "q"\nwithin = [1, 2]\nat_most = 2',
            "at_most: cannot be combined with within",
        ),
        ('id = "A"\nsays = "s"\nquantity = "q"\ndeviation = "why"', "deviation: requires explains"),
        ('id = "B"\nsays = "s"\nquantity = "q"', "id = B: not in [experiments]"),
        ('id = "A"\nsays = "{k}"\nquantity = "q"\neach = { j = [1] }', "each: 'k' is missing"),
    ],
)
def test_a_wrong_claim_is_one_error_that_names_it(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "claims.toml"
    file.write_text(f'title = "T"\n[experiments]\nA = "a"\n[figures]\n[[claim]]\n{text}\n')
    with pytest.raises(InputError, match=re.escape(message)):
        statement.read(file)


def test_a_claim_for_each_combination(tmp_path: Path) -> None:
    file = tmp_path / "claims.toml"
    file.write_text(
        'title = "T"\n[experiments]\nA = "a"\n[figures]\n[[claim]]\nid = "A"\nsays = "{k} of {name}"\n'
        'quantity = "q"\nwith = { k = "{k}" }\nat_most = "{k}"\neach = { name = ["x", "y"], k = [1, 2] }\n'
    )
    statements = statement.read(file).statements
    assert [one.says for one in statements] == ["1 of x", "2 of x", "1 of y", "2 of y"]
    assert (
        [one.bound for one in statements] == [one.ours.arguments["k"] for one in statements] == [1, 2, 1, 2]
    )

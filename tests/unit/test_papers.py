"""Tests of the claims of each paper: `claims.toml` is readable and complete, published verdicts are true."""

import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from catnip._core import InputError
from catnip.analysis.interval import Interval
from catnip.base.progress import Progress
from catnip.papers import maps, reference, runner, statement
from catnip.papers.paper import Part
from catnip.papers.runner import PAPERS, Request, evaluate
from catnip.papers.statement import Computed, Row, Statement
from catnip.report import output, values
from catnip.report.model import Reproduction, Table
from published import published

ROOT = Path(__file__).resolve().parents[2]


def stored_values(name: str) -> values.Values:
    return values.read(ROOT / "validation" / f"{name}.json", name)


def anchors() -> set[str]:
    """Returns the anchors of all headings of docs/deviations.md."""
    headings = re.findall(r"^#+ (.+)$", (ROOT / "docs" / "deviations.md").read_text(), re.MULTILINE)
    return {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", PAPERS)
def test_every_quantity_exists_and_takes_its_arguments(name: str) -> None:
    paper = runner.load(name)
    for one in runner.data(name).statements:
        if one.ours.quantity != maps.QUANTITY:
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
def test_every_band_can_be_computed(name: str) -> None:
    paper = runner.load(name)
    for one in runner.data(name).statements:
        band = runner.band_of(one, *(runner.printed(paper, source) for source in (one.paper, one.oracle)))
        assert (band is None) == (not one.band), one.id


@pytest.mark.parametrize("name", PAPERS)
def test_every_note_is_in_the_document(name: str) -> None:
    assert {one.note for one in runner.data(name).statements} - {""} <= anchors()


@pytest.mark.parametrize("name", PAPERS)
def test_every_published_value_is_that_of_a_claim_and_what_is_missing_is_told(name: str) -> None:
    stored = stored_values(name)
    stated = [one.id for one in runner.data(name).statements]
    assert set(stored.of) <= set(stated)
    missing = [id for id in stated if id not in stored.of]
    text = (ROOT / "validation" / f"{name}.md").read_text(encoding="utf-8")
    assert (f"Not measured yet: {', '.join(missing)}." in text) == bool(missing)


@pytest.mark.parametrize("name", PAPERS)
def test_published_values_are_written_as_they_are_read(name: str, tmp_path: Path) -> None:
    again = tmp_path / "values.json"
    values.write(again, stored_values(name))
    assert again.read_text(encoding="utf-8") == (ROOT / f"validation/{name}.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PAPERS)
def test_the_published_table_has_the_verdicts_on_the_published_values(name: str) -> None:
    table = ROOT / "validation" / f"{name}.md"
    stored = stored_values(name)
    text = table.read_text(encoding="utf-8")
    computed = output.markdown(runner.judge(name, stored), table)
    without_version = re.compile(r"^Made by .*", re.MULTILINE)
    assert without_version.sub("", text) == without_version.sub("", computed)


@pytest.mark.parametrize("name", PAPERS)
def test_nothing_published_has_an_explanation_that_is_no_miss(name: str) -> None:
    of = {claim.id: claim for claim in published(name)}
    for one in runner.data(name).statements:
        if one.explained_by and one.id in of:
            assert of[one.id].verdict == "not reproduced", f"{one.id}: nothing to explain"
            assert of[one.explained_by].verdict == "reproduced", f"{one.explained_by}: does not hold"


@pytest.mark.parametrize("name", PAPERS)
def test_an_explanation_keeps_the_band_or_asks_an_oracle(name: str) -> None:
    stated = {one.id: one for one in runner.data(name).statements}
    for one in stated.values():
        if one.explained_by:
            by = stated[one.explained_by]
            alike = (by.band, by.bound) == (one.band, one.bound)
            assert alike or by.source == "oracle", f"{one.id} and {by.id} have other bands"


@pytest.mark.parametrize("name", PAPERS)
def test_what_acceptance_is_quoted_for_is_in_its_list(name: str) -> None:
    text = (ROOT / "validation" / "acceptance.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| ([A-Z]{2,3}-[SE]\d+) \|", text, re.MULTILINE))
    quoted = {one.experiment for one in runner.data(name).statements if one.source == "acceptance"}
    assert quoted <= listed


def test_every_link_of_the_published_tables_leads_somewhere() -> None:
    for name in PAPERS:
        text = (ROOT / "validation" / f"{name}.md").read_text(encoding="utf-8")
        assert set(re.findall(r"deviations\.md#([^)]+)\)", text)) <= anchors()


def stated(band: str, bound: object = None) -> Statement:
    return Statement("X-E1.q", "a claim", Computed("q", {}), band, bound)


@pytest.mark.parametrize(
    ("claim", "ours", "paper", "oracle", "verdict", "band"),
    [
        (stated("within", [1, 2]), 1.5, None, None, "reproduced", "1 to 2"),
        (stated("within", [1, 2]), Interval(2.5, 1.5, 3.5, 30), None, None, "undecided", "1 to 2"),
        (stated("at_most", 2), 2.5, None, None, "not reproduced", "≤ 2"),
        (stated("at_least", 2), 2.5, None, None, "reproduced", "≥ 2"),
        (stated("equals", "3"), 3, None, None, "reproduced", "3"),
        (stated("oracle_range", True), 2.0, None, [1.0, 3.0], "reproduced", "1 to 3"),
        (stated("oracle_range", True), 4.0, None, [1.0, 3.0], "not reproduced", "1 to 3"),
        (stated("near", {"of": "paper", "points": 0.5}), 3.9, 3.5, None, "reproduced", "3 to 4"),
        (stated("near", {"of": "paper", "percent": 10}), 3.9, 3.5, None, "not reproduced", "3.15 to 3.85"),
        (stated("near", {"of": "oracle", "factor": 2}), 3.9, None, 2, "reproduced", "1 to 4"),
        (stated(""), 3.9, None, None, "reported", "none"),
    ],
)
def test_a_verdict_follows_from_value_and_band(
    claim: Statement, ours: object, paper: object, oracle: object, verdict: str, band: str
) -> None:
    evaluated = evaluate(claim, ours, paper, oracle)
    assert (evaluated.verdict, evaluated.band) == (verdict, band)


def test_a_run_without_maps_is_a_whole_one_and_one_without_an_experiment_is_not() -> None:
    stated = runner.data("newcwv")
    done = [id for id in stated.experiments if id != "CWV-M"]
    assert "CWV-M" in stated.experiments
    assert runner.is_whole(stated, done)
    assert runner.is_whole(stated, list(stated.experiments))
    assert not runner.is_whole(stated, done[1:])


@pytest.mark.parametrize("name", PAPERS)
def test_each_part_of_a_report_shows_experiments_of_its_paper_and_each_published_table_is_one(
    name: str,
) -> None:
    paper, known = runner.load(name), set(runner.experiments(name))
    assert all(set(of) <= known for of in (paper.headline.of, *(table.of for table in paper.tables)))
    titles = [table.title for table in stored_values(name).tables]
    assert len(set(titles)) == len(titles) == len(paper.tables)


def test_a_part_of_a_report_is_renewed_with_all_experiments_that_it_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def table(title: str, note: str = "new") -> Callable[[Any], Table]:
        return lambda _runs: Table(title, [], [], note)

    paper = replace(
        runner.load("catnip"),
        headline=Part(lambda _runs: "new", ["CAT-E2", "CAT-E1"]),
        tables=[
            Part(table("one"), ["CAT-E1"]),
            Part(table("two"), ["CAT-E1", "CAT-E2"]),
            Part(table("all")),
        ],
        seeds=lambda _runs: [1],
    )
    stored = stored_values("catnip")
    first_of = {one.experiment: one for one in reversed(runner.data("catnip").statements)}

    def reproduced(*chosen: str, missing: str = "", is_first: bool = False) -> Reproduction:
        of = {id: one for id, one in stored.of.items() if id.split(".")[0] in chosen}
        which = {"no root": [first_of[missing]]} if missing else {}
        monkeypatch.setattr(runner, "_measured", lambda *_: (SimpleNamespace(measured_by=""), of, which))
        before = replace(
            stored, headline="old", tables=[table(title, "old")(None) for title in ("two", "one", "all")]
        )
        request = Request("catnip", chosen)
        return runner.reproduce(request, Progress(quiet=True), None if is_first else before)

    def shown(outcome: Reproduction) -> dict[str, str]:
        return {"headline": outcome.headline, **{one.title: one.note for one in outcome.tables}}

    monkeypatch.setattr(runner, "load", lambda _: paper)
    monkeypatch.setattr(runner, "_drawn", lambda *_: [])
    old = {"headline": "old", "two": "old", "one": "old", "all": "old"}
    assert shown(reproduced("CAT-E1")) == {**old, "one": "new"}
    assert shown(reproduced("CAT-E1", "CAT-E2")) == {**old, "headline": "new", "one": "new", "two": "new"}
    assert shown(reproduced("CAT-E1", "CAT-E2", missing="CAT-E2")) == {**old, "one": "new"}
    assert shown(reproduced("CAT-E2")) == old
    assert shown(reproduced("CAT-E1", is_first=True)) == {"headline": "Only CAT-E1.", "one": "new"}


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
        ("bound = 1", "claim A.q: bound: there is no such key"),
        ("within = [1, 2]\nat_most = 2", "claim A.q: at_most: cannot be combined with within"),
        ("at_most = 2", "claim A.q: source: missing, and a band needs one"),
        ('at_most = 2\nsource = "hope"', "claim A.q: source = hope: expected one of acceptance, paper"),
        ('source = "paper"', "claim A.q: source: the claim has no band"),
        ('note = "why"', "claim A.q: note: the claim has no band"),
        (
            'at_most = 2\nsource = "paper"\nexplained_by = "A.z"',
            "claim A.q: explained_by = A.z: there is no such claim",
        ),
        (
            '[[claim]]\nexperiment = "A"\nsays = "other words"\nquantity = "q"',
            "claim A.q: case: another claim has the same id",
        ),
        (
            '[[claim]]\nexperiment = "B"\nsays = "s"\nquantity = "q"',
            "claim B.q: experiment = B: not in [experiments]",
        ),
        ('case = "{k}"\neach = { j = [1] }', "claim A.q.k: each: 'k' is missing"),
    ],
)
def test_a_wrong_claim_is_one_error_that_names_it(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "claims.toml"
    claim = f'[[claim]]\nexperiment = "A"\nsays = "s"\nquantity = "q"\n{text}\n'
    file.write_text(f'title = "T"\n[experiments]\nA = "a"\n[figures]\n{claim}')
    with pytest.raises(InputError, match=re.escape(message)):
        statement.read(file)


def test_a_claim_for_each_combination(tmp_path: Path) -> None:
    file = tmp_path / "claims.toml"
    file.write_text(
        'title = "T"\n[experiments]\nA = "a"\n[figures]\n[[claim]]\nexperiment = "A"\n'
        'says = "{k} of {name}"\nquantity = "q"\nwith = { k = "{k}", of = "{name}", is_new = true }\n'
        'at_most = "{k}"\nsource = "own"\neach = { name = ["x", "y"], k = [1, 2] }\n'
    )
    statements = statement.read(file).statements
    assert [one.id for one in statements] == [
        "A.q.1-x-is_new",
        "A.q.2-x-is_new",
        "A.q.1-y-is_new",
        "A.q.2-y-is_new",
    ]
    assert [one.says for one in statements] == ["1 of x", "2 of x", "1 of y", "2 of y"]
    assert (
        [one.bound for one in statements] == [one.ours.arguments["k"] for one in statements] == [1, 2, 1, 2]
    )

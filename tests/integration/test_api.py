"""Tests of the Python interface against its documentation."""

import doctest
import json
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pytest import approx

import catnip
from catnip import InputError, api
from catnip.analysis import summary
from catnip.base import paths
from catnip.base.programs import cannot_emulate
from conftest import Run
from pages import blocks

PIPE: dict[str, Any] = {
    "id": "PIPE",
    "title": "A document <through> a pipe",
    "node": {"server": {"kind": "host"}, "client": {"kind": "host"}},
    "link": {
        "pipe": {"from": "server", "to": "client", "rate": "2Mbit", "delay": "20ms", "queue": "drop-tail:20"}
    },
    "traffic": {"document": {"kind": "bulk", "from": "server", "to": "client", "bytes": "64KB"}},
    "axis": [{"key": "link.pipe.queue", "values": ["drop-tail:5", "drop-tail:20"]}],
}


@pytest.mark.parametrize("module", [catnip, api], ids=["catnip", "catnip.api"])
def test_the_examples_in_docstrings_answer_what_they_print(module: Any) -> None:
    tests = doctest.DocTestFinder().find(module, globs={})
    shown = [test for test in tests if test.examples]
    assert shown
    for test in shown:
        if "catnip.link(" in str(test.docstring) and (reason := cannot_emulate()):
            pytest.skip(reason)
        report: list[str] = []
        doctest.DocTestRunner().run(test, out=report.append)
        assert not report, "".join(report)


def test_the_page_about_python_can_be_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in blocks("python.md", "python"):
        exec(compile(block, "python.md", "exec"), names)
    assert names["again"].to_pandas("runs").equals(names["results"].to_pandas("runs"))


def test_real_programs_run_behind_a_link_while_it_is_open() -> None:
    if reason := cannot_emulate():
        pytest.skip(reason)
    [block] = blocks("python.md", "python emulator")
    names: dict[str, Any] = {"catnip": catnip}
    exec(compile(block, "python.md", "exec"), names)
    certificate = names["link"].certificate
    assert certificate["verdict"] == "green"
    with pytest.raises(subprocess.CalledProcessError):
        names["link"].run(["true"], check=True)


def test_a_link_that_cannot_be_says_why() -> None:
    if reason := cannot_emulate():
        pytest.skip(reason)
    with pytest.raises(InputError, match='--rate: "5": expected a rate'), catnip.link(rate=5):
        pass


def test_a_run_in_python_is_that_of_the_command_line(tmp_path: Path, run_: Run) -> None:
    results = catnip.run(PIPE, seeds=3)
    file = tmp_path / "pipe.toml"
    import tomli_w  # noqa: PLC0415

    file.write_text(tomli_w.dumps(PIPE))
    printed = json.loads(run_("run", file, "--seeds", 3, "--json").out)
    assert results.axes == printed["axes"]
    assert catnip.run(file, seeds=[1, 2, 3]).to_pandas().equals(results.to_pandas())
    for name, variant in printed["variants"].items():
        of = results.summary[name].groups["document"]
        for key, interval in variant["groups"]["document"]["means"].items():
            assert of.means[key].mean == approx(interval["mean"])
    results.save(tmp_path / "saved")
    reread = catnip.read(tmp_path / "saved")
    assert str(reread.summary) == str(results.summary)
    assert reread.to_pandas("connections").equals(results.to_pandas("connections"))


def test_frames_have_variants_by_name_and_axes_as_columns() -> None:
    results = catnip.run(PIPE, seeds=2, series="100ms")
    frame = results.to_pandas("connections")
    assert frame.groupby("link.pipe.queue").size().to_dict() == {"drop-tail:20": 2, "drop-tail:5": 2}
    polar = results.to_polars("connection_series")
    assert set(polar["variant"].unique()) == set(results.variants)
    assert polar["time_s"].min() == approx(0.1)


def test_a_notebook_shows_results_as_tables_of_text() -> None:
    html = catnip.run(PIPE, seeds=1)._repr_html_()
    assert "<caption>A document &lt;through&gt; a pipe (seed 1)</caption>" in html
    assert html.count("<td>queue=drop-tail:5</td>") == 2, "its transfers and its links"
    assert repr(catnip.run(PIPE, seeds=2)) == (
        "<catnip.Results 'A document <through> a pipe': 2 variants, 2 seeds>"
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"scenario": "slow-stat"}, "did you mean slow-start"),
        ({"scenario": Path("nothere.toml")}, "nothere.toml: "),
        ({"scenario": PIPE, "seeds": 0}, "seeds: 0: expected at least one"),
        (
            {"scenario": PIPE, "seeds": [-1]},
            "seeds: -1: expected a whole number from 0 to 4611686018427387904",
        ),
        ({"scenario": PIPE, "variants": ["x"]}, "variants: 'x' is not one of queue=drop-tail:5, "),
        ({"scenario": PIPE, "tables": ["x"]}, "tables: "),
        ({"scenario": PIPE, "series": "0s"}, 'series: "0s": expected at least 1us'),
        ({"scenario": {"id": None}}, "scenario: "),
        ({"scenario": {"id": "X"}}, "scenario: "),
    ],
)
def test_what_is_wrong_is_said_in_one_line(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as error:
        catnip.run(**arguments)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_summary_needs_its_tables(tmp_path: Path) -> None:
    from catnip.store import results  # noqa: PLC0415

    scenario = paths.scenario("slow-start")
    tables = scenario.run(scenario.variants, [1], ["runs"])
    results.write(tmp_path, results.Manifest.of(scenario, scenario.variants, [1]), tables)
    with pytest.raises(InputError, match="a summary also needs groups, transfers, ports"):
        _ = catnip.read(tmp_path).summary
    with pytest.raises(InputError, match="'pages': no such table; there are runs"):
        catnip.read(tmp_path).to_arrow("pages")


def test_importing_loads_nothing_that_takes_time() -> None:
    slow = ("numpy", "scipy", "pyarrow", "matplotlib", "rich", "click", "catnip._core")
    script = f"import catnip, sys; print([name for name in {slow} if name in sys.modules])"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"
    assert set(catnip.__all__) == set(dir(catnip))
    with pytest.raises(AttributeError, match="nothere"):
        _ = catnip.nothere


def test_a_scenario_travels_by_value_with_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "scenarios"
    folder.mkdir()
    (folder / "base.toml").write_text(Path(paths.scenario("catnip-e4").path).read_text().replace("../", ""))
    reference = Path(paths.scenario("catnip-e4").path).parents[1] / "reference"
    shutil.copytree(reference, folder / "reference")
    (folder / "own.toml").write_text('base = "base.toml"\nid = "OWN"\n')
    own = paths.scenario(str(folder / "own.toml"), [("seeds", "3")])
    travelled = pickle.dumps(own)
    before = api.run(own, seeds=1, variants=own.variants[:1]).tables["pages"]
    shutil.rmtree(folder)
    there = pickle.loads(travelled)
    assert there.text == own.text
    after = api.run(there, seeds=1, variants=own.variants[:1]).tables["pages"]
    assert list(after["time_s"]) == list(before["time_s"])
    with pytest.raises(InputError, match=r"base\.toml: No such file"):
        pickle.dumps(own)


def test_tables_come_as_arrays_of_equal_length() -> None:
    results = catnip.run(PIPE, seeds=[4, 2, 4])
    assert results.seeds == [2, 4]
    assert set(summary.TABLES) <= set(results.tables)
    for name, table in results.tables.items():
        lengths = {len(np.asarray(column)) for column in table.values()}
        assert len(lengths) == 1, name


@pytest.fixture
def run_(catnip: Run) -> Run:
    """Returns the runner of the command line; its usual name, `catnip`, is the package in this module."""
    return catnip


def test_keys_are_set_as_on_the_command_line() -> None:
    changes = {"link.pipe.delay": "30ms", "traffic.document.count": 2, "seeds": 3}
    shown = catnip.run(PIPE, set={"link.pipe.delay": "30ms", "seeds": 3})
    assert shown.seeds == [1, 2, 3] and shown.scenario is not None
    assert "# Set: link.pipe.delay = 30ms\n# Set: seeds = 3\n" in shown.scenario.text
    again = catnip.run(shown.scenario, set={"link.pipe.rate": "1Mbit"})
    assert again.scenario is not None and again.scenario.text.startswith("# Set: link.pipe.delay = 30ms\n")
    for key, changed in shown.tables["connections"].items():
        assert len(changed) == len(again.tables["connections"][key])
    with pytest.raises(InputError, match=r"traffic\.document\.count: unknown"):
        catnip.run(PIPE, set=changes)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"set": [("seeds", 3)]}, "set: [('seeds', 3)]: expected a dict of keys and values"),
        ({"set": {3: "seeds"}}, "set: 3: expected the path of a key, such as 'link.line.rate'"),
        ({"set": {"seeds": object}}, "set: seeds: "),
        ({"variants": "queue=drop-tail:5"}, "variants: 'queue=drop-tail:5': expected a list of names"),
        ({"variants": []}, "variants: expected at least one"),
        ({"variants": [3]}, "variants: 3: expected a name"),
        ({"variants": 3}, "variants: 3: expected a list of names"),
        ({"tables": "pages"}, "tables: 'pages': expected a list of names"),
        ({"tables": [None]}, "tables: None: expected a name"),
    ],
)
def test_arguments_that_make_no_sense_are_one_line(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError) as refused:
        catnip.run(PIPE, **arguments)
    assert str(refused.value).startswith(told) and "\n" not in str(refused.value)


def test_differences_and_the_report_are_those_of_the_command_line(tmp_path: Path) -> None:
    results = catnip.run(PIPE, seeds=4)
    less = results.differences("queue=drop-tail:5")
    assert list(less) == ["queue=drop-tail:20"]
    groups = [results.summary[name].groups["document"] for name in results.variants]
    assert less["queue=drop-tail:20"]["document"] == groups[1].less(groups[0])
    results.report(tmp_path / "report.html", against="queue=drop-tail:5")
    page = (tmp_path / "report.html").read_text()
    assert "Difference to queue=drop-tail:5" in page and "<svg" in page
    with pytest.raises(InputError, match=r"^--against: 'queue=red' is none of "):
        results.differences("queue=red")

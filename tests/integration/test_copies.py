"""Tests of copies of results: pickled and copied ones are equal, and nothing that is read is unpickled."""

import ast
import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import catnip
from catnip import api
from catnip.api import Results
from conftest import Run
from plans import LINE

PACKAGE = Path(api.__file__).parent
UNPICKLERS = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
LOSSY = (
    """
id = "X-6"
title = "Files over a lossy line"
"""
    + LINE
    + """
rate = "1Mbit"
delay = "5ms"
queue = "drop-tail:8"
loss = "bernoulli:0.05"
[traffic.file]
kind = "bulk"
from = "server"
to = "client"
bytes = "32KB"
[[axis]]
key = "link.line.delay"
values = ["5ms", "20ms"]
"""
)
COPIES: dict[str, Callable[[Results], Results]] = {
    "pickled": lambda results: pickle.loads(pickle.dumps(results)),
    "pickled as by the first Python 3": lambda results: pickle.loads(pickle.dumps(results, 3)),
    "copied": copy.copy,
    "copied deeply": copy.deepcopy,
}


@pytest.fixture
def lossy(tmp_path: Path) -> Path:
    """Returns the file of a scenario."""
    (tmp_path / "mine").mkdir()
    file = tmp_path / "mine" / "lossy.toml"
    file.write_text(LOSSY)
    return file


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("is_summarized", [False, True])
def test_a_copy_has_equal_tables_summary_and_differences(lossy: Path, how: str, is_summarized: bool) -> None:
    results = catnip.run(lossy, seeds=4, series="500ms")
    if is_summarized:
        _ = results.summary
    assert_equal(COPIES[how](results), results)


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_of_what_was_read_is_equal_too(run_: Run, lossy: Path, tmp_path: Path, how: str) -> None:
    options = ["--seeds", 2, "--until", "goodput_mbps 1%", "--out", tmp_path / "out", "-q"]
    assert run_("run", lossy, *options).code == 0
    read = catnip.read(tmp_path / "out")
    there = COPIES[how](read)
    assert there.seed_counts == read.seed_counts
    assert_equal(there, read)


def test_a_deep_copy_has_tables_of_its_own_and_needs_no_file(lossy: Path) -> None:
    results = catnip.run(lossy, seeds=2)
    lossy.unlink()
    there = copy.deepcopy(results)
    assert there.scenario is results.scenario
    ours, theirs = (np.asarray(of.tables["groups"]["goodput_mbps"]) for of in (results, there))
    assert not np.shares_memory(ours, theirs)


def test_another_process_has_the_scenario_and_saves_the_same_bytes(lossy: Path, tmp_path: Path) -> None:
    results = catnip.run(lossy, seeds=2)
    results.save(tmp_path / "here")
    script = "import pickle, sys; pickle.load(sys.stdin.buffer).save(sys.argv[1])"
    words = [sys.executable, "-c", script, str(tmp_path / "there")]
    subprocess.run(words, input=pickle.dumps(results), check=True, timeout=60)
    here, there = (
        {file.name: file.read_bytes() for file in (tmp_path / name).iterdir()} for name in ("here", "there")
    )
    assert here == there


def test_no_file_of_results_is_ever_unpickled() -> None:
    # Steps of a paper, which are no results, have a reader that makes nothing but data.
    parts = [PACKAGE / part for part in ("store", "analysis", "report", "figures", "cli")]
    found = []
    for file in [PACKAGE / "api.py", *(file for part in parts for file in sorted(part.rglob("*.py")))]:
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            found += [f"{file}: {name}" for name in names if name.partition(".")[0] in UNPICKLERS]
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                found.append(f"{file}: allow_pickle")
    assert not found


def assert_equal(there: Results, here: Results) -> None:
    """Asserts that two results say the same."""
    assert list(there.tables) == list(here.tables)
    for name, table in here.tables.items():
        assert list(there.tables[name]) == list(table)
        for key, column in table.items():
            ours, theirs = np.asarray(column), np.asarray(there.tables[name][key])
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(theirs, ours, f"{name}.{key}")
    for key in ("title", "variants", "seeds", "axes", "series", "seed_counts"):
        assert getattr(there, key) == getattr(here, key)
    assert str(there.summary) == str(here.summary)
    assert str(there.differences("delay=5ms")) == str(here.differences("delay=5ms"))
    assert there._repr_html_() == here._repr_html_()
    texts: list[Any] = [None if of.scenario is None else of.scenario.text for of in (there, here)]
    assert texts[0] == texts[1]


@pytest.fixture
def run_(catnip: Run) -> Run:
    """Returns the runner of the command line; its usual name, `catnip`, is the package in this module."""
    return catnip

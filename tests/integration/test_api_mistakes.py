"""Tests of wrong arguments of the Python interface: each is an InputError of one line; no file changes."""

from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_api import PIPE

import catnip
from catnip import InputError
from catnip.api import Results

SHORT, LONG = "queue=drop-tail:5", "queue=drop-tail:20"


@pytest.fixture(scope="module")
def results() -> Results:
    return catnip.run(PIPE, seeds=[1, 4])


def nested(depth: int) -> dict[str, Any]:
    """Returns a dict in a dict in a dict …"""
    inner: dict[str, Any] = {}
    for _ in range(depth):
        inner = {"a": inner}
    return inner


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"scenario": None}, "scenario: None: expected a file, a name, a dict or a Scenario"),
        ({"scenario": b"pipe"}, "scenario: b'pipe': expected a file"),
        ({"scenario": {3: 3}}, "scenario: Invalid mapping key '3'"),
        ({"scenario": nested(5000)}, "scenario: maximum recursion depth"),
        ({"scenario": {**PIPE, "title": "\ud800"}}, "scenario: 'utf-8' codec can't encode"),
        ({"seeds": -1}, "seeds: -1: expected a whole number"),
        ({"seeds": 1.5}, "seeds: 1.5: expected a whole number"),
        ({"seeds": "3"}, "seeds: '3': expected a whole number"),
        ({"seeds": True}, "seeds: True: expected a whole number"),
        ({"seeds": []}, "seeds: []: expected at least one"),
        ({"seeds": [np.nan]}, "seeds: nan: expected a whole number"),
        ({"seeds": range(10**12)}, "seeds: range(0, 1000000000000): expected at most 100000"),
        ({"seeds": count(1)}, "seeds: count("),
        ({"variants": [SHORT, LONG, SHORT]}, f"variants: {SHORT!r} is there twice"),
        ({"variants": {}}, "variants: expected at least one"),
        ({"tables": []}, "tables: expected at least one"),
        ({"tables": None}, "tables: None: expected a list of names"),
        ({"series": 3}, "series: 3: expected an interval"),
        ({"threads": -1}, "threads: -1: expected a whole number from 0 to 4096"),
        ({"threads": False}, "threads: False: expected a whole number"),
        ({"set": {"link.pipe.queue": "\ud800"}}, "set: link.pipe.queue: 'utf-8' codec can't encode"),
        ({"set": {"seeds": None}}, "set: seeds: "),
        ({"set": {"": 3}}, "scenario: "),
    ],
)
def test_a_wrong_argument_of_run_is_one_line(arguments: dict[str, Any], told: str) -> None:
    assert_refused(lambda: catnip.run(**{"scenario": PIPE, "seeds": 1, **arguments}), told)


@pytest.mark.parametrize("folder", [None, 3, b"/tmp", "", "a\0b"])
def test_what_is_no_path_is_one_line(results: Results, folder: Any) -> None:
    for call in (catnip.read, results.save):
        assert_refused(partial(call, folder), "folder: ")
    assert_refused(lambda: results.report(folder), "file: ")


def test_a_file_that_cannot_be_written_is_one_line(results: Results, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert_refused(lambda: results.report(tmp_path), f"report: {tmp_path}: Is a directory")
    for name in ("nothere/page.html", "file/page.html"):
        assert_refused(partial(results.report, tmp_path / name), f"report: {tmp_path / name}: ")
    assert_refused(lambda: results.save(tmp_path / "file"), f"save: {tmp_path / 'file'}")
    assert_refused(lambda: catnip.read(tmp_path / "file"), f"{tmp_path / 'file'}")
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "x"


@pytest.mark.parametrize("against", [None, 3, [], [SHORT], "", "x", "queue=", "queue=red", "delay=5ms"])
def test_what_cannot_be_compared_with_is_one_line(results: Results, tmp_path: Path, against: Any) -> None:
    told = "--against: " if isinstance(against, str) else "against: "
    assert_refused(lambda: results.differences(against), told)
    if against is not None:
        assert_refused(lambda: results.report(tmp_path / "page.html", against), told)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("variants", "seeds", "told"),
    [
        (["x"], [1], "variants: 'x' is not one of "),
        ([], [1], "variants: expected at least one"),
        (SHORT, [1], f"variants: {SHORT!r}: expected a list of names"),
        (None, [1], "variants: None: expected a list of names"),
        ([SHORT, SHORT], [1], f"variants: {SHORT!r} is there twice"),
        ([SHORT], [2], "seeds: 2 is not one of these results"),
        ([SHORT], [], "seeds: []: expected at least one"),
        ([SHORT], 1, "seeds: 1: expected a list of whole numbers"),
        ([SHORT], ["1"], "seeds: '1': expected a whole number"),
        ([SHORT], [-1], "seeds: -1: expected a whole number"),
        ([SHORT], None, "seeds: None: expected a list of whole numbers"),
    ],
)
def test_what_results_do_not_have_is_one_line(results: Results, variants: Any, seeds: Any, told: str) -> None:
    assert_refused(lambda: results.only(variants, seeds), told)


@pytest.mark.parametrize("table", ["x", "", 3, None, [], {}])
def test_a_table_that_is_not_there_is_one_line(results: Results, table: Any) -> None:
    for call in (results.to_arrow, results.to_pandas, results.to_polars):
        assert_refused(partial(call, table), f"{table!r}: no such table; there are connections, ")


def test_what_there_is_is_chosen(results: Results) -> None:
    some = results.only((LONG,), range(4, 5))["groups"]
    assert list(some["seed"]) == [4] and list(some["variant"]) == [0]


def assert_refused(call: Callable[[], object], told: str) -> None:
    with pytest.raises(InputError) as refused:
        call()
    assert str(refused.value).startswith(told) and "\n" not in str(refused.value)

"""Tests of files that commands write, and of damaged results."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import catnip as package
from catnip.base import files
from catnip.cli.options import BAD_INPUT
from conftest import Run

SCENARIO = "slow-start"
ENDLESS = """
id = "X"
title = "Endless"
duration = "2s"
[node]
a = { kind = "host" }
b = { kind = "host" }
[link.line]
from = "a"
to = "b"
rate = "1Mbit"
delay = "5ms"
queue = "drop-tail:10"
[traffic.flow]
kind = "bulk"
from = "a"
to = "b"
bytes = "endless"
"""


def test_results_are_printed_although_the_report_cannot_be_written(catnip: Run) -> None:
    ended = catnip("run", SCENARIO, "--seeds", "1", "--report", "/dev/full")
    assert ended.code == BAD_INPUT
    assert "Slow start without loss" in ended.out
    assert ended.err == "error: /dev/full: No space left on device\n"


@pytest.mark.parametrize("option", ["--report", "--plot", "--qlog", "--packets"])
def test_a_file_whose_name_tells_another_format_is_refused_before_the_run(
    catnip: Run, tmp_path: Path, option: str
) -> None:
    ended = catnip("run", SCENARIO, option, tmp_path / "x.odt")
    assert (ended.code, ended.out) == (BAD_INPUT, "")
    assert ended.err.startswith(f"error: {option}: {tmp_path}/x.odt: expected a file name that ends in .")


@pytest.mark.parametrize(("subject", "missing"), [("times", "transfer times"), ("axis", "axis")])
def test_a_plot_of_what_is_not_there_is_refused_before_the_run(
    catnip: Run, tmp_path: Path, subject: str, missing: str
) -> None:
    file, plot = tmp_path / "x.toml", tmp_path / "x.svg"
    file.write_text(ENDLESS)
    ended = catnip("run", file, "--plot", plot, "--plot-of", subject)
    assert (ended.code, ended.out) == (BAD_INPUT, "")
    assert ended.err == f"error: --plot-of: {subject}: the scenario has no {missing}\n"


def test_a_series_that_no_memory_can_hold_is_refused_before_the_run(catnip: Run, tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text(ENDLESS.replace("2s", "1000min"))
    for every, problem in (("1ns", "expected at least 1us"), ("1us", "needs about ")):
        ended = catnip("run", file, "--series", every, "--out", tmp_path / "out")
        assert ended.code == BAD_INPUT
        assert f'series: "{every}": {problem}' in ended.err


def test_a_file_that_cannot_be_written_keeps_what_it_had(tmp_path: Path) -> None:
    file = tmp_path / "x.html"
    files.write(file, "before")
    with pytest.raises(OSError, match="x\\.html"), files.replacing(file) as aside:
        aside.write_text("half")
        raise OSError(28, "No space left on device")
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("x.html", "before")]
    link = tmp_path / "link.html"
    link.symlink_to(file)
    files.write(link, "after")
    assert (link.is_symlink(), file.read_text()) == (True, "after")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"seeds": "3"}, "seeds: '3'"),
        ({"seeds": 1.5}, "seeds: 1.5"),
        ({"seeds": []}, "seeds: \\[\\]"),
        ({"seeds": [-1]}, "seeds: -1"),
        ({"seeds": 10**9}, "seeds: 1000000000"),
        ({"threads": -1}, "threads: -1"),
        ({"series": 3}, "series: 3"),
        ({"scenario": None}, "scenario: None"),
        ({"scenario": b"x"}, "scenario: b'x'"),
        ({"variants": ["none"]}, "variants: 'none'"),
    ],
)
def test_an_argument_that_means_nothing_is_an_input_error_that_names_it(
    arguments: dict[str, Any], error: str
) -> None:
    with pytest.raises(package.InputError, match=error):
        package.run(**{"scenario": SCENARIO, **arguments})


def test_numbers_of_numpy_are_numbers() -> None:
    assert list(package.run(SCENARIO, seeds=np.int64(2)).seeds) == [1, 2]
    assert package.InputError.__module__ == "catnip"


def test_damaged_results_are_an_input_error_that_names_the_file(tmp_path: Path) -> None:
    package.run(SCENARIO, seeds=2).save(tmp_path)
    chance = random.Random(1)

    def flipped(data: bytes) -> bytes:
        changed = bytearray(data)
        for _ in range(8):
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        return bytes(changed)

    damages: list[Callable[[bytes], bytes]] = [
        lambda data: data[: chance.randrange(len(data))],
        flipped,
        lambda _: b"",
        lambda _: b"hello",
        lambda _: (tmp_path / "runs.parquet").read_bytes(),
    ]
    for file in sorted(tmp_path.iterdir()):
        before = file.read_bytes()
        for damage in damages:
            file.write_bytes(damage(before))
            # A flipped bit of a value, or the table itself, may be read.
            try:
                _ = package.read(tmp_path).summary
            except package.InputError as error:
                assert str(error).startswith(str(tmp_path)), error
        file.write_bytes(before)

"""Tests of `catnip reproduce` with files: values, judging again, and going on after an interruption."""

import json
import os
import pickle
import re
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catnip._core import InputError
from catnip.base.progress import Progress
from catnip.cli.options import BAD_INPUT
from catnip.papers import parts, runner
from catnip.papers.runs import Runs
from catnip.papers.unavailable import Unavailable
from conftest import Run

PUBLISHED = Path(__file__).resolve().parents[2] / "validation"


def test_an_experiment_alone_replaces_its_values_in_those_of_its_paper(catnip: Run, tmp_path: Path) -> None:
    text = (PUBLISHED / "catnip.json").read_text(encoding="utf-8")
    stored, table = tmp_path / "catnip.json", tmp_path / "catnip.md"
    row = '"CAT-E11.small_network_counts.dropped-retransmitted-timeouts": {"ours": "3, 3, 1", "seeds": 1}'
    assert row in text
    stored.write_text(text.replace(row, row.replace("3, 3, 1", "4, 4, 4")))
    alone = ("reproduce", "catnip", "--experiment", "CAT-E11", "--values", stored, "--table", table)
    assert catnip(*alone).code in {0, 1}
    assert row in stored.read_text(encoding="utf-8")
    without_version = re.compile(r"^Made by .*|\]\(.*?#", re.MULTILINE)
    merged, whole = (
        without_version.sub("", file.read_text(encoding="utf-8")) for file in (table, PUBLISHED / "catnip.md")
    )
    assert merged.splitlines() == whole.splitlines()
    assert "short runs cannot be merged into the full results" in catnip(*alone, "--quick").err
    stored.write_text("{}", encoding="utf-8")
    assert f"--values: {stored}: not the values of a reproduction" in catnip(*alone).err


def test_stored_values_are_judged_without_a_run(catnip: Run, tmp_path: Path) -> None:
    stored, table = PUBLISHED / "today.json", tmp_path / "today.md"
    assert catnip("reproduce", "today", "--judge", "--values", stored, "--table", table).code in {0, 1}
    assert "TDY-E5" in table.read_text(encoding="utf-8")
    assert "needs --values" in catnip("reproduce", "today", "--judge").err
    other = catnip("reproduce", "catnip", "--judge", "--values", stored)
    assert "has the values of today, not of catnip" in other.err


def test_a_report_of_stored_values_has_their_figures_or_tells_which_are_missing(
    catnip: Run, tmp_path: Path
) -> None:
    stored, report, drawings = (tmp_path / name for name in ("today.json", "today.html", "drawings"))
    stored.write_bytes((PUBLISHED / "today.json").read_bytes())
    names = [figure["name"] for figure in json.loads(stored.read_text(encoding="utf-8"))["figures"]]
    drawings.mkdir()
    (drawings / f"{names[0]}.svg").write_text("<svg><title>a drawing</title></svg>", encoding="utf-8")
    judged = ("reproduce", "today", "--judge", "--values", stored, "--report", report)
    assert f"without the figures that are not in --figures DIR: {', '.join(names)}" in catnip(*judged).err
    some = catnip(*judged, "--figures", drawings)
    assert f"without the figures that are not in --figures DIR: {', '.join(names[1:])}" in some.err
    assert "<title>a drawing</title>" in report.read_text(encoding="utf-8")
    kept = json.loads(stored.read_text(encoding="utf-8"))["figures"]
    assert [figure["name"] for figure in kept] == names


def test_an_interrupted_reproduction_goes_on_and_ends_alike(catnip: Run, tmp_path: Path) -> None:
    folder = tmp_path / "parts"

    def values_of(*more: object) -> str:
        stored = tmp_path / f"{len(list(tmp_path.iterdir()))}.json"
        experiments = ("--experiment", "HYS-S2", "--experiment", "HYS-S13")
        ended = catnip("reproduce", "hysteresis", *experiments, "--seeds", 20, "--values", stored, *more)
        assert ended.code in {0, 1, 6}
        return stored.read_text(encoding="utf-8")

    whole = values_of()
    first = values_of("--out", folder, "--budget", "0.001s")
    assert "HYS-S2." in first
    assert "HYS-S13." not in first, "no further experiment is begun"
    for part in sorted(folder.glob("*.part"))[::2]:
        part.unlink()
    assert values_of("--out", folder) == whole == values_of("--out", folder)


def test_the_parts_of_another_request_are_not_used(catnip: Run, tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    parts.opened(folder, {"paper": "hysteresis", "quick": False, "seeds": 20, "seed": 1})
    other = catnip("reproduce", "hysteresis", "--seeds", 21, "--out", folder)
    assert other.code == 2
    assert "has results for seeds = 20, not 21; choose another folder or remove it" in other.err


def test_the_parts_of_another_program_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = parts.opened(tmp_path / "parts", {"paper": "catnip"})
    assert before.get("a step", lambda: 1) == 1
    assert parts.opened(tmp_path / "parts", {"paper": "catnip"}).get("a step", lambda: 2) == 1
    monkeypatch.setattr(parts, "program", lambda: "changed")
    assert parts.opened(tmp_path / "parts", {"paper": "catnip"}).get("a step", lambda: 2) == 2


def test_a_measurement_that_fails_loses_none_that_ended_before(tmp_path: Path) -> None:
    runs = Runs(False, None, 1, Progress(quiet=True), parts=parts.opened(tmp_path / "parts", {}))
    begun: list[int] = []

    def measured(number: int, fails: bool) -> int:
        begun.append(number)
        if fails:
            raise InputError("no program listens")
        return number**2

    def squares(failing: int | None) -> dict[int, int]:
        jobs = {number: partial(measured, number, number == failing) for number in range(6)}
        return runs.each("squares", jobs, 1, lambda *_: None)

    with pytest.raises(InputError, match="no program listens"):
        squares(failing=3)
    assert begun[:4] == [0, 1, 2, 3]
    missing = {3, 4, 5} - set(begun[4:])
    begun.clear()
    assert squares(failing=None) == {0: 0, 1: 1, 2: 4, 3: 9, 4: 16, 5: 25}
    assert set(begun) == missing


def test_a_folder_of_other_files_or_of_others_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    with pytest.raises(InputError, match="has files that are not of a reproduction"):
        parts.opened(tmp_path, {})
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    with pytest.raises(InputError, match="another user can write to it"):
        parts.opened(open_to_all, {})


def test_a_part_that_holds_more_than_data_is_refused(tmp_path: Path) -> None:
    some = parts.opened(tmp_path / "parts", {})
    made = {"a": np.arange(3), "b": (1.5, "x")}
    assert some.get("sizes", lambda: made) is made
    assert some.get("sizes", dict[str, Any])["b"] == (1.5, "x")
    [file] = (tmp_path / "parts").glob("*.part")
    file.write_bytes(pickle.dumps(os.getcwd))
    with pytest.raises(InputError, match=r"not a part of a reproduction: .*not data"):
        some.get("sizes", dict)


def test_no_paper_needs_a_library_that_users_do_not_install() -> None:
    blocked = "; ".join(f"sys.modules[{name!r}] = None" for name in ("pandas", "polars", "jsonschema"))
    load = "from catnip.papers import runner; [runner.load(name) for name in runner.PAPERS]"
    subprocess.run([sys.executable, "-c", f"import sys; {blocked}; {load}"], check=True)
    papers = PUBLISHED.parent / "python" / "catnip" / "papers"
    assert [file for file in papers.rglob("*.py") if "to_pandas" in file.read_text(encoding="utf-8")] == []


def test_what_this_machine_cannot_measure_is_left_out_and_told(
    catnip: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    paper, values = runner.load("catnip"), tmp_path / "values.json"
    options = ("--experiment", "CAT-S5", "--experiment", "CAT-S2", "--values", values)
    before = catnip("reproduce", "catnip", *options)
    assert (before.code, before.err) == (0, "")
    kept = json.loads(values.read_text())["values"]

    def missing(*_: Any, **__: Any) -> str:
        raise Unavailable("apache2: not installed (apt-get install apache2-bin)")

    lacking = replace(paper, simulated={**paper.simulated, "timeouts_after": missing})
    monkeypatch.setattr(runner, "load", lambda _: lacking)
    ended = catnip("reproduce", "catnip", "--experiment", "CAT-S2", "--json")
    assert ended.code == 0
    told = "not measured: 2 claims of CAT-S2: apache2: not installed (apt-get install apache2-bin)\n"
    assert ended.err == told
    shown = {json.loads(line)["id"] for line in ended.out.splitlines()}
    assert "CAT-S2.bursts.Reno-15" in shown
    assert not any("timeouts_after" in id for id in shown)
    catnip("reproduce", "catnip", "--experiment", "CAT-S2", "--values", values)
    assert json.loads(values.read_text())["values"] == kept, (
        "an experiment that lacks a part keeps its values"
    )
    monkeypatch.setattr(
        runner, "load", lambda _: replace(paper, simulated=dict.fromkeys(paper.simulated, missing))
    )
    ended = catnip("reproduce", "catnip", "--experiment", "CAT-S2")
    assert (ended.code, ended.out) == (BAD_INPUT, "")
    assert ended.err == "error: catnip: apache2: not installed (apt-get install apache2-bin)\n"


def test_a_quick_run_tells_what_it_leaves_out(catnip: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    paper = runner.load("catnip")
    few = replace(runner.data("catnip"), experiments={"CAT-S2": "x", "CAT-S5": "y"})
    monkeypatch.setattr(runner, "data", lambda _: few)
    monkeypatch.setattr(runner, "load", lambda _: replace(paper, quick_without=("CAT-S2",)))
    ended = catnip("reproduce", "catnip", "--quick")
    assert ended.code == 0
    assert "quick: 10 seeds; left out: CAT-S2 (--experiment runs them)" in ended.out
    assert "CAT-S2." not in ended.out
    assert "CAT-S2." in catnip("reproduce", "catnip", "--quick", "--experiment", "CAT-S2").out

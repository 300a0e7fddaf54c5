"""Tests of the tutorials: their files and commands give the printed output."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from catnip._core import Scenario
from catnip.analysis import measures
from catnip.base import paths, programs
from conftest import Run
from pages import blocks

ROOT = Path(__file__).resolve().parents[2]
WIDE = "132"


def files(page: str) -> list[str]:
    """Returns the blocks of a tutorial to save as files; the first line of each has the file's name."""
    return [text for kind in ("toml", "python") for text in blocks(page, kind) if text.startswith("# ")]


def tokens(text: str) -> list[list[str]]:
    """Returns the words of each line, so that spacing does not count in comparisons."""
    return [line.split() for line in text.splitlines() if line.strip()]


def check_page(page: str, folder: Path) -> None:
    """Follows a tutorial: writes its files into `folder`, runs its commands and compares their output."""
    for text in files(page):
        (folder / text.split()[1]).write_text(text, encoding="utf-8")
    programs = {"catnip": Path(sys.executable).with_name("catnip"), "python": Path(sys.executable)}
    for console in blocks(page, "console"):
        command, printed = console.removeprefix("$ ").split("\n", 1)
        program, *arguments = command.split()
        answer = subprocess.run(
            [programs[program], *arguments],
            cwd=folder,
            env={**os.environ, "COLUMNS": WIDE},
            capture_output=True,
            text=True,
            check=True,
        )
        assert tokens(answer.stdout) == tokens(printed)


@pytest.mark.parametrize(
    ("page", "count", "commands"),
    [("tutorial-diffserv.md", 1, 1), ("tutorial-experiments.md", 0, 3), ("tutorial-har.md", 2, 3)],
)
def test_a_tutorial_answers_what_it_prints(page: str, count: int, commands: int, tmp_path: Path) -> None:
    assert len(files(page)) == count
    assert len(blocks(page, "console")) == commands
    shutil.copy(paths.PACKAGE / "scenarios" / "pages" / "site.har", tmp_path)
    check_page(page, tmp_path)
    if page == "tutorial-har.md":
        drawn = (tmp_path / "page-times.svg").read_text(encoding="utf-8")
        assert "HTTP/1.1" in drawn and "HTTP/2" in drawn


@pytest.mark.skipif(
    bool(programs.cannot_mark() or programs.cannot_control()), reason=f"no agent: {programs.cannot_mark()}"
)
def test_the_packets_of_an_nginx_are_marked_as_the_tutorial_says(tmp_path: Path) -> None:
    build, follow = blocks("agent.md", "sh")
    assert "catnip agent check" in build
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = ["bash", "-e", "-c", follow]
    options: dict[str, Any] = {"cwd": tmp_path, "env": environment, "timeout": 60}
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {line[0]: line[1:3] for line in tokens(done.stdout) if line[0] in ("handshake", "end", "trailing")}
    shown = {line[0]: line[1:3] for line in tokens(blocks("agent.md", "text")[0])}
    assert rows == {name: shown[name] for name in rows}
    assert "1 connections" in done.stdout


@pytest.mark.parametrize(("place", "name"), [(0, "two-flows"), (1, "web-queues"), (2, "lossy-radio")])
def test_what_the_tutorial_shows_of_a_scenario_is_in_it(place: int, name: str) -> None:
    shown = blocks("tutorial-experiments.md", "toml")[place]
    complete = paths.scenario(name).text
    assert has(tomllib.loads(complete), tomllib.loads(shown))


def has(complete: Any, part: Any) -> bool:
    """Returns true if `complete` has every key of `part` and, in each array, every table of `part`."""
    if isinstance(part, dict):
        return all(key in complete and has(complete[key], value) for key, value in part.items())
    if isinstance(part, list):
        return all(any(has(one, value) for one in complete) for value in part)
    return bool(complete == part)


def test_the_numbers_that_the_tutorial_of_a_recorded_page_explains_are_those_of_its_run(
    tmp_path: Path,
) -> None:
    [scenario] = blocks("tutorial-har.md", "toml")
    har = paths.PACKAGE / "scenarios" / "pages" / "site.har"
    text = scenario.replace('"site.page.json"', f'"{har}"')
    loaded = Scenario.parse(str(tmp_path / "site.toml"), text)
    seeds = list(range(1, loaded.seeds + 1))
    tables = loaded.run(loaded.variants, seeds, ["pages", "connections"])
    counted = [
        (
            round(len(of["connection"]) / (measures.select(tables["pages"], variant)["page"].size)),
            *(int(of[key].sum()) for key in ("syn_timeouts", "timeouts", "fast_retransmits")),
        )
        for variant in range(2)
        for of in [measures.select(tables["connections"], variant)]
    ]
    assert counted == [(7, 120, 192, 243), (2, 42, 40, 335)]
    times = [measures.select(tables["pages"], variant)["time_s"] for variant in range(2)]
    assert [round(100 * float((of > 1).mean())) for of in times] == [50, 25]
    assert round(100 * float((times[0] < 0.5).mean())) == 50
    assert [f"{of.min():.2f}" for of in times] == ["0.44", "0.50"]
    prose = (ROOT / "docs" / "tutorial-har.md").read_text(encoding="utf-8")
    assert all(str(number) in prose for row in counted for number in row[1:])


def test_the_page_about_results_tells_what_a_shorter_run_of_the_tutorial_does(
    tmp_path: Path, catnip: Run
) -> None:
    [text] = (text for text in blocks("tutorial.md", "toml") if text.startswith("id ="))
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    cells = (line.split("|") for line in page.splitlines() if line.startswith("| 10"))
    rows = {row[1].strip(): row[2:-1] for row in cells}
    cut, complete = (tmp_path / name for name in ("cut.toml", "whole.toml"))
    cut.write_text('duration = "1.5s"\n' + text, encoding="utf-8")
    complete.write_text(text, encoding="utf-8")
    printed = [json.loads(catnip("run", file, "--json").out)["variants"] for file in (cut, complete)]
    for name in ("10 packets", "100 packets"):
        early, full = (variants[name]["groups"]["document"] for variants in printed)
        expected = [
            f"{early['finished']} of {early['started']}",
            f"{early['means']['completed_s']['mean']:.3f} *",
            f"{early['restricted_s']['mean']:.3f}",
            f"{full['means']['completed_s']['mean']:.3f}",
        ]
        assert [cell.strip() for cell in rows[name]] == expected
        assert f"up to {early['horizon_s']:.2f} s" in page

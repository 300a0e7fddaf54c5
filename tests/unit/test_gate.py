"""Tests of the performance gate's reference, whose changes are listed and limited in sum."""

import json
import subprocess
from pathlib import Path

import gate
import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "benches" / "README.md").read_text(encoding="utf-8")


def test_the_lines_that_raise_the_reference_stay_below_their_limit_together() -> None:
    assert gate.raised(README) <= gate.RAISED_AT_MOST


def test_the_last_line_is_that_of_the_reference_and_all_cases_are_counted() -> None:
    stored = json.loads(gate.REFERENCE.read_text(encoding="utf-8"))
    last = README.split("<!-- /gate -->")[0].strip().splitlines()[-1]
    assert last.split(" | ")[1] == stored["commit"][:7]
    assert set(stored["cases"]) == {case.name for case in gate.CASES}


def test_shares_of_lines_are_added_and_a_lower_reference_counts_against_a_raised_one() -> None:
    line = "| 2026-01-01 | 1234567 | {} % | why |\n"
    page = f"<!-- gate -->\n{line.format(1.5)}{line.format(2.0)}{line.format(-1.0)}<!-- /gate --> | 9 % |"
    assert gate.raised(page) == pytest.approx(0.025)


def test_a_miss_weighs_as_much_as_it_is_said_to() -> None:
    assert gate.Cost(instructions=600, l1_misses=3.5, last_misses=0.25).total == 600 + 35 + 25


def test_a_drift_beyond_the_tolerance_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    then = gate.Cost(1000, 0, 0)
    assert gate.told("a case", gate.Cost(1029, 0, 0), then) <= gate.TOLERANCE
    assert "off" not in capsys.readouterr().out
    assert gate.told("a case", gate.Cost(1000, 0, 0.31), then) > gate.TOLERANCE
    assert "<-- off" in capsys.readouterr().out


def test_the_reference_commit_is_in_the_history() -> None:
    commit = json.loads(gate.REFERENCE.read_text(encoding="utf-8"))["commit"]
    history = ["git", "-C", str(ROOT), "rev-list", "--count", "HEAD"]
    if subprocess.run(history, capture_output=True, check=False).returncode:
        pytest.skip("no history: not a clone")
    known = subprocess.run(["git", "-C", str(ROOT), "cat-file", "-e", commit], check=False)
    assert known.returncode == 0

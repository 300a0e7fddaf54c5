"""Tests of the commands in README.md and docs/trust.md: they print what the pages show."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pages import blocks

ROOT = Path(__file__).resolve().parents[2]
MAX_LINES = 5
"""Largest number of lines of a command's output that README.md may show."""

README = blocks("../README.md", "console")
SHOWN = [block.removeprefix("$ ").split("\n", 1) for block in (*README, *blocks("trust.md", "console"))]


@pytest.mark.parametrize(("command", "printed"), SHOWN, ids=[command for command, _ in SHOWN])
def test_a_command_prints_what_the_page_shows(command: str, printed: str, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    answer = subprocess.run(
        ["bash", "-c", command],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (answer.stdout, answer.stderr) == (printed, "")


def test_the_readme_shows_three_commands_with_few_lines_each() -> None:
    assert [len(block.splitlines()) <= 1 + MAX_LINES for block in README] == [True] * 3

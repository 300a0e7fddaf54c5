"""Tutorials are followed to the letter: files as they are printed, commands, and what they answer."""

import os
import re
import subprocess
import sys
from pathlib import Path

from catnip import paths

WIDE = "132"


def blocks(page: str, kind: str) -> list[str]:
    """The fenced blocks of a page of docs/ in one language."""
    text = (paths.root() / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{kind}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def words(text: str) -> list[list[str]]:
    """Lines without their spacing."""
    return [line.split() for line in text.splitlines() if line.strip()]


def test_the_tutorial_of_a_diffserv_domain_answers_what_it_prints(tmp_path: Path) -> None:
    files = blocks("tutorial-diffserv.md", "toml")
    for text in files:
        (tmp_path / text.split()[1]).write_text(text, encoding="utf-8")
    consoles = blocks("tutorial-diffserv.md", "console")
    assert len(files) == len(consoles) == 1
    for console in consoles:
        command, printed = console.removeprefix("$ catnip ").split("\n", 1)
        program = Path(sys.executable).with_name("catnip")
        answer = subprocess.run(
            [program, *command.split()],
            cwd=tmp_path,
            env={**os.environ, "COLUMNS": WIDE},
            capture_output=True,
            text=True,
            check=True,
        )
        assert words(answer.stdout) == words(printed)

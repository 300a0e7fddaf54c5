"""Tests of the commands in the comparison of docs/emulator.md."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from catnip._core import InputError
from catnip.base import programs

PAGE = Path(__file__).parents[2] / "docs" / "emulator.md"
ROWS = [
    [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    for line in PAGE.read_text().split("## Comparison with mahimahi")[1].splitlines()
    if line.startswith("| ")
][1:]


def missing(command: str) -> str | None:
    try:
        programs.program()
    except InputError as error:
        return str(error)
    if cannot := programs.cannot_emulate():
        return cannot
    if "--user" in command and os.geteuid() != 0:
        return "only root runs commands as others"
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    lacking = "--nat" in command and not any(
        shutil.which(name, path=path) for name in ("nft", "slirp4netns", "pasta")
    )
    return "no way out of links: none of nft, slirp4netns and pasta is installed" if lacking else None


def test_each_row_has_a_command_or_says_that_there_is_none() -> None:
    assert len(ROWS) > 30
    for feature, command, *others in ROWS:
        assert re.fullmatch(r"`catnip .+`|–", command), feature
        assert len(others) == 3 and all(others), feature


@pytest.mark.parametrize(
    ("command"), [pytest.param(row[1].strip("`"), id=row[0]) for row in ROWS if row[1] != "–"]
)
def test_a_command_of_the_comparison_runs(command: str, tmp_path: Path) -> None:
    if reason := missing(command):
        pytest.skip(reason)
    (tmp_path / "12mbit.trace").write_text("1\n2\n3\n")
    (tmp_path / "delays.txt").write_text("0.5\n1.5ms\n")
    (tmp_path / "catnip").write_text(f'#!/bin/sh\nexec {sys.executable} -m catnip "$@"\n')
    (tmp_path / "catnip").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}:/usr/sbin:/sbin"}
    # --nat changes a separate network namespace instead of the machine.
    alone = ["unshare", "--net"] if os.geteuid() == 0 else []
    done = subprocess.run(
        [*alone, "sh", "-c", command],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    # Few or no packets cross the link, so its certificate may be grey, but not red.
    assert done.returncode == 0, done.stderr

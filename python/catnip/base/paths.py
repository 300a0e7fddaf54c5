"""Where things are: the package holds all that its commands read, and it may stand in a checkout."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from catnip._core import InputError, Scenario, outline

PACKAGE = Path(__file__).resolve().parents[1]
PAPERS = PACKAGE / "papers"
MEASURED = PACKAGE / "measured"
"""What tests of single components keep."""
REFERENCE = PACKAGE / "reference"
"""The measured and worked out numbers that belong to no paper alone."""


def checkout() -> Path | None:
    """The sources around the package, unless it is an installed copy."""
    root = PACKAGE.parents[1]
    return root if (root / "crates").is_dir() else None


def deviations() -> Path:
    """The reasons of claims that miss their bands, a section each; an installed copy has no such file."""
    return PACKAGE.parents[1] / "docs" / "deviations.md"


def tables() -> list[Path]:
    """The tables of the papers: what they print, and what others measured for them."""
    return sorted(PAPERS.glob("*/reference/*.csv"))


@dataclass(frozen=True)
class Outline:
    """What a list says of a scenario file."""

    path: str
    id: str
    title: str
    seeds: int
    variants: list[str]


def outlines() -> list[Outline]:
    """The outline of every scenario, in the order of their file names; what variants do is not checked."""
    return [Outline(str(path), *outline(str(path))) for path in scenario_files()]


def scenario(name: str, changes: Sequence[tuple[str, str]] = ()) -> Scenario:
    """A scenario by path, by file name without ending, by id, or from standard input; with changed keys."""
    if name == "-":
        return Scenario.parse(name, _standard_input(), changes)
    if is_path(name):
        return Scenario.load(name, changes)
    if file := scenario_file(name):
        return Scenario.load(str(file), changes)
    known = outlines()
    for candidate in known:
        if candidate.id.lower() == name.lower():
            return Scenario.load(candidate.path, changes)
    if Path(name).is_file():
        return Scenario.load(name, changes)
    names = [spelled for one in known for spelled in (one.id, Path(one.path).stem)]
    by_small = {spelled.lower(): spelled for spelled in names}
    near = [by_small[small] for small in get_close_matches(name.lower(), by_small, 3)]
    guess = f"; did you mean {' or '.join(near)}?" if near else ""
    raise InputError(f"SCENARIO: {name} is no file and no scenario that `catnip list` shows{guess}")


def _standard_input() -> str:
    """Its text. Files that it names are beside the working directory."""
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise InputError(f"-: standard input is not UTF-8: {error.reason} at byte {error.start}") from error


def is_path(name: str) -> bool:
    """Does a scenario's name lead to its file by itself?"""
    return name.endswith(".toml") or os.sep in name


def scenario_file(name: str) -> Path | None:
    """The scenario with this file name, without ending."""
    return next((path for path in scenario_files() if path.stem == name), None)


def scenario_files() -> list[Path]:
    """Those of no paper and those of the papers, by name."""
    found = [*(PACKAGE / "scenarios").glob("*.toml"), *PAPERS.glob("*/scenarios/*.toml")]
    return sorted(found, key=lambda path: path.name)

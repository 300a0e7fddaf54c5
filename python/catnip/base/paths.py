"""Paths of the files that commands read; all but docs/deviations.md belong to the package."""

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
"""Folder of the results that tests of single components have recorded."""
REFERENCE = PACKAGE / "reference"
"""Folder of measured and computed reference values that do not belong to a single paper."""


def checkout() -> Path | None:
    """Returns the source tree around the package; None for an installed copy."""
    root = PACKAGE.parents[1]
    return root if (root / "crates").is_dir() else None


def deviations() -> Path:
    """Returns the path of docs/deviations.md, which explains why some claims miss their bands.

    An installed copy has no such file.
    """
    return PACKAGE.parents[1] / "docs" / "deviations.md"


def tables() -> list[Path]:
    """Returns the paths of the papers' reference tables: values printed in papers or measured by others."""
    return sorted(PAPERS.glob("*/reference/*.csv"))


@dataclass(frozen=True)
class Outline:
    """Id, title, number of seeds and variants of a scenario file, for lists of scenarios."""

    path: str
    id: str
    title: str
    seeds: int
    variants: list[str]


def outlines() -> list[Outline]:
    """Returns the outline of every scenario, in the order of file names; the variants are not checked."""
    return [Outline(str(path), *outline(str(path))) for path in scenario_files()]


def scenario(name: str, changes: Sequence[tuple[str, str]] = ()) -> Scenario:
    """Returns the scenario with the path, file name without suffix, or id `name`; `-` is standard input.

    `changes` lists keys of the scenario with their new values.
    """
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
    similar = [by_small[small] for small in get_close_matches(name.lower(), by_small, 3)]
    guess = f"; did you mean {' or '.join(similar)}?" if similar else ""
    raise InputError(f"SCENARIO: {name} is neither a file nor a scenario of `catnip list`{guess}")


def _standard_input() -> str:
    """Returns the text of standard input; raises InputError if it is not UTF-8."""
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise InputError(f"-: standard input is not UTF-8: {error.reason} at byte {error.start}") from error


def is_path(name: str) -> bool:
    """Returns true if the name of a scenario is a path."""
    return name.endswith(".toml") or os.sep in name


def scenario_file(name: str) -> Path | None:
    """Returns the path of the bundled scenario with this file name, without suffix; None if there is none."""
    return next((path for path in scenario_files() if path.stem == name), None)


def scenario_files() -> list[Path]:
    """Returns the paths of all bundled scenarios, those of papers included, in the order of file names."""
    found = [*(PACKAGE / "scenarios").glob("*.toml"), *PAPERS.glob("*/scenarios/*.toml")]
    return sorted(found, key=lambda path: path.name)

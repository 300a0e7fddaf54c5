"""Where the checkout is: scenarios and reference numbers are files in it, not part of the package."""

import os
from pathlib import Path

from catnip._core import InputError, Scenario


def root() -> Path:
    """The checkout: $CATNIP_ROOT, else the nearest one around the working directory or the package."""
    if named := os.environ.get("CATNIP_ROOT"):
        if not _is_root(Path(named)):
            raise InputError(f"CATNIP_ROOT: {named} does not hold scenarios/ and validation/reference/")
        return Path(named)
    here, package = Path.cwd(), Path(__file__).resolve().parent
    for folder in (here, *here.parents, *package.parents):
        if _is_root(folder):
            return folder
    raise InputError("CATNIP_ROOT: not set, and no checkout of CATNIP around the working directory")


def reference() -> Path:
    """The published and measured numbers that results are compared with."""
    return root() / "validation" / "reference"


def scenarios() -> list[Scenario]:
    """Every scenario of the checkout, in the order of their file names."""
    return [Scenario.load(str(path)) for path in sorted((root() / "scenarios").glob("*.toml"))]


def scenario(name: str) -> Scenario:
    """A scenario by path, by file name without ending, or by id."""
    if name.endswith(".toml") or os.sep in name:
        return Scenario.load(name)
    file = root() / "scenarios" / f"{name}.toml"
    if file.is_file():
        return Scenario.load(str(file))
    known = scenarios()
    for candidate in known:
        if candidate.id.lower() == name.lower():
            return candidate
    raise InputError(f"SCENARIO: {name} is neither a file nor one of {', '.join(s.id for s in known)}")


def _is_root(folder: Path) -> bool:
    return (folder / "scenarios").is_dir() and (folder / "validation" / "reference").is_dir()

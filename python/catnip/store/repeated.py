"""Runs that are repeated from a manifest, and compared with the stored rows bit by bit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catnip._core import InputError, Scenario
from catnip.store import results
from catnip.store.tables import Column, Table


@dataclass(frozen=True)
class Repeated:
    """Comparison of a table: its number of stored rows, and the first difference, if any."""

    table: str
    rows: int
    difference: str = ""

    @property
    def is_same(self) -> bool:
        """True if all values are the same, bit by bit."""
        return not self.difference


def scenario_of(folder: Path, manifest: results.Manifest) -> Scenario:
    """Returns the scenario of stored runs, from their manifest alone. Raises InputError."""
    if not manifest.created_by.startswith("catnip "):
        raise InputError(f"{folder}: results of an emulation, whose packets meet another time in every run")
    try:
        scenario = manifest.rebuilt()
    except InputError as error:
        raise InputError(f"{folder}: {error}") from None
    if scenario.id != manifest.scenario:
        raise InputError(f"{folder}: manifest: scenario: {manifest.scenario!r}: its source has {scenario.id}")
    known = set(scenario.variants)
    if missing := [name for name in manifest.variants if name not in known]:
        raise InputError(f"{folder}: manifest: variants: {missing[0]} is none of the scenario's")
    return scenario


def compared(
    folder: Path,
    manifest: results.Manifest,
    scenario: Scenario,
    variants: Sequence[str],
    seeds: Sequence[int],
    threads: int,
    report: Callable[[int, int], Any],
) -> list[Repeated]:
    """Repeats runs, variant by variant, and compares their rows with those of the folder.

    Returns a comparison for each table of the folder. Raises InputError.
    """
    _, stored = results.read(folder)
    found = {name: Repeated(name, 0) for name in stored}
    for done, variant in enumerate(variants, 1):
        index = manifest.variants.index(variant)
        of_variant = [seed for seed in manifest.seeds_of(index) if seed in seeds]
        try:
            again = scenario.run([variant], of_variant, list(stored), threads, None, manifest.series)
        except InputError as error:
            raise InputError(f"{folder}: manifest: {error}") from None
        for name, table in stored.items():
            before = found[name]
            here = _rows(table, index, seeds)
            difference = before.difference or _difference(variant, here, again[name])
            found[name] = Repeated(name, before.rows + len(here["seed"]), difference)
        report(done, len(variants))
    return list(found.values())


def _rows(table: Table, variant: int, seeds: Sequence[int]) -> dict[str, NDArray[Any]]:
    is_here = (np.asarray(table["variant"]) == variant) & np.isin(np.asarray(table["seed"]), seeds)
    return {key: np.asarray(column)[is_here] for key, column in table.items() if key != "variant"}


def _difference(variant: str, before: dict[str, NDArray[Any]], again: Table) -> str:
    """Returns the first difference between stored and repeated rows of a variant; empty if there is none."""
    for key, stored in before.items():
        column: Column = again[key]
        repeated = np.asarray(column)
        if len(stored) != len(repeated):
            return f"{variant}: {len(repeated)} rows instead of {len(stored)}"
        is_number = stored.dtype.kind == "f"
        same = _bits(stored) == _bits(repeated) if is_number else stored == repeated
        if not np.all(same):
            row = int(np.argmin(same))
            seed = int(before["seed"][row])
            return f"{variant}, seed {seed}: {key} is {repeated[row]} instead of {stored[row]}"
    return ""


def _bits(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Returns floating-point numbers as bits, by which missing ones are equal, too."""
    return np.ascontiguousarray(values, np.float64).view(np.uint64)

"""Maps of claims: where a sentence of a paper holds as a factor changes that the paper leaves open.

A `[[map]]` of `claims.toml` names a claim and factors. Its quantity is computed again with one factor changed
at a time, and with the two strongest factors together; each cell is judged by the claim's own band.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from catnip._core import InputError
from catnip.analysis.interval import Interval
from catnip.analysis.verdicts import Band

if TYPE_CHECKING:
    from collections.abc import Callable

    from catnip.papers.runs import Runs

QUANTITY = "map"
"""Quantity of the claims that are made from a map."""
TOGETHER = "together"
ABOUT = "where it holds: what the paper leaves open, one factor at a time, and two together"
Changes: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Factor:
    """Factor that the paper leaves open: its settings by name, and the name of the published one."""

    name: str
    settings: Mapping[str, Changes]
    usual: str

    @property
    def others(self) -> dict[str, Changes]:
        """Settings but the published one."""
        return {name: changes for name, changes in self.settings.items() if name != self.usual}


@dataclass(frozen=True)
class Map:
    """Map of the claim `of` over some factors, with `seeds` runs for each cell."""

    of: str
    seeds: int
    factors: Sequence[Factor]


@dataclass(frozen=True)
class Cell:
    """Place of a map: the names of its settings, the value there, and whether the band has all of it."""

    settings: tuple[str, ...]
    value: Interval
    holds: bool


def experiment(one: Map) -> str:
    """Returns the id of the experiment to which all maps of a paper belong."""
    return f"{one.of.partition('-')[0]}-M"


def factors(path: object, document: Mapping[str, Any]) -> dict[str, Factor]:
    """Reads the factors of a `claims.toml`; an error names file, factor and key."""
    read = {}
    for name, entry in document.items():
        _check_keys(f"{path}: factor {name}", entry, {"settings", "usual"}, {"key"})
        settings: dict[str, Changes] = {}
        for setting, value in entry["settings"].items():
            if isinstance(value, Mapping):
                settings[setting] = tuple((key, str(of)) for key, of in value.items())
            elif "key" in entry:
                settings[setting] = ((entry["key"], str(value)),)
            else:
                raise InputError(f"{path}: factor {name}: settings.{setting}: expected keys with values")
        if entry["usual"] not in settings:
            raise InputError(f"{path}: factor {name}: usual = {entry['usual']}: not one of its settings")
        if len(settings) < 2:
            raise InputError(f"{path}: factor {name}: settings: expected at least two")
        read[name] = Factor(name, settings, entry["usual"])
    return read


def maps(path: object, entries: Sequence[Mapping[str, Any]], known: Mapping[str, Factor]) -> list[Map]:
    """Reads the maps of a `claims.toml`; an error names file, map and key."""
    read: dict[str, Map] = {}
    for entry in entries:
        where = f"{path}: map of {entry.get('of')}"
        _check_keys(where, entry, {"of", "seeds", "factors"}, set())
        for name in entry["factors"]:
            if name not in known:
                raise InputError(f"{where}: factors = {name}: there is no such factor")
        if len(entry["factors"]) < 2:
            raise InputError(f"{where}: factors: expected at least two")
        if entry["of"] in read:
            raise InputError(f"{where}: of: there is another map of it")
        read[entry["of"]] = Map(entry["of"], entry["seeds"], [known[name] for name in entry["factors"]])
    return list(read.values())


def _check_keys(where: str, entry: Mapping[str, Any], needed: set[str], more: set[str]) -> None:
    if missing := needed - set(entry):
        raise InputError(f"{where}: {min(missing)}: missing")
    if unknown := set(entry) - needed - more:
        raise InputError(f"{where}: {min(unknown)}: there is no such key")


class Mapped:
    """Cells of a map, each measured at most once.

    `measure` returns the claim's quantity over runs; `band` is the claim's own.
    """

    def __init__(self, of: Map, runs: "Runs", measure: "Callable[[Runs], Any]", band: Band) -> None:
        self.map, self.band = of, band
        self._runs, self._measure = runs, measure
        self._known: dict[Changes, Interval] = {}

    @property
    def seeds(self) -> int:
        """Number of runs of the cells measured so far."""
        return max((value.n for value in self._known.values()), default=1)

    def along(self, factor: Factor) -> list[Cell]:
        """Returns the cells of all settings of a factor, in order. The published one must change nothing."""
        cells = [self._cell((name,), changes) for name, changes in factor.settings.items()]
        usual = cells[list(factor.settings).index(factor.usual)].value
        if not _is_same(usual, self._at(())):
            told = f"map of {self.map.of}: factor {factor.name}: usual = {factor.usual}"
            raise InputError(f"{told}: is not what its scenarios have")
        return cells

    def strongest(self) -> tuple[Factor, Factor]:
        """Returns the two factors that bring the value nearest to the band, the stronger one first.

        Of two that bring it as near, that comes first whose value lies nearer, or deeper in the band.
        """
        one, other, *_ = sorted(self.map.factors, key=self._nearest)
        return one, other

    def together(self) -> list[Cell]:
        """Returns the cells of all pairs of settings of the two strongest factors."""
        one, other = self.strongest()
        return [
            self._cell((first, second), (*some, *more))
            for (first, some), (second, more) in product(one.settings.items(), other.settings.items())
        ]

    def text(self, factor: str) -> str:
        """Returns where the claim is reproduced along a factor, or along the two strongest together."""
        if factor != TOGETHER:
            found = next(one for one in self.map.factors if one.name == factor)
            cells = self.along(found)
            usual = self._at(())
            without = all(_is_same(cell.value, usual) for cell in cells)
            return _listed([cell.settings[0] for cell in cells if cell.holds], len(cells)) + (
                ", without any effect" if without else ""
            )
        one, other = self.strongest()
        cells = self.together()
        held = [" with ".join(cell.settings) for cell in cells if cell.holds]
        return f"{one.name} and {other.name}: {_listed(held, len(cells))}"

    def _cell(self, settings: tuple[str, ...], changes: Changes) -> Cell:
        value = self._at(changes)
        return Cell(settings, value, self.band.verdict(value) == "reproduced")

    def _nearest(self, factor: Factor) -> tuple[float, float]:
        """Returns the least distance of interval and of mean from the band over the settings of a factor."""
        return min(self._distances(self._at(changes)) for changes in factor.others.values())

    def _distances(self, value: Interval) -> tuple[float, float]:
        """Returns how far interval and mean reach out of the band, negative inside; infinity if unknown."""
        if not all(map(math.isfinite, (value.mean, value.low, value.high))):
            return math.inf, math.inf
        outside = max(self.band.low - value.low, value.high - self.band.high, 0.0)
        return outside, max(self.band.low - value.mean, value.mean - self.band.high)

    def _at(self, changes: Changes) -> Interval:
        if changes not in self._known:
            changed = self._runs.changed(changes, self.map.seeds)
            value = self._measure(changed)
            if changes and not changed.is_changed:
                raise InputError(f"map of {self.map.of}: {changes[0][0]}: no run of its quantity has it")
            exact = not isinstance(value, Interval)
            self._known[changes] = Interval(value, value, value, 1) if exact else value
        return self._known[changes]


def _is_same(one: Interval, other: Interval) -> bool:
    ours, theirs = ([value.mean, value.low, value.high] for value in (one, other))
    return np.array_equal(ours, theirs, equal_nan=True)


def _listed(held: Sequence[str], of: int) -> str:
    if not held:
        return f"nowhere ({of} settings)"
    return f"everywhere ({of} settings)" if len(held) == of else f"{', '.join(held)} ({len(held)} of {of})"

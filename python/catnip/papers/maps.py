"""Maps of claims: where a sentence of a paper holds as a factor changes that the paper leaves open.

A `[[map]]` of `claims.toml` names a claim and factors. Its quantity is computed again with one factor changed
at a time, and with the two strongest factors together; each cell is judged by the claim's own band.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

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
        if unknown := set(entry) - {"key", "settings", "usual"}:
            raise InputError(f"{path}: factor {name}: {min(unknown)}: there is no such key")
        settings = {
            setting: tuple(value.items()) if isinstance(value, Mapping) else ((entry["key"], str(value)),)
            for setting, value in entry["settings"].items()
        }
        if entry["usual"] not in settings:
            raise InputError(f"{path}: factor {name}: usual = {entry['usual']}: not one of its settings")
        read[name] = Factor(name, settings, entry["usual"])
    return read


class Mapped:
    """Cells of a map, each measured at most once.

    `measure` returns the claim's quantity over runs; `band` is the claim's own.
    """

    def __init__(self, of: Map, runs: "Runs", measure: "Callable[[Runs], Any]", band: Band) -> None:
        self.map, self.band = of, band
        self._runs, self._measure = runs, measure
        self._known: dict[Changes, Interval] = {}

    def along(self, factor: Factor) -> list[Cell]:
        """Returns the cells of all settings of a factor, in order."""
        return [
            self._cell((name,), () if name == factor.usual else changes)
            for name, changes in factor.settings.items()
        ]

    def strongest(self) -> tuple[Factor, Factor]:
        """Returns the two factors that bring the value nearest to the band, the stronger one first."""
        one, other, *_ = sorted(self.map.factors, key=self._nearest)
        return one, other

    def together(self) -> list[Cell]:
        """Returns the cells of all pairs of settings of the two strongest factors."""
        one, other = self.strongest()
        cells = []
        for (first, some), (second, more) in product(one.settings.items(), other.settings.items()):
            changes = (*(() if first == one.usual else some), *(() if second == other.usual else more))
            cells.append(self._cell((first, second), changes))
        return cells

    def text(self, factor: str) -> str:
        """Returns where the claim is reproduced along a factor, or along the two strongest together."""
        if factor != TOGETHER:
            cells = self.along(next(one for one in self.map.factors if one.name == factor))
            return _listed([cell.settings[0] for cell in cells if cell.holds], len(cells))
        one, other = self.strongest()
        cells = self.together()
        held = [" with ".join(cell.settings) for cell in cells if cell.holds]
        return f"{one.name} and {other.name}: {_listed(held, len(cells))}"

    def _cell(self, settings: tuple[str, ...], changes: Changes) -> Cell:
        value = self._at(changes)
        return Cell(settings, value, self.band.verdict(value) == "reproduced")

    def _nearest(self, factor: Factor) -> float:
        """Returns the least distance of the value from the band over the settings of a factor."""
        distances = [self._distance(self._at(changes)) for changes in factor.others.values()]
        return min(distances)

    def _distance(self, value: Interval) -> float:
        """Returns how far an interval reaches out of the band; infinity if the value is not known."""
        out = max(self.band.low - value.low, value.high - self.band.high, 0.0)
        return out if math.isfinite(value.mean) else math.inf

    def _at(self, changes: Changes) -> Interval:
        if changes not in self._known:
            changed = self._runs.changed(changes, self.map.seeds)
            value = self._measure(changed)
            if changes and not changed.is_changed:
                raise InputError(f"map of {self.map.of}: {changes[0][0]}: no run of its quantity has it")
            exact = not isinstance(value, Interval)
            self._known[changes] = Interval(value, value, value, 1) if exact else value
        return self._known[changes]


def _listed(held: Sequence[str], of: int) -> str:
    if not held:
        return f"nowhere ({of} settings)"
    return f"everywhere ({of} settings)" if len(held) == of else f"{', '.join(held)} ({len(held)} of {of})"

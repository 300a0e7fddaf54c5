"""Stored runs of the points of a plan: what is there is a set, in whatever order it was stored.

A point is a variant under a name that lasts. A part has the rows of some points with consecutive seeds.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from catnip._core import InputError
from catnip.store.tables import CodedColumn, CodedTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

Rows: TypeAlias = "dict[str, NDArray[Any]]"


@dataclass(frozen=True)
class Part:
    """Rows of some points with the seeds `first` to `end - 1`.

    In a table of `load`, the column `variant` has indices into `points`; rows are ordered by it and by seed.
    """

    points: Sequence[str]
    first: int
    end: int
    load: Callable[[str], CodedTable]

    @cached_property
    def index(self) -> Mapping[str, int]:
        """Index of each point."""
        return {point: at for at, point in enumerate(self.points)}


class PartStore(Protocol):
    """Place of parts."""

    def parts(self) -> Sequence[Part]:
        """Returns all parts that are there, in an order that does not change."""
        ...

    def add(self, points: Sequence[str], first: int, end: int, tables: Mapping[str, CodedTable]) -> None:
        """Stores a part, or nothing if interrupted; the tables are as those of a `Part`."""
        ...


@dataclass
class InMemory:
    """Parts in memory."""

    stored: list[Part] = field(default_factory=list)

    def parts(self) -> Sequence[Part]:
        """Returns all parts; implements `PartStore`."""
        return self.stored

    def add(self, points: Sequence[str], first: int, end: int, tables: Mapping[str, CodedTable]) -> None:
        """Keeps a part; implements `PartStore`."""
        self.stored.append(Part(points, first, end, dict(tables).__getitem__))


@dataclass(frozen=True)
class Span:
    """Consecutive points of a part, all with the seeds `first` to `end - 1`.

    The first of them is the variant with the index `variant`, the others follow it.
    """

    part: Part
    variant: int
    points: range
    first: int
    end: int

    def rows(self, table: CodedTable) -> slice:
        """Returns where the rows are in a table of the part; only one point may have a part of the seeds."""
        variant, seed = np.asarray(table["variant"]), np.asarray(table["seed"])
        low, high = _between(variant, self.points.start, self.points.stop)
        if (self.first, self.end) != (self.part.first, self.part.end):
            low, high = (low + at for at in _between(seed[low:high], self.first, self.end))
        return slice(low, high)


class Points:
    """Runs of the points of a plan: which of them are stored, and their rows.

    `ids` names the points in the order of the variants; seeds count from `first_seed`.
    """

    def __init__(self, store: PartStore, ids: Sequence[str], first_seed: int) -> None:
        self._store, self.ids, self.first_seed = store, ids, first_seed
        self._seen = 0
        self._of: dict[str, list[Part]] = {}
        self.look()

    def look(self) -> None:
        """Takes note of the parts that this process or another has added. Raises InputError."""
        parts = self._store.parts()
        for part in parts[self._seen :]:
            for point in part.points:
                here = self._of.setdefault(point, [])
                here.append(part)
                # Of two with the same first seed, the longer one comes first.
                here.sort(key=lambda part: (part.first, -part.end))
        self._seen = len(parts)

    def missing(self, variant: int, count: int) -> list[tuple[int, int]]:
        """Returns the ranges of the first `count` seeds of a variant that no part has, as begin and end."""
        gaps, at = [], self.first_seed
        for _, first, end in self._covering(variant, count):
            if first > at:
                gaps.append((at, first))
            at = end
        if at < self.first_seed + count:
            gaps.append((at, self.first_seed + count))
        return gaps

    def add(self, variants: Sequence[int], first: int, end: int, tables: Mapping[str, CodedTable]) -> None:
        """Stores tables of variants with consecutive seeds; `variant` there are indices into `variants`."""
        self._store.add([self.ids[variant] for variant in variants], first, end, tables)
        self.look()

    def rows(self, table: str, columns: Sequence[str], variant: int, count: int) -> Rows:
        """Returns columns of a table for a variant and its first `count` seeds, without the variant."""
        some: dict[str, list[Any]] = {key: [] for key in columns if key != "variant"}
        for span in self.spans([variant], [count]):
            whole = span.part.load(table)
            chosen = span.rows(whole)
            for key, values in some.items():
                values.append(_values(whole[key], chosen))
        return {
            key: values[0] if len(values) == 1 else np.concatenate(values) for key, values in some.items()
        }

    def pieces(self, table: str, counts: Sequence[int], rows: int) -> Iterator[CodedTable]:
        """Yields a table in pieces of `rows` rows or more, in the order of variants and seeds.

        `counts` has the number of seeds of each variant. Of a table without rows there is one piece.
        """
        some: list[CodedTable] = []
        held, is_empty = 0, True
        for span in self.spans(range(len(self.ids)), counts):
            whole = span.part.load(table)
            chosen = span.rows(whole)
            held += chosen.stop - chosen.start
            if chosen.stop > chosen.start or not some:
                part = {key: coded_slice(column, chosen) for key, column in whole.items()}
                shift = span.variant - span.points.start
                some.append({**part, "variant": np.asarray(part["variant"]).astype(np.int64) + shift})
            if held >= rows:
                yield joined(some)
                some, held, is_empty = [], 0, False
        if held or is_empty:
            yield joined(some)

    def spans(self, variants: Iterable[int], counts: Sequence[int]) -> Iterator[Span]:
        """Yields where the runs of variants are, in their order, each with the first of its `counts` seeds.

        Raises InputError if runs are missing.
        """
        joined: Span | None = None
        for variant, count in zip(variants, counts, strict=True):
            at = self.first_seed
            for part, first, end in self._covering(variant, count):
                if first > at:
                    break
                number = part.index[self.ids[variant]]
                is_whole = (first, end) == (part.first, part.end)
                if (
                    joined
                    and joined.part is part
                    and is_whole
                    and number == joined.points.stop
                    and ((joined.first, joined.end) == (first, end))
                ):
                    joined = Span(part, joined.variant, range(joined.points.start, number + 1), first, end)
                else:
                    if joined:
                        yield joined
                    joined = Span(part, variant, range(number, number + 1), first, end)
                at = end
            if at < self.first_seed + count:
                raise InputError(f"--out: the run of {self.ids[variant][:12]} with seed {at} is missing")
        if joined:
            yield joined

    def _covering(self, variant: int, count: int) -> Iterator[tuple[Part, int, int]]:
        """Yields parts with a variant's first `count` seeds, each with the seeds to take of it, in order."""
        at, last = self.first_seed, self.first_seed + count
        for part in self._of.get(self.ids[variant], ()):
            if at < part.end and part.first < last:
                first, end = max(at, part.first), min(last, part.end)
                yield part, first, end
                at = end


def joined(tables: Sequence[CodedTable]) -> CodedTable:
    """Returns the rows of tables with the same columns as one table."""
    if len(tables) == 1:
        return tables[0]
    return {key: _concatenated([table[key] for table in tables]) for key in tables[0]}


def _between(values: "NDArray[Any]", first: int, end: int) -> tuple[int, int]:
    """Returns where the values from `first` to less than `end` are in an ascending array."""
    # Bounds of another type would have the whole array converted.
    low, high = np.searchsorted(values, np.array((first, end), values.dtype))
    return int(low), int(high)


def _concatenated(columns: Sequence[CodedColumn]) -> CodedColumn:
    number: dict[str, int] = {}
    rows = []
    for column in columns:
        if not isinstance(column, tuple):
            rows.append(np.asarray(column))
            continue
        names, indices = column
        known = np.array([number.setdefault(name, len(number)) for name in names], dtype=np.int64)
        rows.append(known[indices] if len(known) else np.zeros(0, dtype=np.int64))
    whole = np.concatenate(rows)
    return (list(number), whole) if isinstance(columns[0], tuple) else whole


def coded_slice(column: CodedColumn, chosen: slice) -> CodedColumn:
    """Returns some rows of a column."""
    return (column[0], column[1][chosen]) if isinstance(column, tuple) else column[chosen]


def _values(column: CodedColumn, chosen: slice) -> "NDArray[Any]":
    """Returns some rows of a column as numbers or texts."""
    if not isinstance(column, tuple):
        return np.asarray(column[chosen])
    names, rows = column
    return np.asarray(names, dtype=str)[rows[chosen]] if len(names) else np.zeros(0, dtype=str)

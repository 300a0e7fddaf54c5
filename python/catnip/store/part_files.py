"""Parts on disk: a file for each, which is written aside and then linked to its name, never over another.

Several processes may add parts to the same folder, also over a network file system.
"""

import errno
import hashlib
import json
import os
import zipfile
import zlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from catnip._core import InputError
from catnip.store import arrow
from catnip.store.points import Part
from catnip.store.tables import COLUMNS, CodedTable

HEAD = "part.json"
ASIDE = ".new-"
"""Begin of the name of a file that is being written, or whose writer was killed."""
CACHED_BYTES = 1 << 28
"""Size of the tables that are kept in memory: those of many points are read in turn."""
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, KeyError, TypeError, ValueError, RuntimeError)
"""Errors of readers of a damaged file, besides those of Arrow and of the system."""
LONG_AGO = (1980, 1, 1, 0, 0, 0)
"""Date in a part, so that equal runs give equal files."""


@dataclass
class PartFiles:
    """Parts in a folder; one that lacks one of `tables`, or has another interval of time series, is none."""

    folder: Path
    tables: Sequence[str]
    series: str | None = None
    _names: set[str] = field(default_factory=set)
    _parts: list[Part] = field(default_factory=list)
    _cache: "OrderedDict[tuple[Path, str], CodedTable]" = field(default_factory=OrderedDict)
    _cached_bytes: int = 0

    def parts(self) -> Sequence[Part]:
        """Returns all parts that are there; implements `PartStore`. Raises InputError if one is damaged."""
        there = (name for name in os.listdir(self.folder) if name.endswith(".zip"))
        for name in sorted(set(there) - self._names):
            self._names.add(name)
            if part := self._opened(self.folder / name):
                self._parts.append(part)
        return self._parts

    def add(self, points: Sequence[str], first: int, end: int, tables: Mapping[str, CodedTable]) -> None:
        """Stores a part; implements `PartStore`. A part that another process has stored meanwhile stays."""
        head = {
            "points": list(points),
            "seeds": [first, end],
            "series": self.series,
            "tables": sorted(tables),
        }
        text = json.dumps(head)
        aside = self.folder / f"{ASIDE}{os.urandom(8).hex()}"
        try:
            with arrow.named(aside), zipfile.ZipFile(aside, "x") as file:
                file.writestr(zipfile.ZipInfo(HEAD, LONG_AGO), text)
                for table, columns in sorted(tables.items()):
                    file.writestr(zipfile.ZipInfo(f"{table}.arrow", LONG_AGO), arrow.packed(columns))
            _publish(aside, self.folder / _name(text.encode()))
        finally:
            aside.unlink(missing_ok=True)

    def clean(self) -> None:
        """Removes what killed processes have left; no other process may write."""
        for file in self.folder.glob(f"{ASIDE}*"):
            file.unlink()

    def _opened(self, path: Path) -> Part | None:
        try:
            with arrow.named(path), zipfile.ZipFile(path) as file:
                text = file.read(HEAD)
            head = json.loads(text)
            if path.name != _name(text):
                raise ValueError("its name is that of other runs")
            points, (first, end) = list(head["points"]), head["seeds"]
            is_ours = head["series"] == self.series and set(self.tables) <= set(head["tables"])
        except DAMAGE as error:
            raise _damaged(path, error) from None
        return Part(points, int(first), int(end), partial(self._load, path)) if is_ours else None

    def _load(self, path: Path, table: str) -> CodedTable:
        key = path, table
        if key in self._cache:
            self._cache.move_to_end(key)
            return self._cache[key]
        try:
            with arrow.named(path), zipfile.ZipFile(path) as file:
                columns = arrow.unpacked(file.read(f"{table}.arrow"))
            if set(columns) != set(COLUMNS.get(table, columns)):
                raise ValueError(f"other columns than {table} has")
        except (*DAMAGE, pa.ArrowException) as error:
            raise _damaged(path, error) from None
        self._cache[key] = columns
        self._cached_bytes += _size(columns)
        while self._cached_bytes > CACHED_BYTES and len(self._cache) > 1:
            self._cached_bytes -= _size(self._cache.popitem(last=False)[1])
        return columns


def _name(head: bytes) -> str:
    """Returns the name of the file of a part."""
    return f"{hashlib.sha256(head).hexdigest()[:32]}.zip"


def _publish(aside: Path, part: Path) -> None:
    """Gives a file its name, unless another file, which then has the same rows, has it already."""
    try:
        os.link(aside, part)
    except FileExistsError:
        return
    except OSError as error:
        # Some file systems of networks and of other systems have no hard links.
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS):
            raise OSError(error.errno, error.strerror, str(part)) from None
        aside.rename(part)


def _damaged(path: Path, error: Exception) -> InputError:
    reason = " ".join(str(error).split()) or type(error).__name__
    return InputError(f"--out: {path}: not the runs that were stored: {reason}; remove it")


def _size(table: CodedTable) -> int:
    return sum(np.asarray(one[1] if isinstance(one, tuple) else one).nbytes for one in table.values())

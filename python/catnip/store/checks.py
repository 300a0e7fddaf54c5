"""Checks of what is read from a folder of results, which may be damaged or changed by another program."""

import hashlib
import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from catnip._core import InputError
from catnip.store import arrow
from catnip.store.tables import KINDS, Table

MAX_SEED = 2**64 - 1
LONGEST_SHOWN = 60
"""Number of characters of a wrong value that are shown."""
GREATEST = 2**48
"""Greatest number in a column of whole numbers other than seeds: sums of them have 64 bits."""
GREATEST_SIZE = 2**60
"""Greatest number in the column `bytes`, which nothing sums: the size of an endless transfer."""
ONCE = {"runs": (), "groups": ("group",), "ports": ("port",)}
"""Columns that tell the rows of a run apart, of tables in which no row is twice."""


def manifest_of(path: Path, known: Collection[str], needed: Collection[str]) -> dict[str, Any]:
    """Reads a manifest with some of the `known` and all of the `needed` keys, which have values.

    Raises InputError, which names the file, and the key and its value if one is wrong.
    """
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"), parse_float=_finite, parse_constant=_finite)
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"{path}: manifest: {reason}") from error
    if not isinstance(manifest, dict):
        raise InputError(f"{path}: manifest: {_shown(manifest)}: expected keys and values")
    for key in needed:
        if key not in manifest:
            raise InputError(f"{path}: manifest: {key}: missing")
    for key, value in manifest.items():
        if key not in known:
            raise InputError(f"{path}: manifest: {key}: unknown key")
        expected, holds = MANIFEST[key]
        is_absent = value is None and key in MAY_BE_NULL
        if not is_absent and not holds(value):
            raise InputError(f"{path}: {key}: {_shown(value)}: expected {expected}")
    for key, (expected, fits) in BESIDE_OTHERS.items():
        if manifest.get(key) is not None and not fits(manifest[key], manifest):
            raise InputError(f"{path}: {key}: {_shown(manifest[key])}: expected {expected}")
    return manifest


def with_declared_columns(table: pa.Table, name: str, axes: Collection[str]) -> pa.Table:
    """Returns the declared columns of the table `name`, with their types.

    `axes` has the names of columns that are there besides. Raises ValueError, which names a wrong column.
    """
    declared, found = KINDS[name], table.column_names
    for column in (*declared, *axes):
        if found.count(column) != 1:
            raise ValueError(f"has {'no' if column not in found else 'more than one'} column {column}")
    for column in found:
        if column not in declared and column not in axes:
            raise ValueError(f"has an unknown column {column}")
        if table[column].null_count:
            raise ValueError(f"{column}: {table[column].null_count} missing values")
    kinds = {**declared, "variant": "text"}
    return pa.table({column: _typed(column, table[column], kind) for column, kind in kinds.items()})


def check_rows(table: Table, name: str, counts: Sequence[int], seeds: Sequence[int]) -> None:
    """Raises ValueError unless all rows are of runs, in the order of these, and none is there twice.

    `counts` has the number of seeds of each variant, which has the first of `seeds`.
    """
    for column, kind in KINDS[name].items():
        is_number = kind == "integer" and column != "seed"
        greatest = GREATEST_SIZE if column == "bytes" else GREATEST
        if is_number and (most := np.max(table[column], initial=0)) > greatest:
            raise ValueError(f"{column}: {most}: expected at most {greatest}")
    variant = np.asarray(table["variant"]).astype(np.int64)
    known = np.asarray(seeds, np.uint64)
    seed = np.minimum(np.searchsorted(known, np.asarray(table["seed"])), len(known) - 1)
    if not np.array_equal(known[seed], np.asarray(table["seed"])):
        other = np.asarray(table["seed"])[known[seed] != np.asarray(table["seed"])][0]
        raise ValueError(f"seed {other} is not in the manifest")
    if (beyond := np.flatnonzero(seed >= np.asarray(counts)[variant])).size:
        raise ValueError(f"seed {known[seed[beyond[0]]]} is not one of its variant")
    run = variant * len(known) + seed
    if (np.diff(run) < 0).any():
        raise ValueError("the rows are not in the order of variants and seeds")
    if name == "runs" and len(run) != sum(counts):
        raise ValueError(f"has {len(run)} rows for {sum(counts)} runs")
    if name in ONCE:
        _check_once(table, name, run)


def check_axes(table: pa.Table, variant: NDArray[Any], axes: Mapping[str, Sequence[Any]]) -> None:
    """Raises ValueError unless each row has its variant's values of the axes.

    `variant` has the rows' indices of variants.
    """
    for key, values in axes.items():
        expected = arrow.levels(variant, values)
        plain = expected.dictionary_decode() if pa.types.is_dictionary(expected.type) else expected
        there = table[key].combine_chunks()
        is_same = there.type == plain.type or TYPES["text"][1](there.type) == TYPES["text"][1](plain.type)
        if not is_same or not there.cast(plain.type).equals(plain):
            raise ValueError(f"{key}: other values than in the manifest")


def _check_once(table: Table, name: str, run: NDArray[Any]) -> None:
    keys = [run.tolist(), *(list(table[column]) for column in ONCE[name])]
    seen: set[Any] = set()
    for key in zip(*keys, strict=True):
        if key in seen:
            raise ValueError(f"has a row twice: {', '.join((*map(str, key[1:]), 'seed'))}")
        seen.add(key)


def _typed(name: str, column: pa.ChunkedArray, kind: str) -> pa.ChunkedArray:
    """Returns a column with the type that it is declared with."""
    wanted, is_alike = TYPES[kind]
    if column.type == wanted:
        return column
    values = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not is_alike(values):
        raise ValueError(f"{name}: values of type {column.type}, not {wanted}")
    try:
        return column.cast(wanted)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{name}: {error}") from None


def _is_text(of: pa.DataType) -> bool:
    return any(
        is_one(of) for is_one in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    )


TYPES: Mapping[str, tuple[pa.DataType, Callable[[pa.DataType], bool]]] = {
    "integer": (pa.uint64(), pa.types.is_integer),
    "float": (pa.float64(), pa.types.is_floating),
    "text": (pa.string(), _is_text),
}
"""Type of each kind of column, and of those that other programs write for it."""


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text}: expected a finite number")
    return number


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def _is_whole(value: Any, least: int = 0, greatest: int = MAX_SEED) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= greatest


def _is_string(value: Any) -> bool:
    """Returns true for a text in Unicode; JSON can also write halves of characters."""
    return isinstance(value, str) and value == value.encode(errors="replace").decode()


def _are_axes(value: Any) -> bool:
    is_unicode = _is_string(json.dumps(value, ensure_ascii=False))
    return is_unicode and _is_table(value, lambda of: isinstance(of, list))


def _is_list(value: Any, holds: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(map(holds, value))


def _is_table(value: Any, holds: Callable[[Any], bool]) -> bool:
    return isinstance(value, dict) and all(map(holds, value.values()))


def _is_source(value: Any) -> bool:
    if not _is_table(value, lambda _: True) or set(value) != {"path", "text", "set"}:
        return False
    changes = value["set"]
    is_set = _is_list(changes, lambda pair: _is_list(pair, _is_string) and len(pair) == 2)
    # The name of a file need not be Unicode.
    return is_set and isinstance(value["path"], str) and _is_string(value["text"])


def _are_seeds(value: Any) -> bool:
    return value != [] and _is_list(value, _is_whole) and all(a < b for a, b in pairwise(value))


def _are_names(value: Any) -> bool:
    return value != [] and _is_list(value, _is_string) and len(set(value)) == len(value)


MANIFEST: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "created_by": ("a program and its version", lambda value: _is_string(value) and len(value.split()) > 1),
    "scenario": ("a text", _is_string),
    "title": ("a text", _is_string),
    "scenario_sha256": ("a text", _is_string),
    "variants": ("a list of different names", _are_names),
    "seeds": ("a list of ascending whole numbers", _are_seeds),
    "axes": ("a list for each key", _are_axes),
    "created": ("a text", _is_string),
    "commit": ("a text", _is_string),
    "text": ("a text", _is_string),
    "source": ("path, text and set", _is_source),
    "files": (
        "an entry for each file",
        lambda value: _is_table(value, lambda entry: _is_table(entry, _is_string)),
    ),
    "series": ("a text", _is_string),
    "points": ("a list of names", lambda value: _is_list(value, _is_string)),
    "seed_counts": (
        "a list of numbers from 1 on",
        lambda value: _is_list(value, lambda one: _is_whole(one, 1)),
    ),
    "made": ("keys and values", lambda value: isinstance(value, dict)),
    "row_counts": (
        "a number for each table",
        lambda value: _is_table(value, _is_whole) and set(value) <= set(KINDS),
    ),
}
"""Expected value of each key of a manifest, and whether a value is one."""
MAY_BE_NULL = {"created", "commit", "text", "source", "files", "series", "points", "seed_counts", "made"}
MAY_BE_NULL |= {"row_counts"}


def _of_each(values: Sequence[Any], manifest: Mapping[str, Any]) -> bool:
    return len(values) == len(manifest["variants"])


def _is_digest(value: str, manifest: Mapping[str, Any]) -> bool:
    text = manifest.get("text")
    return text is None or hashlib.sha256(text.encode()).hexdigest() == value


BESIDE_OTHERS: Mapping[str, tuple[str, Callable[[Any, Mapping[str, Any]], bool]]] = {
    "scenario_sha256": ("the SHA-256 of text", _is_digest),
    "axes": (
        "one value for each variant",
        lambda value, manifest: all(_of_each(values, manifest) for values in value.values()),
    ),
    "points": ("one name for each variant", _of_each),
    "seed_counts": (
        "one number for each variant, and no more than all seeds",
        lambda value, manifest: _of_each(value, manifest) and max(value) <= len(manifest["seeds"]),
    ),
}
"""Expected value of each key that depends on others, and whether a value fits these."""

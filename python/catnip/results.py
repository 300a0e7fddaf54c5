"""Tables on disk: Parquet with units in the column names, and a manifest that says where they come from.

The core declares the tables, `catnip list` describes them, and the emulator writes the same files.

Running and reporting are separate: whoever draws or compares reads these tables and nothing else.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from catnip import _core
from catnip._core import InputError, Scenario, __version__

Column: TypeAlias = NDArray[Any] | list[str] | list[bool]
Table: TypeAlias = Mapping[str, Column]

RUNS_PER_PART = 20_000

TABLES = tuple(name for name, _, _ in _core.tables())


@dataclass(frozen=True)
class Manifest:
    """What was run, completely enough to run it again."""

    created_by: str
    scenario: str
    title: str
    scenario_sha256: str
    variants: list[str]
    seeds: list[int]
    created: str | None = None

    @classmethod
    def of(
        cls, scenario: Scenario, variants: Sequence[str], seeds: Sequence[int], created: str | None = None
    ) -> "Manifest":
        """The manifest of one call of `Scenario.run`; without `created` the same run gives the same file."""
        return cls(
            created_by=f"catnip {__version__}",
            scenario=scenario.id,
            title=scenario.title,
            scenario_sha256=hashlib.sha256(scenario.text.encode()).hexdigest(),
            variants=list(variants),
            seeds=list(seeds),
            created=created,
        )


def write(folder: Path, manifest: Manifest, tables: Mapping[str, Table]) -> None:
    """One Parquet file per table, with variants by name, and manifest.json."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        columns = [_to_arrow(key, column, manifest.variants) for key, column in table.items()]
        # No value is missing anywhere, and the types are those that Parquet itself has.
        fields = [
            pa.field(key, column.type, nullable=False) for key, column in zip(table, columns, strict=True)
        ]
        made = pa.table(columns, pa.schema(fields))
        pq.write_table(made, folder / f"{name}.parquet", compression="zstd", store_schema=False)
    (folder / "manifest.json").write_text(json.dumps(asdict(manifest), indent=2) + "\n")


def run_in_parts(
    folder: Path,
    scenario: Scenario,
    manifest: Manifest,
    tables: Sequence[str],
    threads: int,
    progress: Callable[[int, int], None],
) -> dict[str, Table]:
    """Runs what the manifest says, some variants at a time; parts stay in `folder` until all are there.

    If it is interrupted, the next call with the same manifest takes the parts that it finds; another
    manifest, or another version, takes none.
    """
    size = max(1, RUNS_PER_PART // len(manifest.seeds))
    parts = [manifest.variants[i : i + size] for i in range(0, len(manifest.variants), size)]
    kept = folder / "parts"
    known = json.dumps([asdict(manifest), sorted(tables)])
    token = kept / hashlib.sha256(known.encode()).hexdigest()
    if not token.exists():
        shutil.rmtree(kept, ignore_errors=True)
        token.mkdir(parents=True)
    made: list[Mapping[str, Table]] = []
    for number, variants in enumerate(parts):
        part = token / str(number)
        if not (part / "manifest.json").is_file():
            own = replace(manifest, variants=variants)
            done, total = number * size * len(manifest.seeds), len(manifest.variants) * len(manifest.seeds)
            of_all = partial(_shifted, progress, done, total)
            write(part, own, scenario.run(variants, manifest.seeds, list(tables), threads, of_all))
        made.append(read(part)[1])
    shutil.rmtree(kept)
    return {name: _joined([part[name] for part in made], size) for name in tables}


def _shifted(progress: Callable[[int, int], None], before: int, total: int, done: int, _of: int) -> None:
    progress(before + done, total)


def _joined(parts: Sequence[Table], size: int) -> Table:
    """The rows of all parts; a part numbers its own variants from 0."""
    joined: dict[str, Column] = {}
    for key in dict.fromkeys(key for part in parts for key in part):
        columns = [part[key] for part in parts if key in part]
        if key == "variant":
            shifted = [np.asarray(part[key]) + i * size for i, part in enumerate(parts) if key in part]
            joined[key] = np.concatenate(shifted).astype(np.uint64)
        elif isinstance(columns[0], list):
            joined[key] = [str(value) for column in columns for value in column]
        else:
            joined[key] = np.concatenate([np.asarray(column) for column in columns])
    return joined


def read(folder: Path) -> tuple[Manifest, dict[str, Table]]:
    """What `write` wrote, in the form that `Scenario.run` returns."""
    path = folder / "manifest.json"
    try:
        manifest = Manifest(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"{path}: manifest: {error}") from error
    tables: dict[str, Table] = {}
    for file in sorted(folder.glob("*.parquet")):
        table = pq.read_table(file)
        tables[file.stem] = {
            key: _from_arrow(key, table[key].combine_chunks(), manifest.variants)
            for key in table.column_names
        }
    return manifest, tables


def _to_arrow(key: str, column: Column, variants: Sequence[str]) -> Any:
    if key == "variant":
        return pa.DictionaryArray.from_arrays(pa.array(column, pa.int32()), pa.array(variants, pa.string()))
    return pa.array(column, pa.string() if isinstance(column, list) else None)


def _from_arrow(key: str, column: Any, variants: Sequence[str]) -> Column:
    if key == "variant":
        names = pa.array(variants, pa.string())
        return np.asarray(pc.index_in(column, names), dtype=np.uint64)
    if pa.types.is_string(column.type):
        return list(column.to_pylist())
    return np.asarray(column)

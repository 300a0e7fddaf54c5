"""Tables on disk: Parquet with units in the column names, and a manifest that says where they come from.

Running and reporting are separate: whoever draws or compares reads these tables and nothing else.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from catnip._core import InputError, Scenario, __version__

Column: TypeAlias = NDArray[Any] | list[str] | list[bool]
Table: TypeAlias = Mapping[str, Column]

TABLES = ("runs", "pages", "objects", "connections", "ports", "datagrams", "events")


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
        columns = {key: _to_arrow(key, column, manifest.variants) for key, column in table.items()}
        pq.write_table(pa.table(columns), folder / f"{name}.parquet", compression="zstd")
    (folder / "manifest.json").write_text(json.dumps(asdict(manifest), indent=2) + "\n")


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
    return pa.array(column)


def _from_arrow(key: str, column: Any, variants: Sequence[str]) -> Column:
    if key == "variant":
        names = pa.array(variants, pa.string())
        return np.asarray(pc.index_in(column.cast(pa.string()), names), dtype=np.uint64)
    if pa.types.is_string(column.type):
        return list(column.to_pylist())
    return np.asarray(column)

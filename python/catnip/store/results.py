"""Tables on disk: Parquet files with units in the column names, and a manifest that records their origin.

The core declares the tables, `catnip list` describes them, and an emulation writes the same files.

Running and reporting are separate: figures and comparisons read only these tables.
"""

import base64
import hashlib
import json
import os
import platform
import shutil
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from importlib import metadata
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from catnip._core import InputError, Scenario, __version__
from catnip.base import provenance
from catnip.store import arrow, checks
from catnip.store.part_files import PartFiles
from catnip.store.points import Points, Rows
from catnip.store.runs import Executor, Progress, Request, Rule, all_seeds, axes_of, carry_out, settled
from catnip.store.tables import TABLES, Column, Table

ROW_GROUP = 1 << 20
PARTS = "points"
"""Folder of the runs that are stored until all are there."""
PIECE = 1 << 16
"""Number of rows that are converted at once, at least."""
CERTIFICATE = "certificate.json"
"""Name of the file with the requested and the actual behaviour of an emulation's links and hosts."""
LONGEST_TEXT = 1 << 18
"""Largest size of a scenario's other files that a manifest includes as they are, bytes."""
PACKED = "zlib_base64"
LONGEST_PACKED = 1 << 24
"""Largest compressed size of such files that a manifest includes, bytes."""


@dataclass(frozen=True)
class Manifest:
    """Description of runs, complete enough to repeat them."""

    created_by: str
    scenario: str
    title: str
    scenario_sha256: str
    variants: list[str]
    seeds: list[int]
    axes: Mapping[str, list[Any]] = field(default_factory=dict)
    """Axes of the variants: keys of the scenario that vary, each with a list of its value in every
    variant."""
    created: str | None = None
    commit: str | None = None
    """Commit of the checkout that ran the scenario; a trailing `+` marks changed files."""
    text: str | None = None
    """Text of the scenario, followed by the texts of the scenarios on which it builds."""
    source: Mapping[str, Any] | None = None
    """Name of the scenario's file, its own text, and the keys that `--set` has changed, as pairs."""
    files: Mapping[str, Mapping[str, str]] | None = None
    """Other files of the scenario, those on which it builds included, by path relative to its folder: their
    SHA-256 and contents, as `text`, or compressed by zlib and in base 64. Very long files have no contents.
    """
    series: str | None = None
    """Interval of time series; None if there are none."""
    points: list[str] | None = None
    """IDs of the variants that last: hashes of what determines the runs of each."""
    seed_counts: list[int] | None = None
    """Number of seeds of each variant, which has the first of `seeds`; None if all have all seeds."""
    made: Mapping[str, Any] | None = None
    """Circumstances of the run, which differ between equal runs: command, host, libraries, duration."""
    row_counts: Mapping[str, int] | None = None
    """Number of rows of each table that was written, by its name; None if it was not counted."""

    @classmethod
    def of(
        cls,
        scenario: Scenario,
        variants: Sequence[str],
        seeds: Sequence[int],
        created: str | None = None,
        series: str | None = None,
    ) -> "Manifest":
        """Returns the manifest of the runs of these variants and seeds, as by `Scenario.run`.

        Without `created`, equal runs give equal files.
        """
        path, text, changes, files = scenario.bundle()
        id_of = dict(zip(scenario.variants, scenario.point_ids(), strict=True))
        return cls(
            created_by=f"catnip {__version__}",
            scenario=scenario.id,
            title=scenario.title,
            scenario_sha256=_sha256(scenario.text),
            variants=list(variants),
            seeds=list(seeds),
            axes=axes_of(scenario, variants),
            created=created,
            commit=provenance.commit(),
            text=scenario.text,
            source={"path": Path(path).name, "text": text, "set": [list(change) for change in changes]},
            files={name: _packed(contents) for name, contents in files.items()},
            series=series,
            points=[id_of[name] for name in variants],
        )

    def seeds_of(self, variant: int) -> list[int]:
        """Returns the seeds of the variant with this index."""
        return self.seeds if self.seed_counts is None else self.seeds[: self.seed_counts[variant]]

    @property
    def counts(self) -> list[int]:
        """Number of seeds of each variant."""
        return self.seed_counts or [len(self.seeds)] * len(self.variants)

    def with_counts(self, counts: Sequence[int]) -> "Manifest":
        """Returns the manifest of variants with these numbers of seeds."""
        seeds = list(range(self.seeds[0], self.seeds[0] + max(counts)))
        return replace(self, seeds=seeds, seed_counts=None if len(set(counts)) == 1 else list(counts))

    def rebuilt(self) -> Scenario:
        """Returns the scenario of the runs, from this manifest alone.

        Raises InputError if the manifest has not all contents, or others than their SHA-256 says.
        """
        if self.source is None:
            raise InputError(f"manifest: source: missing in results of {self.created_by}")
        files = {name: _unpacked(name, entry) for name, entry in (self.files or {}).items()}
        changes = [(key, value) for key, value in self.source["set"]]
        return Scenario.from_bundle(self.source["path"], self.source["text"], changes, files)

    def with_provenance(self, seconds: float) -> "Manifest":
        """Returns the manifest with this program, this machine and the duration of the run."""
        return replace(self, made=_provenance(seconds))


def _provenance(seconds: float) -> dict[str, Any]:
    libraries = {name: metadata.version(name) for name in ("numpy", "pyarrow", "scipy")}
    return {
        "command": provenance.command_line(),
        "duration_s": round(seconds, 3),
        "host": platform.node(),
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "libraries": libraries,
    }


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _packed(contents: bytes) -> dict[str, str]:
    """Returns the entry of a file in a manifest."""
    entry = {"sha256": hashlib.sha256(contents).hexdigest()}
    if len(contents) <= LONGEST_TEXT:
        with suppress(UnicodeDecodeError):
            return {**entry, "text": contents.decode()}
    packed = zlib.compress(contents)
    return {**entry, PACKED: base64.b64encode(packed).decode()} if len(packed) <= LONGEST_PACKED else entry


def _unpacked(name: str, entry: Mapping[str, str]) -> bytes:
    """Returns the contents of a file from its entry in a manifest."""
    try:
        if "text" in entry:
            contents = entry["text"].encode()
        elif PACKED in entry:
            contents = zlib.decompress(base64.b64decode(entry[PACKED], validate=True))
        else:
            raise InputError(f"manifest: files: {name}: too long to be in the manifest")
        if hashlib.sha256(contents).hexdigest() == entry["sha256"]:
            return contents
    except (AttributeError, KeyError, TypeError, ValueError, zlib.error) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"manifest: files: {name}: {error}") from None
    raise InputError(f"manifest: files: {name}: has not the SHA-256 {entry['sha256']}")


def check_folder(folder: Path, manifest: Manifest) -> None:
    """Raises InputError if writing would replace a folder's results of another scenario or version."""
    if not (folder / "manifest.json").exists():
        return
    stored, _ = read(folder, tables=())
    for key, theirs, ours in (
        ("scenario", stored.scenario, manifest.scenario),
        ("version", stored.created_by.split()[-1], manifest.created_by.split()[-1]),
    ):
        if theirs != ours:
            problem = f"{folder} has results of {key} {theirs}, not of {ours}"
            raise InputError(f"--out: {problem}; choose another folder or remove it")


def write(
    folder: Path,
    manifest: Manifest,
    tables: Mapping[str, Table],
    certificate: Mapping[str, Any] | None = None,
) -> None:
    """Writes one Parquet file per table, with names of variants, and manifest.json; replaces existing files.

    The results of an emulation include its certificate.
    """
    in_arrow = {
        name: [arrow.to_arrow(table, manifest.variants, manifest.axes)] for name, table in tables.items()
    }
    _replace(folder, manifest, in_arrow, certificate)


@dataclass(frozen=True)
class StoredRuns:
    """Finished runs on disk: those of a manifest, each with the first of its seeds."""

    points: Points
    manifest: Manifest
    began_s: float
    """Begin of the run by the clock of `perf_counter`, s."""

    @property
    def counts(self) -> Sequence[int]:
        """Number of seeds of each variant."""
        return self.manifest.counts

    def rows(self, table: str, columns: Sequence[str], variant: int) -> Rows:
        """Returns columns of a table for the variant with this index, without the variant."""
        return self.points.rows(table, columns, variant, self.counts[variant])

    def write(self, folder: Path, tables: Iterable[str]) -> None:
        """Writes one Parquet file per table and manifest.json to `folder`; replaces existing files."""
        manifest = self.manifest.with_provenance(perf_counter() - self.began_s)
        _replace(folder, manifest, {name: self._tables(name) for name in sorted(set(tables))})

    def _tables(self, name: str) -> Iterator[pa.Table]:
        """Yields the table `name` in pieces, in the order of the runs.

        Names are strings: each piece has its own list of distinct names, which must not show in a file.
        """
        same_in_all = {"variant", *self.manifest.axes}
        for piece in self.points.pieces(name, self.counts, PIECE):
            table = arrow.to_arrow(piece, self.manifest.variants, self.manifest.axes)
            yield table.cast(
                pa.schema(
                    field.with_type(pa.string())
                    if pa.types.is_dictionary(field.type) and field.name not in same_in_all
                    else field
                    for field in table.schema
                )
            )


def points_of(folder: Path, manifest: Manifest, tables: Iterable[str]) -> tuple[Points, PartFiles]:
    """Returns the runs of a manifest that are stored in a folder of results, and the files that hold them.

    Raises InputError if the folder has other results.
    """
    check_folder(folder, manifest)
    parts = PartFiles(folder / PARTS, sorted(set(tables)), manifest.series)
    parts.folder.mkdir(parents=True, exist_ok=True)
    assert manifest.points is not None, "it is the manifest of these runs"
    # The version does not tell commits apart.
    ids = [_sha256(f"{point} {manifest.commit}") for point in manifest.points]
    return Points(parts, ids, manifest.seeds[0]), parts


@contextmanager
def carried_out(
    folder: Path,
    scenario: Scenario,
    manifest: Manifest,
    tables: Iterable[str],
    *,
    threads: int = 0,
    progress: Progress | None = None,
    rule: Rule | None = None,
    executor: Executor | None = None,
    keeps: bool = False,
) -> Iterator[StoredRuns]:
    """Executes the runs of a manifest, and stores their tables in `folder` until the block ends.

    After an interruption, the next call goes on with what is stored of the same runs. With a rule, variants
    get seeds until it is satisfied, and those of the manifest are ignored but for the first. If `keeps`, what
    is stored stays, so that a later plan need not run again what it has in common with this one.
    """
    began_s = perf_counter()
    needed = sorted(set(tables))
    points, parts = points_of(folder, manifest, needed)
    parts.clean()
    rule = rule or all_seeds(len(manifest.seeds))
    request = Request(scenario, manifest.variants, needed, manifest.series, threads)
    carry_out(points, request, range(len(manifest.variants)), rule, progress or (lambda *_: None), executor)
    counts = settled(points, len(manifest.variants), rule)
    if counts is None:
        raise InputError(f"--out: {parts.folder}: files were removed during the run")
    yield StoredRuns(points, manifest.with_counts(counts), began_s)
    if not keeps:
        shutil.rmtree(parts.folder)


def _replace(
    folder: Path,
    manifest: Manifest,
    tables: Mapping[str, Iterable[pa.Table]],
    certificate: Mapping[str, Any] | None = None,
) -> None:
    """Writes all files to a temporary folder and moves them into `folder`, the manifest last."""
    _check_replaceable(folder)
    temporary = folder / "new"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        counts = {name: _write_parquet(temporary / f"{name}.parquet", of) for name, of in tables.items()}
        manifest = replace(manifest, row_counts=counts)
        documents = {CERTIFICATE: certificate} if certificate else {}
        for name, document in {**documents, "manifest.json": asdict(manifest)}.items():
            with arrow.named(temporary / name) as file:
                file.write_text(json.dumps(document, indent=2) + "\n")
        for name in ("manifest.json", CERTIFICATE):
            (folder / name).unlink(missing_ok=True)
        for name in TABLES:
            (folder / f"{name}.parquet").unlink(missing_ok=True)
        for file in [*sorted(temporary.glob("*.parquet")), *(temporary / name for name in documents)]:
            file.rename(folder / file.name)
        (temporary / "manifest.json").rename(folder / "manifest.json")
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _check_replaceable(folder: Path) -> None:
    """Raises InputError if a folder has the name of a file of results: nothing is removed then."""
    for name in ("manifest.json", CERTIFICATE, *(f"{table}.parquet" for table in TABLES)):
        if (folder / name).is_dir():
            raise InputError(f"{folder / name}: is a folder, and not a file of results; remove it")


def _write_parquet(path: Path, parts: Iterable[pa.Table]) -> int:
    """Writes the parts of a table in row groups of fixed length, so that equal rows give equal bytes.

    Returns the number of rows.
    """
    pending: list[pa.Table] = []
    rows = 0
    with arrow.named(path), ExitStack() as stack:
        writer: pq.ParquetWriter | None = None
        for part in parts:
            if writer is None:
                file = stack.enter_context(path.open("wb"))
                writer = pq.ParquetWriter(
                    file, part.schema, compression="zstd", store_schema=False, write_page_checksum=True
                )
                stack.enter_context(writer)
            pending.append(part)
            rows += part.num_rows
            while sum(table.num_rows for table in pending) >= ROW_GROUP:
                joined = pa.concat_tables(pending)
                writer.write_table(joined.slice(0, ROW_GROUP).combine_chunks(), ROW_GROUP)
                pending = [joined.slice(ROW_GROUP)]
        if writer is not None:
            writer.write_table(pa.concat_tables(pending).combine_chunks(), ROW_GROUP)
    return rows


def read(folder: Path, tables: Iterable[str] | None = None) -> tuple[Manifest, dict[str, Table]]:
    """Reads the manifest and the tables (all, or those in `tables`) from a folder of `write`.

    Raises InputError, which names the file, if one is missing or damaged, or has rows of other runs.
    """
    known = {one.name: one.default is MISSING and one.default_factory is MISSING for one in fields(Manifest)}
    path = folder / "manifest.json"
    manifest = Manifest(
        **checks.manifest_of(path, known, [key for key, is_needed in known.items() if is_needed])
    )
    files = (
        _table_files(folder, manifest) if tables is None else [folder / f"{name}.parquet" for name in tables]
    )
    return manifest, {file.stem: _read_table(file, manifest) for file in files}


def _table_files(folder: Path, manifest: Manifest) -> list[Path]:
    """Returns the files of all tables. Raises InputError unless they are those of the manifest."""
    files = sorted(folder.glob("*.parquet"))
    counted = TABLES if manifest.row_counts is None else manifest.row_counts
    for file in files:
        if file.stem not in counted:
            raise InputError(f"{file}: not one of the tables of these results: {', '.join(counted)}")
    there = {file.stem for file in files}
    for name in manifest.row_counts or ():
        if name not in there:
            raise InputError(f"{folder / f'{name}.parquet'}: No such file, though the manifest has it")
    return files


def _read_table(file: Path, manifest: Manifest) -> dict[str, Column]:
    """Reads a table of the runs of a manifest. Raises InputError if the file is damaged or of other runs."""
    try:
        found = _read_parquet(file)
        whole = checks.with_declared_columns(found, file.stem, manifest.axes)
        if others := set(whole["variant"].unique().to_pylist()) - set(manifest.variants):
            raise ValueError(f"variant {min(others)} is not in the manifest")
        table = _from_arrow(whole, manifest.variants)
        checks.check_rows(table, file.stem, manifest.counts, manifest.seeds)
        checks.check_axes(found, np.asarray(table["variant"]), manifest.axes)
        expected = (manifest.row_counts or {}).get(file.stem, whole.num_rows)
        if whole.num_rows != expected:
            raise ValueError(f"has {whole.num_rows} rows instead of {expected}")
    except (OSError, ValueError, pa.ArrowException) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{file}: not a table of these results: {reason}") from None
    return table


def _read_parquet(path: Path) -> pa.Table:
    with _opened(path) as file:
        return pq.ParquetFile(file, page_checksum_verification=True).read()


def _opened(path: Path) -> pa.OSFile:
    """Opens a file with Arrow's own input, not Python's.

    Arrow's threads keep a Python file open beyond the read, and abort the process if it exits meanwhile.
    """
    return pa.OSFile(os.fsencode(path))


def _from_arrow(table: pa.Table, variants: Sequence[str]) -> dict[str, Column]:
    combined = table.combine_chunks()
    return {key: _column_from_arrow(key, combined[key], variants) for key in combined.column_names}


def _column_from_arrow(key: str, column: Any, variants: Sequence[str]) -> Column:
    if key == "variant":
        names = arrow.texts(variants)
        positions = pc.index_in(column.combine_chunks().cast(pa.string()), names)
        return arrow.to_numpy(positions).astype(np.uint64)
    if pa.types.is_string(column.type):
        return list(column.to_pylist())
    return arrow.to_numpy(column.combine_chunks())

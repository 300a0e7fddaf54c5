"""Tests of damaged folders of results: each command names the file in one line, and nothing is lost."""

import dataclasses
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import catnip
from catnip import InputError, cli
from catnip.store import checks
from catnip.store.results import Manifest
from conftest import Run
from plans import LINE, tables_of

Damage: TypeAlias = Callable[[Path], object]
SCENARIO = (
    """
id = "X-7"
title = "Pages through a narrow link"
"""
    + LINE
    + """
rate = "1Mbit"
delay = "5ms"
queue = "drop-tail:4"
loss = "bernoulli:0.02"
[traffic.web]
kind = "web"
clients = "client"
servers = "server"
pages = "pages.csv"
think = "100ms"
[[axis]]
key = "link.line.queue"
values = ["drop-tail:4", "drop-tail:8"]
[sweep]
seeds = "3..3"
until = "goodput_mbps 50%"
"""
)
VARIANTS = ["queue=drop-tail:4", "queue=drop-tail:8"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with a scenario, and with its results in `out`."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "own.toml").write_text(SCENARIO)
    (folder / "pages.csv").write_text("page,object_index,kind,bytes\n1,0,html,2000\n1,1,image,30000\n")
    assert cli.main(["run", str(folder / "own.toml"), "--out", str(folder / "out"), "-q"]) == 0
    return folder


@pytest.fixture
def out(whole: Path, tmp_path: Path) -> Path:
    """Returns a copy of the results, to be damaged."""
    return Path(shutil.copytree(whole / "out", tmp_path / "out"))


def changed(**keys: Any) -> Damage:
    """Returns the damage of a manifest that has other values."""

    def damage(out: Path) -> None:
        manifest = json.loads((out / "manifest.json").read_text())
        (out / "manifest.json").write_text(json.dumps({**manifest, **keys}))

    return damage


def without(key: str) -> Damage:
    """Returns the damage of a manifest that lacks a key."""

    def damage(out: Path) -> None:
        manifest = json.loads((out / "manifest.json").read_text())
        (out / "manifest.json").write_text(
            json.dumps({name: of for name, of in manifest.items() if name != key})
        )

    return damage


def rewritten(name: str, change: Callable[[bytes], bytes]) -> Damage:
    """Returns the damage of a file that has other bytes."""
    return lambda out: (out / name).write_bytes(change((out / name).read_bytes()))


def replaced(name: str, change: Callable[[pa.Table], pa.Table]) -> Damage:
    """Returns the damage of a table that another program has written over."""
    return lambda out: pq.write_table(change(pq.read_table(out / name)), out / name)


def column(name: str, values: Callable[[int], pa.Array]) -> Callable[[pa.Table], pa.Table]:
    """Returns a change of a table that replaces a column."""
    return lambda table: table.set_column(table.column_names.index(name), name, values(table.num_rows))


def filled(name: str, value: float) -> Callable[[pa.Table], pa.Table]:
    """Returns a change of a table that fills a column with a number."""
    return column(name, lambda rows: pa.array([value] * rows))


def folder_for(name: str) -> Damage:
    """Returns the damage of a file in whose place a folder is."""

    def damage(out: Path) -> None:
        (out / name).unlink()
        (out / name).mkdir()

    return damage


def flipped(data: bytes, share: float) -> bytes:
    at = int(len(data) * share)
    return data[:at] + bytes(byte ^ 255 for byte in data[at : at + 4]) + data[at + 4 :]


OF_MANIFEST: dict[str, tuple[Damage, str]] = {
    "missing": (lambda out: (out / "manifest.json").unlink(), "manifest: No such file or directory"),
    "empty": (rewritten("manifest.json", lambda _: b""), "manifest: Expecting value"),
    "cut off": (rewritten("manifest.json", lambda data: data[: len(data) // 2]), "manifest: "),
    "a folder": (folder_for("manifest.json"), "manifest: Is a directory"),
    "a list": (rewritten("manifest.json", lambda _: b"[1]"), "manifest: [1]: expected keys and values"),
    "nested too deep": (rewritten("manifest.json", lambda _: b"[" * 100_000), "manifest: maximum recursion"),
    "not UTF-8": (
        rewritten("manifest.json", lambda data: data.decode().encode("utf-16")),
        "manifest: 'utf-8'",
    ),
    "half a letter": (
        rewritten("manifest.json", lambda of: of.replace(b"Pages", b"\\ud800")),
        "title: '\\ud800 through",
    ),
    "an infinite number": (
        changed(made={"duration_s": float("inf")}),
        "manifest: Infinity: expected a finite",
    ),
    "NaN": (changed(seeds=[float("nan")]), "manifest: NaN: expected a finite number"),
    "an unknown key": (changed(banana=3), "manifest: banana: unknown key"),
    "no variants": (without("variants"), "manifest: variants: missing"),
    "another version": (changed(created_by=3), "created_by: 3: expected a program and its version"),
    "a scenario by number": (changed(scenario=3), "scenario: 3: expected a text"),
    "a title in a list": (changed(title=["x"]), "title: ['x']: expected a text"),
    "another SHA-256": (changed(scenario_sha256="00"), "scenario_sha256: '00': expected the SHA-256 of text"),
    "another text": (changed(text="id = 3"), "scenario_sha256: "),
    "one name for variants": (changed(variants="x"), "variants: 'x': expected a list of different names"),
    "a variant twice": (changed(variants=VARIANTS[:1] * 2), "variants: ["),
    "a variant too many": (changed(variants=[*VARIANTS, "x"]), "axes: {'link.line.queue': ["),
    "a truth as a seed": (changed(seeds=[True]), "seeds: [True]: expected a list of ascending whole numbers"),
    "seeds that descend": (changed(seeds=[3, 2, 1]), "seeds: [3, 2, 1]: expected"),
    "a huge seed": (
        changed(seeds=[1, 2, 10**30]),
        "seeds: [1, 2, 1000000000000000000000000000000]: expected",
    ),
    "a seed of thousands of digits": (
        rewritten(
            "manifest.json", lambda data: data.replace(b'"seeds": [', b'"seeds": [' + b"1" * 5000 + b",")
        ),
        "manifest: Exceeds the limit",
    ),
    "axes in a list": (changed(axes=["x"]), "axes: ['x']: expected a list for each key"),
    "an axis too short": (changed(axes={"link.line.queue": ["x"]}), "expected one value for each variant"),
    "a time as a number": (changed(created=3), "created: 3: expected a text"),
    "a commit as a number": (changed(commit=3), "commit: 3: expected a text"),
    "a source without text": (changed(source={"path": "x", "set": []}), "expected path, text and set"),
    "files in a list": (changed(files=["x"]), "files: ['x']: expected an entry for each file"),
    "an interval as a number": (changed(series=3), "series: 3: expected a text"),
    "points as numbers": (changed(points=[1, 2]), "points: [1, 2]: expected a list of names"),
    "a point too few": (changed(points=["x"]), "points: ['x']: expected one name for each variant"),
    "more seeds than there are": (
        changed(seed_counts=[3, 9]),
        "seed_counts: [3, 9]: expected one number for",
    ),
    "no seeds": (changed(seed_counts=[0, 3]), "seed_counts: [0, 3]: expected a list of numbers from 1 on"),
    "circumstances in a list": (changed(made=["x"]), "made: ['x']: expected keys and values"),
    "rows below zero": (changed(row_counts={"runs": -1}), "row_counts: {'runs': -1}: expected"),
}
"""Damage of a manifest, each with what is told of it."""
OF_TABLES: dict[str, tuple[str, Damage, str]] = {
    "missing": ("groups", lambda out: (out / "groups.parquet").unlink(), "No such file, though"),
    "missing, and none of the summary": (
        "pages",
        lambda out: (out / "pages.parquet").unlink(),
        "No such file",
    ),
    "empty": ("groups", rewritten("groups.parquet", lambda _: b""), "Parquet file size is 0 bytes"),
    "cut off": (
        "groups",
        rewritten("groups.parquet", lambda data: data[:-20]),
        "not a table of these results",
    ),
    "half": ("pages", rewritten("pages.parquet", lambda data: data[: len(data) // 2]), "not a table of"),
    "a folder": ("groups", folder_for("groups.parquet"), "not a table of these results: "),
    "no Parquet": (
        "runs",
        rewritten("runs.parquet", lambda _: "Zürich".encode("latin-1") * 9),
        "not a table",
    ),
    "another table": (
        "pages",
        lambda out: shutil.copy(out / "objects.parquet", out / "pages.parquet"),
        "has no column connections",
    ),
    "under another name": (
        "page",
        lambda out: (out / "pages.parquet").rename(out / "page.parquet"),
        "not one of the tables of these results: connections, ",
    ),
    "bytes flipped": ("groups", rewritten("groups.parquet", lambda of: flipped(of, 0.3)), "not a table of"),
    "bytes flipped in the middle": (
        "pages",
        rewritten("pages.parquet", lambda of: flipped(of, 0.5)),
        "not a",
    ),
    "an unknown column": (
        "groups",
        replaced("groups.parquet", lambda table: table.append_column("x", table["seed"])),
        "has an unknown column x",
    ),
    "a column twice": (
        "groups",
        replaced("groups.parquet", lambda table: table.append_column("seed", table["seed"])),
        "has more than one column seed",
    ),
    "no column of the summary": (
        "transfers",
        replaced("transfers.parquet", lambda table: table.drop_columns(["waited_s"])),
        "has no column waited_s",
    ),
    "no column of an axis": (
        "groups",
        replaced("groups.parquet", lambda table: table.drop_columns(["link.line.queue"])),
        "has no column link.line.queue",
    ),
    "texts for numbers": (
        "groups",
        replaced("groups.parquet", column("sent", lambda rows: pa.array(["x"] * rows))),
        "sent: values of type string, not uint64",
    ),
    "truths for numbers": (
        "ports",
        replaced("ports.parquet", column("seed", lambda rows: pa.array([True] * rows))),
        "seed: values of type bool, not uint64",
    ),
    "NaN for whole numbers": (
        "groups",
        replaced("groups.parquet", column("started", lambda rows: pa.array([np.nan] * rows))),
        "started: values of type double, not uint64",
    ),
    "numbers below zero": (
        "groups",
        replaced("groups.parquet", column("sent", lambda rows: pa.array([-1] * rows))),
        "sent: Integer value -1 not in range",
    ),
    "huge numbers": (
        "runs",
        replaced("runs.parquet", column("hops", lambda rows: pa.array([2**64 - 1] * rows, pa.uint64()))),
        "hops: 18446744073709551615: expected at most 281474976710656",
    ),
    "nothing for numbers": (
        "groups",
        replaced("groups.parquet", column("rtt_mean_s", lambda rows: pa.array([None] * rows, pa.float64()))),
        "rtt_mean_s: 6 missing values",
    ),
    "another seed": (
        "groups",
        replaced("groups.parquet", column("seed", lambda rows: pa.array([7] * rows, pa.uint64()))),
        "seed 7 is not in the manifest",
    ),
    "another variant": (
        "groups",
        replaced("groups.parquet", column("variant", lambda rows: pa.array(["x"] * rows))),
        "variant x is not in the manifest",
    ),
    "another value of an axis": (
        "groups",
        replaced("groups.parquet", column("link.line.queue", lambda rows: pa.array(["x"] * rows))),
        "link.line.queue: other values than in the manifest",
    ),
    "all rows twice": (
        "groups",
        replaced("groups.parquet", lambda table: pa.concat_tables([table, table])),
        "the rows are not in the order of variants and seeds",
    ),
    "a row twice": (
        "ports",
        replaced("ports.parquet", lambda table: pa.concat_tables([table.slice(0, 1), table])),
        "has a row twice: ",
    ),
    "a row twice where rows may be alike": (
        "transfers",
        replaced("transfers.parquet", lambda table: pa.concat_tables([table.slice(0, 1), table])),
        " rows instead of ",
    ),
    "a row less": ("pages", replaced("pages.parquet", lambda table: table.slice(1)), " rows instead of "),
    "a run less": ("runs", replaced("runs.parquet", lambda table: table.slice(1)), "has 5 rows for 6 runs"),
    "rows in another order": (
        "pages",
        replaced("pages.parquet", lambda table: table.take(list(reversed(range(table.num_rows))))),
        "the rows are not in the order of variants and seeds",
    ),
}
"""Damage of a table, each with the table's name and what is told of it."""


def reading(out: Path, whole: Path) -> Iterator[list[object]]:
    """Yields the command lines that read results."""
    yield ["results", out]
    yield ["results", out, "--against", VARIANTS[0], "--json"]
    yield ["results", out, "--compare", whole / "out"]
    yield ["results", whole / "out", "--compare", out]
    yield ["rerun", out, "--threads", 1]


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


@pytest.mark.parametrize("kind", OF_MANIFEST)
def test_a_damaged_manifest_is_named_by_each_command_and_nothing_is_lost(
    run_: Run, whole: Path, out: Path, kind: str
) -> None:
    damage, told = OF_MANIFEST[kind]
    damage(out)
    before = files_of(out)
    begins = f"error: {out / 'manifest.json'}: "
    for command in reading(out, whole):
        assert_refused(run_, command, begins, told)
    with pytest.raises(InputError, match=re.escape(begins.removeprefix("error: "))):
        catnip.read(out)
    if kind != "missing":
        assert_refused(run_, ["run", whole / "own.toml", "--out", out, "-q"], begins, told)
        assert files_of(out) == before


def test_each_key_of_a_manifest_is_checked() -> None:
    assert list(checks.MANIFEST) == [one.name for one in dataclasses.fields(Manifest)]


@pytest.mark.parametrize("kind", OF_TABLES)
def test_a_damaged_table_is_named_by_each_command_and_made_again_by_a_run(
    run_: Run, whole: Path, out: Path, kind: str
) -> None:
    table, damage, told = OF_TABLES[kind]
    damage(out)
    before = files_of(out)
    begins = f"error: {out / f'{table}.parquet'}: "
    for command in reading(out, whole):
        assert_refused(run_, command, begins, told)
    assert files_of(out) == before
    with pytest.raises(InputError, match=re.escape(begins.removeprefix("error: "))):
        catnip.read(out)
    again = ["run", whole / "own.toml", "--out", out, "-q"]
    if (out / f"{table}.parquet").is_dir():
        assert_refused(run_, again, begins, "is a folder, and not a file of results; remove it")
        assert files_of(out) == before
        (out / f"{table}.parquet").rmdir()
    assert run_(*again).code == 0
    made = tables_of(out)
    assert {name: made[name] for name in tables_of(whole / "out")} == tables_of(whole / "out")


def assert_refused(run_: Run, command: list[object], begins: str, told: str) -> None:
    done = run_(*command)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), done.err
    assert done.err.startswith(begins) and told in done.err


@pytest.mark.parametrize("share", np.linspace(0, 0.99, 34))
def test_flipped_bytes_are_told_or_change_no_row(run_: Run, out: Path, share: float) -> None:
    rewritten("transfers.parquet", lambda data: flipped(data, share))(out)
    done = run_("rerun", out, "--threads", 1, "--json")
    assert done.code in (0, 2)
    if done.code == 2:
        assert done.err.startswith(f"error: {out / 'transfers.parquet'}: not a table of these results: ")
    else:
        assert json.loads(done.out)["same"]


def test_values_that_are_no_measurements_are_told_by_rerun_and_end_no_summary(run_: Run, out: Path) -> None:
    for name, key in (("transfers", "time_s"), ("groups", "goodput_mbps"), ("groups", "fairness")):
        for value in (np.nan, np.inf, -np.inf, 1e308, -1.0):
            table = pq.read_table(out / f"{name}.parquet")
            replaced(f"{name}.parquet", filled(key, value))(out)
            assert run_("results", out, "--against", VARIANTS[0]).code == 0
            done = run_("rerun", out, "--threads", 1)
            assert done.code == 1 or np.array_equal(
                table[key].to_numpy(), [value] * table.num_rows, equal_nan=True
            )
            pq.write_table(table, out / f"{name}.parquet")


def test_a_table_that_another_library_has_written_with_its_types_is_read(run_: Run, out: Path) -> None:
    import polars  # noqa: PLC0415 -- slow to load

    file = out / "groups.parquet"
    before = run_("results", out).out
    polars.read_parquet(file).write_parquet(file)
    assert run_("results", out).out == before
    replaced("groups.parquet", column("seed", lambda rows: pa.array([1, 2, 3] * (rows // 3), pa.int64())))(
        out
    )
    assert run_("results", out).out == before


def test_results_that_need_other_tables_name_their_folder(run_: Run, whole: Path, tmp_path: Path) -> None:
    some = tmp_path / "some"
    assert run_("run", whole / "own.toml", "--tables", "runs", "--out", some, "-q").code == 0
    for command in (["results", some], ["results", whole / "out", "--compare", some]):
        assert_refused(run_, command, f"error: {some}: ", "has no table groups, which a summary needs")


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"series": "soon"}, 'manifest: series: "soon": expected a time'),
        ({"scenario": "X-8"}, "manifest: scenario: 'X-8': its source has X-7"),
        ({"files": {}}, "traffic.web.pages: pages.csv: not among the files of the bundle"),
        ({"source": {"path": "own.toml", "text": "id = 3", "set": []}}, "own.toml: "),
    ],
)
def test_a_manifest_that_gives_no_runs_is_told_by_rerun(
    run_: Run, out: Path, keys: dict[str, Any], told: str
) -> None:
    changed(**keys)(out)
    assert_refused(run_, ["rerun", out, "--threads", 1], f"error: {out}: ", told)


def in_directory(part: bytes, at: int, value: int) -> bytes:
    """Returns a zip file with another value in the entry of its first file in its directory."""
    at += part.index(b"PK\x01\x02")
    return part[:at] + bytes([value]) + part[at + 1 :]


PARTS: dict[str, Callable[[Path, list[Path]], object]] = {
    "empty": lambda part, _: part.write_bytes(b""),
    "cut off": lambda part, _: part.write_bytes(part.read_bytes()[:-100]),
    "half": lambda part, _: part.write_bytes(part.read_bytes()[:9000]),
    "bytes flipped": lambda part, _: part.write_bytes(flipped(part.read_bytes(), 0.4)),
    "marked as encrypted": lambda part, _: part.write_bytes(in_directory(part.read_bytes(), 8, 1)),
    "packed otherwise": lambda part, _: part.write_bytes(in_directory(part.read_bytes(), 10, 99)),
    "no zip": lambda part, _: part.write_text("hello"),
    "a Parquet file": lambda part, tables: shutil.copy(tables[0], part),
    "a folder": lambda part, _: folder_for(part.name)(part.parent),
    "under another name": lambda part, _: part.rename(part.with_name("part.zip")),
}


@pytest.mark.parametrize("kind", PARTS)
def test_a_damaged_part_is_named_by_the_run_that_goes_on_and_nothing_is_lost(
    run_: Run, whole: Path, out: Path, kind: str
) -> None:
    [part] = (out / "points").glob("*.zip")
    (out / "manifest.json").unlink()
    PARTS[kind](part, list(out.glob("*.parquet")))
    [there] = (out / "points").iterdir()
    before = files_of(out)
    command = ["run", whole / "own.toml", "--out", out, "-q"]
    refused = run_(*command)
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1), refused.err
    assert str(there) in refused.err
    assert files_of(out) == before
    shutil.rmtree(there) if there.is_dir() else there.unlink()
    assert run_(*command).code == 0
    assert tables_of(out) == tables_of(whole / "out")


def test_what_is_no_folder_of_parts_is_named(run_: Run, whole: Path, out: Path) -> None:
    for name in ("points", "new"):
        shutil.rmtree(out / name, ignore_errors=True)
        (out / name).write_text("x")
        refused = run_("run", whole / "own.toml", "--out", out, "-q")
        assert (refused.code, refused.err.count("\n")) == (2, 1)
        assert str(out / name) in refused.err
        (out / name).unlink()
    assert tables_of(out) == tables_of(whole / "out")


@pytest.fixture
def run_(catnip: Run) -> Run:
    """Returns the runner of the command line; its usual name, `catnip`, is the package in this module."""
    return catnip

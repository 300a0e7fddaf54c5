"""Tests of results on disk: reading written tables, manifests, and resumed runs."""

import dataclasses
import errno
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catnip import InputError, _core
from catnip._core import Scenario
from catnip.analysis import summary
from catnip.base import paths, programs, provenance
from catnip.base.locks import only_writer
from catnip.store import arrow, results, runs
from catnip.store.part_files import PartFiles
from catnip.store.points import InMemory, Points, Rows
from catnip.store.tables import KINDS, USUAL, CodedTable, Column, Table
from conftest import Run
from plans import tables_of

MANIFEST = results.Manifest(
    created_by="catnip 0",
    scenario="X-1",
    title="One",
    scenario_sha256="00",
    variants=["bad", "good"],
    seeds=[7, 8],
)
PAGES: Table = {
    "variant": np.array([0, 0, 1, 1], dtype=np.uint64),
    "seed": np.array([7, 8, 7, 8], dtype=np.uint64),
    "group": ["eca", "reno", "eca", "reno"],
    "client": np.array([0, 1, 2, 3], dtype=np.uint64),
    "page": np.array([4, 3, 2, 1], dtype=np.uint64),
    "start_s": np.array([0.0, 0.5, 1.0, 1.5]),
    "time_s": np.array([0.134, 6.1, np.nan, 0.2]),
    "bytes": np.array([2870, 2870, 1024, 1024], dtype=np.uint64),
    "delivered_bytes": np.array([2870, 2870, 0, 1024], dtype=np.uint64),
    "connections": np.array([2, 2, 0, 1], dtype=np.uint64),
}


COLUMNS = {name: [key for key, *_ in columns] for name, _, columns in _core.tables()}
WRITTEN = [*USUAL, "bursts"]
OF_EMULATOR = ("duration_s", "cpu_s", "real_time")
TINY = """
id = "X-2"
title = "A page through a narrow link, and nothing in the background"
[node]
server = { kind = "host" }
client = { kind = "host" }
[link.bottleneck]
from = "server"
to = "client"
rate = "1Mbit"
delay = "5ms"
queue = "catnip-good:4"
[tcp]
profile = "ns2-2002"
marker = "spm"
[traffic.web]
kind = "web"
clients = "client"
servers = "server"
pages = "pages.csv"
think_s = { distribution = "exponential", mean = 0.1 }
[[variant]]
name = "narrow"
"""


def test_round_trip(tmp_path: Path) -> None:
    kinds: dict[str, Column] = {"integer": np.zeros(0, np.uint64), "float": np.zeros(0), "text": []}
    nothing = {key: kinds[kind] for key, kind in KINDS["objects"].items()}
    results.write(tmp_path / "new" / "folder", MANIFEST, {"pages": PAGES, "objects": nothing})
    manifest, tables = results.read(tmp_path / "new" / "folder")
    assert manifest == dataclasses.replace(MANIFEST, row_counts={"pages": 4, "objects": 0})
    assert set(tables) == {"pages", "objects"}
    assert list(tables["pages"]) == list(PAGES) == COLUMNS["pages"]
    assert list(tables["objects"]) == list(nothing)
    for key, column in PAGES.items():
        np.testing.assert_array_equal(np.asarray(tables["pages"][key]), np.asarray(column))
    assert all(len(column) == 0 for column in tables["objects"].values())


def test_other_readers_see_variants_by_name(tmp_path: Path) -> None:
    results.write(tmp_path, MANIFEST, {"pages": PAGES})
    table = pq.read_table(tmp_path / "pages.parquet")
    assert table["variant"].to_pylist() == ["bad", "bad", "good", "good"]


def test_a_table_without_rows_has_the_types_of_one_with_rows(tmp_path: Path) -> None:
    results.write(tmp_path, MANIFEST, {"pages": PAGES, "none": {key: v[:0] for key, v in PAGES.items()}})
    assert pq.read_schema(tmp_path / "none.parquet") == pq.read_schema(tmp_path / "pages.parquet")


def test_the_emulator_writes_the_same_files(catnip: Run, tmp_path: Path) -> None:
    try:
        emulator = programs.program()
    except InputError as missing:
        pytest.skip(str(missing))
    file = tmp_path / "tiny.toml"
    file.write_text(TINY)
    (tmp_path / "pages.csv").write_text("page,object_index,kind,bytes\n1,0,html,2000\n1,1,image,30000\n")
    one, two = tmp_path / "one", tmp_path / "two"
    assert catnip("run", file, "--seed", 7, "--bursts", "--out", one).code == 0
    options = ["--seed", "7", "--bursts", "--tolerance", "60s", "--quiet", "--out", str(two)]
    subprocess.run([str(emulator), "emulate", str(file), *options], check=True, timeout=60)
    names = {path.name for path in one.glob("*.parquet")}
    assert names == {path.name for path in two.glob("*.parquet")} == {f"{name}.parquet" for name in WRITTEN}
    for name in names:
        simulated, emulated = pq.ParquetFile(one / name), pq.ParquetFile(two / name)
        assert simulated.schema_arrow.equals(emulated.schema_arrow, check_metadata=True), name
        # Parquet's own schema shows the stored types, and that no column has missing values.
        assert str(simulated.schema).split("\n", 1)[1] == str(emulated.schema).split("\n", 1)[1]
    (ran, simulated_tables), (did, emulated_tables) = results.read(one), results.read(two)
    more = {name: getattr(ran, name) for name in ("created_by", "commit", "made", "row_counts")}
    assert dataclasses.replace(did, **more) == ran
    assert did.created_by.startswith("catnip-emu ")
    for name in WRITTEN:
        expected, actual = simulated_tables[name], emulated_tables[name]
        assert list(expected) == list(actual) == COLUMNS[name]
        for key in expected:
            if key not in OF_EMULATOR:
                np.testing.assert_array_equal(
                    np.asarray(expected[key]), np.asarray(actual[key]), f"{name}.{key}"
                )
    rows = {name: len(emulated_tables[name]["seed"]) for name in WRITTEN}
    with_rows = {
        "runs": 1,
        "groups": 1,
        "transfers": 1,
        "pages": 1,
        "objects": 2,
        "connections": 2,
        "ports": 2,
        "bursts": 2,
    }
    others = ("echoes", "intervals", "datagrams", "segments", "videos", "loads", "fetches")
    without_rows = dict.fromkeys(others, 0)
    assert rows == {**with_rows, **without_rows}
    summarized = summary.of_tables(emulated_tables, did.variants, did.seeds)
    assert str(summarized) == str(summary.of_tables(simulated_tables, ran.variants, ran.seeds))


def test_same_tables_same_bytes(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        results.write(tmp_path / folder, MANIFEST, {"pages": PAGES})
    for name in ("pages.parquet", "manifest.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


@pytest.mark.parametrize("text", [None, "{", json.dumps({"seeds": []})])
def test_a_folder_without_results_is_bad_input(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(InputError, match=r"manifest\.json: manifest: "):
        results.read(tmp_path)


REQUESTED = {"connections": ["variant", "seed", "acked_s"], "ports": ["variant", "port", "loss"]}


def stop_after(limit: int) -> Callable[[int, int], None]:
    def stop(done: int, _total: int) -> None:
        if done >= limit:
            raise KeyboardInterrupt

    return stop


def run_to(folder: Path, seeds: list[int], report: Callable[[int, int], None]) -> dict[str, list[Rows]]:
    """Runs the scenario with results in a folder; returns each variant's rows of the tables of `WANTED`."""
    scenario = paths.scenario("hysteresis-priority")
    manifest = results.Manifest.of(scenario, scenario.variants, seeds)
    tables = {"connections", "runs", *REQUESTED}
    with results.carried_out(folder, scenario, manifest, tables, threads=1, progress=report) as stored:
        stored.write(folder, ["connections", "runs"])
        return rows_of(stored)


def rows_of(keeper: results.StoredRuns) -> dict[str, list[Rows]]:
    count = len(paths.scenario("hysteresis-priority").variants)
    return {
        name: [keeper.rows(name, columns, variant) for variant in range(count)]
        for name, columns in REQUESTED.items()
    }


@pytest.mark.parametrize("seeds", [[1, 2], list(range(1, 12))])
def test_an_interrupted_run_goes_on_and_gives_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seeds: list[int]
) -> None:
    complete, broken = tmp_path / "whole", tmp_path / "broken"
    monkeypatch.setattr(runs, "PART_S", 0.0)
    monkeypatch.setattr(results, "ROW_GROUP", 10)
    uninterrupted = run_to(complete, seeds, lambda *_: None)
    begun: list[int] = []
    for done in (5, 9, 12):
        with pytest.raises(KeyboardInterrupt):
            run_to(broken, seeds, stop_after(done))
        assert not (broken / "manifest.json").exists(), "what is not whole is no result"
    # This run's batches differ from those of the run that was not interrupted.
    monkeypatch.setattr(runs, "PART_S", 3.0)
    resumed = run_to(broken, seeds, lambda done, _: begun.append(done))
    assert min(begun) >= 8, "what was done is not done again"
    assert tables_of(broken) == tables_of(complete)
    assert sorted(tables_of(complete)) == ["connections.parquet", "runs.parquet"]
    assert not (broken / "points").exists()
    scenario = paths.scenario("hysteresis-priority")
    at_once = scenario.run(scenario.variants, seeds, list(REQUESTED))
    for name, columns in REQUESTED.items():
        full_table = {key: np.asarray(values) for key, values in at_once[name].items()}
        for executed in (resumed, uninterrupted):
            for variant, rows in enumerate(executed[name]):
                here = full_table["variant"] == variant
                assert list(rows) == [key for key in columns if key != "variant"]
                for key, values in rows.items():
                    np.testing.assert_array_equal(values, full_table[key][here])


def part(variants: int, first: int, end: int) -> dict[str, CodedTable]:
    """Returns a table whose rows tell their seed; variant 0 has a row for each seed, variant 1 two."""
    rows = [
        (variant, seed)
        for variant in range(variants)
        for seed in range(first, end)
        for _ in range(variant + 1)
    ]
    variant, seed = (np.array([row[at] for row in rows], np.uint64) for at in (0, 1))
    names = sorted({f"seed {one}" for one in seed})
    of = np.array([names.index(f"seed {one}") for one in seed], np.uint32)
    return {"rows": {"variant": variant, "seed": seed, "name": (names, of)}}


@pytest.mark.parametrize("on_disk", [False, True])
def test_what_is_stored_is_a_set_whatever_the_order_and_however_often(tmp_path: Path, on_disk: bool) -> None:
    store = PartFiles(tmp_path, ["rows"]) if on_disk else InMemory()
    points = Points(store, ["a", "b", "c"], 1)
    points.add([1, 2], 4, 7, part(2, 4, 7))
    assert points.missing(1, 6) == [(1, 4)]
    assert points.missing(1, 9) == [(1, 4), (7, 10)]
    assert points.missing(0, 2) == [(1, 3)]
    with pytest.raises(InputError, match="the run of b with seed 1 is missing"):
        points.rows("rows", ["seed"], 1, 6)
    # Other processes have made some of it, too, and in other pieces.
    points.add([2, 1], 1, 3, part(2, 1, 3))
    points.add([1], 2, 6, part(1, 2, 6))
    assert [points.missing(variant, 6) for variant in (0, 1, 2)] == [[(1, 7)], [], [(3, 4)]]
    rows = points.rows("rows", ["variant", "seed", "name"], 1, 6)
    assert list(rows) == ["seed", "name"]
    assert rows["seed"].tolist() == [1, 1, 2, 2, 3, 4, 5, 6]
    assert rows["name"].tolist() == [f"seed {seed}" for seed in rows["seed"]]
    points.add([0], 1, 7, part(1, 1, 7))
    points.add([2], 1, 7, part(1, 1, 7))
    for size in (1, 5, 1000):
        pieces = list(points.pieces("rows", [2, 6, 6], size))
        assert len(pieces) == (1 if size == 1000 else len(pieces))
        variant, seeds = (
            np.concatenate([np.asarray(of[key]) for of in pieces]).tolist() for key in ("variant", "seed")
        )
        assert variant == [0] * 2 + [1] * 8 + [2] * 6
        assert seeds == [1, 2, 1, 1, 2, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6]
    if on_disk:
        assert PartFiles(tmp_path, ["rows", "ports"]).parts() == []
        assert PartFiles(tmp_path, ["rows"], "100ms").parts() == []
        (tmp_path / "torn.zip").write_bytes(b"PK")
        with pytest.raises(InputError, match=r"--out: .*torn\.zip: not the runs that were stored: "):
            points.look()


def test_parts_are_stored_where_there_are_no_hard_links_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuses)
    points = Points(PartFiles(tmp_path, ["rows"]), ["a"], 1)
    points.add([0], 1, 3, part(1, 1, 3))
    assert points.rows("rows", ["seed"], 0, 2)["seed"].tolist() == [1, 2]
    assert [file.suffix for file in tmp_path.iterdir()] == [".zip"]


def test_a_second_run_in_a_folder_is_refused_before_it_changes_anything(catnip: Run, tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(TINY)
    (tmp_path / "pages.csv").write_text("page,object_index,kind,bytes\n1,0,html,2000\n")
    command = ["run", tmp_path / "tiny.toml", "--out", tmp_path / "out"]
    assert catnip(*command).code == 0
    before = tables_of(tmp_path / "out")
    with only_writer(tmp_path / "out"):
        second = catnip(*command, "--seeds", 3)
    assert (second.code, second.out) == (2, "")
    assert re.fullmatch(r"error: --out: .*out: process \d+ on .* writes there; .*\n", second.err)
    assert tables_of(tmp_path / "out") == before
    assert catnip(*command, "--seeds", 3).code == 0


def test_what_was_done_for_other_seeds_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "PART_S", 0.0)
    for seeds in ([1], [2]):
        with pytest.raises(KeyboardInterrupt):
            run_to(tmp_path, seeds, stop_after(5))
    assert {*run_to(tmp_path, [2], lambda *_: None)["connections"][0]["seed"].tolist()} == {2}


def test_the_manifest_says_what_was_run_by_which_code_and_how(catnip: Run, tmp_path: Path) -> None:
    assert catnip("run", "catnip-e2", "--seeds", 1, "--out", tmp_path).code == 0
    manifest, _ = results.read(tmp_path)
    scenario = paths.scenario("catnip-e2")
    assert manifest.text == scenario.text
    reread = Scenario.parse(scenario.path, manifest.text or "")
    assert reread.variants == manifest.variants
    assert manifest.commit is None or re.fullmatch(r"[0-9a-f]{40}\+?", manifest.commit)
    provenance = manifest.made or {}
    assert provenance["duration_s"] > 0
    assert set(provenance["libraries"]) == {"numpy", "pyarrow", "scipy"}
    assert {"command", "host", "system", "cores", "python"} <= set(provenance)


def test_files_that_a_scenario_names_are_in_the_manifest(catnip: Run, tmp_path: Path) -> None:
    pages = "page,object_index,kind,bytes\n1,0,html,2000\n"
    (tmp_path / "pages.csv").write_text(pages)
    (tmp_path / "tiny.toml").write_text(TINY)
    assert catnip("run", tmp_path / "tiny.toml", "--out", tmp_path / "out").code == 0
    manifest, _ = results.read(tmp_path / "out")
    digest = hashlib.sha256(pages.encode()).hexdigest()
    assert manifest.files == {"pages.csv": {"sha256": digest, "text": pages}}
    assert manifest.source == {"path": "tiny.toml", "text": TINY, "set": []}
    [recording] = paths.scenario("recorded-page").files
    assert recording.endswith("pages/site.har")


def test_results_of_another_scenario_or_version_are_not_overwritten(catnip: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert catnip("run", "catnip-e2", "--seeds", 1, "--out", out).code == 0
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    refused = catnip("run", "hysteresis-priority", "--seeds", 1, "--out", out)
    message = f"{out} has results of scenario CAT-E2, not of HYS-E10"
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith(f"error: --out: {message}")
    old = json.loads((out / "manifest.json").read_text()) | {"created_by": "catnip 0.0.1"}
    (out / "manifest.json").write_text(json.dumps(old))
    refused = catnip("run", "catnip-e2", "--seeds", 1, "--out", out)
    assert refused.code == 2
    assert "has results of version 0.0.1, not of " in refused.err
    assert {file.name: file.read_bytes() for file in out.glob("*.parquet")} == {
        name: contents for name, contents in before.items() if name.endswith(".parquet")
    }


def test_of_the_same_scenario_no_old_table_stays_beside_new_ones(catnip: Run, tmp_path: Path) -> None:
    assert catnip("run", "catnip-e2", "--seeds", 2, "--out", tmp_path).code == 0
    assert catnip("run", "catnip-e2", "--seeds", 1, "--tables", "runs", "--out", tmp_path).code == 0
    assert sorted(file.name for file in tmp_path.iterdir()) == ["manifest.json", "runs.parquet"]


def test_a_disk_that_is_full_is_named_with_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def is_full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    results.write(tmp_path, MANIFEST, {"pages": PAGES})
    before = tables_of(tmp_path)
    monkeypatch.setattr(pq.ParquetWriter, "write_table", is_full)
    with pytest.raises(OSError, match="No space left on device") as failed:
        results.write(tmp_path, MANIFEST, {"pages": PAGES})
    assert str(failed.value.filename).endswith("pages.parquet")
    assert tables_of(tmp_path) == before, "what was there is still there"
    assert results.read(tmp_path)[0] == dataclasses.replace(MANIFEST, row_counts={"pages": 4})


def test_what_reproductions_write_does_not_make_a_checkout_a_changed_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    git = partial(subprocess.run, cwd=tmp_path, check=True, capture_output=True)
    files = [tmp_path / name for name in ("validation/a.html", "docs/figures/a.svg", "validation/a.csv")]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("old")
    git(["git", "init"])
    git(["git", "add", "."])
    git(["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-m", "all"])
    (tmp_path / "crates").mkdir()
    monkeypatch.setattr(paths, "PACKAGE", tmp_path / "python" / "catnip")
    clean = provenance.commit()
    assert clean is not None
    assert not clean.endswith("+")
    for file, expected in zip(files, (clean, clean, f"{clean}+"), strict=True):
        file.write_text("new")
        assert provenance.commit() == expected


WITHOUT_PANDAS = """
import sys

class Refuse:
    def find_spec(self, name, *_):
        if name == "pandas":
            raise AssertionError("pandas is imported")

sys.meta_path.insert(0, Refuse())
from pathlib import Path
from catnip.cli import main
from catnip.store import results

code = main(["run", "catnip-e2", "--seeds", "1", "--quiet", "--out", sys.argv[1]])
results.read(Path(sys.argv[1]))
raise SystemExit(code)
"""


def test_results_are_written_and_read_without_pandas(tmp_path: Path) -> None:
    words = [sys.executable, "-c", WITHOUT_PANDAS, str(tmp_path / "out")]
    ended = subprocess.run(words, check=False, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("offset", [0, 3])
def test_columns_keep_their_values_on_the_way_to_arrow_and_back(offset: int) -> None:
    for values in (
        np.array([1, -2, 3, 1 << 40, 5], np.int64),
        np.array([0.5, np.nan, -np.inf, 0.0, 1e300]),
        np.array([True, False, False, True, True]),
        np.array([], np.uint64),
    ):
        array = arrow.numbers(values)
        assert array.type == pa.from_numpy_dtype(values.dtype)
        sliced = array[min(offset, len(values)) :]
        np.testing.assert_array_equal(arrow.to_numpy(sliced), values[offset:])
    texts = ["", "Zürich", "a", "a"]
    assert arrow.texts(texts).to_pylist() == texts

"""Tables come back from disk as they were written."""

import dataclasses
import json
import subprocess
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from catnip import InputError, _core, paths, results, summary
from catnip.cli import emulation
from conftest import Run

MANIFEST = results.Manifest(
    created_by="catnip 0",
    scenario="X-1",
    title="One",
    scenario_sha256="00",
    variants=["good", "bad"],
    seeds=[7, 8],
)
PAGES: results.Table = {
    "variant": np.array([1, 1, 0, 0], dtype=np.uint64),
    "seed": np.array([7, 8, 7, 8], dtype=np.uint64),
    "group": ["eca", "reno", "eca", "reno"],
    "time_s": np.array([0.134, 6.1, np.nan, 0.2]),
}


COLUMNS = {name: [key for key, *_ in columns] for name, _, columns in _core.tables()}
WRITTEN = [name for name in results.TABLES if name != "events"]
# The simulator's run ends when its last timer has come up, the emulator's when its users are done.
OF_REAL_TIME = ("duration_s", "cpu_s", "real_time")
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
    nothing = {key: values[:0] for key, values in PAGES.items()}
    results.write(tmp_path / "new" / "folder", MANIFEST, {"pages": PAGES, "objects": nothing})
    manifest, tables = results.read(tmp_path / "new" / "folder")
    assert manifest == MANIFEST
    assert set(tables) == {"pages", "objects"}
    assert list(tables["pages"]) == list(tables["objects"]) == list(PAGES)
    for key, column in PAGES.items():
        np.testing.assert_array_equal(np.asarray(tables["pages"][key]), np.asarray(column))
        assert len(tables["objects"][key]) == 0


def test_other_readers_see_variants_by_name(tmp_path: Path) -> None:
    results.write(tmp_path, MANIFEST, {"pages": PAGES})
    table = pq.read_table(tmp_path / "pages.parquet")
    assert table["variant"].to_pylist() == ["bad", "bad", "good", "good"]


def test_a_table_without_rows_has_the_types_of_one_with_rows(tmp_path: Path) -> None:
    results.write(tmp_path, MANIFEST, {"pages": PAGES, "none": {key: v[:0] for key, v in PAGES.items()}})
    assert pq.read_schema(tmp_path / "none.parquet") == pq.read_schema(tmp_path / "pages.parquet")


def test_the_emulator_writes_the_same_files(catnip: Run, tmp_path: Path) -> None:
    try:
        emulator = emulation.program()
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
        # Parquet's own schema: types as they are stored, and that nothing can be missing.
        assert str(simulated.schema).split("\n", 1)[1] == str(emulated.schema).split("\n", 1)[1]
    (ran, simulated_tables), (did, emulated_tables) = results.read(one), results.read(two)
    assert dataclasses.replace(did, created_by=ran.created_by) == ran
    assert did.created_by.startswith("catnip-emu ")
    for name in WRITTEN:
        made, really = simulated_tables[name], emulated_tables[name]
        assert list(made) == list(really) == COLUMNS[name]
        for key in made:
            if key not in OF_REAL_TIME:
                np.testing.assert_array_equal(np.asarray(made[key]), np.asarray(really[key]), f"{name}.{key}")
    rows = {name: len(emulated_tables[name]["seed"]) for name in WRITTEN}
    with_rows = {"runs": 1, "pages": 1, "objects": 2, "connections": 2, "ports": 2, "bursts": 2}
    assert rows == {**with_rows, "echoes": 0, "datagrams": 0}
    told = summary.summarize(emulated_tables, did.variants, did.seeds)
    assert str(told) == str(summary.summarize(simulated_tables, ran.variants, ran.seeds))


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


def test_an_interrupted_run_goes_on_and_ends_with_the_tables_of_one_that_was_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "RUNS_PER_PART", 4)
    scenario = paths.scenario("hysteresis-priority")
    manifest = results.Manifest.of(scenario, scenario.variants, [1, 2])
    tables = ["connections", "ports"]
    parts_begun: list[int] = []

    def stop_in_the_third_part(done: int, _total: int) -> None:
        parts_begun.append(done // 4)
        if done > 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        results.run_in_parts(tmp_path, scenario, manifest, tables, 1, stop_in_the_third_part)
    begun_again: list[int] = []
    made = results.run_in_parts(
        tmp_path, scenario, manifest, tables, 1, lambda done, _: begun_again.append(done)
    )
    assert min(begun_again) >= 8, "the first two parts are not run again"
    whole = scenario.run(scenario.variants, [1, 2], tables)
    for name in tables:
        assert list(made[name]) == list(whole[name])
        for key, column in whole[name].items():
            np.testing.assert_array_equal(np.asarray(made[name][key]), np.asarray(column), err_msg=key)
    assert not (tmp_path / "parts").exists()


def test_parts_of_another_run_are_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "RUNS_PER_PART", 1)
    scenario = paths.scenario("hysteresis-priority")

    def stop_at_once(done: int, _total: int) -> None:
        if done > 1:
            raise KeyboardInterrupt

    for seeds in ([1], [2]):
        manifest = results.Manifest.of(scenario, scenario.variants[:3], seeds)
        with pytest.raises(KeyboardInterrupt):
            results.run_in_parts(tmp_path, scenario, manifest, ["connections"], 1, stop_at_once)
    manifest = results.Manifest.of(scenario, scenario.variants[:3], [2])
    made = results.run_in_parts(tmp_path, scenario, manifest, ["connections"], 1, lambda *_: None)
    assert np.asarray(made["connections"]["seed"]).tolist() == [2, 2, 2]

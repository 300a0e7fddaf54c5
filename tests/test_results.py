"""Tables come back from disk as they were written."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from catnip import InputError, paths, results

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


def test_round_trip(tmp_path: Path) -> None:
    results.write(tmp_path / "new" / "folder", MANIFEST, {"pages": PAGES, "objects": {}})
    manifest, tables = results.read(tmp_path / "new" / "folder")
    assert manifest == MANIFEST
    assert set(tables) == {"pages", "objects"}
    assert not tables["objects"]
    assert list(tables["pages"]) == list(PAGES)
    for key, column in PAGES.items():
        np.testing.assert_array_equal(np.asarray(tables["pages"][key]), np.asarray(column))


def test_other_readers_see_variants_by_name(tmp_path: Path) -> None:
    results.write(tmp_path, MANIFEST, {"pages": PAGES})
    table = pq.read_table(tmp_path / "pages.parquet")
    assert table["variant"].to_pylist() == ["bad", "bad", "good", "good"]


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

"""Tables come back from disk as they were written."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from catnip import InputError, results

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

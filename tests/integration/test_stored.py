"""Tests of commands that read stored results: they repeat the runs, summarize, compare and export them."""

import ast
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from catnip.analysis import users
from catnip.store import results
from conftest import Run
from pages import blocks
from plans import LINE

BASE = (
    """
id = "X-3"
title = "Pages through a narrow link, recorded in three files"
seeds = 3
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
pages = "data/pages.csv"
think = "100ms"
"""
)
OWN = """
base = "../common.toml"
id = "X-4"
[[axis]]
key = "link.line.queue"
values = ["drop-tail:4", "drop-tail:8"]
"""

TWO_GROUPS = (
    """
id = "X-10"
title = "A small file and a large one"
seeds = 2
"""
    + LINE
    + """
rate = "1Mbit"
delay = "5ms"
queue = "drop-tail:40"
[traffic.small]
kind = "bulk"
from = "server"
to = "client"
bytes = "16KB"
[traffic.large]
kind = "bulk"
from = "server"
to = "client"
bytes = "240KB"
"""
)


@pytest.fixture
def stored(catnip: Run, tmp_path: Path) -> Path:
    """Returns results of a scenario with a base and a file, which are there no more."""
    folder = tmp_path / "mine"
    (folder / "data").mkdir(parents=True)
    (tmp_path / "common.toml").write_text(BASE)
    (folder / "own.toml").write_text(OWN)
    (folder / "data" / "pages.csv").write_text(
        "page,object_index,kind,bytes\n1,0,html,2000\n1,1,image,30000\n"
    )
    options = ["--set", "link.line.rate=2Mbit", "--series", "100ms", "--out", tmp_path / "out"]
    assert catnip("run", folder / "own.toml", *options).code == 0
    shutil.rmtree(folder)
    (tmp_path / "common.toml").unlink()
    return tmp_path / "out"


def test_runs_are_repeated_bit_by_bit_from_the_manifest_alone(catnip: Run, stored: Path) -> None:
    done = catnip("rerun", stored)
    assert (done.code, done.err) == (0, "")
    assert "connection_series" in done.out
    assert done.out.count("the same") == len(list(stored.glob("*.parquet")))
    some = catnip("rerun", stored, "--variant", "queue=drop-tail:8", "--seeds", 1, "--json")
    document = json.loads(some.out)
    rows = {table["table"]: table["rows"] for table in document["tables"]}
    assert (some.code, document["same"], rows["runs"]) == (0, True, 1)
    points = json.loads((stored / "manifest.json").read_text())["points"]
    one = json.loads(catnip("rerun", stored, "--point", points[1][:12], "--json").out)
    assert (one["same"], {table["table"]: table["rows"] for table in one["tables"]}["runs"]) == (True, 3)
    for begin, count in (("", 0), ("x", 0)):
        refused = catnip("rerun", stored, "--point", begin)
        assert refused.err == f"error: --point: {begin}: {count} IDs in {stored} begin so\n"


def test_one_changed_bit_is_found_and_told(catnip: Run, stored: Path) -> None:
    file = stored / "pages.parquet"
    table = pq.read_table(file)
    at = table.column_names.index("time_s")
    times = table["time_s"].to_pylist()
    times[-1] += 1e-9
    pq.write_table(table.set_column(at, table.schema.field("time_s"), pa.array(times)), file)
    done = catnip("rerun", stored)
    assert done.code == 1
    [line] = [line for line in done.out.splitlines() if "instead of" in line]
    assert "pages" in line and "queue=drop-tail:8, seed 3: time_s is " in line


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("files/data~pages.csv/text", "page,object_index,kind,bytes\n", "has not the SHA-256"),
        ("files/data~pages.csv", {"sha256": "00"}, "files: data/pages.csv: too long to be in the manifest"),
        ("files/data~pages.csv", {"sha256": "00", "zlib_base64": "?"}, "files: data/pages.csv: "),
        ("source", None, "source: missing in results of catnip "),
        ("source/set", [1], "source: "),
        (
            "variants",
            ["queue=drop-tail:9", "queue=drop-tail:8"],
            "variants: queue=drop-tail:9 is none of the scenario's",
        ),
        ("created_by", "catnip-emu 0", "results of an emulation"),
    ],
)
def test_a_manifest_that_does_not_suffice_is_one_line(
    catnip: Run, stored: Path, key: str, value: Any, told: str
) -> None:
    manifest = json.loads((stored / "manifest.json").read_text())
    *above, last = [part.replace("~", "/") for part in key.split("/")]
    at = manifest
    for part in above:
        at = at[part]
    at[last] = value
    (stored / "manifest.json").write_text(json.dumps(manifest))
    done = catnip("rerun", stored)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith("error: ") and told in done.err


def test_long_files_are_in_the_manifest_too(
    catnip: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "LONGEST_TEXT", 10)
    (tmp_path / "data").mkdir()
    (tmp_path / "own.toml").write_text(BASE)
    (tmp_path / "data" / "pages.csv").write_text("page,object_index,kind,bytes\n1,0,html,2000\n")
    assert catnip("run", tmp_path / "own.toml", "--out", tmp_path / "out").code == 0
    shutil.rmtree(tmp_path / "data")
    entry = json.loads((tmp_path / "out" / "manifest.json").read_text())["files"]["data/pages.csv"]
    assert set(entry) == {"sha256", "zlib_base64"}
    assert catnip("rerun", tmp_path / "out").code == 0


def test_stored_results_are_summarized_as_they_were(catnip: Run, stored: Path) -> None:
    again = catnip("results", stored, "--against", "queue=drop-tail:4")
    assert again.code == 0
    assert "queue=drop-tail:8" in again.out and "Difference to queue=drop-tail:4, paired by seed" in again.out


def test_two_results_are_compared_by_the_variants_and_seeds_that_both_have(
    catnip: Run, stored: Path, tmp_path: Path
) -> None:
    itself = json.loads(catnip("results", stored, "--compare", stored, "--json").out)["compared"]
    assert list(itself) == ["queue=drop-tail:4", "queue=drop-tail:8"]
    [measures] = [groups["web"] for groups in itself.values()][:1]
    assert measures["page_time_s"]["mean"] == 0
    (tmp_path / "data").mkdir()
    (tmp_path / "other.toml").write_text(BASE)
    (tmp_path / "data" / "pages.csv").write_text("page,object_index,kind,bytes\n1,0,html,2000\n")
    assert catnip("run", tmp_path / "other.toml", "--out", tmp_path / "other").code == 0
    refused = catnip("results", stored, "--compare", tmp_path / "other")
    assert (refused.code, refused.err) == (2, "error: --compare: the results have no variant in common\n")


def test_tables_are_exported_to_csv_and_arrow(catnip: Run, stored: Path, tmp_path: Path) -> None:
    whole = pq.read_table(stored / "pages.parquet")
    for name in ("pages.csv", "pages.arrow"):
        file = tmp_path / name
        assert catnip("results", stored, "--table", "pages", "--export", file, "-q").code == 0
        read = csv.read_csv(file) if name.endswith("csv") else pa.ipc.open_file(file).read_all()
        assert (read.column_names, read.num_rows) == (whole.column_names, whole.num_rows)
        assert read["time_s"].to_pylist() == whole["time_s"].to_pylist()
    refused = catnip("results", stored, "--table", "pagez", "--export", tmp_path / "x.csv")
    assert refused.code == 2 and "'pagez': no such table; there are " in refused.err
    assert not (tmp_path / "x.csv").exists()


def test_the_lines_for_other_libraries_give_the_same_means(
    catnip: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert catnip("run", "catnip-e2", "--seeds", 2, "--out", "build/catnip-e2").code == 0
    summary = json.loads(catnip("results", "build/catnip-e2", "--json").out)["variants"]
    expected = {
        name: next(iter(of["groups"].values()))["means"]["goodput_mbps"]["mean"]
        for name, of in summary.items()
    }
    shown: list[Any] = [run_block(block) for block in blocks("results.md", "python")]
    pandas_rows, polars_rows, duckdb_rows, busy = shown
    for means in (pandas_rows.to_dict(), dict(polars_rows.iter_rows()), dict(duckdb_rows)):
        assert means == pytest.approx(expected)
    measured = {name: next(iter(of["groups"].values()))["means"] for name, of in summary.items()}
    assert busy == pytest.approx({name: of["busy_goodput_mbps"]["mean"] for name, of in measured.items()})
    assert all(rate > 0 for rate in busy.values())


def test_several_groups_have_an_index_over_all_their_users(catnip: Run, tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text(TWO_GROUPS)
    out = tmp_path / "out"
    assert catnip("run", tmp_path / "two.toml", "--out", out).code == 0
    printed = catnip("results", out).out
    assert "All groups together" in printed and "goodput while busy, Mbit/s" in printed
    document = json.loads(catnip("results", out, "--json").out)
    [index] = document["fairness"].values()
    assert index["mean"] == pytest.approx(users.jain([16, 240])) and index["low"] is None


def run_block(block: str) -> Any:
    """Executes a block of Python and returns the value of its last line."""
    *before, last = ast.parse(block).body
    assert isinstance(last, ast.Expr)
    names: dict[str, Any] = {}
    exec(compile(ast.Module(before, []), "results.md", "exec"), names)
    return eval(compile(ast.Expression(last.value), "results.md", "eval"), names)

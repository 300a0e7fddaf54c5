"""Tests of features of runs: differences, warm-up, time series, interruption and lack of memory."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from pytest import approx

from catnip._core import Scenario
from catnip.analysis import summary
from catnip.cli.options import BAD_INPUT, INTERRUPTED
from catnip.store import results, runs
from conftest import Run

PIPE = """
id = "PIPE"
title = "Documents through a pipe"
seeds = 6
[node]
server = { kind = "host" }
router = { kind = "router" }
client = { kind = "host", count = 5 }
[link.pipe]
from = "server"
to = "router"
rate = "2Mbit"
delay = "20ms"
queue = "{kind}:{length}"
[define]
kind = "drop-tail"
length = "10"
[link.access]
from = "router"
to = "client"
rate = "10Mbit"
delay = "1ms"
queue = "drop-tail:100"
[tcp]
profile = "rfc"
marker = "spm"
[traffic.document]
kind = "bulk"
from = "server"
to = "client"
bytes = "64KB"
[[axis]]
key = "define.kind"
values = ["drop-tail", "catnip-good"]
[[axis]]
key = "define.length"
values = ["10", "40"]
"""


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    file = tmp_path / "pipe.toml"
    file.write_text(PIPE)
    return file


def test_variants_are_compared_with_one_or_along_an_axis(catnip: Run, pipe: Path) -> None:
    along = json.loads(catnip("run", pipe, "--against", "kind=drop-tail", "--json").out)
    assert along["axes"] == {
        "define.kind": ["drop-tail", "drop-tail", "catnip-good", "catnip-good"],
        "define.length": ["10", "40", "10", "40"],
    }
    assert {name: of["to"] for name, of in along["differences"].items()} == {
        f"kind=catnip-good / length={length}": f"kind=drop-tail / length={length}" for length in (10, 40)
    }
    means = {name: of["groups"]["document"]["means"] for name, of in along["variants"].items()}
    for name, of in along["differences"].items():
        for key, less in of["groups"]["document"].items():
            here, there = means[name][key]["mean"], means[of["to"]][key]["mean"]
            if key not in summary.QUANTILES:
                assert less["mean"] == approx(here - there)
            # Few seeds may have a difference and no interval that holds.
            assert less["low"] is None or less["low"] <= less["mean"] <= less["high"]
        assert any(less["low"] is not None for less in of["groups"]["document"].values())
    one = json.loads(catnip("run", pipe, "--against", "kind=drop-tail / length=10", "--json").out)
    assert set(one["differences"]) == {
        name for name in one["variants"] if not name.endswith("tail / length=10")
    }
    text = catnip("run", pipe, "--against", "define.kind=drop-tail").out
    assert "Difference to define.kind=drop-tail, paired by seed" in text
    assert "kind=catnip-good / length=10" in text.split("Difference to")[1]


def test_what_nothing_can_be_compared_with_is_refused_before_the_run(catnip: Run, pipe: Path) -> None:
    for against in ("kind=red", "kine=drop-tail", "nothing"):
        ended = catnip("run", pipe, "--against", against)
        assert (ended.code, ended.out) == (BAD_INPUT, "")
        assert ended.err.startswith(
            f"error: --against: '{against}' is none of kind=drop-tail, length=10, kind="
        )


def test_a_warm_up_leaves_out_what_begins_in_it(catnip: Run, pipe: Path, tmp_path: Path) -> None:
    text = PIPE.replace('bytes = "64KB"', 'bytes = "64KB"\nstart_s = "uniform:minimum=0,maximum=4"')
    pipe.write_text(f'warm_up = "2s"\n{text}')
    out = tmp_path / "out"
    printed = json.loads(catnip("run", pipe, "--json", "--out", out).out)
    _, tables = results.read(out)
    starts = np.asarray(tables["connections"]["start_s"])
    started = sum(of["groups"]["document"]["started"] for of in printed["variants"].values())
    assert started == (starts >= 2).sum() < len(starts)
    assert set(np.asarray(tables["runs"]["warm_up_s"])) == {2.0}
    ended = catnip("run", pipe, "--tables", "runs")
    assert ended.code == BAD_INPUT


def test_series_are_written_beside_what_they_add_up_to(catnip: Run, pipe: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert catnip("run", pipe, "--series", "50ms", "--out", out).code == 0
    manifest, tables = results.read(out)
    assert manifest.axes["define.length"] == ["10", "40", "10", "40"]
    series, connections = tables["connection_series"], tables["connections"]
    assert np.asarray(series["delivered_bytes"]).sum() == np.asarray(connections["delivered_bytes"]).sum()
    assert max(np.asarray(tables["link_series"]["waiting_packets"])) > 5
    for interval, says in (("0s", "expected at least 1us"), ("often", "expected a time such as")):
        ended = catnip("run", pipe, "--series", interval, "--out", out)
        assert (ended.code, ended.out) == (BAD_INPUT, "")
        assert says in ended.err


def test_a_run_that_would_take_days_can_be_interrupted(pipe: Path) -> None:
    endless = PIPE.replace('"64KB"', '"1000000000MB"').replace(
        "seeds = 6", 'seeds = 1\nduration = "1000000s"'
    )
    pipe.write_text(endless)
    command = [sys.executable, "-m", "catnip", "run", str(pipe), "--variant", "kind=drop-tail / length=10"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (INTERRUPTED, "", "error: interrupted\n")


def test_more_hosts_than_memory_are_refused_where_they_are_counted(catnip: Run, pipe: Path) -> None:
    pipe.write_text(PIPE.replace("count = 5", "count = 4000000000"))
    ended = catnip("run", pipe)
    assert (ended.code, ended.out) == (BAD_INPUT, "")
    assert "node.client.count: 4000000000: needs about " in ended.err


def test_where_memory_ends_there_is_one_line(pipe: Path, tmp_path: Path) -> None:
    many = PIPE.replace('"64KB"', '"100000MB"').replace("seeds = 6", 'seeds = 4\nduration = "40000s"')
    pipe.write_text(many)
    catnip = f"{sys.executable} -m catnip run {pipe} --events --threads 2 --out {tmp_path / 'out'}"
    # Libraries take about half of the memory.
    ended = subprocess.run(
        ["sh", "-c", f"ulimit -v 3000000; exec {catnip}"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert (ended.returncode, ended.stdout) == (BAD_INPUT, "")
    assert ended.stderr.startswith("error: ")
    assert "memory" in ended.stderr
    assert ended.stderr.count("\n") == 1, ended.stderr
    assert not list((tmp_path / "out").glob("*.parquet"))


def test_a_summary_is_the_same_of_runs_of_tables_and_of_parts_on_a_disk(
    catnip: Run, pipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = Scenario.load(pipe)
    of_runs = summary.of_runs(scenario, scenario.variants, [1, 2, 3])
    tables = scenario.run(scenario.variants, [1, 2, 3], list(summary.TABLES))
    assert str(summary.of_tables(tables, scenario.variants, [1, 2, 3])) == str(of_runs)
    alone = catnip("run", pipe, "--seeds", 3, "--json").out
    for part_s in (0.0, 100.0):
        monkeypatch.setattr(runs, "PART_S", part_s)
        assert catnip("run", pipe, "--seeds", 3, "--json", "--out", tmp_path / str(part_s)).out == alone

"""Tests of packet traces, which have the format and the packets of ns-2's traces."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from pytest import approx

from catnip.analysis import traces
from catnip.base import paths
from catnip.store.tables import Table
from conftest import Run

HEADER = ["time", "event", "seq", "cwnd", "ssthresh", "dupacks", "size"]


def ns2(name: str) -> list[dict[str, str]]:
    with (paths.REFERENCE / "ns2" / "traces" / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


def rows(text: str) -> list[dict[str, str]]:
    reader = csv.DictReader(io.StringIO(text))
    read = list(reader)
    assert reader.fieldnames == HEADER
    return read


@pytest.mark.parametrize("recovery", ["Reno", "NewReno", "Tahoe", "Sack1"])
def test_every_event_is_that_of_ns2(catnip: Run, recovery: str) -> None:
    setting = (
        "--profile ns2-2.35 --packets 100 --size 1000 --rate 1Mbit --delay 50ms --window 64 --drop 20,22"
    )
    ended = catnip(
        "trace", *setting.split(), "--recovery", recovery.lower(), "--queue", "drop-tail:10", "--csv", "-"
    )
    assert (ended.code, ended.err) == (0, "")
    ours, theirs = rows(ended.out), ns2(f"ns235_{recovery}_d20_22_q10")
    assert [(row["event"], row["seq"]) for row in ours] == [(row["event"], row["seq"]) for row in theirs]
    for our_row, their_row in zip(ours, theirs, strict=True):
        assert float(our_row["time"]) == approx(float(their_row["time"]), abs=1.1e-5)
        for key in ("cwnd", "ssthresh", "dupacks", "size"):
            assert bool(our_row[key]) == bool(their_row[key]), (key, our_row, their_row)
            if their_row[key]:
                assert float(our_row[key]) == approx(float(their_row[key]), rel=1e-3), (
                    key,
                    our_row,
                    their_row,
                )


def test_files_json_and_plot(catnip: Run, tmp_path: Path) -> None:
    table, plot = tmp_path / "trace.csv", tmp_path / "trace.svg"
    ended = catnip("trace", "--packets", 14, "--csv", table, "--plot", plot, "--marker", "spm", "--json")
    assert (ended.code, ended.err) == (0, "")
    printed = json.loads(ended.out)
    assert printed["outline"]["sent"] == 14
    assert printed["events"][-1]["event"] == "done"
    assert {event["high"] for event in printed["events"] if event["event"] == "send"} == {True, False}
    assert len(rows(table.read_text())) == len(printed["events"])
    assert plot.read_text().startswith("<svg")


def test_the_same_seed_gives_the_same_trace(catnip: Run) -> None:
    one, two = (catnip("trace", "--seed", 3, "--csv", "-").out for _ in range(2))
    assert one == two


def test_values_that_an_event_does_not_have_are_blank() -> None:
    events: Table = {
        "time_s": np.array([0.0, 1.0176, 2.1088]),
        "event": ["send", "rto", "done"],
        "seq": np.array([0, 5, 5]),
        "cwnd": np.array([10 + 1 / 3, 1.0, 1.0]),
        "ssthresh": np.array([np.nan, 5.0, 5.0]),
        "dupacks": np.array([0, 8, 0]),
        "size": np.array([1000, 0, 0]),
        "high": [False, False, False],
    }
    file = io.StringIO()
    traces.write_csv(file, events)
    assert file.getvalue().splitlines()[1:] == [
        "0.000000,send,0,10.333,,0,1000",
        "1.017600,rto,,1,5,8,",
        "2.108800,done,,,,,",
    ]

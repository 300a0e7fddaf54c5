"""Tests that connection vectors from a capture are what was exchanged, whatever the network did to it."""

import json
from pathlib import Path

import numpy as np
import pytest
from pytest import approx

from catnip import _core
from catnip.cli import main
from conftest import Run

# Two requests with a pause of the client and times of the server, and data of both ends at the same time.
VECTORS = """SEQ 100000 2 0 0
w 65535 65535
> 300
t 50000
< 20000
t 900000
> 400
t 20000
< 100000
CONC 200000 1 2 1 1
w 65535 65535
c> 200000
t< 100000
c< 30000
t< 2000000
c< 1000
"""
SCENARIO = """
id = "X"
title = "x"
seeds = 1
duration = "30s"
[node]
server = { kind = "host" }
client = { kind = "host" }
[link.line]
from = "server"
to = "client"
rate = "5Mbit"
delay = "20ms"
queue = "drop-tail:100"
loss = "LOSS"
[tcp]
profile = "rfc"
[traffic.connections]
kind = "tmix"
clients = "client"
servers = "server"
trace = "in.cvec"
"""


def captured(tmp_path: Path, catnip: Run, loss: str) -> list[list[str]]:
    """Simulates the connections, captures them at the server, and returns the vectors of the capture."""
    (tmp_path / "in.cvec").write_text(VECTORS)
    (tmp_path / "x.toml").write_text(SCENARIO.replace("LOSS", loss))
    done = catnip("run", tmp_path / "x.toml", "--packets", tmp_path / "x.pcapng", "--quiet")
    assert done.code == 0, done.err
    done = catnip("capture", tmp_path / "x.pcapng", "--out", tmp_path / "out.cvec")
    assert done.code == 0, done.err
    return [line.split() for line in (tmp_path / "out.cvec").read_text().splitlines()]


def adus(lines: list[list[str]], head: str) -> list[tuple[str, int]]:
    """Returns the units and waiting times of the connection whose header begins with a word."""
    first = next(index for index, line in enumerate(lines) if line[0] == head)
    of = []
    for line in lines[first + 1 :]:
        if line[0] in ("SEQ", "CONC"):
            break
        if line[0][0] in "ct<>":
            of.append((line[0], int(line[1])))
    return of


@pytest.mark.parametrize("loss", ["none", "bernoulli:3%"])
def test_a_captured_replay_has_the_vectors_that_were_replayed(loss: str, tmp_path: Path, catnip: Run) -> None:
    lines = captured(tmp_path, catnip, loss)
    sizes = [(name, value) for name, value in adus(lines, "SEQ") if name in "<>"]
    assert sizes == [(">", 300), ("<", 20_000), (">", 400), ("<", 100_000)]
    waits_us = [value for name, value in adus(lines, "SEQ") if name == "t"]
    # At the server, queueing before the client and repairs of losses look like a pause of the client.
    within_us = 5_000 if loss == "none" else 300_000
    assert waits_us[:3] == approx([50_000, 900_000, 20_000], abs=within_us)
    both = [(name, value) for name, value in adus(lines, "CONC") if name[0] == "c"]
    assert sorted(both) == [("c<", 1000), ("c<", 30_000), ("c>", 200_000)]
    assert max(value for name, value in adus(lines, "CONC") if name == "t<") == approx(2_000_000, rel=0.1)


def test_what_a_capture_tells_can_be_replayed_and_captured_again(tmp_path: Path, catnip: Run) -> None:
    once = captured(tmp_path, catnip, "none")
    (tmp_path / "in.cvec").write_text((tmp_path / "out.cvec").read_text())
    text, columns, empty, unopened, is_cut = _core.read_vectors(tmp_path / "x.pcapng", "original")
    assert (empty, unopened, is_cut) == (0, 0, False)
    assert text.split() == [word for line in once for word in line]
    assert np.asarray(columns["initiator_bytes"]).tolist() == [700, 200_000]
    done = catnip("run", tmp_path / "x.toml", "--packets", tmp_path / "y.pcapng", "--quiet")
    assert done.code == 0, done.err
    _, again, *_ = _core.read_vectors(tmp_path / "y.pcapng", "original")
    assert {key: values.tolist() for key, values in again.items() if key != "start_us"} == {
        key: values.tolist() for key, values in columns.items() if key != "start_us"
    }


def test_no_address_and_no_data_is_kept(tmp_path: Path, catnip: Run) -> None:
    lines = captured(tmp_path, catnip, "none")
    words = {word for line in lines for word in line}
    assert all(
        word.lstrip("ct") in ("", "<", ">")
        or word[0].isdigit()
        or word in ("SEQ", "CONC", "m", "w", "r", "l")
        for word in words
    )
    assert [line[-2:] for line in lines if line[0] in ("SEQ", "CONC")] == [["0", "0"], ["1", "1"]]


def test_a_file_that_is_no_capture_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.pcapng").write_text("no capture")
    for file, problem in (("bad.pcapng", "bad.pcapng"), ("none.pcapng", "cannot read it")):
        assert main(["capture", str(tmp_path / file), "--json"]) == 2
        error = capsys.readouterr().err
        assert problem in error
        assert error.count("\n") == 1


def test_the_outline_is_printed_as_json(tmp_path: Path, catnip: Run) -> None:
    captured(tmp_path, catnip, "none")
    outline = json.loads(catnip("capture", tmp_path / "x.pcapng", "--json").out)["outline"]
    assert (outline["connections"], outline["request_bytes"], outline["response_bytes"]) == (
        2,
        200_700,
        151_000,
    )

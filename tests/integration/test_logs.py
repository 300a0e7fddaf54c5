"""Tests of packet captures and logs: tshark finds the retransmissions; bad options are errors."""

import csv
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from catnip.base import paths
from catnip.cli.options import BAD_INPUT
from conftest import Run

FILES = """
id = 'X'
title = 'Files over a lossy link'
seeds = 3
[node]
server = { kind = 'host' }
r = { kind = 'router' }
client = { kind = 'host', count = 4 }
[link.access]
from = 'r'
to = 'client'
rate = '20Mbit'
delay = '3ms'
queue = 'drop-tail:50'
[link.path]
from = 'server'
to = 'r'
rate = '5Mbit'
delay = '20ms'
queue = 'catnip-good:20'
loss = 'bernoulli:0.02'
[tcp]
profile = 'rfc'
marker = 'spm'
[traffic.document]
kind = 'bulk'
from = 'server'
to = 'client'
packets = 800
[[axis]]
key = 'tcp.recovery'
values = ['sack', 'newreno', 'reno', 'tahoe']
"""
RECOVERIES = ["sack", "newreno", "reno", "tahoe"]
# The client of connection n uses the port `FIRST_PORT` + n.
FIRST_PORT = 1024


@pytest.fixture
def files(tmp_path: Path) -> Path:
    path = tmp_path / "files.toml"
    path.write_text(FILES)
    return path


def tshark(capture: Path, *arguments: str) -> list[list[str]]:
    """Runs tshark on a capture and returns the tab-separated fields of each output line."""
    if shutil.which("tshark") is None:
        pytest.skip("tshark is not installed")
    # tshark resolves no names and verifies checksums, which it does not do by default.
    options = ["-n", "-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE"]
    command = ["tshark", "-r", str(capture), *options, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    messages = [line for line in ended.stderr.splitlines() if not line.startswith("Running as user")]
    assert messages == []
    return [line.split("\t") for line in ended.stdout.splitlines()]


def shown(capture: Path, which: str, *fields: str) -> list[list[str]]:
    """Returns fields of the packets of a capture that match the display filter `which`."""
    return tshark(
        capture, "-Y", which, "-T", "fields", *(argument for name in fields for argument in ("-e", name))
    )


def retransmissions(out: Path) -> Iterator[tuple[int, int, int]]:
    """Yields connection, first byte and time (ns) of each retransmission in the table `events`."""
    ends: dict[int, int] = {}
    for event in pq.read_table(out / "events.parquet").to_pylist():
        if event["kind"] == "send":
            connection, seq = event["connection"], event["seq_bytes"]
            if seq < ends.get(connection, 0):
                yield connection, seq, round(event["time_s"] * 1e9)
            ends[connection] = max(ends.get(connection, 0), seq + 1)


@pytest.mark.parametrize("recovery", RECOVERIES)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_tshark_finds_the_retransmissions_of_the_table_of_events(
    catnip: Run, files: Path, tmp_path: Path, recovery: str, seed: int
) -> None:
    capture, out = tmp_path / "run.pcapng", tmp_path / "out"
    ended = catnip(
        *("run", files, "--variant", f"recovery={recovery}", "--seed", seed),
        *("--packets", capture, "--out", out, "--tables", "connections", "--events"),
    )
    assert (ended.code, ended.err) == (0, "")
    # tshark reports a retransmission as out of order if new data was sent less than the first round trip
    # before. This capture is at the sender, where no segment is out of order. tshark also counts repeated
    # SYNs, which the table does not contain.
    which = "(tcp.analysis.retransmission || tcp.analysis.out_of_order) && tcp.flags.syn == 0"
    found = [
        (int(port) - FIRST_PORT, int(seq) - 1, nanoseconds(time))
        for port, seq, time in shown(capture, which, "tcp.dstport", "tcp.seq", "frame.time_epoch")
    ]
    expected = sorted(retransmissions(out))
    assert sorted(found) == expected
    rows = pq.read_table(out / "connections.parquet").to_pylist()
    assert len(expected) == sum(row["retransmitted"] for row in rows) > 40


def nanoseconds(seconds: str) -> int:
    integer, fraction = seconds.split(".")
    return int(integer) * 10**9 + int(fraction.ljust(9, "0"))


def test_a_fast_retransmission_is_one_to_tshark_too(catnip: Run, files: Path, tmp_path: Path) -> None:
    capture, out = tmp_path / "run.pcapng", tmp_path / "out"
    catnip("run", files, "--variant", "recovery=reno", "--packets", capture, "--out", out)
    rows = pq.read_table(out / "connections.parquet").to_pylist()
    found = shown(capture, "tcp.analysis.fast_retransmission", "tcp.dstport")
    # Only Reno's fast retransmissions follow the third duplicate ACK at once.
    for row in rows:
        ports = [int(port) - FIRST_PORT for (port,) in found]
        assert ports.count(row["connection"]) >= row["fast_retransmits"] > 0
    assert sum(row["fast_retransmits"] for row in rows) / len(found) > 0.8


# The scenarios have long transfers, pages of a hundred clients without handshakes, and a link whose rate
# fades.
@pytest.mark.parametrize("scenario", ["files", "catnip-e4", "fading-link"])
def test_tshark_opens_captures_without_a_complaint(
    catnip: Run, files: Path, tmp_path: Path, scenario: str
) -> None:
    capture = tmp_path / "run.pcapng"
    path = str(files) if scenario == "files" else scenario
    ended = catnip("run", path, "--variant", paths.scenario(path).variants[0], "--packets", capture)
    assert (ended.code, ended.err) == (0, "")
    malformed = "_ws.malformed || _ws.short || tcp.checksum.status == 0 || ip.checksum.status == 0"
    assert shown(capture, malformed, "frame.number", "_ws.expert.message") == []
    assert shown(capture, "tcp.checksum.status == 1", "frame.number") != []
    # Filter for a missing segment, or an ACK of data that was not sent.
    unseen = "tcp.analysis.lost_segment || tcp.analysis.ack_lost_segment"
    assert shown(capture, unseen, "frame.number") == []


def test_what_is_seen_where_and_what_was_dropped_is_in_the_capture(
    catnip: Run, files: Path, tmp_path: Path
) -> None:
    capture, out = tmp_path / "run.pcapng", tmp_path / "out"
    arguments = ["run", files, "--variant", "recovery=sack", "--packets", capture, "--out", out]
    catnip(*arguments, "--packets-at", "client[1..3]", "--packets-at", "server")
    names = shown(capture, "frame", "frame.interface_name")
    assert {name for (name,) in names} == {"server", "client[1]", "client[2]"}
    # Marks are DiffServ code points: AF11 and AF13.
    assert {code for (code,) in shown(capture, "tcp.len > 0", "ip.dsfield.dscp")} == {"10", "14"}
    ports = {row["port"]: row for row in pq.read_table(out / "ports.parquet").to_pylist()}
    dropped = sum(ports["path"][name] for name in ("dropped_high", "dropped_med", "dropped_low"))
    comments = [text for (text,) in shown(capture, "frame.comment", "frame.comment")]
    assert sum(text.startswith("dropped at path: ") for text in comments) == dropped > 20


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            ["--packets", "x.pcapng"],
            "--packets: needs a single variant; choose one by --variant: recovery=sack, recovery=newreno, "
            "recovery=reno, recovery=tahoe",
        ),
        (
            ["--qlog", "x.qlog", "--variant", "recovery=sack", "--seeds", "2"],
            "--qlog: needs a single run, not --seeds 2; choose its seed by --seed",
        ),
        (["--packets-at", "server"], "--packets-at: needs --packets"),
        (
            ["--variant", "recovery=sack", "--packets", "x.pcapng", "--packets-at", "missing"],
            'files.toml: --packets-at: "missing": no such node',
        ),
        (
            ["--variant", "recovery=sack", "--qlog", "."],
            "--qlog: .: expected a file name that ends in .qlog or .sqlog or .json",
        ),
    ],
)
def test_what_cannot_be_written_is_refused_in_one_line(
    catnip: Run, files: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], error: str
) -> None:
    monkeypatch.chdir(files.parent)
    ended = catnip("run", files.name, *arguments)
    assert (ended.code, ended.out, ended.err) == (BAD_INPUT, "", f"error: {error}\n")
    assert not list(files.parent.glob("x.*"))


def test_logs_are_those_of_the_run_that_is_printed(catnip: Run, files: Path, tmp_path: Path) -> None:
    log = tmp_path / "new" / "run.qlog"
    arguments = ["run", files, "--variant", "recovery=sack", "--seed", "7", "--json"]
    ended = catnip(*arguments, "--qlog", log)
    printed = json.loads(ended.out)
    assert printed["seeds"] == json.loads(catnip(*arguments, "--seeds", "1").out)["seeds"]
    written = json.loads(log.read_text())
    assert written["description"] == "X, variant recovery=sack, seed 7"
    assert [trace["common_fields"]["group_id"] for trace in written["traces"]] == ["0", "1", "2", "3"]


def test_bursts_of_a_capture_are_summarized_and_written(catnip: Run, files: Path, tmp_path: Path) -> None:
    capture, rows = tmp_path / "run.pcapng", tmp_path / "bursts.csv"
    fetched = "bytes = 100000\ngap = '2s'\nfiles = 3\nrequest_bytes = 100\n"
    files.write_text(FILES.replace("'bulk'", "'ftp'").replace("packets = 800\n", fetched))
    catnip("run", files, "--variant", "recovery=sack", "--packets", capture)
    found = json.loads(catnip("bursts", capture, "--json", "--csv", rows).out)
    # Three files of each of four clients, each over a connection of its own.
    outline = found["outline"]
    assert (outline["connections"], outline["bursts"], outline["left_out_packets"]) == (12, 12, 0)
    assert outline["bytes"] == 12 * 100_000
    with rows.open() as file:
        written = list(csv.DictReader(file))
    assert [(int(row["number"]), int(row["bytes"])) for row in written] == [(0, 100_000)] * 12
    assert "dropped" not in written[0], "a capture does not tell it"
    assert found["classes"][0] == {"above_bytes": 0, "bursts": [12, 0, 0, 0, 0, 0, 0]}
    shown = catnip("bursts", capture)
    assert "Bursts by size and silence" in shown.out and shown.err == ""
    assert catnip("bursts", capture, "--csv", "-").out == rows.read_text()
    refused = catnip("bursts", files)
    assert (refused.code, refused.out) == (BAD_INPUT, "")
    assert refused.err.startswith(f"error: {files}: ")

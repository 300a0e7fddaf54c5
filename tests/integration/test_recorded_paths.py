"""Tests that recordings of other tools become paths with the same rates, delays and losses."""

import json
from pathlib import Path

import pytest
from pytest import approx

from catnip._core import InputError
from catnip.cli import main
from catnip.testbed import recorded_paths

IRTT = """timestamp,rtt,uplink,downlink
1705744800000000000,0,0,-1
1705744800100000000,60,40,20
1705744800200000000,-1,0,0
1705744800300000000,70,45,25
1705744800400000000,0,-1,0
1705744801000000000,80,50,30
"""
PING = "timestamp,rtt\n10.0,60\n10.5,-1\n11.0,80\n"
SABRE = [
    {"duration_ms": 2000, "bandwidth_kbps": 5000, "latency_ms": 100},
    {"duration_ms": 500, "bandwidth_kbps": 800, "latency_ms": 60},
]
PATTERN = {
    "RepeatedBwPatternConfig": {
        "pattern": [
            {"StaticBwConfig": {"bw": "12Mbps", "duration": "1s"}},
            {"StaticBwConfig": {"bw": {"gbps": 1, "bps": 500_000}, "duration": {"secs": 0, "nanos": 5e8}}},
        ],
        "count": 2,
    }
}


def converted(tmp_path: Path, form: str, *texts: str) -> recorded_paths.RecordedPath:
    suffix = ".json" if texts[0].startswith(("[", "{")) else ".txt"
    inputs = [tmp_path / f"in-{number}{suffix}" for number in range(len(texts))]
    for file, text in zip(inputs, texts, strict=True):
        file.write_text(text)
    return recorded_paths.read(form, inputs)


def test_probes_of_lens_have_delays_and_losses_of_each_direction(tmp_path: Path) -> None:
    path = converted(tmp_path, "lens", IRTT)
    assert path.there.delays == [(approx(0.1), 40), (approx(0.3), 45), (approx(1.0), 50), (2.0, 0)]
    assert path.back.delays == [(approx(0.1), 20), (approx(0.3), 25), (approx(1.0), 30), (2.0, 0)]
    # Of five probes in the first second, one was lost on its way up, one somewhere, and one on its way down.
    assert path.there.losses == [(0.0, 2 / 5), (1.0, 0.0), (2.0, 0)]
    assert path.back.losses == [(0.0, 1 / 3), (1.0, 0.0), (2.0, 0)]
    halves = converted(tmp_path, "lens", PING)
    assert halves.there.delays == halves.back.delays == [(0.0, 30), (1.0, 40), (2.0, 0)]
    assert halves.there.losses == [(0.0, 0.5), (1.0, 0.0), (2.0, 0)]


def test_traces_for_adaptive_video_have_rates_and_half_of_the_latency(tmp_path: Path) -> None:
    there = converted(tmp_path, "abr", json.dumps(SABRE)).there
    assert there.rates == [(0.0, 5.0), (2.0, 0.8), (2.5, 0.0)]
    assert there.delays == [
        (0.0, 50),
        (approx(2.0, abs=2e-6), 50),
        (2.0, 30),
        (approx(2.5, abs=2e-6), 30),
        (2.5, 0),
    ]
    lines = converted(tmp_path, "abr", "# time rate\n1.0 3.5\n1.5, 0\n2.5\t4\n").there
    assert lines.rates == [(0.0, 3.5), (0.5, 0.0), (1.5, 4.0), (2.5, 0.0)]


def test_configurations_of_netem_trace_are_unrolled(tmp_path: Path) -> None:
    rates = converted(tmp_path, "netem-trace", json.dumps(PATTERN)).there.rates
    assert rates == [(0.0, 12.0), (1.0, 1000.5), (1.5, 12.0), (2.5, 1000.5), (3.0, 0.0)]
    compact = converted(tmp_path, "netem-trace", "[[1000.0, [2.0, 4.0]], [500.0, [1.0]]]").there.rates
    assert compact == [(0.0, 2.0), (1.0, 4.0), (2.0, 1.0), (2.5, 0.0)]
    saw = {
        "bottom": "12Mbps",
        "top": "16Mbps",
        "interval": "500ms",
        "duty_ratio": 0.8,
        "duration": "1s",
        "step": "100ms",
    }
    rates = converted(tmp_path, "netem-trace", json.dumps({"SawtoothBwConfig": saw})).there.rates
    # These values are in the documentation of netem-trace.
    assert [mbit for _, mbit in rates[:9]] == approx([12, 13, 14, 15, 16, 12, 13, 14, 15])
    delay = {"StaticDelayConfig": {"delay": "25ms", "duration": "1s"}}
    assert converted(tmp_path, "netem-trace", json.dumps(delay)).there.delays[0] == (0.0, 25)
    loss = {"StaticLossConfig": {"loss": [0.1], "duration": "1s"}}
    assert converted(tmp_path, "netem-trace", json.dumps(loss)).there.losses == [(0.0, 0.1), (1.0, 0.0)]


def test_opportunities_become_rates_and_rates_opportunities(tmp_path: Path) -> None:
    # 1504 bytes at 500 and 1000 ms, and four times as much in the next half second.
    path = converted(tmp_path, "mahimahi", "500\n1000\n1200\n1200\n1300\n1500\n")
    assert path.there.rates == [(0.0, approx(2 * 12_032 / 1e6)), (1.0, approx(8 * 12_032 / 1e6)), (1.5, 0.0)]
    written = recorded_paths.write(path, tmp_path / "out.toml", opportunities=True)
    assert written[0].read_text() == "500\n1000\n1125\n1250\n1375\n1500\n"
    assert written[-1] == tmp_path / "out.toml"


RUN = """
id = "X"
title = "x"
seeds = 1
[node]
a = { kind = "host" }
b = { kind = "host" }
[link.line]
from = "a"
to = "b"
path = "out.toml"
queue = "drop-tail:100"
rate = "5Mbit"
delay = "5ms"
[traffic.file]
kind = "bulk"
from = "a"
to = "b"
bytes = 10000
"""


@pytest.mark.parametrize(
    ("form", "texts"),
    [
        ("lens", [IRTT]),
        ("abr", [json.dumps(SABRE)]),
        ("netem-trace", [json.dumps(PATTERN)]),
        ("mahimahi", ["500\n1000\n"]),
        ("leo", ["5\n9\n10\n", "20\n30\n25\n"]),
    ],
)
def test_what_is_written_is_a_path_of_a_link(
    form: str, texts: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inputs = [
        tmp_path / f"in-{number}{'.json' if text[0] in '[{' else '.txt'}" for number, text in enumerate(texts)
    ]
    for file, text in zip(inputs, texts, strict=True):
        file.write_text(text)
    out = tmp_path / "out.toml"
    assert main(["convert", form, *map(str, inputs), str(out), "--json"]) == 0
    written = json.loads(capsys.readouterr().out)["written"]
    assert written[-1] == str(out)
    assert all(Path(file).exists() for file in written)
    # What the recording has is taken from the link, so that it is read.
    keys = [key for key in ("rate", "delay") if f"{key} =" in out.read_text()]
    text = "\n".join(
        line for line in RUN.splitlines() if not line.startswith(tuple(f"{key} =" for key in keys))
    )
    (tmp_path / "run.toml").write_text(text)
    assert main(["run", str(tmp_path / "run.toml"), "--quiet"]) == 0


def test_a_folder_of_cellreplay_becomes_trains_both_ways(tmp_path: Path) -> None:
    folder = tmp_path / "driving"
    folder.mkdir()
    for way in ("up", "down"):
        (folder / f"{way}-delay-light-pdo").write_text("0 20 0 1\n100 25 0 2\n200 20 0\n")
        (folder / f"{way}-heavy-pdo").write_text("1\n4\n9\n")
    (folder / "latency-offset-up").write_text("100 0\n1400 5\n")
    assert main(["convert", "cellreplay", str(folder), str(tmp_path / "out.toml")]) == 0
    text = (tmp_path / "out.toml").read_text()
    assert 'rate = "cell-trains:out-there-light.txt,heavy=out-there-heavy.txt' in text
    assert text.count("size_offsets=out-there-offsets.txt") == 1
    run = "\n".join(line for line in RUN.splitlines() if not line.startswith(("rate", "delay")))
    (tmp_path / "run.toml").write_text(run)
    assert main(["run", str(tmp_path / "run.toml"), "--quiet"]) == 0


@pytest.mark.parametrize(
    ("form", "text", "problem"),
    [
        ("lens", "time,rtt\n1,2\n", "line 1: expected timestamp,rtt"),
        ("lens", "timestamp,rtt\n1,2\n2,x\n", "line 3: 'x': expected milliseconds"),
        ("lens", "timestamp,rtt\n1,2\n", "at least two probes"),
        ("lens", "timestamp,rtt\n1,-1\n2,-1\n", "fewer than two probes arrived"),
        ("abr", "1 2 3\n", "line 1: '1 2 3': expected seconds and Mbit/s"),
        ("abr", "1 2\n1 3\n", "times that increase"),
        ("abr", "[]", "expected a list with entries"),
        ("abr", '[{"duration_ms": 0, "bandwidth_kbps": 1}]', "entry 0: 0: expected duration_ms"),
        ("abr", '[{"duration_ms": 5}]', "entry 0: None: expected bandwidth_kbps"),
        ("netem-trace", "{", "line 1: no JSON"),
        ("netem-trace", "[" * 100_000, "JSON"),
        ("netem-trace", "{}", "bandwidth, delay or loss"),
        ("netem-trace", '{"NormalizedBwConfig": {"mean": "1Mbps"}}', "drawn at random"),
        (
            "netem-trace",
            '{"StaticBwConfig": {"bw": "fast", "duration": "1s"}}',
            "bw: 'fast': expected a bandwidth",
        ),
        ("netem-trace", '{"StaticBwConfig": {"bw": "1Mbps"}}', "duration: None: expected a time"),
        ("mahimahi", "5\n3\n", "milliseconds that do not decrease"),
        ("mahimahi", "", "milliseconds that do not decrease"),
    ],
)
def test_what_is_no_recording_is_refused_in_one_line(
    form: str, text: str, problem: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as refused:
        converted(tmp_path, form, text)
    assert problem in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_wrong_name_or_a_missing_file_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, problem in (
        (["convert", "leo", "one.txt", str(tmp_path / "x.toml")], "expected BANDWIDTH DELAY, not 1 files"),
        (["convert", "abr", "none.txt", str(tmp_path / "x.toml")], "none.txt: No such file"),
        (["convert", "abr", "none.txt", str(tmp_path / "x.txt")], "ends with .toml"),
        (["convert", "gps", "none.txt", str(tmp_path / "x.toml")], "'gps'"),
    ):
        assert main(arguments) == 2
        assert problem in capsys.readouterr().err
    assert not list(tmp_path.iterdir())

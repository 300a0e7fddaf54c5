"""Tests of scenarios with one mistake each: the error is one line with file, key and value."""

import json
from pathlib import Path

import pytest

from catnip import api
from catnip.cli.options import BAD_INPUT
from conftest import Run

GOOD = """\
id = "MY-1"
title = "How much does a larger buffer help?"
[node]
server = { kind = "host" }
router = { kind = "router" }
client = { kind = "host", count = 20 }
[link.access]
from = "router"
to = "client"
rate = "10Mbit"
delay = "5ms"
queue = "drop-tail:50"
[link.bottleneck]
from = "server"
to = "router"
rate = "2Mbit"
delay = "20ms"
queue = "drop-tail:10"
[tcp]
profile = "rfc"
[traffic.document]
kind = "bulk"
from = "server"
to = "client"
bytes = "32KB"
start = "exponential:mean=2s"
"""
MISTAKES = [
    ('id = "MY-1"\n', "", "missing field `id`"),
    (
        'title = "How much does a larger buffer help?"',
        "title = 3",
        "title: invalid type: integer `3`, expected a string",
    ),
    ("[node]", "sedes = 3\n[node]", "sedes: unknown field `sedes`"),
    (
        'rate = "2Mbit"\n',
        'rate = "2Mbit"\nlatency = "5ms"\n',
        "link.bottleneck.latency: expected one of from, to, rate, delay, jitter,",
    ),
    ('profile = "rfc"', 'profile = "rfc"\ncwnd = 3', "tcp.cwnd: unknown field `cwnd`"),
    (
        'to = "router"\nrate = "2Mbit"',
        'to = "ruoter"\nrate = "2Mbit"',
        'link.bottleneck.to: "ruoter": no such node',
    ),
    (
        'profile = "rfc"',
        'profile = "linux"',
        'tcp.profile: "linux": expected a TCP profile (ns2-2002,',
    ),
    (
        'queue = "drop-tail:10"',
        'queue = "fq_codel:10"',
        'link.bottleneck.queue: "fq_codel:10": fq_codel is a name of tc, ns-2 or ns-3; here: fq-codel',
    ),
    (
        'queue = "drop-tail:10"',
        'queue = "fq-kodel:10"',
        'link.bottleneck.queue: "fq-kodel:10": expected one of drop-tail, red,',
    ),
    (
        'queue = "drop-tail:10"',
        'queue = "drop-tail"',
        'link.bottleneck.queue: "drop-tail": expected a limit such as drop-tail:10',
    ),
    (
        'queue = "drop-tail:10"',
        'queue = "drop-tail:0"',
        'link.bottleneck.queue: "drop-tail:0": expected a limit such as drop-tail:10',
    ),
    (
        'queue = "drop-tail:10"',
        'queue = "drop-tail:1000000000000000000"',
        'link.bottleneck.queue: "drop-tail:1000000000000000000": expected at most',
    ),
    (
        'queue = "drop-tail:10"',
        'queue = "red:1000000000000000000"',
        'link.bottleneck.queue: "red:1000000000000000000": expected at most 4294967295',
    ),
    (
        'queue = "drop-tail:10"',
        'queue = "red:10,min=8,max=3"',
        'link.bottleneck.queue: "red:10,min=8,max=3": expected 0 <= min < max, weight',
    ),
    (
        'queue = "drop-tail:10"',
        'queue = "drop-tail:10"\nloss = "bernoulli:1.5"',
        'link.bottleneck.loss: "bernoulli:1.5": expected probabilities in [0, 1)',
    ),
    (
        'queue = "drop-tail:10"',
        'queue = "drop-tail:10"\nloss = "bernoulli:100%"',
        'link.bottleneck.loss: "bernoulli:100%": expected probabilities in [0, 1)',
    ),
    (
        'queue = "drop-tail:10"',
        'queue = "drop-tail:10"\nloss = "bernoulli:nan"',
        'link.bottleneck.loss: "bernoulli:nan": expected a probability, as in',
    ),
    (
        'queue = "drop-tail:10"',
        'queue = "drop-tail:10"\nwire_loss = "gilbert-elliott:"',
        'link.bottleneck.wire_loss: "gilbert-elliott:": expected to_bad=, to_good= and',
    ),
    (
        "count = 20",
        "count = 1000000000000000000",
        "node.client.count: invalid value: integer `1000000000000000000`, expected a",
    ),
    ("count = 20", "count = 4000000000", "node.client.count: 4000000000:"),
    ("count = 20", "count = 0", "node.client.count: 0: at least one node is needed"),
    (
        "count = 20",
        "count = -1",
        "node.client.count: invalid value: integer `-1`, expected a whole number from",
    ),
    ("[node]", "seeds = 0\n[node]", "seeds: 0: at least one run is needed"),
    ('kind = "bulk"\n', "", "traffic.document.kind: missing: expected one of bulk, background, ftp, iperf"),
    (
        '[link.access]\nfrom = "router"',
        '[link.access]\nfrom = "server"',
        "traffic.document: no route from server to client[1]",
    ),
    ('bytes = "32KB"', 'byte = "32KB"', "traffic.document.byte: unknown field `byte`"),
    (
        'bytes = "32KB"',
        'bytes = "-32KB"',
        'traffic.document.bytes: "-32KB": expected a size such as 512, 512B, 32KB, 1MB',
    ),
    ('bytes = "32KB"', 'bytes = "0"', "traffic.document.bytes: 0 bytes: expected 1 to 1152921504606846976"),
    (
        'bytes = "32KB"',
        'bytes = "32kb"',
        'traffic.document.bytes: "32kb": expected a size such as 512, 512B, 32KB, 1MB',
    ),
    (
        "[node]",
        'duration = "99999999999999min"\n[node]',
        'duration: "99999999999999min": expected at most 307445734min',
    ),
    (
        "[node]",
        "duration = 0\n[node]",
        'duration: "0": expected a time such as 200ms (ns, us, ms, s, min; not',
    ),
    (
        'rate = "2Mbit"',
        'rate = "trace:/dev/zero"',
        'link.bottleneck.rate: "trace:/dev/zero": expected a valid trace: /dev/zero: not a file',
    ),
    (
        'rate = "2Mbit"',
        'rate = "trace:nothere.tr"',
        'link.bottleneck.rate: "trace:nothere.tr": expected a valid trace:',
    ),
    (
        'rate = "2Mbit"',
        'rate = "2Mbps"',
        'link.bottleneck.rate: "2Mbps": expected a rate such as 1.5Mbit (bit, kbit,',
    ),
    ('rate = "2Mbit"', "rate = 2000000", "link.bottleneck.rate: 2000000: expected a text"),
    (
        'delay = "20ms"',
        'delay = "-5ms"',
        'link.bottleneck.delay: "-5ms": expected a time such as 200ms (ns, us, ms, s,',
    ),
    (
        'delay = "20ms"',
        'delay = "20ms"\njitter = "uniform:50ms"',
        "link.bottleneck.jitter: needs a delay of at least 50ms, not 20ms",
    ),
    (
        'kind = "router"',
        'kind = "switch"',
        "node.router.kind: unknown variant `switch`, expected `host` or `router`",
    ),
    (
        'from = "server"\nto = "router"\nrate',
        'from = "router"\nto = "router"\nrate',
        'link.bottleneck.to: "router": router would be linked to itself',
    ),
    (
        'from = "server"\nto = "client"\nbytes',
        'from = "server"\nto = "server"\nbytes',
        'traffic.document.to: "server": server is both server and client of a connection',
    ),
    (
        'profile = "rfc"',
        'profile = "rfc"\nwindow_segments = 0',
        "tcp.window_segments: 0: at least one segment is needed",
    ),
    (
        'profile = "rfc"',
        'profile = "rfc"\nrto_min = "100s"\nrto_max = "1s"',
        "tcp.rto_min: 100s: expected at most rto_max, 1s",
    ),
    (
        'start = "exponential:mean=2s"',
        'start = "exponential:mean=0s"',
        'traffic.document.start: "exponential:mean=0s": expected a positive mean',
    ),
    (
        'start = "exponential:mean=2s"',
        'start = "exponential:mean=-1s"',
        'traffic.document.start: "exponential:mean=-1s": expected a value for mean,',
    ),
    (
        'start = "exponential:mean=2s"',
        'start = { distribution = "exponential", mean = "2 hours" }',
        'traffic.document.start: "exponential:mean=2 hours": expected a value for',
    ),
    (
        'start = "exponential:mean=2s"',
        'start = "uniform:minimum=5s,maximum=1s"',
        'traffic.document.start: "uniform:minimum=5s,maximum=1s": expected 0 <=',
    ),
    (
        'start = "exponential:mean=2s"',
        'start = "pareto:shape=0,minimum=1s"',
        'traffic.document.start: "pareto:shape=0,minimum=1s": expected positive shape,',
    ),
    (
        'start = "exponential:mean=2s"',
        'start_s = 3\nstart = "3s"',
        "traffic.document: duplicate field `start`",
    ),
    (
        'to = "client"\nbytes',
        'to = "client[0..500]"\nbytes',
        'traffic.document.to: "client[0..500]": only 20 nodes of this name',
    ),
    (
        'to = "client"\nbytes',
        'to = "client[a]"\nbytes',
        'traffic.document.to: "client[a]": expected a node or nodes, such as client,',
    ),
    (
        'bytes = "32KB"',
        'bytes = "endless"',
        "duration: required with an endless transfer, such as 60s",
    ),
    ("[node]", 'warm_up = "1s"\nduration = "1s"\n[node]', "warm_up: 1s: expected less than duration, 1s"),
    ('id = "MY-1"', 'id = "MY-1', 'line 1: invalid basic string, expected `"`'),
    (
        "",
        '[[axis]]\nkey = "traffic.document.byte"\nvalues = ["8KB"]\n',
        'variant "byte=8KB": traffic.document.byte: unknown field `byte`',
    ),
    (
        "",
        '[[axis]]\nkey = "traffic.document.bytes"\nvalues = []\n',
        'axis.values: "traffic.document.bytes": no values',
    ),
    (
        "",
        '[[axis]]\nkey = "traffic.document.bytes"\nvalues = "8KB"\n',
        'axis[0].values: invalid type: string "8KB", expected a list',
    ),
    (
        "",
        "".join(
            f'[[axis]]\nkey = "{key}"\nvalues = {[f"{number}{unit}" for number in range(1, 101)]}\n'
            for key, unit in (
                ("traffic.document.bytes", "KB"),
                ("link.bottleneck.rate", "Mbit"),
                ("link.bottleneck.delay", "ms"),
                ("tcp.rto_min", "ms"),
            )
        ),
        "axis: 100000000 variants, of 4 axes; at most 100000",
    ),
    ("", '[[variant]]\nname = "a"\n[[variant]]\nname = "a"\n', 'variant.name: "a" occurs twice'),
    ('id = "MY-1"', 'base = "/dev/zero"\nid = "MY-1"', "base: /dev/zero: not a file, but a device or a pipe"),
    ("", "[[variant]]\n", "variant.name: every variant needs a name"),
]
"""Text of the scenario, its replacement (appended if the text is empty), and the start of the error."""


@pytest.mark.parametrize(("said", "instead", "error"), MISTAKES, ids=[error for *_, error in MISTAKES])
def test_a_mistake_in_a_scenario_is_one_line(
    catnip: Run, tmp_path: Path, said: str, instead: str, error: str
) -> None:
    file = tmp_path / "my.toml"
    file.write_text(GOOD.replace(said, instead, 1) if said else GOOD + instead)
    ended = catnip("run", file)
    assert (ended.code, ended.out) == (BAD_INPUT, "")
    assert ended.err.startswith(f"error: {file}: {error}")
    assert ended.err.count("\n") == 1
    assert not any(word in ended.err for word in ("u32", "f64", "Errno", "File`", "sequence"))
    checked = catnip("check", file)
    assert (checked.code, checked.err) == (BAD_INPUT, ended.err), "a check finds the same"


def test_a_key_without_an_effect_is_warned_of_unless_quiet(catnip: Run, tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    file.write_text(GOOD.replace('profile = "rfc"', 'profile = "rfc"\nmarker = "spm"'))
    warning = f'{file}: tcp.marker: "spm": no queue, loss or policer of the network depends on priorities'
    for command in ("check", "run"):
        ended = catnip(command, file, *(["--seeds", "1"] * (command == "run")))
        assert (ended.code, ended.err) == (0, f"warning: {warning}\n")
        assert catnip(command, file, "--quiet").err == ""
    checked = json.loads(catnip("check", file, "--json").out)
    assert checked["scenarios"][str(file)]["warnings"] == [warning]
    with pytest.warns(UserWarning, match="tcp.marker"):
        api.run(file, seeds=1)


def test_the_scenario_without_a_mistake_runs(catnip: Run, tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    file.write_text(GOOD)
    assert catnip("run", file).code == 0

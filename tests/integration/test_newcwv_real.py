"""Tests of the bursts behind the emulator: their client and server, and the evaluation of the runs."""

import asyncio
import json
import tomllib
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from pytest import approx

from catnip._core import InputError
from catnip.base import paths
from catnip.base.progress import Progress
from catnip.papers.newcwv import real, replay
from catnip.papers.newcwv.real import (
    CONGESTED,
    FREE,
    RENO,
    SHARED,
    RealRuns,
    Run,
    Variant,
)
from catnip.papers.newcwv.replay import Connection, Exchange
from catnip.papers.newcwv.runs import NEW_CWV, NEW_RENO, PACED
from catnip.papers.runs import Runs
from catnip.papers.unavailable import Unavailable
from catnip.store.tables import Table

TRACE = """SEQ 100000 2 0 0
w 65535 65535
> 300
t 1
< 900
t 2500000
> 400
t 1
< 50000
t 60000000
SEQ 250000 1 1 1
w 65535 65535
> 20
t 1
< 6000
"""


def keeper(known: RealRuns | None = None) -> Runs:
    """Returns the runs of a paper, which already have the measurements `known` if given."""
    runs = Runs(quick=True, seed_count=None, first_seed=1, progress=Progress(quiet=True))
    if known is not None:
        runs.cached("real", lambda: known)
    return runs


def test_a_client_is_silent_between_exchanges_and_not_within_them() -> None:
    assert list(replay.connections(TRACE.splitlines())) == [
        Connection(0.1, [Exchange(300, 900, 0.0), Exchange(400, 50_000, 2.5)]),
        Connection(0.25, [Exchange(20, 6_000, 0.0)]),
    ]
    with pytest.raises(ValueError, match="C 1: not a line"):
        list(replay.connections(["C 1"]))


def test_responses_are_known_by_their_place_in_the_trace() -> None:
    assert real.trace_bytes(TRACE) == {(0, 0): 900, (0, 900): 50_000, (1, 0): 6_000}


@pytest.mark.parametrize("response_bytes", [200, 1_447, 1_448, 9_999, 10_141, 123_456])
def test_header_and_body_are_as_long_as_the_trace_says(response_bytes: int) -> None:
    body_bytes = replay.body_of(response_bytes)
    assert len(replay.response_head(body_bytes)) + body_bytes == response_bytes


def test_where_a_longer_body_needs_a_longer_header_a_response_is_one_byte_short() -> None:
    head = len(replay.response_head(999))
    assert [replay.body_of(head + body) for body in (999, 1_000, 1_001)] == [999, 999, 1_000]
    assert replay.body_of(50) == 0


def test_a_request_is_as_long_as_the_trace_says_unless_it_says_too_little() -> None:
    assert len(replay.request("10.0.0.1", Exchange(300, 900, 0.0))) == 300
    short = replay.request("10.0.0.1", Exchange(20, 900, 0.0))
    assert short == b"GET /of/%d HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n" % replay.body_of(900)


def test_client_and_server_exchange_what_the_trace_says(capsys: pytest.CaptureFixture[str]) -> None:
    with replay.Server(("127.0.0.1", 0), replay.Handler) as server:
        # The threads of the server are daemons, so the end of the block does not wait for them.
        Thread(target=server.serve_forever, daemon=True).start()
        trace = list(replay.connections(TRACE.replace("2500000", "200000").splitlines()))
        asyncio.run(replay.replay(("127.0.0.1", server.server_address[1]), trace, 20.0))
        server.shutdown()
    out, err = capsys.readouterr()
    *responses, last = [json.loads(line) for line in out.splitlines()]
    by_position = {(one["connection"], one["first_byte"]): one for one in responses}
    assert {position: one["bytes"] for position, one in by_position.items()} == real.trace_bytes(TRACE)
    assert by_position[0, 900]["idle_s"] >= 0.2
    assert all(0 < one["first_s"] <= one["time_s"] for one in responses)
    assert (last["errors"], len(last["late_s"])) == (0, 3)
    counts = [json.loads(line) for line in err.splitlines()]
    # At a wrong offset in tcp_info, the counter would be a number of bytes, which is far larger. Segments on
    # the loopback are long, so a response may be a single segment.
    assert [2 <= one["sent"] <= 60 or one["sent"] == 1 for one in counts] == [True, True]
    assert [one["retransmitted"] for one in counts] == [0, 0]


def test_a_server_that_goes_away_breaks_the_connection_and_nothing_else(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def both() -> None:
        async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
            trace = list(replay.connections(TRACE.splitlines()))
            await replay.replay(server.sockets[0].getsockname()[:2], trace, 5.0)

    asyncio.run(both())
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["errors"] == 2


def test_the_trace_is_the_same_in_all_settings() -> None:
    scenario = paths.scenario(real.SIMULATED)
    texts = {scenario.tmix(variant, "web", "original", 7)[0] for variant in scenario.variants}
    assert len(texts) == 1
    trace = list(replay.connections(texts.pop().splitlines()))
    assert len(trace) == 263
    assert trace[-1].at_s < real.FULL_S


def test_each_emulated_variant_has_one_simulated_beside_it() -> None:
    systems = dict.fromkeys([*real.SYSTEMS, *real.OF_THE_KERNEL])
    variants = [Variant(setting, system) for setting in real.SETTINGS for system in systems]
    listed = tomllib.loads(Path(str(paths.scenario_file(real.EMULATED))).read_text())["variant"]
    assert [one.name for one in variants] == [one["name"] for one in listed]
    beside = [Variant(one.setting, one.system, simulated=True).name for one in variants]
    assert list(dict.fromkeys(beside)) == paths.scenario(real.SIMULATED).variants


def run(times_s: list[float], sizes: list[int], **changed: Any) -> Run:
    count = len(sizes)
    ports = {
        "port": np.array(["bottleneck", "bottleneck:back", "sink"]),
        "delivered_bytes": np.array([0, 0, 250_000]),
        **{
            f"{counter}_{priority}": np.array([number, 0, 0])
            for counter, number in (("arrived", 50), ("dropped", 1))
            for priority in ("high", "med", "low")
        },
    }
    responses = {
        "seed": np.ones(count, dtype=np.uint64),
        "connection": np.arange(count),
        "first_byte": np.zeros(count, dtype=np.int64),
        "bytes": np.array(sizes),
        "idle_s": np.full(count, 2.0),
        "time_s": np.array(times_s),
    }
    fields: dict[str, Any] = {"responses": responses, "ports": ports, "duration_s": 2.0}
    return Run(**{**fields, "sent": 100, "retransmitted": 3, **changed})


def certificate(verdict: str, lost: int = 0) -> dict[str, Any]:
    side = {
        "packets_in": 10,
        "packets_out": 7,
        "dropped": {"overflow": 2},
        "held": 1 - lost,
        "busy_rate": 1.99e6,
    }
    return {
        "verdict": verdict,
        "packets_inside": [3, 3],
        "lateness_us": [1.0, 80.0, 200.0],
        "hosts": [{"missed": 0, "unwritable": 0, "lateness_us": [2.0, 300.0, 400.0]}],
        "links": [{"name": "bottleneck", "certificate": {"up": side, "down": side}}],
    }


SIZES = [4_000, 6_000, 30_000, 100]
KNOWN = RealRuns(
    1,
    {(0, 0): 4_000, (1, 0): 6_000, (2, 0): 30_001, (3, 0): 90},
    {
        Variant(CONGESTED, NEW_RENO): run([0.4, 1.0, 2.0, 0.2], SIZES, certificate=certificate("green")),
        Variant(CONGESTED, NEW_CWV): run(
            [0.2, 0.5, 1.5, 0.2],
            SIZES,
            certificate=certificate("red", lost=1),
        ),
        Variant(CONGESTED, NEW_RENO, simulated=True): run([0.4, 0.8, 1.6], SIZES[:3]),
        Variant(CONGESTED, NEW_CWV, simulated=True): run([0.3, 0.6, 1.4], SIZES[:3], retransmitted=5),
    },
)


def test_gains_and_times_are_those_of_the_same_responses() -> None:
    runs = keeper(KNOWN)
    assert real.real_time_s(runs, CONGESTED, NEW_RENO).mean == approx(1.5)
    assert real.real_gain_pct(runs, CONGESTED, NEW_CWV).mean == approx((50 + 25) / 2)
    assert real.real_gain_pct(runs, CONGESTED, NEW_CWV, above_bytes=20_000).mean == approx(25)
    assert real.real_gain_pct(runs, CONGESTED, NEW_CWV, simulated=True).mean == approx((25 + 12.5) / 2)
    assert real.over_simulated(runs, CONGESTED, NEW_CWV).mean == approx(2.0 / 2.0)
    assert real.over_simulated(runs, CONGESTED, NEW_RENO).mean == approx(3.0 / 2.4)


def test_losses_and_rates_are_those_of_the_server_and_the_router() -> None:
    runs = keeper(KNOWN)
    assert KNOWN.run(CONGESTED, NEW_CWV).dropped_pct == approx(100 * 3 / 150)
    assert real.rate_off_pct(runs) == approx(0.5)
    rates = {NEW_RENO: 250_000, NEW_CWV: 200_000, PACED: 300_000}
    shared = {
        Variant(SHARED, system): run(
            [1.0], [6_000], ports={"port": np.array(["sink"]), "delivered_bytes": np.array([size])}
        )
        for system, size in rates.items()
    }
    runs = keeper(RealRuns(1, {}, shared))
    assert real.file_kbps(runs, NEW_RENO) == approx(1000)


def test_what_is_wrong_with_a_run_is_counted() -> None:
    runs = keeper(KNOWN)
    assert real.red_certificates(runs) == "1"
    assert real.router_lateness_ms(runs) == approx(0.3)
    # The run has one link with two directions, each with one unaccounted packet.
    assert real.unaccounted_packets(runs) == "2"
    assert real.responses_of_another_size(runs) == "0"
    longer = RealRuns(1, {**KNOWN.trace_bytes, (1, 0): 6_002}, KNOWN.runs)
    assert real.responses_of_another_size(keeper(longer)) == "2"


def test_the_table_stands_measured_beside_simulated() -> None:
    table = real.table(keeper(KNOWN))
    assert [row[0] for row in table.rows] == [
        "congested: NewReno, measured",
        "congested: NewReno, simulated",
        "congested: newCWV, measured",
        "congested: newCWV, simulated",
    ]


def test_spread_is_that_of_responses_that_newcwv_sends_at_once() -> None:
    sizes = [30_000, 25_000, 90_000, 3_000]

    def timed(first_s: list[float], times_s: list[float]) -> Run:
        made = run(times_s, sizes)
        return Run({**made.responses, "first_s": np.array(first_s)}, made.ports, 1.0, 1, 0)

    known = {
        Variant(FREE, NEW_CWV): timed([0.2] * 4, [0.21, 0.22, 0.6, 0.2]),
        Variant(FREE, PACED): timed([0.2] * 4, [0.4, 0.3, 0.9, 0.2]),
    }
    runs = keeper(RealRuns(1, {}, known))
    assert real.real_spread_ms(runs, PACED, 1.0) == approx(200)
    assert real.real_spread_ms(runs, PACED) == approx(150)
    assert real.real_spread_ms(runs, NEW_CWV) == approx(15)


def test_counts_of_a_kernel_come_from_its_server_and_those_of_a_simulated_one_from_its_bursts() -> None:
    response = {"connection": 0, "first_byte": 0, "bytes": 5, "idle_s": 0.0, "time_s": 0.1}
    out = "\n".join(json.dumps(line) for line in (response, {"late_s": [0.1, 0.2, 0.3], "errors": 2}))
    err = '{"sent": 7, "retransmitted": 2}\nsomething else\n{"sent": 3, "retransmitted": 0}\n'
    tables: dict[str, Table] = {
        "bursts": {
            "variant": np.zeros(2),
            "group": ["http", "whole_file"],
            "connection": np.array([1, 0]),
            "sent": np.array([40, 900]),
            "retransmitted": np.array([4, 90]),
        },
        "ports": {"variant": np.zeros(1)},
    }
    certificates = {"links": [{"certificate": {"duration_s": 5.0}}]}
    kernel, simulated = (
        real.read_run(Variant(SHARED, system), out, err, certificates, tables, 1)
        for system in (RENO, NEW_CWV)
    )
    assert (kernel.sent, kernel.retransmitted, kernel.broken) == (10, 2, 2)
    assert (simulated.sent, simulated.retransmitted) == (40, 4)
    assert (list(kernel.responses["bytes"]), list(kernel.responses["seed"])) == ([5], [1])


def test_a_client_that_ends_early_is_an_error() -> None:
    response = json.dumps({"connection": 0, "first_byte": 0, "bytes": 5, "idle_s": 0.0, "time_s": 0.1})
    with pytest.raises(InputError, match="free: newCWV: the client ended after 1 responses: no route"):
        real.read_run(Variant(FREE, NEW_CWV), response, "no route", {}, {}, 1)


def test_a_machine_that_cannot_emulate_leaves_out_what_it_cannot_measure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(real, "cannot_control", lambda: "not root")
    with pytest.raises(Unavailable, match="not root"):
        real.of(keeper())

"""Tests of the quantities of bursts behind the emulator, of the newCWV paper and of the kernel, by hand."""

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pytest import approx

from catnip.analysis import stats
from catnip.analysis.bursts import IDLE_S, SIZES_BYTES
from catnip.base import paths
from catnip.base.progress import Progress
from catnip.papers.linux import bursts
from catnip.papers.linux.runs import KernelRuns
from catnip.papers.newcwv import real
from catnip.papers.newcwv.real import (
    CONGESTED,
    FREE,
    KERNEL_CWV,
    KERNEL_PACED,
    RENO,
    SHARED,
    RealRuns,
    Run,
    Variant,
)
from catnip.papers.newcwv.runs import NEW_CWV, NEW_RENO, PACED
from catnip.papers.runs import Runs
from catnip.papers.unavailable import Unavailable

Row = tuple[int, float, float, float]
"""Size of a response, bytes, idle period before it, times of its first and of its last byte, s."""


def responses(seed: int, *rows: Row) -> dict[str, np.ndarray]:
    """Returns responses, each the first one of a connection of its own."""
    size, idle_s, first_s, time_s = (np.array(column) for column in zip(*rows, strict=True))
    count = np.arange(len(rows))
    keys = {"seed": np.full(len(rows), seed), "connection": count, "first_byte": 0 * count}
    return {**keys, "bytes": size, "idle_s": idle_s, "first_s": first_s, "time_s": time_s}


def run(seed: int = 1, *rows: Row, file_bytes: float = 0.0, **fields: Any) -> Run:
    """Returns a run of 10 s; its router drops 1, 2 and 6 of 10, 20 and 30 HIGH, MED and LOW packets."""
    ports = {
        "port": np.array(["bottleneck:back", "bottleneck", "sink"]),
        "group": np.array(["", "", ""]),
        "delivered_bytes": np.array([7.0, 9.0, file_bytes]),
    }
    for name, arrived, dropped in (("high", 10, 1), ("med", 20, 2), ("low", 30, 6)):
        ports |= {
            f"arrived_{name}": np.array([500, arrived, 0]),
            f"dropped_{name}": np.array([99, dropped, 0]),
        }
    known: dict[str, Any] = {"ports": ports, "duration_s": 10.0, "sent": 100, "retransmitted": 3}
    return Run(responses(seed, *(rows or [(6_000, 2.0, 0.2, 1.0)])), **{**known, **fields})


def certificate(
    verdict: str = "green",
    p99_us: tuple[float, float] = (80.0, 300.0),
    busy_rate: float = 2e6,
    **side: int,
) -> dict[str, Any]:
    """Returns a certificate of a router, whose host is as late as the second of `p99_us`."""
    counts = {"packets_in": 10, "packets_out": 7, "held": 1, **side}
    up = {**counts, "dropped": {"overflow": 2}, "busy_rate": busy_rate}
    down = {**counts, "dropped": {"overflow": 2}, "busy_rate": 9e9}
    return {
        "verdict": verdict,
        "packets_inside": [3, 3],
        "lateness_us": [1.0, p99_us[0], 9000.0],
        "hosts": [{"missed": 0, "unwritable": 0, "lateness_us": [2.0, p99_us[1], 9000.0]}],
        "links": [
            {"name": "access", "certificate": {"up": {**up, "busy_rate": 1e9}, "down": down}},
            {"name": "bottleneck", "certificate": {"up": up, "down": down}},
        ],
    }


def trace(
    runs: Mapping[Variant, Run], seed: int = 1, sizes: Mapping[tuple[int, int], int] | None = None
) -> Runs:
    """Returns the runs with one trace, which already has these measurements."""
    one = Runs(True, None, seed, Progress(quiet=True))
    one.cached("real", lambda: RealRuns(seed, dict(sizes or {}), dict(runs)))
    return one


def systems(setting: str, seed: int = 1, simulated: bool = False, **of: Run) -> dict[Variant, Run]:
    names = {"reno": RENO, "cwv": KERNEL_CWV, "paced": KERNEL_PACED}
    return {Variant(setting, names[name], simulated): one for name, one in of.items()}


def kernel(*traces: Runs) -> KernelRuns:
    runs = KernelRuns(True, None, 1, Progress(quiet=True))
    runs.cached(("traces", real.BUFFER_KB), lambda: list(traces))
    return runs


def test_a_response_time_is_a_mean_over_the_responses_above_a_size() -> None:
    rows: list[Row] = [(5_000, 2, 0.1, 9.0), (5_001, 2, 0.1, 1.0), (90_000, 0.1, 0.1, 3.0)]
    slower: list[Row] = [(size, idle_s, first_s, 2 * time_s) for size, idle_s, first_s, time_s in rows]
    runs = trace(
        {Variant(FREE, NEW_CWV): run(1, *rows), Variant(FREE, NEW_CWV, simulated=True): run(1, *slower)}
    )
    assert real.real_time_s(runs, FREE, NEW_CWV).mean == approx(2)
    assert real.real_time_s(runs, FREE, NEW_CWV, simulated=True).mean == approx(4)
    assert real.real_time_s(runs, FREE, NEW_CWV, above_bytes=10_000).mean == approx(3)


def test_a_measured_gain_is_over_the_same_response_of_the_reference() -> None:
    # Above 5 KB after more than 1 s: gains of 50 and 20 %; above 20 KB or after 3 s only the second one.
    reference: list[Row] = [(6_000, 2, 0.1, 1.0), (30_000, 4, 0.1, 2.0), (6_000, 1, 0.1, 1), (5_000, 2, 0, 1)]
    ours: list[Row] = [(6_000, 2, 0.1, 0.5), (30_000, 4, 0.1, 1.6), (6_000, 1, 0.1, 9), (5_000, 2, 0, 9)]
    cubic: list[Row] = [(6_000, 2, 0.1, 2.0), (30_000, 4, 0.1, 4.0)]
    runs = trace(
        {
            Variant(CONGESTED, NEW_RENO): run(1, *reference),
            Variant(CONGESTED, NEW_CWV): run(1, *ours),
            Variant(CONGESTED, "CUBIC"): run(1, *cubic),
            Variant(CONGESTED, NEW_RENO, simulated=True): run(1, *ours),
            Variant(CONGESTED, NEW_CWV, simulated=True): run(1, *reference),
        }
    )
    assert real.real_gain_pct(runs, CONGESTED, NEW_CWV).mean == approx(35)
    assert real.real_gain_pct(runs, CONGESTED, NEW_CWV, above_bytes=20_000).mean == approx(20)
    assert real.real_gain_pct(runs, CONGESTED, NEW_CWV, idle_s=3).mean == approx(20)
    # Simulated, both take longer: 1 of 0.5 s and 2 of 1.6 s.
    assert real.real_gain_pct(runs, CONGESTED, NEW_CWV, simulated=True).mean == approx((-100 - 25) / 2)
    # CUBIC takes 2 and 4 s, newCWV 0.5 and 1.6 s.
    assert real.real_gain_pct(runs, CONGESTED, NEW_CWV, reference="CUBIC").mean == approx((75 + 60) / 2)


def test_measured_times_are_held_against_the_simulated_ones_of_the_same_responses() -> None:
    # Measured 1 and 3 s, simulated 2 and 0.5 s; responses of 5 KB do not count.
    measured: list[Row] = [(6_000, 0.1, 0.1, 1.0), (9_000, 0.1, 0.1, 3.0), (5_000, 0.1, 0.1, 99.0)]
    simulated: list[Row] = [(6_000, 0.1, 0.1, 2.0), (9_000, 0.1, 0.1, 0.5), (5_000, 0.1, 0.1, 1.0)]
    # A client tells when the first byte comes, a simulated server how many segments it sends.
    one = run(1, *simulated)
    columns = {name: values for name, values in one.responses.items() if name != "first_s"}
    beside = replace(one, responses={**columns, "segments": np.array([5, 7, 4])})
    runs = trace({Variant(FREE, NEW_CWV): run(1, *measured), Variant(FREE, NEW_CWV, simulated=True): beside})
    assert real.over_simulated(runs, FREE, NEW_CWV).mean == approx(4 / 2.5)


def test_the_file_has_its_throughput_at_the_sink_with_headers() -> None:
    # 250 KB and 500 KB in 10 s are 200 and 400 kbit/s.
    runs = trace(
        {
            Variant(SHARED, NEW_CWV): run(file_bytes=250e3),
            Variant(SHARED, NEW_CWV, simulated=True): run(file_bytes=500e3),
        }
    )
    assert real.file_kbps(runs, NEW_CWV) == approx(200)
    assert real.file_kbps(runs, NEW_CWV, simulated=True) == approx(400)


def test_a_router_drops_a_share_of_what_arrives_towards_the_clients() -> None:
    assert run().dropped_pct == approx(100 * 9 / 60)


def test_a_burst_is_spread_from_its_first_to_its_last_byte_if_newcwv_sends_it_at_once() -> None:
    # 50, 100 and 300 ms; the third takes newCWV 0.3 s, the fourth has 20 KB, the fifth follows 1 s.
    sizes_and_idle = [(30_000, 2), (30_000, 2), (30_000, 2), (20_000, 2), (30_000, 1), (30_000, 2)]
    at_once = (0.29, 0.25, 0.3, 0.2, 0.2, 0.21)
    last_s = (0.2, 0.25, 0.9, 0.9, 0.9, 0.45)
    newcwv, paced = (
        run(1, *((*of, first_s, time_s) for of, time_s in zip(sizes_and_idle, times_s, strict=True)))
        for first_s, times_s in ((0.2, at_once), (0.15, last_s))
    )
    runs = trace({Variant(FREE, NEW_CWV): newcwv, Variant(FREE, PACED): paced})
    assert real.real_spread_ms(runs, PACED) == approx(100)
    assert real.real_spread_ms(runs, PACED, quantile=1) == approx(300)
    assert real.real_spread_ms(runs, NEW_CWV, quantile=0) == approx(10)
    none = trace({Variant(FREE, NEW_CWV): paced, Variant(FREE, PACED): paced})
    assert real.real_spread_ms(none, PACED, quantile=0) == approx(50)
    assert math.isnan(real.spread_ms(real.class_of(none, FREE, PACED, 99_000, 1.0, reference=NEW_CWV)))


def test_certificates_of_emulated_runs_are_judged_and_simulated_runs_have_none() -> None:
    # Hosts are late by 0.4 ms and routers by 0.7 ms at most. The busy rates are 1, 2 and 0.5 % off 2 Mbit/s;
    # that of the path without a rate limit does not count.
    runs = trace(
        {
            Variant(FREE, NEW_CWV): run(certificate=certificate("red", (700, 300), busy_rate=1e9)),
            Variant(CONGESTED, NEW_CWV): run(certificate=certificate(p99_us=(80, 400), busy_rate=2.02e6)),
            Variant(CONGESTED, PACED): run(certificate=certificate("red", busy_rate=1.96e6, packets_out=4)),
            Variant(SHARED, PACED): run(certificate=certificate(busy_rate=1.99e6, held=2)),
            Variant(CONGESTED, NEW_CWV, simulated=True): run(),
        }
    )
    assert real.red_certificates(runs) == "2"
    assert real.router_lateness_ms(runs) == approx(0.7)
    assert real.rate_off_pct(runs) == approx(2)
    # Two links with two directions each: three packets are missing in each of one run, one is too many in the
    # other one.
    assert real.unaccounted_packets(runs) == str(4 * 3 + 4 * 1)


def test_a_host_may_be_the_latest_of_all() -> None:
    runs = trace({Variant(FREE, NEW_CWV): run(certificate=certificate(p99_us=(80, 900)))})
    assert real.router_lateness_ms(runs) == approx(0.9)
    assert real.rate_off_pct(runs) == 0, "a path without a rate limit"


def test_responses_may_be_one_byte_shorter_than_in_the_trace_and_not_longer() -> None:
    expected = (6_000, 6_000, 6_001, 6_001, 6_002, 5_999, 201, 200)
    sizes: list[Row] = [(size, 2, 0, 1) for size in (*[6_000] * 6, 190, 190)]
    one = trace(
        {
            Variant(FREE, NEW_CWV): run(1, *sizes, broken=2),
            Variant(SHARED, NEW_CWV): run(1, *sizes, broken=3),
            Variant(FREE, NEW_CWV, simulated=True): run(1, *sizes, broken=9),
        },
        sizes={(at, 0): size for at, size in enumerate(expected)},
    )
    # The fifth to the seventh response of two runs; the last one is as short as a header in the trace.
    assert real.responses_of_another_size(one) == "6"
    assert real.broken_connections(one) == "5"
    assert bursts.invalid_bursts(kernel(one, one)) == str(2 * (6 + 5))


def test_a_client_counts_responses_and_errors_and_its_server_segments() -> None:
    response = {"connection": 3, "first_byte": 9, "bytes": 5, "idle_s": 0.0, "time_s": 0.1}
    out = "\n".join(json.dumps(line) for line in (response, {"late_s": [], "errors": 2}))
    err = '{"sent": 7, "retransmitted": 2}\nnoise\n{"sent": 3, "retransmitted": 1}\n'
    tables: dict[str, Any] = {
        "bursts": {
            "variant": np.zeros(2),
            "group": ["http", "file"],
            "sent": np.array([4, 9]),
            "retransmitted": np.array([1, 8]),
        },
        "ports": {"variant": np.zeros(1)},
    }
    links = {"links": [{"certificate": {"duration_s": 5.0}}]}
    of_kernel, simulated = (
        real.read_run(Variant(SHARED, system), out, err, links, tables, 7) for system in (RENO, NEW_CWV)
    )
    assert (of_kernel.sent, of_kernel.retransmitted, of_kernel.broken) == (10, 3, 2)
    assert (simulated.sent, simulated.retransmitted, simulated.duration_s) == (4, 1, 5)
    assert (list(of_kernel.responses["seed"]), list(of_kernel.responses["connection"])) == ([7], [3])


@pytest.mark.parametrize(("setting", "before"), [(SHARED, 1), (FREE, 0), (CONGESTED, 0)])
def test_a_simulated_run_has_the_responses_that_end_in_time_and_the_connections_of_the_trace(
    setting: str, before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A file transfer opens the first connection, so that those of the trace have numbers from one on.
    tables = {
        "bursts": {
            "variant": np.zeros(4, int),
            "group": ["web", "web", "web", "file"],
            "connection": np.array([before, before + 1, before + 1, 7], dtype=np.uint64),
            "start_s": np.array([1.0, 9.0, 9.5, 0.0]),
            "time_s": np.array([2.0, 1.0, 0.6, 1.0]),
            "sent": np.array([5, 6, 90, 90]),
            "retransmitted": np.array([1, 2, 9, 9]),
        },
        "ports": {"variant": np.zeros(1, int), "port": ["sink"]},
        "runs": {"variant": np.zeros(1, int), "end_s": [11.0]},
    }
    monkeypatch.setattr(paths, "scenario", lambda *_: SimpleNamespace(run=lambda *_: tables))
    variant = Variant(setting, NEW_CWV, simulated=True)
    one = real._simulate([variant], 10.0, 1, [])[variant]
    assert list(one.responses["connection"]) == [0, 1]
    assert (one.sent, one.retransmitted, one.duration_s) == (11, 3, 11)


@pytest.mark.parametrize(
    ("system", "measured", "simulated"),
    [
        (RENO, "Reno of the kernel", "Reno as Linux"),
        (KERNEL_CWV, "newCWV of the kernel", "newCWV"),
        (KERNEL_PACED, "newCWV of the kernel, paced", "newCWV, paced"),
        (NEW_CWV, "newCWV", "newCWV"),
    ],
)
def test_a_system_of_the_kernel_has_a_simulated_counterpart(
    system: str, measured: str, simulated: str
) -> None:
    names = [Variant(SHARED, system, is_simulated).name for is_simulated in (False, True)]
    assert names == [f"shared: {measured}", f"shared: {simulated}"]


def test_the_classes_in_the_kernel_are_those_of_the_paper() -> None:
    assert tuple(1000 * size for size in bursts.SIZES_KB) == SIZES_BYTES
    assert bursts.IDLES_S == IDLE_S


# Two traces. Above 5 KB after more than 1 s: gains of 60, 30 and 10 %, and of 20 %. The last two are above
# 80 KB, the last one follows 15.5 s.
RENO_1: list[Row] = [
    (6_000, 2, 0.2, 1.0),
    (20_500, 2, 0.2, 1.0),
    (80_500, 2, 0.2, 1.0),
    (5_000, 20, 0.2, 1.0),
]
CWV_1: list[Row] = [(6_000, 2, 0.2, 0.4), (20_500, 2, 0.2, 0.7), (80_500, 2, 0.2, 0.9), (5_000, 20, 0.2, 9.0)]
RENO_2: list[Row] = [(80_500, 15.5, 0.2, 2.0)]
CWV_2: list[Row] = [(80_500, 15.5, 0.2, 1.6)]


def two_traces(setting: str, **paced: Sequence[Row]) -> KernelRuns:
    first = systems(setting, reno=run(1, *RENO_1), cwv=run(1, *CWV_1))
    second = systems(setting, reno=run(2, *RENO_2), cwv=run(2, *CWV_2))
    if paced:
        first |= systems(setting, paced=run(1, *paced["first"]))
        second |= systems(setting, paced=run(2, *paced["second"]))
    return kernel(trace(first, 1), trace(second, 2))


def test_a_gain_in_the_kernel_is_a_mean_over_the_bursts_of_all_traces() -> None:
    runs = two_traces(CONGESTED)
    assert bursts.kernel_gain_pct(runs, CONGESTED, KERNEL_CWV, 5).mean == approx((60 + 30 + 10 + 20) / 4)
    assert bursts.kernel_gain_pct(runs, CONGESTED, KERNEL_CWV, 20).mean == approx((30 + 10 + 20) / 3)
    assert bursts.kernel_gain_pct(runs, CONGESTED, KERNEL_CWV, 5, 15).mean == approx(20)
    assert bursts.large_over_small_points(runs, CONGESTED).mean == approx(15 - 30)
    assert bursts.long_over_short_points(runs, CONGESTED).mean == approx(20 - 30)
    assert bursts.long_over_short_points(runs, CONGESTED, 80).mean == approx(20 - 15)


def test_a_simulated_gain_is_that_of_the_simulated_counterparts() -> None:
    simulated = systems(FREE, simulated=True, reno=run(1, *CWV_1[:3]), cwv=run(1, *RENO_1[:3]))
    runs = kernel(trace(simulated, 1))
    # From 0.4 to 1 s, 0.7 to 1 s and 0.9 to 1 s: -150, -42.86 and -11.11 %.
    gain = bursts.kernel_gain_pct(runs, FREE, KERNEL_CWV, 5, simulated=True)
    assert gain.mean == approx((-150 - 300 / 7 - 100 / 9) / 3)


def test_a_gain_falls_with_size_by_the_least_step_between_two_sizes() -> None:
    # Gains above 5, 20 and 80 KB: 30, 20 and 15 %.
    assert bursts.falls_with_size_points(two_traces(FREE), FREE).mean == approx(5)
    # (60 + 30 + 70 + 20) / 4 = 45, 40 and 45 %; (60 + 30 + 10 + 80) / 4 = 45, 40 and 45 %.
    for last_of_first, last_of_second in ((0.3, 1.6), (0.9, 0.4)):
        rows = [*CWV_1[:2], (80_500, 2, 0.2, last_of_first), CWV_1[3]]
        first = systems(FREE, reno=run(1, *RENO_1), cwv=run(1, *rows))
        second = systems(FREE, reno=run(2, *RENO_2), cwv=run(2, (80_500, 15.5, 0.2, last_of_second)))
        runs = kernel(trace(first, 1), trace(second, 2))
        assert bursts.falls_with_size_points(runs, FREE).mean == approx(-5)


def test_a_gain_that_falls_only_above_80_kb_does_not_fall_with_size() -> None:
    # Gains above 5, 20 and 80 KB: (10 + 50 + 20) / 3 = 26.7, then (50 + 20) / 2 = 35, then 20 %.
    reno: list[Row] = [(6_000, 2, 0.2, 1.0), (20_500, 2, 0.2, 1.0), (80_500, 2, 0.2, 1.0)]
    cwv: list[Row] = [(6_000, 2, 0.2, 0.9), (20_500, 2, 0.2, 0.5), (80_500, 2, 0.2, 0.8)]
    runs = kernel(trace(systems(FREE, reno=run(1, *reno), cwv=run(1, *cwv)), 1))
    assert bursts.falls_with_size_points(runs, FREE).mean == approx(80 / 3 - 35)


@pytest.mark.parametrize("gains", [(50, 10, 10), (20, 30, 10), (10, 10, 10)])
def test_a_gain_that_stays_does_not_fall_with_size(gains: tuple[float, float, float]) -> None:
    # Above 5, 20 and 80 KB: 23.3, 10 and 10 %; 20, 20 and 10 %; 10 % for all.
    sizes = (6_000, 20_500, 80_500)
    reno, cwv = (
        run(1, *[(size, 2, 0.2, 1 - share * gain / 100) for size, gain in zip(sizes, gains, strict=True)])
        for share in (0, 1)
    )
    runs = kernel(trace(systems(FREE, reno=reno, cwv=cwv), 1))
    assert bursts.falls_with_size_points(runs, FREE).mean == approx(0, abs=1e-9)


def test_a_difference_of_gains_has_an_interval_over_the_traces() -> None:
    # Gains above 5 KB less those above 80 KB: 30 - 15 of both traces, 100 / 3 - 10 without the second, 0
    # without the first: pseudo-values of 2 * 15 - 0 and 2 * 15 - 70 / 3.
    value = bursts.large_over_small_points(two_traces(FREE), FREE)
    expected = stats.mean([-30, -20 / 3])
    half = (expected.high - expected.low) / 2
    assert (value.mean, value.low, value.high, value.n) == approx((-15, -15 - half, -15 + half, 2))
    assert math.isnan(bursts.large_over_small_points(ten_and_one(10), FREE).low), "one trace tells no spread"


def test_the_least_gain_has_the_lowest_bound_of_all_classes_at_once() -> None:
    def of(seed: int, gain_pct: float) -> Runs:
        large: Row = (80_500, 15.5, 0.2, 1.0)
        cwv = run(seed, *[(*large[:3], 1 - gain_pct / 100)] * 5)
        return trace(systems(FREE, reno=run(seed, *[large] * 5), cwv=cwv), seed)

    # Each of the 30 classes has ten bursts: five with a gain of 10 %, and five with one of 20 %.
    value = bursts.extreme_gain_pct(kernel(of(1, 10), of(2, 20)), FREE, KERNEL_CWV, "least")
    each = stats.mean([10, 20], stats.family(30))
    assert (value.mean, value.low, value.high) == approx((15, each.low, each.high))


def test_pacing_adds_the_gain_with_it_minus_the_gain_without_it() -> None:
    # Above 80 KB, paced bursts take 0.7 of 1 s and 1 of 2 s: 30 and 50 %, against 10 and 20 %.
    runs = two_traces(
        SHARED, first=[*CWV_1[:2], (80_500, 2, 0.2, 0.7), CWV_1[3]], second=[(80_500, 15.5, 0.2, 1.0)]
    )
    assert bursts.paced_over_unpaced_points(runs).mean == approx(40 - 15)
    assert bursts.paced_over_unpaced_points(runs, 5).mean == approx((60 + 30 + 30 + 50) / 4 - 30)
    assert bursts.paced_over_unpaced_points(runs, idle_s=15).mean == approx(50 - 20)


def ten_and_one(count: int) -> KernelRuns:
    """Returns `count` bursts above 80 KB after 15.5 s with a gain of 10 %, and one of 6 KB with 65 %."""
    large: Row = (80_500, 15.5, 0.2, 1.0)
    reno = run(1, *[large] * count, (6_000, 2, 0.2, 1.0))
    cwv = run(1, *[(*large[:3], 0.9)] * count, (6_000, 2, 0.2, 0.35))
    return kernel(trace(systems(FREE, reno=reno, cwv=cwv), 1))


def test_the_least_the_greatest_and_the_average_gain_are_those_of_classes_with_ten_bursts() -> None:
    # The class above 5 KB after 1 s has all eleven: (10 * 10 + 65) / 11 = 15 %; the 29 others have 10 %.
    runs = ten_and_one(10)
    extreme = [
        bursts.extreme_gain_pct(runs, FREE, KERNEL_CWV, one).mean for one in ("least", "greatest", "average")
    ]
    assert extreme == approx([10, 15, (29 * 10 + 15) / 30])
    assert runs.sample == 30
    # With nine, only that class has ten bursts: (9 * 10 + 65) / 10.
    fewer = ten_and_one(9)
    extreme = [
        bursts.extreme_gain_pct(fewer, FREE, KERNEL_CWV, one).mean for one in ("least", "greatest", "average")
    ]
    assert extreme == approx([15.5] * 3)
    assert math.isnan(bursts.extreme_gain_pct(ten_and_one(8), FREE, KERNEL_CWV, "least").mean)


def test_retransmissions_of_all_traces_are_a_share_of_what_all_traces_sent() -> None:
    def of(reno: tuple[int, int], cwv: tuple[int, int]) -> dict[Variant, Run]:
        one, two = (run(sent=sent, retransmitted=again) for sent, again in (reno, cwv))
        return systems(FREE, reno=one, cwv=two)

    # Reno: 5 + 15 of 100 + 300; newCWV: 40 + 20 of 200 + 600.
    runs = kernel(trace(of((100, 5), (200, 40)), 1), trace(of((300, 15), (600, 20)), 2))
    assert bursts.retransmission_ratio(runs, FREE).mean == approx((60 / 800) / (20 / 400))
    none = kernel(trace(of((100, 0), (100, 1)), 1))
    assert math.isnan(bursts.retransmission_ratio(none, FREE).mean)


def test_the_file_of_all_traces_is_compared_with_that_beside_reno() -> None:
    def of(reno: float, cwv: float) -> dict[Variant, Run]:
        return systems(SHARED, reno=run(file_bytes=reno), cwv=run(file_bytes=cwv))

    # 200 + 100 KB over 100 + 500 KB, and not 200 over 100 KB as in the first trace.
    runs = kernel(trace(of(100e3, 200e3), 1), trace(of(500e3, 100e3), 2))
    assert bursts.file_over(runs, KERNEL_CWV).mean == approx(0.5)


def test_bursts_of_all_traces_are_spread_by_their_median() -> None:
    def of(seed: int, *spreads_ms: float) -> Runs:
        rows: list[Row] = [(30_000, 2, 0.2, 0.2 + spread / 1e3) for spread in spreads_ms]
        at_once: list[Row] = [(30_000, 2, 0.2, 0.25)] * len(rows)
        return trace(systems(FREE, cwv=run(seed, *at_once), paced=run(seed, *rows)), seed)

    runs = kernel(of(1, 100), of(2, 160, 400))
    assert bursts.kernel_spread_ms(runs, KERNEL_PACED).mean == approx(160)
    assert bursts.kernel_spread_ms(runs, KERNEL_CWV).mean == approx(50)


def test_bursts_in_the_kernel_are_compared_with_the_same_simulated_bursts_of_all_traces() -> None:
    def of(seed: int, measured_s: float, simulated_s: float) -> Runs:
        rows: list[Row] = [(6_000, 0.1, 0.1, measured_s), (5_000, 0.1, 0.1, 99.0)]
        beside: list[Row] = [(6_000, 0.1, 0.1, simulated_s), (5_000, 0.1, 0.1, 1.0)]
        both = systems(FREE, cwv=run(seed, *rows)) | systems(FREE, simulated=True, cwv=run(seed, *beside))
        return trace(both, seed)

    runs = kernel(of(1, 1.0, 2.0), of(2, 3.0, 0.5))
    assert bursts.over_simulated_kernel(runs, FREE, KERNEL_CWV).mean == approx(4 / 2.5)


def test_red_certificates_of_all_traces_are_counted() -> None:
    def of(seed: int, verdict: str) -> Runs:
        return trace(systems(FREE, reno=run(certificate=certificate(verdict))), seed)

    assert bursts.cwv_red_certificates(kernel(of(1, "red"), of(2, "green"), of(3, "red"))) == "2"


def test_the_buffer_of_a_gain_is_that_of_the_programs_path_and_of_the_simulated_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The traces are seeds 1 to 10, without a path that has no buffer; each run is a part of its own."""
    emulated, simulated = [], []

    def emulate(_: str, variant: str, seed: int, *rest: Any) -> SimpleNamespace:
        emulated.append((seed, variant, *rest[2:]))
        return SimpleNamespace(is_red=False, out="", err="", certificate={}, tables={})

    def simulate(variants: Sequence[Variant], *rest: Any) -> dict[Variant, Run]:
        simulated.append((rest[1], *rest[2]))
        return dict.fromkeys(variants, run())

    # Without pacing, a burst takes 0.8 of Reno's time over the paper's buffer and 1.2 over the other one.
    def read(variant: Variant, *rest: Any) -> Run:
        ratio = {RENO: 1.0, KERNEL_CWV: 1.2, KERNEL_PACED: 0.5}[variant.system]
        return run(rest[-1], (80_500, 2, 0.2, ratio))

    monkeypatch.setattr(real, "cannot_control", lambda: None)
    monkeypatch.setattr(bursts, "controllers", nullcontext)
    monkeypatch.setattr(KernelRuns, "require", lambda *_: None)
    for name, fake in (("emulate", emulate), ("_simulate", simulate), ("read_run", read)):
        monkeypatch.setattr(real, name, fake)
    large: Row = (80_500, 2, 0.2, 1.0)
    usual = systems(SHARED, reno=run(1, large), cwv=run(1, (*large[:3], 0.8)))
    runs = KernelRuns(False, 12, 1, Progress(quiet=True))
    runs.cached(("traces", 30), lambda: [trace(usual, 1)])
    assert bursts.kernel_gain_pct(runs, SHARED, KERNEL_CWV, 80).mean == approx(20)
    assert emulated == []
    assert bursts.kernel_gain_pct(runs, SHARED, KERNEL_CWV, 80, buffer_kb=60).mean == approx(-20)
    assert bursts.paced_over_unpaced_points(runs, buffer_kb=60).mean == approx(50 + 20)
    names = [f"{setting}: {system}" for setting in (CONGESTED, SHARED) for system in real.OF_THE_KERNEL]
    options = ("--bursts", "--set=define.queue=drop-tail:60000B")
    assert sorted(emulated) == sorted((seed, name, *options) for seed in range(1, 11) for name in names)
    queue = ("define.queue", "drop-tail:60000B")
    assert sorted(simulated) == [(seed, queue) for seed in range(1, 11)]
    quick = KernelRuns(True, None, 1, Progress(quiet=True))
    with pytest.raises(Unavailable, match="the paper's buffer of 30 KB only"):
        bursts.kernel_gain_pct(quick, SHARED, KERNEL_CWV, 80, buffer_kb=60)

"""Tests of each published quantity of the newCWV paper: hand-made tables, values worked out by hand."""

import math
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pytest import approx
from test_newcwv import BURSTS, events, of_silence, pairs, runs_with

from catnip.analysis import bursts
from catnip.base import paths
from catnip.papers.newcwv import beyond, captured, gains, single, videos
from catnip.papers.newcwv.printed import printed
from catnip.papers.newcwv.runs import CONGESTED, FREE, NEW_CWV, NEW_RENO, PACED, SEGMENT, SHARED, BurstRuns

Event = tuple[float, str, str, int, float, str]
Burst = tuple[int, int, float, float, float]


def sends(at_s: float, *numbers: int, cwnd: float = 40, phase: str = "non-validated") -> list[Event]:
    return [(at_s, "server", "send", number, cwnd, phase) for number in numbers]


def ack(at_s: float, number: int, cwnd: float = 40, phase: str = "non-validated") -> Event:
    return (at_s, "server", "ack", number, cwnd, phase)


def of_events(
    scenario: str,
    variant: str,
    rows: Sequence[Event],
    pipe_ack: float | Sequence[float] = 8,
    seed: int | None = None,
    **columns: Any,
) -> dict[Any, Any]:
    """Returns the cache with the events of one run; `pipe_ack` is in segments, for all rows or each."""
    changed = {"pipe_ack_bytes": np.full(len(rows), 1.0) * pipe_ack * SEGMENT}
    of_run = events(rows) | changed | {name: np.array(values) for name, values in columns.items()}
    return {("events", scenario, variant, seed): of_run}


def after_loss(rows: Sequence[Event], pipe_ack: float) -> float:
    return single.cwnd_after_loss_off_segments(
        runs_with(of_events("newcwv-loss", "one packet", rows, pipe_ack)), "one packet"
    )


def loses_two_of_six(cwnd_after: float) -> list[Event]:
    """Returns a loss of segments 0 and 3 of six in flight; after the recovery, cwnd is `cwnd_after`."""
    return [
        *sends(1.0, 0, 1, 2, 3, 4, 5),
        ack(1.2, 0),
        *sends(1.2, 0, cwnd=5),
        ack(1.4, 3, 5),
        *sends(1.4, 3, cwnd=5),
        *sends(1.5, 3, cwnd=5),
        ack(1.6, 6, cwnd_after),
        ack(1.7, 6, 30),
    ]


@pytest.mark.parametrize(
    ("pipe_ack", "expected"),
    [
        # RFC 7661: (max(pipeACK, 6 in flight) - 2 retransmitted) / 2, so pipeACK counts only if it is larger.
        (14, 6),
        (7, 2.5),
        (6, 2),
        (3, 2),
        (math.nan, 2),
    ],
)
def test_the_window_after_a_loss_follows_from_the_larger_of_pipe_ack_and_flight(
    pipe_ack: float, expected: float
) -> None:
    assert after_loss(loses_two_of_six(expected), pipe_ack) == approx(0)
    assert after_loss(loses_two_of_six(expected + 1.5), pipe_ack) == approx(1.5)
    assert after_loss(loses_two_of_six(expected - 1), pipe_ack) == approx(1), "its magnitude"


def test_the_window_after_a_loss_is_at_least_one_segment() -> None:
    # Both segments in flight are sent again, the second one after its ACK: (2 - 2) / 2.
    rows = [*sends(1.0, 0, 1), ack(1.2, 0), *sends(1.2, 0, cwnd=2), ack(1.3, 2, 30)]
    assert after_loss([*rows, *sends(1.35, 1, cwnd=2), ack(1.4, 2, 1)], 1) == 0


def test_a_loss_counts_what_was_in_flight_when_the_first_segment_was_sent_again() -> None:
    # Four segments are in flight at 1.2 s, and six at 1.3 s: (4 - 1) / 2.
    rows = [
        *sends(1.0, 0, 1, 2, 3, 4, 5),
        ack(1.1, 2),
        *sends(1.2, 2, cwnd=5),
        *sends(1.3, 6, 7, cwnd=5),
        ack(1.35, 5, 30),
        ack(1.4, 6, 1.5),
        ack(1.5, 8, 9),
    ]
    # The recovery ends with the ACK of all that had been sent before it, that is, of segments up to 5.
    assert after_loss(rows, 0) == approx(0)
    rows[-2] = ack(1.4, 6, 30)
    assert after_loss(rows, 0) == approx(28.5)


def test_pipe_ack_is_that_before_the_first_segment_is_sent_again() -> None:
    # pipeACK is 9 segments before the loss is noticed, two are in flight, one is sent again: (9 - 1) / 2.
    rows = [
        *sends(1.0, 0, 1, phase="validated"),
        ack(1.2, 0),
        *sends(1.2, 0, phase="validated"),
        ack(1.4, 2, 4, phase="validated"),
    ]
    known = of_events("newcwv-loss", "one packet", rows, [20, 20, 9, 20, 20])
    assert single.cwnd_after_loss_off_segments(runs_with(known), "one packet") == 0
    with pytest.raises(AssertionError, match="validated"):
        after_loss([*rows[:2], ack(1.2, 0, phase="validated"), *rows[3:]], 9)


def test_pipe_ack_is_compared_before_and_after_an_idle_period() -> None:
    rows = [
        *sends(1.0, 0, 1),
        ack(1.2, 2, phase="validated"),
        *sends(7.0, 2, phase="non-validated"),
        ack(7.2, 3, phase="validated"),
    ]
    pipe_ack = [5, 6, 8, 2, 9]
    known: dict[Any, Any] = {}
    for idle_s in ("5", "0.02"):
        known |= of_events("newcwv-silence", f"newcwv / idle_s=constant:value={idle_s}", rows, pipe_ack)
    assert single.pipe_ack_after_silence(runs_with(known), 5) == 2
    assert single.pipe_ack_after_idle_ratio(runs_with(known)) == 0.25
    assert single.phases_around_silence(runs_with(known), 5) == "validated, non-validated"


@pytest.mark.parametrize(
    ("rule", "gap_s", "after", "ssthresh", "off"),
    [
        # RFC 2861 with a timeout of 0.4 s: 40 segments become 20 after 0.5 s, and ssthresh 3/4 of 40 = 30.
        ("cwv", 0.5, 20, 30, 0),
        ("cwv", 0.5, 20, 29, 1),
        ("cwv", 0.5, 23, 31, 3),
        ("cwv", 0.5, 18, 31, 2),
        ("cwv", 0.5, 20, 34, 4),
        ("cwv", 0.3, 40, 20, 0),
        ("cwv", 0.3, 40, 22, 2),
        ("cwv", 5.0, 1, 30, 0),
        # RFC 7661 halves cwnd every five minutes, from 40 to 20 segments; ssthresh is max(20, 3/4 of 40).
        ("newcwv", 301, 20, 30, 0),
        ("newcwv", 301, 20, 28, 2),
        ("newcwv", 301, 20, 35, 5),
        ("newcwv", 301, 24, 30, 4),
        ("newcwv", 601, 10, 30, 0),
        ("newcwv", 3001, 3, 30, 0),
        ("newcwv", 299, 40, 20, 0),
        # Linux with a timeout of 0.4 s: 40 segments become 20 after 0.5 s, and the same after 0.4 s.
        ("linux", 0.5, 20, 20, 0),
        ("linux", 0.5, 18, 20, 2 / SEGMENT),
        ("linux", 0.4, 38, 20, 2 / SEGMENT),
    ],
)
def test_cwnd_and_ssthresh_after_an_idle_period_are_held_against_the_rfc(
    rule: str, gap_s: float, after: float, ssthresh: float, off: float
) -> None:
    idle_s = gap_s if rule == "newcwv" else 5
    runs = of_silence(rule, idle_s, after, gap_s)
    (rows,) = (rows for rows, _ in runs._cache.values())
    rows["ssthresh_bytes"][rows["time_s"] > 1.2] = ssthresh * SEGMENT
    quantities = {
        "cwv": single.cwv_off_bytes,
        "newcwv": single.newcwv_after_idle_off_bytes,
        "linux": single.linux_off_segments,
    }
    assert quantities[rule](runs, idle_s) == approx(off * SEGMENT)


def test_pipe_ack_is_held_against_the_segments_of_a_round_trip_after_the_warm_up() -> None:
    # A segment every 10 ms for 200 ms are 20 segments; the median of 10, 30 and 40 is 30.
    rows = [*sends(1.0, 0), ack(5.0, 1), ack(5.1, 2), ack(6.1, 3), ack(6.2, 4), *sends(6.3, 5, 6)]
    runs = runs_with(of_events("newcwv-limited", "newcwv", rows, [1, 99, 40, 10, 30, 99, 99]))
    assert single.pipe_ack_over_rate(runs) == approx(1.5)


def test_a_window_is_held_against_what_was_in_flight() -> None:
    # After the warm-up cwnd is 12 at most and 8 at last; in flight are 5 segments at most, later 2.
    rows = [
        *sends(1.0, 0, 1, 2, 3, cwnd=50),
        *sends(5.0, 4, cwnd=20),
        ack(5.1, 5, 12),
        *sends(6.0, 5, 6, cwnd=12),
        ack(6.2, 7, 10),
        *sends(6.3, 7, cwnd=8),
        (6.4, "client", "ack", 7, 70, ""),
    ]
    runs = runs_with(of_events("newcwv-limited", "cwv", rows))
    assert single.window_over_use(runs, "cwv") == approx(12 / 5)
    assert single.window_over_present_use(runs, "cwv") == approx(8 / 2)


def test_the_filter_of_pipe_ack_is_judged_by_relative_variances_and_by_the_largest_windows() -> None:
    # Without the filter pipeACK is 2 and 6 (mean 4, variance 4), with it 8 and 16 (mean 12, variance 16).
    # cwnd reaches 10 segments without and 15 with the filter, and more only during the warm-up.
    rows = [ack(5.0, 1, 90), ack(5.1, 2, 10), ack(7.0, 3, 7), ack(8.0, 4, 7)]
    larger = [ack(5.0, 1, 90), ack(5.1, 2, 15), ack(7.0, 3, 7), ack(8.0, 4, 7)]
    known: dict[Any, Any] = {}
    for seed in range(1, 11):
        known |= of_events("newcwv-filter", "last sample", rows, [99, 2, 6, math.nan], seed)
        known |= of_events("newcwv-filter", "largest of five", larger, [99, 8, 16, math.nan], seed)
    runs = runs_with(known)
    assert single.pipe_ack_variation_ratio(runs).mean == approx((16 / 144) / (4 / 16))
    assert single.peak_cwnd(runs, "largest of five").mean == approx(15)
    assert single.peak_cwnd_ratio(runs).mean == approx(1.5)
    assert single.peak_cwnd_ratio(runs).n == 10


def test_the_window_after_an_idle_period_is_spread_from_its_first_to_its_last_segment() -> None:
    # cwnd is 3 segments; the third leaves 150 ms after the first, three quarters of the round trip.
    rows = [*sends(1.0, 0, 1), ack(1.2, 2)]
    rows += [one for at_s, n in ((6.0, 2), (6.1, 3), (6.15, 4), (6.9, 5)) for one in sends(at_s, n, cwnd=3)]
    runs = runs_with(of_events("newcwv-silence", "newcwv, paced / idle_s=constant:value=5", rows))
    assert single.spread_round_trips(runs, "newcwv, paced") == approx(0.75)
    assert single.spread_ms(runs, "newcwv, paced") == approx(150)


def simulates(
    monkeypatch: pytest.MonkeyPatch, name: str, variants: list[str], table: str, **columns: Sequence[Any]
) -> BurstRuns:
    """Lets the runs of these variants of the scenario `name` with seed 1 give a known table."""
    tables = {table: {key: np.array(values) for key, values in columns.items()}}

    def run(of: list[str], seeds: list[int], of_tables: list[str], *_: Any) -> Mapping[str, Any]:
        assert (of, seeds, of_tables) == (variants, [1], [table])
        return tables

    scenarios = {name: SimpleNamespace(variants=variants, run=run)}
    monkeypatch.setattr(paths, "scenario", lambda scenario, _changes=(): scenarios[scenario])
    return runs_with({})


def test_a_paced_transfer_takes_longer_by_the_ratio_of_its_times(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: dict[str, list[Any]] = {
        "variant": [0, 1, 2],
        "start_s": [1.0, 2.0, 0.0],
        "acked_s": [5.0, 7.0, 4.4],
    }
    faster = "paced, 1.25 windows"
    runs = simulates(monkeypatch, "newcwv-long", ["at once", "paced", faster], "connections", **rows)
    assert single.paced_time_ratio(runs) == approx(5 / 4)
    assert single.paced_time_ratio(runs, faster) == approx(4.4 / 4)


def test_the_utilization_is_that_of_the_bottleneck(monkeypatch: pytest.MonkeyPatch) -> None:
    ports: dict[str, list[Any]] = {"variant": [0] * 3, "utilization": [0.1, 0.9, 0.2]}
    ports["port"] = ["sink", "bottleneck", "bottleneck:back"]
    runs = simulates(monkeypatch, "newcwv-alone", ["NewReno"], "ports", **ports)
    assert single.utilization_alone(runs) == 0.9


def test_bursts_and_the_idle_period_between_them_are_read_in_their_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: dict[str, list[Any]] = {"bytes": [200_000, 199_000], "idle_s": [0.0, 4.98]}
    variant = "newcwv / idle_s=constant:value=5"
    runs = simulates(monkeypatch, "newcwv-silence", [variant], "bursts", **found)
    assert single.found_bursts(runs) == "200000, 199000"
    assert single.found_silence_off_ms(runs) == approx(20)


def test_timeouts_are_the_expired_timers(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def trace(*arguments: Any, **options: Any) -> dict[str, list[str]]:
        calls.append((*arguments, options))
        return {"event": ["send", "rto", "ack", "rto", "rto"]}

    monkeypatch.setattr(single, "trace", trace)
    assert single.timeouts_of_drops(runs_with({}), "reno", [3]) == "3"
    options = {"recovery": "reno", "rate": "10Mbit", "delay": "50ms", "queue": "drop-tail:100"}
    assert calls == [("ns2-2.35", 100, [3], options)]
    rows: list[Event] = [*sends(1.0, 0), (2.0, "server", "rto", 0, 1, ""), *sends(2.0, 0), ack(2.2, 1)]
    rows.append(ack(2.3, 1))
    assert single.timeouts_of_version(runs_with(of_events("newcwv-versions", "Reno", rows)), "Reno") == "1"


def test_restarts_are_falls_to_one_segment_of_1000_bytes_and_not_to_two() -> None:
    # cwnd falls to one segment at 3 s and at 8 s, where it stays for two ACKs, and to 1001 bytes at 6 s.
    bytes_of = [20_000, 1000, 2000, 9000, 1001, 9000, 1000, 1000, 2000, 12_000]
    rows = [ack(at_s, 1) for at_s in (2, 3, 4, 5, 6, 7, 8, 9, 10, 11)]
    runs = runs_with(of_events("newcwv-versions", "Tahoe", rows, cwnd_bytes=bytes_of))
    assert single.restarts_of(runs, "Tahoe") == 2
    # Later than 6 s, the mean of 9000, 1000, 1000, 2000 and 12 000 bytes counts.
    assert single.settled_window(runs, "Tahoe") == approx(5)


def test_the_shortest_round_trip_is_that_of_immediate_acks() -> None:
    rows = [*sends(1.0, 0, 1), *sends(1.05, 2, 3), *sends(1.1, 4), ack(1.21, 2), ack(1.25, 4), ack(1.29, 5)]
    runs = runs_with(of_events("newcwv-silence", "restart / idle_s=constant:value=5", rows))
    assert single.measured_round_trip_ms(runs) == approx(200)


def test_no_round_trip_is_measured_where_a_segment_is_sent_again_or_acks_are_duplicates() -> None:
    # Only the first ACK counts, 200 ms after segment 1. The second one follows a retransmission by 10 ms, the
    # fourth one a duplicate, and the last one is itself a duplicate.
    rows = [*sends(1.0, 0, 1), *sends(1.05, 2, 3), ack(1.2, 2), *sends(1.3, 2), ack(1.31, 4)]
    rows += [*sends(1.4, 4, 5, 6, 7), ack(1.45, 4), ack(1.46, 6), ack(1.47, 8)]
    duplicates = [0] * 11 + [1, 0, 1]
    known = of_events("newcwv-silence", "restart / idle_s=constant:value=5", rows, dupacks=duplicates)
    assert single.measured_round_trip_ms(runs_with(known)) == approx(200)


def test_the_rate_of_the_link_is_the_largest_in_a_second_with_headers() -> None:
    # 200 segments of 1500 bytes in the second from 20 s are 2.4 Mbit/s; 150 and 250 outside are not counted.
    rows = [ack(8.0, 0), ack(9.0, 250), ack(20.0, 250), ack(21.0, 450), ack(22.0, 600), ack(300.0, 600)]
    assert single.link_mbps(runs_with(of_events("newcwv-alone", "NewReno", rows))) == approx(2.4)


def test_a_buffer_takes_what_it_does_not_drop_of_thirty_segments_at_once() -> None:
    # Three of the thirty are dropped at once; a drop after half a round trip (100 ms) is of a later segment.
    rows: list[Event] = [(0.5, "client", "send", 0, 3, ""), *sends(1.0, 0), *sends(1.02, 1, 2)]
    rows += [(at_s, "link", "drop", 0, 0, "") for at_s in (1.01, 1.02, 1.09, 1.11)]
    runs = runs_with(of_events("newcwv-alone", "thirty segments at once", rows))
    assert single.packets_in_buffer(runs) == "27"


def test_the_state_of_a_sender_is_traced_if_the_table_has_its_columns() -> None:
    runs = of_silence("newcwv", 5, 40)
    assert single.traced(runs) == "time_s, cwnd_bytes, ssthresh_bytes, pipe_ack_bytes, phase"
    ((rows, _),) = runs._cache.values()
    del rows["ssthresh_bytes"]
    assert single.traced(runs) == "time_s, cwnd_bytes, pipe_ack_bytes, phase"


def of_pairs(path: str, variant: str, found: bursts.Pairs, reference: str = NEW_RENO) -> dict[Any, Any]:
    return {("pairs", path, variant, reference): found}


def gaining(*percent: float, size: int = 90_000, idle_s: float = 20) -> bursts.Pairs:
    """Returns a burst of each of the seeds 1, 2, ... that takes so many percent less time."""
    return pairs([(seed, size, idle_s, 2.0, 2 - gain / 50) for seed, gain in enumerate(percent, 1)])


def test_the_least_and_the_greatest_gain_are_those_of_all_classes() -> None:
    # Gains of 50 and -25 % in one run, 30 and -15 % in the other one. The class above 5 KB after 1 s has all
    # four, a mean of 10 %; the 29 classes of larger bursts or longer idle periods have the negative ones.
    runs = runs_with(of_pairs(SHARED, NEW_CWV, BURSTS))
    assert gains.min_gain_pct(runs, SHARED).mean == approx(-20)
    assert gains.greatest_gain_pct(runs, SHARED).mean == approx(10)
    assert list(gains.per_seed(runs, SHARED, NEW_CWV, 5, 1)) == approx([12.5, 7.5])
    by_run = (12.5 - 29 * 25) / 30, (7.5 - 29 * 15) / 30
    assert gains.average_gain_pct(runs, SHARED).mean == approx(sum(by_run) / 2)
    # Idle periods above 15 s: -25 - 12.5 points in one run, -15 - 7.5 in the other one.
    assert gains.long_over_short_points(runs, SHARED, 5).mean == approx(-30)
    assert gains.long_over_short_points(runs, SHARED, 10).mean == approx(0)


def test_extreme_gains_have_intervals_that_hold_for_all_thirty_classes() -> None:
    runs = runs_with(of_pairs(SHARED, NEW_CWV, gaining(10, 20)))
    # Two runs of 10 and 20 % have a deviation of 5 sqrt(2), over sqrt(2) 5; t of one degree of freedom at
    # 1 - 0.05 / 60 is cot(pi * 0.05 / 60).
    half = 5 / math.tan(math.pi * 0.05 / 60)
    assert gains.min_gain_pct(runs, SHARED).low == approx(15 - half)
    assert gains.greatest_gain_pct(runs, SHARED).high == approx(15 + half)
    assert gains.gain_pct(runs, SHARED, 5, 1).low == approx(15 - 12.7062 * 5)


def test_the_gain_falls_with_size_by_the_least_step_of_any_idle_period() -> None:
    # After 20 s: 60, 50, 30, 20 and 10 %, so classes of 34, 27.5, 20, 15 and 10 %; steps of 5 or more. After
    # more than 1 s, the class above 5 KB has another burst with 4 %: (5 * 34 + 4) / 6 = 29, a step of 1.5.
    large = ((6, 60), (12, 50), (25, 30), (45, 20), (90, 10))
    rows: list[Burst] = [
        (seed, 1000 * size, 20, 1.0, 1 - gain / 100) for size, gain in large for seed in (1, 2)
    ]
    rows += [(seed, 6_000, 2, 1.0, 0.96) for seed in (1, 2)]
    runs = runs_with(of_pairs(SHARED, NEW_CWV, pairs(rows)))
    assert gains.falls_with_size_points(runs, SHARED).mean == approx(1.5)
    assert gains.large_over_small_points(runs, SHARED).mean == approx(10 - 29)


def test_gains_are_compared_over_size_at_the_shortest_and_over_idle_periods_at_one_size() -> None:
    of_class = {(6_000, 2): 40, (90_000, 2): 20, (90_000, 20): 10, (12_000, 16): 60}
    rows: list[Burst] = [
        (seed, size, idle_s, 1.0, 1 - gain / 100)
        for (size, idle_s), gain in of_class.items()
        for seed in (1, 2)
    ]
    runs = runs_with(of_pairs(SHARED, NEW_CWV, pairs(rows)))
    # Above 80 KB 15 % on average, above 5 KB 32.5 %, of which 35 % after more than 15 s.
    assert gains.large_over_small_points(runs, SHARED).mean == approx(15 - 32.5)
    assert gains.long_over_short_points(runs, SHARED, 5).mean == approx(35 - 32.5)


def test_pacing_adds_the_gain_with_it_minus_the_gain_without_it() -> None:
    # 40 - 10 points in one run, 30 - 10 in the other one.
    runs = runs_with(of_pairs(SHARED, PACED, gaining(40, 30)) | of_pairs(SHARED, NEW_CWV, gaining(10, 10)))
    assert gains.paced_over_unpaced_points(runs, 80, 15).mean == approx(25)


def test_processing_adds_the_gain_of_hosts_that_take_time_minus_that_of_those_that_take_none() -> None:
    # 12 - 20 points in one run, 30 - 26 in the other one.
    runs = runs_with(
        of_pairs("newcwv-processing", NEW_CWV, gaining(12, 30)) | of_pairs(SHARED, NEW_CWV, gaining(20, 26))
    )
    assert gains.gain_with_processing_points(runs).mean == approx(-2)


def of_bursts(path: str, variant: str, **columns: Sequence[float]) -> dict[Any, Any]:
    return {("bursts", path, variant): {name: np.array(values) for name, values in columns.items()}}


def test_losses_are_shares_of_the_segments_that_were_sent() -> None:
    # NewReno: 5 of 100 segments in one run, 15 of 100 in the other; newCWV: 40 of 200, and 30 of 100.
    runs = runs_with(
        of_bursts(CONGESTED, NEW_RENO, seed=[1, 1, 2], sent=[40, 60, 100], retransmitted=[2, 3, 15])
        | of_bursts(CONGESTED, NEW_CWV, seed=[1, 1, 2], sent=[50, 150, 100], retransmitted=[10, 30, 30])
    )
    assert gains.loss_pct(runs, CONGESTED, NEW_CWV).mean == approx(25)
    assert gains.loss_ratio(runs, CONGESTED).mean == approx((20 + 30) / (5 + 15))


def of_ports(path: str, variants: int, *rows: tuple[int, int, str, float]) -> dict[Any, Any]:
    """Returns the cache with a table of ports from rows of variant, seed, port and delivered bytes."""
    variant, seed, port, delivered = zip(*rows, strict=True)
    assert max(variant) < variants
    columns = {"variant": variant, "seed": seed, "port": port, "delivered_bytes": delivered}
    return {("tables", path): {"ports": {name: np.array(values) for name, values in columns.items()}}}


def test_the_goodput_of_the_file_is_its_throughput_without_headers() -> None:
    # Variants 0 and 1 are NewReno and newCWV. 675 MB in an hour are 1.5 Mbit/s, 1448 / 1500 of it data.
    runs = runs_with(
        of_ports(
            SHARED,
            2,
            (0, 1, "sink", 675e6),
            (0, 2, "sink", 1350e6),
            (0, 1, "bottleneck", 9e9),
            (1, 1, "sink", 450e6),
            (1, 2, "sink", 225e6),
        )
    )
    assert gains.ftp_goodput_mbps(runs, NEW_RENO).mean == approx((1.448 + 2.896) / 2)
    assert gains.ftp_ratio(runs, NEW_CWV).mean == approx(675 / 2025)


def test_the_rate_of_the_web_counts_the_data_of_an_hour() -> None:
    # 450 000 bytes in an hour are 1 kbit/s.
    runs = runs_with(of_bursts(FREE, NEW_RENO, seed=[1, 1, 2], bytes=[450_000, 450_000, 1_800_000]))
    assert gains.web_kbps(runs).mean == approx((2 + 4) / 2)


def test_bursts_without_a_counterpart_are_counted_per_thousand_of_both_variants() -> None:
    found = bursts.Pairs(BURSTS.reference, BURSTS.other, unpaired=3)
    assert gains.unpaired_per_mille(runs_with(of_pairs(FREE, NEW_CWV, found)), FREE, NEW_CWV) == 300


def test_the_rarest_class_is_counted_run_by_run() -> None:
    rows: list[Burst] = [(1, 90_000, 16, 1, 1), (1, 80_000, 16, 1, 1), (1, 90_000, 15, 1, 1)]
    rows += [(2, 80_001, 15.1, 1, 1), (2, 99_000, 99, 1, 1), (2, 99_000, 16, 1, 1)]
    assert gains.fewest_bursts(runs_with(of_pairs(SHARED, NEW_CWV, pairs(rows)))).mean == 2


def test_silence_is_the_idle_part_of_what_follows_the_first_burst_of_a_connection() -> None:
    # Silent are 6 of 8 s, 9 of 10 s and 3 of 5 s in three runs. A first burst (number 0) does not count.
    columns: dict[str, list[float]] = dict(
        seed=[1, 1, 1, 2, 2, 3],
        number=[0, 1, 2, 0, 1, 1],
        idle_s=[50, 2, 4, 50, 9, 3],
        time_s=[7, 0.5, 1.5, 7, 1, 2],
    )
    runs = runs_with(of_bursts(FREE, NEW_RENO, **columns))
    runs.seed_count = 3
    assert gains.silent_share_pct(runs).mean == approx((75 + 90 + 60) / 3)


REFERENCE = "NewReno / queue=drop-tail:30000B"


def test_servers_behind_a_queue_are_compared_with_newreno_behind_drop_tail() -> None:
    rows: list[Burst] = [(1, 9_000, 2, 1.0, 0.5), (1, 9_000, 1, 1.0, 9.0), (2, 9_000, 2, 1.0, 0.7)]
    rows += [(2, 5_000, 2, 1.0, 9.0), (2, 30_000, 1.1, 1.0, 0.9)]
    name = "newCWV on CUBIC / queue=fq-codel:20"
    runs = runs_with(of_pairs("newcwv-beyond", name, pairs(rows), REFERENCE))
    # Above 5 KB after more than 1 s: 50, 30 and 10 %.
    assert beyond.gain_behind_pct(runs, "newCWV on CUBIC", "FQ-CoDel", 5).mean == approx(30)
    assert beyond.gain_behind_pct(runs, "newCWV on CUBIC", "FQ-CoDel", 20).mean == approx(10)


def test_marks_are_compared_with_memory_behind_the_router_that_knows_marks() -> None:
    percent = {"newCWV, marked": (30, 20), "NewReno, marked": (8, 4), "newCWV": (15, 5)}
    known: dict[Any, Any] = {}
    for host, gain in percent.items():
        known |= of_pairs("newcwv-beyond", f"{host} / queue=catnip-good:30000B", gaining(*gain), REFERENCE)
    runs = runs_with(known)
    assert beyond.marks_over_memory_points(runs, 5, "newCWV").mean == approx(((30 - 15) + (20 - 5)) / 2)
    assert beyond.marks_and_memory_points(runs, 5).mean == approx(((30 - 8 - 15) + (20 - 4 - 5)) / 2)


def test_mean_times_and_throughputs_behind_a_queue_are_those_of_its_runs() -> None:
    name = "newCWV / queue=codel:20"
    columns: dict[str, list[float]] = dict(
        seed=[1, 1, 1, 2, 2, 3],
        bytes=[5_001, 7_000, 5_000, 9_000, 9_000, 9_000],
        idle_s=[1.1, 3.0, 3.0, 2.0, 1.0, 9.0],
        time_s=[1.0, 2.0, 90.0, 4.5, 90.0, 9.0],
    )
    # The variant is number 6 of the scenario; 450 MB in an hour are 1 Mbit/s, headers included.
    ports = of_ports("newcwv-beyond", 28, (6, 1, "sink", 450e6), (6, 2, "sink", 900e6), (5, 1, "sink", 1))
    runs = runs_with(of_bursts("newcwv-beyond", name, **columns) | ports)
    assert beyond.ftp_behind_mbps(runs, "newCWV", "CoDel").mean == approx(1.5)
    runs.seed_count = 3
    assert beyond.mean_time_s(runs, "newCWV", "CoDel", 5).mean == approx((1.5 + 4.5 + 9) / 3)


def test_a_sawtooth_has_three_quarters_of_path_and_buffer_as_its_mean() -> None:
    # 4 Mbit/s for 100 ms are 50 packets of 1000 bytes, and the buffer has 20.
    assert printed["sawtooth_mean"]() == approx(52.5)


def test_videos_are_compared_run_by_run_and_only_those_that_were_played_to_their_ends() -> None:
    def rows(*rate: float, stalled_s: float) -> dict[str, np.ndarray]:
        count = len(rate)
        return {
            "seed": np.array([1] * (count - 1) + [2]),
            "video": np.array([*range(count - 1), 0]),
            "rate_mbps": np.array(rate),
            "stalled_s": np.full(count, stalled_s),
        }

    runs = runs_with(
        {
            ("videos", "newcwv-video", NEW_CWV): rows(1, 3, 4, stalled_s=2),
            ("videos", "newcwv-video", NEW_RENO): rows(0.5, 1.5, 3, stalled_s=5),
        }
    )
    # Means of 2 and 4 Mbit/s over two runs, of 1 and 3 with NewReno.
    assert videos.video(runs, "newcwv-video", NEW_CWV, "rate_mbps").mean == approx(3)
    assert videos.video_ratio(runs, "newcwv-video", NEW_CWV, NEW_RENO, "rate_mbps").mean == approx(6 / 4)
    # Of the first videos 1 and 4, and 0.5 and 3 with NewReno.
    first = videos.first_video_ratio(runs, "newcwv-video", NEW_CWV, NEW_RENO, "rate_mbps")
    assert first.mean == approx(5 / 3.5)
    less = videos.video_difference(runs, "newcwv-video", NEW_CWV, NEW_RENO, "stalled_s")
    assert less.mean == approx(-3)
    columns = {"seed": [1, 1], "variant": [0, 0], "group": ["video"] * 2, "rate_mbps": [7.0, 9.0]}
    table = {name: np.array(values) for name, values in columns.items()} | {"time_s": np.array([120, np.nan])}
    unread = runs_with({("videos", "newcwv-video"): table})
    assert list(videos._videos(unread, "newcwv-video", NEW_RENO)["rate_mbps"]) == [7]


def test_bursts_of_a_capture_and_of_a_run_are_counted_if_they_have_no_counterpart() -> None:
    def bursts_of(*rows: tuple[float, float, int]) -> dict[str, np.ndarray]:
        start_s, time_s, size = (np.array(column) for column in zip(*rows, strict=True))
        same = dict.fromkeys(("first_byte", "sent", "retransmitted", "number"), np.zeros(len(rows)))
        return {"start_s": start_s, "time_s": time_s, "bytes": size, "idle_s": start_s, **same}

    of_run = bursts_of((1, 0.5, 900), (2, 0.5, 900), (9, 0.5, 900))
    assert captured.off(of_run, of_run) == 0
    # One has another size, one another duration, and one is missing.
    changed = bursts_of((1, 0.5, 901), (2, 0.6, 900))
    assert captured.off(changed, of_run) == 5
    # A burst that was found twice has one counterpart.
    twice = bursts_of((1, 0.5, 900), (1, 0.5, 900))
    assert captured.off(twice, of_run) == captured.off(of_run, twice) == 3
    later = {"idle_s": of_run["idle_s"] + 0.1}
    assert captured.off(of_run | later, of_run) == 0
    next_ones = of_run | {"number": np.ones(3)}
    assert captured.off(next_ones, next_ones) == 0
    assert captured.off(next_ones | later, next_ones) == 6
    runs = runs_with({("captured", NEW_CWV): (of_run, changed)})
    assert captured.bursts_of_capture_off(runs, NEW_CWV) == "5"
    # Silences of 1, 2 and 9 s.
    assert captured.idle_above_pct(runs, NEW_CWV, 1).mean == approx(200 / 3)

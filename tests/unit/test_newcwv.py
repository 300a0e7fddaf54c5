"""Tests of the newCWV paper's quantities on hand-made bursts and events."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from catnip.analysis import bursts
from catnip.analysis.interval import Interval
from catnip.base.progress import Progress
from catnip.papers.newcwv import beyond, gains, single
from catnip.papers.newcwv.printed import printed, table_gains
from catnip.papers.newcwv.runs import NEW_CWV, SEGMENT, SHARED, BurstRuns


def runs_with(values: Mapping[Any, Any]) -> BurstRuns:
    """Returns runs whose cache already has these values, by key."""
    with Progress(quiet=True) as progress:
        runs = BurstRuns(False, 2, 1, progress)
    for key, value in values.items():
        runs.cached(key, partial(lambda known: known, value))
    return runs


def events(rows: Sequence[tuple[float, str, str, int, float, str]]) -> dict[str, np.ndarray]:
    """Returns a table of events from rows of time, end, kind, segment number, cwnd in segments and phase."""
    time_s, end, kind, seq, cwnd, phase = (np.array(column) for column in zip(*rows, strict=True))
    return {
        "time_s": time_s.astype(float),
        "end": end,
        "kind": kind,
        "seq_bytes": (seq * SEGMENT).astype(np.uint64),
        "cwnd_bytes": cwnd.astype(float) * SEGMENT,
        "ssthresh_bytes": np.full(len(time_s), 20.0 * SEGMENT),
        "pipe_ack_bytes": np.full(len(time_s), 8.0 * SEGMENT),
        "phase": phase,
        "dupacks": np.zeros(len(time_s), dtype=np.uint64),
        "wire_bytes": np.where(kind == "send", SEGMENT + 52, 52).astype(np.uint64),
        "connection": np.zeros(len(time_s), dtype=np.uint64),
    }


def of_silence(rule: str, idle_s: float, after: float, gap_s: float = 6.0) -> BurstRuns:
    """Returns runs with the events of a sender whose cwnd is 40 segments, idle after its second segment.

    `after` is cwnd after the idle period, `gap_s` the duration of the idle period.
    """
    rows = [
        (0.5, "client", "send", 0, 3.0, ""),
        (1.0, "server", "send", 0, 40.0, "validated"),
        (1.0, "server", "send", 1, 40.0, "validated"),
        (1.2, "server", "ack", 2, 40.0, "validated"),
        (1.0 + gap_s, "server", "send", 2, after, "non-validated"),
        (1.1 + gap_s, "server", "send", 3, after, "non-validated"),
        (1.2 + gap_s, "server", "ack", 4, after, "validated"),
    ]
    return runs_with(
        {("events", "newcwv-silence", f"{rule} / idle_s=constant:value={idle_s:g}", None): events(rows)}
    )


def test_a_silence_is_where_the_server_sends_nothing_for_longest() -> None:
    here = single.silence(of_silence("newcwv", 5, 40), "newcwv", 5)
    assert (here.gap_s, here.before.at_s, here.after.at_s) == (6.0, 1.2, 7.0)
    assert (here.before.phase, here.after.phase) == ("validated", "non-validated")
    assert list(here.sent_s) == [7.0, 7.1]


@pytest.mark.parametrize(
    ("quantity", "rule", "idle_s", "after", "gap_s", "off"),
    [
        # The timeout is 400 ms: 6 s give 14 halvings and 1.2 s give two, because a gap of an exact multiple
        # of the timeout does not yet give the next halving.
        ("linux_off_segments", "linux", 5, 3, 6.0, 0),
        ("linux_off_segments", "linux", 1, 10, 1.2, 0),
        ("linux_off_segments", "linux", 1, 11, 1.2, 1),
        ("linux_off_segments", "linux", 0.02, 40, 0.4, 0),
        # RFC 2861 halves at 0.4, 0.8 and 1.2 s, and sets ssthresh to three quarters of 40 segments.
        ("cwv_off_bytes", "cwv", 1, 5, 1.2001, 10 * SEGMENT),
        ("newcwv_after_idle_off_bytes", "newcwv", 5, 40, 6.0, 0),
        ("newcwv_after_idle_off_bytes", "newcwv", 5, 39, 6.0, SEGMENT),
        ("newcwv_after_idle_off_bytes", "newcwv", 301, 20, 302.0, 10 * SEGMENT),
    ],
)
def test_windows_after_a_silence_are_held_against_the_rules(
    quantity: str, rule: str, idle_s: float, after: float, gap_s: float, off: float
) -> None:
    runs = of_silence(rule, idle_s, after, gap_s)
    assert single.measured[quantity](runs, idle_s=idle_s) == pytest.approx(off)


def test_the_rules_before_the_threshold_is_remembered_are_those_of_the_window() -> None:
    assert single.cwnd_after_silence(of_silence("restart", 5, 3), "restart", 5) == 3
    assert single.cwnd_after_idle_ratio(of_silence("restart", 5, 10), "restart", 5) == 0.25


def test_what_is_in_flight_is_what_was_sent_and_not_acknowledged() -> None:
    rows = events(
        [
            (1.0, "server", "send", 0, 4, ""),
            (1.0, "server", "send", 1, 4, ""),
            (1.1, "client", "ack", 7, 4, ""),
            (1.2, "server", "ack", 1, 4, ""),
            (1.2, "server", "send", 2, 4, ""),
            (1.3, "server", "send", 1, 4, ""),
        ]
    )
    time_s, out = single.flight(rows)
    assert list(time_s) == [1.0, 1.0, 1.2, 1.3]
    assert list(out / SEGMENT) == [1, 2, 2, 2]


def test_round_trips_are_those_of_the_second_of_two_segments_that_left_once() -> None:
    rows = events(
        [
            (1.00, "server", "send", 0, 4, ""),
            (1.01, "server", "send", 1, 4, ""),
            (1.02, "server", "send", 2, 4, ""),
            (1.21, "server", "ack", 2, 4, ""),
            # A delayed ACK of one segment includes the delay.
            (1.26, "server", "ack", 3, 4, ""),
        ]
    )
    assert list(single.round_trips_s(rows)) == [pytest.approx(0.2)]


def test_retransmissions_are_segments_at_or_below_one_that_left_before() -> None:
    rows = [(1.0, "server", "send", n, 4, "") for n in (0, 1, 2, 1, 3, 3)]
    found = single._retransmissions(single.of_server(events(rows)))
    assert list(found) == [False, False, False, True, False, True]


def test_the_window_after_a_loss_is_held_against_what_was_in_use_less_what_was_sent_again() -> None:
    rows: list[tuple[float, str, str, int, float, str]]
    rows = [(1.0, "server", "send", n, 40, "non-validated") for n in range(10)]
    rows += [(1.2, "server", "ack", 0, 40, "non-validated")]
    # pipeACK is 8 segments, 10 are in flight, one is retransmitted: (10 - 1) / 2.
    rows += [(1.2, "server", "send", 0, 5, "non-validated"), (1.4, "server", "ack", 10, 4.5, "validated")]
    runs = runs_with({("events", "newcwv-loss", "one packet", None): events(rows)})
    assert single.cwnd_after_loss_off_segments(runs, "one packet") == 0


def pairs(times: Sequence[tuple[int, int, float, float, float]]) -> bursts.Pairs:
    """Returns pairs of bursts from (seed, bytes, idle time, time in the reference, time in the other)."""
    seed, size, idle_s, reference, other = (np.array(column) for column in zip(*times, strict=True))
    common = {"seed": seed, "bytes": size, "idle_s": idle_s}
    return bursts.Pairs(common | {"time_s": reference}, common | {"time_s": other}, 0)


BURSTS = pairs(
    [
        (1, 6_000, 2, 1.0, 0.5),
        (1, 90_000, 20, 4.0, 5.0),
        (2, 6_000, 2, 1.0, 0.7),
        (2, 90_000, 20, 4.0, 4.6),
        (2, 4_000, 20, 1.0, 9.0),
    ]
)


def test_gains_are_means_over_the_bursts_of_a_class() -> None:
    runs = runs_with({("pairs", SHARED, NEW_CWV, "NewReno"): BURSTS})
    # Gains of 50, -25, 30 and -15 %; the second and the fourth burst are above 80 KB.
    assert gains.gain_pct(runs, SHARED, 5, 1).mean == pytest.approx(10)
    assert gains.gain_pct(runs, SHARED, 80, 15).mean == pytest.approx(-20)
    assert gains.large_over_small_points(runs, SHARED).mean == pytest.approx(-20 - 10)
    assert gains.fewest_bursts(runs) == Interval(1, 1, 1, 2)
    fall = gains.falls_with_size_points(runs, SHARED)
    assert fall.low <= fall.mean == 0, "bursts above 5 and 10 KB are the same ones after 5 s"


def test_both_is_compared_with_the_sum_of_either() -> None:
    def of(gain: float) -> bursts.Pairs:
        return pairs([(seed, 9_000, 2, 1.0, 1 - gain / 100) for seed in (1, 2)])

    names = {"newCWV, marked": 30, "NewReno, marked": 8, "newCWV": 15}
    reference = beyond.variant(*beyond.REFERENCE)
    keys = {
        ("pairs", "newcwv-beyond", beyond.variant(name, "CATNIP-Good"), reference): of(gain)
        for name, gain in names.items()
    }
    runs = runs_with(keys)
    assert beyond.marks_and_memory_points(runs, 5).mean == pytest.approx(30 - 8 - 15)
    assert beyond.marks_over_memory_points(runs, 5, "newCWV").mean == pytest.approx(15)


def test_the_tables_of_the_paper_are_read_by_size_and_silence() -> None:
    assert table_gains(2).shape == table_gains(3).shape == (5, 6)
    assert printed["table_gain_pct"](table=2, burst_kb=80, idle_s=15) == -15.3
    assert printed["table_improvement_points"](burst_kb=80, idle_s=1) == pytest.approx(13.4 + 10.2)

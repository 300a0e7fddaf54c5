"""Tests of the comparison of simulated Linux with the kernel: cases, measures of agreement, transfers."""

import os

import pytest

from catnip.base import programs
from catnip.base.programs import cannot_control
from catnip.base.progress import Progress
from catnip.papers.linux_tcp import agreement, runs
from catnip.papers.linux_tcp.cases import CONTROLS, DELAYS_MS, KINDS, SEGMENTS, Case, scripted
from catnip.papers.linux_tcp.runs import Pair, Transfer, TransferRuns
from catnip.papers.unavailable import Unavailable


def test_there_are_hundreds_of_cases_of_all_kinds_on_all_paths() -> None:
    cases = scripted(quick=False)
    assert len(cases) >= 200
    assert len({case.name for case in cases}) == len(cases), "each is another one"
    seen = {(case.kind, case.delay_ms, case.control) for case in cases}
    assert seen == {(kind, delay, control) for kind in KINDS for delay in DELAYS_MS for control in CONTROLS}
    segments = [segment for case in cases if case.kind != "timeout" for segment in (*case.lost, *case.marked)]
    assert (min(segments), max(segments)) == (1, SEGMENTS)
    assert {case.kind for case in scripted(quick=True)} == set(KINDS), "a quick run leaves none out"


def test_a_case_names_packets_by_what_passes_before_them() -> None:
    case = Case("late", 10, "reno", lost=[1, 4], acks=[2], delayed={5: [7, 8]}, marked=[3])
    assert case.directions(before_data=2, before_acks=1) == {
        "data": {"loss": "packets:3,6 | marks:5", "wire_loss": "late:9,10,by=5ms"},
        "acks": {"loss": "packets:3"},
    }
    assert case.name == "reno, 20 ms, lost 1 4, ACKs 2 lost, 7-8 late by 5 ms, marked 3"


def of(segments: list[int], timeouts: int = 0, probes: int = 0, done_s: float = 1.0) -> Transfer:
    """Returns a transfer that sends these segments at intervals of a millisecond, for tests of measures."""
    return Transfer([index / 1e3 for index in range(len(segments))], segments, timeouts, probes, done_s)


def test_each_likeness_sees_its_difference_and_no_other() -> None:
    kernel = of([1, 2, 3, 1, 2])
    others = {
        "retransmissions": of([1, 2, 3, 1, 3]),
        "their order": of([1, 2, 3, 2, 1]),
        "timeouts": of([1, 2, 3, 1, 2], timeouts=1),
        "probes": of([1, 2, 3, 1, 2], probes=1),
        "completion": of([1, 2, 3, 1, 2], done_s=1.051),
    }
    for name, ours in others.items():
        pair = Pair(Case("one", 10, "reno"), kernel, ours)
        missed = {other for other, likeness in agreement.LIKENESSES.items() if not likeness(pair)}
        assert missed == ({name, "their order"} if name == "retransmissions" else {name})
    short = Pair(Case("one", 10, "reno"), of([1], done_s=0.010), of([1], done_s=0.014))
    assert agreement.same_time(short), "a tick is none"


def test_a_simulated_case_retransmits_what_it_loses() -> None:
    transfer = runs.simulated(Case("random", 50, "cubic", lost=[20, 22]))
    assert transfer.retransmitted == [20, 22]
    assert (transfer.timeouts, transfer.probes) == (0, 0)
    tail = runs.simulated(Case("tail", 50, "cubic", lost=[99, 100]))
    assert (tail.retransmitted, tail.timeouts, tail.probes) == ([100, 99], 0, 1)


def test_the_kernel_and_the_simulator_retransmit_the_same_in_a_case_of_each_kind() -> None:
    if missing := cannot_control():
        pytest.skip(missing)
    by_kind = {case.kind: case for case in scripted(quick=True)}
    with Progress(quiet=True) as progress:
        transfer_runs = TransferRuns(True, None, 1, progress)
        transfer_runs.cases = list(by_kind.values())
        pairs = transfer_runs.pairs
    alike = [agreement.same_set(pair) and agreement.same_timeouts(pair) for pair in pairs]
    # One case may differ because of a delayed ACK.
    assert sum(alike) >= len(pairs) - 1, [pair for pair, same in zip(pairs, alike, strict=True) if not same]


def test_who_may_not_choose_the_kernel_s_congestion_control_is_told_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(programs, "cannot_emulate", lambda: None)
    with Progress(quiet=True) as progress, pytest.raises(Unavailable, match="not root: only root"):
        _ = TransferRuns(True, None, 1, progress).pairs

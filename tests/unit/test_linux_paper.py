"""Tests of marks and newCWV in a real kernel: configurations, captures and parsers on hand-made input."""

import json
import os
import socket
import struct
from collections.abc import Iterable

import numpy as np
import pytest

from catnip._core import InputError
from catnip.analysis import measures
from catnip.analysis.measures import PortLoss
from catnip.base import paths, programs
from catnip.base.progress import Progress
from catnip.papers import runner
from catnip.papers.linux import captures, network, stack
from catnip.papers.linux.captures import follow
from catnip.papers.linux.runs import KernelRuns
from catnip.papers.linux.stack import BASE, HALF, LAST, MARKED, OTHERS, Run
from catnip.papers.testbed.wan import BUFFERS_KB


def runs(quick: bool = True) -> KernelRuns:
    with Progress(quiet=True) as progress:
        return KernelRuns(quick, None, 1, progress)


def test_every_cell_has_its_queues_in_the_emulated_line_and_is_another_simulated_scenario() -> None:
    variants = paths.scenario(stack.MODEL).variants
    assert variants == ["default"]
    file = paths.scenario_file(stack.EMULATED)
    assert file is not None
    emulated = file.read_text(encoding="utf-8")
    changes = set()
    for control, name in stack.cells():
        cell = stack.cell(control, name)
        for system in stack.SYSTEMS:
            queue = "DropTail" if system == stack.DROP_TAIL else "CATNIP-Good"
            assert f'name = "{queue}, {cell.queue}"' in emulated
            changes.add(str(cell.changes(system)))
            if cell.can_be_simulated:
                paths.scenario(stack.MODEL, cell.changes(system))
    # With DropTail no server marks, so BASE and HALF have equal settings.
    assert len(changes) == len(stack.cells()) * len(stack.SYSTEMS) - len(stack.CONTROLS)
    # Bandwidth-delay product: 1.5 Mbit/s for 40 ms in packets of 1500 bytes.
    assert stack.cell("cubic", "5 packets of buffer").queue == 1.5e6 * 0.040 / 8 / 1500


def test_a_server_is_told_what_its_cell_says() -> None:
    assert stack.cell("bbr", "initial window 3").host(LAST, is_other=True) == "bbr 3 1 last-only"
    assert stack.cell("cubic", "without RACK and probes").host("SPM", is_other=False) == "cubic 10 0 spm"
    half = stack.cell("cubic", HALF)
    assert [half.host(LAST, other) for other in (False, True)] == ["cubic 10 1 last-only", "cubic 10 1 none"]


def lines(*fetches: tuple[int, float, float | None, int]) -> str:
    """Returns the output of fetching clients: server, start, latency (None if not ended), received bytes."""
    printed = []
    for server, start_s, latency_s, received in fetches:
        one: dict[str, float] = {"server": server, "size": 8000, "start_s": start_s}
        one |= {"after_s": 3.0} if latency_s is None else {"latency_s": latency_s, "bytes": received}
        printed.append(json.dumps(one))
    return "\n".join(printed)


def nothing_lost() -> PortLoss:
    return PortLoss(*(np.zeros(1) for _ in range(4)))


def test_fetches_count_by_their_start_and_by_how_long_they_lasted_if_they_did_not_end() -> None:
    printed = lines(
        (0, 1.0, 9.0, 8000),
        (0, 5.0, 0.1, 8000),
        (1, 6.0, 0.2, 8000),
        (1, 30.0, None, 0),
        (0, 36.0, 0.3, 8000),
        (0, 7.0, 0.4, 7999),
    )
    run = stack.read_run(printed, nothing_lost(), 40.0)
    assert list(run.of(MARKED)) == [0.1, 0.4]
    assert list(run.of(OTHERS)) == [0.2, 3.0]
    assert list(run.of(stack.ALL)) == [0.1, 0.4, 0.2, 3.0]
    assert run.errors == 1


def known(times: dict[str, list[list[float]]]) -> KernelRuns:
    kernel_runs = runs()
    fetched = {
        ("cubic", BASE, system): [
            Run({MARKED: np.array(one), OTHERS: np.array([])}, nothing_lost()) for one in of
        ]
        for system, of in times.items()
    }
    kernel_runs.cached("stack", lambda: fetched)
    return kernel_runs


def test_changes_are_those_of_pairs_of_runs() -> None:
    kernel_runs = known({stack.DROP_TAIL: [[1.0, 3.0], [2.0, 2.0]], LAST: [[1.0, 2.0], [1.5, 1.5]]})
    change = stack.change_pct(kernel_runs, "cubic", BASE, LAST)
    assert (change.mean, change.low, change.high) == pytest.approx((-25, -25, -25))
    tail = stack.change_pct(kernel_runs, "cubic", BASE, LAST, "95th percentile")
    assert tail.mean == pytest.approx(100 * (np.quantile([1, 2, 1.5, 1.5], 0.95) / 2.85 - 1))
    assert stack.change_pct(kernel_runs, "bbr", BASE, LAST).n == 0, "what was not measured has no value"


SERVER, CLIENT = bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])
HIGH, MED, LOW = 18, 20, 22


def packet(from_server: bool, sequence: int, following: int, flags: int, length: int, dscp: int = 0) -> bytes:
    """Returns an IPv4 packet with a TCP header without options."""
    ports = (8080, 5000) if from_server else (5000, 8080)
    addresses = SERVER + CLIENT if from_server else CLIENT + SERVER
    ip = struct.pack("!BBHHHBBH", 0x45, dscp << 2, 40 + length, 0, 0, 64, socket.IPPROTO_TCP, 0) + addresses
    return ip + struct.pack("!HHIIBBHHH", *ports, sequence, following, 0x50, flags, 0, 0, 0)


def capture(packets: Iterable[bytes]) -> bytes:
    """Returns a capture in the format of tcpdump, of a device without Ethernet."""
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101)
    return head + b"".join(struct.pack("<IIII", 0, 0, len(one), len(one)) + one for one in packets)


def slow_start(marks: list[int]) -> list[bytes]:
    """Returns the packets of a slow start with these marks: two, an ACK, four, an ACK, and the others.

    The packets are sent with windows of two, four and eight segments.
    """
    data = [packet(True, 1 + 1000 * at, 0, 16, 1000, mark) for at, mark in enumerate(marks)]
    acks = [packet(False, 0, 1 + 1000 * upto, 16, 0) for upto in (2, 6)]
    return [packet(True, 0, 1, 18, 0, HIGH), *data[:2], acks[0], *data[2:6], acks[1], *data[6:]]


def test_the_window_of_algorithm_1_follows_from_acks_and_a_planted_mark_is_found() -> None:
    expected = [HIGH] * 6 + [MED] * 8
    verdict = follow(capture(slow_start(expected)))
    assert (verdict.checked, verdict.matching, verdict.connections) == (15, 15, 1)
    verdict = follow(capture(slow_start([*expected[:9], HIGH, *expected[10:]])))
    assert (verdict.checked, verdict.matching) == (15, 14)
    assert verdict.faults == ["window 8: high, not med"]


def test_what_is_sent_again_must_be_high_and_ends_what_can_be_judged() -> None:
    sent = slow_start([HIGH] * 6 + [MED] * 4)
    retransmitted = [packet(True, 1 + 1000 * 6, 0, 16, 1000, mark) for mark in (HIGH, LOW)]
    verdict = follow(capture([*sent, *retransmitted, packet(True, 1 + 1000 * 10, 0, 16, 1000, LOW)]))
    assert (verdict.checked, verdict.matching, verdict.retransmissions) == (11 + 2, 11 + 1, 2)
    probe = packet(True, 1 + 1000 * 9, 0, 16, 1000, LOW)
    assert follow(capture([*sent, probe])).checked == 11, "a probe may be either"


def test_each_cell_each_buffer_and_each_kind_of_mark_is_claimed() -> None:
    stated = [one.ours for one in runner.data("linux").statements]
    claimed = {(one.arguments.get("control"), one.arguments.get("cell")) for one in stated} - {(None, None)}
    assert claimed == set(stack.cells())
    buffers = {one.arguments["buffer_kb"] for one in stated if one.quantity == "wan_time_ratio"}
    assert buffers == set(BUFFERS_KB)
    judged = ("agreement_pct", "right_documents_pct")
    checked = {one.arguments["mark"] for one in stated if one.quantity in judged}
    assert checked == set(captures.MARKS)


def test_who_may_not_run_an_agent_is_told_so_before_the_first_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(programs, "cannot_emulate", lambda: None)
    for measure in (stack.red_runs, captures.damaged, network.wan_red_runs):
        with pytest.raises(InputError, match="not root"):
            measure(runs())


def test_the_simulated_sender_marks_its_repairs_where_it_is_told_to() -> None:
    def high_share(marks: str) -> float:
        changes = [("define.marker", marks), ("define.others", marks), ("duration", "15s")]
        scenario = paths.scenario(stack.MODEL, changes)
        ports = scenario.run(scenario.variants, [1], ["ports"])["ports"]
        return float(measures.port_loss(ports, 0, [1], stack.LINE).high_share[0])

    without, repairs = (high_share(f"spm:leading=0,small_window=0{more}") for more in ("", ",repairs=high"))
    # A tenth or more of the packets on the line are retransmissions.
    assert repairs > without + 0.05
    assert high_share("last-only") == repairs

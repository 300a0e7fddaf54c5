"""Tests of marks and newCWV in a real kernel: configurations, captures and parsers on hand-made input."""

import json
import os
import socket
from pathlib import Path

import numpy as np
import pytest

from catnip._core import InputError
from catnip.analysis import measures
from catnip.analysis.measures import PortLoss
from catnip.base import paths, programs
from catnip.base.progress import Progress
from catnip.papers import runner
from catnip.papers.linux import captures, hour, network, stack, webservers, windows
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
    for control, name in [*stack.cells(), *stack.fast_cells()]:
        cell = stack.cell(control, name)
        for system in stack.SYSTEMS:
            assert f'name = "{cell.variant(system)}"' in emulated
            changes.add(str(cell.changes(system)))
            if cell.can_be_simulated:
                paths.scenario(stack.MODEL, cell.changes(system))
    # With DropTail no server marks, so BASE and HALF have equal settings.
    count = len(stack.cells()) + len(stack.fast_cells())
    assert len(changes) == count * len(stack.SYSTEMS) - len(stack.CONTROLS)
    # Bandwidth-delay product: 1.5 Mbit/s for 40 ms in packets of 1500 bytes.
    assert stack.cell("cubic", "5 packets of buffer").queue == 1.5e6 * 0.040 / 8 / 1500
    assert stack.cell("cubic", "10 Mbit/s").queue == int(10e6 * 0.040 / 8 / 1500)


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


def test_each_cell_each_buffer_and_each_kind_of_mark_is_claimed() -> None:
    stated = [one.ours for one in runner.data("linux").statements]
    claimed = {(one.arguments.get("control"), one.arguments.get("cell")) for one in stated} - {(None, None)}
    assert claimed == {*stack.cells(), *stack.fast_cells()}
    buffers = {one.arguments["buffer_kb"] for one in stated if one.quantity == "wan_time_ratio"}
    assert buffers == set(BUFFERS_KB)
    checked = {one.arguments["mark"] for one in stated if one.quantity == "right_documents_pct"}
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


def test_what_the_kernel_says_during_a_part_of_the_hour_is_read_and_not_what_it_said_before(
    tmp_path: Path,
) -> None:
    log = tmp_path / "kmsg"
    log.write_text("WARNING: of the past\n")
    with hour._new_lines(log) as added:
        with log.open("a") as more:
            more.write("6,1,2,-;eth0: up\n4,2,3,-;BUG: a new one\n")
        assert added() == ["6,1,2,-;eth0: up", "4,2,3,-;BUG: a new one"]
        assert added() == []
    assert [bool(hour.TROUBLE.search(line)) for line in ("BUG: x", "WARNING: x", "eth0: up")] == [1, 1, 0]


def test_a_burst_is_received_to_its_end_or_to_that_of_its_connection() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"abcdef")
        assert hour._received(ours, 4) == b"abcd"
        theirs.close()
        assert hour._received(ours, 4) == b"ef"


WINDOWS = """time_s,local_port,remote,event,kind,cwnd_bytes,ssthresh_bytes,pipe_ack_bytes,phase
1.0,80,a:1,0,start,1000,,,validated
1.5,80,a:1,1,ack,4000,,2000,validated
1.6,80,b:2,0,start,1000,,,validated
1.8,80,b:2,1,ack,2000,,1000,validated
4.0,80,a:1,2,start,3000,,0,non-validated
4.25,80,a:1,3,ack,3000,,2000,validated
5.0,80,b:2,2,start,2000,,0,non-validated
5.5,80,b:2,3,ack,2000,,1000,validated
5.6,80,c:3,0,ack,2000,,1,non-validated
6.0,80,a:1,4,ack,3000,,2000,validated
"""


def test_bursts_of_a_table_of_windows_begin_after_silences(tmp_path: Path) -> None:
    table = tmp_path / "windows.csv"
    table.write_text(WINDOWS)
    rows = windows.read_windows(table)
    assert webservers.sent_times_s(rows) == pytest.approx(np.array([[0.5, 0.25], [0.2, 0.5]]))
    # One connection keeps three quarters of its window, the other one all of it.
    assert webservers.retained(rows) == 0.75
    table.write_text(WINDOWS.replace("4.0,80,a:1,2,start,3000,,0,non-validated\n", ""))
    with pytest.raises(InputError, match="events of a:1 are missing before 3"):
        windows.read_windows(table)

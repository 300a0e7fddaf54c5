"""Tests of the agent's congestion controllers in this kernel against the simulator's on the same path."""

import select
import socket
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest

from agents import Host, fetch_all, kernel_lines
from catnip import api
from catnip.base import programs
from catnip.papers.linux.runs import capturing, device
from catnip.papers.linux.windows import (
    DELAY_MS,
    NEW_CWV,
    PORT,
    SEGMENT,
    burst,
    ends,
    read_windows,
    simulated,
)
from catnip.papers.rows import where

REASON = programs.cannot_control() or programs.cannot_mark()
# Controllers belong to the whole kernel, so the tests would see the controllers of other agents.
pytestmark = [
    pytest.mark.skipif(REASON is not None, reason=f"no agent: {REASON}"),
    pytest.mark.alone,
]

ROUND_TRIP_MS = 2 * DELAY_MS
BAND = 0.15
"""CWV-S5: largest accepted relative difference between cwnd in the kernel and in the simulator."""


@pytest.mark.parametrize(
    ("control", "keeps"), [("reno", False), ("catnip_newcwv", True), ("catnip_newcwv_p", True)]
)
def test_two_seconds_of_silence_keep_the_window_of_newcwv_and_not_that_of_reno(
    control: str, keeps: bool
) -> None:
    windows = burst(control, [300_000, 100_000], 2.0)
    before, after = windows[1]
    assert before > 20
    # The kernel's default: net.ipv4.tcp_slow_start_after_idle = 1.
    assert (after >= before) if keeps else (after < before / 2), windows


@pytest.mark.parametrize("lost", ["none", "packets:90", "packets:60,150"])
def test_the_window_of_newcwv_is_that_of_the_simulator_on_the_same_path(lost: str) -> None:
    sizes = [200_000] * 4
    windows = burst("catnip_newcwv", sizes, 2.0, up=f"loss={lost}")
    kernel = np.array([before for before, _ in windows[1:]], dtype=float)
    ours = np.array(ends(simulated(NEW_CWV, sizes, 2.0, lost), len(sizes)))
    assert np.all(np.abs(kernel / ours - 1) <= BAND), (kernel, ours)


OPEN_SILENCES = [1]
"""Silences at which the pipeACK of the kernel and the simulator differ (docs/deviations.md, the agent)."""


def test_the_table_of_windows_has_every_event_with_the_pipe_ack_and_phase_of_the_simulator(
    tmp_path: Path,
) -> None:
    table, sizes = tmp_path / "windows.csv", [200_000] * 3
    burst("catnip_newcwv", sizes, 2.0, windows=table, up="loss=packets:60")
    kernel = read_windows(table)
    assert list(kernel["event"].astype(int)) == list(range(len(kernel["event"])))
    assert (np.diff(kernel["time_s"]) >= 0).all()
    assert set(kernel["local_port"]) == {str(PORT)}
    assert list(kernel["kind"]).count("start") == 3
    congestion, recovered = (list(kernel["kind"]).index(kind) for kind in ("congestion", "recovered"))
    assert congestion < recovered
    assert np.isnan(kernel["ssthresh_bytes"][:congestion]).all()
    assert np.isfinite(kernel["ssthresh_bytes"][recovered:]).all()
    events = simulated(NEW_CWV, sizes, 2.0, "packets:60")
    ours = where(events, events["kind"] == "ack")
    apart = []
    for nth, (in_kernel, here) in enumerate(zip(*map(at_silences, (kernel, ours)), strict=True)):
        theirs, simulators = (rows["pipe_ack_bytes"][at] for rows, at in ((kernel, in_kernel), (ours, here)))
        if nth > 0:
            assert theirs > 0
            assert simulators > 0
            assert kernel["phase"][in_kernel] == ours["phase"][here] == "validated"
            apart += [nth] if theirs != simulators else []
    assert apart == OPEN_SILENCES
    starts = np.flatnonzero(kernel["kind"] == "start")
    assert list(kernel["phase"][starts]) == ["validated", "non-validated", "non-validated"]


def test_a_recovery_is_charged_for_its_own_repairs_only(tmp_path: Path) -> None:
    # RFC 7661, section 4.4.1: R is "the volume of data that was retransmitted in the recovery phase". The
    # first one repairs 20 segments, the second one, of which 22 are in flight, a single one.
    table = tmp_path / "windows.csv"
    lost = ",".join(map(str, [*range(40, 80, 2), 250]))
    burst("catnip_newcwv", [300_000, 60_000, 60_000], 1.5, windows=table, up=f"loss=packets:{lost}")
    rows = read_windows(table)
    first, second = rows["cwnd_bytes"][rows["kind"] == "recovered"] / SEGMENT
    in_flight = rows["cwnd_bytes"][rows["kind"] == "congestion"][1] / SEGMENT
    assert first >= 10
    assert abs(second - (in_flight - 1) / 2) <= 1, (first, second, in_flight)


def test_a_timeout_halves_the_flight_and_not_what_was_used_before_it(tmp_path: Path) -> None:
    # RFC 5681, equation 4. The last segments of the second burst and their probe are lost.
    table = tmp_path / "windows.csv"
    burst("catnip_newcwv", [300_000, 60_000], 0.3, windows=table, up="loss=packets:250,251,252,253,254")
    rows = read_windows(table)
    [congestion] = np.flatnonzero(rows["kind"] == "congestion")
    [timeout] = np.flatnonzero(rows["kind"] == "timeout")
    assert rows["phase"][congestion] == "non-validated"
    assert rows["pipe_ack_bytes"][congestion] > 40 * SEGMENT
    assert rows["ssthresh_bytes"][timeout] == 2 * SEGMENT


def at_silences(rows: Any) -> list[int]:
    """Returns the index of the last ACK before each silence, and of the last one."""
    acks = np.flatnonzero(rows["kind"] == "ack")
    return [*acks[np.flatnonzero(np.diff(rows["time_s"][acks]) > 1)], acks[-1]]


def test_a_table_of_windows_that_exists_or_can_have_no_rows_is_bad_input(tmp_path: Path) -> None:
    there = tmp_path / "windows.csv"
    there.write_text("of another\n")
    start = [str(programs.program(programs.AGENT)), "start", "--mark", "none", "--device", "lo", "--windows"]
    for options, error in (
        ([str(there)], f"error: {there}: cannot write it: File exists"),
        ([str(tmp_path / "new.csv"), "--controllers", "none"], "error: --windows: no controllers"),
    ):
        refused = subprocess.run([*start, *options], capture_output=True, text=True, check=False)
        assert refused.returncode == 2
        assert refused.stderr.startswith(error)
    assert there.read_text() == "of another\n"
    assert not (tmp_path / "new.csv").exists()


def test_statistics_come_at_their_interval_while_windows_are_reported(tmp_path: Path) -> None:
    with api.link(rate="50Mbit", delay="5ms") as link:
        host = Host(link, tmp_path)
        lines, table = tmp_path / "lines", tmp_path / "windows.csv"
        options = ["--mark", "none", "--control", "catnip_newcwv", "--controllers", "all", "--windows", table]
        with host.nginx(), host.marking(*options, "--statistics", lines, "--every", "200ms"):
            until = time.monotonic() + 2
            while time.monotonic() < until:
                fetch_all(link.inside, 3, 1)
            written = len(lines.read_text().splitlines())
    assert written >= 5
    assert len(read_windows(table)["event"]) > 100


def test_an_agent_that_cannot_start_leaves_no_table_of_windows(tmp_path: Path) -> None:
    table = tmp_path / "windows.csv"
    start = [str(programs.program(programs.AGENT)), "start", "--mark", "none", "--windows", str(table)]
    refused = subprocess.run([*start, "--device", "none0"], capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert refused.stderr.startswith("error: --device: none0"), refused.stderr
    assert not table.exists()


def departures(capture: Path) -> Any:
    """Returns the times at which the server sent segments with data, s."""
    fields = ["-T", "fields", "-e", "frame.time_relative"]
    command = ["tshark", "-n", "-r", str(capture), "-Y", f"tcp.srcport == {PORT} && tcp.len > 0", *fields]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return np.array([float(field) for field in shown.split()])


def flights(times: Any) -> list[int]:
    """Returns the number of segments in each flight; flights are half a round trip or more apart."""
    pauses = np.flatnonzero(np.diff(times) > ROUND_TRIP_MS / 2e3) + 1
    return [len(part) for part in np.split(np.asarray(times), pauses)]


def by_hand(segments: int, window: int, gentle: bool) -> list[int]:
    """Returns the flights of a document that early congestion avoidance (CAT-S4) should give, by its rule.

    cwnd doubles in each round trip or, if `gentle` and near the end of the document, grows by one.
    """
    sent = []
    while segments:
        sent.append(min(window, segments))
        segments -= sent[-1]
        window = window + 1 if gentle and segments <= 2 * window else 2 * window
    return sent


@pytest.mark.parametrize("segments", [14, 30, 60])
def test_early_congestion_avoidance_sends_the_flights_of_its_rule(tmp_path: Path, segments: int) -> None:
    size, capture = segments * SEGMENT, tmp_path / "sent.pcap"
    for control in ("reno", "catnip_eca"):
        burst(control, [size], 0.0, sets_context=True, capture=capture, initial_window=2)
        expected = by_hand(segments, 2, gentle=control != "reno")
        assert flights(departures(capture)) == expected, control
    # The simulator's cwnd has fractions of segments and the kernel's does not, so flights differ by up to
    # two.
    tcp = {"control": "reno:slow-start=eca", "initial_window_segments": 2}
    events = simulated(tcp, [size], 0.0)
    times = events["time_s"][(events["kind"] == "send") & (events["seq_bytes"] < size)]
    ours = flights(times)
    assert len(ours) == len(expected)
    assert np.all(np.abs(np.array(ours) - expected) <= 2), (ours, expected)


@pytest.mark.parametrize(("control", "unpaced"), [("catnip_rbplw", "reno"), ("catnip_eca_p", "catnip_eca")])
def test_the_last_window_of_a_document_takes_a_round_trip(tmp_path: Path, control: str, unpaced: str) -> None:
    capture = tmp_path / "sent.pcap"
    burst(control, [60 * SEGMENT], 0.0, sets_context=True, capture=capture)
    paced = departures(capture)
    burst(unpaced, [60 * SEGMENT], 0.0, sets_context=True, capture=capture)
    at_once = departures(capture)
    last = [np.median(np.diff(times[-9:])) for times in (paced, at_once)]
    # CAT-S3: equal gaps of SRTT over the remaining segments; 20 Mbit/s alone would give 0.6 ms.
    assert last[0] > 1.0e-3, last
    assert last[1] < 0.9e-3, last
    assert paced[-1] - at_once[-1] <= 1.1 * ROUND_TRIP_MS / 1e3, "at most one round trip more"


def spread_of_a_window(control: str, capture: Path) -> float:
    """Returns the time in which a window leaves after a silence, in round trips."""
    # The link is so fast that no queue adds to the round trip.
    windows = burst(control, [300_000, 60_000], 1.0, capture=capture, rate="200Mbit")
    times = departures(capture)
    silence = int(np.argmax(np.diff(times))) + 1
    spread_s = (times[-1] - times[silence]) * windows[1][0] / (60_000 / SEGMENT)
    return float(spread_s / (ROUND_TRIP_MS / 1e3))


def test_a_window_after_a_silence_takes_a_round_trip_if_newcwv_paces(tmp_path: Path) -> None:
    assert spread_of_a_window("catnip_newcwv", tmp_path / "x.pcap") < 0.3
    # CWV-S6: a window takes 0.8 to 1.2 round trips at k = 1. A single disturbance does not move a median.
    spreads = [spread_of_a_window("catnip_newcwv_p", tmp_path / f"{n}.pcap") for n in range(3)]
    assert 0.8 <= median(spreads) <= 1.2, spreads


ENDLESS = """
import socket, sys, threading
def serve(connection):
    connection.setsockopt(socket.SOL_SOCKET, 47, 1_000_000)  # SO_MAX_PACING_RATE
    try:
        while True:
            connection.sendall(bytes(60 * 1448))
    except OSError:
        pass
with socket.create_server(("", int(sys.argv[2]))) as server:
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, sys.argv[1].encode())
    print("ready", flush=True)
    while True:
        threading.Thread(target=serve, args=server.accept()[:1], daemon=True).start()
"""


def test_paced_segments_of_many_connections_leave_one_by_one(tmp_path: Path) -> None:
    agent = [str(programs.program(programs.AGENT))]
    with api.link(rate="500Mbit", delay=f"{DELAY_MS}ms", queue="drop-tail:5000", tolerance="100ms") as link:
        start = [*agent, "start", "--device", device(link), "--mark", "none", "--controllers", "all"]
        link.run(start, check=True, timeout=60)
        try:
            server = link.start(
                [sys.executable, "-c", ENDLESS, "catnip_newcwv", str(PORT)], stdout=subprocess.PIPE, text=True
            )
            assert server.stdout is not None
            assert server.stdout.readline() == "ready\n"
            with capturing(link, tmp_path / "sent.pcap") as capture:
                connections = [socket.create_connection((link.inside, PORT), timeout=30) for _ in range(20)]
                ends_at = time.monotonic() + 5
                while time.monotonic() < ends_at:
                    for connection in select.select(connections, [], [])[0]:
                        connection.recv(1 << 20)
                for connection in connections:
                    connection.close()
            server.kill()
            server.communicate(timeout=10)
        finally:
            link.run([*agent, "stop"], check=True, timeout=60)
    command = ["tshark", "-n", "-r", str(capture), "-Y", "tcp.len > 0", "-T", "fields"]
    fields = ["-e", "tcp.stream", "-e", "frame.time_relative"]
    shown = subprocess.run([*command, *fields], capture_output=True, text=True, check=True).stdout
    stream, at_s = np.array([line.split() for line in shown.splitlines()], dtype=float).T
    assert len(stream) > 10_000
    together = 0
    for one in np.unique(stream):
        # The first ten segments are not paced (tcp_update_skb_after_send).
        gaps = np.diff(at_s[stream == one][10:])
        together += int(np.sum((gaps[1:] < 1e-4) & (gaps[:-1] < 1e-4)))
    # A gap is at least half of a segment's time at the pacing rate, 0.7 ms.
    assert together == 0


def test_an_agent_tells_whose_controllers_it_has() -> None:
    agent = [str(programs.program(programs.AGENT))]
    complaints = kernel_lines("catnip_newcwv already registered")
    with api.link() as first, api.link() as second:
        start = [*agent, "start", "--mark", "none"]
        alone = first.run(start, capture_output=True, text=True, timeout=60)
        try:
            beside = second.run(start, capture_output=True, text=True, timeout=60)
            second.run([*agent, "stop"], check=True, timeout=60)
            insists = second.run([*start, "--controllers", "all"], capture_output=True, text=True, timeout=60)
        finally:
            first.run([*agent, "stop"], check=True, timeout=60)
    assert (alone.returncode, "warning" in alone.stderr) == (0, False)
    assert beside.returncode == 0
    assert "warning: --controllers: another agent on this machine has registered them" in beside.stderr
    assert insists.returncode == 2
    assert "--controllers: catnip_newcwv: another agent on this machine has registered it" in insists.stderr
    # The kernel is not asked to register them twice.
    assert kernel_lines("catnip_newcwv already registered") == complaints

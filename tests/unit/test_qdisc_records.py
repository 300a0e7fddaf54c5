"""Tests of the records of Linux's qdiscs: each fate is one that the kernel's rules allow."""

import csv
from pathlib import Path
from typing import NamedTuple

import pytest
from record_qdisc_guest import AT_DEQUEUE, AT_ENQUEUE, CASES, ETHERNET, MARKED, OUT, RATE, schedule

FOLDER = Path(__file__).resolve().parents[2] / "crates/net/tests/unit/data/linux"
SEED = 1
LATE_NS = 1_000_000
"""Most that a packet of the schedule is late: packets that are due together are sent one after the other."""
PROBE_NS = 2000
"""Most by which the times of two probes are apart from those at which the qdisc reads the clock."""
LIMITS = {"pfifo-heavy": 50, "codel-heavy": 1000, "fq-codel-heavy-limit-100": 100}
TARGET_NS = 5_000_000


class Packet(NamedTuple):
    """Row of a record."""

    arrival: int
    flow: int
    size: int
    ect: int
    end: int
    fate: str


def record(case: str) -> list[Packet]:
    lines = (FOLDER / f"{case}.csv").read_text().splitlines()
    rows = csv.reader(line for line in lines if not line.startswith("#"))
    next(rows)
    packets = list[Packet]()
    for *numbers, fate in rows:
        arrival, flow, size, ect, end = map(int, numbers)
        packets.append(Packet(arrival, flow, size, ect, end, fate))
    return packets


def test_each_case_has_a_record() -> None:
    found = {path.stem for path in FOLDER.glob("*.csv") if not path.stem.endswith(".updates")}
    assert found == CASES.keys()


@pytest.mark.parametrize("case", CASES)
def test_a_record_has_the_packets_of_its_schedule(case: str) -> None:
    packets, sent = record(case), schedule(CASES[case], SEED)
    assert [packet[1:4] for packet in packets] == [(it.flow, it.size + ETHERNET, it.ect) for it in sent]
    late = [
        packet.arrival - round(1e9 * (it.at - sent[0].at)) for packet, it in zip(packets, sent, strict=True)
    ]
    assert max(late) - min(late) < LATE_NS


@pytest.mark.parametrize("case", CASES)
def test_packets_leave_one_after_the_other_at_the_rate_of_the_line(case: str) -> None:
    left = sorted((packet for packet in record(case) if packet.fate in (OUT, MARKED)), key=lambda it: it.end)
    free = 0
    for packet in left:
        # A burst of 150 bytes makes up for what is late.
        assert packet.end > free - 150 * 8 * 10**9 // RATE - PROBE_NS
        free = max(free, packet.end) + packet.size * 8 * 10**9 // RATE


@pytest.mark.parametrize("case", CASES)
def test_only_packets_with_ect_are_marked_and_only_where_the_qdisc_may(case: str) -> None:
    marked = [packet for packet in record(case) if packet.fate == MARKED]
    assert all(packet.ect for packet in marked)
    assert bool(marked) == (CASES[case].qdisc.endswith(" ecn") or case.startswith("cake"))


@pytest.mark.parametrize(("case", "limit"), LIMITS.items())
def test_packets_are_dropped_at_an_enqueue_only_when_the_queue_is_full(case: str, limit: int) -> None:
    packets = record(case)
    dropped = {packet.end for packet in packets if packet.fate == AT_ENQUEUE}
    assert dropped
    for at in dropped:
        waiting = sum(packet.arrival <= at <= packet.end for packet in packets)
        assert waiting == limit + 1


@pytest.mark.parametrize("case", [case for case in CASES if "codel" in case])
def test_codel_drops_and_marks_only_what_waited_longer_than_its_target(case: str) -> None:
    waits = [packet.end - packet.arrival for packet in record(case) if packet.fate in (AT_DEQUEUE, MARKED)]
    assert len(waits) > 100
    assert min(waits) > TARGET_NS - PROBE_NS

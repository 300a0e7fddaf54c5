"""Tests of the model of marking and dropping with which the simulator's markers and queues are compared."""

from itertools import islice

from diffserv_model import (
    DATA,
    SCHEMES,
    Bucket,
    Packet,
    ThreePriorityRed,
    by_application,
    by_state,
    edge,
    read,
    results,
    text,
    uniform,
)

SENT = DATA / "diffserv-sent.csv"


def data(segments: int, *, service: str = "W", recovering: bool = False) -> Packet:
    """Returns a packet that is sent under a congestion window of `segments` segments of 1000 bytes."""
    return Packet(0, "0", 0, "server", service, "D", 1040, 1000 * segments, 64_000, recovering)


def test_the_committed_results_are_those_of_the_model() -> None:
    assert (DATA / "diffserv.csv").read_text() == text(SENT)


def test_the_record_has_every_mark_and_fate_in_every_scheme_that_knows_it() -> None:
    packets = read(SENT)
    rows = list(results(packets))
    for number, name in enumerate(SCHEMES):
        seen = {(row[0][number], row[2][number]) for row in rows}
        priorities = {"none": "L"}.get(name, "HML")
        assert {(priority, "o") for priority in priorities} <= seen, name
        assert ("L", "x") in seen
    assert {(mark, fate) for row in rows for mark, fate in zip(row[0], row[2], strict=True)} == {
        *((mark, fate) for mark in "HML" for fate in "ox"),
        ("-", "-"),
    }
    assert {row[1] for row in rows} == {"o", "x"}
    for queue in (3, 4, 5):
        waits = [row[queue] for row in rows]
        assert "x" in waits and "0" in waits and len(set(waits)) > 500
    assert sum(packet.kind == "A" and packet.answers is None for packet in packets) > 10, "handshakes end"
    assert {packet.recovering for packet in packets} == {False, True}


def test_windows_up_to_the_thresholds_handshakes_and_recoveries_are_protected() -> None:
    assert by_state([data(segments) for segments in (1, 4, 5, 8, 9, 40)]) == "HHMMLL"
    assert by_state([data(40, recovering=True), data(40, service="T")]) == "HH"
    syn, ends_handshake = data(1)._replace(kind="S"), data(1)._replace(kind="A")
    assert by_state([syn, ends_handshake, data(9), data(1)._replace(kind="A", answers=2)]) == "HHLL"
    assert by_application([data(1, service=service) for service in "TWF"]) == "HML"


def test_a_bucket_of_6000_bytes_lets_five_packets_through_and_then_its_rate() -> None:
    bucket = Bucket(250_000, 6000)
    assert [bucket.admits(0, 1040) for _ in range(6)] == [True] * 5 + [False]
    # 240 bytes are short, at 32 us each.
    assert bucket.ready(1040) == 240 * 32_000
    assert edge([data(1)] * 12, None, 250_000) == "HHHHHMMMMMLL"
    assert edge([data(1)] * 7, "H" * 7, 250_000, drops=True) == "HHHHH--"


def test_an_average_counts_its_priority_and_those_above_it() -> None:
    red = ThreePriorityRed()
    assert red.takes("M", "HMLLLLLL") and red.averages == {"H": 0, "M": 1, "L": 4}
    assert not red.takes("L", "L" * 20) and red.averages == {"H": 0, "M": 1, "L": 12}


def test_random_numbers_are_those_of_philox() -> None:
    # Known answer of Philox4x32-10 for a counter and a key of zeros: 6627e8d5 e169c58d bc57ac4c 9b00dbd8.
    assert list(islice(uniform(0, 0, seed=0), 2)) == [
        (0x6627E8D5E169C58D >> 11) / 2**53,
        (0xBC57AC4C9B00DBD8 >> 11) / 2**53,
    ]

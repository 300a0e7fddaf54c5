"""Quantities of single transfers, CAT-E1, E2 and E11, and the traces used to measure components."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from catnip.analysis import stats
from catnip.analysis.interval import Interval
from catnip.papers import single_transfer
from catnip.papers.catnip import printed
from catnip.papers.catnip.runs import Result, VariantRuns
from catnip.papers.quantity import Quantities
from catnip.papers.reference import number

measured = Quantities()

PACKETS = int(number("catp33"))
ROUND_TRIP_S = 2 * number("catp32") / 1e3 + (number("catp09") + 40) * 8 / (number("catp31") * 1e6)
SOURCES: Mapping[str, dict[str, Any]] = {
    "Reno": {},
    "Reno+RBPLW": {"pacing": "rbplw"},
    "ECA": {"control": "eca"},
    "ECA+RBPLW": {"control": "eca", "pacing": "rbplw"},
}
OTHER_RULES: Mapping[str, dict[str, Any]] = {"ECA, final window": {"control": "eca:final-window"}}
"""Sources with another rule of ECA than the one that gives the paper's idle page times."""


def trace(packets: int, drop: Sequence[int] = (), **options: Any) -> dict[str, Any]:
    """Simulates one transfer over the paper's two-node network: 1 Mbit/s, 100 ms, packets of 512 B."""
    link = {"rate": "1Mbit", "delay": "100ms", "queue": "drop-tail:1000"}
    return single_transfer.trace("ns2-2002", packets, drop, **{**link, **options})


def sends(events: Mapping[str, Any]) -> tuple[list[float], list[int]]:
    """Returns the times of all packet transmissions in a trace, and the packets' numbers from 1."""
    sent = [i for i, event in enumerate(events["event"]) if event == "send"]
    return [float(events["time_s"][i]) for i in sent], [int(events["seq"][i]) + 1 for i in sent]


def in_bursts(times: Sequence[float]) -> str:
    """Returns the numbers of packets in each burst, given the times of the transmissions.

    A packet belongs to a burst if it is sent less than half a round trip after its predecessor.
    """
    sizes: list[int] = []
    for before, now in zip([-1.0, *times], times, strict=False):
        if sizes and now - before < ROUND_TRIP_S / 2:
            sizes[-1] += 1
        else:
            sizes.append(1)
    return ", ".join(map(str, sizes))


def completion_s(result: Result) -> np.ndarray:
    """Returns the time from the first packet sent to the last ACK, s, for each phase of the clock."""
    rows = result.rows("connections")
    return np.asarray(rows["acked_s"] - rows["start_s"])


def timeouts_by_lost_packet(runs: VariantRuns) -> dict[int, int]:
    """Returns the largest number of timeouts over the clock phases, by the number of the only lost packet."""
    results = runs.of("catnip-e1")
    return {k: int(results[f"k = {k}"].rows("connections")["timeouts"].max()) for k in range(1, PACKETS + 1)}


def _extra_s(runs: VariantRuns, k: int) -> np.ndarray:
    results = runs.of("catnip-e1")
    return np.asarray(completion_s(results[f"k = {k}"]) - completion_s(results["no loss"]).mean())


@measured
def no_loss_s(runs: VariantRuns) -> Interval:
    """CAT-E1: transfer time of a 28-packet document without loss, s."""
    return stats.mean(completion_s(runs.of("catnip-e1")["no loss"]))


@measured
def loss_of_packet_s(runs: VariantRuns, k: int) -> Interval:
    """CAT-E1: transfer time of a 28-packet document that loses packet k, s."""
    return stats.mean(completion_s(runs.of("catnip-e1")[f"k = {k}"]))


@measured
def extra_for_packet_s(runs: VariantRuns, k: int) -> Interval:
    """CAT-E1: transfer time with packet k lost minus the mean transfer time without loss, s."""
    return stats.mean(_extra_s(runs, k))


@measured
def packets_that_need_a_timeout(runs: VariantRuns) -> str:
    """CAT-E1: numbers of the packets whose loss causes a timeout."""
    return ", ".join(str(k) for k, count in timeouts_by_lost_packet(runs).items() if count)


@measured
def late_extra_over_early(runs: VariantRuns, late: Sequence[int], early: Sequence[int]) -> float:
    """CAT-E1: ratio of the largest extra time of a `late` packet to the smallest of an `early` packet.

    The extra time of a packet is the increase of the transfer time due to its loss, averaged over the clock
    phases.
    """
    dearest, cheapest = (
        max(_extra_s(runs, k).mean() for k in late),
        min(_extra_s(runs, k).mean() for k in early),
    )
    return float(dearest / cheapest)


@measured
def max_extra_s(runs: VariantRuns, first: int, last: int) -> float:
    """CAT-E1: largest increase of the transfer time due to the loss of one packet, s.

    The maximum is taken over the packets from `first` to `last` and over all clock phases.
    """
    return float(max(_extra_s(runs, k).max() for k in range(first, last + 1)))


@measured
def farthest_from_ns2_s(runs: VariantRuns) -> float:
    """CAT-E1: largest gap between our range of transfer times over clock phases and that of ns-2, s.

    The gap is zero if the two ranges overlap. The largest gap is taken over all lost packets.
    """
    ns2, results = printed.single_loss_s(), runs.of("catnip-e1")
    apart = []
    for k in range(1, PACKETS + 1):
        times, (_, low, high) = completion_s(results[f"k = {k}"]), ns2[k]
        apart.append(max(low - times.max(), times.min() - high, 0.0))
    return float(max(apart))


@measured
def bursts(_runs: VariantRuns, source: str, packets: int, before: int = 0) -> str:
    """CAT-E2, S2 to S4: sizes of the bursts of a document, or of its first `before` packets, for a source."""
    times, _ = sends(trace(packets, **SOURCES[source]))
    return in_bursts(times[:before] if before else times)


@measured
def gap_off_ms(_runs: VariantRuns, source: str, last: int) -> float:
    """CAT-E2, S3: largest absolute difference of a late gap from the round-trip time / `last`, ms.

    The late gaps are the last `last` gaps between the 14 packets of a document.
    """
    times, _ = sends(trace(14, **SOURCES[source]))
    return float(np.abs(np.diff(times)[14 - last :] - ROUND_TRIP_S / last).max() * 1e3)


@measured
def sent_alike_before(_runs: VariantRuns, source: str, other: str, packets: int) -> str:
    """CAT-E2: `alike` if two sources send their first `packets` packets at equal times, else `different`."""
    ours, theirs = (sends(trace(14, **SOURCES[name]))[0][:packets] for name in (source, other))
    return "alike" if ours == theirs else "different"


@measured
def burst_off_ns(runs: VariantRuns, which: str) -> float:
    """CAT-E11: absolute difference between simulated and calculated time over the small network, ns."""
    results = runs.of("catnip-e11")
    two = sorted(results["two senders"].rows("connections")["received_s"])
    ours_s = {
        "burst of six": float(results["room for all"].rows("connections")["received_s"][0]),
        "first of two": float(two[0]),
        "second of two": float(two[1]),
    }[which]
    packets = {"burst of six": 6, "first of two": 1, "second of two": 2}[which]
    bits = number("catp09") * 8
    access_s, bottleneck_s = bits / (number("catp03") * 1e6), bits / (number("catp05") * 1e6)
    by_hand_s = 2 * (access_s + 0.001) + number("catp06") / 1e3 + packets * bottleneck_s
    return abs(ours_s - by_hand_s) * 1e9


@measured
def small_network_counts(runs: VariantRuns, columns: Sequence[str]) -> str:
    """CAT-E11: counters `columns` of a queue with space for three packets that receives a burst of six."""
    rows = runs.of("catnip-e11")["room for three"].rows("connections")
    return ", ".join(str(int(rows[key][0])) for key in columns)

"""Timeline of one run: windows and round trips of senders, queues and rates of links."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catnip import _core
from catnip._core import Scenario

SAMPLES = 1000
"""Usual number of samples, about one for each dot across a figure."""
PRIORITIES = {"LOW": "low_packets", "MED": "med_packets", "HIGH": "high_packets"}

Values = NDArray[np.float64]


@dataclass(frozen=True)
class LinkOverTime:
    """Queue and rate of a link in one direction, at the end of each interval."""

    name: str
    at_s: Values
    packets: Mapping[str, Values]
    """Packets in the queue and in transmission, by priority; only priorities that occur."""
    delay_s: Values
    """Mean time in the queue and in transmission of what left in the interval; NaN without a packet."""
    rate_mbps: Values
    drops_s: Values
    marks_s: Values


@dataclass(frozen=True)
class SenderOverTime:
    """State of the server of a connection, at the end of each interval in which the connection is open."""

    name: str
    connection: int
    at_s: Values
    cwnd_bytes: Values
    ssthresh_bytes: Values
    in_flight_bytes: Values
    srtt_s: Values
    goodput_mbps: Values
    drops_s: Values
    timeouts_s: Values


@dataclass(frozen=True)
class Timeline:
    """One run over time: the links where packets wait longest, and the connections that send most."""

    variant: str
    range_s: tuple[float, float]
    links: Sequence[LinkOverTime]
    senders: Sequence[SenderOverTime]
    segments: Mapping[str, Any]
    """Table of the segments of the first connection, see `catnip_lab::Timeline`."""
    left_out: int


def of_run(
    scenario: Scenario,
    variant: str,
    seed: int,
    samples: int = SAMPLES,
    range_s: tuple[float, float] | None = None,
) -> Timeline:
    """Runs a variant once more, and returns what happens between two times.

    Without times, it is the whole run or, if its connections are short, the time around one of the largest.
    """
    tables, _, drawn_s, left_out = _core.timeline(scenario, variant, seed, samples, range_s, None, None)
    ticks = {name: np.asarray(values) for name, values in tables["ticks"].items()}
    links = [_link(tables, number, name, ticks) for number, name in enumerate(tables["links"]["name"])]
    connections = tables["connections"]
    numbers = [int(number) for number in connections["connection"]]
    users = [int(number) for number in connections["client"]]
    names = _names([str(group) for group in connections["group"]], users, numbers)
    senders = [
        _sender(tables, row, name, number, ticks)
        for row, (name, number) in enumerate(zip(names, numbers, strict=True))
    ]
    return Timeline(variant, drawn_s, links, senders, tables["segments"], left_out)


def _link(tables: Mapping[str, Any], number: int, name: str, ticks: Mapping[str, Any]) -> LinkOverTime:
    samples = tables["link_samples"]
    here = samples["link"] == number
    packets = {label: samples[column][here].astype(float) for label, column in PRIORITIES.items()}
    of_link = ticks["link"] == number
    return LinkOverTime(
        name=name,
        at_s=samples["at_s"][here],
        packets={label: values for label, values in packets.items() if values.any()},
        delay_s=samples["delay_s"][here],
        rate_mbps=samples["rate_mbps"][here],
        drops_s=ticks["at_s"][of_link & (ticks["kind"] == "drop")],
        marks_s=ticks["at_s"][of_link & (ticks["kind"] == "mark")],
    )


def _sender(
    tables: Mapping[str, Any], row: int, name: str, connection: int, ticks: Mapping[str, Any]
) -> SenderOverTime:
    samples = tables["sender_samples"]
    here = samples["connection"] == row
    of_connection = ticks["connection"] == row
    return SenderOverTime(
        name=name,
        connection=connection,
        at_s=samples["at_s"][here],
        cwnd_bytes=samples["cwnd_bytes"][here].astype(float),
        ssthresh_bytes=samples["ssthresh_bytes"][here],
        in_flight_bytes=samples["in_flight_bytes"][here].astype(float),
        srtt_s=samples["srtt_s"][here],
        goodput_mbps=samples["goodput_mbps"][here],
        drops_s=ticks["at_s"][of_connection & (ticks["kind"] == "drop")],
        timeouts_s=ticks["at_s"][of_connection & (ticks["kind"] == "timeout")],
    )


def _names(groups: Sequence[str], clients: Sequence[int], connections: Sequence[int]) -> list[str]:
    """Returns the shortest names that tell connections apart: by their group, their user or their number."""
    if len(set(groups)) == len(groups):
        return list(groups)
    users = [f"{group}, user {client}" for group, client in zip(groups, clients, strict=True)]
    if len(set(users)) == len(users):
        return users
    return [f"{group}, connection {number}" for group, number in zip(groups, connections, strict=True)]

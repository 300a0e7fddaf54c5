"""Cases of scripted losses, delays and marks, for both the kernel and the simulator."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

SEGMENTS, SEGMENT_BYTES = 100, 1448
RATE, QUEUE = "10Mbit", "drop-tail:200"
"""Rate and queue of the link. The queue can hold a whole transfer, so only the packets that a case lists are
lost."""
DELAYS_MS = (10, 50, 100)
"""One-way delays of the link, ms; the round trips are 20, 100 and 200 ms."""
CONTROLS: Mapping[str, str] = {"cubic": "linux-cubic", "reno": "reno"}
"""Name of each congestion control in the simulator, by its name in the kernel."""
KINDS = {
    "one": "one segment lost",
    "head": "the first segments lost",
    "tail": "the last segments lost",
    "burst": "three to five in a row lost",
    "random": "two to five anywhere lost",
    "timeout": "whole windows lost, with what probes them",
    "acks": "ACKs lost",
    "late": "segments that come late",
    "marks": "congestion marks",
}


@dataclass(frozen=True)
class Case:
    """Transfer with scripted losses, delays and marks.

    Data packets and ACKs are numbered from 1 in the order of their departure.
    """

    kind: str
    delay_ms: float
    control: str
    lost: Sequence[int] = ()
    acks: Sequence[int] = ()
    delayed: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """Numbers of the data packets to delay, by their additional delay in milliseconds."""
    marked: Sequence[int] = ()
    segments: int = SEGMENTS
    rate: str = RATE
    queue: str = QUEUE
    window: int | None = None
    """Fixed receive window, segments; without it the receiver tunes its window."""
    paced: bool = False
    fin: bool = True
    """True if the sender closes the connection while it sends; else it waits until all is acknowledged."""

    @property
    def name(self) -> str:
        """Name of the case in tables."""
        events = [f"lost {_list(self.lost)}"] if self.lost else []
        events += [f"ACKs {_list(self.acks)} lost"] if self.acks else []
        events += [f"{_list(which)} late by {by} ms" for by, which in self.delayed.items()]
        events += [f"marked {_list(self.marked)}"] if self.marked else []
        if (self.segments, self.rate) != (SEGMENTS, RATE):
            events.append(f"{self.segments} segments at {self.rate}")
        events += [f"window of {self.window}"] if self.window else []
        events += ["paced"] if self.paced else []
        return f"{self.control}, {2 * self.delay_ms:g} ms, {', '.join(events)}"

    def directions(self, before_data: int, before_acks: int) -> dict[str, dict[str, str]]:
        """Returns the link's scenario keys for the directions of the data and of the ACKs.

        `before_data` and `before_acks` are the numbers of packets that precede the first segment and the
        first ACK.
        """
        data = {}
        losses = [_stage("packets", self.lost, before_data), _stage("marks", self.marked, before_data)]
        if stages := " | ".join(filter(None, losses)):
            data["loss"] = stages
        delays = [f"{_stage('late', which, before_data)},by={by}ms" for by, which in self.delayed.items()]
        if delays:
            data["wire_loss"] = " | ".join(delays)
        acks = {"loss": _stage("packets", self.acks, before_acks)} if self.acks else {}
        return {"data": data, "acks": acks}


def scripted(quick: bool) -> list[Case]:
    """Returns all scripted cases, or every eleventh if `quick` is set."""
    cases = [
        Case(kind, delay_ms, control, **events)
        for delay_ms in DELAYS_MS
        for control in CONTROLS
        for kind, events in _scripts(delay_ms, control)
    ]
    return cases[::11] if quick else cases


def _scripts(delay_ms: int, control: str) -> Iterator[tuple[str, dict[str, Any]]]:
    rng = np.random.default_rng([delay_ms, len(control)])
    last = SEGMENTS
    for segment in (5, 10, 25, 50, 75, 90):
        yield "one", {"lost": [segment]}
    for lost in ([1], [2], [1, 2], [2, 3, 4, 5], [1, 3, 5], [9, 10]):
        yield "head", {"lost": lost}
    for count in (1, 2, 3, 4, 5):
        yield "tail", {"lost": list(range(last + 1 - count, last + 1))}
    for lost in ([last - 1], [last - 2], [last - 3, last - 2]):
        yield "tail", {"lost": lost}
    for count in (3, 4, 5):
        for first in (12, 40):
            yield "burst", {"lost": list(range(first, first + count))}
    for count in (2, 3, 4, 5):
        for _ in range(3):
            yield (
                "random",
                {"lost": sorted(rng.choice(np.arange(1, last + 1), count, replace=False).tolist())},
            )
    # Packet 11 probes the first window, 31 the second, 101 the tail; 12 and 102 are sent after a timeout.
    for first, end in ((1, 11), (1, 12), (11, 31), (95, 101), (100, 101), (100, 102)):
        yield "timeout", {"lost": list(range(first, end + 1))}
    for first, count in ((1, 1), (3, 2), (8, 4), (18, 10), (42, 10)):
        yield "acks", {"acks": list(range(first, first + count))}
    for by, which in ((2, [20]), (5, [20, 40]), (15, [30]), (40, [12]), (40, [25, 26, 27]), (150, [50])):
        yield "late", {"delayed": {by: which}}
    for marked in ([5], [20], [20, 21, 22], [15, 40], [60, 100]):
        yield "marks", {"marked": marked}


def _stage(kind: str, numbers: Sequence[int], before: int) -> str:
    return f"{kind}:{','.join(str(before + number) for number in numbers)}" if numbers else ""


def _list(numbers: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return " ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in runs)

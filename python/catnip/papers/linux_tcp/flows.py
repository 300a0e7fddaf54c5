"""Long transfers with BBR: goodput and queueing delay of the sender, in the kernel and simulated."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catnip.papers.rows import Rows, where

Floats = NDArray[np.float64]

FLOW_S = 30.0
PATHS_MS = (10, 50, 100)
"""One-way delays of the links, ms."""
LINKS: Mapping[str, tuple[str, str]] = {
    "deep buffer": ("drop-tail:200", ""),
    "20 packets of buffer": ("drop-tail:20", ""),
    "1 % random loss": ("drop-tail:200", "bernoulli:1%"),
}
"""Queue of each link by name, and random loss behind the queue."""


@dataclass(frozen=True)
class Setting:
    """One-way delay and name of the link of a long transfer."""

    delay_ms: int
    link: str

    @property
    def queue(self) -> str:
        """Queue of the link, in the notation of scenarios."""
        return LINKS[self.link][0]

    @property
    def loss(self) -> dict[str, str]:
        """Scenario keys of the link's loss in the direction of the data."""
        loss = LINKS[self.link][1]
        return {"loss": loss} if loss else {}


SETTINGS = [Setting(delay_ms, link) for link in LINKS for delay_ms in PATHS_MS]


@dataclass(frozen=True)
class Flow:
    """Goodput and queueing delay of a long transfer."""

    goodput_kbps: float
    queue_ms: float
    """Mean round-trip time minus the shortest round-trip time, ms."""


def flow(sent_s: Floats, firsts: Floats, acked_s: Floats, followings: Floats) -> Flow:
    """Computes the results from times and first bytes of segments, and from times and next bytes of ACKs.

    An ACK gives the round-trip time of the last segment that it acknowledges, if that segment was sent once
    (Karn's rule).
    """
    bytes_, at, times = np.unique(firsts, return_index=True, return_counts=True)
    is_new = np.concatenate([[True], followings[1:] > np.maximum.accumulate(followings)[:-1]])
    acked_s, followings = acked_s[is_new], followings[is_new]
    segment = np.searchsorted(bytes_, followings) - 1
    is_sampled = (segment >= 0) & (times[segment] == 1)
    round_trips_s = acked_s[is_sampled] - sent_s[at[segment[is_sampled]]]
    return Flow(
        8e-3 * float(followings[-1]) / FLOW_S, 1e3 * float(np.mean(round_trips_s) - np.min(round_trips_s))
    )


def from_kernel(report: Mapping[str, Any]) -> Flow:
    """Computes the results of the kernel's transfer from the output of `sender`."""
    sent, acks = np.array(report["segments"], float), np.array(report["acks"], float)
    acks = acks[acks[:, 0] <= FLOW_S]
    return flow(sent[:, 0], sent[:, 1], acks[:, 0], acks[:, 1])


def from_events(events: Rows) -> list[Flow]:
    """Computes the results of simulated transfers, one for each seed, from the sender's rows of `events`."""
    server = where(events, events["end"] == "server")
    flows = []
    for seed in np.unique(server["seed"]):
        here = where(server, server["seed"] == seed)
        sent, acks = (where(here, here["kind"] == kind) for kind in ("send", "ack"))
        columns = (one[name].astype(float) for one in (sent, acks) for name in ("time_s", "seq_bytes"))
        flows.append(flow(*columns))
    return flows

"""Simulated transfers with the sizes and loss rates of the paper's Table 1, each variant simulated once."""

import math
from collections.abc import Mapping

import numpy as np

from catnip.analysis.measures import Floats
from catnip.papers.runs import Runs
from catnip.store.tables import Table

SIZES_KB = (1, 4, 8, 16, 32, 50, 64, 90, 110, 128, 160, 180, 200)
KILOBYTES = {math.ceil(size * 1024 / 1433): size for size in SIZES_KB}
"""Transfer sizes of Table 1 in KB of 1024 bytes, by their number of packets of 1433 bytes."""

SHORT = tuple(packets for packets, size in KILOBYTES.items() if size <= 50)
LONG = tuple(packets for packets, size in KILOBYTES.items() if size > 50)
LOSSES = (0.01, 0.03, 0.05, 0.08, 0.1)

DESIGN = "hysteresis"
"""Name of the scenario with the sizes and loss rates of the paper's Table 1."""
RENO, PARTIAL, FULL = "Reno", "Partial CATNIP", "CATNIP"
TRIALS, PAPER_TRIALS = 20_000, 1000
"""Number of simulated transfers of each variant, here and in the paper."""


class Trials(Runs):
    """Simulated transfers, one for each seed (trial); trial n of every variant has the same seed."""

    quick_seeds = PAPER_TRIALS

    def usual_seeds(self, name: str) -> int:
        """Returns the number of trials of each variant of a scenario at full length."""
        return TRIALS

    def transfer(self, sender: str, packets: int, loss: float) -> Floats:
        """Returns the transfer times with a size and loss rate of Table 1, s, one for each trial."""
        return self.of(DESIGN)[f"{sender} / packets={packets} / loss=priority:low={loss:g}"]

    def with_first_timeout(self, first_timeout_s: int, packets: int, loss: float) -> Floats:
        """Returns Reno's transfer times with this first timeout, s; Table 1 of the paper has 3 s."""
        if first_timeout_s == 3:
            return self.transfer(RENO, packets, loss)
        point = f"rto_first={first_timeout_s}s / packets={packets} / loss=priority:low={loss:g}"
        return self.of("hysteresis-first-timeout")[point]

    def of(self, name: str, count: int | None = None) -> Mapping[str, Floats]:
        """Returns the transfer times by variant of a scenario, s: from the first packet sent to the last ACK.

        `count` limits the number of trials.
        """
        seeds = self.seeds(name)[:count]
        return self.cached(name, lambda: self.run_each(name, "connections", transfer_times_s, seeds))


def transfer_times_s(connections: Table) -> Floats:
    """Returns the time from the first packet sent to the last ACK of each connection, s."""
    acked_s, start_s = (np.asarray(connections[name], np.float64) for name in ("acked_s", "start_s"))
    return acked_s - start_s

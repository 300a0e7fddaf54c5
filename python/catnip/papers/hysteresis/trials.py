"""Simulated transfer times, each variant simulated once, and the design of the paper's Table 1."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from catnip.analysis.measures import Floats
from catnip.base import paths
from catnip.base.progress import Progress

SIZES_KB = (1, 4, 8, 16, 32, 50, 64, 90, 110, 128, 160, 180, 200)
KILOBYTES = {math.ceil(size * 1024 / 1433): size for size in SIZES_KB}
"""Transfer sizes of Table 1 in KB of 1024 bytes, by their number of packets of 1433 bytes."""

SHORT = tuple(packets for packets, size in KILOBYTES.items() if size <= 50)
LONG = tuple(packets for packets, size in KILOBYTES.items() if size > 50)
LOSSES = (0.01, 0.03, 0.05, 0.08, 0.1)

RENO, PARTIAL, FULL = "Reno", "Partial CATNIP", "CATNIP"
PAPER_TRIALS = 1000


@dataclass
class Trials:
    """Scenario runs, made on demand and kept; trial n of every variant has the same seed."""

    count: int
    first_seed: int
    progress: Progress
    sample: int = 1
    """Sample size since the last reset: the largest number of trials of a requested point."""
    batches: dict[int, dict[str, Floats]] = field(default_factory=dict)
    """Results of one batch of trials, by the number of threads that simulated it."""
    _made: dict[str, dict[str, Floats]] = field(default_factory=dict)

    @property
    def seeds(self) -> list[int]:
        """Seed of each trial."""
        return list(range(self.first_seed, self.first_seed + self.count))

    def transfer(self, sender: str, packets: int, loss: float) -> Floats:
        """Returns the transfer times at a point of the design, one per trial, seconds."""
        return self.of("hysteresis")[f"{sender} / packets={packets} / loss=priority:low={loss:g}"]

    def with_first_timeout(self, first_timeout_s: int, packets: int, loss: float) -> Floats:
        """Returns Reno's transfer times with a first timeout other than the design's 3 s."""
        if first_timeout_s == 3:
            return self.transfer(RENO, packets, loss)
        point = f"rto_first={first_timeout_s}s / packets={packets} / loss=priority:low={loss:g}"
        return self.of("hysteresis-first-timeout")[point]

    def of(self, name: str, count: int | None = None) -> Mapping[str, Floats]:
        """Returns the transfer times by variant of a scenario: from the first packet sent to the last ACK."""
        if name not in self._made:
            scenario = paths.scenario(name)
            seeds = self.seeds[: count or self.count]
            told = self.progress.task(scenario.id)
            made: dict[str, Floats] = {}
            # Memory holds the full table of only one variant besides the times.
            variants = scenario.variants
            for done, variant in enumerate(variants):
                rows = scenario.run([variant], seeds, ["connections"])["connections"]
                made[variant] = np.asarray(rows["acked_s"]) - np.asarray(rows["start_s"])
                told(done + 1, len(variants))
            self._made[name] = made
        times = self._made[name]
        self.sample = max(self.sample, *map(len, times.values()))
        return times

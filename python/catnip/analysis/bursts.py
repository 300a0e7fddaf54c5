"""Bursts after silence: transfers of the same one under two algorithms, by size and silence (CWV-S12).

A burst is known by its seed, its connection and its first byte, which are the same in all variants of a
scenario. Classes are lower bounds, so they nest: a burst of 50 KB after 8 s counts among those above 5 KB and
1 s, too.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from catnip.analysis import measures, resampling, stats
from catnip.analysis.interval import Interval
from catnip.store.tables import Table

Floats: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = Mapping[str, NDArray[Any]]
Lost: TypeAlias = Literal["retransmitted", "dropped"]

SIZES_BYTES = (5_000, 10_000, 20_000, 40_000, 80_000)
"""The paper's lower bounds of sizes."""
IDLE_S = (1, 3, 5, 7, 10, 15)
"""Its lower bounds of silences."""


@dataclass(frozen=True)
class Pairs:
    """Bursts that two variants have in common, row by row the same one in both."""

    reference: Rows
    other: Rows
    unpaired: int
    """Bursts of either without the same one in the other: cut by the end of a run, or grown together."""

    @property
    def gain_pct(self) -> Floats:
        """By how much shorter each takes than under the reference: (Tr - Tc) / Tr, per cent."""
        taken = np.asarray(self.reference["time_s"], dtype=np.float64)
        return np.asarray(100 * (taken - self.other["time_s"]) / taken, dtype=np.float64)

    def within(self, size_bytes: float, idle_s: float) -> "Pairs":
        """Those larger and after a longer silence than this, as the reference has measured them."""
        chosen = (self.reference["bytes"] > size_bytes) & (self.reference["idle_s"] > idle_s)
        return Pairs(_rows(self.reference, chosen), _rows(self.other, chosen), self.unpaired)


@dataclass(frozen=True)
class ClassResult:
    """A class of bursts: those larger than a size after more than a silence."""

    size_bytes: float
    idle_s: float
    bursts: int
    gain_pct: Interval
    """Mean over all its bursts."""
    loss_pct: tuple[Interval, Interval]
    """Of the segments sent, how many were sent again: under the reference, under the other."""


def pair(bursts: Table, reference: int, other: int, group: str | None = None) -> Pairs:
    """The bursts of two variants of a table, by their numbers."""
    sides = [measures.select(bursts, variant, group) for variant in (reference, other)]
    keys = [
        np.rec.fromarrays([rows[name] for name in ("seed", "connection", "first_byte")]) for rows in sides
    ]
    _, *places = np.intersect1d(keys[0], keys[1], assume_unique=True, return_indices=True)
    before, after = (_rows(rows, place) for rows, place in zip(sides, places, strict=True))
    same = before["bytes"] == after["bytes"]
    unpaired = sum(len(rows["seed"]) for rows in sides) - 2 * int(same.sum())
    return Pairs(_rows(before, same), _rows(after, same), unpaired)


def joined(parts: Sequence[Pairs]) -> Pairs:
    """Those of several seeds as one."""

    def of(sides: Sequence[Rows]) -> Rows:
        return {key: np.concatenate([rows[key] for rows in sides]) for key in sides[0]}

    reference, other = of([one.reference for one in parts]), of([one.other for one in parts])
    return Pairs(reference, other, sum(one.unpaired for one in parts))


def classes(
    pairs: Pairs,
    seeds: Sequence[int],
    sizes_bytes: Sequence[float] = SIZES_BYTES,
    idle_s: Sequence[float] = IDLE_S,
    lost: Lost = "retransmitted",
) -> Iterator[ClassResult]:
    """Gain and loss of every class that has bursts."""
    for size, idle in product(sizes_bytes, idle_s):
        here = pairs.within(size, idle)
        count = len(here.reference["seed"])
        if count:
            losses = (loss_pct(rows, seeds, lost) for rows in (here.reference, here.other))
            yield ClassResult(size, idle, count, gain(here, seeds), (next(losses), next(losses)))


def gain(pairs: Pairs, seeds: Sequence[int]) -> Interval:
    """The mean gain of all pairs, per cent.

    Bursts of a run share its queues, so the interval is that over seeds, of which one with more bursts weighs
    more. With one seed it is that of resampled bursts, as if they knew nothing of each other.
    """
    gains = {"seed": pairs.reference["seed"], "gain_pct": pairs.gain_pct}
    if not len(gains["seed"]):
        return Interval(math.nan, math.nan, math.nan, 0)
    if len(seeds) > 1:
        return stats.ratio(measures.per_seed(gains, "gain_pct", seeds), _counts(gains["seed"], seeds))
    return resampling.mean(gains["gain_pct"])


def loss_pct(rows: Rows, seeds: Sequence[int], lost: Lost = "retransmitted") -> Interval:
    """Segments of bursts that were sent again, or that the network dropped, per cent of those sent."""
    return stats.ratio(measures.per_seed(rows, lost, seeds), measures.per_seed(rows, "sent", seeds)) * 100


def _counts(of_seed: NDArray[Any], seeds: Sequence[int]) -> Floats:
    return np.array([(of_seed == seed).sum() for seed in seeds], dtype=np.float64)


def _rows(rows: Rows, chosen: NDArray[Any]) -> Rows:
    return {key: values[chosen] for key, values in rows.items()}

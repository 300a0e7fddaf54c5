"""Bursts after idle periods, compared burst by burst between two variants, by size and idle period (CWV-S12).

A burst is identified by its seed, its connection and its first byte, which are equal in all variants of a
scenario. A class consists of the bursts above a size and an idle period, so classes are nested: a burst of
50 KB after 8 s also counts in the class above 5 KB and 1 s.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from catnip.analysis import measures, resampling, stats
from catnip.analysis.interval import UNKNOWN, Interval
from catnip.store.tables import Table

Floats: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = Mapping[str, NDArray[Any]]
Lost: TypeAlias = Literal["retransmitted", "dropped"]

SIZES_BYTES = (5_000, 10_000, 20_000, 40_000, 80_000)
"""Lower bounds of the size classes of the newCWV paper, bytes."""
IDLE_S = (1, 3, 5, 7, 10, 15)
"""Lower bounds of the newCWV paper's classes of idle periods before a burst, s."""


@dataclass(frozen=True)
class Pairs:
    """Bursts that occur in two variants; row n of `reference` and row n of `other` are the same burst."""

    reference: Rows
    other: Rows
    unpaired: int
    """Number of bursts of either variant without a counterpart: cut by a run's end, or merged with others."""

    @property
    def gain_pct(self) -> Floats:
        """Reduction of each burst's transfer time relative to the reference, (Tr - Tc) / Tr, percent."""
        reference_s = np.asarray(self.reference["time_s"], dtype=np.float64)
        return np.asarray(100 * (reference_s - self.other["time_s"]) / reference_s, dtype=np.float64)

    def within(self, size_bytes: float, idle_s: float) -> "Pairs":
        """Returns the pairs whose burst in the reference exceeds a size and follows a longer idle period."""
        chosen = (self.reference["bytes"] > size_bytes) & (self.reference["idle_s"] > idle_s)
        return Pairs(_rows(self.reference, chosen), _rows(self.other, chosen), self.unpaired)


@dataclass(frozen=True)
class ClassResult:
    """Gain and losses of the class of bursts above a size that follow idle periods above a duration."""

    size_bytes: float
    idle_s: float
    bursts: int
    gain_pct: Interval
    """Mean reduction of the burst times relative to the reference, percent."""
    loss_pct: tuple[Interval, Interval]
    """Shares of sent segments that were lost, percent: of the reference, and of the other variant."""


def pair(bursts: Table, reference: int, other: int, group: str | None = None) -> Pairs:
    """Returns the bursts that two variants of the table `bursts` have in common, by the variants' indices."""
    sides = [measures.select(bursts, variant, group) for variant in (reference, other)]
    keys = [
        np.rec.fromarrays([rows[name] for name in ("seed", "connection", "first_byte")]) for rows in sides
    ]
    _, *indices = np.intersect1d(keys[0], keys[1], assume_unique=True, return_indices=True)
    before, after = (_rows(rows, index) for rows, index in zip(sides, indices, strict=True))
    same = before["bytes"] == after["bytes"]
    unpaired = sum(len(rows["seed"]) for rows in sides) - 2 * int(same.sum())
    return Pairs(_rows(before, same), _rows(after, same), unpaired)


def joined(parts: Sequence[Pairs]) -> Pairs:
    """Merges pairs of bursts that were computed seed by seed."""

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
    """Yields gain and losses of each class of burst sizes and idle periods that has bursts."""
    for size, idle in product(sizes_bytes, idle_s):
        here = pairs.within(size, idle)
        count = len(here.reference["seed"])
        if count:
            losses = (loss_pct(rows, seeds, lost) for rows in (here.reference, here.other))
            yield ClassResult(size, idle, count, gain(here, seeds), (next(losses), next(losses)))


def outline(table: Table) -> dict[str, float | None]:
    """Returns the number of bursts, their sizes and the silences before them, of a table of bursts.

    Sizes are in bytes, times in s; None without bursts. Only what has been acknowledged has a time.
    """
    size, idle_s, time_s = (
        np.asarray(table[name], dtype=np.float64) for name in ("bytes", "idle_s", "time_s")
    )
    time_s = time_s[~np.isnan(time_s)]

    def quantile(of: Floats, q: float) -> float | None:
        return float(np.quantile(of, q)) if len(of) else None

    return {
        "bursts": len(size),
        "bytes": float(size.sum()),
        "median_bytes": quantile(size, 0.5),
        "p90_bytes": quantile(size, 0.9),
        "median_idle_s": quantile(idle_s, 0.5),
        "p90_idle_s": quantile(idle_s, 0.9),
        "median_time_s": quantile(time_s, 0.5),
        "idle_above_1_s_pct": 100 * float((idle_s > 1).mean()) if len(idle_s) else None,
    }


def counts(table: Table) -> list[dict[str, Any]]:
    """Returns the number of bursts above 0 and each size, after silences above 0 s and each class of them."""
    size, idle_s = (np.asarray(table[name], dtype=np.float64) for name in ("bytes", "idle_s"))
    return [
        {
            "above_bytes": above,
            "bursts": [int(((size > above) & (idle_s > idle)).sum()) for idle in (0, *IDLE_S)],
        }
        for above in (0, *SIZES_BYTES)
    ]


def gain(pairs: Pairs, seeds: Sequence[int], confidence: float = 0.95) -> Interval:
    """Returns the mean of `Pairs.gain_pct` over all pairs, percent.

    Bursts of a run share its queues, so the interval is over seeds, and a seed with more bursts has more
    weight. With one seed, the interval results from resampling the bursts, which are treated as independent.
    """
    gains = {"seed": pairs.reference["seed"], "gain_pct": pairs.gain_pct}
    if not len(gains["seed"]):
        return UNKNOWN
    if len(seeds) > 1:
        sums = measures.per_seed(gains, "gain_pct", seeds)
        return stats.ratio(sums, _counts(gains["seed"], seeds), confidence)
    return resampling.mean(gains["gain_pct"], confidence)


def loss_pct(rows: Rows, seeds: Sequence[int], lost: Lost = "retransmitted") -> Interval:
    """Returns the share of the bursts' segments that were retransmitted or dropped (`lost`), percent."""
    return stats.ratio(measures.per_seed(rows, lost, seeds), measures.per_seed(rows, "sent", seeds)) * 100


def _counts(of_seed: NDArray[Any], seeds: Sequence[int]) -> Floats:
    return np.array([(of_seed == seed).sum() for seed in seeds], dtype=np.float64)


def _rows(rows: Rows, chosen: NDArray[Any]) -> Rows:
    return {key: values[chosen] for key, values in rows.items()}

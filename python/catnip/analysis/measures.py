"""Quantities that the papers report, one value per seed, from the tables of a run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catnip.store.tables import Table

Floats = NDArray[np.float64]
Statistic = Callable[..., Any]


def page_times(
    pages: Table,
    variant: int,
    seeds: Sequence[int],
    statistic: Statistic = np.mean,
    group: str | None = None,
) -> Floats:
    """Returns a statistic of the times of each page: one row per seed, one column per page number."""
    rows = select(pages, variant, group)
    numbers = np.unique(rows["page"])
    cells = [
        [statistic(rows["time_s"][(rows["seed"] == seed) & (rows["page"] == page)]) for page in numbers]
        for seed in seeds
    ]
    return np.array(cells, dtype=np.float64)


def deviation(values: NDArray[Any]) -> float:
    """Returns the sample standard deviation of `values`."""
    return float(values.std(ddof=1))


def max_concurrent(start_s: Floats, end_s: Floats) -> int:
    """Returns the largest number of time intervals that overlap.

    An interval that begins at the instant at which another interval ends does not overlap it.
    """
    # An end is the sum of two times, so it is accurate only to some nanoseconds.
    return max(int(((start_s <= at) & (end_s > at + 1e-8)).sum()) for at in start_s)


@dataclass(frozen=True)
class PortLoss:
    """Losses at a port, and share of HIGH packets, as fractions of the arriving packets, one per seed."""

    loss: Floats
    high_share: Floats
    high_loss: Floats
    low_loss: Floats


def port_loss(ports: Table, variant: int, seeds: Sequence[int], port: str = "bottleneck") -> PortLoss:
    """Returns the fractions of packets lost at a port, by priority; 0 for a priority without packets."""
    rows = select(ports, variant)
    return loss_of({key: values[rows["port"] == port] for key, values in rows.items()}, seeds)


def loss_of(port: Mapping[str, NDArray[Any]], seeds: Sequence[int]) -> PortLoss:
    """Returns the fractions of packets lost, by priority, from one port's rows of the table `ports`."""
    high, med, low, high_dropped, med_dropped, low_dropped = (
        per_seed(port, f"{counter}_{priority}", seeds)
        for counter in ("arrived", "dropped")
        for priority in ("high", "med", "low")
    )
    return PortLoss(
        loss=_fraction(high_dropped + med_dropped + low_dropped, high + med + low),
        high_share=_fraction(high, high + med + low),
        high_loss=_fraction(high_dropped, high),
        low_loss=_fraction(low_dropped, low),
    )


def sender_loss(connections: Table, variant: int, seeds: Sequence[int], group: str | None = None) -> Floats:
    """Returns the fraction of data packets, retransmissions included, that any link dropped, per seed."""
    rows = select(connections, variant, group)
    return _fraction(per_seed(rows, "dropped", seeds), per_seed(rows, "sent", seeds))


def per_seed(
    rows: Mapping[str, NDArray[Any]], key: str, seeds: Sequence[int], statistic: Statistic = np.sum
) -> Floats:
    """Returns the sum, or another statistic, of the column `key` for each seed."""
    values, of_seed = rows[key], rows["seed"]
    rows_per_seed = len(values) // len(seeds)
    if rows_per_seed and np.array_equal(of_seed, np.repeat(seeds, rows_per_seed)):
        # All seeds have equally many rows, in order, so one vectorized step replaces a step per seed.
        sums = statistic(values.reshape(len(seeds), rows_per_seed), axis=1)
        return np.asarray(sums, dtype=np.float64)
    order = np.argsort(of_seed, kind="stable")
    sorted_values, sorted_seeds = values[order], of_seed[order]
    bounds = np.searchsorted(sorted_seeds, seeds), np.searchsorted(sorted_seeds, seeds, side="right")
    each = [statistic(sorted_values[first:last]) for first, last in zip(*bounds, strict=True)]
    return np.array(each, dtype=np.float64)


def select(table: Table, variant: int, group: str | None = None) -> dict[str, NDArray[Any]]:
    """Returns the rows of a variant (and traffic group) that were complete before the run ended."""
    columns = _arrays(table)
    chosen = columns["variant"] == variant
    for end in ("time_s", "acked_s"):
        if end in columns:
            chosen &= ~np.isnan(columns[end])
    if group is not None:
        chosen &= columns["group"] == group
    return {key: values[chosen] for key, values in columns.items()}


def _arrays(table: Table) -> dict[str, NDArray[Any]]:
    return {
        key: np.asarray(values, dtype=str if isinstance(values, list) else None)
        for key, values in table.items()
    }


def by_variant(table: Table, variants: int) -> list[dict[str, NDArray[Any]]]:
    """Returns all rows of each variant, in the order of the table; faster than one `select` per variant."""
    columns = _arrays(table)
    order = np.argsort(columns["variant"], kind="stable")
    bounds = np.searchsorted(columns["variant"][order], np.arange(1, variants))
    parts = {key: np.split(values[order], bounds) for key, values in columns.items()}
    return [{key: part[variant] for key, part in parts.items()} for variant in range(variants)]


def _fraction(part: Floats, total: Floats) -> Floats:
    return np.divide(part, total, out=np.zeros_like(total), where=total > 0)

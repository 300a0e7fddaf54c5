"""The quantities that the papers report, one value per seed, from the tables of a run."""

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
    """A statistic of each page's times: one row per seed, one column per page in order of its number."""
    rows = select(pages, variant, group)
    numbers = np.unique(rows["page"])
    cells = [
        [statistic(rows["time_s"][(rows["seed"] == seed) & (rows["page"] == page)]) for page in numbers]
        for seed in seeds
    ]
    return np.array(cells, dtype=np.float64)


def deviation(values: NDArray[Any]) -> float:
    """The sample standard deviation."""
    return float(values.std(ddof=1))


def most_at_a_time(start_s: Floats, end_s: Floats) -> int:
    """How many last at the same time at most; one that ends makes room for the next at the same instant."""
    # An end may be the sum of two times, right to some nanoseconds.
    return max(int(((start_s <= at) & (end_s > at + 1e-8)).sum()) for at in start_s)


@dataclass(frozen=True)
class PortLoss:
    """What a port saw and dropped, as fractions of the packets that arrived; one value per seed."""

    loss: Floats
    high_share: Floats
    high_loss: Floats
    low_loss: Floats


def port_loss(ports: Table, variant: int, seeds: Sequence[int], port: str = "bottleneck") -> PortLoss:
    """Losses at a port by priority; a fraction of nothing is 0."""
    rows = select(ports, variant)
    return loss_of({key: values[rows["port"] == port] for key, values in rows.items()}, seeds)


def loss_of(port: Mapping[str, NDArray[Any]], seeds: Sequence[int]) -> PortLoss:
    """The same of the rows of one port."""
    high, med, low, high_gone, med_gone, low_gone = (
        per_seed(port, f"{what}_{priority}", seeds)
        for what in ("arrived", "dropped")
        for priority in ("high", "med", "low")
    )
    return PortLoss(
        loss=_fraction(high_gone + med_gone + low_gone, high + med + low),
        high_share=_fraction(high, high + med + low),
        high_loss=_fraction(high_gone, high),
        low_loss=_fraction(low_gone, low),
    )


def sender_loss(connections: Table, variant: int, seeds: Sequence[int], group: str | None = None) -> Floats:
    """Data packets dropped anywhere over data packets sent, retransmissions included."""
    rows = select(connections, variant, group)
    return _fraction(per_seed(rows, "dropped", seeds), per_seed(rows, "sent", seeds))


def per_seed(
    rows: Mapping[str, NDArray[Any]], key: str, seeds: Sequence[int], statistic: Statistic = np.sum
) -> Floats:
    """The sum, or the mean, of a column for each seed."""
    values, of_seed = rows[key], rows["seed"]
    rows_per_seed = len(values) // len(seeds)
    if rows_per_seed and np.array_equal(of_seed, np.repeat(seeds, rows_per_seed)):
        # As many rows for each, in order: one step instead of one per seed.
        made = statistic(values.reshape(len(seeds), rows_per_seed), axis=1)
        return np.asarray(made, dtype=np.float64)
    order = np.argsort(of_seed, kind="stable")
    sorted_values, sorted_seeds = values[order], of_seed[order]
    bounds = np.searchsorted(sorted_seeds, seeds), np.searchsorted(sorted_seeds, seeds, side="right")
    each = [statistic(sorted_values[first:last]) for first, last in zip(*bounds, strict=True)]
    return np.array(each, dtype=np.float64)


def select(table: Table, variant: int, group: str | None = None) -> dict[str, NDArray[Any]]:
    """The rows of one variant, and of one group of hosts, of what was over before the run was."""
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
    """All rows of each variant, in their order. Finding all at once takes no longer than finding one."""
    columns = _arrays(table)
    order = np.argsort(columns["variant"], kind="stable")
    bounds = np.searchsorted(columns["variant"][order], np.arange(1, variants))
    parts = {key: np.split(values[order], bounds) for key, values in columns.items()}
    return [{key: part[variant] for key, part in parts.items()} for variant in range(variants)]


def _fraction(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.zeros_like(whole), where=whole > 0)

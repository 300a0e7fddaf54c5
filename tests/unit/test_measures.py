"""Tests of the measures on small tables."""

import numpy as np
from pytest import approx

from catnip.analysis import measures
from catnip.store.tables import Table

SEEDS = [3, 4]


def integers(*values: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.array(values, dtype=np.uint64)


PAGES: Table = {
    "variant": integers(0, 0, 0, 0, 0, 1),
    "seed": integers(3, 3, 3, 4, 4, 3),
    "group": ["a", "b", "a", "a", "a", "a"],
    "page": integers(1, 1, 2, 2, 1, 1),
    "time_s": np.array([1.0, 3.0, 5.0, 6.0, 4.0, 99.0]),
}
PORTS: Table = {
    "variant": integers(0, 0, 0),
    "seed": integers(3, 3, 4),
    "port": ["bottleneck", "bottleneck:back", "bottleneck"],
    "arrived_high": integers(40, 7, 0),
    "arrived_med": integers(0, 7, 0),
    "arrived_low": integers(60, 7, 100),
    "dropped_high": integers(1, 7, 0),
    "dropped_med": integers(0, 7, 0),
    "dropped_low": integers(6, 7, 5),
}
CONNECTIONS: Table = {
    "variant": integers(0, 0, 0),
    "seed": integers(3, 3, 4),
    "connection": integers(0, 1, 0),
    "group": ["eca", "reno", "reno"],
    "start_s": np.array([1.0, 2.0, 0.0]),
    "received_s": np.array([2.0, 5.0, 3.0]),
    "acked_s": np.array([2.5, 5.5, 3.5]),
    "sent": integers(10, 30, 20),
    "dropped": integers(0, 3, 2),
    "retransmitted": integers(0, 3, 2),
    "timeouts": integers(0, 2, 0),
}


def test_page_times_by_seed_and_page() -> None:
    np.testing.assert_array_equal(measures.page_times(PAGES, 0, SEEDS), [[2, 5], [4, 6]])
    np.testing.assert_array_equal(measures.page_times(PAGES, 0, SEEDS, np.max), [[3, 5], [4, 6]])
    np.testing.assert_array_equal(measures.page_times(PAGES, 0, SEEDS, group="a"), [[1, 5], [4, 6]])


def test_port_loss_looks_at_one_port() -> None:
    port = measures.port_loss(PORTS, 0, SEEDS)
    assert list(port.loss) == approx([0.07, 0.05])
    assert list(port.high_share) == approx([0.4, 0])
    assert list(port.high_loss) == approx([0.025, 0])
    assert list(port.low_loss) == approx([0.1, 0.05])


def test_sender_loss_of_a_group() -> None:
    assert list(measures.sender_loss(CONNECTIONS, 0, SEEDS)) == approx([3 / 40, 0.1])
    assert list(measures.sender_loss(CONNECTIONS, 0, SEEDS, "reno")) == approx([0.1, 0.1])


def test_what_is_not_over_is_not_selected() -> None:
    started: Table = {**PAGES, "time_s": np.array([1.0, np.nan, 5.0, 6.0, 4.0, 99.0])}
    assert list(measures.select(started, 0)["time_s"]) == [1, 5, 6, 4]
    open_: Table = {**CONNECTIONS, "acked_s": np.array([2.5, np.nan, 3.5])}
    assert list(measures.sender_loss(open_, 0, SEEDS)) == approx([0, 0.1])


def test_seeds_with_as_many_rows_each_are_summed_as_others_are() -> None:
    values = np.random.default_rng(1).random(60)
    for seeds in (np.repeat([3, 4], 30), np.repeat([3, 4], [29, 31])):
        for statistic in (np.sum, np.mean):
            each = [statistic(values[seeds == seed]) for seed in (3, 4)]
            sums = measures.per_seed({"seed": seeds, "time_s": values}, "time_s", SEEDS, statistic)
            np.testing.assert_array_equal(sums, each)

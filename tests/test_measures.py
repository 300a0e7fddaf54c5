"""Measures of small tables whose values can be seen."""

import numpy as np
from pytest import approx

from catnip import measures
from catnip.results import Table

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


ECHOES: Table = {
    "variant": integers(0, 0, 0),
    "seed": integers(3, 3, 4),
    "number": integers(0, 1, 0),
    "time_s": np.array([0.1, 0.3, 0.5]),
}


def without_rows(table: Table) -> Table:
    return {key: values[:0] for key, values in table.items()}


NOTHING = {
    name: without_rows(table)
    for name, table in {"pages": PAGES, "connections": CONNECTIONS, "echoes": ECHOES, "ports": PORTS}.items()
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


def test_summary_of_drawn_pages_weighs_each_fetch_the_same() -> None:
    kept = [0, 1, 2, 3, 5]
    pages: Table = {key: np.asarray(values)[kept] for key, values in PAGES.items()}
    row = measures.summary(NOTHING | {"pages": pages}, ["web"], SEEDS)["web"]
    assert row["page_time_s"].mean == approx((3 + 6) / 2)


def test_summary_of_echoes_and_of_packets_of_three_priorities() -> None:
    ports: Table = {**PORTS, "arrived_med": integers(100, 7, 0), "dropped_med": integers(13, 7, 0)}
    row = measures.summary(NOTHING | {"echoes": ECHOES, "ports": ports}, ["telnet"], SEEDS)["telnet"]
    assert row["echo_s"].mean == approx((0.2 + 0.5) / 2)
    assert row["loss_pct"].mean == approx((10 + 5) / 2)
    assert row["high_share_pct"].mean == approx(20 / 2)


def test_summary_of_pages_weighs_each_page_the_same() -> None:
    row = measures.summary(NOTHING | {"pages": PAGES, "ports": PORTS}, ["web"], SEEDS)["web"]
    assert row["page_time_s"].mean == approx((3.5 + 5) / 2)
    assert row["loss_pct"].mean == approx(6)
    assert row["high_loss_pct"].mean == approx(1.25)


def test_summary_of_transfers_without_pages_or_ports() -> None:
    row = measures.summary(NOTHING | {"connections": CONNECTIONS}, ["bulk"], SEEDS)["bulk"]
    assert row["received_s"].mean == approx((2 + 3) / 2)
    assert row["completed_s"].mean == approx((2.5 + 3.5) / 2)
    assert "loss_pct" not in row


def test_a_summary_of_several_variants_is_that_of_each_alone() -> None:
    both: Table = {
        key: [*values, *values] if isinstance(values, list) else np.concatenate([values, values])
        for key, values in CONNECTIONS.items()
    } | {"variant": integers(0, 0, 0, 1, 1, 1)}
    alone = measures.summary(NOTHING | {"connections": CONNECTIONS}, ["a"], SEEDS)["a"]
    assert measures.summary(NOTHING | {"connections": both}, ["a", "b"], SEEDS) == {"a": alone, "b": alone}


def test_seeds_with_as_many_rows_each_are_summed_as_others_are() -> None:
    values = np.random.default_rng(1).random(60)
    for seeds in (np.repeat([3, 4], 30), np.repeat([3, 4], [29, 31])):
        for statistic in (np.sum, np.mean):
            each = [statistic(values[seeds == seed]) for seed in (3, 4)]
            made = measures.per_seed({"seed": seeds, "time_s": values}, "time_s", SEEDS, statistic)
            np.testing.assert_array_equal(made, each)

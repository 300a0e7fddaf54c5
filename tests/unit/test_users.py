"""Tests of goodput without thinking time, and of fairness over all groups, against sums by hand."""

import math
from typing import Any

import numpy as np
import pytest
from pytest import approx

import catnip
from catnip.analysis import users
from catnip.analysis.summary import BUSY
from catnip.store.tables import Table

TWO_GROUPS: dict[str, Any] = {
    "id": "USERS",
    "title": "Two groups of users",
    "duration": "20s",
    "node": {
        "server": {"kind": "host"},
        "router": {"kind": "router"},
        "client": {"kind": "host", "count": 3},
    },
    "link": {
        "pipe": {"from": "server", "to": "router", "rate": "2Mbit", "delay": "20ms", "queue": "drop-tail:20"},
        "access": {
            "from": "router",
            "to": "client",
            "rate": "9Mbit",
            "delay": "1ms",
            "queue": "drop-tail:99",
        },
    },
    "traffic": {
        "small": {"kind": "bulk", "from": "server", "to": "client", "bytes": "16KB"},
        "large": {"kind": "bulk", "from": "server", "to": "client", "bytes": "256KB"},
    },
}


@pytest.mark.parametrize(
    ("received", "index"),
    [([1, 1], 1.0), ([1, 0, 0, 0], 0.25), ([3, 1], 0.8), ([5], math.nan), ([0, 0], math.nan)],
)
def test_the_index_is_that_of_jain(received: list[float], index: float) -> None:
    assert users.jain(received) == approx(index, nan_ok=True)


def test_times_that_overlap_count_once_for_a_user_and_for_each_of_two() -> None:
    user = np.array([1, 0, 0, 0, 1])
    start_s, end_s = np.array([0.0, 0.0, 1.0, 5.0, 0.5]), np.array([1.0, 2.0, 1.5, 6.0, 3.0])
    added_s = users.busy_s(user, start_s, end_s)
    assert [added_s[user == one].sum() for one in (0, 1)] == approx([3.0, 3.0])
    assert users.busy_s(*(np.zeros(0) for _ in range(3))).tolist() == []


def test_the_index_over_all_groups_is_that_of_the_bytes_of_all_users() -> None:
    results = catnip.run(TWO_GROUPS, seeds=2)
    bytes_of = [16 * 1024.0] * 3 + [256 * 1024.0] * 3
    [(name, index)] = results.fairness.items()
    assert index.mean == approx(users.jain(bytes_of)) and math.isnan(index.low)
    assert all(of.means["fairness"].mean == approx(1) for of in results.summary[name].groups.values())
    [with_interval] = catnip.run(TWO_GROUPS, seeds=10).fairness.values()
    assert with_interval.low == approx(with_interval.mean)


def test_where_rows_do_not_give_all_bytes_there_is_no_index() -> None:
    assert catnip.run({**TWO_GROUPS, "warm_up": "1s"}, seeds=1).fairness == {}
    one_group = {**TWO_GROUPS, "traffic": {"large": TWO_GROUPS["traffic"]["large"]}}
    assert catnip.run(one_group, seeds=1).fairness == {}
    assert catnip.run(TWO_GROUPS, seeds=1, tables=["runs"]).fairness == {}


def by_hand(tables: dict[str, Table], group: str, seed: int) -> float:
    """Returns the rate of the pages of a group, user by user."""
    pages, runs = tables["pages"], tables["runs"]
    [at_seed] = np.flatnonzero(np.asarray(runs["seed"]) == seed)
    end_s, warm_up_s = (float(np.asarray(runs[key])[at_seed]) for key in ("end_s", "warm_up_s"))
    of: dict[int, list[tuple[float, float]]] = {}
    bits = 0.0
    keys = ("seed", "group", "client", "start_s", "time_s", "delivered_bytes")
    for at, name, client, start_s, time_s, delivered in zip(*(pages[key] for key in keys), strict=True):
        if (at, name) == (seed, group) and start_s >= warm_up_s:
            of.setdefault(client, []).append((start_s, end_s if math.isnan(time_s) else start_s + time_s))
            bits += 8 * float(delivered)
    busy = sum(end - start for spans in of.values() for start, end in spans)
    return bits / busy / 1e6


def test_goodput_while_busy_leaves_out_the_time_in_which_users_think() -> None:
    results = catnip.run("web-queues", seeds=2)
    name = results.variants[0]
    some = results.only([name], results.seeds)
    for group, of in results.summary[name].groups.items():
        if of.kind == "pages":
            rates = [by_hand(some, group, seed) for seed in results.seeds]
            assert list(of.values[BUSY]) == approx(rates, rel=1e-6)
            assert of.means[BUSY].mean == approx(np.mean(rates), rel=1e-6)


def test_of_files_that_follow_at_once_it_is_the_bytes_by_the_time_of_the_connections() -> None:
    results = catnip.run(TWO_GROUPS, seeds=1)
    connections = results.tables["connections"]
    for group, of in results.summary[results.variants[0]].groups.items():
        mine = np.asarray(connections["group"]) == group
        took_s = np.asarray(connections["received_s"])[mine] - np.asarray(connections["start_s"])[mine]
        bits = 8 * np.asarray(connections["delivered_bytes"])[mine].sum()
        assert of.means[BUSY].mean == approx(bits / took_s.sum() / 1e6)

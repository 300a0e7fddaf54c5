"""Users over all their activities and groups: goodput without thinking time, and fairness among them all."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from catnip.analysis import stats
from catnip.analysis.interval import Interval
from catnip.analysis.summary import BUSY, GroupSummary, Summary
from catnip.store.tables import Table

ACTIVITIES = {
    "pages": ("pages", "time_s"),
    "segments": ("segments", "time_s"),
    "transfers": ("connections", "received_s"),
}
"""Table of the activities of each kind of group, and the column that tells how long, or when, each ended."""
LEAST_SEEDS = 10
"""Number of seeds from which on an index has an interval."""
Run: TypeAlias = tuple[int, int]
"""Index of a variant, and a seed."""


def with_busy_goodput(
    summaries: Mapping[str, Summary], tables: Mapping[str, Table], counts: Sequence[int], seeds: Sequence[int]
) -> dict[str, Summary]:
    """Returns the summaries with the goodput of each group's users while they wait for something.

    It is the sum of the bytes of all activities by the sum of the times in which a user has an activity, of
    activities that begin after the warm-up. Groups whose activities have no rows with bytes do not have it.
    """
    found = {table: _rates(tables, table, end) for table, end in ACTIVITIES.values() if table in tables}
    return {
        name: replace(
            one,
            groups={
                group: _with_rates(of, found, group, [(at, seed) for seed in seeds[: counts[at]]])
                for group, of in one.groups.items()
            },
        )
        for at, (name, one) in enumerate(summaries.items())
    }


def fairness(
    tables: Mapping[str, Table], variants: Sequence[str], counts: Sequence[int], seeds: Sequence[int]
) -> dict[str, Interval]:
    """Returns Jain's index of the bytes that the users of all groups received, of each variant.

    A variant does not have it if the rows of connections do not give its groups' indices, because it has a
    warm-up or users without any connection, or if it has a single group.
    """
    if "connections" not in tables:
        return {}
    of_run, expected = _received(tables["connections"]), _expected(tables["groups"])
    found = {}
    for at, name in enumerate(variants):
        runs = [(at, seed) for seed in seeds[: counts[at]]]
        if all(_are_whole(of_run.get(run, {}), expected.get(run, {})) for run in runs):
            mean = stats.mean(
                [jain([of for users in of_run[run].values() for of in users.values()]) for run in runs]
            )
            is_known = mean.n >= LEAST_SEEDS
            found[name] = mean if is_known else Interval(mean.mean, math.nan, math.nan, mean.n)
    return found


def jain(received: Sequence[float]) -> float:
    """Returns Jain's fairness index; NaN for fewer than two users, and if no user received any bytes."""
    sent = np.asarray(received, float)
    squares = float((sent**2).sum())
    return float(sent.sum() ** 2 / (len(sent) * squares)) if len(sent) > 1 and squares else math.nan


def busy_s(user: NDArray[Any], start_s: NDArray[Any], end_s: NDArray[Any]) -> NDArray[np.float64]:
    """Returns by how much each activity adds to the time in which its user has one or more of them."""
    order = np.lexsort((start_s, user))
    _, number = np.unique(user[order], return_inverse=True)
    # Users are laid one after the other on one axis of time, so that none overlaps another.
    shift_s = number * (float(end_s.max(initial=0.0)) + 1.0)
    start, end = start_s[order] + shift_s, end_s[order] + shift_s
    reached = np.concatenate([[-np.inf], np.maximum.accumulate(end)[:-1]])
    added = np.empty(len(order))
    added[order] = np.maximum(end - np.maximum(start, reached), 0.0)
    return added


def _with_rates(
    of: GroupSummary, found: Mapping[str, Mapping[Any, float]], group: str, runs: Sequence[Run]
) -> GroupSummary:
    """Returns the summary of a group with its rates, if all runs have one."""
    table, _ = ACTIVITIES.get(of.kind, ("", ""))
    rates = [found.get(table, {}).get((*run, group), math.nan) for run in runs]
    if any(map(math.isnan, rates)):
        return of
    means = {}
    for key, value in of.means.items():
        means[key] = value
        if key == "goodput_mbps":
            means[BUSY] = stats.mean(rates)
    return replace(of, means=means, values={**of.values, BUSY: rates})


def _rates(tables: Mapping[str, Table], name: str, end: str) -> dict[tuple[int, int, str], float]:
    """Returns the rate of each variant, seed and group, from the activities of a table."""
    rows, runs = ({key: np.asarray(column) for key, column in tables[of].items()} for of in (name, "runs"))
    variants, seeds = (rows[key].astype(np.int64) for key in ("variant", "seed"))
    every_seed = np.unique(runs["seed"].astype(np.int64))
    codes = [
        variant.astype(np.int64) * len(every_seed) + np.searchsorted(every_seed, seed.astype(np.int64))
        for variant, seed in ((runs["variant"], runs["seed"]), (variants, seeds))
    ]
    order = np.argsort(codes[0])
    run = order[np.searchsorted(codes[0][order], codes[1])]
    start_s = rows["start_s"]
    known_s = rows[end] if end != "time_s" else start_s + rows[end]
    end_s = np.where(np.isnan(known_s), runs["end_s"][run], known_s)
    chosen = np.flatnonzero(start_s >= runs["warm_up_s"][run])
    names, group = np.unique(rows["group"][chosen], return_inverse=True)
    clients, client = np.unique(rows["client"][chosen], return_inverse=True)
    key = run[chosen] * len(names) + group
    added_s = busy_s(key * len(clients) + client, start_s[chosen], end_s[chosen])
    bits = np.bincount(key, 8.0 * rows["delivered_bytes"][chosen])
    time_s = np.bincount(key, added_s)
    found = {}
    for at in np.flatnonzero(time_s > 0).tolist():
        of_run, of_group = divmod(at, len(names))
        place = int(runs["variant"][of_run]), int(runs["seed"][of_run]), str(names[of_group])
        found[place] = float(bits[at] / time_s[at] / 1e6)
    return found


def _received(connections: Table) -> dict[Run, dict[str, dict[int, float]]]:
    """Returns the bytes that each user received, by run, group and user."""
    keys = [np.asarray(connections[key]) for key in ("variant", "seed", "group", "client")]
    coded = [np.unique(column, return_inverse=True) for column in keys]
    code = np.zeros(len(keys[0]), np.int64)
    for values, number in coded:
        code = code * len(values) + number
    users, first, of_user = np.unique(code, return_index=True, return_inverse=True)
    delivered = np.bincount(of_user, np.asarray(connections["delivered_bytes"]).astype(float), len(users))
    found: dict[Run, dict[str, dict[int, float]]] = {}
    columns = (column[first].tolist() for column in keys)
    for variant, seed, group, client, received in zip(*columns, delivered.tolist(), strict=True):
        found.setdefault((variant, seed), {}).setdefault(str(group), {})[client] = received
    return found


def _expected(groups: Table) -> dict[Run, dict[str, tuple[float, float]]]:
    """Returns the bytes and the index of each group, by run and group."""
    found: dict[Run, dict[str, tuple[float, float]]] = {}
    columns = (groups[key] for key in ("variant", "seed", "group", "delivered_bytes", "fairness"))
    for variant, seed, group, delivered, index in zip(*columns, strict=True):
        found.setdefault((int(variant), int(seed)), {})[str(group)] = float(delivered), float(index)
    return found


def _are_whole(
    received: Mapping[str, Mapping[int, float]], expected: Mapping[str, tuple[float, float]]
) -> bool:
    """Returns true if the users with connections give the bytes and the indices of several groups."""
    return (
        len(expected) > 1
        and set(received) == set(expected)
        and all(
            sum(received[group].values()) == delivered
            and np.isclose(jain(list(received[group].values())), index, rtol=1e-9, equal_nan=True)
            for group, (delivered, index) in expected.items()
        )
    )

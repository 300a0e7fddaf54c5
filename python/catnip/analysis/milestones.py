"""Milestones of the loads of recorded pages: means by variant, with the intervals of page times."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from catnip.analysis import summary
from catnip.analysis.summary import GroupSummary, Read, Summary
from catnip.store.tables import Column, Table

MILESTONES = ("first_byte_s", "render_s", "load_s", "byte_index_s", "time_s")
"""Columns of the table `loads`, in the order of the page."""
TABLES: Mapping[str, Sequence[str]] = {
    "loads": ("seed", "group", "page", "start_s", *MILESTONES),
    "runs": ("seed", "warm_up_s"),
}
"""Columns that milestones need of each results table, by the name of the table."""
Columns: TypeAlias = Mapping[str, Column]
NO_COUNTS = np.zeros(0, np.uint64)
NO_PORTS: Columns = {
    "seed": NO_COUNTS,
    "port": [],
    **{f"{of}_{mark}": NO_COUNTS for of in ("arrived", "dropped") for mark in ("high", "med", "low")},
    **{key: np.zeros(0) for key in ("utilization", "queue_mean_packets", "queue_delay_mean_s")},
}
"""Table of ports without rows."""


def of_tables(
    summaries: Mapping[str, Summary], tables: Mapping[str, Table], counts: Sequence[int], seeds: Sequence[int]
) -> dict[str, Summary]:
    """Returns the summaries with the milestones in whole results tables, if these have the loads of pages."""
    if any(name not in tables for name in TABLES):
        return dict(summaries)
    needed = {name: {key: tables[name][key] for key in ("variant", *keys)} for name, keys in TABLES.items()}
    return with_milestones(summaries, partial(summary.rows_of, needed), counts, seeds)


def with_milestones(
    summaries: Mapping[str, Summary], read: Read, counts: Sequence[int], seeds: Sequence[int]
) -> dict[str, Summary]:
    """Returns the summaries with the milestones of each group that has loaded recorded pages.

    They cover loads that begin after the warm-up. `read`, `counts` and `seeds` are as in `summary.summarize`.
    """

    def tables(name: str, variant: int) -> Columns:
        if name == "runs":
            return {"seed": NO_COUNTS, "hops": NO_COUNTS}
        if name == "ports":
            return NO_PORTS
        loads = _after_warm_up(read("loads", variant), read("runs", variant))
        return _as_transfers(loads) if name == "transfers" else _as_groups(loads)

    found = summary.summarize(tables, list(summaries), seeds, counts)
    return {
        name: replace(
            one,
            groups={
                group: replace(of, milestones=_of(group, of, found[name])) for group, of in one.groups.items()
            },
        )
        for name, one in summaries.items()
    }


def _of(group: str, of: GroupSummary, found: Summary) -> dict[str, GroupSummary]:
    """Returns the milestones of a group; loads that have not ended count as unfinished."""
    named = {milestone: found.groups.get(_named(milestone, group)) for milestone in MILESTONES}
    return {
        milestone: replace(one, started=of.started).of_look(of.confidence)
        for milestone, one in named.items()
        if one is not None
    }


def _named(milestone: str, group: str) -> str:
    return f"{milestone} {group}"


def _after_warm_up(loads: Columns, runs: Columns) -> dict[str, NDArray[Any]]:
    columns = {key: np.asarray(column) for key, column in loads.items()}
    seeds, warm_up_s = np.asarray(runs["seed"]), np.asarray(runs["warm_up_s"])
    order = np.argsort(seeds)
    from_s = warm_up_s[order[np.searchsorted(seeds[order], columns["seed"])]]
    chosen = columns["start_s"] >= from_s
    return {key: column[chosen] for key, column in columns.items()}


def _as_transfers(loads: Mapping[str, NDArray[Any]]) -> Columns:
    """Returns transfers of a group for each milestone, whose times are those until it.

    So the means have the rules of page times: each page has the same weight, and an interval that would be
    wrong too often is left out.
    """
    count = len(MILESTONES)
    time_s = np.concatenate([loads[milestone] for milestone in MILESTONES])
    return {
        "seed": np.tile(loads["seed"], count).astype(np.uint64),
        "group": _names(loads),
        "number": np.tile(loads["page"], count).astype(np.uint64),
        "time_s": time_s,
        "waited_s": time_s,
    }


def _as_groups(loads: Mapping[str, NDArray[Any]]) -> Columns:
    counts = Counter(_names(loads))
    names, ended = list(counts), np.array(list(counts.values()), np.uint64)
    none = np.zeros(len(names), np.uint64)
    return {
        "seed": np.resize(loads["seed"], len(names)).astype(np.uint64),
        "group": names,
        "kind": ["pages"] * len(names),
        **dict.fromkeys(("started", "finished"), ended),
        **dict.fromkeys(("connections", "sent", "retransmitted", "timeouts"), none),
        **dict.fromkeys(("goodput_mbps", "rtt_mean_s", "fairness"), np.full(len(names), np.nan)),
    }


def _names(loads: Mapping[str, NDArray[Any]]) -> list[str]:
    groups = loads["group"].tolist()
    return [_named(milestone, group) for milestone in MILESTONES for group in groups]

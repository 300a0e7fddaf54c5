"""What a reader asks first of any run: how its transfers fared, by traffic group, and what its links did."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catnip import measures, stats
from catnip.measures import Floats
from catnip.stats import Interval
from catnip.tables import Table

_RUN = ("variant", "seed")
_TIMED = (*_RUN, "group", "start_s", "time_s")
_COUNTED = [f"{what}_{colour}" for what in ("arrived", "dropped") for colour in ("high", "med", "low")]
TABLES: Mapping[str, Sequence[str]] = {
    "runs": (*_RUN, "end_s", "hops"),
    "pages": (*_TIMED, "page"),
    "echoes": (*_TIMED,),
    "connections": (
        *(*_RUN, "group", "client", "start_s", "received_s", "acked_s", "delivered_bytes"),
        *("retransmitted", "timeouts", "rtt_mean_s", "rtt_samples"),
    ),
    "ports": (*_RUN, "port", *_COUNTED, "utilization", "queue_mean_packets", "queue_delay_mean_s"),
}
"""Tables that a summary takes, and what of them."""
Rows = Mapping[str, NDArray[Any]]
BLOCKS = 50
"""Seeds are left out in no more parts than these."""


@dataclass(frozen=True)
class OfGroup:
    """The transfers of a traffic group over all seeds: pages if it has any, or keystrokes, or connections."""

    kind: str
    """What they are: `pages`, `keystrokes` or `transfers`."""
    started: int
    finished: int
    """Before the end of the run. Times are those of these; where others are missing, the longest are."""
    means: Mapping[str, Interval]
    """Of finished ones, by measure, and goodput."""
    restricted_s: Interval | None = None
    """The mean of what a transfer takes or `horizon_s`, whichever is less, by Kaplan and Meier: what is known
    of those that have not finished counts, too. None where all have finished in all variants."""
    horizon_s: float = math.nan

    @property
    def is_cut_short(self) -> bool:
        """The end of the run has kept some from finishing."""
        return self.finished < self.started


@dataclass(frozen=True)
class Summary:
    """Of one variant over its seeds."""

    groups: Mapping[str, OfGroup]
    links: Mapping[str, Mapping[str, Interval]]
    """By port, that is, by link and direction."""

    def counts(self) -> tuple[int, int]:
        """Transfers finished and started, of all groups."""
        groups = self.groups.values()
        return sum(group.finished for group in groups), sum(group.started for group in groups)


def summarize(
    tables: Mapping[str, Table], variants: Sequence[str], seeds: Sequence[int]
) -> dict[str, Summary]:
    """Each variant's groups and links; the seeds ascend."""
    parts = {name: measures.by_variant(tables[name], len(variants)) for name in TABLES}
    by_variant = [{name: part[variant] for name, part in parts.items()} for variant in range(len(variants))]
    names = dict.fromkeys(name for tables in by_variant for name in _groups(tables))
    groups = {name: _of_group([_Transfers.of(one, name) for one in by_variant], seeds) for name in names}
    return {
        variant: Summary(
            {name: of[index] for name, of in groups.items() if of[index].started}, _links(one["ports"], seeds)
        )
        for index, (variant, one) in enumerate(zip(variants, by_variant, strict=True))
    }


@dataclass(frozen=True)
class _Transfers:
    """What the users of a group wait for, in one variant."""

    kind: str
    rows: Rows
    time_s: Floats
    """How long each has taken, or has taken so far."""
    is_over: NDArray[np.bool_]
    connections: Rows
    end_s: Floats
    """Of each run."""

    @classmethod
    def of(cls, tables: Mapping[str, Rows], group: str) -> "_Transfers":
        connections = _of(tables["connections"], group)
        runs = tables["runs"]
        kind, rows = "transfers", connections
        for table, what in (("echoes", "keystrokes"), ("pages", "pages")):
            if group in tables[table]["group"]:
                kind, rows = what, _of(tables[table], group)
        time_s = rows["acked_s"] - rows["start_s"] if kind == "transfers" else rows["time_s"]
        is_over = ~np.isnan(time_s)
        end_s = runs["end_s"][np.searchsorted(runs["seed"], rows["seed"])]
        so_far_s = np.where(is_over, time_s, end_s - rows["start_s"])
        return cls(kind, rows, so_far_s, is_over, connections, runs["end_s"])


def _groups(tables: Mapping[str, Rows]) -> Iterable[str]:
    several = (np.unique(tables[table]["group"]) for table in ("pages", "echoes", "connections"))
    return (str(name) for names in several for name in names)


def _of(rows: Rows, group: str) -> Rows:
    chosen = rows["group"] == group
    return {key: values[chosen] for key, values in rows.items()}


def _of_group(variants: Sequence[_Transfers], seeds: Sequence[int]) -> list[OfGroup]:
    """A group in each variant. All are looked at as long as is known of each."""
    with_rows = [one for one in variants if len(one.time_s)]
    is_cut_short = any(not one.is_over.all() for one in with_rows)
    horizon_s = min(_known_until_s(one) for one in with_rows) if is_cut_short else math.nan
    if math.isinf(horizon_s):
        horizon_s = max(float(one.time_s.max()) for one in with_rows)
    return [_of_variant(one, seeds, horizon_s) for one in variants]


def _known_until_s(of: _Transfers) -> float:
    """Until when it is known how many transfers take longer: if the longest one is over, that is none."""
    longest_s = of.time_s.max()
    return math.inf if of.is_over[of.time_s == longest_s].all() else float(longest_s)


def _of_variant(of: _Transfers, seeds: Sequence[int], horizon_s: float) -> OfGroup:
    started, finished = len(of.is_over), int(of.is_over.sum())
    over = {key: values[of.is_over] for key, values in of.rows.items()}
    over["took_s"] = of.time_s[of.is_over]
    means: dict[str, Interval] = {}
    if finished:
        means = _times(of.kind, over, seeds)
    means |= _rates(of.connections, of.end_s, seeds)
    restricted = None if math.isnan(horizon_s) or not started else _restricted(of, horizon_s)
    return OfGroup(of.kind, started, finished, means, restricted, horizon_s)


def _rates(connections: Rows, end_s: Floats, seeds: Sequence[int]) -> dict[str, Interval]:
    """What connections got of the network, whether they are over or not."""
    delivered = measures.per_seed(connections, "delivered_bytes", seeds)
    with np.errstate(invalid="ignore"):  # a run of no time at all
        made = {"goodput_mbps": stats.mean(8e-6 * delivered / end_s)}
    samples = measures.per_seed(connections, "rtt_samples", seeds)
    if samples.all():
        total = {
            **connections,
            "rtt_s": np.nan_to_num(connections["rtt_mean_s"]) * connections["rtt_samples"],
        }
        made["rtt_ms"] = stats.mean(1e3 * measures.per_seed(total, "rtt_s", seeds) / samples)
    users = np.unique(connections["client"])
    if len(users) > 1:
        made["fairness"] = stats.mean(_fairness(connections, seeds, users))
    return made


def _fairness(connections: Rows, seeds: Sequence[int], users: NDArray[Any]) -> Floats:
    """Jain's index of what users got: from 1 / their number to 1 (Jain, Chiu and Hawe 1984, equation 1)."""
    run, user = np.searchsorted(seeds, connections["seed"]), np.searchsorted(users, connections["client"])
    cells = len(seeds) * len(users)
    got = np.bincount(run * len(users) + user, connections["delivered_bytes"], minlength=cells)
    got = got.reshape(len(seeds), len(users))
    with np.errstate(invalid="ignore"):  # nobody got anything
        return np.asarray(got.sum(axis=1) ** 2 / (len(users) * (got**2).sum(axis=1)))


def _times(kind: str, over: Rows, seeds: Sequence[int]) -> dict[str, Interval]:
    if kind == "pages":
        return {"page_time_s": stats.mean(_page_means(over, seeds))}
    if kind == "keystrokes":
        return {"echo_s": _mean(over, "took_s", seeds)}
    received = {**over, "received": over["received_s"] - over["start_s"]}
    return {
        "received_s": _mean(received, "received", seeds),
        "completed_s": _mean(over, "took_s", seeds),
        "retransmitted": _mean(over, "retransmitted", seeds),
        "timeouts": _mean(over, "timeouts", seeds),
    }


def _mean(rows: Rows, key: str, seeds: Sequence[int]) -> Interval:
    """The mean over the seeds that have any of the means of each."""
    with_rows = np.intersect1d(rows["seed"], seeds)
    return stats.mean(measures.per_seed(rows, key, with_rows.tolist(), np.mean))


def _page_means(pages: Rows, seeds: Sequence[int]) -> Floats:
    """Of known pages each counts the same, as in the papers' averages; of drawn ones each fetch."""
    with_rows = np.unique(pages["seed"])
    numbers, place = np.unique(pages["page"], return_inverse=True)
    cells = np.searchsorted(with_rows, pages["seed"]) * len(numbers) + place
    counts = np.bincount(cells, minlength=len(with_rows) * len(numbers))
    if (counts > 0).all():
        sums = np.bincount(cells, pages["took_s"], minlength=len(counts))
        return np.asarray((sums / counts).reshape(len(with_rows), len(numbers)).mean(axis=1))
    return measures.per_seed(pages, "took_s", with_rows.tolist(), np.mean)


def _restricted(of: _Transfers, horizon_s: float) -> Interval:
    """The restricted mean, and how it varies with what seeds bring, left out in turn (jackknife)."""
    seeds = np.unique(of.rows["seed"])
    whole_s = _area(of, np.ones(len(of.is_over), dtype=bool), horizon_s)
    if len(seeds) == 1:
        return Interval(whole_s, math.nan, math.nan, 1)
    blocks = np.array_split(seeds, min(len(seeds), BLOCKS))
    without_s = np.array([_area(of, ~np.isin(of.rows["seed"], block), horizon_s) for block in blocks])
    return stats.mean(len(blocks) * whole_s - (len(blocks) - 1) * without_s)


def _area(of: _Transfers, chosen: NDArray[np.bool_], horizon_s: float) -> float:
    """Beneath the estimated share of transfers that take longer, up to the horizon."""
    from scipy.stats import CensoredData, ecdf  # noqa: PLC0415 -- slow to load, and seldom needed

    is_over = of.is_over[chosen]
    time_s = of.time_s[chosen]
    curve = ecdf(CensoredData(time_s[is_over], right=time_s[~is_over])).sf
    at_s = np.minimum(np.concatenate([[0.0], curve.quantiles, [horizon_s]]), horizon_s)
    return float((np.diff(at_s) * np.concatenate([[1.0], curve.probabilities])).sum())


def _links(ports: Rows, seeds: Sequence[int]) -> dict[str, dict[str, Interval]]:
    made = {}
    for name in dict.fromkeys(ports["port"].tolist()):
        here = {key: values[ports["port"] == name] for key, values in ports.items()}
        port = measures.loss_of(here, seeds)
        measured = {
            "utilization_pct": stats.mean(100 * measures.per_seed(here, "utilization", seeds)),
            "queue_packets": stats.mean(measures.per_seed(here, "queue_mean_packets", seeds)),
            "queue_delay_ms": stats.mean(1e3 * measures.per_seed(here, "queue_delay_mean_s", seeds)),
            "loss_pct": stats.mean(100 * port.loss),
        }
        if port.high_share.any():
            measured["high_share_pct"] = stats.mean(100 * port.high_share)
            measured["high_loss_pct"] = stats.mean(100 * port.high_loss)
            measured["low_loss_pct"] = stats.mean(100 * port.low_loss)
        made[str(name)] = measured
    return made

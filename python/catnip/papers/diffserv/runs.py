"""Runs of the DiffServ paper's network, a tree, each executed once and reduced to what its claims need."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catnip.analysis import measures, stats
from catnip.analysis.interval import Interval
from catnip.analysis.measures import Floats
from catnip.base import paths
from catnip.papers.rows import Rows, where
from catnip.papers.runs import Runs, shifted
from catnip.papers.unavailable import Unavailable
from catnip.store.tables import Table

WARM_UP_S, END_S = 50, 350
COUNTED_S = END_S - WARM_UP_S
SEEDS, SMALL_SEEDS = 5, 10
LARGE = (
    "diffserv",
    "diffserv-alone",
    "diffserv-scaled",
    "diffserv-recoveries",
    "diffserv-reverse",
    "diffserv-first-timeout",
    "diffserv-hosts",
    "diffserv-edge",
    "diffserv-random",
    "diffserv-long",
    "diffserv-objects",
    "diffserv-thresholds",
)
"""Scenarios of the whole tree, which are run with fewer seeds."""
RTTS_MS = (20, 40, 80, 120, 200)
TYPISTS, TYPIST_STEP = 20, 21
"""Number of measured Telnet users, and distance of their numbers in the whole tree."""
TABLES = ("pages", "echoes", "connections", "ports")

DROP_TAIL, RED, CODEL, FQ_CODEL = "drop tail", "RED", "CoDel", "FQ-CoDel"
APPL_250, APPL_110, ER_TBM = "APPL-250K", "APPL-110K", "ER-TBM"
TCP_DS, TCP_RAND = "TCP-DS", "TCP-RAND"
SCHEMES = (DROP_TAIL, RED, APPL_250, APPL_110, TCP_DS, TCP_RAND, ER_TBM)
"""Queueing and marking schemes that the DiffServ paper compares."""
RATES_MBPS = (45, 60, 75, 100, 175)

SMALLER = 5
"""Factor by which the small tree has fewer users and a slower bottleneck than the whole tree."""

WEB_10, WEB_11 = "web-10-probe", "web-11-probe"
GROUPS = {"1.0": WEB_10, "1.1": WEB_11}
"""Traffic groups of the users who fetch the measured pages, by version of HTTP."""
CHUNK = 2
"""Number of variants to run together: enough for two cores, few enough for the memory."""


@dataclass(frozen=True)
class Times:
    """Durations of pages, files or echoes that ended after the warm-up, with indices of run and user."""

    seconds: Floats
    seed: NDArray[Any]
    user: NDArray[Any]
    seeds: int

    def per_seed(self, statistic: Any) -> Floats:
        """Returns a statistic of the durations in each run; NaN for a run without durations."""
        of_runs = (self.seconds[self.seed == seed] for seed in range(self.seeds))
        return np.array([statistic(times) if len(times) else np.nan for times in of_runs])

    def above(self, limit_s: float) -> Floats:
        """Returns the fraction of durations above a limit, for each run."""
        return self.per_seed(lambda times: (times > limit_s).mean())

    def quantile(self, q: float) -> Floats:
        """Returns the quantile `q` of the durations in each run, s."""
        return self.per_seed(lambda times: np.quantile(times, q))

    def counts(self) -> Floats:
        """Returns the number of durations in each run."""
        return np.bincount(self.seed.astype(int), minlength=self.seeds).astype(float)

    def of(self, users: Iterable[int]) -> "Times":
        """Returns only the durations of the users with these indices."""
        chosen = np.isin(self.user, list(users))
        return Times(self.seconds[chosen], self.seed[chosen], self.user[chosen], self.seeds)


class ByGroup(dict[str, Times]):
    """Durations by traffic group; empty for a group in which no user finished anything."""

    def __init__(self, groups: Mapping[str, Times], seeds: int) -> None:
        super().__init__(groups)
        self._seeds = seeds

    def __missing__(self, group: str) -> Times:
        none = np.array([])
        return Times(none, none, none, self._seeds)


@dataclass(frozen=True)
class Port:
    """Packets at a port by priority, and its delivered load, for each run including its warm-up."""

    arrived: Mapping[str, Floats]
    dropped: Mapping[str, Floats]
    bps: Floats
    utilization: Floats

    def loss(self) -> Floats:
        """Returns the fraction of arriving packets that the port dropped, for each run."""
        return np.asarray(sum(self.dropped.values()) / sum(self.arrived.values()))


@dataclass(frozen=True)
class Result:
    """Results of the runs of one variant, over all seeds."""

    pages: ByGroup
    connections: ByGroup
    """Durations of connections; a file takes one connection."""
    page_bytes: Mapping[str, Floats]
    page_connections: Mapping[str, Floats]
    file_bytes: Mapping[str, Floats]
    echoes: Times
    keystrokes_s: Floats
    """User, start (s) and end (s) of each echo of the first run, sorted by user and start."""
    ports: Mapping[str, Port]

    @property
    def forward(self) -> Port:
        """Port of the bottleneck from the sources to the users."""
        return self.ports["bottleneck"]

    @property
    def back(self) -> Port:
        """Port of the bottleneck from the users to the sources."""
        return self.ports["bottleneck:back"]

    def bottleneck(self) -> list[Port]:
        """Returns both directions of the bottleneck."""
        return [self.forward, self.back]

    def of_routers(self) -> list[Port]:
        """Returns the ports at which routers send."""
        return [port for name, port in self.ports.items() if not _is_of_hosts(name)]

    def of_hosts(self) -> list[Port]:
        """Returns the ports at which sources and users send."""
        return [port for name, port in self.ports.items() if _is_of_hosts(name)]

    def files_per_s(self, *groups: str) -> Floats:
        """Returns the number of files per second that these traffic groups finished, for each run."""
        return np.asarray(sum(self.connections[group].counts() for group in groups) / COUNTED_S)


class TreeRuns(Runs):
    """Runs of the DiffServ paper's tree; a quick run uses the small tree, which has a fifth of the users."""

    quick_seeds = 1
    quick_says = "a fifth of the tree in place of the whole"

    def usual_seeds(self, name: str) -> int:
        """Returns the number of seeds of a scenario at full length, lower for the whole tree."""
        return SEEDS if name in LARGE else SMALL_SEEDS

    def tree(self, scheme: str, rate_mbps: float) -> Result:
        """Returns a scheme's results in the whole tree at a bottleneck rate; quick: in the small tree."""
        if self.quick:
            return self._at("diffserv-small", scheme, rate_mbps, RATES_MBPS, SMALLER)
        return self._at("diffserv", scheme, rate_mbps, RATES_MBPS)

    def first_of_tree(self, scheme: str, rate_mbps: float) -> Result:
        """Returns the first run's result of the whole tree; in a quick run, of the small tree."""
        name, smaller = ("diffserv-small", SMALLER) if self.quick else ("diffserv", 1)
        return self.first(name, f"{scheme} / rate={rate_mbps / smaller:g}Mbit")

    def first(self, name: str, variant: str) -> Result:
        """Returns the first run's result of a variant, for values that need a single run."""
        seeds = self.seeds(name)[:1]

        def make() -> Result:
            report = self.progress.task(f"{paths.scenario(name).id} {variant}")
            return reduced(self.run(name, [variant], TABLES, report, seeds=seeds), 0, seeds)

        return self.cached((name, variant, "first"), make)

    def small(self, scheme: str, rate_mbps: float, name: str = "diffserv-small") -> Result:
        """Returns the results of the small tree, or of the scenario `name`, which modifies it.

        `rate_mbps` is the corresponding rate of the whole tree's bottleneck.
        """
        return self._at(name, scheme, rate_mbps, (60, 100), SMALLER)

    def of(self, name: str, *variants: str) -> Result:
        """Returns the results of the scenario's first given variant; runs the other given ones with it.

        With changed keys, as in a map, it runs the first one alone.
        """
        seeds = self.seeds(name)
        variants = variants[:1] if self.changes else variants
        self.count_sample(len(seeds))
        missing = [variant for variant in dict.fromkeys(variants) if (name, variant) not in self._cache]
        if missing:
            report = self.progress.task(f"{paths.scenario(name).id} {missing[0]}")
        for first in range(0, len(missing), CHUNK):
            chunk = missing[first : first + CHUNK]
            part = shifted(report, first * len(seeds), len(missing) * len(seeds))
            tables = self.run(name, chunk, TABLES, part)
            for index, variant in enumerate(chunk):
                self.cached((name, variant), partial(reduced, tables, index, seeds))
        result: Result = self._cache[name, variants[0]][0]
        return result

    def whole(self, name: str, *variants: str) -> Result:
        """Returns the results of the first given variant of the whole tree; a quick run has none of them."""
        self.require_whole()
        return self.of(name, *variants)

    def require_whole(self) -> None:
        """Raises `Unavailable` in a quick run."""
        if self.quick:
            raise Unavailable("a quick run has a fifth of the tree, without its variants")

    def _at(
        self, name: str, scheme: str, rate_mbps: float, rates: Sequence[float], smaller: int = 1
    ) -> Result:
        """Returns a scheme's results at one bottleneck rate; runs all `rates`, because callers need all."""
        requested, *others = (
            f"{scheme} / rate={rate / smaller:g}Mbit" for rate in dict.fromkeys((rate_mbps, *rates))
        )
        return self.of(name, requested, *others)


def reduced(tables: Mapping[str, Table], variant: int, seeds: Sequence[int]) -> Result:
    """Reduces the results tables of one variant to the values that the claims need."""
    rows = {name: measures.select(tables[name], variant) for name in TABLES}
    pages, echoes, connections, ports = (rows[name] for name in TABLES)
    connections["time_s"] = connections["acked_s"] - connections["start_s"]
    of_page, of_file = _by(pages, "group"), _by(connections, "group")
    return Result(
        pages=ByGroup({name: times(group, seeds) for name, group in of_page.items()}, len(seeds)),
        connections=ByGroup({name: times(group, seeds) for name, group in of_file.items()}, len(seeds)),
        page_bytes={name: group["bytes"] for name, group in of_page.items()},
        page_connections={name: group["connections"] for name, group in of_page.items()},
        file_bytes={name: group["bytes"] for name, group in of_file.items()},
        echoes=times(echoes, seeds),
        keystrokes_s=_typed(echoes, seeds[0]),
        ports={name: _port(port) for name, port in _by(ports, "port").items()},
    )


def times(rows: Rows, seeds: Sequence[int]) -> Times:
    """Returns the durations in the rows of one traffic group that ended after the warm-up."""
    counted = rows["start_s"] + rows["time_s"] >= WARM_UP_S
    users = np.unique(rows["client"], return_inverse=True)[1]
    seed = np.searchsorted(seeds, rows["seed"])
    return Times(rows["time_s"][counted], seed[counted], users[counted], len(seeds))


def typists(rtt_ms: int) -> list[int]:
    """Returns the indices of the measured Telnet users with a round trip of `rtt_ms`, in the whole tree."""
    return with_rtt(rtt_ms, 0, TYPIST_STEP, TYPISTS)


def with_rtt(rtt_ms: int, first: int, step: int, count: int) -> list[int]:
    """Returns the indices of those of `count` measured users who have a round trip of `rtt_ms`.

    Their numbers in the tree are `first`, `first + step` and so on, and round trips alternate by number.
    """
    wanted = RTTS_MS.index(rtt_ms)
    return [user for user in range(count) if (first + step * user) % len(RTTS_MS) == wanted]


def share_pct(values: Floats) -> Interval:
    """Returns the mean over the runs of a fraction that has one value per run, percent."""
    return stats.mean(100 * values)


def ratio(both: Iterable[Floats]) -> Interval:
    """Returns the ratio of the mean of the first array to that of the second, paired by run."""
    one, other = both
    return stats.ratio(one, other)


def _by(rows: Rows, key: str) -> dict[str, Rows]:
    """Returns the rows of a table for each value of the column `key`."""
    return {str(name): where(rows, rows[key] == name) for name in np.unique(rows[key])}


def _is_of_hosts(port: str) -> bool:
    return port == "source" or (port.startswith("user-") and port.endswith(":back"))


def _typed(echoes: Rows, seed: int) -> Floats:
    """Returns user, start (s) and end (s) of each echo of a run, sorted by user and start."""
    here = echoes["seed"] == seed
    start, end = echoes["start_s"][here], (echoes["start_s"] + echoes["time_s"])[here]
    order = np.lexsort((start, echoes["client"][here]))
    return np.column_stack([echoes["client"][here][order], start[order], end[order]]).astype(float)


def _port(rows: Rows) -> Port:
    def by_priority(counter: str) -> dict[str, Floats]:
        return {priority: rows[f"{counter}_{priority}"].astype(float) for priority in ("high", "med", "low")}

    bps = rows["delivered_bytes"] * 8 / END_S
    return Port(by_priority("arrived"), by_priority("dropped"), bps, rows["utilization"])

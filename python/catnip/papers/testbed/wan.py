"""The CATNIP paper's WAN emulation: 100 emulated clients and one real server (CAT-S24, S25, E10).

A simulated server, which needs no real time, is compared as well.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catnip.analysis import stats
from catnip.analysis.interval import Interval
from catnip.analysis.measures import Floats, PortLoss, page_times, port_loss, select
from catnip.base import paths
from catnip.figures.bursts import grouped_bars
from catnip.papers import reference
from catnip.papers.emulation import emulate, is_red, unaccounted
from catnip.papers.quantity import Quantities
from catnip.papers.testbed.runs import TRIES, FetchRuns
from catnip.report.model import Figure, Table

measured = Quantities()

BUFFERS_KB = (64, 128, 256, 512)
SEEDS = 10
SIDE_BY_SIDE = 2
EMULATED, SIMULATED = "testbed-web", "testbed-admission"
"""Names of the scenarios with a real server and with a simulated one."""
TABLES = ("pages", "objects", "connections", "ports")
FIFO, HIGH, LOW = "FIFO", "CATNIP", "CATNIP with SYN-ACKs LOW"
"""Names of the routers. SYN-ACKs are LOW if the name contains LOW; otherwise CATNIP receives them as HIGH."""
ROUTERS = (FIFO, HIGH, LOW)
SERVERS = ("nginx", "simulated")
ALL_PAGES = tuple(range(1, 11))
SMALL_OBJECTS = (1, 3, 4, 7, 8, 9, 10)
"""Numbers of the pages without an object above 9 KB. Nearly all of their packets are at the beginning or the
end of a transfer."""
LARGE_OBJECTS = (2, 6)


@dataclass(frozen=True)
class Emulated:
    """Results of one run of a hundred clients in real time."""

    certificate: Mapping[str, Any]
    pages: Mapping[str, NDArray[Any]]
    objects: Mapping[str, NDArray[Any]]
    connections: Mapping[str, NDArray[Any]]
    ports: Mapping[str, NDArray[Any]]

    @cached_property
    def page_means_s(self) -> Floats:
        """Mean time of each of the ten pages, s."""
        times = (self.pages["time_s"][self.pages["page"] == page] for page in range(1, 11))
        return np.array([np.mean(of_page) for of_page in times])

    @property
    def is_red(self) -> bool:
        """True if the certificate is still red after two tries."""
        return is_red(self.certificate)

    @cached_property
    def loss(self) -> PortLoss:
        """Losses at the bottleneck towards the clients."""
        return port_loss(self.ports, 0, [int(seed) for seed in np.unique(self.ports["seed"])])


@dataclass(frozen=True)
class Fetched:
    """Results of a variant, one element for each run; `times_s` has a row of mean page times for each run."""

    times_s: Floats
    losses: Sequence[PortLoss]
    handshakes_repeated: Sequence[float]
    """Fractions of connections with a retransmission in the handshake."""


@measured
def damaged_objects(runs: FetchRuns) -> str:
    """CAT-S24: number of objects from nginx that are incomplete, of a wrong size, or of wrong content."""
    objects = _all_of(runs, "objects")
    runs.sample = len(objects["bytes"])
    written = {size: f"{_fnv1a(size):016x}" for size in np.unique(objects["bytes"])}
    expected = np.array([written[size] for size in objects["bytes"]])
    is_wrong = (objects["whole"] != 1) | (objects["body_bytes"] != objects["bytes"])
    return str((is_wrong | (objects["body_fnv1a"] != expected)).sum())


@measured
def wrongly_marked(runs: FetchRuns) -> str:
    """CAT-S24: number of connections without retransmissions that have a wrong number of HIGH packets.

    HIGH are: the first and the last three packets of the response, whose size is in the server's header
    (CAT-S19); the SYN-ACK, unless the variant marks it LOW; and up to two packets without data, which are a
    FIN without data and repetitions of HIGH packets whose ACK is late.
    """
    mismatches = sample = 0
    for syn_acks, variants in ((1, HIGH), (0, LOW)):
        connections = _all_of(runs, "connections", variants)
        once = connections["retransmitted"] == 0
        high, sent = connections["sent_high"][once], connections["sent"][once]
        without_data = high - np.minimum(sent, 6) - syn_acks
        mismatches += int(((without_data < 0) | (without_data > 2)).sum())
        sample += len(sent)
    runs.sample = sample
    return str(mismatches)


@measured
def lateness_p99_ms(runs: FetchRuns) -> float:
    """CAT-S25: 99th percentile of the emulator's lateness, largest over all runs, ms."""
    return max(float(one.certificate["lateness_us"][1]) / 1e3 for one in _everything(runs))


@measured
def packets_lost_from_sight(runs: FetchRuns) -> str:
    """CAT-S25: number of packets that the emulator lost, read too late or could not write."""
    return str(sum(unaccounted(one.certificate) for one in _everything(runs)))


@measured
def red_runs(runs: FetchRuns) -> str:
    """CAT-S25: number of runs whose certificate is red in both tries."""
    return str(sum(one.is_red for one in _everything(runs)))


@measured
def loss_pct(
    runs: FetchRuns, buffer_kb: int, router: str, packets: str = "all", server: str = "nginx"
) -> Interval:
    """CAT-E10: share of `all`, `high` or `low` packets towards the clients that the router drops, percent."""
    return mean_pct(_fetched(runs, server)[f"{buffer_kb} KB {router}"].losses, packets)


@measured
def high_share_pct(runs: FetchRuns, buffer_kb: int, router: str, server: str = "nginx") -> Interval:
    """CAT-E10: share of HIGH packets among all packets that arrive at the router, percent."""
    return loss_pct(runs, buffer_kb, router, "share", server)


@measured
def handshakes_repeated_pct(runs: FetchRuns, buffer_kb: int, router: str, server: str = "nginx") -> Interval:
    """CAT-E10: share of connections with a retransmission in the handshake, percent."""
    fractions = _fetched(runs, server)[f"{buffer_kb} KB {router}"].handshakes_repeated
    return stats.mean([100 * fraction for fraction in fractions])


@measured
def page_time_ratio(
    runs: FetchRuns,
    buffer_kb: int,
    router: str = HIGH,
    pages: Sequence[int] = ALL_PAGES,
    than: str = FIFO,
    server: str = "nginx",
) -> Interval:
    """CAT-E10: mean over `pages` of the ratio of the page time with `router` to that with `than`.

    The ratio has one value per pair of runs with the same seed.
    """
    return stats.mean(ratios(_fetched(runs, server), buffer_kb, router, pages, than).mean(axis=1))


@measured
def largest_page_gain_pct(
    runs: FetchRuns, buffer_kb: int, router: str = HIGH, server: str = "nginx"
) -> Interval:
    """CAT-E16: largest reduction of a page's time from FIFO to `router`, over the ten pages, percent."""
    return largest_gain_pct(ratios(_fetched(runs, server), buffer_kb, router))


@measured
def total_time_ratio(runs: FetchRuns, buffer_kb: int, router: str, server: str = "nginx") -> Interval:
    """CAT-E10: ratio of the total time of the ten pages with a router to that with FIFO, per pair of runs."""
    fetched = _fetched(runs, server)
    ours, fifo = (fetched[f"{buffer_kb} KB {one}"].times_s.sum(axis=1) for one in (router, FIFO))
    return stats.mean(ours / fifo)


@measured
def spread_is_larger(runs: FetchRuns, at_kb: Sequence[int], than_at_kb: Sequence[int]) -> str:
    """CAT-E10: `yes` if page-time ratios vary more at every buffer of `at_kb` than at any of `than_at_kb`.

    A ratio is that of a page's time with CATNIP to its time with FIFO. The variation is the standard
    deviation over the ten pages.
    """
    fetched = _fetched(runs)
    spread = {
        buffer_kb: float(ratios(fetched, buffer_kb, HIGH).mean(axis=0).std()) for buffer_kb in BUFFERS_KB
    }
    return "yes" if min(spread[kb] for kb in at_kb) > max(spread[kb] for kb in than_at_kb) else "no"


def largest_gain_pct(ratios: Floats) -> Interval:
    """Returns the largest gain of a page, percent, given a row of the pages' time ratios for each run."""
    pages = ratios.T
    return stats.greatest([stats.mean(100 * (1 - of), stats.family(len(pages))) for of in pages])


def table(runs: FetchRuns) -> Table:
    """Returns the CATNIP paper's Table XI as measured, with HIGH and with LOW SYN-ACKs."""
    fetched = _fetched(runs)
    cells = [(buffer_kb, router) for buffer_kb in BUFFERS_KB for router in (HIGH, LOW)]
    by_page = [ratios(fetched, *cell).mean(axis=0) for cell in cells]
    rows = [[f"page {page}", *(f"{of[page - 1]:.2f}" for of in by_page)] for page in ALL_PAGES]
    rows.append(["mean", *(str(page_time_ratio(runs, *cell)) for cell in cells)])
    note = (
        "100 simulated clients, one real nginx, a 10 Mbit/s bottleneck in real time. The paper describes "
        "neither its network nor what SYN-ACKs are."
    )
    columns = ["", *(f"{buffer_kb} KB, {_marking(router)}" for buffer_kb, router in cells)]
    return Table("Table XI: page time with CATNIP over that without, by buffer", columns, rows, note)


def trade(runs: FetchRuns, server: str) -> Table:
    """Returns the table of page times and losses with a server, by buffer and router."""

    def changes(buffer_kb: int, router: str) -> list[str]:
        if router == FIFO:
            return ["1"] * 4
        chosen = (ALL_PAGES, SMALL_OBJECTS, LARGE_OBJECTS)
        of = [page_time_ratio(runs, buffer_kb, router, pages, FIFO, server) for pages in chosen]
        return [str(one) for one in (*of, total_time_ratio(runs, buffer_kb, router, server))]

    def losses(buffer_kb: int, router: str) -> list[str]:
        kinds = ("all",) if router == FIFO else ("all", "high", "low")
        lost = [str(loss_pct(runs, buffer_kb, router, kind, server)) for kind in kinds]
        shares = [of(runs, buffer_kb, router, server) for of in (high_share_pct, handshakes_repeated_pct)]
        return [*lost, *["–"] * (3 - len(lost)), *(str(one) for one in shares)]

    rows = [
        [f"{buffer_kb} KB, {router}", *changes(buffer_kb, router), *losses(buffer_kb, router)]
        for buffer_kb in BUFFERS_KB
        for router in ROUTERS
    ]
    columns = [
        "",
        "mean of ratios",
        "pages 1, 3, 4, 7 to 10",
        "pages 2 and 6",
        "ratio of sums",
        "lost, %",
        "HIGH lost, %",
        "LOW lost, %",
        "HIGH, %",
        "handshakes repeated, %",
    ]
    note = (
        "Page times over those with FIFO. Pages 2 and 6 have objects of 56 and 23 KB, those in the column "
        "before none above 9 KB. Losses are those towards the clients."
    )
    return Table(
        f"What the routers of Table XI lose, and whose pages gain: {server} server", columns, rows, note
    )


def page_time_changes(runs: FetchRuns) -> Figure:
    """Draws the change of each page's time from FIFO at the smallest buffer, by the priority of SYN-ACKs."""
    buffer_kb = BUFFERS_KB[0]
    largest_b = _largest_objects_bytes()
    pages = sorted(largest_b, key=lambda page: largest_b[page])
    fetched = _fetched(runs)
    bars: dict[str, list[Interval]] = {
        _marking(router): [
            stats.mean(100 * (ratio - 1)) for ratio in ratios(fetched, buffer_kb, router, pages).T
        ]
        for router in (HIGH, LOW)
    }
    printed = {
        int(one["page"]): one
        for one in reference.rows("catnip_wan_emulation.csv")
        if one["buffer_kb"] == str(buffer_kb)
    }
    of_paper = [100 * (float(printed[page]["relative_time"]) - 1) for page in pages]
    bars["paper"] = [Interval(change, change, change, 1) for change in of_paper]
    caption = (
        f"Table XI at {buffer_kb} KB, pages in order of their largest object. HIGH SYN-ACKs admit all "
        "hundred users at once: short pages gain at the expense of pages with large objects. LOW SYN-ACKs "
        "make users wait, which delays pages of many short objects most."
    )
    svg = grouped_bars(
        "The pages that gain depend on the priority of SYN-ACKs",
        [f"page {page}\n{largest_b[page] / 1000:.1f} KB" for page in pages],
        bars,
        "change of page time against FIFO, %",
    )
    return Figure("testbed-admission", f"Table XI at {buffer_kb} KB: page times", caption, svg)


def _largest_objects_bytes() -> dict[int, int]:
    sizes = [(int(row["page"]), int(row["bytes"])) for row in reference.rows("catnip_pages.csv")]
    return {page: max(size for of, size in sizes if of == page) for page in ALL_PAGES}


def _marking(router: str) -> str:
    return "SYN-ACKs LOW" if router == LOW else "SYN-ACKs HIGH"


def mean_pct(losses: Sequence[PortLoss], packets: str) -> Interval:
    """Returns the share of `all`, `high` or `low` packets that a port drops, mean over the runs, percent.

    With `share`, the result is the share of HIGH packets among all arriving packets instead.
    """
    which = {"all": "loss", "high": "high_loss", "low": "low_loss", "share": "high_share"}[packets]
    return stats.mean([100 * float(getattr(one, which)[0]) for one in losses])


def _fetched(runs: FetchRuns, server: str = "nginx") -> Mapping[str, Fetched]:
    """Returns the results of each variant with `server`, a real or a simulated one, by the variant's name."""
    if server == "simulated":
        return _simulated(runs)
    return {variant: fetched(of) for variant, of in _runs(runs).items()}


def fetched(of: Sequence[Emulated]) -> Fetched:
    """Returns the page times and losses of the emulated runs of one variant."""
    return Fetched(
        np.array([one.page_means_s for one in of]),
        [one.loss for one in of],
        [_handshakes_repeated(one.connections) for one in of],
    )


def _simulated(runs: FetchRuns) -> Mapping[str, Fetched]:
    def make() -> Mapping[str, Fetched]:
        scenario, seeds = paths.scenario(SIMULATED), runs.seeds(SIMULATED)
        report = runs.progress.task(scenario.title)
        tables = runs.run(SIMULATED, scenario.variants, ["pages", "ports", "connections"], report)
        return {
            variant: Fetched(
                page_times(tables["pages"], index, seeds),
                [port_loss(tables["ports"], index, [seed]) for seed in seeds],
                [_handshakes_repeated(select(tables["connections"], index), seed) for seed in seeds],
            )
            for index, variant in enumerate(scenario.variants)
        }

    return runs.cached(SIMULATED, make)


def _runs(runs: FetchRuns) -> dict[str, list[Emulated]]:
    """Returns the runs of every variant with every seed; a run with a red certificate is repeated once."""

    def make() -> dict[str, list[Emulated]]:
        scenario = paths.scenario(EMULATED)
        seeds = runs.first_seeds(runs.scaled(SEEDS, minimum=1))
        jobs = {
            (variant, seed): partial(emulated, scenario.path, variant, seed)
            for variant in scenario.variants
            for seed in seeds
        }
        report = runs.progress.task("100 clients and a real server")
        results: dict[str, list[Emulated]] = {variant: [] for variant in scenario.variants}
        for (variant, _), one in runs.each(EMULATED, jobs, SIDE_BY_SIDE, report).items():
            results[variant].append(one)
        return results

    return runs.cached(EMULATED, make)


def emulated(
    scenario: str, variant: str, seed: int, environment: Mapping[str, str] | None = None
) -> Emulated:
    """Emulates one run, and repeats it once if its certificate is red.

    `environment` has additional environment variables of the scenario's commands.
    """
    for _ in range(TRIES):
        ended = emulate(scenario, variant, seed, environment or {}, f"{scenario}: {variant}")
        result = Emulated(ended.certificate, *(select(ended.tables[name], 0) for name in TABLES))
        if not ended.is_red:
            break
    return result


def _handshakes_repeated(connections: Mapping[str, NDArray[Any]], seed: int | None = None) -> float:
    is_repeated = connections["syn_timeouts"] > 0
    return float(np.mean(is_repeated if seed is None else is_repeated[connections["seed"] == seed]))


def ratios(
    fetched: Mapping[str, Fetched],
    buffer_kb: int,
    router: str,
    pages: Sequence[int] = ALL_PAGES,
    than: str = FIFO,
) -> Floats:
    """Returns ratios of page times with `router` to those with `than`: a row per seed, a column per page."""
    ours, theirs = (fetched[f"{buffer_kb} KB {one}"].times_s for one in (router, than))
    over: Floats = ours / theirs
    return over[:, [page - 1 for page in pages]]


def _everything(runs: FetchRuns) -> list[Emulated]:
    results = [one for both in _runs(runs).values() for one in both]
    runs.sample = len(results)
    return results


def _all_of(runs: FetchRuns, name: str, router: str = "") -> Mapping[str, NDArray[Any]]:
    """Returns the rows of a table of all emulated runs, or only of the runs with `router`."""
    tables = [
        getattr(one, name)
        for variant, of in _runs(runs).items()
        if variant.endswith(f" {router}" if router else "")
        for one in of
    ]
    return {key: np.concatenate([table[key] for table in tables]) for key in tables[0]}


def _fnv1a(size: int) -> int:
    """Returns the hash (FNV-1a, 64 bits) of a document of `size` bytes, which repeats the alphabet."""
    value = 0xCBF29CE484222325
    for at in range(size):
        value = (value ^ (ord("a") + at % 26)) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value

"""The CATNIP paper's WAN emulation: 100 emulated clients and one real server (CAT-S24, S25, E10).

A simulated server, which needs no real time, is compared as well.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catnip._core import InputError
from catnip.analysis import stats
from catnip.analysis.interval import Interval
from catnip.analysis.measures import Floats, PortLoss, page_times, port_loss, select
from catnip.base import paths
from catnip.base.programs import program
from catnip.base.progress import side_by_side
from catnip.figures.bursts import grouped_bars
from catnip.papers import reference
from catnip.papers.quantity import Quantities
from catnip.papers.testbed.runs import RED, TRIES, Runs
from catnip.report.model import Figure, Table
from catnip.store import results

measured = Quantities()

BUFFERS_KB = (64, 128, 256, 512)
SEEDS = 10
SIDE_BY_SIDE = 2
TABLES = ("pages", "objects", "connections", "ports")
FIFO, HIGH, LOW = "FIFO", "CATNIP", "CATNIP with SYN-ACKs LOW"
"""Routers by name; CATNIP gets SYN-ACKs marked HIGH unless the name has LOW."""
ROUTERS = (FIFO, HIGH, LOW)
SERVERS = ("nginx", "simulated")
ALL_PAGES = tuple(range(1, 11))
SMALL_OBJECTS = (1, 3, 4, 7, 8, 9, 10)
"""Pages without an object above 9 KB, whose packets are nearly all at an end of a transfer."""
LARGE_OBJECTS = (2, 6)


@dataclass(frozen=True)
class Emulated:
    """Run of a hundred clients in real time."""

    certificate: dict[str, Any]
    pages: Mapping[str, NDArray[Any]]
    objects: Mapping[str, NDArray[Any]]
    connections: Mapping[str, NDArray[Any]]
    ports: Mapping[str, NDArray[Any]]

    @cached_property
    def page_means_s(self) -> Floats:
        """Mean time of each of the ten pages."""
        times = (self.pages["time_s"][self.pages["page"] == page] for page in range(1, 11))
        return np.array([np.mean(of_page) for of_page in times])

    @property
    def is_red(self) -> bool:
        """True if the certificate is still red after two tries."""
        return bool(self.certificate["verdict"] == "red")

    @cached_property
    def loss(self) -> PortLoss:
        """Losses at the bottleneck towards the clients."""
        return port_loss(self.ports, 0, [int(seed) for seed in np.unique(self.ports["seed"])])


@dataclass(frozen=True)
class Fetched:
    """Results of a variant: mean page times, a row per run and a column per page; the rest per run."""

    times_s: Floats
    losses: Sequence[PortLoss]
    handshakes_repeated: Sequence[float]
    """Fraction of connections with a retransmission in the handshake."""


@measured
def damaged_objects(runs: Runs) -> str:
    """CAT-S24: number of objects from nginx that are incomplete, of a wrong size, or of wrong content."""
    objects = _all_of(runs, "objects")
    runs.sample = len(objects["bytes"])
    written = {size: f"{_fnv1a(size):016x}" for size in np.unique(objects["bytes"])}
    expected = np.array([written[size] for size in objects["bytes"]])
    wrong = (objects["whole"] != 1) | (objects["body_bytes"] != objects["bytes"])
    return str((wrong | (objects["body_fnv1a"] != expected)).sum())


@measured
def wrongly_marked(runs: Runs) -> str:
    """CAT-S24: number of connections without retransmissions that have a wrong number of HIGH packets.

    HIGH are the first and the last three packets of the response, whose size is in the server's header
    (CAT-S19), the SYN-ACK unless it is LOW, and up to two packets without data: the FIN, if it carries no
    data, and any of these packets that is sent again because its ACK is late.
    """
    wrong = sample = 0
    for syn_acks, variants in ((1, HIGH), (0, LOW)):
        connections = _all_of(runs, "connections", variants)
        once = connections["retransmitted"] == 0
        high, sent = connections["sent_high"][once], connections["sent"][once]
        without_data = high - np.minimum(sent, 6) - syn_acks
        wrong += int(((without_data < 0) | (without_data > 2)).sum())
        sample += len(sent)
    runs.sample = sample
    return str(wrong)


@measured
def lateness_p99_ms(runs: Runs) -> float:
    """CAT-S25: 99th percentile of the lateness, largest over all runs."""
    return max(float(one.certificate["lateness_us"][1]) / 1e3 for one in _everything(runs))


@measured
def packets_lost_from_sight(runs: Runs) -> str:
    """CAT-S25: number of packets that the emulator lost, read too late or could not write."""
    return str(sum(unaccounted(one) for one in _everything(runs)))


@measured
def red_runs(runs: Runs) -> str:
    """CAT-S25: number of runs whose certificate is red in both tries."""
    return str(sum(one.is_red for one in _everything(runs)))


@measured
def loss_pct(
    runs: Runs, buffer_kb: int, router: str, packets: str = "all", server: str = "nginx"
) -> Interval:
    """CAT-E10: share of `all`, `high` or `low` packets towards the clients dropped by a router, percent."""
    which = {"all": "loss", "high": "high_loss", "low": "low_loss"}[packets]
    return _mean_pct(_fetched(runs, server)[f"{buffer_kb} KB {router}"], which)


@measured
def high_share_pct(runs: Runs, buffer_kb: int, router: str, server: str = "nginx") -> Interval:
    """CAT-E10: share of HIGH packets among all packets that arrive at a router, percent."""
    return _mean_pct(_fetched(runs, server)[f"{buffer_kb} KB {router}"], "high_share")


@measured
def handshakes_repeated_pct(runs: Runs, buffer_kb: int, router: str, server: str = "nginx") -> Interval:
    """CAT-E10: share of connections with a retransmission in the handshake, percent."""
    fractions = _fetched(runs, server)[f"{buffer_kb} KB {router}"].handshakes_repeated
    return stats.mean([100 * fraction for fraction in fractions])


@measured
def page_time_ratio(
    runs: Runs,
    buffer_kb: int,
    router: str = HIGH,
    pages: Sequence[int] = ALL_PAGES,
    than: str = FIFO,
    server: str = "nginx",
) -> Interval:
    """CAT-E10: mean over pages of the ratio of page times with `router` to those with `than`.

    The ratio has one value per pair of runs with the same seed.
    """
    return stats.mean(ratios(_fetched(runs, server), buffer_kb, router, pages, than).mean(axis=1))


@measured
def total_time_ratio(runs: Runs, buffer_kb: int, router: str, server: str = "nginx") -> Interval:
    """CAT-E10: total time of the ten pages with a router over that with FIFO, by pair of runs."""
    made = _fetched(runs, server)
    ours, fifo = (made[f"{buffer_kb} KB {one}"].times_s.sum(axis=1) for one in (router, FIFO))
    return stats.mean(ours / fifo)


@measured
def spread_is_larger(runs: Runs, at_kb: Sequence[int], than_at_kb: Sequence[int]) -> str:
    """CAT-E10: `yes` if the pages' ratios of times to FIFO's spread more at all buffers of `at_kb`.

    Their standard deviations are compared with those at the buffers of `than_at_kb`.
    """
    made = _fetched(runs)
    spread = {buffer_kb: float(ratios(made, buffer_kb, HIGH).mean(axis=0).std()) for buffer_kb in BUFFERS_KB}
    return "yes" if min(spread[kb] for kb in at_kb) > max(spread[kb] for kb in than_at_kb) else "no"


def table(runs: Runs) -> Table:
    """Returns Table XI, with HIGH and with LOW SYN-ACKs."""
    made = _fetched(runs)
    cells = [(buffer_kb, router) for buffer_kb in BUFFERS_KB for router in (HIGH, LOW)]
    by_page = [ratios(made, *cell).mean(axis=0) for cell in cells]
    rows = [[f"page {page}", *(f"{of[page - 1]:.2f}" for of in by_page)] for page in ALL_PAGES]
    rows.append(["mean", *(str(page_time_ratio(runs, *cell)) for cell in cells)])
    note = (
        "100 simulated clients, one real nginx, a 10 Mbit/s bottleneck in real time. The paper describes "
        "neither its network nor what SYN-ACKs are."
    )
    columns = ["", *(f"{buffer_kb} KB, {_marking(router)}" for buffer_kb, router in cells)]
    return Table("Table XI: page time with CATNIP over that without, by buffer", columns, rows, note)


def trade(runs: Runs, server: str) -> Table:
    """Returns the table of page times and losses by buffer and router."""

    def changes(buffer_kb: int, router: str) -> list[str]:
        if router == FIFO:
            return ["1"] * 4
        chosen = (ALL_PAGES, SMALL_OBJECTS, LARGE_OBJECTS)
        of = [page_time_ratio(runs, buffer_kb, router, pages, FIFO, server) for pages in chosen]
        return [str(one) for one in (*of, total_time_ratio(runs, buffer_kb, router, server))]

    def losses(buffer_kb: int, router: str) -> list[str]:
        kinds = ("all",) if router == FIFO else ("all", "high", "low")
        lost = [str(loss_pct(runs, buffer_kb, router, kind, server)) for kind in kinds]
        whole = [of(runs, buffer_kb, router, server) for of in (high_share_pct, handshakes_repeated_pct)]
        return [*lost, *["–"] * (3 - len(lost)), *(str(one) for one in whole)]

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


def whose_pages_gain(runs: Runs) -> Figure:
    """Draws the change of each page's time at the smallest buffer, by the priority of SYN-ACKs."""
    buffer_kb = BUFFERS_KB[0]
    largest_b = _largest_objects_bytes()
    pages = sorted(largest_b, key=lambda page: largest_b[page])
    made = _fetched(runs)
    bars: dict[str, list[Interval]] = {
        _marking(router): [
            stats.mean(100 * (ratio - 1)) for ratio in ratios(made, buffer_kb, router, pages).T
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


def _mean_pct(of: Fetched, which: str) -> Interval:
    return stats.mean([100 * float(getattr(one, which)[0]) for one in of.losses])


def _fetched(runs: Runs, server: str = "nginx") -> Mapping[str, Fetched]:
    """Returns the results of every variant, from a real server or a simulated one."""
    if server == "simulated":
        return _simulated(runs)
    return {variant: fetched(of) for variant, of in _runs(runs).items()}


def fetched(of: Sequence[Emulated]) -> Fetched:
    """Returns the results of several runs of a variant."""
    return Fetched(
        np.array([one.page_means_s for one in of]),
        [one.loss for one in of],
        [_handshakes_repeated(one.connections) for one in of],
    )


def _simulated(runs: Runs) -> Mapping[str, Fetched]:
    if runs.admitted is None:
        scenario = paths.scenario("testbed-admission")
        seeds = list(range(runs.first_seed, runs.first_seed + runs.count(scenario.seeds)))
        told = runs.progress.task(scenario.title)
        tables = scenario.run(scenario.variants, seeds, ["pages", "ports", "connections"], 0, told)
        runs.admitted = {
            variant: Fetched(
                page_times(tables["pages"], index, seeds),
                [port_loss(tables["ports"], index, [seed]) for seed in seeds],
                [_handshakes_repeated(select(tables["connections"], index), seed) for seed in seeds],
            )
            for index, variant in enumerate(scenario.variants)
        }
    return runs.admitted


def _runs(runs: Runs) -> dict[str, list[Emulated]]:
    """Runs every variant with every seed; a run with a red certificate is repeated once."""
    if runs.emulated is None:
        scenario = paths.scenario("testbed-web")
        seeds = range(runs.first_seed, runs.first_seed + max(1, round(SEEDS * runs.scale)))
        jobs = [(variant, seed) for variant in scenario.variants for seed in seeds]
        told = runs.progress.task("100 clients and a real server")
        runs.emulated = {variant: [] for variant in scenario.variants}
        ended = side_by_side([partial(emulated, scenario.path, *job) for job in jobs], SIDE_BY_SIDE, told)
        for (variant, _), one in zip(jobs, ended, strict=True):
            runs.emulated[variant].append(one)
    return runs.emulated


def emulated(scenario: str, variant: str, seed: int, told: Mapping[str, str] | None = None) -> Emulated:
    """Emulates one run with `told` in the commands' environment; repeats it if its certificate is red."""
    for _ in range(TRIES):
        with tempfile.TemporaryDirectory(prefix="catnip-wan-") as folder:
            command = [str(program()), "emulate", scenario, "--variant", variant, "--seed", str(seed)]
            ended = subprocess.run(
                [*command, "--quiet", "--out", folder],
                env={**os.environ, **(told or {})},
                capture_output=True,
                text=True,
                check=False,
            )
            if ended.returncode not in (0, RED):
                raise InputError(f"{scenario}: {variant}: {ended.stderr.strip()[-300:]}")
            certificate = json.loads((Path(folder) / "certificate.json").read_text())
            _, tables = results.read(Path(folder))
            made = Emulated(certificate, *(select(tables[name], 0) for name in TABLES))
            if ended.returncode == 0:
                break
    return made


def _handshakes_repeated(connections: Mapping[str, NDArray[Any]], seed: int | None = None) -> float:
    again = connections["syn_timeouts"] > 0
    return float(np.mean(again if seed is None else again[connections["seed"] == seed]))


def ratios(
    made: Mapping[str, Fetched],
    buffer_kb: int,
    router: str,
    pages: Sequence[int] = ALL_PAGES,
    than: str = FIFO,
) -> Floats:
    """Returns ratios of page times with `router` to those with `than`: a row per seed, a column per page."""
    ours, theirs = (made[f"{buffer_kb} KB {one}"].times_s for one in (router, than))
    over: Floats = ours / theirs
    return over[:, [page - 1 for page in pages]]


def _everything(runs: Runs) -> list[Emulated]:
    made = [one for both in _runs(runs).values() for one in both]
    runs.sample = len(made)
    return made


def _all_of(runs: Runs, name: str, router: str = "") -> Mapping[str, NDArray[Any]]:
    """Returns the rows of a table of all runs, or of those with a router."""
    made = [
        getattr(one, name)
        for variant, of in _runs(runs).items()
        if variant.endswith(f" {router}" if router else "")
        for one in of
    ]
    return {key: np.concatenate([table[key] for table in made]) for key in made[0]}


def _fnv1a(size: int) -> int:
    """Returns the hash (FNV-1a, 64 bits) of a document of so many bytes, which repeats the alphabet."""
    value = 0xCBF29CE484222325
    for at in range(size):
        value = (value ^ (ord("a") + at % 26)) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


def unaccounted(one: Emulated) -> int:
    """Returns the number of packets that the emulator lost, read too late or could not write."""
    network, memory = one.certificate["packets_inside"]
    sides = [link["certificate"][side] for link in one.certificate["links"] for side in ("up", "down")]
    missed = sum(host["missed"] + host["unwritable"] for host in one.certificate["hosts"])
    lost: int = abs(network - memory) + missed
    for side in sides:
        accounted = side["packets_out"] + sum(side["dropped"].values()) + side["held"]
        lost += abs(side["packets_in"] - accounted)
    return lost

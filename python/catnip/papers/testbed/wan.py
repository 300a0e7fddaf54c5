"""The CATNIP paper's WAN emulation: 100 emulated clients and one real server (CAT-S24, S25, E10)."""

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catnip import paths, results, stats
from catnip._core import InputError
from catnip.cli.emulation import program
from catnip.measures import Floats, port_loss, select
from catnip.papers.outcome import Table
from catnip.papers.quantity import Quantities
from catnip.papers.testbed.runs import RED, TRIES, Runs
from catnip.stats import Interval

measured = Quantities()

BUFFERS_KB = (64, 128, 256, 512)
SEEDS = 10
SIDE_BY_SIDE = 2
TABLES = ("pages", "objects", "connections", "ports")


@dataclass(frozen=True)
class Emulated:
    """One run of a hundred clients in real time."""

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
        """The emulator was not where it should have been, in two tries."""
        return bool(self.certificate["verdict"] == "red")

    @property
    def loss_pct(self) -> float:
        """Packets towards the clients that the bottleneck dropped, percent."""
        towards_clients = next(one for one in self.certificate["links"] if one["name"] == "bottleneck")[
            "certificate"
        ]["up"]
        return 100 * float(sum(towards_clients["dropped"].values())) / float(towards_clients["packets_in"])


@measured
def damaged_objects(runs: Runs) -> str:
    """CAT-S24: objects from nginx that are not whole, of another size, or not as the document is."""
    objects = _all_of(runs, "objects")
    runs.sample = len(objects["bytes"])
    written = {size: f"{_fnv1a(size):016x}" for size in np.unique(objects["bytes"])}
    expected = np.array([written[size] for size in objects["bytes"]])
    wrong = (objects["whole"] != 1) | (objects["body_bytes"] != objects["bytes"])
    return str((wrong | (objects["body_fnv1a"] != expected)).sum())


@measured
def wrongly_marked(runs: Runs) -> str:
    """CAT-S24: connections with nothing sent twice that have more or fewer HIGH packets than they need.

    HIGH are the first and the last three packets of the response, whose size the server tells in its header
    (CAT-S19), and one to three without data: the SYN-ACK, sent again if its answer is late, and the ACK of
    the request.
    """
    connections = _all_of(runs, "connections", "CATNIP")
    once = connections["retransmitted"] == 0
    high, sent = connections["sent_high"][once], connections["sent"][once]
    runs.sample = len(sent)
    without_data = high - np.minimum(sent, 6)
    return str(int(((without_data < 1) | (without_data > 3)).sum()))


@measured
def lateness_p99_ms(runs: Runs) -> float:
    """CAT-S25: the largest of all runs."""
    return max(float(one.certificate["lateness_us"][1]) / 1e3 for one in _everything(runs))


@measured
def packets_lost_from_sight(runs: Runs) -> str:
    """CAT-S25: packets that the emulator itself lost, read too late or could not write."""
    return str(sum(_unaccounted(one) for one in _everything(runs)))


@measured
def red_runs(runs: Runs) -> str:
    """CAT-S25: runs whose certificate is red in two tries."""
    return str(sum(one.is_red for one in _everything(runs)))


@measured
def fifo_loss_pct(runs: Runs, buffer_kb: int) -> Interval:
    """CAT-E10: packets towards the clients that the bottleneck drops, one value per run."""
    return stats.mean([one.loss_pct for one in _runs(runs)[f"{buffer_kb} KB FIFO"]])


@measured
def page_time_ratio(runs: Runs, buffer_kb: int) -> Interval:
    """CAT-E10: page time with CATNIP over that without, mean of the ten pages, one value per pair of runs."""
    return stats.mean(_ratios(_runs(runs), buffer_kb).mean(axis=1))


@measured
def catnip_loss_pct(runs: Runs, buffer_kb: int, packets: str) -> Interval:
    """CAT-E10: `all`, `high` or `low` packets that the CATNIP router drops."""
    lost = []
    for one in _runs(runs)[f"{buffer_kb} KB CATNIP"]:
        losses = port_loss(one.ports, 0, [int(seed) for seed in np.unique(one.ports["seed"])])
        chosen = {"all": losses.loss, "high": losses.high_loss, "low": losses.low_loss}
        lost.append(100 * float(chosen[packets][0]))
    return stats.mean(lost)


@measured
def spread_is_larger(runs: Runs, at_kb: Sequence[int], than_at_kb: Sequence[int]) -> str:
    """CAT-E10: do pages differ more in what they gain at some buffers than at others?"""
    spread = {
        buffer_kb: float(_ratios(_runs(runs), buffer_kb).mean(axis=0).std()) for buffer_kb in BUFFERS_KB
    }
    return "yes" if min(spread[kb] for kb in at_kb) > max(spread[kb] for kb in than_at_kb) else "no"


def table(runs: Runs) -> Table:
    """Table XI."""
    made = _runs(runs)
    rows = [
        [
            f"page {page + 1}",
            *(f"{_ratios(made, buffer_kb).mean(axis=0)[page]:.2f}" for buffer_kb in BUFFERS_KB),
        ]
        for page in range(10)
    ]
    rows.append(["mean", *(str(page_time_ratio(runs, buffer_kb)) for buffer_kb in BUFFERS_KB)])
    rows.append(["loss with FIFO, %", *(str(fifo_loss_pct(runs, buffer_kb)) for buffer_kb in BUFFERS_KB)])
    note = (
        "100 simulated clients, one real nginx, a 10 Mbit/s bottleneck in real time. The paper does not "
        "describe its network."
    )
    columns = ["", *(f"{buffer_kb} KB" for buffer_kb in BUFFERS_KB)]
    return Table("Table XI: page time with CATNIP over that without, by buffer", columns, rows, note)


def _runs(runs: Runs) -> dict[str, list[Emulated]]:
    """Every variant with every seed; a run that was too late is run again once."""
    if runs.emulated is None:
        scenario = paths.scenario("testbed-web")
        seeds = range(runs.first_seed, runs.first_seed + max(1, round(SEEDS * runs.scale)))
        jobs = [(variant, seed) for variant in scenario.variants for seed in seeds]
        told = runs.progress.task("100 clients and a real server")
        told(0, len(jobs))
        runs.emulated = {variant: [] for variant in scenario.variants}
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            ended = pool.map(lambda job: _run(scenario.path, *job), jobs)
            for done, ((variant, _), one) in enumerate(zip(jobs, ended, strict=True)):
                runs.emulated[variant].append(one)
                told(done + 1, len(jobs))
    return runs.emulated


def _run(scenario: str, variant: str, seed: int) -> Emulated:
    for _ in range(TRIES):
        with tempfile.TemporaryDirectory(prefix="catnip-wan-") as folder:
            command = [str(program()), "emulate", scenario, "--variant", variant, "--seed", str(seed)]
            ended = subprocess.run(
                [*command, "--quiet", "--out", folder], capture_output=True, text=True, check=False
            )
            if ended.returncode not in (0, RED):
                raise InputError(f"{scenario}: {variant}: {ended.stderr.strip()[-300:]}")
            certificate = json.loads((Path(folder) / "certificate.json").read_text())
            _, tables = results.read(Path(folder))
            made = Emulated(certificate, *(select(tables[name], 0) for name in TABLES))
            if ended.returncode == 0:
                break
    return made


def _ratios(made: dict[str, list[Emulated]], buffer_kb: int) -> Floats:
    """One row per seed, one column per page."""
    pairs = zip(made[f"{buffer_kb} KB CATNIP"], made[f"{buffer_kb} KB FIFO"], strict=True)
    return np.array([catnip.page_means_s / fifo.page_means_s for catnip, fifo in pairs])


def _everything(runs: Runs) -> list[Emulated]:
    made = [one for both in _runs(runs).values() for one in both]
    runs.sample = len(made)
    return made


def _all_of(runs: Runs, name: str, variants: str = "") -> Mapping[str, NDArray[Any]]:
    """The rows of a table of all runs of the variants with these words in their names."""
    made = [getattr(one, name) for variant, of in _runs(runs).items() if variants in variant for one in of]
    return {key: np.concatenate([table[key] for table in made]) for key in made[0]}


def _fnv1a(size: int) -> int:
    """The hash (FNV-1a, 64 bits) of a document of so many bytes, which is the alphabet over and over."""
    value = 0xCBF29CE484222325
    for at in range(size):
        value = (value ^ (ord("a") + at % 26)) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


def _unaccounted(one: Emulated) -> int:
    """Packets that the emulator lost from sight, read too late or could not write."""
    network, memory = one.certificate["packets_inside"]
    sides = [link["certificate"][side] for link in one.certificate["links"] for side in ("up", "down")]
    missed = sum(host["missed"] + host["unwritable"] for host in one.certificate["hosts"])
    lost: int = abs(network - memory) + missed
    for side in sides:
        accounted = side["packets_out"] + sum(side["dropped"].values()) + side["held"]
        lost += abs(side["packets_in"] - accounted)
    return lost

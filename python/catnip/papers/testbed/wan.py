"""The CATNIP paper's WAN emulation: 100 emulated clients and one real server (CAT-S24, S25, E10)."""

import json
import subprocess
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catnip import paths, results, stats
from catnip._core import InputError
from catnip.cli.emulation import program
from catnip.measures import Floats, port_loss, select
from catnip.papers import reference
from catnip.papers.claims import Beside, Claim, at_most, exactly, reported, within
from catnip.papers.outcome import Part, Table
from catnip.papers.testbed.runs import Runs
from catnip.stats import Interval

BUFFERS_KB = (64, 128, 256, 512)
SEEDS = 10
SIDE_BY_SIDE = 2
RED = 3


@dataclass(frozen=True)
class Emulated:
    """One run of a hundred clients in real time."""

    certificate: dict[str, Any]
    pages: Mapping[str, NDArray[Any]]
    objects: Mapping[str, NDArray[Any]]
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
        down = next(one for one in self.certificate["links"] if one["name"] == "bottleneck")["certificate"][
            "up"
        ]
        return 100 * float(sum(down["dropped"].values())) / float(down["packets_in"])


def emulation(runs: Runs) -> Part:
    """CAT-S24, S25 and E10: Table XI."""
    made = _runs(runs)
    everything = [one for both in made.values() for one in both]
    objects = {key: np.concatenate([one.objects[key] for one in everything]) for key in everything[0].objects}
    damaged = (objects["whole"] != 1) | (objects["body_bytes"] != objects["bytes"])
    lateness_ms = [one.certificate["lateness_us"][1] / 1e3 for one in everything]
    claims: list[Claim] = [
        exactly(
            "CAT-S24",
            f"{len(damaged)} objects fetched by simulated clients from nginx: not whole or of another size",
            str(damaged.sum()),
            "0",
        ),
        exactly("CAT-S24", "different contents of one object", str(_differing(objects)), "0"),
        at_most(
            "CAT-S25",
            "100 clients in real time: largest 99th percentile of lateness, ms",
            max(lateness_ms),
            5,
        ),
        exactly(
            "CAT-S25",
            "packets that the emulator itself lost",
            str(sum(_unaccounted(one) for one in everything)),
            "0",
        ),
        exactly(
            "CAT-S25",
            f"of {len(everything)} runs, those whose certificate is red in two tries",
            str(sum(one.is_red for one in everything)),
            "0",
        ),
    ]
    for row in reference.rows("catnip_wan_emulation_summary.csv"):
        buffer_kb = int(row["buffer_kb"])
        loss, paper_loss = _loss(made, buffer_kb), float(row["tcp_packet_loss_pct"])
        reach = max(0.3 * paper_loss, 0.3)
        beside = Beside(paper=paper_loss)
        if buffer_kb == 256:
            beside |= {"note": "wan-emulation", "explains": (0.52, 0.65)}
        claim = within(
            "CAT-E10",
            f"{buffer_kb} KB, FIFO: loss, %",
            loss.mean,
            max(0, paper_loss - reach),
            paper_loss + reach,
            **beside,
        )
        claims.append(_with_interval(claim, loss))
        low, high = (0.8, 0.98) if buffer_kb <= 128 else (0.95, 1.03)
        ratio = _ratio(made, buffer_kb)
        claim = within(
            "CAT-E10",
            f"{buffer_kb} KB: CATNIP's page time over FIFO's, mean of the ten pages",
            ratio.mean,
            low,
            high,
            paper=float(row["mean_relative_time"]),
        )
        claims.append(_with_interval(claim, ratio))
    for buffer_kb in BUFFERS_KB:
        claims += [
            reported(
                "CAT-E10", f"{buffer_kb} KB, CATNIP: loss of {name}, %", _catnip_loss(made, buffer_kb, name)
            )
            for name in ("all packets", "HIGH packets", "LOW packets")
        ]
    spread = {buffer_kb: float(_ratios(made, buffer_kb).mean(axis=0).std()) for buffer_kb in BUFFERS_KB}
    claims.append(
        exactly(
            "CAT-E10",
            "pages differ more in what they gain at the two small buffers",
            "yes" if min(spread[64], spread[128]) > max(spread[256], spread[512]) else "no",
            "yes",
            paper="0.18, 0.15 against 0.05, 0.05",
        )
    )
    return Part(claims)


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
    rows.append(["mean", *(str(_ratio(made, buffer_kb)) for buffer_kb in BUFFERS_KB)])
    rows.append(["loss with FIFO, %", *(str(_loss(made, buffer_kb)) for buffer_kb in BUFFERS_KB)])
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
        runs.emulated = {variant: [] for variant in scenario.variants}
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            ended = pool.map(lambda job: _run(scenario.path, *job), jobs)
            for done, ((variant, _), one) in enumerate(zip(jobs, ended, strict=True)):
                runs.emulated[variant].append(one)
                told(done + 1, len(jobs))
    return runs.emulated


def _run(scenario: str, variant: str, seed: int) -> Emulated:
    for _ in range(2):
        with tempfile.TemporaryDirectory(prefix="catnip-wan-") as folder:
            command = [str(program()), "emulate", scenario, "--variant", variant, "--seed", str(seed)]
            ended = subprocess.run(
                [*command, "--quiet", "--out", folder], capture_output=True, text=True, check=False
            )
            if ended.returncode not in (0, RED):
                raise InputError(f"{scenario}: {variant}: {ended.stderr.strip()[-300:]}")
            certificate = json.loads((Path(folder) / "certificate.json").read_text())
            _, tables = results.read(Path(folder))
            made = Emulated(certificate, *(select(tables[name], 0) for name in ("pages", "objects", "ports")))
            if ended.returncode == 0:
                break
    return made


def _ratios(made: dict[str, list[Emulated]], buffer_kb: int) -> Floats:
    """One row per seed, one column per page."""
    pairs = zip(made[f"{buffer_kb} KB CATNIP"], made[f"{buffer_kb} KB FIFO"], strict=True)
    return np.array([catnip.page_means_s / fifo.page_means_s for catnip, fifo in pairs])


def _ratio(made: dict[str, list[Emulated]], buffer_kb: int) -> Interval:
    return stats.mean(_ratios(made, buffer_kb).mean(axis=1))


def _loss(made: dict[str, list[Emulated]], buffer_kb: int) -> Interval:
    return stats.mean([one.loss_pct for one in made[f"{buffer_kb} KB FIFO"]])


def _catnip_loss(made: dict[str, list[Emulated]], buffer_kb: int, of: str) -> Interval:
    lost = []
    for one in made[f"{buffer_kb} KB CATNIP"]:
        losses = port_loss(one.ports, 0, [int(seed) for seed in np.unique(one.ports["seed"])])
        chosen = {
            "all packets": losses.loss,
            "HIGH packets": losses.high_loss,
            "LOW packets": losses.low_loss,
        }
        lost.append(100 * float(chosen[of][0]))
    return stats.mean(lost)


def _with_interval(claim: Claim, value: Interval) -> Claim:
    """Judged by its mean, however few runs there are."""
    return replace(claim, low=value.low, high=value.high, seeds=value.n)


def _differing(objects: Mapping[str, NDArray[Any]]) -> int:
    """Objects whose bodies were not the same in every fetch."""
    seen: dict[tuple[int, int], set[str]] = {}
    for page, number, body in zip(*(objects[key] for key in ("page", "object", "body_fnv1a")), strict=True):
        seen.setdefault((page, number), set()).add(body)
    return sum(len(contents) > 1 for contents in seen.values())


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

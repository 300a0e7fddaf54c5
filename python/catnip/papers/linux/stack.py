"""Benefit of marks for a modern stack: fetches of files over a slow line, in this kernel and simulated."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from catnip.analysis import measures, stats
from catnip.analysis.interval import UNKNOWN, Interval
from catnip.analysis.measures import Floats, PortLoss
from catnip.base import paths
from catnip.base.programs import AGENT, program
from catnip.papers import reference
from catnip.papers.emulation import emulate
from catnip.papers.linux.runs import TRIES, KernelRuns
from catnip.papers.quantity import Quantities
from catnip.papers.testbed.wan import mean_pct
from catnip.papers.unavailable import Unavailable

measured = Quantities()

MODEL, EMULATED = "linux-stack-model", "linux-stack"
DROP_TAIL, LAST, SPM = "DropTail", "last packets", "SPM"
MARKS = {DROP_TAIL: "none", LAST: "last-only", SPM: "spm"}
"""Marker of the agent by system. The router is DropTail for the first system, and CATNIP-Good for the other
systems."""
SYSTEMS = tuple(MARKS)
MODEL_MARKS = {
    DROP_TAIL: "none",
    LAST: "last-only:handshake=high",
    SPM: "spm:handshake=high",
}
KERNEL, SIMULATED = "kernel", "simulator"
ALL, MARKED, OTHERS = "all", "server", "other server"
STATISTICS: Mapping[str, Callable[[Floats], float]] = {
    "mean": lambda times: float(np.mean(times)),
    "95th percentile": lambda times: float(np.quantile(times, 0.95)),
    "99th percentile": lambda times: float(np.quantile(times, 0.99)),
}
MODEL_SEEDS = 40
FOR_S, QUICK_FOR_S = 40.0, 12.0
SETTLED_S, UNTIL_S = 4.0, 5.0
"""Parts at the start and at the end of a run whose fetches are not counted, s."""
SIDE_BY_SIDE, FAST_SIDE_BY_SIDE = 14, 3
LINE = "line"


@dataclass(frozen=True)
class Cell:
    """Configuration (cell) of the end systems and the slow line."""

    control: str = "cubic"
    window: int = 10
    """Initial window of the servers, segments."""
    rack: bool = True
    queue: int = 10
    half: bool = False
    """True if only one of the two servers marks."""
    rate: str = "1.5Mbit"
    readers: int = 30
    """Number of readers, an even one."""

    def host(self, system: str, is_other: bool) -> str:
        """Returns the arguments of host.sh for one of the two servers."""
        marks = "none" if is_other and self.half else MARKS[system]
        return f"{self.control} {self.window} {int(self.rack)} {marks}"

    def changes(self, system: str) -> list[tuple[str, str]]:
        """Returns the keys of the simulated scenario to change for this configuration, with their values."""
        marks = MODEL_MARKS[system]
        keys = [
            ("tcp.control", {"cubic": "linux-cubic"}.get(self.control, self.control)),
            ("tcp.initial_window_segments", str(self.window)),
            ("define.marker", marks),
            ("define.others", "none" if self.half else marks),
            (
                "link.line.there.queue",
                f"{'drop-tail' if system == DROP_TAIL else 'catnip-good'}:{self.queue}",
            ),
        ]
        if not self.rack:
            keys.append(("tcp.recovery", "sack"))
        if self.is_fast:
            of_each = str(self.readers // 2)
            keys.append(("link.line.rate", self.rate))
            keys += [(f"node.{node}.count", of_each) for node in ("reader", "other-reader")]
        return keys

    def variant(self, system: str) -> str:
        """Returns the name of the variant of the emulated scenario for this configuration."""
        queue = "DropTail" if system == DROP_TAIL else "CATNIP-Good"
        return f"{queue}, {self.queue}" + (f", {self.rate}" if self.is_fast else "")

    @property
    def is_fast(self) -> bool:
        """True if the line is another one than the slow line."""
        return self.rate != Cell.rate

    @property
    def can_be_simulated(self) -> bool:
        """True if the simulator supports the configuration: its BBR requires RACK."""
        return self.rack or self.control != "bbr"


BASE, HALF = "as Linux does", "half of the servers mark"
ONE_AT_A_TIME: Mapping[str, Callable[[Cell], Cell]] = {
    BASE: lambda cell: cell,
    "initial window 3": lambda cell: replace(cell, window=3),
    "initial window 1": lambda cell: replace(cell, window=1),
    "without RACK and probes": lambda cell: replace(cell, rack=False),
    "5 packets of buffer": lambda cell: replace(cell, queue=5),
    "40 packets of buffer": lambda cell: replace(cell, queue=40),
    HALF: lambda cell: replace(cell, half=True),
}
FAST: Mapping[str, Callable[[Cell], Cell]] = {
    "10 Mbit/s": lambda cell: replace(cell, rate="10Mbit", readers=200, queue=33),
    "10 Mbit/s, two products of buffer": lambda cell: replace(cell, rate="10Mbit", readers=200, queue=66),
}
"""Faster lines, with a bandwidth-delay product of buffer and with two."""
QUICK_CELLS = (BASE, "40 packets of buffer")
CONTROLS = {"cubic": "CUBIC", "bbr": "BBR"}


def cell(control: str, name: str) -> Cell:
    """Returns the default configuration of a control with the change `name`, of `FAST` or one at a time."""
    return {**ONE_AT_A_TIME, **FAST}[name](Cell(control))


@dataclass(frozen=True)
class Run:
    """Result of one run: fetch times by server, losses of the line, and failed fetches."""

    waited_s: Mapping[str, Floats]
    loss: PortLoss
    errors: int = 0
    is_red: bool = False

    def of(self, group: str) -> Floats:
        """Returns the fetch times of a group of servers, s; an unfinished fetch counts with its duration."""
        return np.concatenate(list(self.waited_s.values())) if group == ALL else self.waited_s[group]


Measured = Mapping[tuple[str, str, str], list[Run]]
"""Runs, one for each seed, by congestion control, configuration and system."""


def cells(quick: bool = False) -> list[tuple[str, str]]:
    """Returns congestion control and change of each configuration; fewer for a quick run."""
    return [(control, name) for control in CONTROLS for name in (QUICK_CELLS if quick else ONE_AT_A_TIME)]


def fast_cells() -> list[tuple[str, str]]:
    """Returns congestion control and change of each configuration with another line than the slow one."""
    return [(control, name) for control in CONTROLS for name in FAST]


def kernel_runs(runs: KernelRuns) -> Measured:
    """Returns the runs over the slow line in the kernel; systems and seeds run concurrently."""
    return runs.cached("stack", lambda: _kernel_runs(runs, cells(runs.quick), SIDE_BY_SIDE))


def fast_runs(runs: KernelRuns) -> Measured:
    """Returns the runs over faster lines in the kernel, fewer at a time."""
    return runs.cached("fast lines", lambda: _kernel_runs(runs, fast_cells(), FAST_SIDE_BY_SIDE))


def model(runs: KernelRuns) -> Measured:
    """Returns the runs over the slow line in the simulator."""
    return runs.cached("stack model", lambda: _model(runs, cells(runs.quick)))


def fast_model(runs: KernelRuns) -> Measured:
    """Returns the runs over faster lines in the simulator."""
    return runs.cached("fast lines model", lambda: _model(runs, fast_cells()))


def _of(runs: KernelRuns, control: str, name: str, system: str, by: str) -> list[Run]:
    if (control, name) not in cells(runs.quick) and (runs.quick or name not in FAST):
        raise Unavailable(f"a quick run has {len(QUICK_CELLS)} of {len(ONE_AT_A_TIME)} configurations")
    measure = {
        (KERNEL, False): kernel_runs,
        (KERNEL, True): fast_runs,
        (SIMULATED, False): model,
        (SIMULATED, True): fast_model,
    }[by, name in FAST]
    results = measure(runs).get((control, name, system), [])
    runs.count_sample(len(results))
    return results


@measured
def red_runs(runs: KernelRuns, line: Literal["slow", "fast"] = "slow") -> str:
    """LIN-S1, E5: number of runs whose certificate is red in all tries."""
    results = [run for of in (fast_runs if line == "fast" else kernel_runs)(runs).values() for run in of]
    runs.sample = len(results)
    return str(sum(run.is_red for run in results))


@measured
def failed_fetches(runs: KernelRuns) -> str:
    """LIN-S1: number of fetches that ended with an error or without the complete file."""
    return str(sum(run.errors for of in kernel_runs(runs).values() for run in of))


@measured
def fetch_s(
    runs: KernelRuns,
    control: str,
    cell: str,
    system: str,
    statistic: str = "mean",
    by: str = KERNEL,
    group: str = ALL,
) -> Interval:
    """Statistic of fetch times, s: mean over the runs, or a quantile of the pooled times of all runs."""
    results = _of(runs, control, cell, system, by)
    if not results:
        return UNKNOWN
    if statistic == "mean":
        return stats.mean([run.of(group).mean() for run in results])
    return stats.jackknife(_pooled(results, statistic, group), len(results))


@measured
def change_pct(
    runs: KernelRuns,
    control: str,
    cell: str,
    system: str,
    statistic: str = "mean",
    by: str = KERNEL,
    group: str = ALL,
) -> Interval:
    """Change of a statistic of fetch times relative to DropTail, percent, from runs paired by seed."""
    ours, theirs = (_of(runs, control, cell, one, by) for one in (system, DROP_TAIL))
    if not ours:
        return UNKNOWN
    if statistic == "mean":
        here, theirs_mean = ([float(run.of(group).mean()) for run in of] for of in (ours, theirs))
        over = stats.ratio(here, theirs_mean)
        return Interval(100 * over.mean - 100, 100 * over.low - 100, 100 * over.high - 100, over.n)
    our_value, their_value = (_pooled(of, statistic, group) for of in (ours, theirs))
    return stats.jackknife(lambda chosen: 100 * (our_value(chosen) / their_value(chosen) - 1), len(ours))


@measured
def prediction_off_points(runs: KernelRuns, control: str, cell: str, system: str) -> Interval:
    """LIN-E4: change of the mean fetch time in the simulator minus that in the kernel, percentage points."""
    simulated, real = (change_pct(runs, control, cell, system, by=by) for by in (SIMULATED, KERNEL))
    return stats.difference(simulated, real)


def predictions_off_points(runs: KernelRuns) -> list[Interval]:
    """Returns `prediction_off_points` of all configurations and systems that the simulator supports."""
    known = [one for one in cells(runs.quick) if cell(*one).can_be_simulated]
    return [prediction_off_points(runs, *one, system) for one in known for system in (LAST, SPM)]


@measured
def loss_pct(
    runs: KernelRuns, control: str, cell: str, system: str, packets: str, by: str = KERNEL
) -> Interval:
    """Share of arriving packets that the slow line drops, percent.

    `packets` selects `all`, `high` or `low` packets. With `share`, the result is the share of HIGH packets
    among all arriving packets instead.
    """
    results = _of(runs, control, cell, system, by)
    return mean_pct([run.loss for run in results], packets) if results else UNKNOWN


def _pooled(results: Sequence[Run], statistic: str, group: str) -> Callable[[NDArray[np.intp]], float]:
    return lambda chosen: STATISTICS[statistic](np.concatenate([results[run].of(group) for run in chosen]))


def _kernel_runs(runs: KernelRuns, keys: Sequence[tuple[str, str]], side_by_side: int) -> Measured:
    runs.require("nginx")
    for_s = QUICK_FOR_S if runs.quick else FOR_S
    known = [(*key, seed, system) for key in keys for seed in runs.seeds(EMULATED) for system in SYSTEMS]
    jobs = {one: partial(emulated, *one, for_s) for one in known}
    report = runs.progress.task("files over a line, kernel")
    ended = runs.each(EMULATED, jobs, side_by_side, report)
    results: dict[tuple[str, str, str], list[Run]] = {}
    for (control, name, _, system), run in ended.items():
        results.setdefault((control, name, system), []).append(run)
    return results


def emulated(control: str, name: str, seed: int, system: str, for_s: float) -> Run:
    """Emulates one run in real time, at most `TRIES` times, until its certificate is not red."""
    one = cell(control, name)
    environment = {
        "CATNIP_HOST": one.host(system, is_other=False),
        "CATNIP_OTHER_HOST": one.host(system, is_other=True),
        "CATNIP_FILES": " ".join(str(size) for size in files()),
        "CATNIP_FOR_S": str(for_s),
        "CATNIP_READERS": str(one.readers),
        "CATNIP_SEED": str(seed),
        "CATNIP_AGENT": str(program(AGENT)),
    }
    scenario = str(paths.scenario_file(EMULATED))
    for _ in range(TRIES):
        ended = emulate(scenario, one.variant(system), seed, environment, f"linux: {control}, {name}")
        result = read_run(ended.out, measures.port_loss(ended.tables["ports"], 0, [seed], LINE), for_s)
        if not ended.is_red:
            return result
    return replace(result, is_red=True)


def read_run(out: str, loss: PortLoss, for_s: float) -> Run:
    """Returns a run from the output of the fetching clients and the losses of the slow line."""
    lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    counted = [line for line in lines if SETTLED_S <= line["start_s"] < for_s - UNTIL_S]
    waited = {
        name: np.array(
            [line.get("latency_s", line.get("after_s")) for line in counted if line["server"] == server]
        )
        for server, name in enumerate((MARKED, OTHERS))
    }
    errors = sum("error" in line or line.get("bytes", line["size"]) != line["size"] for line in lines)
    return Run(waited, loss, errors=errors)


def files() -> list[int]:
    """Returns the sizes of the files that the clients fetch, bytes."""
    return [int(row["bytes"]) for row in reference.rows("linux_files.csv")]


def _model(runs: KernelRuns, keys: Sequence[tuple[str, str]]) -> Measured:
    for_s = QUICK_FOR_S if runs.quick else FOR_S
    report = runs.progress.task("files over a line, simulated")
    count = len(runs.seeds(EMULATED)) if runs.quick else MODEL_SEEDS
    chosen = runs.first_seeds(count)
    known = [(*key, system) for key in keys if cell(*key).can_be_simulated for system in SYSTEMS]
    results = {}
    for done, (control, name, system) in enumerate(known):
        one = cell(control, name)
        changes = [*one.changes(system), ("duration", f"{for_s:g}s")]
        scenario = paths.scenario(MODEL, changes)
        tables = scenario.run(scenario.variants, chosen, ["transfers", "ports"])
        results[control, name, system] = [_simulated(tables, seed, for_s) for seed in chosen]
        report(done + 1, len(known))
    return results


def _simulated(tables: Mapping[str, Mapping[str, Any]], seed: int, for_s: float) -> Run:
    rows, groups = tables["transfers"], np.asarray(tables["transfers"]["group"])
    start = np.asarray(rows["start_s"])
    counted = (np.asarray(rows["seed"]) == seed) & (start >= SETTLED_S) & (start < for_s - UNTIL_S)
    names = {"web": MARKED, "other": OTHERS}
    waited = {
        name: np.asarray(rows["waited_s"])[counted & (groups == group)] for group, name in names.items()
    }
    return Run(waited, measures.port_loss(tables["ports"], 0, [seed], LINE))

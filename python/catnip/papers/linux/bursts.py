"""Quantities of newCWV in this machine's kernel, at the newCWV paper's settings (CWV-S5, S15, E6 to E11)."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from catnip.analysis import bursts, stats
from catnip.analysis.interval import Interval
from catnip.papers.linux.runs import KernelRuns, controllers
from catnip.papers.newcwv import real
from catnip.papers.newcwv.real import FREE, KERNEL_CWV, KERNEL_PACED, OF_THE_KERNEL, RENO, SHARED
from catnip.papers.quantity import Quantities
from catnip.papers.runs import Runs
from catnip.report.model import Table

measured = Quantities()

FULL_S = 240.0
SIZES_KB = (5, 10, 20, 40, 80)
IDLES_S = (1, 3, 5, 7, 10, 15)
FEWEST = 10
"""Smallest number of bursts of a size and idle period for which a gain is computed."""


@measured
def kernel_gain_pct(
    runs: KernelRuns, setting: str, system: str, burst_kb: float, idle_s: float = 1.0, simulated: bool = False
) -> Interval:
    """Mean reduction of burst times relative to the kernel's Reno, percent.

    The bursts are larger than `burst_kb` and follow idle periods above `idle_s`.
    """
    return bursts.gain(_class(runs, setting, system, burst_kb, idle_s, simulated), _seeds(runs))


@measured
def extreme_gain_pct(runs: KernelRuns, setting: str, system: str, which: str) -> float:
    """Least, greatest or average `kernel_gain_pct` over sizes and idle periods of enough bursts, percent."""
    values = [gain.mean for gain in _classes(runs, setting, system).values()]
    runs.sample = len(values)
    chosen: dict[str, Callable[[Any], float]] = {"least": min, "greatest": max, "average": np.mean}
    return float(chosen[which](values)) if values else float("nan")


@measured
def falls_with_size(runs: KernelRuns, setting: str, system: str = KERNEL_CWV) -> str:
    """Returns `yes` if the gain decreases from bursts above 5 KB to those above 20 KB and above 80 KB."""
    gains = [kernel_gain_pct(runs, setting, system, size).mean for size in (5, 20, 80)]
    return "yes" if gains[0] > gains[1] > gains[2] else "no"


@measured
def large_over_small_points(runs: KernelRuns, setting: str) -> float:
    """Gain of newCWV for bursts above 80 KB minus that for bursts above 5 KB, percentage points."""
    large, small = (kernel_gain_pct(runs, setting, KERNEL_CWV, size).mean for size in (80, 5))
    return large - small


@measured
def long_over_short_points(runs: KernelRuns, setting: str, burst_kb: float = 5) -> float:
    """Gain of newCWV after idle periods above 15 s minus that after those above 1 s, percentage points."""
    long, short = (kernel_gain_pct(runs, setting, KERNEL_CWV, burst_kb, idle_s).mean for idle_s in (15, 1))
    return long - short


@measured
def paced_over_unpaced_points(runs: KernelRuns, burst_kb: float = 80, idle_s: float = 1.0) -> float:
    """Gain of newCWV beside a file transfer with pacing minus that without pacing, percentage points."""
    paced, unpaced = (
        kernel_gain_pct(runs, SHARED, system, burst_kb, idle_s).mean for system in (KERNEL_PACED, KERNEL_CWV)
    )
    return paced - unpaced


@measured
def retransmission_ratio(runs: KernelRuns, setting: str) -> float:
    """Ratio of the share of retransmitted segments with newCWV to that with the kernel's Reno."""

    def share(system: str) -> float:
        chosen = [real.of(one).run(setting, system) for one in _traces(runs)]
        return sum(run.retransmitted for run in chosen) / sum(run.sent for run in chosen)

    theirs = share(RENO)
    return share(KERNEL_CWV) / theirs if theirs else float("nan")


@measured
def kernel_spread_ms(runs: KernelRuns, system: str) -> float:
    """Median time from the first to the last byte of a burst at the client, ms.

    The bursts are above 20 KB, follow idle periods above 1 s, and newCWV sends them within one round trip.
    """
    parts = [real.class_of(one, FREE, system, 20_000, 1.0, reference=KERNEL_CWV) for one in _traces(runs)]
    return real.spread_ms(bursts.joined(parts))


@measured
def file_over(runs: KernelRuns, system: str) -> float:
    """Ratio of the file transfer's throughput beside the bursts of `system` to that beside those of Reno."""
    ours, theirs = (sum(real.file_kbps(one, each) for one in _traces(runs)) for each in (system, RENO))
    return ours / theirs


@measured
def over_simulated_kernel(runs: KernelRuns, setting: str, system: str) -> Interval:
    """Ratio of the time of bursts above 5 KB in the kernel to that of the same bursts in the simulator."""
    here = bursts.joined([real.beside_simulated(one, setting, system) for one in _traces(runs)])
    return stats.ratio(here.other["time_s"], here.reference["time_s"])


@measured
def cwv_red_certificates(runs: KernelRuns) -> str:
    """Number of emulated runs whose router has a red certificate in both tries."""
    return str(sum(int(real.red_certificates(one)) for one in _traces(runs)))


@measured
def invalid_bursts(runs: KernelRuns) -> str:
    """Number of responses with a wrong size plus number of connections that ended early."""
    counts = (real.responses_of_another_size, real.broken_connections)
    return str(sum(int(count(one)) for one in _traces(runs) for count in counts))


def table(runs: KernelRuns) -> Table:
    """Returns the table of measured and simulated gains, for sizes and idle periods with enough bursts."""
    rows = []
    for setting in real.SETTINGS:
        for system in (KERNEL_CWV, KERNEL_PACED):
            for size in SIZES_KB:
                cells = []
                for simulated in (False, True):
                    for idle in (1, 5, 15):
                        cells.append(_cell(runs, setting, system, size, idle, simulated))
                rows.append([f"{setting}, {system}, above {size} KB", *cells])
    silences = ("after 1 s", "after 5 s", "after 15 s")
    columns = ["", *(f"kernel: {one}" for one in silences), *(f"simulator: {one}" for one in silences)]
    note = (
        f"Gains over Reno in percent, with the number of bursts; none where there are fewer than {FEWEST}. "
        f"Traces of {FULL_S:.0f} s, the same {len(_traces(runs))} for all; round trip 200 ms; free: no rate "
        "limit, congested: 2 Mbit/s and a buffer of 30 KB, shared: a file beside it. The simulator's gains "
        "are those of its newCWV over its Reno as Linux has it."
    )
    return Table("Bursts under newCWV in the kernel", columns, rows, note)


def _cell(runs: KernelRuns, setting: str, system: str, size: int, idle: int, simulated: bool) -> str:
    here = _class(runs, setting, system, size, idle, simulated)
    if len(here.gain_pct) < FEWEST:
        return ""
    one = bursts.gain(here, _seeds(runs))
    return f"{one.mean:.0f} [{one.low:.0f}, {one.high:.0f}] ({len(here.gain_pct)})"


def _class(
    runs: KernelRuns, setting: str, system: str, size_kb: float, idle_s: float, simulated: bool = False
) -> bursts.Pairs:
    """Returns the bursts of a size and idle period, paired with those under Reno; all traces."""
    return bursts.joined(
        [
            real.class_of(one, setting, system, 1000 * size_kb, idle_s, simulated, RENO)
            for one in _traces(runs)
        ]
    )


def _classes(runs: KernelRuns, setting: str, system: str) -> dict[tuple[int, int], Interval]:
    """Returns the gain for each size and idle period of the paper with enough bursts."""
    gains = {}
    for size in SIZES_KB:
        for idle in IDLES_S:
            here = _class(runs, setting, system, size, idle)
            if len(here.gain_pct) >= FEWEST:
                gains[size, idle] = bursts.gain(here, _seeds(runs))
    return gains


def _seeds(runs: KernelRuns) -> list[int]:
    return [one.first_seed for one in _traces(runs)]


def _traces(runs: KernelRuns) -> list[Runs]:
    """Returns the runs for each trace, in the form that the quantities of the newCWV paper take."""

    def make() -> list[Runs]:
        runs.require()
        traces = [Runs(runs.quick, None, seed, runs.progress) for seed in runs.seeds(real.EMULATED)]
        with controllers():
            for one in traces:
                one.cached("real", partial(real.measure, one, OF_THE_KERNEL, FULL_S))
        return traces

    return runs.cached("traces", make)

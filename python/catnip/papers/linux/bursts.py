"""Quantities of newCWV in this machine's kernel, at the newCWV paper's settings (CWV-S5, S15, E6 to E11)."""

import math
from collections.abc import Sequence
from functools import partial
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from catnip.analysis import bursts, stats
from catnip.analysis.interval import UNKNOWN, Interval
from catnip.base.progress import side_by_side
from catnip.papers.linux.runs import KernelRuns, controllers
from catnip.papers.newcwv import real
from catnip.papers.newcwv.real import (
    BUFFER_KB,
    CONGESTED,
    FREE,
    KERNEL_CWV,
    KERNEL_PACED,
    OF_THE_KERNEL,
    RENO,
    SETTINGS,
    SHARED,
)
from catnip.papers.quantity import Quantities
from catnip.papers.runs import Runs
from catnip.papers.unavailable import Unavailable
from catnip.report.model import Table

measured = Quantities()

FULL_S = 240.0
RUNS_AT_ONCE = 36
"""Number of variants that are measured at the same time, those of one trace together. Two cores are idle for
more than half of the time then."""
BUFFERS_KB = (15, 60, 120)
"""Sizes of the bottleneck's buffer besides that of the paper."""
BUFFER_TRACES = 10
"""Number of traces that are measured with each of `BUFFERS_KB`, the first ones."""
SIZES_KB = (5, 10, 20, 40, 80)
IDLES_S = (1, 3, 5, 7, 10, 15)
FEWEST = 10
"""Smallest number of bursts of a size and idle period for which a gain is computed."""


@measured
def kernel_gain_pct(
    runs: KernelRuns,
    setting: str,
    system: str,
    burst_kb: float,
    idle_s: float = 1.0,
    simulated: bool = False,
    buffer_kb: int = BUFFER_KB,
) -> Interval:
    """Mean reduction of burst times relative to the kernel's Reno, percent.

    The bursts are larger than `burst_kb` and follow idle periods above `idle_s`.
    """
    here = _class(runs, setting, system, burst_kb, idle_s, simulated, buffer_kb)
    return bursts.gain(here, _seeds(runs, buffer_kb))


@measured
def extreme_gain_pct(runs: KernelRuns, setting: str, system: str, which: str) -> Interval:
    """Least, greatest or average `kernel_gain_pct` over sizes and idle periods of enough bursts, percent."""
    known = [one for one in product(SIZES_KB, IDLES_S) if _count(runs, setting, system, *one) >= FEWEST]
    runs.sample = len(known)
    if not known:
        return UNKNOWN
    if which == "average":
        gains = [_gain_pct(runs, setting, system, *one) for one in known]
        return _over_traces(runs, lambda chosen: float(np.mean([gain(chosen) for gain in gains])))
    # The intervals of all classes hold at once.
    pairs = (_class(runs, setting, system, *one) for one in known)
    each = [bursts.gain(one, _seeds(runs), stats.family(len(known))) for one in pairs]
    return {"least": stats.least, "greatest": stats.greatest}[which](each)


@measured
def falls_with_size_points(runs: KernelRuns, setting: str, system: str = KERNEL_CWV) -> Interval:
    """Fall of the gain from bursts above 5, 20 and 80 KB to each larger size, least of the three, points."""
    gains = [_gain_pct(runs, setting, system, size) for size in (5, 20, 80)]
    falls = [_difference(runs, *pair, stats.family(3)) for pair in combinations(gains, 2)]
    return stats.least(falls)


@measured
def large_over_small_points(runs: KernelRuns, setting: str) -> Interval:
    """Gain of newCWV for bursts above 80 KB minus that for bursts above 5 KB, percentage points."""
    large, small = (_gain_pct(runs, setting, KERNEL_CWV, size) for size in (80, 5))
    return _difference(runs, large, small)


@measured
def long_over_short_points(runs: KernelRuns, setting: str, burst_kb: float = 5) -> Interval:
    """Gain of newCWV after idle periods above 15 s minus that after those above 1 s, percentage points."""
    long, short = (_gain_pct(runs, setting, KERNEL_CWV, burst_kb, idle_s) for idle_s in (15, 1))
    return _difference(runs, long, short)


@measured
def paced_over_unpaced_points(
    runs: KernelRuns, burst_kb: float = 80, idle_s: float = 1.0, buffer_kb: int = BUFFER_KB
) -> Interval:
    """Gain of newCWV beside a file transfer with pacing minus that without pacing, percentage points."""
    paced, unpaced = (
        _gain_pct(runs, SHARED, system, burst_kb, idle_s, buffer_kb) for system in (KERNEL_PACED, KERNEL_CWV)
    )
    return _difference(runs, paced, unpaced, buffer_kb=buffer_kb)


@measured
def retransmission_ratio(runs: KernelRuns, setting: str, buffer_kb: int = BUFFER_KB) -> Interval:
    """Ratio of the share of retransmitted segments with newCWV to that with the kernel's Reno."""
    traces = _traces(runs, buffer_kb)

    def share(system: str, chosen: NDArray[np.intp]) -> float:
        here = [real.of(traces[trace]).run(setting, system) for trace in chosen]
        return sum(run.retransmitted for run in here) / sum(run.sent for run in here)

    if not share(RENO, np.arange(len(traces))):
        return UNKNOWN
    return _over_traces(
        runs,
        lambda chosen: share(KERNEL_CWV, chosen) / (share(RENO, chosen) or math.nan),
        buffer_kb=buffer_kb,
    )


@measured
def kernel_spread_ms(runs: KernelRuns, system: str) -> Interval:
    """Median time from the first to the last byte of a burst at the client, ms.

    The bursts are above 20 KB, follow idle periods above 1 s, and newCWV sends them within one round trip.
    """
    parts = [real.class_of(one, FREE, system, 20_000, 1.0, reference=KERNEL_CWV) for one in _traces(runs)]
    return _over_traces(runs, lambda chosen: real.spread_ms(bursts.joined([parts[one] for one in chosen])))


@measured
def file_over(runs: KernelRuns, system: str, buffer_kb: int = BUFFER_KB) -> Interval:
    """Ratio of the file transfer's throughput beside the bursts of `system` to that beside those of Reno."""
    traces = _traces(runs, buffer_kb)
    ours, theirs = ([real.file_kbps(one, each) for one in traces] for each in (system, RENO))
    return stats.ratio(ours, theirs)


@measured
def over_simulated_kernel(runs: KernelRuns, setting: str, system: str) -> Interval:
    """Ratio of the time of bursts above 5 KB in the kernel to that of the same bursts in the simulator."""
    traces = [real.beside_simulated(one, setting, system) for one in _traces(runs)]
    here, simulated = (
        [float(np.sum(rows["time_s"])) for rows in side]
        for side in zip(*((one.other, one.reference) for one in traces), strict=True)
    )
    return stats.ratio(here, simulated)


@measured
def cwv_red_certificates(runs: KernelRuns) -> str:
    """Number of emulated runs whose router has a red certificate in both tries."""
    return str(sum(int(real.red_certificates(one)) for one in _all_traces(runs)))


@measured
def invalid_bursts(runs: KernelRuns) -> str:
    """Number of responses with a wrong size plus number of connections that ended early."""
    counts = (real.responses_of_another_size, real.broken_connections)
    return str(sum(int(count(one)) for one in _all_traces(runs) for count in counts))


def buffers(quick: bool = False) -> Sequence[int]:
    """Returns the measured sizes of the bottleneck's buffer, KB, the paper's first; only that if `quick`."""
    return (BUFFER_KB,) if quick else (BUFFER_KB, *BUFFERS_KB)


def table(runs: KernelRuns) -> Table:
    """Returns the table of measured and simulated gains, for sizes and idle periods with enough bursts."""
    paths = [(setting, one) for one in buffers(runs.quick) for setting in _settings(one)]
    rows = []
    for setting, buffer_kb in paths:
        label = setting if buffer_kb == BUFFER_KB else f"{setting}, {buffer_kb} KB of buffer"
        for system in (KERNEL_CWV, KERNEL_PACED):
            for size in SIZES_KB:
                cells = []
                for simulated in (False, True):
                    for idle in (1, 5, 15):
                        here = _class(runs, setting, system, size, idle, simulated, buffer_kb)
                        cells.append(_cell(here, _seeds(runs, buffer_kb)))
                rows.append([f"{label}, {system}, above {size} KB", *cells])
    silences = ("after 1 s", "after 5 s", "after 15 s")
    columns = ["", *(f"kernel: {one}" for one in silences), *(f"simulator: {one}" for one in silences)]
    note = (
        f"Gains over Reno in percent, with the number of bursts; none where there are fewer than {FEWEST}. "
        f"Traces of {FULL_S:.0f} s, the same {len(_traces(runs))} for all, the first "
        f"{len(_traces(runs, buffers(runs.quick)[-1]))} with another buffer; round trip 200 ms; free: no "
        f"rate limit, congested: 2 Mbit/s and a buffer of {BUFFER_KB} KB, shared: a file beside it. The "
        "simulator's gains are those of its newCWV over its Reno as Linux has it."
    )
    return Table("Bursts under newCWV in the kernel", columns, rows, note)


def _cell(here: bursts.Pairs, seeds: list[int]) -> str:
    if len(here.gain_pct) < FEWEST:
        return ""
    one = bursts.gain(here, seeds)
    return f"{one.mean:.0f} [{one.low:.0f}, {one.high:.0f}] ({len(here.gain_pct)})"


def _class(
    runs: KernelRuns,
    setting: str,
    system: str,
    size_kb: float,
    idle_s: float,
    simulated: bool = False,
    buffer_kb: int = BUFFER_KB,
) -> bursts.Pairs:
    """Returns the bursts of a size and idle period, paired with those under Reno; all traces."""
    return bursts.joined(
        [
            real.class_of(one, setting, system, 1000 * size_kb, idle_s, simulated, RENO)
            for one in _traces(runs, buffer_kb)
        ]
    )


def _count(runs: KernelRuns, setting: str, system: str, size_kb: float, idle_s: float) -> int:
    return len(_class(runs, setting, system, size_kb, idle_s).gain_pct)


def _gain_pct(
    runs: KernelRuns,
    setting: str,
    system: str,
    size_kb: float,
    idle_s: float = 1.0,
    buffer_kb: int = BUFFER_KB,
) -> stats.Statistic:
    """Returns the function that computes `kernel_gain_pct` from the traces with the given indices."""
    each = [
        real.class_of(one, setting, system, 1000 * size_kb, idle_s, reference=RENO).gain_pct
        for one in _traces(runs, buffer_kb)
    ]

    def mean(chosen: NDArray[np.intp]) -> float:
        gains = np.concatenate([each[trace] for trace in chosen])
        return float(gains.mean()) if len(gains) else math.nan

    return mean


def _difference(
    runs: KernelRuns,
    left: stats.Statistic,
    right: stats.Statistic,
    confidence: float = 0.95,
    buffer_kb: int = BUFFER_KB,
) -> Interval:
    return _over_traces(runs, lambda chosen: left(chosen) - right(chosen), confidence, buffer_kb)


def _over_traces(
    runs: KernelRuns, statistic: stats.Statistic, confidence: float = 0.95, buffer_kb: int = BUFFER_KB
) -> Interval:
    """Returns a statistic of all traces, whose bursts depend on each other within a trace."""
    return stats.jackknife(statistic, len(_traces(runs, buffer_kb)), confidence)


def _settings(buffer_kb: int) -> Sequence[str]:
    """Returns the settings measured with a buffer: all with the paper's, else those that have one."""
    return SETTINGS if buffer_kb == BUFFER_KB else (CONGESTED, SHARED)


def _seeds(runs: KernelRuns, buffer_kb: int = BUFFER_KB) -> list[int]:
    return [one.first_seed for one in _traces(runs, buffer_kb)]


def _all_traces(runs: KernelRuns) -> list[Runs]:
    return [one for buffer_kb in buffers(runs.quick) for one in _traces(runs, buffer_kb)]


def _traces(runs: KernelRuns, buffer_kb: int = BUFFER_KB) -> list[Runs]:
    """Returns the runs for each trace, in the form that the quantities of the newCWV paper take."""

    def make() -> list[Runs]:
        if buffer_kb not in buffers(runs.quick):
            raise Unavailable(f"a quick run has the paper's buffer of {BUFFER_KB} KB only")
        runs.require()
        seeds = runs.seeds(real.EMULATED)
        if buffer_kb != BUFFER_KB:
            seeds = seeds[:BUFFER_TRACES]
        traces = [Runs(runs.quick, None, seed, runs.progress, parts=runs.parts) for seed in seeds]
        report = runs.progress.task(f"traces of bursts, buffer of {buffer_kb} KB")

        def measure(one: Runs) -> None:
            one.cached(
                "real", lambda: real.measure(one, OF_THE_KERNEL, FULL_S, _settings(buffer_kb), buffer_kb)
            )

        at_once = RUNS_AT_ONCE // (len(OF_THE_KERNEL) * len(_settings(buffer_kb)))
        with controllers():
            side_by_side([partial(measure, one) for one in traces], at_once, report)
        return traces

    return runs.cached(("traces", buffer_kb), make)

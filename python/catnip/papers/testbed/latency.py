"""Latency of Web fetches over load, delay and loss, measured and by the models (TB-E1 to E8)."""

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from catnip import _core
from catnip.analysis import measures, stats
from catnip.analysis.interval import Interval
from catnip.analysis.measures import Floats
from catnip.base import paths
from catnip.papers.quantity import Quantities
from catnip.papers.reference import number
from catnip.papers.rows import where
from catnip.papers.testbed.estimators import ESTIMATORS, HIGH, LOW, NEW, PAPER, TODAY, packets
from catnip.papers.testbed.runs import FETCHES, SIZES_KB, FetchRuns, Measured, Point
from catnip.store.tables import Table

measured = Quantities()

DELAYS_MS = (0, 25, 50, 100, 150, 200, 250)
LOSSES = (0.0, 0.01, 0.02, 0.05, 0.08, 0.1, 0.15, 0.2)
LOADS = tuple(n / 10 for n in range(11))
KNEE = LOADS.index(number("tbc04") / 100)
"""Index in `LOADS` of the load up to which, according to the paper, both models are close to measurements."""

HEAVY_LOSS = number("tbc08") / 100
LOADED = "testbed-e1"
"""Name of the scenario of a link at several offered loads."""
FETCHES_WITHOUT_LOSS = 20
PER_SECOND = 100.0
NORMAL_975 = 1.959964
"""Quantile of the normal distribution: half of a 95 % interval, in standard errors."""
MAP_SEEDS = 30
GENERATOR_SEEDS = 40
INITIAL_WINDOW = ("--initial-window", "2")
KERNEL, LINUX_20 = "kernel", "linux-2.0"
"""Servers of the fetches: nginx on this machine's kernel, or a simulated host of the paper's time."""


@dataclass(frozen=True)
class LinkState:
    """Delay (mean, standard deviation) and loss of the simulated link at an offered load."""

    load: float
    delay_s: Interval
    deviation_s: Interval
    loss: Interval


@dataclass(frozen=True)
class Case:
    """Link at position `x` of an axis, with its one-way delay and the loss rate of each direction."""

    x: float
    delay_s: float
    loss: float


def states(runs: FetchRuns) -> tuple[LinkState, ...]:
    """Returns delay and loss of the simulated link at each offered load (Figure 3)."""
    return runs.cached("states", lambda: _states(runs))


def cases(runs: FetchRuns, over: str, server: str = KERNEL) -> list[Case]:
    """Returns the links along an axis: `load` in percent, `delay` in ms or `loss` in percent."""
    if over == "delay":
        return [Case(delay, delay / 1e3, 0.0) for delay in DELAYS_MS]
    if over == "loss":
        return [Case(100 * loss, 0.0, loss) for loss in LOSSES]
    if server == KERNEL:
        return [Case(100 * s.load, s.delay_s.mean, s.loss.mean) for s in states(runs)]
    variants = tomllib.loads(paths.scenario("testbed-load").text)["variant"]
    return [_case_of(variant["link"]["w"], x) for x, variant in zip(LOADS[1:], variants, strict=True)]


def fetches(runs: FetchRuns, over: str) -> dict[str, Measured]:
    """Returns the measured fetches from nginx over the links of an axis, by size in KB and position."""
    points = [
        _point(f"{size}-{case.x:g}", size, case, runs) for size in SIZES_KB for case in cases(runs, over)
    ]
    return runs.of(f"latency over {over}", points)


def latencies(runs: FetchRuns, over: str, size: int, server: str = KERNEL) -> list[Interval]:
    """Returns the mean latency of a file size over each link of an axis, s."""
    if server == KERNEL:
        measured_at = fetches(runs, over)
        return [measured_at[f"{size}-{case.x:g}"].mean_s for case in cases(runs, over)]
    return [stats.mean(times) for times in _simulated(runs, over, size)]


def predicted(
    runs: FetchRuns,
    model: str,
    over: str,
    size: int,
    server: str = KERNEL,
    min_timeout_s: float | None = None,
) -> Floats:
    """Returns a model's latency of a file size over each link of an axis, s.

    The models use the timers of the server, with `min_timeout_s`, if given, as the minimum timeout.
    """
    timers = TODAY if server == KERNEL else PAPER
    if min_timeout_s is not None:
        timers = replace(timers, min_s=min_timeout_s)
    estimates = ESTIMATORS[model]
    return np.array(
        [estimates(packets(size), one.loss, one.delay_s, timers) for one in cases(runs, over, server)]
    )


@measured
def falls_with_load(runs: FetchRuns, of: str) -> str:
    """TB-E1: number of loads with a smaller delay or loss (`of`) of the link than at the load before."""
    values = [getattr(state, of).mean for state in states(runs)]
    return str(sum(later < earlier for earlier, later in pairwise(values)))


@measured
def deviation_ms(runs: FetchRuns, load_pct: float) -> Interval:
    """TB-E1: standard deviation of the delay at a load, among the packets of one source and run, ms."""
    return _at(runs, load_pct).deviation_s * 1e3


@measured
def deviation_grows_by(runs: FetchRuns, from_pct: float, to_pct: float) -> Interval:
    """TB-E1: ratio of the standard deviation of the delay at load `to_pct` to that at load `from_pct`."""
    both = [_at(runs, load_pct).deviation_s for load_pct in (from_pct, to_pct)]
    return _drawn(lambda one: one[:, 1] / one[:, 0], both)


@measured
def link_loss_pct(runs: FetchRuns, load_pct: float) -> Interval:
    """TB-E1: loss rate of the simulated link at a load, percent."""
    return _at(runs, load_pct).loss * 100


@measured
def load_off_pct(runs: FetchRuns, loads_pct: Sequence[int]) -> float:
    """TB-S6: largest relative difference of the load generator's load from the requested load, percent."""
    off = []
    for load_pct in loads_pct:
        table = _generated(runs, load_pct)
        # Two directions of 10 Mbit/s, 100 s per run.
        offered = float(np.asarray(table["sent_bytes"]).sum()) * 8 / (2 * 10e6 * 100 * GENERATOR_SEEDS)
        off.append(abs(100 * offered / load_pct - 1))
    return 100 * max(off)


@measured
def packet_bytes(runs: FetchRuns, load_pct: int) -> float:
    """TB-S6: mean packet size of the load generator at a load, bytes."""
    table = _generated(runs, load_pct)
    return float(np.asarray(table["sent_bytes"]).sum() / np.asarray(table["sent"]).sum())


@measured
def widest_interval_pct(runs: FetchRuns, over: str, statistic: str) -> float:
    """Half-width of the interval of a measured latency, percent of the latency: largest or median of an axis.

    Only links with loss are included. The reference value is tbp07.
    """
    half = _half_widths_pct(runs, over)
    return max(half) if statistic == "largest" else float(np.median(half))


@measured
def fetches_until_5_pct(runs: FetchRuns, over: str) -> float:
    """TB-E11: fetches over a link at which the widest interval of an axis is 5 % of its latency to each side.

    The width falls with the square root of their number.
    """
    return runs.scaled(FETCHES) * (max(_half_widths_pct(runs, over)) / 5) ** 2


@measured
def least_rise_ms(runs: FetchRuns, size: int) -> Interval:
    """TB-E2: rise of a file size's latency from one load to the next, least of all, ms."""
    pairs = list(pairwise(latencies(runs, "load", size)))
    each = stats.family(len(pairs))
    return stats.least([stats.difference(later, earlier, each) * 1e3 for earlier, later in pairs])


@measured
def steeper_above(runs: FetchRuns, over: str, size: int) -> Interval:
    """TB-E2, E4: ratio of the slope of latency beyond the knee (60 % load or 10 % loss) to that up to it."""
    x = [one.x for one in cases(runs, over)]
    knee = KNEE if over == "load" else LOSSES.index(HEAVY_LOSS)
    lower, upper = slice(knee + 1), slice(knee, None)

    def slope(latency_s: Floats, part: slice) -> Floats:
        return np.asarray(np.polyfit(x[part], latency_s[:, part].T, 1)[0])

    return _drawn(lambda one: slope(one, upper) / slope(one, lower), latencies(runs, over, size))


@measured
def straightness(runs: FetchRuns, size: int) -> Interval:
    """TB-E3: R² of a linear fit of a file size's latency to the delay."""

    def explained(latency_s: Floats) -> Floats:
        y = latency_s.T
        slope, start = np.polyfit(DELAYS_MS, y, 1)
        residuals = y - (np.outer(DELAYS_MS, slope) + start)
        return np.asarray(1 - (residuals**2).sum(axis=0) / ((y - y.mean(axis=0)) ** 2).sum(axis=0))

    return _drawn(explained, latencies(runs, "delay", size))


@measured
def parts_off_pct(runs: FetchRuns, size: int, statistic: str) -> Interval:
    """TB-E5: relative difference of the sum of two latencies from the latency at a load, percent.

    One of the two latencies is that with the load's delay but no loss, the other that with its loss but no
    delay. Only loads with a loss above 0 and below 10 % are included.
    """
    loaded = [case for case in cases(runs, "load") if 0 < case.loss < HEAVY_LOSS]
    parts, combined = _parts(runs, loaded), fetches(runs, "load")
    of_parts = [parts[f"{size}-{case.x:g}-{part}"].mean_s for part in ("delay", "loss") for case in loaded]
    of_whole = [combined[f"{size}-{case.x:g}"].mean_s for case in loaded]

    def off(latency_s: Floats) -> Floats:
        delay_s, loss_s, together_s = np.split(latency_s, 3, axis=1)
        summed_s = delay_s + loss_s
        if statistic == "in total":
            return np.asarray(100 * abs(summed_s.sum(axis=1) / together_s.sum(axis=1) - 1))
        return _reduced(100 * abs(summed_s / together_s - 1), statistic)

    return _drawn(off, [*of_parts, *of_whole])


@measured
def error_pct(
    runs: FetchRuns, model: str, over: str, size: int, server: str, statistic: str, below_knee: bool = False
) -> Interval:
    """TB-E6, E7: mean or largest absolute relative error of a model over the links of an axis, percent.

    The link without delay and loss is left out. With `below_knee`, the loads from the knee on are left out,
    too.
    """
    model_s = _predicted_if_lossy(runs, model, over, size, server)
    end = KNEE - 1 if below_knee else len(model_s)
    return _drawn(
        lambda one: _reduced(100 * abs(model_s[:end] / one[:, :end] - 1), statistic),
        _measured_if_lossy(runs, over, size, server),
    )


@measured
def error_less_pct(runs: FetchRuns, than: str, over: str, size: int, server: str) -> Interval:
    """TB-E6, E7: mean absolute relative error of the new model minus that of the model `than`, points."""
    new_s, other_s = (_predicted_if_lossy(runs, model, over, size, server) for model in (NEW, than))
    return _drawn(
        lambda one: 100 * (abs(new_s / one - 1).mean(axis=1) - abs(other_s / one - 1).mean(axis=1)),
        _measured_if_lossy(runs, over, size, server),
    )


@measured
def positions_of_another(runs: FetchRuns, over: str, size: int, server: str) -> str:
    """TB-E7: positions of an axis at which Model C is closer to the measured latency than the new model.

    The closer one of the two variants of Model C, low and high, counts.
    """
    latency_s = _means(_measured_if_lossy(runs, over, size, server))
    errors = {
        model: np.abs(_predicted_if_lossy(runs, model, over, size, server) / latency_s - 1)
        for model in (NEW, LOW, HIGH)
    }
    closer = np.minimum(errors[LOW], errors[HIGH]) < errors[NEW]
    positions = [
        f"{case.x:g}" for case, is_closer in zip(_lossy(runs, over, server), closer, strict=True) if is_closer
    ]
    return ", ".join(positions) or "none"


@measured
def measured_over(
    runs: FetchRuns, model: str, size: int, server: str, statistic: str, min_timeout_s: float | None = None
) -> Interval:
    """TB-E6: smallest or largest ratio of measured to predicted latency over the loads from 60 % on."""
    heavy = slice(KNEE - len(LOADS), None)
    model_s = predicted(runs, model, "load", size, server, min_timeout_s)[heavy]
    return _drawn(
        lambda one: _reduced(one / model_s, statistic), latencies(runs, "load", size, server)[heavy]
    )


@measured
def heavy_loss_ratio(runs: FetchRuns, size: int, server: str) -> Interval:
    """TB-E8: ratio of the new model's latency to the measured latency, mean over losses above 10 %."""
    heavy = [case.loss > HEAVY_LOSS for case in _lossy(runs, "loss", server)]
    model_s = _predicted_if_lossy(runs, NEW, "loss", size, server)
    return _drawn(
        lambda one: (model_s / one)[:, heavy].mean(axis=1), _measured_if_lossy(runs, "loss", size, server)
    )


@measured
def latency_with_processing(runs: FetchRuns, size: int) -> Interval:
    """TB-E2: ratio of simulated latencies at 60 % load with hosts that take up to 20 us to those without."""
    of = runs.simulated("testbed-processing")
    return stats.ratio(of["load 60 %, 20 us"][size], of["load 60 %"][size])


@measured
def stack_over_kernel(runs: FetchRuns, size: int, variant: str, loss_pct: float) -> float:
    """TB-E8: ratio of a simulated Linux stack's median latency to that of this kernel, at a loss rate."""
    times = runs.simulated("testbed-loss")[f"{variant} / wire_loss=bernoulli:{loss_pct / 100:g}"][size]
    return float(np.median(times) / np.median(fetches(runs, "loss")[f"{size}-{loss_pct:g}"].latencies_s))


def _half_widths_pct(runs: FetchRuns, over: str) -> list[float]:
    return [
        50 * (one.high - one.low) / one.mean
        for size in SIZES_KB
        for one, case in zip(latencies(runs, over, size), cases(runs, over), strict=True)
        if case.loss > 0
    ]


def _generated(runs: FetchRuns, load_pct: int) -> Table:
    seeds = runs.first_seeds(GENERATOR_SEEDS)
    return runs.run(LOADED, [f"load={load_pct / 100:.1f}"], ["datagrams"], seeds=seeds)["datagrams"]


def _at(runs: FetchRuns, load_pct: float) -> LinkState:
    return next(state for state in states(runs) if round(100 * state.load) == load_pct)


def _states(runs: FetchRuns) -> tuple[LinkState, ...]:
    seeds, variants = runs.first_seeds(runs.scaled(MAP_SEEDS, minimum=4)), paths.scenario(LOADED).variants
    tables = runs.run(LOADED, variants, ["datagrams", "ports"], seeds=seeds)
    found = []
    for variant, load in enumerate(LOADS):
        sent = measures.select(tables["datagrams"], variant)
        ports = measures.select(tables["ports"], variant)
        at_link = where(ports, np.char.startswith(np.asarray(ports["port"], dtype=str), "w"))
        arrived, dropped = (
            measures.per_seed(at_link, f"{counter}_low", seeds) for counter in ("arrived", "dropped")
        )
        loss = stats.mean(np.divide(dropped, arrived, out=np.zeros_like(dropped), where=arrived > 0))
        received = np.asarray(sent["received"], dtype=np.float64)
        if received.sum() == 0:
            nothing = Interval(0, 0, 0, len(seeds))
            found.append(LinkState(load, nothing, nothing, loss))
            continue
        delay = np.nan_to_num(np.asarray(sent["delay_mean_s"]))
        by_seed = [
            float(np.average(delay[sent["seed"] == seed], weights=received[sent["seed"] == seed]))
            for seed in seeds
        ]
        variance = np.nan_to_num(np.asarray(sent["delay_variance_s2"])) * received
        sums, counts = (
            measures.per_seed({"seed": sent["seed"], "of": of}, "of", seeds) for of in (variance, received)
        )
        deviation_s = stats.jackknife(partial(_root_of_ratio, sums, counts), len(seeds))
        found.append(LinkState(load, stats.mean(by_seed), deviation_s, loss))
    return tuple(found)


def _root_of_ratio(sums: Floats, counts: Floats, chosen: NDArray[np.intp]) -> float:
    return float(np.sqrt(sums[chosen].sum() / counts[chosen].sum()))


def _case_of(link: dict[str, str], load: float) -> Case:
    return Case(100 * load, _core.seconds(link["delay"]), float(link["wire_loss"].partition(":")[2]))


def _simulated(runs: FetchRuns, over: str, size: int) -> list[Floats]:
    """Returns the latencies of fetches from a simulated kernel of the paper's time, at each position, s."""
    if over == "load":
        return [of_load[size] for of_load in runs.simulated("testbed-load").values()]
    assert over == "loss", f"{over}: not simulated"
    simulated = runs.simulated("testbed-loss")
    return [of_loss[size] for variant, of_loss in simulated.items() if variant.startswith(f"{LINUX_20} /")]


def _lossy(runs: FetchRuns, over: str, server: str) -> list[Case]:
    """Returns the links of an axis without the link that neither delays nor loses packets."""
    return [case for case in cases(runs, over, server) if case.x > 0]


def _predicted_if_lossy(runs: FetchRuns, model: str, over: str, size: int, server: str) -> Floats:
    """Returns `predicted` for each link with delay or loss."""
    return predicted(runs, model, over, size, server)[-len(_lossy(runs, over, server)) :]


def _measured_if_lossy(runs: FetchRuns, over: str, size: int, server: str) -> list[Interval]:
    """Returns `latencies` for each link with delay or loss."""
    return latencies(runs, over, size, server)[-len(_lossy(runs, over, server)) :]


def _parts(runs: FetchRuns, loaded: Sequence[Case]) -> dict[str, Measured]:
    points = []
    for size in SIZES_KB:
        for case in loaded:
            alone = {"delay": replace(case, loss=0.0), "loss": replace(case, delay_s=0.0)}
            points += [_point(f"{size}-{case.x:g}-{part}", size, one, runs) for part, one in alone.items()]
    return runs.of("parts of a load", points)


def _point(id: str, size_kb: int, case: Case, runs: FetchRuns) -> Point:
    loses = case.loss > 0
    link = [
        "--delay",
        f"{round(1e9 * case.delay_s)}ns",
        "--loss",
        f"bernoulli:{case.loss}" if loses else "none",
    ]
    count, per_second = (runs.scaled(FETCHES), PER_SECOND) if loses else (FETCHES_WITHOUT_LOSS, 20.0)
    return Point(id, [*link, *INITIAL_WINDOW], str(size_kb), count, per_second)


def _drawn(statistic: Callable[[Floats], Floats], values: Sequence[Interval]) -> Interval:
    """Returns a statistic of independent values, whose interval results from drawing each of them.

    `statistic` takes a row for each drawing and a column for each value.
    """
    errors = [(one.high - one.low) / 2 / NORMAL_975 for one in values]
    return stats.drawn(statistic, _means(values), errors, min(one.n for one in values))


def _reduced(rows: Floats, statistic: str) -> Floats:
    """Returns the least, largest or mean value of each row."""
    if statistic == "mean":
        return np.asarray(rows.mean(axis=1))
    return np.asarray(rows.min(axis=1) if statistic == "least" else rows.max(axis=1))


def _means(intervals: Sequence[Interval]) -> Floats:
    return np.array([one.mean for one in intervals])

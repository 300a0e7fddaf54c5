"""Web retrieval latency over load, delay and loss, and what the models say of it (TB-E1 to E8)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np

from catnip import measures, models, paths, stats
from catnip.figures.latency import Curve, Panel, latency_panels
from catnip.measures import Floats
from catnip.papers.claims import Claim, at_least, at_most, exactly, reported, within
from catnip.papers.outcome import Figure, Part, Table
from catnip.papers.testbed.runs import SIZES_KB, Measured, Point, Runs
from catnip.stats import Interval

DELAYS_MS = (0, 25, 50, 100, 150, 200, 250)
LOSSES = (0.0, 0.01, 0.02, 0.05, 0.08, 0.1, 0.15, 0.2)
LOADS = tuple(n / 10 for n in range(11))
HEADER_BYTES = 260
FIRST_TIMEOUT_S = 1.0
LEAST_TIMEOUT_S = 0.2
MOST_FETCHES = 150
INITIAL_WINDOW = ("--initial-window", "2")


@dataclass(frozen=True)
class Estimator:
    """A model of a download, given packets, loss of each direction and one-way delay in seconds."""

    name: str
    predicts: Callable[[int, float, float], float]


def _new_model(packets: int, loss: float, delay_s: float) -> float:
    """The new model with the timers of this kernel.

    Linux 2.0.34 starts the data with the timeout of the handshake; today's has timed a round trip by then.
    """
    delay_s = max(delay_s, LEAST_DELAY_S)
    parts = models.evaluate("wzk_new", data=packets, pl=loss, delay_s=delay_s, Ts_s=FIRST_TIMEOUT_S)
    timeout_s = float(parts["IT0_s"])
    timeouts_s = models.wzk_chain(packets, float(parts["p"]), IT0_s=timeout_s, r0_s=timeout_s)
    return float(parts["t_handshk_s"] + timeouts_s + parts["t_xfer_s"])


def _model_c(packets: int, loss: float, delay_s: float, high: bool) -> float:
    model = models.model_c_high if high else models.model_c_low
    timeout_s = max(6 * delay_s, LEAST_TIMEOUT_S)
    return float(model(packets, loss, max(delay_s, LEAST_DELAY_S), T0_s=timeout_s, Ts_s=FIRST_TIMEOUT_S))


LEAST_DELAY_S = 1e-4
"""A delay of zero has no round trip; this is what crossing the emulator takes."""

NEW = Estimator("new model", _new_model)
LOW = Estimator("Model C low", lambda n, p, d: _model_c(n, p, d, high=False))
HIGH = Estimator("Model C high", lambda n, p, d: _model_c(n, p, d, high=True))
ESTIMATORS = (NEW, LOW, HIGH)


@dataclass(frozen=True)
class LinkState:
    """What a load does to a link."""

    load: float
    delay_s: Interval
    deviation_s: float
    loss: Interval


def packets(size_kb: int) -> int:
    """Segments of 1460 bytes of a file and its HTTP header."""
    return -(-(size_kb * 1024 + HEADER_BYTES) // 1460)


@cache
def load_map(seeds: int, first_seed: int) -> tuple[LinkState, ...]:
    """Figure 3: mean and spread of the delay, and loss, by offered load, simulated."""
    scenario = paths.scenario("testbed-e1")
    numbers = list(range(first_seed, first_seed + seeds))
    tables = scenario.run(scenario.variants, numbers, ["datagrams", "ports"])
    states = []
    for variant, load in enumerate(LOADS):
        sent = measures.select(tables["datagrams"], variant)
        ports = measures.select(tables["ports"], variant)
        here = np.char.startswith(np.asarray(ports["port"], dtype=str), "w")
        arrived = measures.per_seed(
            {key: values[here] for key, values in ports.items()}, "arrived_low", numbers
        )
        dropped = measures.per_seed(
            {key: values[here] for key, values in ports.items()}, "dropped_low", numbers
        )
        loss = np.divide(dropped, arrived, out=np.zeros_like(dropped), where=arrived > 0)
        received = np.asarray(sent["received"], dtype=np.float64)
        if received.sum() == 0:
            states.append(LinkState(load, Interval(0, 0, 0, seeds), 0.0, stats.mean(loss)))
            continue
        weight, delay = received, np.nan_to_num(np.asarray(sent["delay_mean_s"]))
        by_seed = [
            float(np.average(delay[sent["seed"] == seed], weights=weight[sent["seed"] == seed]))
            for seed in numbers
        ]
        variance = float(np.average(np.nan_to_num(np.asarray(sent["delay_variance_s2"])), weights=weight))
        states.append(LinkState(load, stats.mean(by_seed), float(np.sqrt(variance)), stats.mean(loss)))
    return tuple(states)


def states(runs: Runs) -> tuple[LinkState, ...]:
    """The load map with as many seeds as there is time for."""
    return load_map(max(4, round(30 * runs.scale)), runs.first_seed)


def characterization(runs: Runs) -> Part:
    """TB-E1, S6: Figure 3."""
    made = states(runs)
    delays, losses = ([getattr(s, key).mean for s in made] for key in ("delay_s", "loss"))
    claims = [
        exactly(
            "TB-E1",
            "mean delay and loss never fall as the load grows",
            _yes(_grows(delays) and _grows(losses)),
            "yes",
            paper="grow",
        ),
        exactly(
            "TB-E1",
            "the variance of the delay rises from 10 to 100 % load",
            _yes(made[-1].deviation_s > made[1].deviation_s),
            "yes",
            paper="grows",
        ),
        reported("TB-E1", "loss at 60 % load, %", made[6].loss * 100),
        reported("TB-E1", "loss at 100 % load, %", made[-1].loss * 100),
        *_load_is_met(runs),
    ]
    panels = [
        Panel(
            "mean delay, ms",
            [100 * s.load for s in made],
            [(100 * s.load, s.delay_s * 1e3) for s in made],
            [],
        ),
        Panel("loss, %", [100 * s.load for s in made], [(100 * s.load, s.loss * 100) for s in made], []),
    ]
    svg = latency_panels(
        "A link by its offered load",
        panels,
        xlabel="offered load, %",
        ylabel="",
        simulated="simulated, 95 % interval",
    )
    caption = (
        "10 Mbit/s, 50 packets, Pareto on-off sources with packets of 512 bytes on average. The "
        "paper's Figure 3 is lost; "
        "these are the delays and losses that the later experiments set."
    )
    return Part(claims, [Figure("testbed-load", "Figure 3: the link", caption, svg)])


def over_load(runs: Runs) -> Part:
    """TB-E2, E5, E6: Figures 4a and 7."""
    claims: list[Claim] = []
    made, link = _over_load(runs), states(runs)
    panels = []
    errors: dict[str, list[float]] = {one.name: [] for one in ESTIMATORS}
    for size in SIZES_KB:
        measured = [made[f"{size}-{s.load:g}"].mean_s for s in link]
        means = np.array([one.mean for one in measured])
        slope = [float(np.polyfit(LOADS[a:b], means[a:b], 1)[0]) for a, b in ((0, 7), (6, 11))]
        claims += [
            exactly(
                "TB-E2",
                f"{size} KB: latency never falls by more than its noise as the load grows",
                _yes(_grows_in_noise(measured)),
                "yes",
                paper="grows",
            ),
            at_least(
                "TB-E2",
                f"{size} KB: slope above 60 % load over that below",
                slope[1] / slope[0],
                1.5,
                paper="rapid growth",
            ),
        ]
        predicted = {
            one.name: np.array([one.predicts(packets(size), s.loss.mean, s.delay_s.mean) for s in link])
            for one in ESTIMATORS
        }
        for name, values in predicted.items():
            errors[name] += list(np.abs(values / means - 1))
        low = slice(1, 6)
        claims.append(
            at_most(
                "TB-E6",
                f"{size} KB: new model below 60 % load, mean absolute relative error, %",
                100 * float(np.abs(predicted["new model"] / means - 1)[low].mean()),
                15,
                paper="small",
                note="todays-linux-beats-the-model",
            )
        )
        high = slice(6, 11)
        claims.append(
            at_least(
                "TB-E6",
                f"{size} KB: from 60 % load, measured over Model C low",
                float((means / predicted["Model C low"])[high].min()),
                1,
                paper="underestimates",
                note="todays-linux-beats-the-model",
            )
        )
        if size >= 10:
            claims.append(
                at_most(
                    "TB-E6",
                    f"{size} KB: from 60 % load, measured over Model C high",
                    float((means / predicted["Model C high"])[high].max()),
                    1,
                    paper="overestimates",
                    note="todays-linux-beats-the-model",
                )
            )
        panels.append(
            Panel(
                f"{size} KB",
                [100 * load for load in LOADS],
                [(100 * s.load, m) for s, m in zip(link, measured, strict=True)],
                [Curve(name, list(values)) for name, values in predicted.items()],
            )
        )
    means_of = {name: 100 * float(np.mean(values)) for name, values in errors.items()}
    for other in ("Model C low", "Model C high"):
        claims.append(
            at_most(
                "TB-E6",
                f"all sizes and loads: error of the new model less that of {other}, points",
                means_of["new model"] - means_of[other],
                0,
                paper="better everywhere",
                note="todays-linux-beats-the-model",
            )
        )
    claims += _decoupled(runs)
    svg = latency_panels(
        "Retrieval latency over load, measured and by model",
        panels,
        xlabel="offered load, %",
        ylabel="latency, s",
        simulated="measured, 95 % interval",
    )
    rows = len(comparison(runs).rows)
    claims.append(exactly("TB-S14", "rows of the table with measurement and three models", str(rows), "33"))
    caption = (
        "nginx on Linux set near to the paper's (Reno, no SACK, initial window 2), each fetch over a new "
        "connection through a link with the delay and loss of that load."
    )
    return Part(
        claims, [Figure("testbed-models", "Figures 4a and 7: models against measurement", caption, svg)]
    )


def over_delay(runs: Runs) -> Part:
    """TB-E3, E7: Figure 4b."""
    claims: list[Claim] = []
    panels = []
    made = _over_delay(runs)
    for size in SIZES_KB:
        measured = [made[f"{size}-{delay}"].mean_s for delay in DELAYS_MS]
        means = np.array([one.mean for one in measured])
        fitted = np.polyval(np.polyfit(DELAYS_MS, means, 1), DELAYS_MS)
        unexplained = float(((means - fitted) ** 2).sum() / ((means - means.mean()) ** 2).sum())
        claims.append(
            at_least(
                "TB-E3",
                f"{size} KB: R² of a straight line over the delay",
                1 - unexplained,
                0.98,
                paper="about linear",
            )
        )
        panels.append(_panel(size, DELAYS_MS, measured, lambda n, x: (n, 0.0, x / 1e3)))
    svg = latency_panels(
        "Latency grows linearly with delay",
        panels,
        xlabel="one-way delay, ms",
        ylabel="latency, s",
        simulated="measured, 95 % interval",
    )
    return Part(
        claims,
        [
            Figure(
                "testbed-delay",
                "Figure 4b: latency over delay",
                "Without loss, every fetch takes a number of round trips.",
                svg,
            )
        ],
    )


def over_loss(runs: Runs) -> Part:
    """TB-E4, E7, E8: Figure 4c."""
    claims: list[Claim] = []
    panels = []
    made = _over_loss(runs)
    for size in SIZES_KB:
        measured = [made[f"{size}-{loss:g}"].mean_s for loss in LOSSES]
        means = np.array([one.mean for one in measured])
        half = LOSSES.index(0.1) + 1
        lower, upper = (
            float(np.polyfit(LOSSES[a:b], means[a:b], 1)[0]) for a, b in ((0, half), (half - 1, None))
        )
        claims.append(
            at_least(
                "TB-E4",
                f"{size} KB: slope from 10 to 20 % loss over that from 0 to 10 %",
                upper / lower,
                1.5,
                paper="faster than linear",
                note="latency-over-loss",
            )
        )
        panels.append(_panel(size, [100 * loss for loss in LOSSES], measured, lambda n, x: (n, x / 100, 0.0)))
        heavy = float(
            np.mean(
                [NEW.predicts(packets(size), loss, 0.0) / means[LOSSES.index(loss)] for loss in (0.15, 0.2)]
            )
        )
        bounds = {
            3: (1.0, 10.0, "overestimates"),
            10: (0.75, 1.33, "fits well"),
            30: (0.0, 1.0, "underestimates"),
        }[size]
        claims.append(
            within(
                "TB-E8",
                f"{size} KB above 10 % loss: new model over measured",
                heavy,
                *bounds[:2],
                paper=bounds[2],
                note="todays-linux-beats-the-model",
            )
        )
    svg = latency_panels(
        "Latency grows faster than linearly with loss",
        panels,
        xlabel="loss of each direction, %",
        ylabel="latency, s",
        simulated="measured, 95 % interval",
    )
    caption = "Loss hits both directions, as in the paper. Without delay nearly all of the time is timeouts."
    return Part(claims, [Figure("testbed-loss", "Figure 4c: latency over loss", caption, svg)])


def one_factor(runs: Runs) -> Part:
    """TB-E7: which model is closer while only delay or only loss varies."""
    delays, losses = _over_delay(runs), _over_loss(runs)
    claims: list[Claim] = []
    for size in SIZES_KB:
        by_delay = np.array([delays[f"{size}-{delay}"].mean_s.mean for delay in DELAYS_MS[1:]])
        claims += _closer(size, "delay", by_delay, DELAYS_MS[1:], lambda x: (0.0, x / 1e3))
        by_loss = np.array([losses[f"{size}-{loss:g}"].mean_s.mean for loss in LOSSES[1:]])
        claims += _closer(size, "loss", by_loss, LOSSES[1:], lambda x: (x, 0.0))
    return Part(claims)


def headline(runs: Runs) -> str:
    """The answer in two sentences."""
    loads, losses = _over_load(runs), _over_loss(runs)
    fetches = sum(len(one.latencies_s) for one in runs.all())
    idle, full = (loads[f"10-{load:g}"].mean_s.mean for load in (0, 1))
    return (
        f"{fetches} fetches from nginx through emulated links: latency grows linearly with delay "
        "and faster than "
        f"linearly with loss. A 10 KB file takes {1e3 * idle:.1f} ms on an idle link, {full:.2f} s on one "
        "that is offered "
        f"all it can carry, and {losses['10-0.2'].mean_s.mean:.1f} s at 20 % loss each way."
    )


def comparison(runs: Runs) -> Table:
    """TB-S14: measured, new model, Model C low and high at every load."""
    made = _over_load(runs)
    rows = []
    for size in SIZES_KB:
        for s in states(runs):
            values = [one.predicts(packets(size), s.loss.mean, s.delay_s.mean) for one in ESTIMATORS]
            measured = made[f"{size}-{s.load:g}"].mean_s
            rows.append(
                [
                    f"{size} KB, load {100 * s.load:.0f} %",
                    f"{1e3 * s.delay_s.mean:.2f}",
                    f"{100 * s.loss.mean:.2f}",
                    str(measured),
                    *(f"{value:.3f}" for value in values),
                ]
            )
    columns = ["", "delay, ms", "loss, %", "measured, s", *(one.name for one in ESTIMATORS)]
    return Table(
        "Retrieval latency over load, s", columns, rows, "The delay is one way; loss hits each direction."
    )


def _over_load(runs: Runs) -> dict[str, Measured]:
    link = states(runs)
    points = [
        _point(f"{size}-{s.load:g}", size, s.delay_s.mean, s.loss.mean, runs)
        for size in SIZES_KB
        for s in link
    ]
    return runs.of("latency over load", points)


def _over_delay(runs: Runs) -> dict[str, Measured]:
    points = [
        _point(f"{size}-{delay}", size, delay / 1e3, 0.0, runs) for size in SIZES_KB for delay in DELAYS_MS
    ]
    return runs.of("latency over delay", points)


def _over_loss(runs: Runs) -> dict[str, Measured]:
    points = [_point(f"{size}-{loss:g}", size, 0.0, loss, runs) for size in SIZES_KB for loss in LOSSES]
    return runs.of("latency over loss", points)


def _decoupled(runs: Runs) -> list[Claim]:
    """TB-E5: latency at a load against the sum of what its delay and its loss do alone."""
    link = [s for s in states(runs) if s.load > 0 and s.loss.mean < 0.1]
    parts = runs.of(
        "parts of a load",
        [
            _point(
                f"{size}-{s.load:g}-{part}",
                size,
                s.delay_s.mean if part == "delay" else 0.0,
                s.loss.mean if part == "loss" else 0.0,
                runs,
            )
            for size in SIZES_KB
            for s in link
            for part in ("delay", "loss")
        ],
    )
    whole = _over_load(runs)
    # Single points rest on a handful of timeouts; all of them together do not.
    apart = sum(
        parts[f"{size}-{s.load:g}-{part}"].mean_s.mean
        for size in SIZES_KB
        for s in link
        for part in ("delay", "loss")
    )
    together = sum(whole[f"{size}-{s.load:g}"].mean_s.mean for size in SIZES_KB for s in link)
    claim = "latencies at each load's delay and at its loss, summed, off those at the load, %"
    return [at_most("TB-E5", claim, 100 * abs(apart / together - 1), 25, paper="about equal")]


def _load_is_met(runs: Runs) -> list[Claim]:
    """TB-S6: the generator offers what it is asked for."""
    scenario = paths.scenario("testbed-e1")
    seeds = list(range(runs.first_seed, runs.first_seed + 40))
    chosen = [name for name in scenario.variants if name in ("load=0.3", "load=0.6", "load=1.0")]
    table = scenario.run(chosen, seeds, ["datagrams"])["datagrams"]
    off = []
    for variant, name in enumerate(chosen):
        rows = measures.select(table, variant)
        # Both directions of 10 Mbit/s, 100 s a run.
        offered = float(np.asarray(rows["sent_bytes"]).sum()) * 8 / (2 * 10e6 * 100 * len(seeds))
        off.append(abs(offered / float(name.removeprefix("load=")) - 1))
    return [
        at_most(
            "TB-S6",
            "offered load off what was asked for, 30, 60, 100 %, %",
            100 * max(off),
            2,
            note="bursty-load",
        )
    ]


def _point(id: str, size_kb: int, delay_s: float, loss: float, runs: Runs) -> Point:
    count = runs.count(MOST_FETCHES) if loss > 0 else 20
    link = ["--delay", f"{round(1e9 * delay_s)}ns", "--loss", f"bernoulli:{loss}" if loss else "none"]
    return Point(id, [*link, *INITIAL_WINDOW], str(size_kb), count, count)


def _panel(
    size: int,
    x: Sequence[float],
    measured: Sequence[Interval],
    case: Callable[[int, float], tuple[int, float, float]],
) -> Panel:
    curves = [
        Curve(one.name, [one.predicts(*case(packets(size), value)) for value in x]) for one in ESTIMATORS
    ]
    return Panel(f"{size} KB", x, list(zip(x, measured, strict=True)), curves)


def _closer(
    size: int,
    what: str,
    measured: Floats,
    values: Sequence[float],
    link: Callable[[float], tuple[float, float]],
) -> list[Claim]:
    error = {
        one.name: 100
        * float(
            np.mean(np.abs(np.array([one.predicts(packets(size), *link(x)) for x in values]) / measured - 1))
        )
        for one in ESTIMATORS
    }
    return [
        at_most(
            "TB-E7",
            f"{size} KB, only {what} varied: error of the new model less that of {other}, points",
            error["new model"] - error[other],
            0,
            paper="better in all cases",
            note="todays-linux-beats-the-model",
        )
        for other in ("Model C low", "Model C high")
    ]


def _grows(values: Sequence[float]) -> bool:
    return bool(np.all(np.diff(values) >= -1e-9))


def _grows_in_noise(values: Sequence[Interval]) -> bool:
    return all(later.high >= earlier.low for earlier, later in pairwise(values))


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"

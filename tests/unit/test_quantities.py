"""Tests of quantities on hand-made tables with known results."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from catnip import models
from catnip.analysis import resampling, stats
from catnip.analysis.interval import Interval
from catnip.base.progress import Progress
from catnip.papers import runner
from catnip.papers.catnip import components, pages, printed
from catnip.papers.catnip.runs import Result, VariantRuns
from catnip.papers.hysteresis import accuracy, marking
from catnip.papers.hysteresis import components as hysteresis_components
from catnip.papers.hysteresis.trials import FULL, LONG, LOSSES, PARTIAL, RENO, SHORT
from catnip.papers.reference import rows
from catnip.papers.testbed import latency, systems, wan
from catnip.papers.testbed.estimators import ESTIMATORS, HIGH, LOW, NEW, PAPER, TODAY, Timers
from catnip.papers.testbed.runs import FetchRuns, Measured, Point

Columns = Mapping[str, Sequence[Any]]


class FixedRuns(VariantRuns):
    """Stand-in for `VariantRuns` that returns given results, by scenario."""

    def __init__(self, **scenarios: Mapping[str, Result]) -> None:
        super().__init__(False, None, 1, Progress(quiet=True))
        for name, results in scenarios.items():
            self.cached(name.replace("_", "-"), partial(dict, results))


def result(seeds: Sequence[int] = (1,), **tables: Columns) -> Result:
    def with_variant(columns: Columns) -> dict[str, Any]:
        rows = len(next(iter(columns.values())))
        return {"variant": np.zeros(rows, int), **{key: np.array(values) for key, values in columns.items()}}

    return Result({name: with_variant(columns) for name, columns in tables.items()}, 0, list(seeds))


def page_times(*per_seed: Sequence[Sequence[float]]) -> Result:
    """Returns a table of page times; for each seed, it takes a list of times for each page."""
    rows = [
        (seed, page, time)
        for seed, of_seed in enumerate(per_seed, 1)
        for page, times in enumerate(of_seed, 1)
        for time in times
    ]
    seed, page, time = zip(*rows, strict=True)
    return result(
        range(1, len(per_seed) + 1), pages={"seed": seed, "page": page, "time_s": time, "client": seed}
    )


def port(*per_seed: tuple[int, int, int, int]) -> Result:
    """Returns a table of a port; for each seed, it takes HIGH and LOW arrivals, then HIGH and LOW drops."""
    high, low, high_dropped, low_dropped = zip(*per_seed, strict=True)
    seeds = range(1, len(per_seed) + 1)
    columns: Columns = {
        "seed": list(seeds),
        "port": ["bottleneck"] * len(per_seed),
        "arrived_med": [0] * len(high),
        "dropped_med": [0] * len(high),
        "arrived_high": high,
        "arrived_low": low,
        "dropped_high": high_dropped,
        "dropped_low": low_dropped,
    }
    return result(seeds, ports=columns)


def catnip(name: str, runs: FixedRuns, **arguments: Any) -> Any:
    return runner.load("catnip").measured[name](runs, **arguments)


# BASE and OURS: page 1 takes 2 and 1 s, page 2 takes 4 and 3 s, page 3 takes 1 and 2 s.
BASE = page_times([[2, 2], [4, 4], [1, 1]], [[2, 2], [4, 4], [1, 1]])
OURS = page_times([[1, 1], [3, 3], [2, 2]], [[1, 1], [3, 3], [2, 2]])


@pytest.mark.parametrize(
    ("statistic", "expected"),
    [("max", 50), ("0", -100), ("1", 25), ("2", 50), ("pages", 2), ("average", -25 / 3)],
)
def test_gains_have_a_sign_and_are_those_of_each_page(statistic: str, expected: float) -> None:
    runs = FixedRuns(e=dict(base=BASE, ours=OURS))
    gained = catnip(
        "gain_pct", runs, scenario="e", variant="ours", base="base", column="mean", statistic=statistic
    )
    assert gained.mean == pytest.approx(expected)


def test_the_average_gain_has_the_interval_of_leaving_out_one_run_at_a_time() -> None:
    # All runs together, `ours` takes 6 of 12 s. Without one of the runs, it takes 5/8, 4/8 or 3/8.
    base, ours = (np.array([[4.0]] * 3), np.array([[1.0], [2.0], [3.0]]))
    gain = pages.average_gain(ours, base)
    # Pseudo-values 3 * 50 - 2 * (37.5, 50, 62.5) are 75, 50, 25, of deviation 25; t of two degrees is 4.3027.
    half = 4.302652729 * 25 / math.sqrt(3)
    assert (gain.mean, gain.low, gain.high) == pytest.approx((50, 50 - half, 50 + half))


def test_deviations_are_those_of_a_sample() -> None:
    runs = FixedRuns(e=dict(base=page_times([[0, 4]]), ours=page_times([[1, 3]])))
    gained = catnip("gain_pct", runs, scenario="e", variant="ours", base="base", column="sdev", statistic="0")
    assert gained.mean == pytest.approx(50)
    assert page_times([[1, 3]]).page_deviations[0, 0] == pytest.approx(math.sqrt(2))


def test_pages_count_as_inside_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = {"run_mean_lo": [1.5, 3.0, 2.5], "run_mean_hi": [2.5, 3.5, 2.6], "run_median_lo": [0.9, 3.1, 2.1]}
    monkeypatch.setattr(printed, "ns2_pages", lambda queue, column, tcp="": ends.get(column, [1.1, 3.2, 2.2]))
    arguments = dict(scenario="e", variant="ours", queue="DropTail")
    assert catnip("pages_in_ns2_range", FixedRuns(e=dict(ours=OURS)), column="mean", **arguments).mean == 1
    assert catnip("pages_in_ns2_range", FixedRuns(e=dict(ours=OURS)), column="median", **arguments).mean == 1
    wide = dict(column="median", slack_s=0.2, **arguments)
    assert catnip("pages_in_ns2_range", FixedRuns(e=dict(ours=OURS)), **wide) == Interval(3, 3, 3, 2)


def test_losses_are_by_priority_and_relative_to_what_arrived() -> None:
    # Variant a drops 10 of 100 HIGH and 60 of 300 LOW packets, variant b 40 of 400 packets.
    runs = FixedRuns(
        e=dict(a=port((100, 300, 10, 60), (100, 300, 10, 60)), b=port((0, 400, 0, 40), (0, 400, 0, 40)))
    )

    def mean(name: str, **more: Any) -> float:
        return float(catnip(name, runs, scenario="e", variant="a", **more).mean)

    assert mean("loss_pct") == pytest.approx(17.5)
    assert mean("priority_loss_pct", priority="high") == pytest.approx(10)
    assert mean("priority_loss_pct", priority="low") == pytest.approx(20)
    assert mean("high_over_low_loss") == pytest.approx(0.5)
    assert mean("high_share_pct") == pytest.approx(25)
    assert mean("loss_ratio", over=("e", "b"), scale=100) == pytest.approx(175)
    assert mean("loss_reduction_pct", base="b") == pytest.approx(-75)
    assert mean("loss_difference_points", base="b") == pytest.approx(7.5)


def test_times_of_variants_are_compared_over_all_pages() -> None:
    runs = FixedRuns(e={"base": BASE, "ours": OURS, "Reno/X": BASE, "ECA/X": OURS, "RBPLW/X": BASE})
    assert catnip("page_time_s", runs, scenario="e", variant="ours").mean == 2
    assert catnip("times_ratio", runs, scenario="e", variant="ours", base="base").mean == pytest.approx(6 / 7)
    sources = ["Reno", "ECA", "RBPLW"]
    differ = catnip("sources_differ_pct", runs, scenario="e", router="X", sources=sources)
    assert differ.mean == pytest.approx(100 / 7)
    # The source changes the mean from 7/3 to 2, the router from 7/3 to 7/6: by 1/7 and by 1/2.
    halved = page_times([[1], [2], [0.5]])
    runs = FixedRuns(e={"base": BASE, "source": OURS, "router": halved})
    shares = catnip("source_over_router", runs, scenario="e", base="base", source="source", router="router")
    assert shares.mean == pytest.approx((1 / 7) / (1 / 2))


def test_the_longest_page_is_that_of_each_run() -> None:
    runs = FixedRuns(e=dict(x=page_times([[1, 9]], [[3, 5]])))
    assert catnip("longest_page_s", runs, scenario="e", variant="x").mean == 7


def test_packets_that_nobody_heard_of_are_counted_over_all_variants() -> None:
    def open_(*counts: int) -> Result:
        return result(runs={"seed": [1] * len(counts), "packets_open": counts})

    assert catnip("packets_unheard_of", FixedRuns(e=dict(a=open_(0, 2), b=open_(3))), scenario="e") == "5"


def test_idle_pages_are_compared_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printed, "paper_pages", lambda tcp, router, column: [0.1] * 10)
    times = [[0.1], [0.1], [0.104], [0.1], [0.9], [0.1], [0.1], [0.1], [0.093], [0.1]]
    runs = FixedRuns(catnip_idle={"ECA": page_times(times), "Reno": page_times([[0.1]] * 10)})
    assert catnip("idle_pages_off_ms", runs, source="ECA", but=[5]) == pytest.approx(7)
    assert catnip("idle_pages_off_ms", runs, source="ECA", but=[5, 9]) == pytest.approx(4)
    assert catnip("idle_page_ratio", runs, page=9, source="ECA") == pytest.approx(0.93)


def test_records_are_held_against_counters() -> None:
    ports = port((5, 10, 1, 2))
    connections = {"seed": [1, 1], "sent": [8, 8], "sent_high": [2, 3], "dropped": [1, 3]}
    both = Result({**ports.tables, **result(connections=connections).tables}, 0, [1])
    assert catnip("records_less_counters", FixedRuns(catnip_e4={"Reno/CATNIP-Good": both})) == "1, 0, 1"


def test_connections_of_a_client_overlap_or_follow_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = {
        "client": [0, 0, 0, 0, 1, 1],
        "page": [1, 1, 1, 2, 1, 2],
        "object": [0, 1, 2, 1, 0, 0],
        "start_s": [0.0, 1.0, 1.5, 9.0, 1.0, 2.0],
        "time_s": [1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
    }
    runs = FixedRuns()
    runs.cached("objects", lambda: {key: np.array(values) for key, values in columns.items()})
    # Objects 1 and 2 of page 1 overlap; only page 2 of client 0 begins with an image.
    assert catnip("max_open_connections", runs) == "2"
    assert catnip("pages_that_begin_with_an_image", runs) == "1"


def test_sessions_are_per_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "USERS", 2)
    tables: dict[str, Columns] = {
        "pages": {"seed": [1] * 3, "client": [0, 0, 1], "start_s": [0, 100, 50], "time_s": [1, 20, 30]},
        "connections": {
            "seed": [1] * 4,
            "bytes": [100, 200, 300, 400],
            "sent": [2, 3, 4, 5],
            "retransmitted": [0, 1, 1, 0],
        },
        "runs": {"seed": [1], "packets_sent": [14]},
    }
    runs = FixedRuns(catnip_e12={"x": result([1], **tables)})
    assert catnip("connections_per_user", runs, variant="x") == "2"
    assert catnip("bytes_per_user", runs, variant="x") == "500"
    assert catnip("packets_per_user", runs, variant="x") == "6"
    # Sessions of 120 and 30 s.
    assert catnip("session_length_min", runs, variant="x").mean == pytest.approx(1.25)
    assert catnip("load_mbps", runs, variant="x").mean == pytest.approx(8000 / 75 / 1e6)


def test_what_ns_2_lost_is_the_share_of_what_it_sent() -> None:
    table = rows("ns2/catnip_loss_by_seed.csv")
    row = next(r for r in table if (r["queue"], r["think"]) == ("DropTail", printed.CALIBRATED_THINK))
    assert float(row["loss"]) == pytest.approx(int(row["drops"]) / int(row["sent"]), abs=5e-5)
    assert printed.ns2_loss_pct("DropTail")[0] == pytest.approx(100 * float(row["loss"]))
    marked = next(r for r in rows("ns2/catnip_marking_loss_by_seed.csv") if r["queue"] == "CatBad")
    assert printed.ns2_loss_pct("CatBad", marked["tcp"], "hi")[0] == pytest.approx(
        100 * int(marked["hi_drops"]) / int(marked["hi_sent"])
    )


def test_bursts_end_where_half_a_round_trip_passes() -> None:
    assert runner.load("catnip").measured["bursts"](None, source="Reno", packets=7) == "1, 2, 4"
    assert components.timeout_on_a_short_path_s(None) == pytest.approx(0.3, abs=1e-6)  # type: ignore[arg-type]
    assert components.high_packets(None, 8, "spm") == "1, 2, 3, 6, 7, 8"  # type: ignore[arg-type]


class FixedTrials:
    """Stand-in for `Trials` that returns given transfer times, by sender and number of packets."""

    sample, first_seed, count = 1, 1, 4

    def __init__(self, times: Mapping[str, Sequence[float]]) -> None:
        self.times = times

    def transfer(self, sender: str, packets: int, loss: float) -> np.ndarray:
        return np.array(self.times[sender]) * packets

    def of(self, name: str) -> dict[str, np.ndarray]:
        return {
            f"{s} / loss=priority:high={h},low=0.1": np.array(t)
            for s, t in self.times.items()
            for h in LEVELS
        }


LEVELS = ("0", "0.025", "0.05", "0.1")


def test_v_is_the_mean_of_squared_differences() -> None:
    errors = accuracy.errors(np.array([1.0, 4.0]), [np.array([2.0, 2.0]), np.array([1.0, 3.0])])
    assert (errors.v.mean, errors.v.n) == (2.5, 2)
    relative = (errors.squared_relative.mean, errors.absolute_relative.mean, errors.bias.mean)
    assert relative == (0.625, 0.75, 0.25)


def test_gains_are_those_of_partial_catnip_over_reno() -> None:
    trials: Any = FixedTrials({RENO: [4, 4], PARTIAL: [3, 3], FULL: [1, 1]})
    assert marking.gain_pct(trials, 6, 0.1).mean == pytest.approx(25)
    assert marking.greatest_gain_pct(trials, 0.01).mean == pytest.approx(25)
    assert marking.full_apart_from_partial_pct(trials, 6, 0.1).mean == pytest.approx(100 * (1 - 1 / 3))
    assert marking.partial_apart_from_full_pct(trials, 0.1).mean == pytest.approx(200)
    assert marking.gain_at_pct(trials, PARTIAL, "0.05").mean == pytest.approx(25)
    assert marking.gain_at_pct(trials, FULL, "0.05").mean == pytest.approx(75)
    assert marking.grows_with_high_loss(trials, FULL, LEVELS) == Interval(0, 0, 0, 2), "it stays"
    assert (marking.off_reno_s(trials, PARTIAL), marking.off_reno_s(trials, FULL)) == (1, 3)


def test_the_smallest_gain_has_an_interval_that_holds_for_every_point_at_once() -> None:
    trials: Any = FixedTrials({RENO: [4, 4, 4, 4], PARTIAL: [2, 4, 2, 4]})
    gain = marking.gain_pct(trials, 6, 0.1)
    assert gain.low < gain.mean == pytest.approx(25)
    least = marking.smallest_gain_pct(trials)
    assert least.mean == pytest.approx(25)
    assert least.low < gain.low


def test_shapes_are_told_apart() -> None:
    class Linear(FixedTrials):
        def transfer(self, sender: str, packets: int, loss: float) -> np.ndarray:
            return np.array([packets + (packets % 2) / 10, packets])

    trials: Any = Linear({})
    assert accuracy.residuals_ratio(trials, "long", "linear", 0.01).high < 0.1
    assert accuracy.residuals_ratio(trials, "long", "log", 0.01).low > 10
    assert (accuracy.FLOWS["short"], accuracy.FLOWS["long"]) == (SHORT, LONG)


def test_a_rate_is_held_against_its_standard_deviation(monkeypatch: pytest.MonkeyPatch) -> None:
    ports = {"dropped_low": np.array([30, 30]), "arrived_low": np.array([500, 500])}
    monkeypatch.setattr(hysteresis_components, "_ports", lambda *_: ports)
    # 60 of 1000 packets are lost and 50 are expected, with a deviation of sqrt(1000 * 0.05 * 0.95) = 6.892.
    off = hysteresis_components.rate_off_sigmas(None, "s", "v", "low", 0.05)  # type: ignore[arg-type]
    assert off == pytest.approx(10 / math.sqrt(47.5))


def test_models_are_held_against_the_simulation_of_the_same_points() -> None:
    class Modelled(FixedTrials):
        def transfer(self, sender: str, packets: int, loss: float) -> np.ndarray:
            return np.full(2, float(models.partial_catnip(packets, loss, 0.0)) * (2 if packets == 12 else 1))

    trials: Any = Modelled({})
    assert [marking.model_off_pct(trials, loss).mean for loss in LOSSES] == pytest.approx([50] * len(LOSSES))


# Testbed: hand-made links and clients.


def fetched(*latencies_s: float, link: Mapping[str, Any] | None = None, **more: Any) -> Measured:
    """Returns the measured fetches of a client; a negative latency is a fetch abandoned after 120 s."""
    lines = [
        json.dumps({"latency_s": one, "connect_s": one, "bytes": 10240})
        if one >= 0
        else json.dumps({"error": "TimeoutError", "after_s": 120.0})
        for one in latencies_s
    ]
    certificate = link or {"up": side(), "down": side()}
    return Measured(
        Point("p", []), more.pop("code", 0), "\n".join(lines), certificate, **{"log": None, **more}
    )


def side(requested_loss: str = "none", delay: str = "20ms", **more: Any) -> dict[str, Any]:
    counters = {
        "packets_in": 10,
        "packets_out": 10,
        "dropped": {},
        "held": 0,
        "loss": 0.0,
        "delay_ms": {"mean": 20.0},
    }
    return {"asked": {"loss": requested_loss, "delay": delay}, **counters, **more}


class Lab(FetchRuns):
    """Stand-in for `FetchRuns` that returns given results, by name of the measurement."""

    def __init__(
        self,
        simulated: Mapping[str, Any] | None = None,
        emulated: Mapping[str, list[wan.Emulated]] | None = None,
        **made: Mapping[str, Measured],
    ) -> None:
        super().__init__(False, None, 1, Progress(quiet=True))
        self.made = made
        for name, times in (simulated or {}).items():
            self.cached(("simulated", name), partial(dict, times))
        if emulated:
            self.cached(wan.EMULATED, partial(dict, emulated))

    def of(self, name: str, *_points: Any, **_more: Any) -> dict[str, Measured]:
        known = name.replace(" ", "_").replace("-", "_").replace("%", "pct").replace("'", "")
        return dict(self.made[known])


def in_lab(name: str, lab: Lab, **arguments: Any) -> Any:
    return runner.load("testbed").measured[name](lab, **arguments)


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces the states of the simulated link: at load x > 0, the delay is x ms and the loss x/10."""

    def state(load: float) -> latency.LinkState:
        values = (load / 1e3, load, load / 10)
        return latency.LinkState(load, *(Interval(value, value, value, 9) for value in values))

    monkeypatch.setattr(latency, "states", lambda _: tuple(map(state, latency.LOADS)))


def over_load(seconds: Callable[[float], float]) -> dict[str, Measured]:
    return {f"{size}-{100 * x:g}": fetched(*[seconds(x)] * 2) for size in (3, 10, 30) for x in latency.LOADS}


def over_loss(seconds: Callable[[float], float]) -> dict[str, Measured]:
    return {f"{size}-{100 * x:g}": fetched(seconds(x)) for size in (3, 10, 30) for x in latency.LOSSES}


def over_delay(seconds: Callable[[float], float]) -> dict[str, Measured]:
    return {f"{size}-{x}": fetched(seconds(x)) for size in (3, 10, 30) for x in latency.DELAYS_MS}


@pytest.mark.usefixtures("loads")
def test_a_link_that_gets_better_with_load_is_counted_and_its_spread_is_compared() -> None:
    assert in_lab("falls_with_load", Lab(), of="delay_s") == "0"
    assert in_lab("deviation_grows_by", Lab(), from_pct=10, to_pct=100).mean == pytest.approx(10)
    assert in_lab("deviation_ms", Lab(), load_pct=60).mean == pytest.approx(600)
    assert in_lab("link_loss_pct", Lab(), load_pct=60).mean == pytest.approx(6)


@pytest.mark.usefixtures("loads")
def test_latency_rises_by_the_least_step_between_loads() -> None:
    noisy = over_load(lambda x: x) | {"3-50": fetched(0.1, 0.2, 0.9), "3-60": fetched(0.1, 0.15, 0.2, 0.25)}
    lab = Lab(latency_over_load=noisy)
    steady = in_lab("least_rise_ms", lab, size=10)
    assert (steady.mean, steady.low, steady.high) == pytest.approx((100, 100, 100))
    # 0.175 s at 60 % is 0.225 s less than 0.4 s at 50 %, but these few fetches cannot tell.
    few = in_lab("least_rise_ms", lab, size=3)
    assert few.mean == pytest.approx(-225)
    assert few.low < -225 < 0 < few.high
    falling = over_load(lambda x: 1 - x)
    assert in_lab("least_rise_ms", Lab(latency_over_load=falling), size=3).high == pytest.approx(-100)


@pytest.mark.usefixtures("loads")
def test_slopes_are_those_on_both_sides_of_the_knee() -> None:
    bent = Lab(
        latency_over_load=over_load(lambda x: x if x <= 0.6 else 0.6 + 3 * (x - 0.6)),
        latency_over_loss=over_loss(lambda x: x if x <= 0.1 else 0.1 + 4 * (x - 0.1)),
    )
    assert in_lab("steeper_above", bent, over="load", size=3).mean == pytest.approx(3)
    assert in_lab("steeper_above", bent, over="loss", size=30).mean == pytest.approx(4)
    # The knee belongs to both sides: a peak at the knee rises by 0.3/0.28 and falls by 0.2/0.1.
    peak = Lab(latency_over_load=over_load(lambda x: float(x == 0.6)))
    assert in_lab("steeper_above", peak, over="load", size=3).mean == pytest.approx(-28 / 15)


def test_a_straight_line_is_straight_and_a_step_is_not() -> None:
    straight, step = (
        in_lab("straightness", Lab(latency_over_delay=over_delay(seconds)), size=3)
        for seconds in (lambda x: 2 + x, lambda x: float(x > 100))
    )
    assert straight.mean == pytest.approx(1)
    # Slope 7/1330 per ms explains 0.765 of the variance: np.corrcoef squared of positions and step.
    position = np.array(latency.DELAYS_MS)
    assert step.mean == pytest.approx(np.corrcoef(position, position > 100)[0, 1] ** 2)


@pytest.mark.usefixtures("loads")
def test_parts_of_a_load_are_held_against_the_whole_load_by_load() -> None:
    # Delay alone gives 1 s and loss alone 2 s. The whole load gives 3 s, but 6 s at 90 %; at 10 % loss
    # nothing is compared.
    combined = over_load(lambda x: 6.0 if x == 0.9 else 99.0 if x == 1 else 3.0)
    parts = {
        f"{size}-{100 * x:g}-{part}": fetched(seconds)
        for size in (3, 10, 30)
        for x in latency.LOADS
        for part, seconds in (("delay", 1.0), ("loss", 2.0))
    }
    lab = Lab(latency_over_load=combined, parts_of_a_load=parts)
    assert in_lab("parts_off_pct", lab, size=3, statistic="largest").mean == pytest.approx(50)
    assert in_lab("parts_off_pct", lab, size=3, statistic="mean").mean == pytest.approx(50 / 9)
    assert in_lab("parts_off_pct", lab, size=3, statistic="in total").mean == pytest.approx(
        100 * (1 - 27 / 30)
    )


def test_the_widest_interval_is_half_of_it_over_its_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    intervals = [Interval(1, 1, 1, 9), *[Interval(2, 1, 3, 9)] * 6, Interval(4, 3.5, 4.1, 9)]
    monkeypatch.setattr(latency, "latencies", lambda *_: intervals)
    assert in_lab("widest_interval_pct", Lab(), over="loss", statistic="largest") == pytest.approx(50)
    assert in_lab("widest_interval_pct", Lab(), over="loss", statistic="median") == pytest.approx(50)


@pytest.fixture
def models_of_one_and_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces the models' latencies: new 1 s, Model C low 0.5 s, high 2 s; tenfold with old timers."""
    values_s = {NEW: 1.0, LOW: 0.5, HIGH: 2.0}

    def model(value: float) -> Callable[..., float]:
        return lambda _packets, _loss, _delay_s, timers: value * (1 if timers.times_handshake else 10)

    monkeypatch.setattr(latency, "ESTIMATORS", {name: model(value) for name, value in values_s.items()})


@pytest.mark.usefixtures("loads", "models_of_one_and_more")
def test_errors_of_models_are_relative_to_what_was_measured() -> None:
    # Measured latencies: 2 s below 50 % load, 4 s at 50 %, 10 s at 60 %, then 1 s. Without load nothing is
    # compared.
    lab = Lab(
        latency_over_load=over_load(
            lambda x: 9 if x == 0 else 2 if x < 0.5 else 4 if x == 0.5 else 10 if x == 0.6 else 1.0
        )
    )

    def of(name: str, **more: Any) -> Any:
        return in_lab(name, lab, over="load", size=3, server="kernel", **more)

    assert of("error_pct", model=NEW, statistic="largest", below_knee=True).mean == pytest.approx(75)
    assert of("error_pct", model=NEW, statistic="mean").mean == pytest.approx((4 * 50 + 75 + 90) / 10)
    low = (4 * 75 + 87.5 + 95 + 4 * 50) / 10
    assert of("error_less_pct", than=LOW).mean == pytest.approx((4 * 50 + 75 + 90) / 10 - low)
    # Model C high predicts 2 s, so it is exact up to 40 % load, and closer than the new model at 50 and 60 %.
    assert of("positions_of_another") == "10, 20, 30, 40, 50, 60"


@pytest.mark.usefixtures("loads", "models_of_one_and_more")
def test_model_c_is_judged_from_60_pct_load_on() -> None:
    lab = Lab(latency_over_load=over_load(lambda x: 100.0 if x < 0.6 else 1 + x))
    smallest = in_lab("measured_over", lab, model=LOW, size=3, server="kernel", statistic="least")
    largest = in_lab("measured_over", lab, model=HIGH, size=3, server="kernel", statistic="most")
    assert (smallest.mean, largest.mean) == pytest.approx((1.6 / 0.5, 2 / 2))


@pytest.mark.usefixtures("loads", "models_of_one_and_more")
def test_an_error_varies_as_the_measured_latencies_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "latencies", lambda *_: [Interval(2.0, 1.9, 2.1, 50)] * len(latency.LOADS))
    value = in_lab("error_pct", Lab(), model=NEW, over="load", size=3, server="kernel", statistic="mean")
    # 1 s is predicted: 50 %, which a latency moves by 100 / 2**2 = 25 % per second, and the mean of ten by a
    # root of ten less.
    assert (value.mean, value.n) == (pytest.approx(50), 50)
    assert (value.high - value.low) / 2 == pytest.approx(25 * 0.1 / math.sqrt(10), rel=0.1)


@pytest.mark.usefixtures("models_of_one_and_more")
def test_a_simulated_kernel_is_held_against_models_with_its_timers() -> None:
    by_variant = {
        f"{stack} / wire_loss=bernoulli:{loss:g}": {size: np.full(4, 5.0 * scale) for size in (3, 10, 30)}
        for stack, scale in (("linux-2.0", 1), ("today", 99))
        for loss in latency.LOSSES
    }
    lab = Lab({"testbed-loss": by_variant}, latency_over_loss=over_loss(lambda x: 1 + 10 * x))
    assert in_lab("heavy_loss_ratio", lab, size=3, server="linux-2.0").mean == pytest.approx(2)
    # The measured latencies are 2.5 and 3 s at 15 and 20 % loss.
    assert in_lab("heavy_loss_ratio", lab, size=3, server="kernel").mean == pytest.approx(
        (1 / 2.5 + 1 / 3) / 2
    )
    assert in_lab("stack_over_kernel", lab, size=3, variant="today", loss_pct=10) == pytest.approx(495 / 2)


def test_fetches_that_were_given_up_are_counted_and_weigh_as_long_as_they_were_tried() -> None:
    lab = Lab(latency_over_delay={"a": fetched(1.0, -1)}, latency_over_loss={"b": fetched(-1, -1, 2.0)})
    assert in_lab("fetches_that_did_not_end", lab) == 3
    assert replace(fetched(1.0), point=Point("p", [], file="30")).errors == 1, "not the whole file"
    assert fetched(1.0, -1).mean_s.mean == pytest.approx(60.5)


def test_a_red_link_is_counted_unless_it_was_stopped_on_purpose() -> None:
    stopped = replace(fetched(1.0, code=3), point=Point("p", [], stops=True))
    lab = Lab(
        latency_over_delay={"a": fetched(1.0, code=3), "b": stopped}, latency_over_loss={"c": fetched(1.0)}
    )
    assert in_lab("red_certificates", lab) == "1"


def test_loss_and_delay_of_links_are_off_by_what_was_asked() -> None:
    lossy = {
        "up": side("bernoulli:0.1", packets_in=900, loss=0.12),
        "down": side("bernoulli:0.1", packets_in=900, loss=0.09),
    }
    lab = Lab(
        latency_over_loss={"a": fetched(1.0, link=lossy), "b": fetched(1.0)},
        latency_over_delay={
            "a": fetched(0.0405, 0.0405, 9.0),
            "b": fetched(
                0.4,
                link={
                    "up": side(delay="200ms", delay_ms={"mean": 202}),
                    "down": side(delay_ms={"mean": 200}),
                },
            ),
        },
    )
    assert in_lab("loss_off_sigmas", lab, statistic="mean") == pytest.approx(1.5)
    assert in_lab("loss_off_sigmas", lab, statistic="largest") == pytest.approx(2)
    # The difference is half a millisecond for 40 ms, and none for 400 ms.
    assert in_lab("round_trip_off", lab) == pytest.approx(0.5)
    # The difference is 2 ms of 200 ms, half of the tolerance of 2 %.
    assert in_lab("delay_off", lab) == pytest.approx(0.5)


def test_packets_of_a_link_are_accounted_for() -> None:
    def mode(**more: Any) -> Lab:
        return Lab(link_modes={"queue": fetched(link={"up": side(**more), "down": side(**more)})})

    assert in_lab("unaccounted", mode(dropped={"loss": 2}, held=1, packets_out=7), mode="queue") == "0"
    assert in_lab("unaccounted", mode(dropped={"loss": 2}, held=1, packets_out=5), mode="queue") == "4"


def test_packets_beside_a_link_are_those_that_only_the_kernel_knows() -> None:
    snmp = "Ip: InReceives OutRequests\nIp: 17 19\nTcp: InCsumErrors\nTcp: 3\n"
    at_server = snmp.replace(" 3", " 4")
    link = {"up": side(packets_in=18), "down": side(packets_out=17)}
    forced = Measured(Point("forced", []), 0, snmp, link, None, at_server)
    lab = Lab(forced_routing={"forced": forced})
    assert [in_lab("packets_beside_the_link", lab, side=side) for side in ("up", "down")] == ["1", "0"]
    assert [in_lab("bad_checksums", lab, end=end) for end in ("client", "server")] == ["3", "4"]
    assert in_lab("packets_that_crossed", lab, side="down") == 17


LOG = """event,time_ns,number,edge,flow,len_bytes,priority,ecn,reason,lateness_ns
arrive,1000000,0,0,7,60,low,0,,
depart,2000000,0,0,7,60,,,,5000
depart,5000000,2,1,8,1500,,,,
depart,6000000,1,1,8,500,,,,100000
depart,7000000,3,1,8,52,,,,
arrive,20000000,4,0,9,60,low,0,,
depart,23000000,5,1,3,1500,,,,
"""


def test_a_log_gives_what_overtook_and_how_long_each_fetch_took() -> None:
    assert in_lab("out_of_order", Lab(link_modes={"fixed": fetched(log=LOG)}), mode="fixed") == "1"
    lab = Lab(logger_of_1={"log": fetched(0.0052, 0.0034, log=LOG)})
    # Fetches last from 1 to 6.1 ms, and from 20 to 23 ms.
    assert in_lab("logger_off_ms", lab, clients=1, fetches=2, statistic="largest") == pytest.approx(0.4)
    assert in_lab("logger_off_ms", lab, clients=1, fetches=2, statistic="median") == pytest.approx(0.25)


def test_bodies_of_other_lengths_are_shown_and_servers_compared() -> None:
    lab = Lab(
        latency_over_delay={"3-0": fetched(1.0), "30-0": fetched(1.0, -1)},
        apache_at_5_pct_loss={"10 KB": fetched(1.0, 2.0)},
        nginx_at_5_pct_loss={"10 KB": fetched(1.0, 1.0)},
    )
    assert [in_lab("body_bytes", lab, size=size) for size in (3, 30)] == ["10240", "0, 10240"]
    assert in_lab("apache_off_nginx_pct", lab, loss_pct=5).mean == pytest.approx(50)


def test_a_lost_packet_of_the_handshake_costs_what_it_takes_more_than_none() -> None:
    cases = {"none": 0.1, "SYN": 1.1, "SYN-ACK": 1.2, "last ACK": 0.1}
    lab = Lab(
        handshakes={f"{name}-{n}": fetched(s) for name, s in cases.items() for n in range(systems.HANDSHAKES)}
    )
    assert in_lab("handshake_costs_ms", lab, lost="SYN").mean == pytest.approx(1000)
    assert in_lab("handshake_costs_ms", lab, lost="SYN-ACK").mean == pytest.approx(1100)


def test_models_are_given_the_one_way_delay_and_the_timers_of_the_kernel() -> None:
    # Without loss: 1.5 round trips, and a packet in a window of two, log 1.5 of 1 + 2/(2*2) round trips.
    assert ESTIMATORS[NEW](1, 0.0, 0.1, TODAY) == pytest.approx(0.3 + 0.2)
    assert ESTIMATORS[LOW](1, 0.0, 0.1, TODAY) == pytest.approx(0.3 + 0.2 * math.log(2) / math.log(1.5))
    assert (TODAY.first_s, TODAY.min_s, PAPER.first_s, PAPER.min_s) == (1.0, 0.2, 3.0, 0.2)
    # The paper's kernel starts data with a timeout of 3 s; with an RTT sample of the handshake it would not.
    assert ESTIMATORS[NEW](1, 0.1, 0.1, PAPER) == pytest.approx(float(models.wzk_new(1, 0.1, 0.1, Ts_s=3)))
    assert (
        ESTIMATORS[NEW](1, 0.1, 0.1, Timers(3, times_handshake=True))
        < ESTIMATORS[NEW](1, 0.1, 0.1, PAPER) - 0.3
    )
    # With an RTT sample, a timeout is three round trips.
    expected = models.model_c_low(3, 0.05, 0.1, T0_s=0.6, Ts_s=1)
    assert ESTIMATORS[LOW](3, 0.05, 0.1, TODAY) == pytest.approx(float(expected))


def emulated(*times: float, **tables: Columns) -> wan.Emulated:
    columns = {"page": np.arange(1, 11), "time_s": np.array(times)}
    dropped = {"packets_in": 200, "packets_out": 150, "dropped": {"overflow": 40, "loss": 10}, "held": 0}
    links = [{"name": "bottleneck", "certificate": {"up": dropped, "down": dropped}}]
    hosts = [{"missed": 4, "unwritable": 1}]
    certificate = {
        "links": links,
        "packets_inside": [3, 5],
        "hosts": hosts,
        "lateness_us": [1, 700, 9],
        "verdict": "red",
    }
    rows = [
        {key: np.array(values) for key, values in tables.get(name, {}).items()} for name in wan.TABLES[1:]
    ]
    return wan.Emulated(certificate, columns, *rows)


def wide_area(**runs: list[wan.Emulated]) -> Lab:
    return Lab(emulated={name.strip("_").replace("_", " "): of for name, of in runs.items()})


def bottleneck(high: int, low: int, high_dropped: int, low_dropped: int) -> Columns:
    arrived = {"arrived_high": [high], "arrived_med": [0], "arrived_low": [low]}
    dropped = {"dropped_high": [high_dropped], "dropped_med": [0], "dropped_low": [low_dropped]}
    return {"seed": [1], "variant": [0], "port": ["bottleneck"], **arrived, **dropped}


HANDSHAKES: Columns = {"syn_timeouts": [0, 0, 2, 0]}


def test_table_xi_is_catnip_over_fifo() -> None:
    lab = wide_area(
        _64_KB_CATNIP=[emulated(*[1.0] * 10, ports=bottleneck(60, 40, 3, 20), connections=HANDSHAKES)],
        _64_KB_FIFO=[emulated(*[2.0] * 10, ports=bottleneck(0, 200, 0, 50), connections=HANDSHAKES)],
    )
    assert in_lab("page_time_ratio", lab, buffer_kb=64).mean == 0.5
    lost = (
        in_lab("loss_pct", lab, buffer_kb=64, router="CATNIP", packets=one) for one in ("all", "high", "low")
    )
    assert [one.mean for one in lost] == [23, 5, 50]
    assert in_lab("loss_pct", lab, buffer_kb=64, router="FIFO").mean == 25
    assert in_lab("high_share_pct", lab, buffer_kb=64, router="CATNIP").mean == 60
    assert in_lab("handshakes_repeated_pct", lab, buffer_kb=64, router="CATNIP").mean == 25
    assert in_lab("packets_lost_from_sight", lab) == str(2 * (2 + 4 + 1))
    assert (in_lab("red_runs", lab), in_lab("lateness_p99_ms", lab)) == ("2", 0.7)


def test_short_pages_may_gain_what_large_ones_lose() -> None:
    of_fifo = [1.0] * 10
    high, low = ([1.0, large, *[1.0] * 7, short] for large, short in ((1.5, 0.5), (1.1, 0.9)))
    times = {"FIFO": of_fifo, "CATNIP": high, "CATNIP with SYN-ACKs LOW": low}
    nothing = bottleneck(0, 1, 0, 0)
    lab = Lab(
        emulated={
            f"64 KB {name}": [emulated(*of, ports=nothing, connections=HANDSHAKES)]
            for name, of in times.items()
        }
    )
    ratio = partial(in_lab, "page_time_ratio", lab, buffer_kb=64)
    assert (ratio(pages=[2]).mean, ratio(pages=[2, 10]).mean) == (1.5, 1)
    assert ratio(router="CATNIP with SYN-ACKs LOW", pages=[2]).mean == 1.1
    assert ratio(pages=[2], than="CATNIP with SYN-ACKs LOW").mean == pytest.approx(1.5 / 1.1)
    assert in_lab("total_time_ratio", lab, buffer_kb=64, router="CATNIP").mean == 1


def test_what_short_pages_gain_is_told_with_what_routers_lose() -> None:
    ports = {
        wan.FIFO: bottleneck(0, 200, 0, 50),
        wan.HIGH: bottleneck(60, 40, 3, 20),
        wan.LOW: bottleneck(1, 1, 0, 0),
    }
    by_variant = {
        f"{kb} KB {name}": [emulated(*[1.0] * 10, ports=ports[name], connections=HANDSHAKES)]
        for kb in wan.BUFFERS_KB
        for name in ports
    }
    rows = wan.trade(Lab(emulated=by_variant), "nginx").rows
    assert len(rows) == len(wan.BUFFERS_KB) * len(wan.ROUTERS)
    assert rows[0] == ["64 KB, FIFO", "1", "1", "1", "1", "25.000", "–", "–", "0.000", "25.000"]
    assert rows[1] == ["64 KB, CATNIP", *["1.000"] * 4, "23.000", "5.000", "50.000", "60.000", "25.000"]


def test_a_damaged_object_is_of_another_length_or_content() -> None:
    expected = "e71fa2190541574b"  # FNV-1a of "abc"
    objects: dict[str, list[Any]] = {
        "bytes": [3, 3, 3, 3],
        "body_bytes": [3, 3, 2, 3],
        "whole": [1, 1, 1, 0],
        "body_fnv1a": [expected, "0" * 16, expected, expected],
    }
    run = emulated(*[1.0] * 10, objects=objects)
    assert in_lab("damaged_objects", wide_area(_64_KB_FIFO=[run])) == "3"


def test_marks_of_a_real_server_are_counted_where_nothing_was_sent_twice() -> None:
    # The connections: one data packet and a SYN-ACK; 40 packets, six of them HIGH; too many HIGH; too few
    # HIGH; one retransmission.
    connections = {
        "sent": [1, 40, 40, 40, 40],
        "sent_high": [2, 8, 10, 5, 20],
        "retransmitted": [0, 0, 0, 0, 1],
    }
    high, low = connections["sent_high"], [1, 6, 9, 5, 20]

    def wrong(of_high: list[int], of_low: list[int]) -> str:
        marked = {wan.FIFO: [0] * 5, wan.HIGH: of_high, wan.LOW: of_low}
        runs = {name: {**connections, "sent_high": of} for name, of in marked.items()}
        by_variant = {f"64 KB {name}": [emulated(*[1.0] * 10, connections=of)] for name, of in runs.items()}
        return str(in_lab("wrongly_marked", Lab(emulated=by_variant)))

    assert wrong(high, low) == "4"
    assert wrong(low, low) == "5", "SYN-ACKs that are missing"


def test_the_mean_of_a_heavy_tail_has_an_interval_that_reaches_further_up() -> None:
    sample = [0.1] * 95 + [10.0] * 5
    interval = resampling.mean(sample)
    assert interval.mean == pytest.approx(np.mean(sample))
    assert interval.high - interval.mean > interval.mean - interval.low > 0
    assert resampling.mean([2.0, 2.0]) == stats.mean([2.0, 2.0])

"""Tests of quantities on hand-made tables with known results."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from catnip import models
from catnip.analysis.interval import Interval
from catnip.base.progress import Progress
from catnip.papers import runner
from catnip.papers.catnip import components, pages, printed
from catnip.papers.catnip.runs import Result, VariantRuns
from catnip.papers.hysteresis import accuracy, marking
from catnip.papers.hysteresis import components as hysteresis_components
from catnip.papers.hysteresis.trials import FULL, LONG, LOSSES, PARTIAL, RENO, SHORT
from catnip.papers.reference import rows

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


def test_a_model_is_compared_with_transfers_that_lose_each_of_their_packets_in_turn() -> None:
    # Of the check values: 12 packets take 1.1 s without loss, 2.1 s if one is lost at any place.
    times = {f"packets=12 / loss=packets:{place}": np.array([2.1, 4.2]) for place in range(1, 13)}
    times["packets=12 / loss=packets:6"] = np.array([2.1 * 13, 4.2])
    times["packets=12 / loss=packets:13"] = np.array([1.1, 1.1])
    trials: Any = SimpleNamespace(of=lambda _name, _count: times)
    assert hysteresis_components.over_sikdar(trials, 12, 0).mean == pytest.approx(1)
    assert hysteresis_components.over_sikdar(trials, 12, 1).mean == pytest.approx(2, rel=1e-4)


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

"""Tests of the models' trusted ranges, which follow from simulations."""

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations_with_replacement

import model_pages
import numpy as np
import pytest
from pytest import approx

from catnip.modelling import accuracy, case
from catnip.modelling.accuracy import LIMIT, MODELS, Grid, Model, Nearby
from catnip.modelling.case import Case, Latency
from conftest import Run

with accuracy.FILE.open(encoding="utf-8", newline="") as lines:
    ROWS = list(csv.DictReader(lines))
HYSTERESIS, CARDWELL, PARTIAL = (
    next(one for one in case.LATENCIES if one.name == name)
    for name in ("hysteresis", "cardwell00", "partial_catnip")
)


def errors(model: Model, path: Case) -> dict[tuple[int, float], float]:
    """Returns a model's errors at the compared points of a path, read directly from accuracy.csv."""
    return {
        (int(row["packets"]), float(row["p"])): float(row[model.key])
        for row in ROWS
        if row[model.key] and all(float(row[key]) == getattr(path, key) for key in accuracy.PATH)
    }


@pytest.mark.parametrize("path", model_pages.PATHS, ids=lambda path: f"{path.rtt_s} s, {path.b} per ACK")
@pytest.mark.parametrize("model", MODELS, ids=lambda model: f"{model.key}")
def test_no_claimed_region_holds_a_point_beyond_the_limit(model: Model, path: Case) -> None:
    for region in accuracy.trust(model, path):
        low, high = region.packets or (1, 10**9)
        held = [
            off
            for (n, p), off in errors(model, path).items()
            if low <= n <= high and region.p[0] <= p <= region.p[1]
        ]
        assert held
        assert max(map(abs, held)) <= LIMIT


@pytest.mark.parametrize("model", MODELS, ids=lambda model: f"{model.key}")
def test_every_model_was_compared_at_every_point_of_every_path(model: Model) -> None:
    sizes: Sequence[int] = (20_000,)
    losses: Sequence[float] = model_pages.STEADY_LOSSES
    if isinstance(model, Latency):
        sizes, losses = (*model_pages.SIZES, *model_pages.LONGER), model_pages.COMPARED_LOSSES
    for path in model_pages.PATHS:
        assert set(errors(model, path)) == {(n, p) for n in sizes for p in losses}


@pytest.mark.parametrize(
    ("what", "at"),
    [
        ("reno", Case(20_000, 0.01)),
        ("partial_catnip", Case(2000, 0.1)),
        ("download", Case(500, 0.03, rtt_s=0.05)),
    ],
)
def test_stored_means_are_what_is_simulated_today(what: case.Simulated, at: Case) -> None:
    stored = next(one.mean for one in accuracy.points() if (one.simulated, one.case) == (what, at))
    now = case.simulated(at, what, stored.n, model_pages.SEED)
    assert (now.mean, now.low, now.high) == approx((stored.mean, stored.low, stored.high), rel=1e-5)


def test_the_file_reads_as_it_was_written() -> None:
    assert accuracy.text(accuracy.points()) == accuracy.FILE.read_text(encoding="utf-8")


def test_regions_are_the_largest_rectangles_of_good_points() -> None:
    random = np.random.default_rng(1)
    for _ in range(100):
        is_good = random.random((5, 6)) < 0.75
        grid = Grid(range(1, 6), [p / 10 for p in range(6)], np.where(is_good, 0.1, 0.2).tolist())
        found = accuracy.regions(grid, is_rate=False)
        sizes = [
            is_good[a : b + 1, c : d + 1].size
            for a, b in combinations_with_replacement(range(5), 2)
            for c, d in combinations_with_replacement(range(6), 2)
            if is_good[a : b + 1, c : d + 1].all()
        ]
        first = found[0]
        assert first.packets
        rows, columns = first.packets[1] - first.packets[0] + 1, round(10 * (first.p[1] - first.p[0])) + 1
        assert rows * columns == max(sizes)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (Case(30_000, 0.01), "30000 packets (1 to 20000)"),
        (Case(23, 0.25), "25 % loss (0 to 20 %)"),
        (Case(23, 0.01, rtt_s=0.5), "round trip 500 ms (50 ms or 200 ms)"),
        (Case(23, 0.01, w_max=64), "window 64 (24)"),
        (Case(23, 0.01, t0_s=0.2), "timeout 200 ms (1000 ms)"),
        (Case(23, 0.01, first_timeout_s=1.0), "first timeout 1000 ms (3000 ms)"),
        (Case(23, 0.01, w1=10), "initial window 10 (1)"),
        (Case(23, 0.01, rtt_s=0.05, b=1, delack_s=0.0), "50 ms (50 ms or 200 ms)"),
    ],
)
def test_a_case_outside_of_what_was_compared_is_said_to_be_outside(asked: Case, reason: str) -> None:
    near = accuracy.nearby(HYSTERESIS, asked)
    assert reason in near.outside
    assert (str(near), near.mark, near.is_trusted) == ("not compared", "?", False)


def test_a_path_that_differs_by_less_than_the_factor_is_the_same_path() -> None:
    at, like = Case(23, 0.05), Case(23, 0.05, rtt_s=0.21, w_max=20, t0_s=1.2, first_timeout_s=2.5)
    assert accuracy.nearby(HYSTERESIS, like) == accuracy.nearby(HYSTERESIS, at)
    assert accuracy.nearby(HYSTERESIS, replace(at, rtt_s=0.06)) == accuracy.nearby(
        HYSTERESIS, replace(at, rtt_s=0.05)
    )


def test_loss_of_high_packets_was_compared_with_no_model_that_knows_it() -> None:
    query = Case(23, 0.05, p_high=0.01)
    assert accuracy.nearby(PARTIAL, query).outside == "1 % loss of HIGH packets (none)"
    assert not accuracy.nearby(HYSTERESIS, query).outside


def test_between_compared_points_all_around_count() -> None:
    by_point = errors(HYSTERESIS, Case(1, 0.0))
    for query, around in (
        (Case(23, 0.05), [(23, 0.05)]),
        (Case(30, 0.05), [(23, 0.05), (36, 0.05)]),
        (Case(1000, 0.02), [(500, 0.01), (500, 0.03), (2000, 0.01), (2000, 0.03)]),
        (Case(20_000, 0.2), [(20_000, 0.2)]),
    ):
        nearby = accuracy.nearby(HYSTERESIS, query)
        values = [by_point[at] for at in around]
        assert (nearby.low, nearby.high) == (min(values), max(values))


@pytest.mark.parametrize(
    ("near", "words", "mark"),
    [
        (Nearby(-0.46, -0.46), "46 % low", "!"),
        (Nearby(-0.46, -0.2), "20 to 46 % low", "!"),
        (Nearby(0.1, 0.16), "10 to 16 % high", "!"),
        (Nearby(-0.1, 0.14), "10 % low to 14 % high", ""),
        (Nearby(-0.001, 0.002), "0 %", ""),
        (Nearby(-0.04, 0.001), "0 to 4 % low", ""),
    ],
)
def test_how_far_a_model_is_reads_as_low_and_high(near: Nearby, words: str, mark: str) -> None:
    assert (str(near), near.mark) == (words, mark)


def test_hysteresis_is_low_for_twenty_thousand_packets_at_one_percent(catnip: Run) -> None:
    nearby = accuracy.nearby(HYSTERESIS, Case(20_000, 0.01))
    assert nearby.high < -0.4
    assert not nearby.is_trusted
    assert accuracy.nearby(CARDWELL, Case(20_000, 0.01)).is_trusted
    ended = catnip("model", "--packets", 20_000, "--loss", "1%", "--trials", 0)
    row = next(line for line in ended.out.splitlines() if line.strip().startswith("hysteresis"))
    assert f"{-100 * nearby.low:.0f} % low" in row
    assert accuracy.trusted_for(HYSTERESIS) in row


def test_json_says_what_the_table_says(catnip: Run) -> None:
    arguments = ("model", "--packets", 20_000, "--loss", "1%", "--trials", 0, "--json")
    printed = json.loads(catnip(*arguments).out)
    hysteresis = printed["latency_trust"]["hysteresis"]
    assert (hysteresis["trusted"], hysteresis["within"], hysteresis["not_compared"]) == (False, LIMIT, None)
    assert hysteresis["near"]["high"] < -0.4
    assert hysteresis["regions"][0]["packets"] == [*(accuracy.trust(HYSTERESIS)[0].packets or ())]
    assert printed["rate_trust"]["pftk_throughput"]["trusted"]
    outside = json.loads(catnip(*arguments, "--rtt", "2s").out)["latency_trust"]["hysteresis"]
    assert (outside["trusted"], outside["near"]) == (False, None)
    assert outside["not_compared"] == "round trip 2000 ms (50 ms or 200 ms)"


def test_models_outside_of_what_was_compared_are_said_to_be_so_once(catnip: Run) -> None:
    out = catnip("model", "--packets", 30_000, "--loss", "25%", "--trials", 0).out
    assert out.count("Not compared: ") == 2
    assert "Not compared: 30000 packets (1 to 20000), 25 % loss (0 to 20 %): all times." in out
    assert "Not compared: 25 % loss (0.02 to 20 %): all rates." in out


def test_a_run_of_long_transfers_has_their_rate_beside_and_marks_what_is_far_off(catnip: Run) -> None:
    out = catnip("run", "steady-state", "--seeds", 2).out
    table = out[out.index("Models and simulated mean") :]
    assert "PFTK, receive rate" in table
    row = next(line for line in table.splitlines() if "bernoulli:0.01 " in line)
    assert row.count("!") == 1
    assert "! not reliable: error of " in table
    document = json.loads(catnip("run", "steady-state", "--seeds", 2, "--json").out)
    times, trust = (document[key]["loss=bernoulli:0.01"] for key in ("models_s", "models_trust"))
    assert times["PFTK, receive rate"] == approx(
        20_000 / case.rate("pftk_throughput", Case(20_000, 0.01)), rel=0.01
    )
    assert (trust["hysteresis"]["trusted"], trust["PFTK, receive rate"]["trusted"]) == (False, True)


def test_a_run_unlike_those_compared_says_so(catnip: Run) -> None:
    out = catnip("run", "slow-start", "--seeds", 1).out
    assert "? not compared with simulations of such transfers: window 64 (24)" in out
    trust = json.loads(catnip("run", "slow-start", "--seeds", 1, "--json").out)["models_trust"]
    assert all(not one["trusted"] and one["not_compared"] for row in trust.values() for one in row.values())

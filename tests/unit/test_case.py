"""Tests of one transfer's time by models and by simulation: units, and agreement of models and simulation."""

import json
import math
from pathlib import Path
from xml.etree import ElementTree

import pytest

from catnip import InputError
from catnip.base import paths
from catnip.cli.options import BAD_INPUT
from catnip.modelling import case
from catnip.modelling.case import Case
from conftest import Run

SENDERS = ("Reno", "Partial CATNIP", "CATNIP")


@pytest.mark.parametrize(("text", "value"), [("5%", 0.05), ("0.05", 0.05), (" 12.5 % ", 0.125), ("0", 0.0)])
def test_probabilities_are_read_with_and_without_percent(text: str, value: float) -> None:
    assert case.probability(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["-1%", "100%", "1", "five", "", "nan", "5 percent", "1e", "--5"])
def test_what_is_no_probability_is_bad_input(text: str) -> None:
    with pytest.raises(InputError, match="expected a probability"):
        case.probability(text)


def test_sizes_are_rounded_up_to_packets() -> None:
    assert [case.packets_of(f"{kb}KB", 1433) for kb in (1, 4, 50, 200)] == [1, 3, 36, 143]


def test_the_simulated_mean_is_where_the_model_says_without_loss() -> None:
    one = Case(packets=36, p=0.0, b=1, delack_s=0.0)
    simulated = case.simulated(one, "reno", trials=2, seed=1)
    # Rounds of 1, 2, 4, 8 and 16 packets, then the last five packets: six rounds.
    assert simulated.mean == pytest.approx(6 * 0.2, abs=2e-3)


def test_a_simulated_download_has_a_set_up_a_request_and_the_rounds_of_its_packets() -> None:
    one = Case(packets=7, p=0.0, b=1, delack_s=0.0)
    simulated = case.simulated(one, "download", trials=2, seed=1)
    # SYN and its ACK, then the request; 1 + 2 + 4 packets arrive half a round after the start of the third.
    assert simulated.mean == pytest.approx((1 + 0.5 + 2.5) * 0.2, abs=2e-3)


def test_simulated_rates_are_those_of_what_arrives_and_of_what_is_sent() -> None:
    rates = case.simulated_rates(Case(packets=20_000, p=0.05), trials=20, seed=1)
    lost = 1 - rates["goodput"].mean / rates["sent"].mean
    assert lost == pytest.approx(0.05, abs=0.01)
    assert rates["cubic"].mean > 1.2 * rates["goodput"].mean


def test_models_and_simulation_agree_where_they_are_trusted() -> None:
    one = Case(packets=23, p=0.03)
    simulated = case.simulated(one, "reno", trials=2000, seed=1).mean
    hysteresis = next(model for model in case.LATENCIES if model.name == "hysteresis")
    assert case.latency(hysteresis, one) == pytest.approx(simulated, rel=0.1)


def test_every_model_has_a_value_for_every_ordinary_case() -> None:
    for one in (Case(1, 0.0), Case(1, 0.3), Case(6, 0.1), Case(7, 0.1), Case(1000, 0.2, p_high=0.2)):
        for model in case.LATENCIES:
            assert math.isfinite(case.latency(model, one)), (model.name, one)


def test_the_set_up_beyond_half_loss_has_no_mean_and_the_others_have() -> None:
    heavy = Case(12, 0.6)
    assert [model.name for model in case.LATENCIES if math.isnan(case.latency(model, heavy))] == [
        "wzk_new",
        "model_c_low",
        "model_c_high",
    ]


def test_a_single_transfer_of_a_scenario_is_predicted_by_the_models_that_match() -> None:
    scenario = paths.scenario("hysteresis")
    flow = {name: scenario.single_flow(f"{name} / packets=36 / loss=priority:low=0.1") for name in SENDERS}
    assert all(flow.values())
    labels = {name: {one.label for one in case.matching(known)} for name, known in flow.items() if known}
    assert labels == {
        "Reno": {"hysteresis", "Cardwell-00"},
        "Partial CATNIP": {"Partial CATNIP"},
        "CATNIP": set(),
    }


def test_model_prints_every_model_beside_the_simulation(catnip: Run) -> None:
    ended = catnip("model", "--size", "32KB", "--loss", "5%", "--rtt", "200ms", "--trials", 200)
    assert (ended.code, ended.err) == (0, "")
    for one in (*case.LATENCIES, *case.RATES):
        assert one.label in ended.out
    assert "23 packets" in ended.out
    assert "±" in ended.out


def test_model_as_json_is_the_same_for_the_same_seed(catnip: Run) -> None:
    one, two = (catnip("model", "--json", "--seed", 4, "--trials", 50).out for _ in range(2))
    assert one == two
    document = json.loads(one)
    assert document["case"]["packets"] == 23
    assert document["latency_s"]["hysteresis"] > 0
    assert document["simulated"]["reno"]["low"] < document["simulated"]["reno"]["high"]


@pytest.mark.parametrize("sweep", ["loss=0%:15%", "size=1KB:100KB", "rtt=20ms:400ms"])
def test_a_sweep_is_drawn_and_tabulated(catnip: Run, tmp_path: Path, sweep: str) -> None:
    plot = tmp_path / "new" / "sweep.svg"
    ended = catnip("model", "--sweep", sweep, "--plot", plot, "--trials", 20)
    assert (ended.code, ended.err) == (0, "")
    assert ElementTree.fromstring(plot.read_text()).get("viewBox")
    assert "hysteresis" in ended.out
    assert json.loads(catnip("model", "--sweep", sweep, "--trials", 0, "--json").out)["simulated"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--loss", "150%"], "--loss: '150%': expected a probability below 1, such as 5% or 0.05"),
        (["--size", "0KB"], "--size: '0KB': 0 packets; expected 1 to 100000"),
        (["--size", "32K"], '--size: "32K": expected '),
        (["--rtt", "0ms"], "--rtt: '0ms': expected a time above zero"),
        (["--rtt", "-3ms"], '--rtt: "-3ms": expected a time such as'),
        (["--loss", "1%", "--high-loss", "2%"], "--high-loss: '2%': expected at most"),
        (["--sweep", "colour=1:2"], "--sweep: 'colour' is not one of size, loss, rtt"),
        (["--sweep", "loss=5%"], "--sweep: '5%': expected two values, FROM:TO"),
        (["--sweep", "loss=5%:1%"], "--sweep: '5%:1%': expected the lower value first"),
        (["--plot", "x.svg"], "--plot: needs --sweep"),
        (["--sweep", "loss=0%:5%", "--plot", "x.gif"], "--plot: x.gif: expected a file name"),
        (["--size", "8KB", "--packets", "9"], "--size: cannot be used with --packets"),
        (["--mss", "0B"], "--mss: '0B': expected 1 to 65495 bytes"),
    ],
)
def test_bad_values_are_one_line_that_names_option_and_value(
    catnip: Run, arguments: list[str], message: str
) -> None:
    ended = catnip("model", *arguments)
    assert (ended.code, ended.out) == (BAD_INPUT, "")
    assert ended.err.startswith(f"error: {message}"), ended.err
    assert ended.err.count("\n") == 1

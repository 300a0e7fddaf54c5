"""Tests of the analytical models in Python: values, broadcasting, threads and errors."""

import csv
import inspect
import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import model_stub
import numpy as np
import pytest
from pytest import approx

from catnip import InputError, models
from catnip.papers.check_values import check_value


def test_values_of_the_papers() -> None:
    assert models.Q_hat([0.03, 0.1], 10) == approx([0.39, 0.57], abs=0.005)  # hysteresis paper, Eq. 8
    assert models.evaluate("cubic", p=1e-4, RTT_s=0.1)["W_cubic"] == approx(187, abs=0.5)  # RFC 9438


def test_check_values() -> None:
    assert models.cardwell00(36, 0.1) == approx(6.59433, rel=1e-5)
    assert models.hysteresis(36, 0.01) == approx(2.00281, rel=1e-5)
    assert models.partial_catnip(36, 0.1, 0.01) == approx(6.67825, rel=1e-5)
    assert models.recursive_short_flow(36, 0.1) == approx(6.21596, rel=1e-5)
    assert models.wzk_new(22, 0.1, 0.033) == approx(5.4089, rel=1e-5)
    assert models.pftk_full(0.01) == approx(38.1619, rel=1e-5)
    assert models.E_dss(36, 0.01, plus_one=False) == approx(30.0551, rel=1e-5)
    assert models.W(0.01) == approx(12.1751, rel=1e-5)


def test_every_check_value_is_met_to_its_printed_digits() -> None:
    file = Path(__file__).parents[2] / "python/catnip/reference/model_check_values.csv"
    with file.open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == 497
    for row in rows:
        value = check_value(row["model"], row["params"], row["quantity"])
        assert value == approx(float(row["value"]), rel=1e-5, abs=0), row


@pytest.mark.parametrize("name", models.MODELS)
def test_functions_have_the_parameters_and_defaults_of_the_core(name: str) -> None:
    signature = inspect.signature(getattr(models, name)).parameters
    named = {"receive": 0, "send": 1, "fast_retransmit_when_possible": 1}
    for parameter in models.MODELS[name].parameters:
        if (name, parameter.name) == ("hysteresis_trace", "cycle"):
            continue
        default = signature[parameter.name].default
        assert (
            None if default is inspect.Parameter.empty else named.get(default, default)
        ) == parameter.default
    order = [parameter.name for parameter in models.MODELS[name].parameters if parameter.name != "cycle"]
    assert list(signature) == order


def test_numbers_give_a_float_and_arrays_broadcast() -> None:
    assert isinstance(models.cardwell00(36, 0.1), float)
    assert isinstance(models.cardwell00(np.int64(36), np.float32(0.125)), float)
    sizes, losses = np.array([[1], [6], [36]]), np.array([0.0, 0.01, 0.05, 0.1])
    table = models.cardwell00(sizes, losses)
    assert table.shape == (3, 4)
    for i, j in np.ndindex(3, 4):
        assert table[i, j] == models.cardwell00(sizes[i, 0], losses[j])
    assert models.cardwell00([], 0.1).shape == (0,)


def test_layout_of_the_memory_does_not_matter() -> None:
    losses = np.linspace(0, 0.2, 12).reshape(3, 4)
    assert (models.hysteresis(36, losses.T) == models.hysteresis(36, losses).T).all()
    assert (models.hysteresis(36, losses[:, ::2]) == models.hysteresis(36, losses)[:, ::2]).all()


def test_evaluate_gives_what_leads_to_the_result() -> None:
    parts = models.evaluate("cardwell00", N=[36, 143], p=0.03)
    sum_of_parts = parts["T_ss_s"] + parts["T_loss_s"] + parts["T_ca_s"] + 0.1
    assert parts["T_s"] == approx(sum_of_parts)
    assert [quantity.name for quantity in models.MODELS["cardwell00"].quantities] == list(parts)
    assert models.evaluate("cardwell00", N=36, p=0.1, rate="send")["T_s"] > 5


def test_rates_can_be_chosen() -> None:
    receive, send = models.cardwell00(143, 0.1), models.cardwell00(143, 0.1, rate="send")
    assert send < receive
    assert models.padhye_latency(36, 0.1, rate="receive") > models.padhye_latency(36, 0.1)


def test_threads_see_the_same_values() -> None:
    losses = np.linspace(0, 0.3, 20_000)
    alone = models.hysteresis(23, losses)
    with ThreadPoolExecutor(4) as pool:
        for together in pool.map(lambda _: models.hysteresis(23, losses), range(4)):
            assert (together == alone).all()


def test_a_million_values() -> None:
    losses = np.linspace(0, 0.999, 1_000_000)
    latencies = models.cardwell00(36, losses)
    assert latencies.shape == losses.shape
    assert (np.diff(latencies) > 0).all()
    assert latencies[500_000] == models.cardwell00(36, losses[500_000])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: models.cardwell00(36, -0.1), "cardwell00: p = -0.1: expected a probability, 0 <= p < 1"),
        (lambda: models.cardwell00(36, [0.1, 1.0]), "cardwell00: p = 1 at index 1: expected a probab"),
        (lambda: models.hysteresis([1, 0.5], 0.1), "hysteresis: N = 0.5 at index 1: expected a whole number"),
        (lambda: models.hysteresis(36, math.nan), "hysteresis: p = NaN: expected"),
        (lambda: models.hysteresis(36, 0.1, RTT_s=0), "hysteresis: RTT_s = 0: expected a positive"),
        (lambda: models.handshake(0.5), "handshake: pf = 0.5: expected a probability below 0.5"),
        (lambda: models.partial_catnip(36, 0.1, 0.2), "partial_catnip: p_high = 0.2: expected at most p"),
        (lambda: models.mathis("fast"), "mathis: p = 'fast': expected numbers"),
        (lambda: models.cardwell00([1, 2], [0.1] * 3), "cardwell00: N (2,), p (3,): expected shapes that"),
        (lambda: models.cardwell00(1, 0.1, rate="no"), "rate = 'no': expected one of receive, send, approx"),
        (lambda: models.evaluate("cardwell", N=1), "'cardwell': expected a model, one of f_p, "),
        (lambda: models.evaluate("W", p=0.1, q=1), "W: q: expected one of p, b"),
        (lambda: models.evaluate("W"), "W: p: expected a value, as there is no default"),
        (lambda: models.hysteresis_sampled(36, 0.1, T0_s=-1), "hysteresis: T0_s = -1: expected a positive"),
        (lambda: models.hysteresis_sampled(36, 0.1, samples=1), "hysteresis: samples = 1: expected a whole"),
        (lambda: models.wzk_chain_sampled(0, 0.1), "wzk_chain: data = 0: expected a whole number from 1"),
        (lambda: models.wzk_chain_sampled(1, 0.1, seed=-1), "wzk_chain: seed = -1: expected a whole"),
    ],
)  # fmt: skip
def test_bad_values_are_refused_in_one_line_with_the_parameter(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError) as error:
        call()
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


def test_the_refused_value_is_the_first_one_whatever_the_threads() -> None:
    losses = np.full(100_000, 0.1)
    losses[[30_000, 90_000]] = 2
    with pytest.raises(InputError, match="at index 30000"):
        models.cardwell00(36, losses)


def test_samples_have_the_exact_mean_and_repeat_themselves() -> None:
    for p_high in (None, 0.0):
        mean, error = models.hysteresis_sampled(36, 0.05, p_high=p_high, samples=50_000, seed=3)
        exact = models.hysteresis(36, 0.05) if p_high is None else models.partial_catnip(36, 0.05, p_high)
        assert abs(mean - exact) < 4 * error
        assert (mean, error) == models.hysteresis_sampled(36, 0.05, p_high=p_high, samples=50_000, seed=3)
        assert mean != models.hysteresis_sampled(36, 0.05, p_high=p_high, samples=50_000, seed=4)[0]
    mean, error = models.wzk_chain_sampled(8, 0.19, samples=50_000)
    assert abs(mean - models.wzk_chain(8, 0.19)) < 4 * error


def test_the_cycles_add_up() -> None:
    cycles = models.hysteresis_trace(36, 0.1)
    assert cycles["d"] == approx([36, 26.2028, 16.7720, 8.30941, 2.05935], rel=1e-5)
    total = models.evaluate("hysteresis", N=36, p=0.1)["T_fast_retransmit_when_possible_s"]
    assert (cycles["Tss_incl_delack_s"] + cycles["Tloss_s"]).sum() == approx(total)


def test_every_model_describes_itself() -> None:
    for name in models.MODELS:
        text = models.describe(name)
        assert text.startswith(f"{name}: ")
        assert "reference: " in text
        assert getattr(models, name).__doc__


def test_type_checkers_read_the_parameters_that_the_core_declares() -> None:
    assert model_stub.STUB.read_text(encoding="utf-8") == model_stub.text()
    with pytest.raises(TypeError, match="mathis: missing a required argument: 'p'"):
        models.mathis()  # type: ignore[call-arg]

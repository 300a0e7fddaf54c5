"""Analytical models of TCP: steady rates of long transfers and latencies of short ones.

Every function takes numbers or arrays, which broadcast as in NumPy, and returns a float or an array of their
common shape. The compiled core evaluates the models; this module contains no formulas. Arguments have the
symbols of the papers; times are in seconds and end in `_s`, windows and sizes are in full packets, rates in
packets per second. Values out of range raise InputError, one line with model, parameter, value and index.

Defaults are the setting of the hysteresis paper: RTT 0.2 s, first timeout 1 s, window 24, delayed ACKs (b =
2), initial window 1, expected delayed-ACK wait 0.1 s. A latency is the time from the first packet sent to the
ACK of the last, without the connection set-up; add `handshake`. Each transmission of a data packet is lost
independently with probability p.

Sources: the hysteresis paper ("An accurate stochastic model for short-lived TCP flows"); WZK (Wang, Zhang,
Keshav, "Understanding end-to-end performance"); PFTK (Padhye, Firoiu, Towsley, Kurose, 1998 and 2000);
Cardwell-98 and -00 (Cardwell, Savage, Anderson, 1998 note and INFOCOM 2000); Sikdar (Sikdar, Kalyanaraman,
Vastola, 2001 and 2003); Mathis (Mathis, Semke, Mahdavi, Ott, 1997); RFC 5348; RFC 9438. `describe` names the
source of each model.
"""

from __future__ import annotations  # keeps the annotations of signatures as text

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from catnip import _core
from catnip._core import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

Values: TypeAlias = Any
"""Result of a model: a float if all arguments are numbers, otherwise an array of float64."""

Floats: TypeAlias = "NDArray[np.float64]"
Rate: TypeAlias = Literal["receive", "send", "approx"]

MATHIS_C = math.sqrt(1.5)
"""Constant C of the model `mathis` for a receiver that sends one ACK per packet."""

_RATES: dict[str, float] = {"receive": 0, "send": 1, "approx": 2}


@dataclass(frozen=True)
class Parameter:
    """Input of a model; an input without a default is required."""

    name: str
    unit: str
    default: float | None
    meaning: str


@dataclass(frozen=True)
class Quantity:
    """Result of a model, with its symbol in the papers, unit and meaning."""

    name: str
    unit: str
    meaning: str


@dataclass(frozen=True)
class Model:
    """Name, source, parameters and results of a model; the first quantity is the main result."""

    name: str
    title: str
    reference: str
    gives: str
    parameters: tuple[Parameter, ...]
    quantities: tuple[Quantity, ...]


MODELS: dict[str, Model] = {
    name: Model(
        name,
        title,
        reference,
        gives,
        tuple(Parameter(*parameter) for parameter in parameters),
        tuple(Quantity(*quantity) for quantity in quantities),
    )
    for name, title, reference, gives, parameters, quantities in _core.models()
}
"""All models by name: first terms that several models share, then rates, then latencies."""

_ABOUT = {
    "f_p": "Back-off factor f(p) = 1 + p + 2p² + 4p³ + 8p⁴ + 16p⁵ + 32p⁶ (PFTK; hysteresis paper Eq. 10).",
    "E_ZTO": "Mean duration of a sequence of timeouts, T0 f(p)/(1-p), in seconds (hysteresis paper Eq. 9).",
    "Q_hat": """\
Probability that a loss in a window of w packets ends in a timeout.

PFTK; Cardwell-00 Eq. 17; hysteresis paper Eq. 8.

The probability is 1 for w <= 3, where three duplicate ACKs are impossible, and 3/w in the limit p = 0.
""",
    "Q_approx": "Short form min(1, 3 sqrt(3bp/8)) of `Q_hat` at the mean window (PFTK).",
    "W": """\
Mean window in packets at a loss in congestion avoidance, without a maximum window (PFTK).

The mean is infinite at p = 0.
""",
    "E_dss": """\
Packets sent in slow start before a loss, of d to be sent.

Cardwell-00 Eq. 5; hysteresis paper Eq. 3. `plus_one` counts the lost packet; the result is then at most d.
""",
    "E_Wss": "Window in packets after E packets of slow start without a maximum window (Cardwell-00 Eq. 11).",
    "E_Tss": """\
Time in seconds of E packets of slow start; rounds are real numbers.

Cardwell-00 Eq. 15; hysteresis paper Eq. 6.
""",
    "handshake": """\
Expected time in seconds of the connection set-up (Cardwell-00 Eq. 4).

pf is the loss probability towards the server, pr that of the reverse direction. From 0.5 on the mean
diverges, which is an error.
""",
    "mathis": """\
Rate C / (RTT sqrt(p)) in packets/s, at most Wmax/RTT (Mathis).

C = sqrt(3/2) with one ACK per packet, sqrt(3/4) with delayed ACKs. The model has no timeouts and is not
valid above a loss of 1 or 2 %.
""",
    "pftk_td_only": """\
PFTK rate in packets/s without timeouts and without a maximum window (PFTK).

The model is not valid where either matters.
""",
    "pftk_full": """\
PFTK send rate B(p) in packets/s (PFTK 1998 Eq. 31); for goodput use `pftk_throughput`.

The rate is discontinuous where W(p) = Wmax, for b other than 2.
""",
    "pftk_throughput": """\
PFTK receive rate T(p) in packets/s (PFTK 2000; R of Cardwell-00); discontinuous like `pftk_full`.
""",
    "pftk_approx": """\
PFTK send rate in packets/s, short form (PFTK 1998); much too low for p above about 20 %.
""",
    "tfrc_rfc5348": "Rate of TFRC in packets/s (RFC 5348 section 3.1): `pftk_approx` without its two bounds.",
    "cubic": """\
Average rate of CUBIC in packets/s, the Reno-friendly region included (RFC 9438 section 5).

The model has one loss in 1/p packets and no timeouts; it is not valid above a loss of 2 %.
""",
    "padhye_latency": """\
Latency N / rate + delayed ACK in seconds: a transfer at the steady rate.

The model has no slow start and is not valid for short flows.
""",
    "cardwell98": """\
Latency in seconds with slow starts that alternate with sequences of timeouts (Cardwell-98).

See also WZK section C.1. `use_Q` weights losses by Q_approx as WZK does; without it every loss is a
timeout. The model has neither a maximum window nor congestion avoidance and is not valid for long flows.
""",
    "cardwell00": """\
Latency in seconds of one slow start, one loss and the rest at the steady rate (Cardwell-00 Eq. 5-22).

The latency inherits the discontinuity of the rate where W(p) = Wmax, for b other than 2.
""",
    "sikdar_packets": """\
Packets of round n of slow start with delayed ACKs: 1, 2, 3, 4, 6, 9, … (hysteresis paper Eq. 1).
""",
    "sikdar_rounds": "Rounds of slow start with delayed ACKs for N packets.",
    "sikdar_grow": """\
Rounds for m packets after a loss, with linear growth from window h.

A term of `sikdar_threecase`; a reconstruction, too.
""",
    "sikdar_threecase": """\
Latency in seconds from the cases of no loss, one loss and several losses.

Reconstruction after Sikdar: do not present its numbers as the published model. Rounds are whole, so the
latency is not monotone in N and p.
""",
    "sikdar_empirical": """\
Latency in seconds by a fitted form after Sikdar, as later literature quotes it; a reconstruction.

The latency is far too low for long lossy flows (p >= 3 %, N >= 65) and falls as RTT grows where p is
large.
""",
    "hysteresis": """\
Exact mean latency in seconds of the hysteresis model (hysteresis paper Eq. 3-12).

The model is a chain of slow starts, each ended by a loss; the window carries over. The latency is too
high by some percent for long flows with a loss of 8 % or more. `evaluate` also returns the standard
deviation and the two deterministic bounds.
""",
    "partial_catnip": """\
Exact mean latency in seconds if the first and last three packets are lost with probability p_high.

Hysteresis paper, section 5; the window of its second step is a reconstruction.

The latency for p_high = p differs from `hysteresis`: each of the three steps has its own loss phase. Use
the model for differences between values of p_high.
""",
    "wzk_chain": """\
Expected time in seconds of the timeouts of a chain of packets (WZK Fig. 5).

The mean is exact; every loss is a timeout.
""",
    "wzk_new": """\
Time in seconds of a download with its set-up by the new model of WZK.

pl is the loss probability of either direction, delay_s the one-way delay. Every loss of data counts as a
timeout, so the model is not valid for long flows.
""",
    "model_c_low": """\
Time in seconds of a download by Model C of WZK (section C.1) with the loss of one direction; too low.

The form of the set-up is a reconstruction; it requires pl < 0.5.
""",
    "model_c_high": "Time of `model_c_low` with the probability that a packet or its ACK is lost; too high.",
    "recursive_short_flow": """\
Expected latency in seconds by recursion over the remaining packets, round by round.

Defined here, in the spirit of Mellia, Stoica, Zhang (2002); not their published model. The cost of
evaluation grows with N times the square of Wmax; b is a whole number.
""",
}


def describe(name: str) -> str:
    """Returns a text of several lines with the title, source, parameters and quantities of a model."""
    model = _model(name)
    lines = [f"{name}: {model.title}", f"reference: {model.reference}", "parameters:"]
    for parameter in model.parameters:
        default = "" if parameter.default is None else f", default {parameter.default:g}"
        unit = f" [{parameter.unit}]" if parameter.unit else ""
        lines.append(f"  {parameter.name}{unit}: {parameter.meaning}{default}")
    lines.append("quantities:")
    for quantity in model.quantities:
        unit = f" [{quantity.unit}]" if quantity.unit else ""
        lines.append(f"  {quantity.name}{unit}: {quantity.meaning}")
    return "\n".join(lines)


def evaluate(name: str, **parameters: ArrayLike) -> dict[str, Floats]:
    """Returns all quantities of a model, intermediate ones included, as arrays of the common shape.

    Flags are 0 or 1; `rate` is "receive", "send", "approx" or their codes 0, 1, 2.
    """
    model = _model(name)
    return _evaluate(model, _values_of(model, parameters))


def at(name: str, **parameters: float | str) -> dict[str, float]:
    """Returns all quantities of a model for one number per parameter, without loading NumPy."""
    return _core.evaluate_model_at(name, _values_of(_model(name), parameters))


def _values_of(model: Model, parameters: Mapping[str, Any]) -> list[Any]:
    """Returns a value for each parameter of a model: that in `parameters`, otherwise the default."""
    known = [parameter.name for parameter in model.parameters]
    for name in parameters:
        if name not in known:
            raise InputError(f"{model.name}: {name}: expected one of {', '.join(known)}")
    values: list[Any] = []
    for parameter in model.parameters:
        value = parameters.get(parameter.name, parameter.default)
        if value is None:
            raise InputError(f"{model.name}: {parameter.name}: expected a value, as there is no default")
        values.append(_rate(value) if parameter.name == "rate" and isinstance(value, str) else value)
    return values


def _model(name: str) -> Model:
    if name not in MODELS:
        raise InputError(f"{name!r}: expected a model, one of {', '.join(MODELS)}")
    return MODELS[name]


def _rate(name: str) -> float:
    if name not in _RATES:
        raise InputError(f"rate = {name!r}: expected one of {', '.join(_RATES)}")
    return _RATES[name]


def _floats(model: Model, parameter: Parameter, value: ArrayLike) -> Floats:
    import numpy as np  # noqa: PLC0415 -- slow to load; scalar calls do without

    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{model.name}: {parameter.name} = {value!r}: expected numbers") from None


def _evaluate(model: Model, values: list[ArrayLike]) -> dict[str, Floats]:
    import numpy as np  # noqa: PLC0415 -- as above

    arrays = [_floats(model, *pair) for pair in zip(model.parameters, values, strict=True)]
    try:
        arrays = list(np.broadcast_arrays(*arrays))
    except ValueError:
        shapes = (f"{p.name} {a.shape}" for p, a in zip(model.parameters, arrays, strict=True) if a.shape)
        raise InputError(f"{model.name}: {', '.join(shapes)}: expected shapes that broadcast") from None
    shape = arrays[0].shape
    columns = _core.evaluate_model(model.name, [np.ascontiguousarray(array).ravel() for array in arrays])
    return {name: column.reshape(shape) for name, column in columns.items()}


def _main(name: str, *values: Any) -> Values:
    model = MODELS[name]
    numbers = [float(value) for value in values if isinstance(value, int | float)]
    if len(numbers) == len(values):
        return _core.evaluate_model_at(name, numbers)[model.quantities[0].name]
    result = _evaluate(model, list(values))[model.quantities[0].name]
    return result if result.shape else float(result)


def _integer(model: str, name: str, value: float, low: int, high: int = 10_000_000) -> int:
    if not (low <= value <= high) or value != int(value):
        raise InputError(f"{model}: {name} = {value}: expected a whole number from {low} to {high}")
    return int(value)


def _seed(model: str, seed: int) -> int:
    return _integer(model, "seed", seed, 0, 2**64 - 1)


def _function(model: Model, about: str) -> Callable[..., Values]:
    """Creates the function of a model, with the model's parameters and defaults; `about` is its docstring."""
    names = {number: name for name, number in _RATES.items()}
    parameters = []
    for parameter in model.parameters:
        default: Any = inspect.Parameter.empty if parameter.default is None else parameter.default
        default = names[default] if parameter.name == "rate" else default
        parameters.append(
            inspect.Parameter(parameter.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)
        )
    signature = inspect.Signature(parameters)

    def function(*arguments: Any, **named: Any) -> Values:
        try:
            bound = signature.bind(*arguments, **named)
        except TypeError as error:
            raise TypeError(f"{model.name}: {error}") from None
        bound.apply_defaults()
        if "rate" in bound.arguments and isinstance(bound.arguments["rate"], str):
            bound.arguments["rate"] = _rate(bound.arguments["rate"])
        return _main(model.name, *bound.arguments.values())

    function.__name__ = function.__qualname__ = model.name
    function.__doc__ = about
    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


# The core declares the parameters and their defaults; tools/model_stub.py writes the stub for type checkers.
for _name, _text in _ABOUT.items():
    globals()[_name] = _function(MODELS[_name], _text)
if TYPE_CHECKING:
    from catnip._model_functions import *  # noqa: F403 -- the stub declares all functions of models


def hysteresis_trace(
    N: int,
    p: float,
    RTT_s: float = 0.2,
    T0_s: float = 1.0,
    Wmax: float = 24.0,
    b: float = 2.0,
    w1: float = 1.0,
    delack_s: float = 0.1,
    plus_one: bool = True,
    last_cycle_loss: bool = True,
    rule: Literal["all_rto", "fast_retransmit_when_possible"] = "fast_retransmit_when_possible",
) -> dict[str, Floats]:
    """Cycles of one transfer by the hysteresis model, with a deterministic rule instead of random draws.

    Each quantity is an array with one entry per cycle.
    """
    rules = ("all_rto", "fast_retransmit_when_possible")
    if rule not in rules:
        raise InputError(f"rule = {rule!r}: expected one of {', '.join(rules)}")
    setting: dict[str, ArrayLike] = {
        "N": N,
        "p": p,
        "RTT_s": RTT_s,
        "T0_s": T0_s,
        "Wmax": Wmax,
        "b": b,
        "w1": w1,
        "delack_s": delack_s,
        "plus_one": plus_one,
        "last_cycle_loss": last_cycle_loss,
    }
    cycles = int(evaluate("hysteresis", **setting)["cycles"])
    return evaluate("hysteresis_trace", **setting, rule=rules.index(rule), cycle=range(1, cycles + 1))


def hysteresis_sampled(
    N: int,
    p: float,
    RTT_s: float = 0.2,
    T0_s: float = 1.0,
    Wmax: float = 24.0,
    b: float = 2.0,
    w1: float = 1.0,
    delack_s: float = 0.1,
    *,
    p_high: float | None = None,
    samples: int = 1000,
    seed: int = 1,
) -> tuple[float, float]:
    """Mean of sampled latencies and its standard error, in seconds, by the method of the hysteresis paper.

    Equal seeds give equal samples. `p_high` selects partial CATNIP. `hysteresis` and `partial_catnip` compute
    the exact mean, faster.
    """
    name = "hysteresis" if p_high is None else "partial_catnip"
    N, samples, seed = _integer(name, "N", N, 1), _integer(name, "samples", samples, 2), _seed(name, seed)
    draws = _core.hysteresis_samples(
        N, p, p_high, RTT_s, T0_s, Wmax, b, w1, delack_s, count=samples, seed=seed
    )
    return float(draws.mean()), float(draws.std(ddof=1) / math.sqrt(samples))


def wzk_chain_sampled(
    data: int,
    p: float,
    IT0_s: float = 0.2,
    r0_s: float = 3.0,
    clamp_s: float = 120.0,
    *,
    samples: int = 1000,
    seed: int = 1,
) -> tuple[float, float]:
    """Mean time in timeouts and its standard error, in seconds, from sampled chains, by the method of WZK.

    The variance is large; `wzk_chain` is exact.
    """
    name = "wzk_chain"
    data, samples, seed = (
        _integer(name, "data", data, 1),
        _integer(name, "samples", samples, 2),
        _seed(name, seed),
    )
    draws = _core.wzk_chain_samples(data, p, IT0_s, r0_s, clamp_s, count=samples, seed=seed)
    return float(draws.mean()), float(draws.std(ddof=1) / math.sqrt(samples))

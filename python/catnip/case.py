"""One transfer as people describe it (32 KB, 5 % loss, 200 ms): by every model, and simulated."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from catnip import _core, models, stats
from catnip._core import InputError, Scenario
from catnip.measures import Floats
from catnip.stats import Interval

PACKETS_AT_MOST = 100_000


@dataclass(frozen=True)
class Case:
    """A transfer and its path; the defaults are the hysteresis paper's."""

    packets: int
    p: float
    p_high: float = 0.0
    rtt_s: float = 0.2
    t0_s: float = 1.0
    first_timeout_s: float = 3.0
    w_max: int = 24
    b: int = 2
    w1: int = 1
    delack_s: float = 0.1
    mss_bytes: int = 1433


@dataclass(frozen=True)
class Latency:
    """A model of transfer times in the table of all models."""

    name: str
    label: str
    trust: str
    marks: bool = False
    """It is the time with the first and last three packets marked."""
    set_up: bool = False
    """It includes the set-up of the connection and a request, and loses packets of both directions."""


LATENCIES = (
    Latency("hysteresis", "hysteresis", "12 packets and more; above 5 % loss high for long ones"),
    Latency("cardwell00", "Cardwell-00", "50 packets and more; low for fewer"),
    Latency("recursive_short_flow", "recursive, by rounds", "short transfers with few losses"),
    Latency("sikdar_threecase", "Sikdar, three cases", "up to 3 % loss; its cases are a reconstruction"),
    Latency("sikdar_empirical", "Sikdar, fitted", "short transfers; far too low for long lossy ones"),
    Latency("cardwell98", "Cardwell-98", "short transfers with few losses"),
    Latency("padhye_latency", "Padhye (PFTK)", "long transfers: it knows no slow start"),
    Latency("partial_catnip", "Partial CATNIP", "short transfers whose ends are marked", marks=True),
    Latency("wzk_new", "Wang-Zhang-Keshav", "short downloads on old Linux, losses below 10 %", set_up=True),
    Latency("model_c_low", "Model C, low", "the same, older; only data is lost", set_up=True),
    Latency("model_c_high", "Model C, high", "the same, older; data or its ACK is lost", set_up=True),
)

RATES = (
    ("pftk_throughput", "PFTK, receive rate", "goodput of long transfers"),
    ("pftk_full", "PFTK, send rate", "what long transfers put on the wire"),
    ("pftk_approx", "PFTK, approximation", "the same in one line"),
    ("pftk_td_only", "PFTK without timeouts", "large windows only"),
    ("mathis", "Mathis", "rare losses, no timeouts"),
    ("tfrc_rfc5348", "TFRC (RFC 5348)", "the rate that a TCP-friendly flow may take"),
    ("cubic", "CUBIC (RFC 9438)", "losses up to 2 %, no timeouts"),
)


def latency(model: Latency, case: Case) -> float:
    """What a model says, seconds; NaN where it is not defined (the set-up beyond 50 % loss)."""
    return float(latencies(model, case, {})[()])


def latencies(model: Latency, case: Case, varied: Mapping[str, Any]) -> Floats:
    """The same over arrays: `varied` replaces fields of the case, packets, p or rtt_s."""
    symbols = _symbols(case, varied)
    if model.set_up and np.max(symbols["pl"]) >= 0.5:
        return np.full(np.broadcast(*symbols.values()).shape, math.nan)
    return next(iter(_evaluate(model.name, symbols).values()))


def rate(name: str, case: Case) -> float:
    """What a steady-state model says, packets per second; infinite where nothing limits it."""
    if case.p == 0 and name in ("pftk_td_only", "tfrc_rfc5348"):
        return math.inf
    symbols = _symbols(case, {})
    if name == "mathis":
        symbols["C"] = math.sqrt(1.5 / case.b)
    return float(_evaluate(name, symbols)["rate_pps"])


def _evaluate(name: str, symbols: Mapping[str, Any]) -> dict[str, Floats]:
    """Gives a model those of the symbols that it knows."""
    own = {p.name: symbols[p.name] for p in models.MODELS[name].parameters if p.name in symbols}
    return models.evaluate(name, **own)


def _symbols(case: Case, varied: Mapping[str, Any]) -> dict[str, Any]:
    """The case in the symbols of the papers."""
    n, p, rtt_s = (varied.get(key, getattr(case, key)) for key in ("packets", "p", "rtt_s"))
    return {
        "N": n,
        "data": n,
        "p": p,
        "pl": p,
        "p_high": np.minimum(case.p_high, p),
        "RTT_s": rtt_s,
        "delay_s": np.asarray(rtt_s) / 2,
        "T0_s": case.t0_s,
        "t_RTO_s": case.t0_s,
        "Ts_s": case.first_timeout_s,
        "Wmax": case.w_max,
        "b": case.b,
        "w1": case.w1,
        "delack_s": case.delack_s,
    }


def simulated(case: Case, marks: bool, trials: int, seed: int) -> Interval:
    """The mean of simulated transfers, seconds: Reno, or Reno that marks the first and last three packets."""
    scenario = Scenario.parse("case.toml", scenario_text(case, marks, trials))
    rows = scenario.run(scenario.variants, list(range(seed, seed + trials)), ["connections"])["connections"]
    return stats.mean(np.asarray(rows["acked_s"]) - np.asarray(rows["start_s"]))


def scenario_text(case: Case, marks: bool, trials: int) -> str:
    """The case as a scenario file."""
    # A fast path: nothing waits, and a packet takes no time worth mention.
    rate_mbit = max(100.0, 100 * case.w_max * case.mss_bytes * 8 / case.rtt_s / 1e6)
    delayed = "true" if case.b > 1 else "false"
    return f"""
id = "CASE"
title = "One transfer"
seeds = {trials}
[node]
server = {{ kind = "host" }}
client = {{ kind = "host" }}
[link.path]
from = "server"
to = "client"
rate = "{rate_mbit:.0f}Mbit"
delay = "{case.rtt_s / 2 * 1e9:.0f}ns"
queue = "drop-tail:{case.w_max + 100}"
there.loss = "priority:high={case.p_high},low={case.p}"
[tcp]
profile = "bsd-reno"
segment = "{case.mss_bytes}B"
window_segments = {case.w_max}
initial_window_segments = {min(case.w1, case.w_max)}
delayed_ack = {delayed}
rto_min = "{case.t0_s * 1e9:.0f}ns"
rto_first = "{case.first_timeout_s * 1e9:.0f}ns"
marker = "{"spm:small_window=0" if marks else "none"}"
[traffic.document]
kind = "bulk"
from = "server"
to = "client"
packets = {case.packets}
"""


def of_flow(flow: Mapping[str, Any]) -> Case:
    """The case that a scenario's single transfer is (`Scenario.single_flow`)."""
    keys = ("packets", "p", "p_high", "rtt_s", "t0_s", "w_max", "b", "w1", "delack_s")
    return Case(**{key: flow[key] for key in keys})


def predictions(flow: Mapping[str, Any]) -> dict[str, float]:
    """What the models that match a scenario's single transfer say of it, by label, seconds."""
    case = of_flow(flow)
    matching = {"none": ("hysteresis", "cardwell00"), "ends": ("partial_catnip",), "other": ()}[
        flow["marking"]
    ]
    set_up_s = 0.0
    if flow["handshake_s"] is not None:
        if case.p >= 0.5:
            return {}
        set_up_s = float(models.handshake(0.0, case.p, RTT_s=case.rtt_s, Ts_s=flow["handshake_s"]))
    return {model.label: latency(model, case) + set_up_s for model in LATENCIES if model.name in matching}


def probability(text: str) -> float:
    """`5%` or `0.05` as a number. Raises InputError."""
    match = re.fullmatch(r"\s*([0-9.eE+-]+)\s*(%?)\s*", text)
    try:
        value = float(match[1]) / (100 if match[2] else 1) if match else math.nan
    except ValueError:
        value = math.nan
    if not 0 <= value < 1:
        raise InputError(f"{text!r}: expected a probability below 1, such as 5% or 0.05")
    return value


def spread(first: float, last: float, count: int, whole: bool) -> Floats:
    """Values from first to last, evenly apart; whole ones without repetition."""
    values = np.linspace(first, last, count)
    return np.unique(np.round(values)) if whole else values


def with_value(case: Case, key: str, value: float) -> Case:
    """The case with one field changed."""
    changes: dict[str, Any] = {key: int(value) if key == "packets" else float(value)}
    return replace(case, **changes)


def packets_of(size: str, mss_bytes: int) -> int:
    """How many segments a size such as 32KB takes. Raises InputError."""
    packets = math.ceil(_core.bytes(size) / mss_bytes)
    if not 1 <= packets <= PACKETS_AT_MOST:
        raise InputError(f"{size!r}: {packets} packets; expected 1 to {PACKETS_AT_MOST}")
    return packets


def bounds(text: str, reads: Any) -> Sequence[float]:
    """The two ends of `FROM:TO`, ascending. Raises InputError."""
    first, colon, last = text.partition(":")
    if not colon:
        raise InputError(f"{text!r}: expected two values, FROM:TO")
    low, high = reads(first), reads(last)
    if not low < high:
        raise InputError(f"{text!r}: expected the lower value first")
    return low, high

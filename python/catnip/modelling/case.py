"""Time of one transfer with a given size, loss and path: predicted by every model, and simulated."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from catnip import _core, models
from catnip._core import InputError, Scenario
from catnip.analysis.interval import Interval

if TYPE_CHECKING:
    from catnip.analysis.measures import Floats

MAX_PACKETS = 100_000
REQUEST_BYTES = 40
"""Size of the HTTP request of a simulated download, bytes."""

Simulated: TypeAlias = Literal["reno", "partial_catnip", "download", "cubic"]
"""Kind of simulated transfer: Reno; Reno that marks the first and last three packets; a download from a Linux
server as old as the models of downloads, over a path with loss in both directions; CUBIC."""
SimulatedRate: TypeAlias = Literal["goodput", "sent", "cubic"]
"""Kind of simulated rate, packets per second: goodput of long transfers of Reno; their send rate,
retransmissions included; goodput of CUBIC."""


@dataclass(frozen=True)
class Case:
    """Transfer with its size, loss and path; the defaults are the settings of the hysteresis paper."""

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
    """Model of transfer times that is compared with simulations: an entry of `models.MODELS` with options."""

    name: str
    label: str
    note: str = ""
    """Remark printed beside the accuracy of the model."""
    rate: str = ""
    """Formula of the steady rate, for a model that accepts several; empty for the model's default."""
    simulated: Simulated = "reno"
    """Kind of simulated transfer with which the model is compared."""

    @property
    def key(self) -> str:
        """Name of the model in JSON and in accuracy.csv."""
        return f"{self.name}_{self.rate}" if self.rate else self.name


@dataclass(frozen=True)
class Rate:
    """Model of steady rates that is compared with simulations: an entry of `models.MODELS`."""

    name: str
    label: str
    note: str = ""
    simulated: SimulatedRate = "goodput"
    """Kind of simulated rate with which the model is compared."""

    @property
    def key(self) -> str:
        """Name of the model in JSON and in accuracy.csv."""
        return self.name


RECONSTRUCTION = "a reconstruction"
WITH_SET_UP = "with set-up"
PFTK_TIME = Latency("padhye_latency", "PFTK, receive rate", rate="receive")
LATENCIES = (
    Latency("hysteresis", "hysteresis"),
    Latency("cardwell00", "Cardwell-00"),
    Latency("recursive_short_flow", "recursive, by rounds"),
    Latency("sikdar_threecase", "Sikdar, three cases", RECONSTRUCTION),
    Latency("sikdar_empirical", "Sikdar, fitted", RECONSTRUCTION),
    Latency("cardwell98", "Cardwell-98"),
    Latency("padhye_latency", "PFTK, send rate"),
    PFTK_TIME,
    Latency("partial_catnip", "Partial CATNIP", simulated="partial_catnip"),
    Latency("wzk_new", "Wang-Zhang-Keshav", WITH_SET_UP, simulated="download"),
    Latency("model_c_low", "Model C, low", WITH_SET_UP, simulated="download"),
    Latency("model_c_high", "Model C, high", WITH_SET_UP, simulated="download"),
)

RATES = (
    Rate("pftk_throughput", "PFTK, receive rate"),
    Rate("pftk_full", "PFTK, send rate", "sent packets", simulated="sent"),
    Rate("pftk_approx", "PFTK, approximation", "sent packets", simulated="sent"),
    Rate("pftk_td_only", "PFTK without timeouts", "sent packets", simulated="sent"),
    Rate("mathis", "Mathis"),
    Rate("tfrc_rfc5348", "TFRC (RFC 5348)", "sent packets", simulated="sent"),
    Rate("cubic", "CUBIC (RFC 9438)", simulated="cubic"),
)

STEADY_PACKETS = 2000
"""Number of packets from which on the transfer time is about the number of packets over the steady rate."""


def latency(model: Latency, case: Case) -> float:
    """Returns a model's transfer time, s; NaN for downloads at 50 % loss or more, which have no mean."""
    if model.simulated == "download" and case.p >= 0.5:
        return math.nan
    at = vars(case) | {"p_high": min(case.p_high, case.p), "rate": model.rate}
    values = models.at(model.name, **_symbols(model.name, at))
    return values[models.MODELS[model.name].quantities[0].name]


def latencies(model: Latency, case: Case, varied: Mapping[str, Any]) -> "Floats":
    """Returns a model's transfer times, s, for arrays of packets, p or rtt_s (`varied`) in the case."""
    import numpy as np  # noqa: PLC0415 -- slow to load; scalar calls do without

    at = vars(case) | {"rate": model.rate} | dict(varied)
    at["p_high"] = np.minimum(case.p_high, at["p"])
    symbols = _symbols(model.name, at)
    if model.simulated == "download" and np.max(at["p"]) >= 0.5:
        return np.full(np.broadcast(*symbols.values()).shape, math.nan)
    return next(iter(models.evaluate(model.name, **symbols).values()))


def rate(name: str, case: Case) -> float:
    """Returns a steady-state model's rate for a case, packets per second; infinite without a limit."""
    if case.p == 0 and name in ("pftk_td_only", "tfrc_rfc5348"):
        return math.inf
    symbols = _symbols(name, vars(case))
    if name == "mathis":
        symbols["C"] = math.sqrt(1.5 / case.b)
    return models.at(name, **symbols)["rate_pps"]


def _symbols(name: str, at: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the parameters of a model, under the papers' symbols, from the fields `at` of a case."""
    symbols = {
        "N": at["packets"],
        "data": at["packets"],
        "p": at["p"],
        "pl": at["p"],
        "p_high": at["p_high"],
        "RTT_s": at["rtt_s"],
        "delay_s": at["rtt_s"] / 2,
        "T0_s": at["t0_s"],
        "t_RTO_s": at["t0_s"],
        "Ts_s": at["first_timeout_s"],
        "Wmax": at["w_max"],
        "b": at["b"],
        "w1": at["w1"],
        "delack_s": at["delack_s"],
    }
    if at.get("rate"):
        symbols["rate"] = at["rate"]
    known = (parameter.name for parameter in models.MODELS[name].parameters)
    return {symbol: symbols[symbol] for symbol in known if symbol in symbols}


def simulated(case: Case, kind: Simulated, trials: int, seed: int) -> Interval:
    """Returns the mean time of simulated transfers of a case, s.

    The time ends with the ACK of the last packet or, for downloads, with the arrival of all data.
    """
    from catnip.analysis import stats  # noqa: PLC0415 -- as above

    rows = _transfers(case, kind, trials, seed)
    return stats.mean(rows["received_s" if kind == "download" else "acked_s"] - rows["start_s"])


def simulated_rates(case: Case, trials: int, seed: int) -> dict[SimulatedRate, Interval]:
    """Returns the mean rates of simulated transfers, each over its whole duration, packets per second."""
    from catnip.analysis import stats  # noqa: PLC0415 -- as above

    reno, cubic = (_transfers(case, kind, trials, seed) for kind in ("reno", "cubic"))
    return {
        "goodput": stats.mean(case.packets / (reno["acked_s"] - reno["start_s"])),
        "sent": stats.mean(reno["sent"] / (reno["acked_s"] - reno["start_s"])),
        "cubic": stats.mean(case.packets / (cubic["acked_s"] - cubic["start_s"])),
    }


def _transfers(case: Case, kind: Simulated, trials: int, seed: int) -> "dict[str, Floats]":
    """Simulates transfers of a case and returns columns of the table `connections`, a row per trial."""
    import numpy as np  # noqa: PLC0415 -- as above

    scenario = Scenario.parse("case.toml", scenario_text(case, kind, trials))
    rows = scenario.run(scenario.variants, list(range(seed, seed + trials)), ["connections"])["connections"]
    return {key: np.asarray(rows[key], float) for key in ("start_s", "received_s", "acked_s", "sent")}


def scenario_text(case: Case, kind: Simulated, trials: int) -> str:
    """Returns the text of a scenario file that simulates a case."""
    # The rate is so high that there is no queueing and the transmission time is negligible.
    rate_mbit = max(100.0, 100 * case.w_max * case.mss_bytes * 8 / case.rtt_s / 1e6)
    delayed = "true" if case.b > 1 else "false"
    downloads = kind == "download"
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
{"loss" if downloads else "there.loss"} = "priority:high={case.p_high},low={case.p}"
[tcp]
profile = "{"linux-2.0" if downloads else "bsd-reno"}"
control = "{"cubic" if kind == "cubic" else "reno"}"
segment = "{case.mss_bytes}B"
window_segments = {case.w_max}
initial_window_segments = {min(case.w1, case.w_max)}
delayed_ack = {delayed}
rto_min = "{case.t0_s * 1e9:.0f}ns"
rto_first = "{case.first_timeout_s * 1e9:.0f}ns"
marker = "{"spm:small_window=0" if kind == "partial_catnip" else "none"}"
[traffic.document]
{_download(case) if downloads else _transfer(case)}
"""


def _transfer(case: Case) -> str:
    return f"""kind = "bulk"
from = "server"
to = "client"
packets = {case.packets}"""


def _download(case: Case) -> str:
    return f"""kind = "ftp"
from = "server"
to = "client"
files = 1
bytes = {{ distribution = "constant", value = {case.packets * case.mss_bytes} }}
gap_s = {{ distribution = "constant", value = 0 }}
request_bytes = {REQUEST_BYTES}"""


def of_flow(flow: Mapping[str, Any]) -> Case:
    """Returns the case that describes a scenario's single transfer (`Scenario.single_flow`)."""
    keys = ("packets", "p", "p_high", "rtt_s", "t0_s", "first_timeout_s", "w_max", "b", "w1", "delack_s")
    return Case(**{key: flow[key] for key in keys})


def matching(flow: Mapping[str, Any]) -> list[Latency]:
    """Returns the models that apply to a `Scenario.single_flow`, by its marking, loss and size."""
    of_marking = {"none": ("hysteresis", "cardwell00"), "ends": ("partial_catnip",), "other": ()}
    if flow["handshake_s"] is not None and flow["p"] >= 0.5:
        return []  # the set-up time has no mean
    found = [model for model in LATENCIES if model.name in of_marking[flow["marking"]]]
    steady = flow["marking"] == "none" and flow["packets"] >= STEADY_PACKETS
    return [*found, PFTK_TIME] if steady else found


def prediction(model: Latency, flow: Mapping[str, Any]) -> float:
    """Returns the time of a `Scenario.single_flow` by a matching model, including the handshake if any, s."""
    case, first_timeout_s = of_flow(flow), flow["handshake_s"]
    set_up_s = models.handshake(0.0, case.p, RTT_s=case.rtt_s, Ts_s=first_timeout_s) if first_timeout_s else 0
    return latency(model, case) + float(set_up_s)


def probability(text: str) -> float:
    """Parses a probability: `5%` or `0.05`. Raises InputError."""
    match = re.fullmatch(r"\s*([0-9.eE+-]+)\s*(%?)\s*", text)
    try:
        value = float(match[1]) / (100 if match[2] else 1) if match else math.nan
    except ValueError:
        value = math.nan
    if not 0 <= value < 1:
        raise InputError(f"{text!r}: expected a probability below 1, such as 5% or 0.05")
    return value


def spread(first: float, last: float, count: int, is_integer: bool) -> "Floats":
    """Returns `count` evenly spaced values; with `is_integer`, they are rounded and without duplicates."""
    import numpy as np  # noqa: PLC0415 -- as above

    values = np.linspace(first, last, count)
    return np.unique(np.round(values)) if is_integer else values


def with_value(case: Case, key: str, value: float) -> Case:
    """Returns the case with `value` in the field `key`."""
    changes: dict[str, Any] = {key: int(value) if key == "packets" else float(value)}
    return replace(case, **changes)


def packets_of(size: str, mss_bytes: int) -> int:
    """Returns the number of segments of a size with a unit, such as 32KB. Raises InputError."""
    packets = math.ceil(_core.bytes(size) / mss_bytes)
    if not 1 <= packets <= MAX_PACKETS:
        raise InputError(f"{size!r}: {packets} packets; expected 1 to {MAX_PACKETS}")
    return packets


def bounds(text: str, reads: Any) -> Sequence[float]:
    """Parses `FROM:TO` with the function `reads` for both values, which must ascend. Raises InputError."""
    first, colon, last = text.partition(":")
    if not colon:
        raise InputError(f"{text!r}: expected two values, FROM:TO")
    low, high = reads(first), reads(last)
    if not low < high:
        raise InputError(f"{text!r}: expected the lower value first")
    return low, high

"""Recordings of network paths in the formats of other tools, as path files for `path` of a link.

A path file refers to traces beside it: lines with a time (s) and a rate (Mbit/s), a delay (ms) or a loss
probability, or files that the link plays as they are. `there` is up, from the client, and `back` is down.
"""

import csv
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from catnip._core import InputError
from catnip.base import files

STEP_S = 1e-6
"""Time in which a value of a file changes at once: delays of files are interpolated."""
LOSS_WINDOW_S = 1.0
"""Time over which lost probes are counted as a loss probability."""
OPPORTUNITY_BYTES = 1504
"""Bytes of an opportunity of mahimahi."""
MAX_BYTES = 1 << 30
LEO_LOSS = {"there": 0.002, "back": 0.0001}
"""Loss probabilities of LeoReplayer's recordings, which have none of their own (LeoCC, SIGCOMM 2025)."""

Rows = list[tuple[float, float]]


@dataclass
class Direction:
    """Recording of one direction."""

    rates: Rows = field(default_factory=list)
    """Times (s) and rates (Mbit/s) from then on; the last one is the end of the recording."""
    delays: Rows = field(default_factory=list)
    """Times (s) and delays (ms), interpolated in between; the last one is the end of the recording."""
    losses: Rows = field(default_factory=list)
    """Times (s) and loss probabilities from then on; the last one is the end of the recording."""
    keys: dict[str, str] = field(default_factory=dict)
    """Keys of the wire with values of their own, in which {NAME} stands for the name of a file."""
    files: dict[str, str] = field(default_factory=dict)
    """Texts of files by name."""


@dataclass
class RecordedPath:
    """Recording of both directions."""

    there: Direction
    back: Direction
    source: str


def read(form: str, inputs: Sequence[Path]) -> RecordedPath:
    """Reads a recording of this form, a key of `FORMS`.

    Raises InputError if the files are not of this form.
    """
    names, _, reader = FORMS[form]
    if len(inputs) != len(names):
        raise InputError(f"{form}: expected {' '.join(names)}, not {len(inputs)} files")
    there, back = reader(*inputs)
    return RecordedPath(there, back, f"{form}: {', '.join(file.name for file in inputs)}")


def write(path: RecordedPath, to: Path, *, opportunities: bool = False) -> list[Path]:
    """Writes a path file and the traces that it names, beside it; returns all of them, the path file last.

    With `opportunities`, rates become transmission opportunities in the format of mahimahi.
    """
    lines, written = [f"# From {path.source}"], []

    def add(name: str, text: str) -> str:
        file = to.with_name(f"{to.stem}-{name}")
        files.write(file, text)
        written.append(file)
        return file.name

    for table, way in (("there", path.there), ("back", path.back)):
        lines.append(f"\n[{table}]")
        placed = {name: add(f"{table}-{name}", text) for name, text in way.files.items()}
        lines += [f"{key} = {json.dumps(_placed(value, placed))}" for key, value in way.keys.items()]
        if way.rates and opportunities:
            name = add(f"{table}-rate.trace", _opportunities(way.rates))
            lines.append(f'rate = "trace:{name}"')
        elif way.rates:
            lines.append(f'rate = "trace:{add(f"{table}-rate.txt", _text(_whole(way.rates)))}"')
        if way.delays:
            lines.append(f'delay = "trace:{add(f"{table}-delay.txt", _text(_whole(way.delays)))}"')
        if way.losses and any(share > 0 for _, share in way.losses):
            lines.append(f'loss = "trace:{add(f"{table}-loss.txt", _text(_whole(way.losses)))}"')
    files.write(to, "\n".join(lines) + "\n")
    return [*written, to]


def _placed(value: str, names: Mapping[str, str]) -> str:
    """Returns a value in which {NAME} is replaced by the name of the file that was written."""
    return re.sub(r"\{([^}]+)\}", lambda match: names[match[1]], value)


def _whole(rows: Rows) -> Rows:
    """Returns rows whose last value ends with the recording: it lasts as long as the one before it."""
    *values, (end_s, _) = rows
    last_s, value = values[-1]
    middle_s = (last_s + end_s) / 2
    return [*values, (middle_s, value)]


def _text(rows: Rows) -> str:
    return "".join(f"{at_s:.9g} {value:.9g}\n" for at_s, value in rows)


def _opportunities(rates: Rows) -> str:
    """Returns the times (ms) at which 1504 bytes have become possible, and the end of the recording."""
    times_ms: list[int] = []
    bits = 0.0
    whole = OPPORTUNITY_BYTES * 8
    for (from_s, mbit_per_s), (end_s, _) in itertools.pairwise(rates):
        before, bits = bits, bits + (end_s - from_s) * mbit_per_s * 1e6
        count, bits = divmod(bits + 1e-6, whole)
        for number in range(1, int(count) + 1):
            at_s = from_s + (number * whole - before) / (mbit_per_s * 1e6)
            times_ms.append(math.ceil(at_s * 1000 - 1e-6))
    if not times_ms:
        raise InputError("no opportunity: the recording has less than 1504 bytes")
    return "".join(f"{at}\n" for at in times_ms)


def _file_text(file: Path) -> str:
    try:
        if file.stat().st_size > MAX_BYTES:
            raise InputError(f"{file}: above a gigabyte")
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{file}: no text") from None
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}") from None


def _json(file: Path) -> Any:
    try:
        return json.loads(_file_text(file))
    except json.JSONDecodeError as error:
        raise InputError(f"{file}: line {error.lineno}: no JSON: {error.msg}") from None
    except RecursionError:
        raise InputError(f"{file}: no JSON of a recording") from None


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    """Yields the numbers and texts of the lines that have more than a comment."""
    for number, line in enumerate(_file_text(file).splitlines(), 1):
        if line := line.partition("#")[0].strip():
            yield number, line


def _number(text: object, location: str, unit: str, minimum: float = 0.0) -> float:
    try:
        number = float(text)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if isinstance(text, bool) or not math.isfinite(number) or number < minimum:
        raise InputError(f"{location}: {text!r}: expected {unit}")
    return number


def _mahimahi(file: Path) -> tuple[Direction, Direction]:
    """Reads opportunities of mahimahi, as the mean rates of each second."""
    times_ms = [_number(line, f"{file}: line {number}", "milliseconds") for number, line in _lines(file)]
    if not times_ms or times_ms[-1] <= 0 or times_ms != sorted(times_ms):
        raise InputError(f"{file}: expected milliseconds that do not decrease, with an end above zero")
    counts = Counter(max(0, math.ceil(at / 1000) - 1) for at in times_ms)
    end_s = times_ms[-1] / 1000
    rates: Rows = []
    for second in range(math.ceil(end_s)):
        length_s = min(1.0, end_s - second)
        rates.append((float(second), counts[second] * OPPORTUNITY_BYTES * 8 / length_s / 1e6))
    rates.append((end_s, 0.0))
    return Direction(rates=rates), Direction(rates=rates)


def _abr(file: Path) -> tuple[Direction, Direction]:
    """Reads a trace for adaptive video: lines with a time and a rate, or a list in JSON as Sabre has it."""
    if file.suffix != ".json":
        rates: Rows = []
        for number, line in _lines(file):
            fields = re.split(r"[\s,;]+", line)
            if len(fields) != 2:
                raise InputError(f"{file}: line {number}: {line!r}: expected seconds and Mbit/s")
            pair = [_number(one, f"{file}: line {number}", "seconds and Mbit/s") for one in fields]
            rates.append((pair[0], pair[1]))
        return Direction(rates=_ended(file, rates)), Direction(rates=_ended(file, rates))
    rates, delays, at_s = [], [], 0.0
    for number, entry in enumerate(_list(_json(file), f"{file}")):
        place = f"{file}: entry {number}"
        if not isinstance(entry, Mapping):
            raise InputError(f"{place}: expected duration_ms and bandwidth_kbps")
        length_ms = _number(entry.get("duration_ms"), place, "duration_ms", 1e-3)
        rates.append((at_s, _number(entry.get("bandwidth_kbps"), place, "bandwidth_kbps") / 1e3))
        if "latency_ms" in entry:
            delays.append((at_s, _number(entry["latency_ms"], place, "latency_ms") / 2))
        at_s += length_ms / 1e3
    if delays and len(delays) != len(rates):
        raise InputError(f"{file}: latency_ms in some entries only")
    both = [Direction(rates=[*rates, (at_s, 0.0)], delays=_stepped(delays, at_s)) for _ in range(2)]
    return both[0], both[1]


def _list(value: Any, place: str) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise InputError(f"{place}: expected a list with entries")
    return value


def _ended(file: Path, rows: Rows) -> Rows:
    """Adds the end to rows whose last value lasts as long as the one before it."""
    times = [at for at, _ in rows]
    if len(rows) < 2 or any(after <= before for before, after in itertools.pairwise(times)):
        raise InputError(f"{file}: expected at least two lines with times that increase")
    first_s = times[0]
    end_s = 2 * times[-1] - times[-2] - first_s
    return [*((at - first_s, value) for at, value in rows), (end_s, 0.0)]


def _stepped(rows: Rows, end_s: float) -> Rows:
    """Returns the rows of a delay that stays until the next one, up to `end_s`."""
    if not rows:
        return []
    ends = [*(at for at, _ in rows[1:]), end_s]
    both = (((at, value), (end - STEP_S, value)) for (at, value), end in zip(rows, ends, strict=True))
    return [*itertools.chain.from_iterable(both), (end_s, 0.0)]


def _leo(bandwidth: Path, delay: Path) -> tuple[Direction, Direction]:
    """Reads a pair of LeoReplayer: opportunities as of mahimahi, and a delay (ms) for each 10 ms."""
    _mahimahi(bandwidth)
    for number, line in _lines(delay):
        _number(line, f"{delay}: line {number}", "milliseconds")
    texts = {"rate.trace": _file_text(bandwidth), "delay.txt": _file_text(delay)}

    def way(name: str) -> Direction:
        keys = {
            "rate": "trace:{rate.trace}",
            "delay": "trace:{delay.txt},step=10ms",
            "loss": f"bernoulli:{LEO_LOSS[name]:g}",
        }
        return Direction(keys=keys, files=dict(texts))

    return way("there"), way("back")


def _cellreplay(folder: Path) -> tuple[Direction, Direction]:
    """Reads a folder of CellReplay: trains and opportunities of both directions, and offsets by length."""

    def way(name: str) -> Direction:
        texts = {
            "light.txt": _file_text(folder / f"{name}-delay-light-pdo"),
            "heavy.txt": _file_text(folder / f"{name}-heavy-pdo"),
        }
        options = "heavy={heavy.txt},bytes=1500"
        if (offsets := folder / f"latency-offset-{name}").exists():
            texts["offsets.txt"] = _file_text(offsets)
            options += ",size_offsets={offsets.txt}"
        return Direction(keys={"rate": f"cell-trains:{{light.txt}},{options}", "delay": "0ms"}, files=texts)

    return way("up"), way("down")


def _lens(file: Path) -> tuple[Direction, Direction]:
    """Reads a CSV of LENS: delays of IRTT in both directions, or round trips of ping."""
    rows = list(csv.reader(_file_text(file).splitlines()))
    heads = {("timestamp", "rtt", "uplink", "downlink"): 1e-9, ("timestamp", "rtt"): 1.0}
    unit_s = heads.get(tuple(rows[0])) if rows else None
    if unit_s is None:
        raise InputError(f"{file}: line 1: expected timestamp,rtt[,uplink,downlink]")
    probes: list[tuple[float, list[float]]] = []
    for number, row in enumerate(rows[1:], 2):
        place = f"{file}: line {number}"
        if len(row) != len(rows[0]):
            raise InputError(f"{place}: expected {len(rows[0])} fields")
        at_s = _number(row[0], place, "a time")
        delays_ms = [_number(one, place, "milliseconds, or -1 for a loss", -1.0) for one in row[1:]]
        probes.append((at_s, delays_ms))
    if len(probes) < 2 or probes[-1][0] <= probes[0][0]:
        raise InputError(f"{file}: expected at least two probes at different times")
    start = probes[0][0]
    timed = [((at - start) * unit_s, delays) for at, delays in probes]
    if len(rows[0]) == 2:
        one_way = [(at, rtt / 2, rtt < 0) for at, (rtt,) in timed]
        return _probed(file, one_way), _probed(file, one_way)
    # A probe that was lost somewhere counts as lost on its way up, and was then not sent down.
    up = [(at, up, up < 0 or rtt < 0) for at, (rtt, up, _) in timed]
    down = [(at, down, down < 0) for at, (rtt, up, down) in timed if up >= 0 and rtt >= 0]
    return _probed(file, up), _probed(file, down)


def _probed(file: Path, probes: Sequence[tuple[float, float, bool]]) -> Direction:
    """Returns the direction of probes: times (s), delays (ms; 0: unknown), and true for lost ones."""
    delays = [(at, ms) for at, ms, is_lost in probes if ms > 0 and not is_lost]
    delays = [pair for pair, after in itertools.pairwise([*delays, (math.inf, 0.0)]) if pair[0] < after[0]]
    if len(delays) < 2:
        raise InputError(f"{file}: fewer than two probes arrived")
    sent = Counter(int(at // LOSS_WINDOW_S) for at, _, _ in probes)
    lost = Counter(int(at // LOSS_WINDOW_S) for at, _, is_lost in probes if is_lost)
    losses = [(window * LOSS_WINDOW_S, lost[window] / count) for window, count in sorted(sent.items())]
    end_s = (max(sent) + 1) * LOSS_WINDOW_S
    return Direction(delays=[*delays, (end_s, 0.0)], losses=[*losses, (end_s, 0.0)])


def _netem_trace(file: Path) -> tuple[Direction, Direction]:
    """Reads a configuration of netem-trace, as rattan plays it: a rate, a delay or a loss over time."""
    config = _json(file)
    if isinstance(config, list):
        config = {"TraceBwConfig": config}
    name = next(iter(config), "") if isinstance(config, Mapping) else ""
    kinds = [
        kind for kind in ("Bw", "Delay", "Loss") if name.endswith((f"{kind}Config", f"{kind}PatternConfig"))
    ]
    if len(kinds) != 1:
        raise InputError(f"{file}: expected a configuration of bandwidth, delay or loss")
    segments = list(_segments(config, kinds[0], f"{file}"))
    times = [0.0, *itertools.accumulate(length for length, _ in segments)]
    rows = [(at, value) for at, (_, value) in zip(times, segments, strict=False)]
    if not rows or times[-1] <= 0:
        raise InputError(f"{file}: no time in it")

    def way() -> Direction:
        ended = [*rows, (times[-1], 0.0)]
        match kinds[0]:
            case "Bw":
                return Direction(rates=ended)
            case "Delay":
                return Direction(delays=_stepped(rows, times[-1]))
            case _:
                return Direction(losses=ended)

    return way(), way()


def _segments(config: Any, kind: str, place: str) -> Iterator[tuple[float, float]]:
    """Yields lengths (s) and values of a configuration of netem-trace."""
    if not isinstance(config, Mapping) or len(config) != 1:
        raise InputError(f"{place}: expected one configuration")
    ((name, values),) = config.items()
    place = f"{place}: {name}"
    if name == "TraceBwConfig":
        for entry in _list(values, place):
            if not isinstance(entry, list) or len(entry) != 2:
                raise InputError(f"{place}: expected milliseconds and a list of Mbit/s")
            length_s = _number(entry[0], place, "milliseconds") / 1e3
            yield from ((length_s, _number(mbit, place, "Mbit/s")) for mbit in _list(entry[1], place))
    elif not isinstance(values, Mapping):
        raise InputError(f"{place}: expected its parameters")
    elif name == f"Repeated{kind}PatternConfig":
        count = int(_number(values.get("count", 0), f"{place}: count", "a number"))
        pattern = [
            one for part in _list(values.get("pattern"), place) for one in _segments(part, kind, place)
        ]
        if count * len(pattern) > 1_000_000:
            raise InputError(f"{place}: count: {count}: more than a million values")
        yield from pattern * max(1, count)
    elif name == f"Static{kind}Config":
        key = {"Bw": "bw", "Delay": "delay", "Loss": "loss"}[kind]
        length_s = _seconds(values.get("duration"), f"{place}: duration")
        yield length_s, _VALUES[kind](values.get(key), f"{place}: {key}")
    elif name == "SawtoothBwConfig" and not values.get("std_dev"):
        yield from _sawtooth(values, place)
    else:
        raise InputError(f"{place}: drawn at random by netem-trace; convert the values that it has drawn")


def _sawtooth(values: Mapping[str, Any], place: str) -> Iterator[tuple[float, float]]:
    bottom, top = (_mbit_per_s(values.get(key), f"{place}: {key}") for key in ("bottom", "top"))
    interval_s, length_s, step_s = (
        _seconds(values.get(key), f"{place}: {key}") for key in ("interval", "duration", "step")
    )
    rising = _number(values.get("duty_ratio"), f"{place}: duty_ratio", "a share")
    if min(interval_s, step_s) <= 0 or rising > 1 or length_s / step_s > 1_000_000:
        raise InputError(f"{place}: expected times above zero, and a million steps at most")
    for step in range(math.ceil(length_s / step_s - 1e-9)):
        phase = (step * step_s / interval_s + 1e-9) % 1
        share = phase / rising if phase < rising else (1 - phase) / (1 - rising)
        yield min(step_s, length_s - step * step_s), bottom + (top - bottom) * share


def _seconds(value: Any, place: str) -> float:
    if isinstance(value, Mapping):
        return (
            _number(value.get("secs"), place, "secs") + _number(value.get("nanos", 0), place, "nanos") / 1e9
        )
    parts = re.findall(r"([0-9.]+)\s*(ns|us|ms|s|min|m|h)\b", value) if isinstance(value, str) else []
    units = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}
    if not parts:
        raise InputError(f"{place}: {value!r}: expected a time")
    return sum(_number(number, place, "a time") * units[unit] for number, unit in parts)


def _mbit_per_s(value: Any, place: str) -> float:
    if isinstance(value, Mapping):
        gbit, bits = (_number(value.get(key, 0), place, key) for key in ("gbps", "bps"))
        return gbit * 1e3 + bits / 1e6
    parts = re.findall(r"([0-9.]+)\s*(bps|kbps|Mbps|Gbps|Tbps)\b", value) if isinstance(value, str) else []
    units = {"bps": 1e-6, "kbps": 1e-3, "Mbps": 1.0, "Gbps": 1e3, "Tbps": 1e6}
    if not parts:
        raise InputError(f"{place}: {value!r}: expected a bandwidth")
    return sum(_number(number, place, "a bandwidth") * units[unit] for number, unit in parts)


def _milliseconds(value: Any, place: str) -> float:
    return _seconds(value, place) * 1e3


def _loss(value: Any, place: str) -> float:
    if not isinstance(value, list) or len(value) != 1:
        raise InputError(f"{place}: {value!r}: expected a list with one probability, without correlation")
    return _number(value[0], place, "a probability")


_VALUES: Mapping[str, Callable[[Any, str], float]] = {
    "Bw": _mbit_per_s,
    "Delay": _milliseconds,
    "Loss": _loss,
}

FORMS: Mapping[str, tuple[tuple[str, ...], str, Callable[..., tuple[Direction, Direction]]]] = {
    "abr": (("FILE",), "times (s) and rates (Mbit/s), or JSON of Sabre", _abr),
    "cellreplay": (("FOLDER",), "trains and opportunities of CellReplay", _cellreplay),
    "lens": (("FILE.csv",), "probes of LENS (IRTT or ping)", _lens),
    "leo": (("BANDWIDTH", "DELAY"), "a pair of LeoReplayer", _leo),
    "mahimahi": (("FILE",), "opportunities of mahimahi, as the rates of each second", _mahimahi),
    "netem-trace": (("FILE.json",), "a configuration of netem-trace", _netem_trace),
}
"""Forms of recordings: the files that each needs, a description, and the reader of both directions."""

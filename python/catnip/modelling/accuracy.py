"""Errors of the analytical models against simulated transfers, and regions where models can be trusted.

`tools/model_pages.py` simulates the points of accuracy.csv, from which the regions are computed.
"""

import csv
import io
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from itertools import groupby, product
from pathlib import Path
from typing import Any, TypeAlias

from catnip.analysis.interval import Interval
from catnip.modelling import case
from catnip.modelling.case import LATENCIES, RATES, Case, Latency, Rate

LIMIT = 0.15
"""Largest relative error, against the mean of the simulated transfers, at which a model is trusted."""
PATH_FACTOR = 1.25
"""Largest factor between a time or window of a case and that of the compared path, if the path's errors are
to apply to the case."""
REGIONS = 2
"""Largest number of regions per model; each region after the first adds `NEW_POINTS` points or more."""
NEW_POINTS = 4
FILE = Path(__file__).with_name("accuracy.csv")

Model: TypeAlias = Latency | Rate
MODELS: Sequence[Model] = (*LATENCIES, *RATES)
PathKey: TypeAlias = tuple[float, ...]
"""Key of a compared path: the values of the case's fields that `PATH` lists, in this order."""
Cell: TypeAlias = tuple[int, int]
"""Cell of a `Grid`: index of its size and index of its loss."""
PATH = {
    "rtt_s": "round trip",
    "t0_s": "timeout",
    "first_timeout_s": "first timeout",
    "w_max": "window",
    "b": "packets per ACK",
    "w1": "initial window",
    "delack_s": "delay of an ACK",
}
"""Fields of a case that describe its path, with their names in messages."""
_COUNTED = {"b", "w1"}
"""Fields of a case whose values must equal those of the compared path exactly."""


@dataclass(frozen=True)
class Point:
    """Simulated mean time or rate of a case, and the errors of the models there."""

    simulated: str
    """Kind of simulation: one of `case.Simulated` (seconds) or `case.SimulatedRate` (packets per second)."""
    case: Case
    mean: Interval
    errors: Mapping[str, float]
    """Relative errors of the models at this point, by key of the model: predicted / simulated - 1."""

    @classmethod
    def of(cls, simulated: str, at: Case, mean: Interval) -> "Point":
        """Returns the point for a simulated mean, with the errors of all models of this quantity."""
        errors = {one.key: _predict(one, at) / mean.mean - 1 for one in MODELS if one.simulated == simulated}
        return cls(simulated, at, mean, errors)


@dataclass(frozen=True)
class Region:
    """Range of sizes and losses in which a model's error is within `LIMIT` at every compared point."""

    packets: tuple[int, int] | None
    """Smallest and largest size in packets; None for a rate, which does not depend on the size."""
    p: tuple[float, float]

    def describe(self, with_names: bool = False) -> str:
        """Returns the region in words; `with_names` adds the words packets and loss."""
        losses = f"{_span(100 * self.p[0], 100 * self.p[1])} %{' loss' * with_names}"
        if self.packets is None:
            return losses
        unit = " packet" if self.packets[1] == 1 else " packets"
        return f"{_span(*self.packets)}{unit * with_names} at {losses}"


@dataclass(frozen=True)
class Nearby:
    """Range of a model's relative errors at the one, two or four compared points around a case."""

    low: float
    high: float
    outside: str = ""
    """Reason why there are no compared points around the case, in which case the errors are NaN; empty if
    there are some."""

    @property
    def is_trusted(self) -> bool:
        """True if the model was compared and its error is within `LIMIT` at each of the points."""
        return not self.outside and max(-self.low, self.high) <= LIMIT

    @property
    def mark(self) -> str:
        """Mark printed after a prediction: `!` if unreliable, `?` if not compared, otherwise empty."""
        if self.outside:
            return "?"
        return "" if self.is_trusted else "!"

    def __str__(self) -> str:
        if self.outside:
            return "not compared"
        low, high = round(100 * self.low), round(100 * self.high)
        if low < 0 < high:
            return f"{-low} % low to {high} % high"
        small, large = sorted((abs(low), abs(high)))
        return f"{_span(small, large)} % {'low' if low < 0 else 'high'}" if large else "0 %"


@dataclass(frozen=True)
class Prediction:
    """Time that a model predicts for a scenario's single transfer, and the model's errors near this case."""

    time_s: float
    nearby: Nearby


@dataclass(frozen=True)
class Grid:
    """Errors of a model at all compared sizes and losses of one path."""

    packets: Sequence[int]
    p: Sequence[float]
    errors: Sequence[Sequence[float]]
    """Relative errors, a row for each size and a column for each loss."""


def trust(model: Model, query: Case | None = None) -> list[Region]:
    """Returns the regions in which a model can be trusted, on the compared path nearest to a case."""
    grids = _grids(model.key)
    return regions(grids[_likeliest(grids, query or Case(1, 0.0))], isinstance(model, Rate))


def trusted_for(model: Model, query: Case | None = None) -> str:
    """Returns the regions of `trust` in words, or `nothing`."""
    found = trust(model, query)
    return "; ".join(one.describe(with_names=one is found[0]) for one in found) or "nothing"


def regions(grid: Grid, is_rate: bool) -> list[Region]:
    """Returns up to `REGIONS` rectangles of points within `LIMIT`; each in turn adds the most new points."""
    is_within = [[abs(error) <= LIMIT for error in row] for row in grid.errors]
    covered: set[Cell] = set()
    found: list[Region] = []
    while len(found) < REGIONS and (best := _largest(is_within, covered)):
        rows, columns = best
        new = _cells(rows, columns) - covered
        if len(new) < (1 if not found else NEW_POINTS):
            break
        covered |= new
        packets = None if is_rate else (grid.packets[rows.start], grid.packets[rows.stop - 1])
        found.append(Region(packets, (grid.p[columns.start], grid.p[columns.stop - 1])))
    return found


def nearby(model: Model, query: Case, set_up: bool = False) -> Nearby:
    """Returns the range of a model's errors at the compared points around the case `query`.

    `set_up` is true for transfers that begin with a handshake, with which no model was compared.
    """
    grids = _grids(model.key)
    path = _likeliest(grids, query)
    unlike = _unlike(path, query)
    reasons = [f"{PATH[key]} {_value(key, getattr(query, key))} ({_values(key, grids)})" for key in unlike]
    if set_up:
        reasons.append("a handshake (without)")
    if query.p_high and model.simulated == "partial_catnip":
        reasons.append(f"{100 * query.p_high:g} % loss of HIGH packets (none)")
    grid = grids[path]
    has_sizes = isinstance(model, Latency)
    rows = _around(grid.packets, query.packets) if has_sizes else slice(None)
    columns = _around(grid.p, query.p)
    if rows is None:
        reasons.append(f"{query.packets} packets ({_span(grid.packets[0], grid.packets[-1])})")
    if columns is None:
        reasons.append(f"{100 * query.p:g} % loss ({_span(100 * grid.p[0], 100 * grid.p[-1])} %)")
    if reasons or rows is None or columns is None:
        return Nearby(math.nan, math.nan, ", ".join(reasons))
    errors = [error for row in grid.errors[rows] for error in row[columns]]
    return Nearby(min(errors), max(errors))


def path_like(query: Case) -> str:
    """Returns the round trip, window and packets per ACK of the compared path closest to a case, in words."""
    path = dict(zip(PATH, _likeliest(_grids(LATENCIES[0].key), query), strict=True))
    return ", ".join(f"{PATH[key]} {_value(key, path[key])}" for key in ("rtt_s", "w_max", "b"))


def predictions(flow: Mapping[str, Any]) -> dict[str, Prediction]:
    """Returns the predictions of the matching models for a `Scenario.single_flow`, by the models' labels."""
    query, set_up = case.of_flow(flow), flow["handshake_s"] is not None
    return {
        one.label: Prediction(case.prediction(one, flow), nearby(one, query, set_up))
        for one in case.matching(flow)
    }


def document(model: Model, query: Case) -> dict[str, Any]:
    """Returns a model's trusted regions and its errors near a case, for JSON."""
    found = [{"packets": one.packets, "p": one.p} for one in trust(model, query)]
    return {"within": LIMIT, "regions": found, **nearby_document(nearby(model, query))}


def nearby_document(errors: Nearby) -> dict[str, Any]:
    """Returns a model's errors near a case, for JSON."""
    return {
        "trusted": errors.is_trusted,
        "near": None if errors.outside else {"low": errors.low, "high": errors.high},
        "not_compared": errors.outside or None,
    }


def notes(shown_errors: Sequence[Nearby]) -> list[str]:
    """Returns the explanations of the marks `!` and `?` of printed predictions, a line for each mark."""
    unreliable = [errors for errors in shown_errors if errors.mark == "!"]
    reasons = [*dict.fromkeys(errors.outside for errors in shown_errors if errors.outside)]
    lines = []
    if unreliable:
        all_of = Nearby(min(errors.low for errors in unreliable), max(errors.high for errors in unreliable))
        lines.append(f"! not reliable: error of {all_of} at the nearest compared points.")
    if reasons:
        shown = reasons if len(reasons) <= 3 else [reasons[0], "…", reasons[-1]]
        lines.append(f"? not compared with simulations of such transfers: {'; '.join(shown)}.")
    return lines


def text(points: Iterable[Point]) -> str:
    """Returns compared points as the text of accuracy.csv."""
    keys = [one.key for one in MODELS]
    out = io.StringIO()
    write = csv.writer(out, lineterminator="\n")
    write.writerow(["simulated", "packets", "p", *PATH, "transfers", "mean", "low", "high", *keys])
    for one in points:
        at = [getattr(one.case, key) for key in PATH]
        errors = [f"{one.errors[key]:.4f}" if key in one.errors else "" for key in keys]
        means = [one.mean.n, *(f"{value:.6g}" for value in (one.mean.mean, one.mean.low, one.mean.high))]
        write.writerow([one.simulated, one.case.packets, one.case.p, *at, *means, *errors])
    return out.getvalue()


@cache
def points() -> Sequence[Point]:
    """Returns all compared points, read from accuracy.csv."""
    head, rows = _rows()
    return [_point(dict(zip(head, row, strict=True))) for row in rows]


@cache
def _rows() -> tuple[list[str], list[list[str]]]:
    """Returns the names of the columns of accuracy.csv, and its rows as texts."""
    with FILE.open(encoding="utf-8", newline="") as lines:
        head, *rows = csv.reader(lines)
    return head, rows


def _point(row: Mapping[str, str]) -> Point:
    at = Case(int(row["packets"]), float(row["p"]), **_fields([float(row[key]) for key in PATH]))
    errors = {one.key: float(row[one.key]) for one in MODELS if row[one.key]}
    mean, low, high = (float(row[key]) for key in ("mean", "low", "high"))
    return Point(row["simulated"], at, Interval(mean, low, high, int(row["transfers"])), errors)


def _fields(path: Sequence[float]) -> dict[str, Any]:
    return {key: value if key.endswith("_s") else int(value) for key, value in zip(PATH, path, strict=True)}


@cache
def _grids(model: str) -> Mapping[PathKey, Grid]:
    # Only one column is parsed, because parsing whole points takes several times as long.
    head, rows = _rows()
    error, packets, p, first = (head.index(key) for key in (model, "packets", "p", next(iter(PATH))))
    by_path: dict[tuple[str, ...], dict[tuple[int, float], float]] = {}
    for row in rows:
        if row[error]:
            errors = by_path.setdefault(tuple(row[first : first + len(PATH)]), {})
            errors[int(row[packets]), float(row[p])] = float(row[error])
    return {tuple(_fields([*map(float, path)]).values()): _grid(of) for path, of in by_path.items()}


def _grid(errors: Mapping[tuple[int, float], float]) -> Grid:
    packets, p = (sorted({at[axis] for at in errors}) for axis in (0, 1))
    return Grid([*map(int, packets)], p, [[errors[int(n), loss] for loss in p] for n in packets])


def _likeliest(grids: Mapping[PathKey, Grid], query: Case) -> PathKey:
    """Returns the compared path that differs from a case in the fewest fields; at a tie, the nearest."""
    return min(grids, key=lambda path: (len(_unlike(path, query)), sum(_distances(path, query).values())))


def _unlike(path: PathKey, query: Case) -> list[str]:
    """Returns the fields of `PATH` in which a case differs too much from a compared path."""
    tolerance = math.log(PATH_FACTOR) + 1e-9
    return [
        key for key, off in _distances(path, query).items() if off > (0 if key in _COUNTED else tolerance)
    ]


def _distances(path: PathKey, query: Case) -> dict[str, float]:
    """Returns the logarithm of the factor between the values of case and path, for each field of `PATH`.

    The logarithm is infinite if only one of the two values is zero.
    """
    both = {key: sorted((at, getattr(query, key))) for key, at in zip(PATH, path, strict=True)}
    return {
        key: 0.0 if low == high else math.log(high / low) if low > 0 else math.inf
        for key, (low, high) in both.items()
    }


def _largest(is_within: Sequence[Sequence[bool]], covered: Set[Cell]) -> tuple[slice, slice] | None:
    """Returns the rectangle of true cells that has the most cells outside `covered`; at a tie, the largest.

    The result has the rows and the columns of the rectangle.
    """
    best: tuple[slice, slice] | None = None
    best_count = (0, 0)
    for first in range(len(is_within)):
        for end in range(first + 1, len(is_within) + 1):
            rows = slice(first, end)
            for columns in _runs([all(column) for column in zip(*is_within[rows], strict=True)]):
                cells = _cells(rows, columns)
                new = len(cells - covered)
                if new and (new, len(cells)) > best_count:
                    best, best_count = (rows, columns), (new, len(cells))
    return best


def _cells(rows: slice, columns: slice) -> Set[Cell]:
    return set(product(range(rows.start, rows.stop), range(columns.start, columns.stop)))


def _runs(values: Sequence[bool]) -> Iterator[slice]:
    """Yields each range of consecutive true values as a slice."""
    for is_true, indices in groupby(range(len(values)), values.__getitem__):
        if is_true:
            first, *others = indices
            yield slice(first, first + 1 + len(others))


def _around(compared: Sequence[float], value: float) -> slice | None:
    """Returns the slice of the ascending values `compared` that has only `value`, or its two neighbours.

    Returns None if `value` is outside the range of `compared`.
    """
    if not compared[0] <= value <= compared[-1]:
        return None
    return slice(bisect_right(compared, value) - 1, bisect_left(compared, value) + 1)


def _predict(model: Model, at: Case) -> float:
    return case.latency(model, at) if isinstance(model, Latency) else case.rate(model.name, at)


def _value(key: str, value: float) -> str:
    return f"{round(1e3 * value, 1):g} ms" if key.endswith("_s") else f"{value:g}"


def _values(key: str, grids: Mapping[PathKey, Grid]) -> str:
    """Returns all compared values of a field of `PATH`, as text for a message."""
    values = {path[[*PATH].index(key)] for path in grids}
    return " or ".join(_value(key, value) for value in sorted(values))


def _span(low: float, high: float) -> str:
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"

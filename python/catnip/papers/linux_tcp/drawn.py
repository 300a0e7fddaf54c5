"""Cases drawn at random, none of them in the grid of `cases`: other paths, sizes, windows and controls."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from catnip.papers.linux_tcp.cases import Case

DEEP_QUEUE = "drop-tail:2000"
"""Queue that holds the largest transfer."""
ROUND_TRIPS_MS = (7, 45, 350)
RATES = ("1Mbit", "25Mbit", "50Mbit")
GROUPS: Mapping[str, int] = {
    "round trips": 24,
    "rates, larger files": 12,
    "late segments": 16,
    "fixed window, lost ACKs": 14,
    "marks": 12,
    "pacing": 8,
    "short": 8,
    "BBR": 10,
}
"""Number of cases of each group."""


def drawn(seed: int) -> list[Case]:
    """Returns the cases of all groups that `seed` draws."""
    rng = np.random.default_rng(seed)
    return [
        Case(group, queue=DEEP_QUEUE, **{"control": _one(rng, "cubic", "reno"), **_DRAWS[group](rng)})
        for group, count in GROUPS.items()
        for _ in range(count)
    ]


Events = dict[str, Any]


def _round_trip(rng: np.random.Generator) -> Events:
    segments = _between(rng, 120, 300)
    return {"segments": segments, "delay_ms": _delay_ms(rng), **_losses(rng, segments)}


def _rate(rng: np.random.Generator) -> Events:
    rate = _one(rng, *RATES)
    segments = _between(rng, 200, 400 if rate == RATES[0] else 1000)
    delay_ms = _one(rng, 10, 22.5, 40)
    return {"segments": segments, "rate": rate, "delay_ms": delay_ms, **_losses(rng, segments)}


def _late(rng: np.random.Generator) -> Events:
    segments, delay_ms = _between(rng, 120, 250), _one(rng, 3.5, 22.5, 60)
    by_ms = max(int(2 * delay_ms * rng.uniform(0.1, 2.0)), 2)
    # A late segment is not lost, too: the numbers of losses are others.
    chosen = rng.choice(np.arange(5, segments), _between(rng, 1, 9) + 2, replace=False).tolist()
    lost = sorted(chosen[: _between(rng, 0, 2)])
    return {
        "segments": segments,
        "delay_ms": delay_ms,
        "delayed": {by_ms: sorted(chosen[2:])},
        "lost": lost,
    }


def _window(rng: np.random.Generator) -> Events:
    segments, window = _between(rng, 150, 300), _between(rng, 12, 44)
    first = _between(rng, 5, 80)
    lost = _losses(rng, segments) if rng.random() < 0.6 else {"acks": list(range(first, first + 6))}
    return {"segments": segments, "window": window, "delay_ms": _one(rng, 10, 22.5, 40), **lost}


def _marks(rng: np.random.Generator) -> Events:
    segments = _between(rng, 120, 300)
    marked = sorted(rng.choice(np.arange(2, segments), _between(rng, 1, 8), replace=False).tolist())
    return {"segments": segments, "delay_ms": _delay_ms(rng), "marked": marked}


def _paced(rng: np.random.Generator) -> Events:
    return {**_round_trip(rng), "delay_ms": _one(rng, 22.5, 40, 75), "paced": True}


def _short(rng: np.random.Generator) -> Events:
    segments = _between(rng, 1, 14)
    lost = sorted(rng.choice(np.arange(1, segments + 1), min(segments, _between(rng, 0, 2)), replace=False))
    delay_ms = _delay_ms(rng)
    return {"segments": segments, "delay_ms": delay_ms, "lost": [int(n) for n in lost], "fin": False}


def _bbr(rng: np.random.Generator) -> Events:
    lost = sorted(rng.choice(np.arange(1, 40), _between(rng, 1, 3), replace=False).tolist())
    segments, delay_ms = _between(rng, 120, 400), _one(rng, 22.5, 40, 75)
    return {"segments": segments, "delay_ms": delay_ms, "control": "bbr", "lost": lost}


_DRAWS: Mapping[str, Callable[[np.random.Generator], Events]] = dict(
    zip(GROUPS, (_round_trip, _rate, _late, _window, _marks, _paced, _short, _bbr), strict=True)
)


def _losses(rng: np.random.Generator, segments: int) -> Events:
    """Draws what is lost: single segments, a row, the first, the last ones, or ACKs."""
    first = _between(rng, 2, segments - 10)
    kind = _one(rng, "anywhere", "row", "head", "tail", "acks")
    if kind == "anywhere":
        return {
            "lost": sorted(rng.choice(np.arange(1, segments), _between(rng, 1, 5), replace=False).tolist())
        }
    if kind == "row":
        return {"lost": list(range(first, first + _between(rng, 2, 8)))}
    if kind == "head":
        return {"lost": list(range(1, 1 + _between(rng, 1, 4)))}
    if kind == "tail":
        return {"lost": list(range(segments + 1 - _between(rng, 1, 4), segments + 1))}
    first = _between(rng, 1, 60)
    return {"acks": list(range(first, first + _between(rng, 1, 10)))}


def _delay_ms(rng: np.random.Generator) -> float:
    return float(_one(rng, *ROUND_TRIPS_MS)) / 2


def _between(rng: np.random.Generator, least: int, most: int) -> int:
    return int(rng.integers(least, most, endpoint=True))


def _one(rng: np.random.Generator, *values: Any) -> Any:
    return values[int(rng.integers(len(values)))]

"""Values of axes as positions: numbers with units in order and to scale, other values one after the other."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log
from typing import Any

from catnip.report.summary_tables import shown

QUANTITY = re.compile(
    r"((?:[a-z][\w-]*:)?(?:[a-z][\w-]*=)?)([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?) ?([A-Za-zµ%/]*)"
)
"""A number with a unit, perhaps after the name of a kind or of a key, as in `drop-tail:20` and `20ms`."""
UNITS: Sequence[Mapping[str, float]] = (
    {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "min": 60},
    {"bit": 1, "kbit": 1e3, "Mbit": 1e6, "Gbit": 1e9},
    {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30},
)
WIDE = 10
"""Ratio of the greatest to the least value from which on a scale may be logarithmic."""


@dataclass(frozen=True)
class Scale:
    """Positions of the values of an axis, by the values as texts and in ascending order."""

    key: str
    at: Mapping[str, float]
    unit: str = ""
    """Unit of the positions, after a name that all values begin with; empty if there is neither."""
    is_number: bool = True
    """False if the positions are 0, 1, … because not all values are numbers of one kind."""

    @property
    def label(self) -> str:
        """Last part of the key, with the unit."""
        return f"{short(self.key)}, {self.unit}" if self.unit else short(self.key)

    @property
    def is_log(self) -> bool:
        """True if the values are spread more evenly on a logarithmic axis than on a linear one."""
        at = list(self.at.values())
        if not self.is_number or len(at) < 3 or at[0] <= 0 or at[-1] < WIDE * at[0]:
            return False
        linear = max(b - a for a, b in pairwise(at)) / (at[-1] - at[0])
        logarithmic = max(log(b / a) for a, b in pairwise(at)) / log(at[-1] / at[0])
        return logarithmic < linear


def scale_of(key: str, values: Sequence[Any]) -> Scale:
    """Returns the scale of the values of an axis, of which there may be many."""
    texts = list(dict.fromkeys(map(shown, values)))
    found = [QUANTITY.fullmatch(text) for text in texts]
    read = [(one[1], one[3], float(one[2])) for one in found if one]
    family = next((of for of in UNITS if read and read[0][1] in of), None)
    before, unit = (read[0][0], read[0][1]) if read else ("", "")
    is_one_kind = len(read) == len(texts) and all(
        name == before and (of == unit or (family is not None and of in family)) for name, of, _ in read
    )
    numbers = [
        number if family is None or of == unit else number * family.get(of, 1) / family[unit]
        for _, of, number in read
    ]
    if not is_one_kind or len(set(numbers)) < len(texts):
        return Scale(key, {text: float(number) for number, text in enumerate(texts)}, is_number=False)
    ordered = sorted(zip(numbers, texts, strict=True))
    named = f"{before.rstrip(':=')} {unit}".strip()
    return Scale(key, {text: number for number, text in ordered}, named)


def short(key: str) -> str:
    """Returns the last part of a key."""
    return key.rsplit(".", 1)[-1]


def name_of(key: str, keys: Collection[str]) -> str:
    """Returns the last part of a key, or all of it if other keys end in the same."""
    return short(key) if [short(one) for one in keys].count(short(key)) == 1 else key


def spread(items: Sequence[Any], most: int) -> list[Any]:
    """Returns at most `most` items, which is two or more, at equal distances, from the first to the last."""
    if len(items) <= most:
        return list(items)
    return [items[round(number * (len(items) - 1) / (most - 1))] for number in range(most)]

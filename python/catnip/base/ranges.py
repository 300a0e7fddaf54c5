"""Ranges of consecutive numbers."""

from collections.abc import Iterable


def runs_of(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Returns the ends of each range of consecutive numbers: (1, 3) and (26, 26) for 1, 2, 3, 26."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs

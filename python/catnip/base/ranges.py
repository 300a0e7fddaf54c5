"""Numbers that count something: those that follow each other are said together."""

from collections.abc import Iterable


def runs_of(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """First and last of each run of numbers that follow each other: 1, 2, 3, 26 is (1, 3) and (26, 26)."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs

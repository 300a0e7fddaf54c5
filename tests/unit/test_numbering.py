"""Test of numbers in sequence, which are shown as ranges."""

import pytest

from catnip.base.ranges import runs_of
from catnip.report.output import span


@pytest.mark.parametrize(
    ("numbers", "runs", "said"),
    [
        ([7], [(7, 7)], "seed 7"),
        (range(1, 20_001), [(1, 20_000)], "seeds 1 to 20000"),
        ([*range(1, 11), 21], [(1, 10), (21, 21)], "seeds 1 to 10, 21"),
        ([3, 1, 2], [(3, 3), (1, 2)], "seeds 3, 1 to 2"),
    ],
)
def test_runs_of_numbers_and_how_they_are_said(
    numbers: list[int], runs: list[tuple[int, int]], said: str
) -> None:
    assert runs_of(numbers) == runs
    assert span(list(numbers)) == said

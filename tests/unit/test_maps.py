"""Tests of maps of claims: settings that change one factor, the two strongest, and what is told of them."""

import math
import re
from pathlib import Path
from typing import Any

import pytest

from catnip._core import InputError
from catnip.analysis.interval import Interval
from catnip.analysis.verdicts import Band
from catnip.base.progress import Progress
from catnip.papers import maps, statement
from catnip.papers.maps import TOGETHER, Factor, Map, Mapped
from catnip.papers.runs import Runs

BUFFER = Factor(
    "buffer", {"small": (("queue", "1"),), "usual": (("queue", "2"),), "large": (("queue", "3"),)}, "usual"
)
ROUND_TRIP = Factor("round trip", {"short": (("delay", "1"),), "usual": (("delay", "2"),)}, "usual")
TIMER = Factor("timer", {"usual": (("rto", "1"),), "long": (("rto", "2"),)}, "usual")


def mapped(values: dict[str, float], runs_at: list[tuple[tuple[str, str], ...]] | None = None) -> Mapped:
    """Returns a map whose quantity is the sum of what each change adds to 10; the band begins at 15."""
    seen = [] if runs_at is None else runs_at

    def measure(runs: Runs) -> Interval:
        seen.append(runs.changes)
        runs.is_changed = True
        value = 10 + sum(values.get(f"{key}={setting}", 0) for key, setting in runs.changes)
        return Interval(value, value - 1, value + 1, runs.seed_count or 0)

    with Progress(quiet=True) as progress:
        runs = Runs(False, None, 1, progress)
    return Mapped(Map("X-E1.gain", 5, [TIMER, ROUND_TRIP, BUFFER]), runs, measure, Band(low=15))


def test_each_factor_is_changed_alone_and_the_published_setting_changes_nothing() -> None:
    runs_at: list[tuple[tuple[str, str], ...]] = []
    one = mapped({"queue=3": 7}, runs_at)
    cells = one.along(BUFFER)
    assert [(cell.settings, cell.value.mean, cell.holds) for cell in cells] == [
        (("small",), 10, False),
        (("usual",), 10, False),
        (("large",), 17, True),
    ]
    assert cells[0].value.n == 5
    assert runs_at == [(("queue", "1"),), (("queue", "2"),), (("queue", "3"),), ()]
    one.along(BUFFER)
    assert len(runs_at) == 4, "a cell is measured once"
    assert one.text("buffer") == "large (1 of 3)"
    assert one.text("timer") == "nowhere (2 settings), without any effect"
    assert one.seeds == 5


def test_the_two_factors_that_bring_the_value_nearest_are_changed_together() -> None:
    # Alone the buffer leaves two to the band (with its interval three), the round trip four.
    one = mapped({"queue=3": 3, "delay=1": 2, "rto=2": -5})
    assert [factor.name for factor in one.strongest()] == ["buffer", "round trip"]
    assert one.text(TOGETHER) == "buffer and round trip: nowhere (6 settings)"
    one = mapped({"queue=3": 3, "delay=1": 4})
    assert [factor.name for factor in one.strongest()] == ["round trip", "buffer"]
    assert one.text(TOGETHER) == "round trip and buffer: short with large (1 of 6)"
    everywhere = mapped({"queue=1": 6, "queue=3": 6, "delay=1": 6, "rto=2": 6})
    assert everywhere.text("buffer") == "small, large (2 of 3)"


def test_a_value_of_one_run_has_no_interval_and_is_itself() -> None:
    one = Interval(3, math.nan, math.nan, 1)
    assert maps._is_same(one, Interval(3, math.nan, math.nan, 1))
    assert not maps._is_same(one, Interval(4, math.nan, math.nan, 1))


def test_what_is_said_to_be_published_must_change_nothing() -> None:
    one = mapped({"queue=2": 1})
    with pytest.raises(InputError, match="factor buffer: usual = usual: is not what its scenarios have"):
        one.along(BUFFER)


def test_values_that_are_not_known_are_nowhere_near() -> None:
    one = mapped({"queue=3": 3, "delay=1": float("nan")})
    assert [factor.name for factor in one.strongest()] == ["buffer", "timer"]
    one = mapped({"queue=3": 9, "delay=1": 7, "rto=2": 8})
    assert [factor.name for factor in one.strongest()] == ["buffer", "timer"], "deeper in the band"


def test_a_factor_that_no_run_has_is_an_error() -> None:
    one = mapped({})
    one._measure = lambda _runs: 1.0
    with pytest.raises(InputError, match="queue: no run of its quantity has it"):
        one.along(BUFFER)


CLAIMS = """
title = "x"
[experiments]
X-E1 = "one"
[figures]
[[claim]]
experiment = "X-E1"
says = "gain"
quantity = "gain"
at_least = 0
source = "own"
[[claim]]
experiment = "X-E1"
says = "loss"
quantity = "loss"
[factor.buffer]
key = "define.queue"
settings = { "30 KB" = "drop-tail:30000B", "60 KB" = "drop-tail:60000B" }
usual = "30 KB"
[factor.file]
settings = { "none" = { "traffic.ftp" = "none" }, "one" = { "traffic.ftp.bytes" = "1MB" } }
usual = "one"
[[map]]
of = "X-E1.gain"
seeds = 5
factors = ["buffer", "file"]
"""


def test_a_map_is_read_with_a_claim_for_each_factor_and_one_for_two_together(tmp_path: Path) -> None:
    file = tmp_path / "claims.toml"
    file.write_text(CLAIMS)
    read = statement.read(file)
    [one] = read.maps
    assert one.factors[0].settings["60 KB"] == (("define.queue", "drop-tail:60000B"),)
    assert one.factors[1].others == {"none": (("traffic.ftp", "none"),)}
    rows = [each.id for each in read.statements if each.experiment == "X-M"]
    assert rows == [f"X-M.map.E1-gain-{factor}" for factor in ("buffer", "file", TOGETHER)]
    assert "X-M" in read.experiments
    mistakes: list[tuple[str, str, Any]] = [
        ('usual = "30 KB"', 'usual = "40 KB"', "factor buffer: usual = 40 KB: not one of its settings"),
        ('of = "X-E1.gain"', 'of = "X-E1.loss"', "map of X-E1.loss: of: no claim with a band"),
        ('of = "X-E1.gain"\nseeds', "seeds", "map of None: of: missing"),
        ("seeds = 5", "seeds = 5\nseed = 5", "map of X-E1.gain: seed: there is no such key"),
        ('usual = "one"', "", "factor file: usual: missing"),
        (', "60 KB" = "drop-tail:60000B"', "", "factor buffer: settings: expected at least two"),
        (
            "[[map]]",
            '[[map]]\nof = "X-E1.gain"\nseeds = 5\nfactors = ["file", "buffer"]\n[[map]]',
            "another map",
        ),
        ('["buffer", "file"]', '["buffer"]', "factors: expected at least two"),
        ('["buffer", "file"]', '["buffer", "disk"]', "factors = disk: there is no such factor"),
        ('key = "define.queue"', 'keys = "define.queue"', "factor buffer: keys: there is no such key"),
        ('key = "define.queue"', "", "factor buffer: settings.30 KB: expected keys with values"),
    ]
    for before, after, told in mistakes:
        file.write_text(CLAIMS.replace(before, after))
        with pytest.raises(InputError, match=re.escape(told)) as error:
            statement.read(file)
        assert str(error.value).startswith(f"{file}: ")

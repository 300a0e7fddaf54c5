"""Tests of the report of a sweep: its points, its curves and its heat maps."""

import math
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from catnip._core import Scenario
from catnip.analysis.interval import Interval
from catnip.analysis.summary import GroupSummary, Summary
from catnip.report import run_page, summary_tables, sweeps
from catnip.report.model import PointTable, RunOfScenario
from conftest import Run
from plans import FILES

TWO = """
[[axis]]
key = "link.line.delay"
values = ["80ms", "5ms", "20ms"]
[[axis]]
key = "link.line.queue"
values = ["red:8", "drop-tail:8"]
"""


def summaries_of(axes: sweeps.Axes) -> dict[str, Summary]:
    """Returns a summary for each point, whose mean is the number of the point."""
    count = len(next(iter(axes.values())))
    return {
        f"point {number}": Summary(
            {
                "file": GroupSummary(
                    "transfers",
                    1,
                    1,
                    {"completed_s": Interval(number, number - 0.5, number + 0.5, 3)},
                    seeds=3,
                )
            },
            {},
            1,
        )
        for number in range(count)
    }


def grid(*levels: range) -> dict[str, list[str]]:
    """Returns axes whose values are all combinations of milliseconds."""
    rows = list(product(*levels))
    return {f"link.l{at}.delay": [f"{row[at]}ms" for row in rows] for at in range(len(levels))}


def test_a_page_has_a_row_for_each_point_and_a_script_that_sorts(catnip: Run, tmp_path: Path) -> None:
    file, page = tmp_path / "sweep.toml", tmp_path / "page.html"
    file.write_text(FILES + TWO)
    assert catnip("run", file, "--report", page).code == 0
    text = page.read_text()
    [table] = re.findall(r'<table class="points sortable">.*?</table>', text, re.DOTALL)
    heads = re.findall(r'<th scope="col".*?>(.*?)</th>', table)
    assert heads == ["delay", "queue", "completion time, s", "seeds"]
    rows = re.findall(r"<tr><th .*?</tr>", table)
    assert len(rows) == 6
    assert re.findall(r">([^<>]+)</t[hd]>", rows[0])[:2] == ["80ms", "red:8"]
    # What repeats the runs is there if the page with the simulator is built.
    rest = re.sub(r'<section>\s*<h2 id="again">.*?</section>', "", text, flags=re.DOTALL)
    assert "src=" not in rest and rest.count("<script>") == 1


def rendered(scenario: Scenario, table: PointTable) -> str:
    from catnip.report import html  # noqa: PLC0415 -- slow to load

    run = RunOfScenario("X-9", "Files", "Six.", scenario.text, [], [], [1], table)
    return html.render_run(run, "catnip run", None)


def test_of_ten_thousand_points_the_first_thousand_are_shown_and_this_is_said() -> None:
    axes = grid(range(1, 101), range(1, 101))
    summaries = summaries_of(axes)
    table = sweeps.point_table(axes, summaries)
    assert table is not None and len(table.rows) == 1000
    assert table.note == "The first 1000 of 10000 rows: --json and the tables of --out have all."
    scenario = Scenario.parse("sweep.toml", FILES)
    assert len(rendered(scenario, table)) < 500_000
    base = next(iter(summaries))
    pairs = summary_tables.pairs_of(base, axes, summaries)
    for one in run_page.tables(scenario, [1, 2], summaries, base, pairs):
        assert len(one.rows) == 1000 and "The first 1000 of " in one.note
    curves = sweeps.curves_of(axes, list(summaries))
    assert curves is not None and (len(curves.lines), curves.left_out) == (8, 92)
    [cells], left_out = sweeps.maps_of(axes, summaries, 4)
    assert cells.mean.shape == (20, 14)
    assert left_out == " Shown are 14 of 100 values of link.l0.delay, 20 of 100 values of link.l1.delay."


def test_a_table_without_axes_is_none() -> None:
    assert sweeps.point_table({}, summaries_of(grid(range(2)))) is None


def test_curves_run_along_the_axis_of_numbers_and_have_units_and_intervals() -> None:
    axes = {"tcp.control": ["a", "a", "b", "b", "c", "c"], "link.line.delay": ["100ms", "1ms"] * 3}
    summaries = summaries_of(axes)
    curves = sweeps.curves_of(axes, list(summaries))
    assert curves is not None
    [panel] = sweeps.panels(curves, summaries, {"completed_s": "time, s"})
    assert panel.xlabel == "delay, ms"
    assert [line.label for line in panel.lines] == ["control=a", "control=b", "control=c"]
    first = panel.lines[0]
    assert (list(np.asarray(first.x)), list(np.asarray(first.y))) == ([1, 100], [1, 0])
    assert list(np.asarray(first.low)) == [0.5, -0.5]


def test_points_of_ranges_that_are_drawn_together_are_dots() -> None:
    axes = {
        "link.line.delay": [f"{n}ms" for n in range(20)],
        "link.line.rate": [f"{n}kbit" for n in range(20)],
    }
    summaries = summaries_of(axes)
    curves = sweeps.curves_of(axes, list(summaries))
    assert curves is not None and not curves.is_joined
    [panel] = sweeps.panels(curves, summaries, {"completed_s": "time, s"})
    [line] = panel.lines
    assert len(np.asarray(line.x)) == 20 and not line.joined
    assert sweeps.maps_of(axes, summaries, 4) == ([], "")


def test_a_heat_map_has_the_mean_and_half_the_interval_of_each_point() -> None:
    axes = grid(range(1, 4), range(1, 3), range(1, 3))
    del axes["link.l2.delay"]
    axes["tcp.control"] = ["reno", "cubic"] * 6
    summaries = summaries_of(axes)
    maps, left_out = sweeps.maps_of(axes, summaries, 4)
    assert [one.title for one in maps] == ["file, control=reno", "file, control=cubic"]
    assert left_out == ""
    reno = maps[0]
    assert (reno.columns, reno.rows, reno.measure) == (
        ["1ms", "2ms", "3ms"],
        ["1ms", "2ms"],
        "completion time, s",
    )
    assert reno.mean.tolist() == [[0, 4, 8], [2, 6, 10]]
    assert (reno.half == 0.5).all()


def test_of_many_heat_maps_some_are_shown_and_this_is_said() -> None:
    axes = grid(range(1, 4), range(1, 4), range(1, 4))
    some, left_out = sweeps.maps_of(axes, summaries_of(axes), 2)
    assert [one.title for one in some] == ["file, link.l2.delay=1ms", "file, link.l2.delay=3ms"]
    assert left_out == " Shown are 2 of 3 maps."


def test_a_point_that_is_not_there_leaves_its_cell_empty() -> None:
    axes = {key: values[:-1] for key, values in grid(range(1, 4), range(1, 4)).items()}
    [cells], _ = sweeps.maps_of(axes, summaries_of(axes), 4)
    assert [math.isnan(mean) for mean in cells.mean.ravel()] == [False] * 8 + [True]


@pytest.fixture(autouse=True)
def _no_warning() -> Iterator[None]:
    """Turns the warnings of numpy into errors."""
    with np.errstate(all="raise"):
        yield

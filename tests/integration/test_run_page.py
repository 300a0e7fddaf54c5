"""Tests that the report and the plot of a run agree with its printed summary."""

import re
from pathlib import Path

import numpy as np
import pytest
from test_runs import PIPE

from catnip._core import Scenario, Times
from catnip.analysis import summary
from catnip.cli.options import BAD_INPUT
from catnip.report import run_page, sweeps
from catnip.store import runs
from conftest import Run


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    file = tmp_path / "pipe.toml"
    file.write_text(PIPE.replace("Documents through a pipe", "Documents <through> a pipe"))
    return file


def means(text: str) -> list[tuple[float, int]]:
    """Returns the means with symmetric intervals in a text, each with its number of decimals."""
    found = re.findall(r"([-+]?\d+(?:\.(\d+))?) ± \d", text)
    return [(float(mean), len(decimals)) for mean, decimals in found]


def test_the_report_of_a_run_has_its_tables_its_drawings_and_its_scenario(
    catnip: Run, pipe: Path, tmp_path: Path
) -> None:
    page, plot = tmp_path / "page.html", tmp_path / "plot.svg"
    ended = catnip("run", pipe, "--report", page, "--plot", plot, "--against", "kind=drop-tail")
    assert ended.code == 0
    text = page.read_text(encoding="utf-8")
    assert "Documents &lt;through&gt; a pipe" in text
    assert "<through>" not in text
    printed, shown = means(ended.out), means(text.split('id="table-1"')[1])
    assert len(printed) == len(shown) > 20
    for (mean, three), (again, decimals) in zip(printed, shown, strict=True):
        assert abs(mean - again) <= 0.51 * (10.0**-three + 10.0**-decimals)
    assert "Difference to kind=drop-tail, paired by seed" in text
    # Distribution, results by length, and four over time.
    assert text.count("<figure") == 6
    assert "id = &#34;PIPE&#34;" in text
    assert 'id="axis"' in text
    drawn = plot.read_text(encoding="utf-8")
    assert drawn.startswith("<svg")
    assert "results by length" in drawn
    for written in (text, drawn):
        assert "nan" not in re.sub(r"[\w-]*nan[\w-]+|[\w-]+nan", "", written)


def test_without_axes_and_with_one_seed_there_is_nothing_to_compare(catnip: Run, tmp_path: Path) -> None:
    file, page = tmp_path / "pipe.toml", tmp_path / "page.html"
    file.write_text(PIPE.split("[[axis]]", maxsplit=1)[0])
    assert catnip("run", file, "--seeds", 1, "--report", page).code == 0
    text = page.read_text(encoding="utf-8")
    assert "Difference to" not in text
    assert text.count("<figure") == 5


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--plot", "p.gif"], "expected a file name that ends in .svg or .pdf or .png"),
        (["--plot", "/dev/null/p.svg"], "/dev/null"),
        (["--report", "/dev/null/p.html"], "/dev/null"),
    ],
)
def test_what_cannot_be_drawn_is_refused_before_the_run(
    catnip: Run, pipe: Path, options: list[str], says: str
) -> None:
    ended = catnip("run", pipe, *options)
    assert (ended.code, ended.out) == (BAD_INPUT, "")
    assert says in ended.err


def test_what_lies_along_an_axis_of_numbers_is_drawn_in_their_order() -> None:
    text = PIPE.replace('values = ["10", "40"]', 'values = ["40", "5", "20"]')
    scenario = Scenario.parse("pipe.toml", text)
    names = scenario.variants
    tables = scenario.run(names, [1, 2], list(summary.TABLES))
    summaries = summary.of_tables(tables, names, [1, 2])
    axes = runs.axes_of(scenario, names)
    [_, along, _] = run_page.figures(scenario, [1, 2], summaries, axes)
    assert along.title == "Results by length"
    curves = sweeps.curves_of(axes, names)
    assert curves is not None
    panels = list(sweeps.panels(curves, summaries, run_page.SWEPT))
    assert {line.label for line in panels[0].lines} == {"kind=drop-tail", "kind=catnip-good"}
    for panel in panels:
        for line in panel.lines:
            assert list(np.asarray(line.x)) == [5, 20, 40]
            of = summaries[f"{line.label} / length=5"].groups["document"]
            assert any(np.isclose(line.y, of.means[key].mean)[0] for key in of.means if key in run_page.SWEPT)


def test_a_curve_keeps_its_ends_and_is_fine_where_few_are_left() -> None:
    times = Times(range(1, 10_001), [True] * 10_000, [0] * 10_000, 1)
    at_s, longer = map(np.array, times.curve(300))
    assert len(at_s) <= 300
    assert (at_s[0], at_s[-1]) == (1, 10_000)
    np.testing.assert_allclose(longer, 1 - at_s / 10_000, atol=1e-9)
    assert (np.diff(at_s)[-20:] == 1).all(), "the slowest are all there"

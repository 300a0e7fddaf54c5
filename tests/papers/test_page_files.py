"""Test that simulations of the published page files give the published simulated page times."""

import operator
from pathlib import Path

import pytest

from catnip.analysis.resampling import of_medians
from catnip.papers.pages import runs
from catnip.papers.pages.cells import CELLS, Cell
from catnip.report import values

VALIDATION = Path(__file__).resolve().parents[2] / "validation"


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_a_published_page_file_gives_the_published_times_again(cell: Cell) -> None:
    stored = values.read(VALIDATION / "pages.json", "pages")
    page = (VALIDATION / f"pages.{cell.site.name}.page.json").read_text(encoding="utf-8")
    count = runs.SIMULATED_PER_LOAD * len(stored.seeds)
    again = runs.simulated(cell, page, range(stored.seeds[0], stored.seeds[0] + count))
    [of_cell] = (one.ours for id, one in stored.of.items() if id.endswith(_case(cell)))
    assert of_medians(operator.pos, again) == of_cell


def _case(cell: Cell) -> str:
    lost = f"-{cell.loss_pct:g}" if cell.loss_pct else ""
    return f".median_s.{cell.objects}-{cell.http}-{cell.link}-ours{lost}"

"""Test that equal data give equal bytes of docs/models, the pages of the analytical models."""

from xml.etree import ElementTree

import model_pages

from catnip.analysis.interval import Interval
from catnip.modelling.case import Case


def test_same_data_same_bytes() -> None:
    means = {
        (n, p, marks): Interval(1 + n * p, 0.9 + n * p, 1.1 + n * p, 100)
        for n in (*model_pages.SIZES, *model_pages.LONGER)
        for p in model_pages.LOSSES
        for marks in (False, True)
    }
    goodput = {p: Interval(1 / p, 0.9 / p, 1.1 / p, 20) for p in (0.01, 0.1)}
    elsewhere = {Case(6, 0.1, rtt_s=0.05): Interval(1, 0.9, 1.1, 100)}
    drawn = model_pages.figures(means, goodput)
    assert set(drawn) == set(model_pages.FIGURES)
    assert drawn == model_pages.figures(means, goodput)
    for svg in drawn.values():
        assert ElementTree.fromstring(svg).get("viewBox")
    assert "| 6, 10 % |" in model_pages.accuracy_page(means, goodput, elsewhere)

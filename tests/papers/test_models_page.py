"""The pages of the models come again byte by byte."""

from xml.etree import ElementTree

from catnip import model_plots
from catnip.case import Case
from catnip.interval import Interval


def test_same_data_same_bytes() -> None:
    means = {
        (n, p, marks): Interval(1 + n * p, 0.9 + n * p, 1.1 + n * p, 100)
        for n in (*model_plots.SIZES, *model_plots.LONGER)
        for p in model_plots.LOSSES
        for marks in (False, True)
    }
    goodput = {p: Interval(1 / p, 0.9 / p, 1.1 / p, 20) for p in (0.01, 0.1)}
    elsewhere = {Case(6, 0.1, rtt_s=0.05): Interval(1, 0.9, 1.1, 100)}
    drawn = model_plots.figures(means, goodput)
    assert set(drawn) == set(model_plots.FIGURES)
    assert drawn == model_plots.figures(means, goodput)
    for svg in drawn.values():
        assert ElementTree.fromstring(svg).get("viewBox")
    assert "| 6, 10 % |" in model_plots.accuracy(means, goodput, elsewhere)

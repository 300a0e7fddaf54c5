"""Figures are valid, deterministic SVG that says its finding."""

from collections.abc import Callable
from xml.etree import ElementTree

import numpy as np
import pytest

from catnip.figures import ccdf, pages
from catnip.figures.transfers import sequence_plots, single_loss_profile
from catnip.stats import Interval

TENTHS = [n / 10 for n in range(1, 11)]
SERIES = pages.Series("Reno", TENTHS, TENTHS, [t + 0.1 for t in TENTHS], TENTHS)
REFERENCED = pages.Series(
    "ECA", TENTHS, TENTHS, TENTHS, TENTHS,
    paper_mean=TENTHS, paper_sd=TENTHS, ns2_mean=TENTHS, ns2_low=TENTHS, ns2_high=TENTHS, ns2_sd=TENTHS,
)  # fmt: skip
ABOVE = ccdf.Curve("RED", np.array([0.0, 1.0, 2.0]), [Interval(p, p - 0.1, p + 0.1, 5) for p in (1, 0.5, 0)])
DRAWN: dict[str, Callable[[], str]] = {
    "profile": lambda: single_loss_profile([1, 2, 3], [3, 2, 1], [3, 2, 1], 1.0, [True, True, False]),
    "sequence": lambda: sequence_plots([("Reno", [0.0, 0.1, 0.5], [0, 1, 1])] * 4, "Four"),
    "one panel": lambda: sequence_plots([("Reno", [0.0, 0.1], [0, 1])]),
    "bars": lambda: pages.page_bars("Faster", [SERIES, REFERENCED]),
    "ccdf": lambda: ccdf.ccdf_panels("Late", [ccdf.Panel("Pages", [ABOVE], (1,))], "page time, s"),
    "rates": lambda: ccdf.over_rates("Files", [1, 2, 3], {"RED": ABOVE.share}, "Mbit/s", "files per second"),
}


@pytest.mark.parametrize("name", DRAWN)
def test_same_data_same_bytes(name: str) -> None:
    assert DRAWN[name]() == DRAWN[name]()


@pytest.mark.parametrize("name", DRAWN)
def test_it_stands_in_a_page(name: str) -> None:
    root = ElementTree.fromstring(DRAWN[name]())
    assert root.get("viewBox")
    assert root.get("width") is None
    assert "text" in {element.tag.split("}")[-1] for element in root.iter()}


def test_two_figures_share_no_id() -> None:
    ids = [
        {element.get("id") for element in ElementTree.fromstring(draw()).iter()} - {None}
        for draw in (DRAWN["profile"], DRAWN["bars"])
    ]
    assert not ids[0] & ids[1]


def test_the_title_names_the_packets_that_time_out() -> None:
    lost = range(1, 29)
    late = [k <= 3 or k >= 26 for k in lost]
    svg = single_loss_profile(lost, [2.0] * 28, [2.0] * 28, 1.0, late)
    assert "Losing packet 1–3 or 26–28 costs a timeout" in svg


def test_legends_name_only_what_is_drawn() -> None:
    alone = pages.page_bars("Faster", [SERIES])
    assert "paper" not in alone
    assert "ns-2" not in alone
    assert "paper" in DRAWN["bars"]()

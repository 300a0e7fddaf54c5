"""Tests of the figures: valid, deterministic SVG with a title and a description."""

import re
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib import rc_context
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from catnip.analysis.interval import Interval
from catnip.figures import bursts, ccdf, cells, lines, pages, style, waterfalls
from catnip.figures.transfers import sequence_plots, single_loss_profile
from catnip.papers.diffserv.figures import COMPARED
from catnip.papers.diffserv.runs import SCHEMES
from catnip.papers.newcwv.beyond import HOSTS, MARKED

SVG = "{http://www.w3.org/2000/svg}"
TENTHS = [n / 10 for n in range(1, 11)]
SERIES = pages.Series("Reno", TENTHS, TENTHS, [t + 0.1 for t in TENTHS], TENTHS)
REFERENCED = pages.Series(
    "ECA", TENTHS, TENTHS, TENTHS, TENTHS,
    paper_mean=TENTHS, paper_sd=TENTHS, ns2_mean=TENTHS, ns2_low=TENTHS, ns2_high=TENTHS, ns2_sd=TENTHS,
)  # fmt: skip
ABOVE = ccdf.Curve("RED", np.array([0.0, 1.0, 2.0]), [Interval(p, p - 0.1, p + 0.1, 5) for p in (1, 0.5, 0)])
MAPPED = lines.Panel(
    "buffer", "", "", [lines.Line("gain", range(2), [5, 9], [4, 8], [6, 10], dots=True)], ["15 KB", "30 KB"],
    band=(-25, 0), usual=1,
)  # fmt: skip
CELLS = cells.Cells(
    "files", "time, s", np.array([[0.5, 2.0], [np.nan, 9.0]]), np.array([[0.01, np.nan], [np.nan, 0.25]]),
    ["5ms", "80ms"], ["1Mbit", "2Mbit"], "rate", "delay", "files",
)  # fmt: skip
NO_PARTS = dict.fromkeys(waterfalls.PARTS, 0.0)
BARS = [
    waterfalls.Bar(f"image-{n}.png", 1500 * n, 10.0 * n, {**NO_PARTS, "wait": 40.0, "receive": 5.0 * n})
    for n in range(1, 5)
]
MARKS = {"first byte": 50.0, "load event": 100.0}
DRAWN: dict[str, Callable[[], str]] = {
    "profile": lambda: single_loss_profile([1, 2, 3], [3, 2, 1], [3, 2, 1], 1.0, [True, True, False]),
    "sequence": lambda: sequence_plots([("Reno", [0.0, 0.1, 0.5], [0, 1, 1])] * 4, "Four"),
    "one panel": lambda: sequence_plots([("Reno", [0.0, 0.1], [0, 1])]),
    "bars": lambda: pages.page_bars("Faster", [SERIES, REFERENCED]),
    "ccdf": lambda: ccdf.ccdf_panels("Late", [ccdf.Panel("Pages", [ABOVE], (1,))], "page time, s"),
    "map": lambda: lines.panels("Gain", [MAPPED, MAPPED]),
    "cells": lambda: cells.heat_maps("Times", [CELLS, replace(CELLS, title="others", upwards=False)]),
    "waterfall": lambda: waterfalls.waterfall("HTTP/2", BARS, MARKS, 120.0),
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
    assert root.get("role") == "img"
    title, description, *_ = root
    assert (title.tag, description.tag) == (f"{SVG}title", f"{SVG}desc")
    assert title.text
    assert description.text


@pytest.mark.parametrize("name", DRAWN)
def test_no_font_is_needed_where_it_is_shown(name: str) -> None:
    root = ElementTree.fromstring(DRAWN[name]())
    assert not list(root.iter(f"{SVG}text"))
    assert "font" not in DRAWN[name]()
    # Letters are outlines that are defined once and used often.
    outlines = {f"#{path.get('id')}" for path in root.iter(f"{SVG}path") if path.get("id")}
    uses = [use.get("{http://www.w3.org/1999/xlink}href") for use in root.iter(f"{SVG}use")]
    assert len(uses) > len(outlines) > 10
    assert set(uses) <= outlines


def test_the_description_says_what_is_written() -> None:
    drawn = ccdf.ccdf_panels("Late", [ccdf.Panel("Pages", [ABOVE], (1,))], "page time, s")
    assert "<desc>Panels: Pages. Across: page time, s. Shown: RED.</desc>" in drawn


def colours(drawing: str) -> set[str]:
    return set(re.findall(r"#[0-9a-f]{6}\b", drawing)) & {look.colour for look in style.LOOKS}


def test_a_name_looks_the_same_wherever_it_stands() -> None:
    looks = {"RED": 3}
    alone = ccdf.ccdf_panels("One", [ccdf.Panel("", [ABOVE])], "s", looks)
    after = ccdf.over_rates("Two", [1, 2, 3], {"other": ABOVE.share, "RED": ABOVE.share}, "", "", looks)
    assert colours(alone) == {style.LOOKS[3].colour}
    assert colours(after) == {style.LOOKS[3].colour, style.LOOKS[0].colour}


def test_bars_differ_without_colours() -> None:
    drawn = bursts.grouped_bars("Bars", ["a", "b", "c"], {f"{n}": ABOVE.share for n in range(8)}, "s")
    patterns = ElementTree.fromstring(drawn).iter(f"{SVG}pattern")
    strokes = [path.get("d") for pattern in patterns for path in pattern.iter(f"{SVG}path")]
    # Blue and grey have no pattern.
    assert len(strokes) == len(set(strokes)) == 6


def test_looks_differ_without_colours() -> None:
    assert len({look.dashes for look in style.LOOKS[: style.RAMP]}) == style.RAMP
    assert len({look.dashes for look in style.LOOKS[style.RAMP :]}) == len(style.LOOKS) - style.RAMP


@pytest.mark.parametrize(
    ("name", "drawn_together"),
    [
        ("catnip", [["Reno", "Reno+RBPLW", "ECA", "ECA+RBPLW"]]),
        ("hysteresis", [["Hysteresis", "Cardwell-00", "Sikdar"], ["Partial CATNIP", "CATNIP"]]),
        ("diffserv", [[*SCHEMES], [*COMPARED]]),
        ("newcwv", [[*HOSTS], [*MARKED], ["Tahoe", "Reno", "NewReno", "SACK"]]),
    ],
)
def test_series_of_one_figure_look_different(name: str, drawn_together: list[list[str]]) -> None:
    looks = import_module(f"catnip.papers.{name}.figures").LOOKS
    assert set(looks.values()) <= set(range(len(style.LOOKS)))
    for names in drawn_together:
        assert len({looks[one] for one in names}) == len(names)


def test_a_drawing_has_no_digit_that_nobody_sees() -> None:
    lines = re.findall(r' d="([^"]*)" clip-path', DRAWN["bars"]())
    assert {len(digits) for line in lines for digits in re.findall(r"\.(\d+)", line)} == {1, 2}


def test_two_figures_share_no_id() -> None:
    ids = [
        {element.get("id") for element in ElementTree.fromstring(draw()).iter()} - {None}
        for draw in (DRAWN["profile"], DRAWN["bars"])
    ]
    assert not ids[0] & ids[1]


def test_the_title_names_the_packets_that_time_out() -> None:
    lost = range(1, 29)
    timed_out = [k <= 3 or k >= 26 for k in lost]
    svg = single_loss_profile(lost, [2.0] * 28, [2.0] * 28, 1.0, timed_out)
    assert "<title>Losing packet 1–3 or 26–28 costs a timeout</title>" in svg


def test_legends_name_only_what_is_drawn() -> None:
    alone = pages.page_bars("Faster", [SERIES])
    assert "paper" not in alone
    assert "ns-2" not in alone
    assert "paper" in DRAWN["bars"]()


@pytest.mark.parametrize("band", [(-25, 0), (15, np.inf), (-np.inf, 0)])
def test_a_band_is_in_view_wherever_the_values_lie(band: tuple[float, float]) -> None:
    axes = Figure().subplots()
    lines._draw(axes, replace(MAPPED, band=band), ["gain"])
    low, high = axes.get_ylim()
    shaded = next(patch for patch in axes.patches).get_extents().transformed(axes.transData.inverted())
    assert low < 4
    assert high > 10
    for edge, has in zip(band, (shaded.y0, shaded.y1), strict=True):
        assert has == pytest.approx(edge if np.isfinite(edge) else (low if edge < 0 else high))
        assert low <= has <= high
    assert shaded.height > 0.05 * (high - low)
    assert [line.get_linestyle() for line in axes.lines if np.array_equal(line.get_xdata(), [1, 1])] == [":"]


def test_cells_have_their_mean_and_half_width_and_letters_that_stand_out() -> None:
    with rc_context({"text.parse_math": False}):
        figure = Figure()
        axes = figure.subplots()
        cells._draw(figure, axes, CELLS, (0.5, 9.0))
    written = {text.get_text(): text.get_color() for text in axes.texts}
    assert list(written) == ["0.50", "± 0.010", "2.00", "–", "9.00", "± 0.25"]
    assert (written["0.50"], written["9.00"]) == (cells.ON_DARK_COLOUR, style.ON_COLOUR)
    assert not {cells.ON_DARK_COLOUR, style.ON_COLOUR} & set(style.ON_DARK), (
        "cells are the same on a dark page"
    )


def test_heat_maps_of_one_group_share_their_colours() -> None:
    other = replace(CELLS, mean=2 * CELLS.mean)
    together, apart = (
        cells.heat_maps("Times", [CELLS, one]) for one in (other, replace(other, scale="others"))
    )
    lightest = "#fde725"
    assert together.count(f"fill: {lightest}") < apart.count(f"fill: {lightest}")


def drawn_bars(bars: list[waterfalls.Bar], end_ms: float) -> list[tuple[float, float, float, str]]:
    """Returns row, begin, end and colour of each part that is drawn."""
    axes = Figure().subplots()
    for row, bar in enumerate(bars):
        waterfalls._draw(axes, row, bar, end_ms)
    return [
        (round(box.y0 + box.height / 2), box.x0, box.x1, to_hex(patch.get_facecolor()))
        for patch in axes.patches
        for box in [patch.get_window_extent().transformed(axes.transData.inverted())]
    ]


def test_the_parts_of_a_fetch_follow_each_other_in_a_row_each_in_its_colour() -> None:
    parts_ms = {part: 10.0 * number for number, part in enumerate(waterfalls.PARTS, 1)}
    drawn = drawn_bars([BARS[0], waterfalls.Bar("a", 1, 30.0, parts_ms)], 400.0)
    row = [part for part in drawn if part[0] == 1]
    assert [colour for *_, colour in row] == [colour for _, colour, _ in waterfalls.PARTS.values()]
    assert len({colour for *_, colour in row}) == len(waterfalls.PARTS)
    at_ms = 30.0
    for (_, begin, end, _), duration_ms in zip(row, parts_ms.values(), strict=True):
        assert (begin, end) == pytest.approx((at_ms, at_ms + duration_ms))
        at_ms = end
    assert len([part for part in drawn if part[0] == 0]) == 2, "parts without a duration are not drawn"


def test_the_shortest_part_is_a_pixel_wide_and_above_the_next_one() -> None:
    tiny = waterfalls.Bar("a", 1, 0.0, {**NO_PARTS, "tls": 0.01, "wait": 500.0})
    (_, begin, end, _), (_, after, *_) = drawn_bars([tiny], 750.0)
    assert (begin, end) == pytest.approx((0.0, 1.0))
    assert after == pytest.approx(0.01)
    axes = Figure().subplots()
    waterfalls._draw(axes, 0, tiny, 750.0)
    shortest, longer = axes.patches
    assert shortest.get_zorder() > longer.get_zorder()


@pytest.mark.parametrize(("objects", "rows"), [(3, 3), (60, 60), (61, 60), (300, 60)])
def test_a_waterfall_of_many_objects_tells_how_many_it_leaves_out(
    objects: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Figure] = []

    def keep(figure: Figure, _: str) -> str:
        seen.append(figure)
        return ""

    monkeypatch.setattr(style, "svg", keep)
    waterfalls.waterfall("All", [BARS[0]] * objects, MARKS, 100.0)
    [axes] = seen[0].axes
    labels = [label.get_text() for label in axes.get_yticklabels()]
    more = [f"and {objects - rows} more"] if objects > rows else []
    assert labels == ["image-1.png"] * rows + more
    centres = [patch.get_path().get_extents(patch.get_patch_transform()) for patch in axes.patches]
    assert {round(box.y0 + box.height / 2) for box in centres} == set(range(rows))
    assert axes.get_ylim()[0] > len(labels) - 1
    height = seen[0].get_size_inches()[1]
    assert height < 15, "a page of a screen or two"


def test_the_legend_of_a_waterfall_names_what_is_drawn_and_the_times_of_milestones() -> None:
    drawn = DRAWN["waterfall"]()
    assert "Shown: wait for the first byte; first byte, 50 ms; receive; load event, 100 ms." in drawn
    assert "TLS" not in drawn
    assert "first rendering" not in drawn


def test_the_colours_of_a_waterfall_are_those_that_change_on_a_dark_page() -> None:
    parts = {colour for _, colour, _ in waterfalls.PARTS.values()}
    assert parts | {colour for _, colour, _ in waterfalls.MARKS} <= set(style.ON_DARK)
    assert len({style.ON_DARK[colour] for colour in parts}) == len(parts)


def test_a_long_name_keeps_its_begin_and_its_end() -> None:
    name = "application-of-a-shop." + 40 * "0" + ".min.js"
    short = waterfalls._shortened(name)
    assert len(short) <= waterfalls.LONGEST_NAME
    begin, end = short.split("…")
    assert name.startswith(begin) and name.endswith(end) and end.endswith(".min.js")
    assert waterfalls._shortened("a.js") == "a.js"

"""Tests of the comparison of page times with a browser: sites, cells, claims, and quantities by hand."""

import re
import struct
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catnip.analysis import resampling
from catnip.base.progress import Progress
from catnip.papers import runner
from catnip.papers.pages import agreement, runs
from catnip.papers.pages.cells import CELLS, QUICK, Cell
from catnip.papers.pages.runs import Measured, PageRuns
from catnip.papers.pages.sites import LEAST_BYTES, MOST_BYTES, ORIGINS, SITES, Site, png
from catnip.web import site

by_site = pytest.mark.parametrize("made", SITES, ids=lambda made: made.name)


@by_site
def test_a_site_has_its_objects_and_origins_and_the_page_names_each_object_once(made: Site) -> None:
    exchanges = made.exchanges()
    html, *objects = exchanges
    assert len(exchanges) == made.objects
    assert len({one.origin for one in exchanges}) == made.origins == ORIGINS[made.objects]
    page = html.response.body.decode()
    assert html.request.url == made.url
    named = re.findall(r'(?:src|href)="(https:[^"]*)"', page)
    assert sorted(named) == sorted(one.request.url for one in objects)
    assert 30_000 <= len(page) <= 61_000
    sizes = [len(one.response.body) for one in objects]
    assert all(LEAST_BYTES <= size <= MOST_BYTES for size in sizes)


def test_sheets_and_scripts_are_in_the_head_and_scripts_end_the_body_after_images_of_all_origins() -> None:
    made = Site(60, "2")
    assert (len(made.sheets), len(made.scripts), len(made.images)) == (3, 8, 48)
    head, body = made.exchanges()[0].response.body.decode().split("<body>")
    found = re.findall(r"/([a-z]+\d+\.\w+)\"", head)
    assert found == [*made.sheets, *made.scripts[:4]]
    assert re.findall(r"/([a-z]+\d+\.\w+)\"", body) == [*made.images, *made.scripts[4:]]
    hosts = set(re.findall(r"https://([a-z]+)\.site\.example/image", body))
    assert len(hosts) == 8


@by_site
def test_a_site_is_the_same_each_time_and_with_both_versions_of_http(made: Site, tmp_path: Path) -> None:
    other = Site(made.objects, "1.1" if made.http == "2" else "2")
    assert made.exchanges() == Site(made.objects, made.http).exchanges() == other.exchanges()
    made.write(tmp_path / "site")
    read = site.read(tmp_path / "site")
    assert [one.response for one in read.exchanges] == [one.response for one in made.exchanges()]
    assert [one.request.url for one in read.exchanges] == [one.request.url for one in made.exchanges()]
    assert set(read.protocols) == set(read.origins)
    assert set(read.protocols.values()) == {{"1.1": "http/1.1", "2": "h2"}[made.http]}


@pytest.mark.parametrize("size", [1, 300, 5000, MOST_BYTES])
def test_an_image_is_a_whole_png_of_its_size(size: int) -> None:
    image = png(size)
    assert len(image) == max(size, len(png(0)))
    assert len(png(0)) < LEAST_BYTES, "so all sizes are possible"
    at, kinds = 8, []
    while at < len(image):
        [length] = struct.unpack_from(">I", image, at)
        kind, data = image[at + 4 : at + 8], image[at + 8 : at + 8 + length]
        assert struct.unpack_from(">I", image, at + 8 + length) == (zlib.crc32(kind + data),)
        kinds.append(kind)
        at += 12 + length
        if kind == b"IDAT":
            assert len(zlib.decompress(data)) == 20 * (1 + 3 * 20)
    assert kinds == [b"IHDR", b"tEXt", b"IDAT", b"IEND"]


def test_the_claims_are_of_all_cells_with_the_same_band_and_of_all_pairs() -> None:
    stated = runner.data("pages").statements
    of_cells = [one for one in stated if one.ours.quantity == "ratio"]
    assert {Cell(**one.ours.arguments) for one in of_cells} == set(CELLS)
    assert len(of_cells) == len(CELLS) == 12
    assert {tuple(one.bound) for one in of_cells} == {(1 - agreement.CLOSE, 1 + agreement.CLOSE)}
    medians = [dict(one.ours.arguments) for one in stated if one.ours.quantity == "median_s"]
    shown = [(one.pop("source"), Cell(**one)) for one in medians]
    assert sorted(source for source, _ in shown) == ["Chromium"] * 12 + ["ours"] * 12
    assert {cell for _, cell in shown} == set(CELLS)
    pairs = [one.ours.arguments for one in stated if one.ours.quantity == "same_sign"]
    assert [(one["objects"], one["link"]) for one in pairs] == list(agreement.PAIRS)
    for objects, link in agreement.PAIRS:
        assert {Cell(objects, http, link) for http in ("1.1", "2")} <= set(CELLS)


def test_a_quick_run_has_one_cell_which_an_experiment_of_its_own_judges() -> None:
    assert QUICK in CELLS
    stated = [one for one in runner.data("pages").statements if one.experiment == "PAG-E1"]
    assert {one.id for one in stated} == {
        "PAG-E1.ratio.60-2-lte",
        "PAG-E1.median_s.60-2-lte-Chromium",
        "PAG-E1.median_s.60-2-lte-ours",
    }
    quick, whole = known({}, quick=True), known({})
    assert (list(quick.cells), list(whole.cells)) == ([QUICK], list(CELLS))
    assert len(quick.seeds(runs.PAGES)) < len(whole.seeds(runs.PAGES)) == 10


def known(times: dict[Cell, tuple[Sequence[float], Sequence[float]]], quick: bool = False) -> PageRuns:
    """Returns runs that know measured and simulated times of cells."""
    one = PageRuns(quick, None, 1, Progress(quiet=True))
    loads = len(one.seeds(runs.PAGES))
    for cell, (real, ours) in times.items():
        measured = Measured(real, [cell.objects] * len(real), 0, 0, 0)
        one._cache["measured", cell.name, loads] = measured, len(real)
        one._cache["page file", cell.site.name] = "", 1
        one._cache["simulated", cell.name, 4 * loads] = np.array(ours), 1
    return one


def test_the_ratio_is_that_of_the_simulated_median_to_the_browser_s() -> None:
    cell = Cell(10, "2", "lte", 1.0)
    one = known({cell: ([1, 2, 2, 2, 2, 2, 2, 9], [1.5, 1.9, 1.9, 1.9, 1.9, 1.9, 8])})
    found = agreement.ratio(one, 10, "2", "lte", 1)
    assert found.mean == pytest.approx(0.95)
    assert found.low <= 0.95 <= found.high
    assert agreement.median_s(one, 10, "2", "lte", "Chromium", 1).mean == 2
    assert agreement.median_s(one, 10, "2", "lte", "ours", 1).mean == 1.9


@pytest.mark.parametrize(("ours", "same"), [(0.9, "yes"), (1.1, "no"), (1.0, "no")])
def test_the_sign_is_that_of_the_difference_of_the_medians(ours: float, same: str) -> None:
    old, new = Cell(10, "1.1", "slow-4g"), Cell(10, "2", "slow-4g")
    one = known({old: ([2, 2, 3], [1, 1, 1]), new: ([1.5, 1.5, 9], [ours] * 3)})
    assert agreement.same_sign(one, 10, "slow-4g") == same
    assert agreement.http2_less_s(one, 10, "slow-4g", "Chromium").mean == -0.5


def test_a_load_without_an_object_and_loads_that_do_not_count_are_counted() -> None:
    one = known({QUICK: ([1.0] * 6, [1.0] * 24)}, quick=True)
    key = ("measured", QUICK.name, 6)
    one._cache[key] = Measured([1.0] * 3, [60, 59, 60], 4, 1, 2), 3
    assert agreement.missing_objects(one) == "1"
    assert (agreement.failed(one), agreement.red_certificates(one), agreement.repeated(one)) == ("2", "1", 4)


def test_intervals_of_medians_are_unknown_for_few_values_and_hold_the_true_ratio_of_more() -> None:
    assert np.isnan(resampling.of_medians(np.positive, [1.0, 2.0, 3.0]).low)
    rng, hits = np.random.default_rng(3), 0
    for _ in range(200):
        left, right = rng.lognormal(0, 0.1, 40), rng.lognormal(0, 0.1, 10)
        found = resampling.of_medians(np.divide, left, right, resamples=500)
        hits += found.low <= 1 <= found.high
    assert hits > 180


def test_what_does_not_count_is_repeated_twice_with_its_seeds_and_the_last_try_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = list[tuple[int, int]]()

    def visits(_cell: Cell, _folder: Path, first: int, loads: int) -> list[dict[str, Any]]:
        asked.append((first, loads))
        tried = Counter(seed for begin, many in asked for seed in range(begin, begin + many))
        return [
            {
                "seed": seed,
                # Seed 5 never loads, 2 is red once, 3 has busy cores always.
                "load": None if seed == 5 else {"seconds": tried[seed], "objects": 60},
                "failure": "the browser exited" if seed == 5 else None,
                "certificate": {
                    "verdict": "red" if seed == 2 and tried[seed] == 1 else "green",
                    "busy": seed == 3,
                },
            }
            for seed in range(first, first + loads)
        ]

    monkeypatch.setattr(runs, "_visits", visits)
    monkeypatch.setattr(runs, "_require_browser", lambda: None)
    made = runs._measured(QUICK, [1, 2, 3, 4, 5])
    assert asked == [(1, 5), (2, 2), (5, 1), (3, 1), (5, 1)]
    assert made == Measured([1, 2, 3, 1], [60] * 4, repeated=5, red=1, failed=1)


PAGE = """{"catnip_page": 1, "origins": ["https://www.site.example:443"], "pages": [
{"url": "https://www.site.example:443/", "objects": [
{"origin":0,"path":"/","request_bytes":420,"bytes":60000,"server_ms":1.0,"after":null,"delay_ms":0.0,"connection":0}
]}]}"""


def test_a_simulated_cell_has_its_link_and_gives_the_same_times_again() -> None:
    times = runs.simulated(Cell(1, "2", "lte"), PAGE, [1, 2, 3])
    assert len(times) == 3
    # A look-up, TCP, TLS and the request: four round trips of 70 ms, and 60 KB over 12 Mbit/s.
    assert all(times > 4 * 0.07 + 0.04) and all(times < 1)
    assert (times == runs.simulated(Cell(1, "2", "lte"), PAGE, [1, 2, 3])).all()
    assert (runs.simulated(Cell(1, "2", "satellite"), PAGE, [1]) > 2.4).all()
    lossy = runs.simulated(Cell(1, "2", "lte", 5.0), PAGE, range(1, 31))
    assert np.median(lossy) > np.median(times) and max(lossy) > 1.5 * max(times)

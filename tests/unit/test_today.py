"""Tests of the benefit of context today: pages, cells, and quantities on hand-made runs."""

import csv
import itertools
import json
import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from catnip.analysis import stats
from catnip.analysis.interval import Interval
from catnip.base import paths
from catnip.base.progress import Progress
from catnip.papers import reference, runner
from catnip.papers.today import quantities
from catnip.papers.today.cells import (
    ALL_SETS,
    BASE,
    BEYOND,
    BEYOND_QUEUES,
    LOSSES,
    PAGE_SETS,
    QUEUES,
    STEPS,
    step,
)
from catnip.papers.today.runs import MARKED, OLD, OLD_QUEUES, OLD_VARIANT, CellRuns, Pages, Result, reduced

TABLE = Path(reference.__file__).parent / "today" / "reference" / "today_pages.csv"
SPREAD = 2.3


def test_the_pages_of_today_are_what_the_almanac_and_the_recipe_beside_them_say() -> None:
    expected = []
    for page, percentile in enumerate(quantities.WEIGHED, 1):
        almanac = partial(quantities.almanac, percentile=percentile)
        html = round(1024 * almanac("HTML of a page"))
        others = int(almanac("requests")) - 1
        parts = [math.exp(SPREAD * NormalDist().inv_cdf((n + 0.5) / others)) for n in range(others)]
        stride = next(n for n in range(round(0.618 * others), others) if math.gcd(n, others) == 1)
        mixed = [parts[(n * stride + stride // 2) % others] for n in range(others)]
        remaining = round(1024 * almanac("page weight")) - html
        ends = [round(remaining * sum(mixed[:n]) / sum(mixed)) for n in range(others + 1)]
        sizes = [html, *(end - start for start, end in itertools.pairwise(ends))]
        expected += [[str(page), str(n), str(size)] for n, size in enumerate(sizes)]
    with TABLE.open(encoding="utf-8", newline="") as opened:
        rows = [[row["page"], row["object_index"], row["bytes"]] for row in csv.DictReader(opened)]
    assert rows == expected


def test_the_sites_of_today_are_the_pages_by_the_recipe_beside_them() -> None:
    kinds = (
        *("script", "image", "script", "stylesheet", "image", "script"),
        *("fetch", "script", "image", "font", "fetch", "other"),
    )
    document = json.loads(TABLE.with_name("today_sites.page.json").read_text(encoding="utf-8"))
    with TABLE.open(encoding="utf-8", newline="") as opened:
        listed = [(int(row["page"]), int(row["bytes"])) for row in csv.DictReader(opened)]
    sizes = [[size for page, size in listed if page == number] for number in range(1, 6)]
    assert [[one["bytes"] for one in page["objects"]] for page in document["pages"]] == sizes
    for number, page in enumerate(document["pages"]):
        objects = page["objects"]
        hosts = [max(0, n % 10 - 2) for n in range(len(objects))]
        assert [one["origin"] for one in objects] == [8 * number + host for host in hosts]
        expected = ["document", *(kinds[n % 12] for n in range(len(objects) - 1))]
        assert [one["kind"] for one in objects] == expected
        for n, one in enumerate(objects):
            late = n >= 0.6 * len(objects)
            scripts = [m for m in range(n // 2 + 1) if expected[m] == "script"]
            after = (None, 0.0) if n == 0 else (scripts[-1], 20.0) if late else (0, 5.0)
            assert (one["after"], one["delay_ms"]) == after
            assert one["compressed_bytes"] == (60 if hosts[n] in hosts[:n] else 400)
            blocks = n < 0.2 * len(objects) and expected[n] in ("document", "script", "stylesheet")
            assert (one.get("holds") == "render") == blocks
    assert all(origin.startswith("https://") for origin in document["origins"])


@pytest.mark.parametrize("place", ALL_SETS)
def test_every_cell_is_a_scenario_with_all_queues_and_differs_from_the_first_one(place: str) -> None:
    where = ALL_SETS[place]
    texts = set()
    for changes in where.cells().values():
        scenario = paths.scenario(where.scenario, changes)
        assert set(scenario.variants) == set(QUEUES)
        texts.add(str(changes))
    assert len(texts) == len(where.cells())


def test_a_cell_beyond_single_factors_runs_behind_the_queues_that_are_compared() -> None:
    for name in BEYOND:
        changes, queues = PAGE_SETS["ten"].cell(name)
        assert queues == BEYOND_QUEUES
        assert set(BEYOND_QUEUES) <= set(paths.scenario("today", changes).variants)
    # Bursts of four packets on average, as many packets lost as by themselves.
    for name, share in (("1 % lost in bursts", 0.01), ("5 % lost in bursts", 0.05)):
        to_bad = float(LOSSES[name].partition("to_bad=")[2].partition(",")[0])
        assert to_bad / (to_bad + 0.25) == pytest.approx(share, rel=1e-3)


def test_a_recorded_rate_never_goes_back_and_has_the_mean_that_its_table_states() -> None:
    folder = Path(paths.scenario("today").path).parent / "traces"
    stated = [row.split(" | ") for row in (folder / "README.md").read_text(encoding="utf-8").splitlines()]
    rates = {row[0].removeprefix("| "): float(row[4].split()[0]) for row in stated if ".trace" in row[0]}
    assert set(rates) == {path.name for path in folder.glob("*.trace")}
    for name, mbps in rates.items():
        times_ms = [int(line) for line in (folder / name).read_text(encoding="ascii").split()]
        assert times_ms == sorted(times_ms)
        assert len(times_ms) * 1500 * 8 / times_ms[-1] / 1000 == pytest.approx(mbps, abs=0.05)


def test_each_cell_is_claimed_at_each_place_and_its_pages_have_the_time_to_finish_that_is_said() -> None:
    stated = runner.data("today").statements
    for name, page_set in ALL_SETS.items():
        claimed = {
            one.ours.arguments.get("cell") for one in stated if one.ours.arguments.get("page_set") == name
        }
        beyond = set(BEYOND) if name == "ten" else set()
        assert claimed - {None} == set(page_set.cells()) | beyond
        tail = next(
            one
            for one in stated
            if one.ours.quantity == "longest_tail_s" and one.ours.arguments["page_set"] == name
        )
        text = Path(paths.scenario(page_set.scenario).path).read_text(encoding="utf-8")
        assert f'duration = "{page_set.counted_s[1] + tail.bound}s"' in text


def test_the_places_have_the_buffers_of_which_their_cells_speak() -> None:
    # Bandwidth-delay products in packets of 1500 bytes: 10 Mbit/s and 60 ms, 40 Mbit/s and 30 ms.
    assert [page_set.product for page_set in ALL_SETS.values()] == [50, 100, 100]
    for page_set in ALL_SETS.values():
        text = Path(paths.scenario(page_set.scenario).path).read_text(encoding="utf-8")
        assert f'buffer = "{page_set.product}"' in text


def test_steps_add_up_until_the_hosts_are_those_of_the_line_of_today() -> None:
    assert step("the paper's hosts") == []
    assert step("SACK") == [("tcp.recovery", "sack")]
    last = dict(step(list(STEPS)[-1]))
    assert (last["tcp.profile"], last["tcp.recovery"], last["tcp.control"]) == (
        "linux-6",
        "rack",
        "linux-cubic",
    )
    for queue in OLD_QUEUES.values():
        for name in STEPS:
            changed = paths.scenario(OLD, [*step(name), ("link.bottleneck.queue", queue)])
            assert OLD_VARIANT in changed.variants


def rows(**columns: Any) -> dict[str, np.ndarray]:
    return {name: np.array(values) for name, values in columns.items()}


def test_pages_count_by_when_they_begin_and_those_without_an_end_by_how_long_they_have_lasted() -> None:
    tables = {
        "transfers": rows(
            seed=[3, 3, 4, 4, 4],
            group=["web", "web", "web", "web", "other"],
            start_s=[9.0, 10.0, 20.0, 90.0, 30.0],
            waited_s=[1.0, 2.0, 70.0, 4.0, 5.0],
        ),
        "groups": rows(seed=[3, 4], group=["file", "file"], goodput_mbps=[1.0, 2.0]),
        "ports": rows(
            seed=[3, 4, 3],
            port=["line", "line", "line:back"],
            queue_delay_mean_s=[0.01, 0.02, 9.0],
            utilization=[0.5, 0.6, 9.0],
            **{f"arrived_{name}": [10, 0, 9] for name in ("high", "med", "low")},
            **{f"dropped_{name}": [1, 0, 9] for name in ("high", "med", "low")},
        ),
    }
    result = reduced(tables, [3, 4], (10, 90))
    web = result.pages["web"]
    assert (list(web.waited_s), list(web.run)) == ([2.0, 70.0], [0, 1])
    assert list(result.pages["other"].waited_s) == [5.0]
    assert (list(result.file_mbps), list(result.queue_s), result.runs) == ([1.0, 2.0], [0.01, 0.02], 2)
    assert result.loss["high"][0] == 0.1 and math.isnan(result.loss["high"][1])


def result(times_s: Mapping[int, list[float]], file_mbps: list[float]) -> Result:
    """Returns the results of a cell behind a queue, with these page times per run.

    Pages of the other servers take twice as long.
    """
    waited = np.array([time for times in times_s.values() for time in times])
    run = np.array([run for run, times in times_s.items() for _ in times])
    none = np.full(len(times_s), math.nan)
    pages = {"web": Pages(waited, run), "other": Pages(2 * waited, run)}
    return Result(pages, np.array(file_mbps), {"high": none, "low": none}, none, none)


def known(cells: Mapping[str, Mapping[str, Result]]) -> CellRuns:
    """Returns runs that already have the results of these cells with the ten pages."""
    with Progress(quiet=True) as progress:
        runs = CellRuns(False, 2, 1, progress)
    for name, queues in cells.items():
        runs.cached(("ten", name), partial(dict, queues))
    return runs


def test_changes_are_those_of_quantiles_of_all_pages_and_rates_of_all_runs() -> None:
    base = result({0: [1.0, 2.0, 3.0], 1: [3.0, 4.0, 5.0]}, [2.0, 4.0])
    half = result({0: [0.5, 1.0, 1.5], 1: [1.5, 2.0, 2.5]}, [1.0, 2.0])
    runs = known({BASE: {"DropTail": base, "CATNIP-Good": half}})
    assert quantities.page_s(runs, "ten", BASE, "DropTail", "median").mean == 3.0
    change = quantities.change_pct(runs, "ten", BASE, "CATNIP-Good", "95th percentile")
    assert (change.mean, change.low, change.high, change.n) == pytest.approx((-50, -50, -50, 2))
    others = quantities.change_pct(runs, "ten", BASE, "DropTail", "median", "CATNIP-Good", "other")
    assert others.mean == pytest.approx(100)
    files = quantities.file_change_pct(runs, "ten", BASE, "CATNIP-Good")
    assert (files.mean, files.low, files.high) == pytest.approx((-50, -50, -50))


def test_a_change_of_quantiles_is_paired_run_by_run() -> None:
    # Of five pages in each of four runs, one, two, two and three are done by 1.5 s; DropTail's all take 1 s.
    times = {run: [1.0 + 0.1 * run] * done + [3.0] * (5 - done) for run, done in enumerate((1, 2, 2, 3))}
    base, ours = result({run: [1.0] * 5 for run in times}, [1.0] * 4), result(times, [1.0] * 4)
    cells = known({BASE: {"DropTail": base, "RED": ours}})
    interval, values = ours.pages[MARKED].quantile(0.5, 4)
    change = quantities.change_pct(cells, "ten", BASE, "RED", "median")
    assert interval.mean == 3
    assert np.mean(values) == pytest.approx(3)
    alone = stats.mean(100 * (values - 1))
    assert (change.mean, change.low, change.high) == pytest.approx((alone.mean, alone.low, alone.high))
    assert quantities.change_pct(cells, "ten", BASE, "DropTail", "median") == Interval(0, 0, 0, 4)

"""Tests of the milestones of recorded pages, which are means of the table `loads`."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import catnip as package
from catnip._core import Scenario
from catnip.analysis.milestones import MILESTONES
from catnip.base import paths
from catnip.report import summary_tables
from catnip.store import sites
from conftest import Run

SITE = str(Path(paths.PACKAGE) / "scenarios" / "pages" / "site.har")
NAMES = ["HTTP/1.1", "HTTP/2, one connection"]
SECOND_GROUP = """
base = "{base}"
id = "X-78"
seeds = 2
[traffic.site]
page = "{site}"
[traffic.other]
kind = "page"
clients = "home"
servers = "server"
page = "{site}"
tls = "none"
[traffic.file]
kind = "bulk"
from = "server[0]"
to = "home"
bytes = 100000
[[variant]]
name = "both"
"""


@pytest.fixture(scope="module")
def read() -> package.Results:
    return package.run("recorded-page", seeds=10, variants=NAMES)


def of_site(read: package.Results, name: str) -> Any:
    return read.summary[name].groups["site"]


@pytest.mark.parametrize("name", NAMES)
def test_a_milestone_is_the_mean_of_its_column_and_the_last_one_is_the_page_time(
    read: package.Results, name: str
) -> None:
    loads = {key: np.asarray(column) for key, column in read.tables["loads"].items()}
    here = loads["variant"] == NAMES.index(name)
    of = of_site(read, name)
    assert tuple(of.milestones) == MILESTONES
    for milestone, one in of.milestones.items():
        interval = one.means["page_time_s"]
        assert interval.mean == pytest.approx(float(loads[milestone][here].mean()))
        by_seed = [loads[milestone][here & (loads["seed"] == seed)].mean() for seed in read.seeds]
        assert one.values["page_time_s"] == pytest.approx(by_seed)
        assert interval.n == 10
        assert (one.started, one.finished) == (100, 100)
    last, time = of.milestones["time_s"].means["page_time_s"], of.means["page_time_s"]
    assert (last.mean, last.low, last.high) == pytest.approx((time.mean, time.low, time.high), rel=1e-12)
    assert time.low < time.high


def test_a_table_of_milestones_follows_those_of_groups_and_changes_none(
    read: package.Results, catnip: Run
) -> None:
    tables = summary_tables.tables(read.title, read.seeds, read.summary)
    assert [table.title.split(" (")[0] for table in tables] == [read.title, "Milestones", "Links"]
    [_, milestones, _] = tables
    assert milestones.columns == ("variant", *summary_tables.MILESTONES.values())
    for row in milestones.rows:
        means = of_site(read, row[0]).milestones
        assert row[1:] == tuple(str(means[one].means["page_time_s"]) for one in MILESTONES)
    chosen = [word for name in NAMES for word in ("--variant", name)]
    printed = catnip("run", "recorded-page", *chosen).out
    head, after = printed.split("Milestones\n")
    assert "Links" in after and "Links" not in head
    for row in milestones.rows:
        assert " ".join(" ".join(row).split()) in " ".join(after.split())


def test_milestones_are_printed_whatever_is_written_and_again_of_what_is_stored(
    catnip: Run, tmp_path: Path
) -> None:
    words = ["run", "recorded-page", "--seeds", 2, "--json"]
    alone = json.loads(catnip(*words).out)["variants"]
    stored = json.loads(catnip(*words, "--out", tmp_path / "all").out)["variants"]
    few = json.loads(catnip(*words, "--out", tmp_path / "few", "--tables", "runs").out)["variants"]
    again = json.loads(catnip("results", tmp_path / "all", "--json").out)["variants"]
    assert [path.name for path in (tmp_path / "few").glob("*.parquet")] == ["runs.parquet"]
    for name, one in alone.items():
        expected = one["groups"]["site"]["milestones"]
        assert set(expected) == set(MILESTONES)
        for other in (stored, few, again):
            assert other[name]["groups"]["site"]["milestones"] == expected


def test_loads_of_the_warm_up_have_no_part_in_milestones() -> None:
    late = package.run("recorded-page", seeds=3, variants=NAMES[:1], set={"warm_up": "10s"})
    loads = {key: np.asarray(column) for key, column in late.tables["loads"].items()}
    counted = loads["start_s"] >= 10
    assert 0 < counted.sum() < len(counted)
    for milestone, one in of_site(late, NAMES[0]).milestones.items():
        assert one.finished == counted.sum()
        by_seed = [loads[milestone][counted & (loads["seed"] == seed)].mean() for seed in late.seeds]
        assert one.means["page_time_s"].mean == pytest.approx(np.mean(by_seed))


def test_unfinished_loads_mark_the_milestones_of_the_others(catnip: Run) -> None:
    ended = catnip("run", "recorded-page", "--seeds", 2, "--set", "duration=8s", "--variant", NAMES[0])
    table = ended.out.split("Milestones\n")[1].split("Links")[0]
    [row] = [line for line in table.splitlines() if line.strip().startswith(NAMES[0])]
    assert row.count(" *") == len(MILESTONES)
    assert ended.out.count("* Mean of the transfers that finished") == 1


def test_each_group_of_recorded_pages_has_milestones_and_no_other_group(tmp_path: Path) -> None:
    base = Path(paths.PACKAGE) / "scenarios" / "recorded-page.toml"
    (tmp_path / "two.toml").write_text(SECOND_GROUP.format(base=base, site=SITE))
    read = package.run(tmp_path / "two.toml")
    groups = read.summary["both"].groups
    assert {name: bool(of.milestones) for name, of in groups.items()} == {
        "site": True,
        "other": True,
        "file": False,
    }
    titles = [table.title for table in summary_tables.tables(read.title, read.seeds, read.summary)]
    assert {"Milestones of site", "Milestones of other"} < set(titles)
    assert all(
        of.milestones["time_s"].means["page_time_s"].mean == pytest.approx(of.means["page_time_s"].mean)
        for of in (groups["site"], groups["other"])
    )


def test_intervals_of_looks_are_wider_in_milestones_too(read: package.Results) -> None:
    of = of_site(read, NAMES[0])
    wider = of.of_look(0.99)
    for name, one in of.milestones.items():
        before, after = (it.means["page_time_s"] for it in (one, wider.milestones[name]))
        assert before.mean == after.mean
        assert not after.high <= before.high


def test_every_bundled_scenario_that_loads_a_site_is_known_to() -> None:
    known = {path.stem: Scenario.load(path) for path in paths.scenario_files()}
    with_loads = {
        name for name, one in known.items() if "[traffic.site]" in one.text and "page =" in one.text
    }
    assert "recorded-page" in with_loads
    assert all(sites.may_load(known[name]) for name in with_loads)
    assert not sites.may_load(known["two-flows"])

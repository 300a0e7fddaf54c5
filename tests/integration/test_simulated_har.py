"""Tests of `catnip har` of stored results: a HAR has what the tables and the recorded site say."""

import json
import re
import shutil
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catnip import _core
from catnip.analysis import loads
from catnip.base import paths
from catnip.cli.options import BAD_INPUT
from catnip.report import har
from catnip.store import results, sites
from conftest import Run
from plans import LINE

RECORDED = Path(paths.PACKAGE) / "scenarios" / "pages" / "site.har"
TWO_PAGES: dict[str, Any] = {
    "catnip_page": 1,
    "origins": ["https://example.org:443", "https://cdn.example.org:8443"],
    "pages": [
        {
            "url": "https://example.org:443/",
            "objects": [
                {
                    "path": "/",
                    "origin": 0,
                    "after": None,
                    "bytes": 18000,
                    "kind": "document",
                    "holds": "render",
                },
                {
                    "path": "/a.js",
                    "origin": 0,
                    "after": 0,
                    "bytes": 4000,
                    "kind": "script",
                    "priority": "u=1",
                },
                {
                    "path": "/b.png",
                    "origin": 1,
                    "after": 1,
                    "bytes": 9000,
                    "kind": "image",
                    "priority": "u=6",
                },
                {"path": "/c", "origin": 1, "after": 0, "bytes": 70000},
                {"path": "/late", "origin": 0, "after": 3, "bytes": 500, "kind": "fetch", "holds": "end"},
            ],
        },
        {
            "url": "https://example.org:443/next",
            "objects": [{"path": "/next", "origin": 0, "after": None, "bytes": 6000, "kind": "document"}],
        },
    ],
}
HEAD = (
    """
id = "X-77"
title = "Two pages of a site"
seeds = 2
"""
    + LINE
    + """
rate = "4Mbit"
delay = "20ms"
queue = "drop-tail:50"
[traffic.site]
kind = "page"
clients = "client"
servers = "server"
page = "two.page.json"
times = 2
think = "1s"
"""
)
VERSIONS = """
[[axis]]
key = "traffic.site.http"
values = ["1.1", "2"]
"""
# http://www.softwareishard.com/blog/har-12-spec: the fields that are not optional, with their types.
FIELDS: dict[str, dict[str, Any]] = {
    "log": {"version": str, "creator": dict, "entries": list, "pages": list},
    "creator": {"name": str, "version": str},
    "page": {"startedDateTime": str, "id": str, "title": str, "pageTimings": dict},
    "pageTimings": {"onContentLoad": (int, float), "onLoad": (int, float)},
    "entry": {
        "pageref": str,
        "startedDateTime": str,
        "time": (int, float),
        "request": dict,
        "response": dict,
        "cache": dict,
        "timings": dict,
        "connection": str,
    },
    "request": {
        "method": str,
        "url": str,
        "httpVersion": str,
        "cookies": list,
        "headers": list,
        "queryString": list,
        "headersSize": int,
        "bodySize": int,
    },
    "response": {
        "status": int,
        "statusText": str,
        "httpVersion": str,
        "cookies": list,
        "headers": list,
        "content": dict,
        "redirectURL": str,
        "headersSize": int,
        "bodySize": int,
    },
    "content": {"size": int, "mimeType": str},
    "timings": dict.fromkeys(("blocked", "dns", "connect", "send", "wait", "receive", "ssl"), (int, float)),
}
OPTIONAL = {"comment"}


def check(name: str, value: dict[str, Any]) -> None:
    """Asserts that an object of a HAR has the specified fields, and others only with an underscore."""
    for field, kind in FIELDS[name].items():
        assert isinstance(value[field], kind), (name, field, value.get(field))
    others = set(value) - set(FIELDS[name]) - OPTIONAL
    assert all(field.startswith("_") for field in others), (name, others)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of the bundled scenario with two of its variants."""
    from catnip import cli  # noqa: PLC0415 -- the fixture `catnip` captures the output of one test

    folder = tmp_path_factory.mktemp("recorded") / "out"
    chosen = ["--variant", "HTTP/1.1", "--variant", "HTTP/2, one connection"]
    assert cli.main(["run", "recorded-page", "--seeds", "2", "--out", str(folder), *chosen]) == 0
    return folder


@pytest.fixture
def two(catnip: Run, tmp_path: Path) -> Path:
    """Results of two pages over TLS."""
    return stored(catnip, tmp_path, VERSIONS)


def stored(catnip: Run, folder: Path, variants: str = "", options: tuple[str, ...] = ()) -> Path:
    site = json.loads(json.dumps(TWO_PAGES))
    for page in site["pages"]:
        for one in page["objects"]:
            one |= {"request_bytes": 400, "server_ms": 3.0, "delay_ms": 1.5, "connection": None}
    (folder / "two.page.json").write_text(json.dumps(site))
    (folder / "two.toml").write_text(HEAD + variants)
    assert catnip("run", folder / "two.toml", "--out", folder / "out", *options).code == 0
    return folder / "out"


def written(catnip: Run, folder: Path, to: Path, *options: object) -> dict[str, Any]:
    """Returns the log of the HAR that the command writes."""
    ended = catnip("har", folder, "--out", to, *options)
    assert (ended.code, ended.err) == (0, "")
    log: dict[str, Any] = json.loads(to.read_text(encoding="utf-8"))["log"]
    return log


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize("variant", ["HTTP/1.1", "HTTP/2, one connection"])
def test_a_simulated_load_is_a_har_by_the_specification(
    catnip: Run, recorded: Path, tmp_path: Path, variant: str
) -> None:
    log = written(catnip, recorded, tmp_path / "load.har", "--variant", variant)
    check("log", log)
    check("creator", log["creator"])
    assert log["version"] == "1.2"
    for page in log["pages"]:
        check("page", page)
        check("pageTimings", page["pageTimings"])
    ids = {page["id"] for page in log["pages"]}
    assert len(log["entries"]) == 12
    for entry in log["entries"]:
        for name, value in (
            ("entry", entry),
            ("request", entry["request"]),
            ("response", entry["response"]),
            ("content", entry["response"]["content"]),
            ("timings", entry["timings"]),
        ):
            check(name, value)
        assert entry["pageref"] in ids
    starts = [moment(entry["startedDateTime"]) for entry in log["entries"]]
    assert all(one <= other for one, other in pairwise(starts)), "the specification asks for this order"
    assert starts[0].tzinfo is not None


@pytest.mark.parametrize("variant", ["http=1.1", "http=2"])
def test_the_times_of_an_entry_are_those_of_its_fetch_and_add_up_to_its_time(
    catnip: Run, two: Path, tmp_path: Path, variant: str
) -> None:
    log = written(catnip, two, tmp_path / "load.har", "--variant", variant, "--seed", 2)
    manifest, tables = results.read(two, loads.TABLES)
    of_run = loads.loads_of(tables, manifest.variants.index(variant), 2)
    fetches = {(load.page, fetch.object): fetch for load in of_run[:2] for fetch in load.fetches}
    assert len(fetches) == len(log["entries"]) == 6
    urls = {page: [one["path"] for one in of["objects"]] for page, of in enumerate(TWO_PAGES["pages"], 1)}
    seen = set()
    for entry in log["entries"]:
        timings = entry["timings"]
        parts = {key: max(0.0, value) for key, value in timings.items() if key != "ssl"}
        assert sum(parts.values()) == pytest.approx(entry["time"], abs=1e-6)
        assert all(value == -1 or value >= 0 for value in timings.values())
        assert max(0.0, timings["ssl"]) <= parts["connect"]
        page = int(entry["pageref"].removeprefix("page_"))
        path = re.sub(r"^https://[^/]+", "", entry["request"]["url"])
        fetch = fetches[page, urls[page].index(path)]
        seen.add((page, fetch.object))
        assert entry["time"] == pytest.approx(1e3 * fetch.time_s, abs=1e-5)
        assert parts["dns"] == pytest.approx(1e3 * fetch.look_up_s, abs=1e-5)
        assert parts["connect"] == pytest.approx(1e3 * (fetch.connect_s + fetch.tls_s), abs=1e-5)
        assert max(0.0, timings["ssl"]) == pytest.approx(1e3 * fetch.tls_s, abs=1e-5)
        assert parts["wait"] == pytest.approx(1e3 * (fetch.first_byte_s - fetch.sent_s), abs=1e-5)
        since = (moment(entry["startedDateTime"]).replace(tzinfo=None) - har.EPOCH).total_seconds()
        assert since == pytest.approx(fetch.start_s, abs=1e-6)
    assert seen == set(fetches)
    assert any(entry["timings"]["ssl"] > 0 for entry in log["entries"])
    assert any(entry["timings"]["connect"] == -1 for entry in log["entries"])


@pytest.mark.parametrize("variant", ["HTTP/1.1", "HTTP/2, one connection"])
def test_a_simulated_load_is_read_again_with_its_sizes_origins_and_connections(
    catnip: Run, recorded: Path, tmp_path: Path, variant: str
) -> None:
    log = written(catnip, recorded, tmp_path / "load.har", "--variant", variant)
    ended = catnip("har", tmp_path / "load.har", "--out", tmp_path / "again.page.json", "--json")
    [summary] = json.loads(ended.out)["pages"]
    assert summary["dropped"] == {}
    assert summary["connections"] == (7 if variant == "HTTP/1.1" else 1)
    assert summary["protocols"] == {"h1" if variant == "HTTP/1.1" else "h2": 12}
    before, again = (
        objects_by_path(text)
        for text in (_core.read_har(RECORDED)[0], (tmp_path / "again.page.json").read_text())
    )
    for path, one in before.items():
        same = ("origin", "bytes", "request_bytes", "kind", "after", "holds")
        assert {key: again[path].get(key) for key in same} == {key: one.get(key) for key in same}
    assert set(again) == set(before)
    number = {entry["request"]["url"]: entry["connection"] for entry in log["entries"]}
    pairs = {(connection, again[url]["connection"]) for url, connection in number.items()}
    assert len(pairs) == len({one for one, _ in pairs}) == len({other for _, other in pairs})


def objects_by_path(text: str) -> dict[str, dict[str, Any]]:
    """Returns the objects of the only page of a page file, with URLs for origins and for initiators."""
    site = json.loads(text)
    [page] = site["pages"]
    urls = [site["origins"][one["origin"]] + one["path"] for one in page["objects"]]
    return {
        url: {
            **one,
            "origin": site["origins"][one["origin"]],
            "after": None if one["after"] is None else urls[one["after"]],
        }
        for url, one in zip(urls, page["objects"], strict=True)
    }


def test_what_the_recording_says_of_an_object_is_in_its_entry(catnip: Run, two: Path, tmp_path: Path) -> None:
    log = written(catnip, two, tmp_path / "load.har", "--variant", "http=2", "--page", 1)
    entries = {entry["request"]["url"]: entry for entry in log["entries"]}
    assert set(entries) == {
        "https://example.org/",
        "https://example.org/a.js",
        "https://cdn.example.org:8443/b.png",
        "https://cdn.example.org:8443/c",
        "https://example.org/late",
    }
    script, image, plain = (
        entries[f"https://{path}"]
        for path in ("example.org/a.js", "cdn.example.org:8443/b.png", "cdn.example.org:8443/c")
    )
    assert [one["response"]["content"]["mimeType"] for one in (script, image, plain)] == [
        "text/javascript",
        "image/png",
        "x-unknown",
    ]
    assert (script["_resourceType"], script["_priority"]) == ("script", "High")
    assert image["_initiator"] == {"type": "script", "url": "https://example.org/a.js"}
    assert not {"_resourceType", "_priority"} & set(plain)
    assert "_priority" not in image, "Chromium has no name for an urgency of 6"
    assert entries["https://example.org/"]["_renderBlocking"] == "blocking"
    [page] = log["pages"]
    assert page["title"] == "https://example.org/"
    assert page["pageTimings"]["onContentLoad"] == -1
    late = entries["https://example.org/late"]
    start = 1e3 * (moment(late["startedDateTime"]) - moment(page["startedDateTime"])).total_seconds()
    assert page["pageTimings"]["onLoad"] < page["pageTimings"]["_end"]
    assert start + late["time"] == pytest.approx(page["pageTimings"]["_end"], abs=2e-3)


def test_the_chosen_load_of_each_page_is_written(catnip: Run, two: Path, tmp_path: Path) -> None:
    first, second, last = (
        written(catnip, two, tmp_path / f"{number}.har", "--variant", "http=2", *options)
        for number, options in enumerate(([], ["--load", 2], ["--load", 2, "--page", 2]))
    )
    assert [page["id"] for page in first["pages"]] == ["page_1", "page_2"]
    assert len(first["entries"]) == len(second["entries"]) == 6
    assert [len(last["entries"]), last["pages"]] == [1, second["pages"][1:]]
    assert "load 2 of X-77: variant http=2, seed 1, client 0" in second["comment"]
    starts = [page["startedDateTime"] for log in (first, second) for page in log["pages"]]
    assert starts == sorted(starts)
    printed = catnip("har", two, "--variant", "http=2", "--json")
    assert json.loads(printed.out)["pages"] == first["pages"]
    assert "first rendering, s" in catnip("har", two, "--variant", "http=2").out


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "needs --variant, one of http=1.1, http=2"),
        (["--variant", "http=3"], "--variant: http=3 is not one of http=1.1, http=2"),
        (["--variant", "http=2", "--seed", "3"], "--seed: 3 is not one of 1 to 2"),
        (["--variant", "http=2", "--client", "1"], "--client: 1 is not one of 0"),
        (["--variant", "http=2", "--page", "3"], "--page: 3 is not one of 1 to 2"),
        (["--variant", "http=2", "--load", "3"], "--load: 3 is not one of 1 to 2"),
    ],
)
def test_a_load_that_is_not_there_is_told_in_a_line_with_those_that_are(
    catnip: Run, two: Path, options: list[str], says: str
) -> None:
    ended = catnip("har", two, *options)
    assert (ended.code, ended.out) == (BAD_INPUT, "")
    assert ended.err.rstrip().endswith(says)
    assert ended.err.count("\n") == 1


def test_results_without_loads_are_told_in_a_line(catnip: Run, tmp_path: Path) -> None:
    without = stored(catnip, tmp_path, options=("--tables", "runs,pages"))
    cases = {without: "has no table loads", tmp_path: "manifest.json"}
    for folder, says in cases.items():
        ended = catnip("har", folder)
        assert (ended.code, ended.err.count("\n")) == (BAD_INPUT, 1)
        assert says in ended.err
    ended = catnip("har", RECORDED, "--load", 2)
    assert (ended.code, ended.out) == (BAD_INPUT, "")
    assert "--load: needs a folder of results" in ended.err


def test_a_site_is_found_by_its_objects_or_not_at_all(catnip: Run, two: Path, tmp_path: Path) -> None:
    manifest, tables = results.read(two, loads.TABLES)
    of_run = loads.loads_of(tables, 0, 1)
    own, other = (
        sites.sites_of(manifest.rebuilt().bundle()[3]),
        sites.sites_of({"x.har": RECORDED.read_bytes()}),
    )
    assert loads.site_of([*other, *own], of_run) is own[0]
    assert loads.site_of(other, of_run) is None
    copy = tmp_path / "copy"
    shutil.copytree(two, copy)
    document = json.loads((copy / "manifest.json").read_text())
    del document["files"]["two.page.json"]["text"]
    (copy / "manifest.json").write_text(json.dumps(document))
    ended = catnip("har", copy, "--variant", "http=2")
    assert (ended.code, ended.err.count("\n")) == (BAD_INPUT, 1)
    assert "two.page.json: too long to be in the manifest" in ended.err


@pytest.mark.parametrize("tls", ["browser", "full", "0-rtt", "none"])
def test_the_parts_of_every_fetch_add_up_to_its_time_and_all_of_them_belong_to_a_load(
    catnip: Run, tmp_path: Path, tls: str
) -> None:
    out = stored(catnip, tmp_path, VERSIONS, ("--set", f"traffic.site.tls={tls}", "--seeds", "1"))
    manifest, tables = results.read(out, loads.TABLES)
    for variant, name in enumerate(manifest.variants):
        of_run = loads.loads_of(tables, variant, 1)
        fetches = [fetch for load in of_run for fetch in load.fetches]
        assert len(fetches) == int((np.asarray(tables["fetches"]["variant"]) == variant).sum()) == 12
        for fetch in fetches:
            assert sum(fetch.parts_ns.values()) == round(1e9 * fetch.time_s)
            opened_s = fetch.look_up_s + fetch.connect_s + fetch.tls_s
            assert opened_s + fetch.parts_ns["queued"] / 1e9 == pytest.approx(fetch.sent_s, abs=2e-9)
        assert {f"http={fetch.http}" for fetch in fetches} == {name}

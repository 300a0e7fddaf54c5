"""Tests of recordings of Chromium: their replay has the same objects in the same order."""

import json
import random
import shutil
import struct
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from catnip import __version__
from catnip._core import InputError, Scenario, read_har
from catnip.cli.options import BAD_INPUT
from conftest import Run

ROOT = Path(__file__).resolve().parents[2]
RECORDER = ROOT / "examples" / "browser" / "record_har.py"

SCENARIO = """
id = "X"
title = "A recorded site"
[node]
server = { kind = "host", count = 2 }
near = { kind = "router" }
browser = { kind = "host" }
[link.server]
from = "server"
to = "near"
rate = "1Gbit"
delay = "50us"
queue = "drop-tail:1000"
[link.access]
from = "near"
to = "browser"
rate = "1Gbit"
delay = "50us"
queue = "drop-tail:1000"
[traffic.site]
kind = "page"
clients = "browser"
servers = "server"
page = "PAGE"
[[variant]]
name = "http/1.1"
[[variant]]
name = "http/2"
traffic.site.http = "2"
"""

SCRIPT_DELAY_S = 0.3
"""More than a busy machine delays the other answers."""
IMAGES = {f"/image{number}.png": 50 * number for number in range(1, 9)}
"""Height of each image of the test page in pixels, by path."""
STATIC = "STATIC"
HTML = f"""<!doctype html><html><head><link rel="icon" href="data:,"><link rel="stylesheet" href="/style.css">
<script src="{STATIC}/app.js?version=7"></script></head><body>
{"".join(f'<img src="{STATIC}{path}">' for path in IMAGES)}
<img src="data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=="></body></html>"""
APP = "fetch('/items.json?user=4711').then(response => response.json());"


def documents(static: str) -> dict[str, tuple[str, bytes]]:
    """Returns content type and contents of the page's documents, by path; `static` is their second origin."""
    texts = {
        "/": ("text/html", HTML.replace(STATIC, static)),
        "/style.css": ("text/css", "body { margin: 0 } " * 200),
        "/app.js": ("text/javascript", APP + " " * 5000),
        "/items.json": ("application/json", json.dumps(list(range(1000)))),
    }
    files = {path: (kind, text.encode()) for path, (kind, text) in texts.items()}
    return files | {path: ("image/png", png(height)) for path, height in IMAGES.items()}


def png(height: int, width: int = 60) -> bytes:
    """Returns a PNG image of noise, which does not compress."""
    noise = random.Random(height)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + noise.randbytes(width) for _ in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@contextmanager
def serving(files: dict[str, tuple[str, bytes]], port: int = 0) -> Iterator[int]:
    """Runs a Web server with these files during the block, at `port` or any free port; yields its port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/items.json":
                time.sleep(SCRIPT_DELAY_S)
            kind, contents = files.get(path, ("text/plain", b""))
            self.send_response(200 if path in files else 404)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(contents)))
            self.send_header("Set-Cookie", "id=4711-abc")
            self.end_headers()
            self.wfile.write(contents)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the HAR of a page load from a site with two origins, recorded by the example."""
    if shutil.which("chromium") is None:
        pytest.skip("no recording of a browser: chromium is not installed")
    file = tmp_path_factory.mktemp("recording") / "site.har"
    files: dict[str, tuple[str, bytes]] = {}
    with serving(files) as www, serving(files) as static:
        files |= documents(f"http://static.localhost:{static}")
        command = [sys.executable, str(RECORDER), f"http://www.localhost:{www}/", "--out", str(file)]
        subprocess.run(command, check=True, timeout=120)
    return file


def replayed(page: Path) -> tuple[Scenario, dict[str, dict[str, Any]]]:
    scenario = Scenario.parse(str(page.parent / "x.toml"), SCENARIO.replace("PAGE", page.name))
    tables = ["pages", "objects", "connections"]
    return scenario, scenario.run(scenario.variants, [1], tables)


def round_trip_ms(entry: dict[str, Any], entries: list[dict[str, Any]]) -> float:
    """Returns the round-trip time to the origin of an entry, ms.

    It is the shortest time of a connection setup or of an answer from this origin.
    """
    origin = urlsplit(entry["request"]["url"]).netloc
    there = [one["timings"] for one in entries if urlsplit(one["request"]["url"]).netloc == origin]
    opened = (timings["connect"] for timings in there if timings["connect"] > 0)
    return float(min(*opened, *(timings["wait"] for timings in there)))


def test_a_site_that_chromium_has_recorded_is_replayed_with_the_same_sizes_in_the_same_order(
    recording: Path, catnip: Run
) -> None:
    entries = json.loads(recording.read_text())["log"]["entries"]
    fetched = [entry for entry in entries if entry["request"]["url"].startswith("http")]
    assert len(fetched) == 4 + len(IMAGES)
    page = recording.with_name("site.page.json")
    done = catnip("har", recording, "--out", page, "--json")
    assert (done.code, done.err) == (0, "")
    [summary] = json.loads(done.out)["pages"]
    assert summary["origins"] == 2
    assert summary["objects"] == len(fetched)
    assert summary["bytes"] == sum(entry["response"]["_transferSize"] for entry in fetched)
    assert summary["connections"] == len({entry["_connectionId"] for entry in fetched})
    for private in ("version=7", "user=4711", "4711-abc"):
        assert private in recording.read_text()
        assert private not in page.read_text(), "queries and cookies stay private"

    objects = json.loads(page.read_text())["pages"][0]["objects"]
    by_path = {item["path"]: item for item in objects}
    for path, (_, contents) in documents("").items():
        if path != "/":
            # The recorded size is that on the network: the contents with the header.
            assert 0 < by_path[path]["bytes"] - len(contents) < 400, path
    assert objects[by_path["/items.json"]["after"]]["path"] == "/app.js", "the script has asked for them"
    items = next(entry for entry in fetched if "/items.json" in entry["request"]["url"])
    # The browser starts to measure when it assumes that the request has been sent.
    server_ms = items["timings"]["wait"] - round_trip_ms(items, fetched)
    assert server_ms > 0, "their server took its time"
    assert by_path["/items.json"]["server_ms"] == pytest.approx(server_ms, abs=1e-3)
    for path in ("/style.css", "/app.js", *IMAGES):
        assert by_path[path]["after"] == 0, "the parser of the document has asked"

    scenario, tables = replayed(page)
    table = {key: np.asarray(values) for key, values in tables["objects"].items()}
    order = sorted(fetched, key=lambda entry: entry["startedDateTime"])
    sizes = [entry["response"]["_transferSize"] for entry in order]
    for variant, name in enumerate(scenario.variants):
        rows = {key: values[table["variant"] == variant] for key, values in table.items()}
        start = dict(zip(rows["object"], rows["start_s"], strict=True))
        end = {
            number: start[number] + duration_s
            for number, duration_s in zip(rows["object"], rows["time_s"], strict=True)
        }
        assert dict(zip(rows["object"], rows["bytes"], strict=True)) == dict(enumerate(sizes)), name
        begun = sorted(range(len(sizes)), key=lambda number: (start[number], number))
        assert [number for number in begun if by_path["/items.json"] != objects[number]] == [
            number for number in range(len(sizes)) if by_path["/items.json"] != objects[number]
        ], name
        for number, item in enumerate(objects):
            requested_s = 0 if item["after"] is None else end[item["after"]] + item["delay_ms"] / 1000
            assert start[number] > requested_s - 1e-8, (name, item)
        times = np.asarray(tables["pages"]["time_s"])
        assert max(end.values()) == pytest.approx(times[variant]), name


def test_a_recording_is_told_as_a_table(recording: Path, catnip: Run) -> None:
    done = catnip("har", recording)
    assert done.code == 0
    cells = done.out.split()
    assert cells[0] == str(recording)
    assert f"{4 + len(IMAGES)}" in cells
    # One image is part of the page as a data URL.
    assert done.out.rstrip().endswith("1 data"), done.out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "site.har: EOF while parsing"),
        (
            '{"log": {"entries": [{"time": "x"}]}}',
            "site.har: log.entries: no objects loaded over the network (left out: 1 odd)",
        ),
        ('{"log": {"entries": []}}', "site.har: log.entries: no objects loaded over the network"),
    ],
)
def test_a_bad_har_ends_in_one_line_with_its_json_path(
    text: str, message: str, tmp_path: Path, catnip: Run
) -> None:
    (tmp_path / "site.har").write_text(text)
    done = catnip("har", tmp_path / "site.har", "--out", tmp_path / "site.page.json")
    assert (done.code, done.out) == (BAD_INPUT, "")
    assert message in done.err and done.err.count("\n") == 1
    assert not (tmp_path / "site.page.json").exists()
    scenario = tmp_path / "x.toml"
    scenario.write_text(SCENARIO.replace("PAGE", "site.har"))
    done = catnip("run", scenario)
    assert done.code == BAD_INPUT
    assert f"{scenario}: traffic.site.page: " in done.err and message in done.err


def test_responses_without_a_recorded_size_are_told_and_estimated_on_request(
    tmp_path: Path, catnip: Run
) -> None:
    of = {"startedDateTime": "2026-01-01T00:00:00Z", "time": 5, "request": {"url": "https://example.org/"}}
    entries = [of | {"response": {"status": 200, "bodySize": size}} for size in (1000, -1, -1)]
    har = tmp_path / "site.har"
    har.write_text(json.dumps({"log": {"entries": entries}}))
    done = catnip("har", har, "--json")
    assert "2 responses have no recorded size: they are left out; --estimate" in done.err
    [page] = json.loads(done.out)["pages"]
    assert (page["objects"], page["unsized"], page["dropped"]) == (1, 2, {"empty": 2})
    done = catnip("har", har, "--estimate", "--json")
    [page] = json.loads(done.out)["pages"]
    assert (page["objects"], page["bytes"], page["dropped"]) == (3, 1000 + 2 * 4710, {})


def test_what_cannot_be_read_or_written_is_named(tmp_path: Path, catnip: Run) -> None:
    done = catnip("har", tmp_path / "no.har")
    assert (done.code, "no.har: No such file" in done.err) == (BAD_INPUT, True)
    with pytest.raises(InputError, match=r"no\.har: No such file"):
        read_har(str(tmp_path / "no.har"))
    assert catnip("har", "x.har", "--out", "/dev/null/x").code == BAD_INPUT
    assert __version__

"""Tests of recorded sites: a site reads as written, and errors are one line with the cause."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from catnip.cli.options import BAD_INPUT
from catnip.web import site
from catnip.web.site import Exchange, Origin, Request, Response, Site
from conftest import Run

WWW = Origin("https", "www.example.org", 443)
BINARY = bytes(range(256))


def fetched(url: str, body: bytes = b"", method: str = "GET", status: int = 200) -> Exchange:
    kind = "image/gif" if ".gif" in url else "text/html; charset=utf-8"
    headers = [("Content-Type", kind), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=\xe9")]
    return Exchange(
        Request(method, url, [("Accept", "*/*")]), Response(status, "", headers, body), "192.0.2.1", 0.25
    )


PAGE = fetched("https://www.example.org/", b"<!doctype html>")
IMAGE = fetched("http://img.example.org:8080/a.gif?x=1", BINARY)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Writes a site of two responses and returns its folder."""
    site.write(tmp_path / "site", [PAGE, IMAGE], {PAGE.origin: site.HTTP2})
    return tmp_path / "site"


def test_a_site_is_read_as_it_was_written(folder: Path) -> None:
    read = site.read(folder)
    assert (read.exchanges, read.protocols) == ([PAGE, IMAGE], {WWW: site.HTTP2})
    assert [str(origin) for origin in read.origins] == [
        "https://www.example.org",
        "http://img.example.org:8080",
    ]
    assert read.documents == ["https://www.example.org/"]
    rewritten = folder.parent / "again"
    site.write(rewritten, read.exchanges, read.protocols)
    assert contents(rewritten) == contents(folder)


def test_an_exchange_without_a_think_time_has_none(folder: Path) -> None:
    index = folder / site.INDEX
    index.write_text(index.read_text().replace('"think_s": 0.25, ', ""))
    assert [one.think_s for one in site.read(folder).exchanges] == [0, 0]


def test_what_replaces_a_site_leaves_no_bodies_behind_and_touches_nothing_else(folder: Path) -> None:
    (folder / "notes.txt").write_text("mine")
    (folder / "bodies" / "notes.txt").write_text("mine, too")
    site.write(folder, [IMAGE])
    assert site.read(folder).exchanges == [IMAGE]
    bodies = [file for file in (folder / "bodies").iterdir() if file.name != "notes.txt"]
    assert [file.read_bytes() for file in bodies] == [BINARY]
    assert (folder / "notes.txt").exists() and (folder / "bodies" / "notes.txt").exists()


@pytest.mark.parametrize(
    ("method", "target", "found"),
    [
        ("GET", "/a", "/a"),
        ("GET", "/a?user=1", "/a?user=1"),
        ("GET", "/a?user=1&time=99", "/a?user=1&time=12"),
        ("GET", "/a?user=2&time=99", "/a?user=2&time=12"),
        ("GET", "/a?nothing", "/a?user=2&time=12"),
        ("GET", "/a/", None),
        ("GET", "/A", None),
        ("POST", "/a", None),
        ("HEAD", "/a", None),
    ],
)
def test_the_longest_beginning_of_a_query_decides(method: str, target: str, found: str | None) -> None:
    paths = ["/a", "/a?user=1", "/a?user=1&time=12", "/a?user=2&time=12"]
    recorded = Site([fetched(f"https://www.example.org{path}") for path in paths])
    answer = recorded.answer(method, WWW, target)
    assert (answer and answer.request.url) == (found and f"https://www.example.org{found}")


def test_other_origins_have_other_answers_and_of_equals_the_last_counts() -> None:
    moved = fetched("https://www.example.org/", status=302)
    recorded = Site([moved, PAGE, IMAGE])
    assert recorded.answer("GET", WWW, "/") is PAGE
    for other in (
        Origin("http", "www.example.org", 443),
        Origin("https", "www.example.org", 8443),
        Origin("https", "example.org", 443),
    ):
        assert recorded.answer("GET", other, "/") is None


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://a.test", "/"),
        ("https://a.test/", "/"),
        ("https://a.test?q", "/?q"),
        ("https://a.test/b%20c?d=/e#f", "/b%20c?d=/e"),
    ],
)
def test_the_target_of_a_url(url: str, target: str) -> None:
    assert site.target_of(url) == target


@pytest.mark.parametrize(
    "url",
    [
        "ftp://a.test/",
        "https:///etc/passwd",
        "https://../../etc/passwd",
        "https://a..test/",
        "https://-a.test/",
        "https://a.test:99999/",
        "https://a test/",
        "https://[2001:db8::1]/",
        "http://localhost:8000/",
        "http://x.localhost/",
        "http://127.0.0.1/",
        "http://0.0.0.0/",
        "http://1.2.3/",
        "http://224.0.0.1/",
        f"https://{'a' * 64}.test/",
        f"https://{'a.' * 130}test/",
    ],
)
def test_what_can_have_no_address_behind_a_link_is_no_origin(url: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        site.origin_of(url)


def change(folder: Path, place: int, key: str, value: Any) -> None:
    """Replaces a value in a line of a site's index; `place` is the line's number, from 0."""
    index = folder / site.INDEX
    lines = index.read_text().splitlines()
    line = json.loads(lines[place])
    part = line
    *parents, last = key.split(".")
    for name in parents:
        part = part[name]
    part[last] = value
    lines[place] = json.dumps(line)
    index.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("place", "key", "value", "message"),
    [
        (0, "catnip_site", 2, "line 1: catnip_site: 2: expected 1"),
        (0, "protocols", ["h2"], 'line 1: protocols: ["h2"]: expected an object'),
        (0, "protocols", {"https://[::1]": "h2"}, "'https://[::1]': an IPv6 address"),
        (0, "protocols", {"https://a.test": "h3"}, "'https://a.test': expected http/1.1 or h2"),
        (0, "protocols", {"https://a.test": []}, "'https://a.test': expected http/1.1 or h2"),
        (1, "method", "GET /", 'line 2: method: "GET /": not the name of a method'),
        (1, "method", None, "line 2: method: null: expected a text"),
        (1, "url", "https://../etc/passwd", 'line 2: url: "https://../etc/passwd": not the name of a host'),
        (2, "url", 3, "line 3: url: 3: expected a text"),
        (1, "think_s", "1", 'line 2: think_s: "1": expected a number from 0 to 3600'),
        (1, "think_s", -1, "line 2: think_s: -1: expected a number"),
        (1, "think_s", True, "line 2: think_s: true: expected a number"),
        (1, "think_s", float("nan"), "line 2: think_s: NaN: expected a number"),
        (1, "think_s", 1e9, "line 2: think_s: 1000000000.0: expected a number"),
        (1, "address", 3, "line 2: address: 3: expected a text or null"),
        (1, "status", "200", 'line 2: status: "200": expected a number from 200 to 999'),
        (1, "status", True, "line 2: status: true: expected a number"),
        (1, "status", 101, "line 2: status: 101: expected a number"),
        (1, "reason", "OK\r\nX: y", "line 2: reason: "),
        (1, "request", [], "line 2: request: []: expected an object"),
        (1, "response.headers", {}, "line 2: response: headers: {}: expected a list"),
        (1, "response.headers", [["A"]], "expected a name and a value"),
        (1, "response.headers", [["A", "b\r\nSet-Cookie: c"]], "expected a name and a value"),
        (1, "response.headers", [["A", "\u20ac"]], "expected a name and a value"),
        (1, "response.headers", [["A b", "c"]], "'A b': not the name of a header"),
        (1, "response.body", "../../../etc/passwd", "expected a SHA-256 in hexadecimal digits, or null"),
        (1, "response.body", "0" * 64, "is missing"),
    ],
)
def test_a_damaged_line_is_named_with_its_key_and_value(
    catnip: Run, folder: Path, place: int, key: str, value: Any, message: str
) -> None:
    change(folder, place, key, value)
    refused(catnip, folder, f"error: {folder / site.INDEX}: ", message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: not JSON"),
        ("[]\n", "line 1: expected an object, not []"),
        ("{}\n", "line 1: catnip_site: null: expected 1"),
        ('{"catnip_site": 1}\n', "nothing was recorded"),
        ('{"catnip_site": 1}\n{"method": "GET"', "line 2: not JSON"),
        ('{"catnip_site": 1}\n{"method": "GÉT"}\n', "not ASCII at byte"),
        ('{"catnip_site": 1}\n' + "[" * 100_000, "line 2: not JSON: nested too deeply"),
    ],
)
def test_an_index_that_is_none_is_refused(catnip: Run, folder: Path, text: str, message: str) -> None:
    (folder / site.INDEX).write_text(text, encoding="utf-8")
    refused(catnip, folder, f"error: {folder / site.INDEX}: ", message)


def test_a_body_that_is_cut_short_is_refused(catnip: Run, folder: Path) -> None:
    [file] = [file for file in (folder / "bodies").iterdir() if file.read_bytes() == BINARY]
    file.write_bytes(BINARY[:100])
    refused(
        catnip, folder, "line 3: response: body: ", f"{file} is damaged: its 100 bytes have another SHA-256"
    )


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_body_or_an_index_that_may_have_no_end_is_refused(catnip: Run, folder: Path, kind: str) -> None:
    [body] = [file for file in (folder / "bodies").iterdir() if file.read_bytes() == BINARY]
    for file in (body, folder / site.INDEX):
        file.unlink()
        if kind == "pipe":
            os.mkfifo(file)
        else:
            file.symlink_to("/dev/zero")
        refused(catnip, folder, f"error: {file}: not a file")


def test_a_folder_without_a_site_is_refused(catnip: Run, tmp_path: Path) -> None:
    for none in (tmp_path, tmp_path / "nowhere", Path("/dev/null")):
        refused(catnip, none, f"error: SITE: {none} has no site.jsonl")


def refused(catnip: Run, folder: Path, *messages: str) -> None:
    for command in (["replay", folder, "--", "true"], ["pages", folder, "--link", "a:"]):
        ended = catnip(*command)
        assert (ended.code, ended.out, ended.err.count("\n")) == (BAD_INPUT, "", 1)
        assert all(message in ended.err for message in messages), ended.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["replay", "SITE"], "COMMAND: missing"),
        (["replay", "SITE", "--rate", "5Mbit", "--"], "COMMAND: missing"),
        (["replay", "SITE", "--nat", "--", "true"], "--nat: cannot be used with a replay"),
        (["replay", "SITE", "--resolver=8.8.8.8", "--", "true"], "--resolver=8.8.8.8: cannot be used"),
        (["replay", "SITE", "--http", "3", "--", "true"], "--http: '3' is not one of 'recorded', '1.1', '2'"),
        (["replay", "SITE", "--congestion", "a b", "--", "true"], "--congestion: a b: expected the name of"),
        (
            ["replay", "SITE", "--congestion", "reno", "--user=a", "--", "true"],
            "--congestion: cannot be used with --user",
        ),
        (
            ["pages", "SITE", "--link", "a: --user a", "--congestion", "reno"],
            "--congestion: cannot be used with --user",
        ),
        (["pages", "SITE", "--link", "a: --mtu 1000", "--ipv6"], "--mtu: 1000: IPv6 needs links"),
        (["replay", "--", "true"], "Missing argument 'SITE'"),
        (["pages", "SITE"], "Missing option '--link'"),
        (["pages", "SITE", "--link", "--rate 5Mbit"], "--link: --rate 5Mbit: expected NAME: OPTIONS"),
        (["pages", "SITE", "--link", "a: --seed 3"], "--link: a: --seed 3: --seed: each load has its own"),
        (["pages", "SITE", "--link", "a: 'x"], "--link: a: 'x: No closing quotation"),
        (["pages", "SITE", "--link", "a:", "--link", "a:"], "--link: a: duplicate name"),
        (["pages", "SITE", "--link", "a:", "--", "curl"], "--: `catnip pages` does not take a command"),
        (["pages", "SITE", "--link", "a:", "--runs", "0"], "--runs: 0 is not"),
        (["pages", "SITE", "--link", "a:", "--longest", "0"], "--longest: 0.0 is not"),
        (["record", "SITE"], "SITE: SITE has a recorded site; choose another folder or use --overwrite"),
        (["record", "SITE/.."], "exists and is not a recorded site; choose another folder"),
        (["record", "SITE/..", "--overwrite"], "exists and is not a recorded site; choose another folder"),
        (["record", "new", "--port", "70000"], "--port: 70000 is not"),
        (["record", "new", "--url", "https://a.test/", "--", "true"], "--url: cannot be used with a command"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_line(catnip: Run, folder: Path, arguments: list[str], message: str) -> None:
    ended = catnip(*(word.replace("SITE", str(folder)) for word in arguments))
    assert (ended.code, ended.out, ended.err.count("\n")) == (BAD_INPUT, "", 1)
    assert message.replace("SITE has", f"{folder} has") in ended.err
    assert site.read(folder).exchanges == [PAGE, IMAGE]


def contents(folder: Path) -> dict[Path, bytes]:
    return {file.relative_to(folder): file.read_bytes() for file in folder.rglob("*") if file.is_file()}

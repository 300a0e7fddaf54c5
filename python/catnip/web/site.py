"""Recorded site: its exchanges, stored as files that people can read and compare.

`site.jsonl` has a first line that identifies the format, and then a line for each exchange, in the order of
the requests. A body is a file in `bodies`, named by the SHA-256 of its bytes. docs/replay.md has the format.
"""

import hashlib
import ipaddress
import json
import os
import re
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from catnip._core import InputError, __version__
from catnip.base.locks import contents

INDEX = "site.jsonl"
BODIES = "bodies"
FORMAT = 1
PORTS = {"http": 80, "https": 443}
HTTP1, HTTP2 = "http/1.1", "h2"
"""Protocols of servers, by the names with which TLS negotiates them (ALPN)."""
MAX_THINK_S = 3600
"""Longest think time of a server that is read, s."""
LONGEST = 1 << 30
"""Length of the longest file of a site that is read, bytes."""

NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?:\.(?!-)[a-z0-9_-]{1,63})*")
"""Pattern of a host name in the form that browsers request, which has no capitals."""
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""Pattern of a method or of the name of a header (RFC 9110)."""
DIGEST = re.compile(r"[0-9a-f]{64}")

Headers = Sequence[tuple[str, str]]
Json = dict[str, Any]


@dataclass(frozen=True, order=True)
class Origin:
    """Origin of responses: a scheme, a host and a port."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        port = "" if self.port == PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{self.host}{port}"


@dataclass(frozen=True)
class Request:
    """Recorded HTTP request; the body is stored as it was sent."""

    method: str
    url: str
    headers: Headers = ()
    body: bytes = b""


@dataclass(frozen=True)
class Response:
    """Recorded response; the body is stored as it was sent, which may be compressed."""

    status: int
    reason: str
    headers: Headers = ()
    body: bytes = b""


@dataclass(frozen=True)
class Exchange:
    """Request with its complete response, the IP address of the server, and its think time."""

    request: Request
    response: Response
    address: str | None = None
    think_s: float = 0.0
    """Time of the server from the end of the request to the first byte of the response; 0 if unknown."""

    @cached_property
    def origin(self) -> Origin:
        """Origin of the response: scheme, host and port of the request's URL."""
        return origin_of(self.request.url)


@dataclass(frozen=True)
class Site:
    """Exchanges of a recorded site, in the order of the requests."""

    exchanges: Sequence[Exchange]
    protocols: Mapping[Origin, str] = field(default_factory=dict)
    """Protocols that servers chose when they were offered all of ours; HTTP/1.1 where nothing is known."""

    @cached_property
    def origins(self) -> list[Origin]:
        """Origins of all responses, in the order of their first request."""
        return list(dict.fromkeys(exchange.origin for exchange in self.exchanges))

    @cached_property
    def documents(self) -> list[str]:
        """URLs that a browser may have visited: successful HTML responses to GET, in order of requests."""
        return list(
            dict.fromkeys(
                exchange.request.url
                for exchange in self.exchanges
                if exchange.request.method == "GET" and exchange.response.status == 200 and _is_html(exchange)
            )
        )

    def answer(self, method: str, origin: Origin, target: str) -> Exchange | None:
        """Returns the recorded exchange that answers a request; None if no exchange matches.

        Method, origin and path must be equal. If several exchanges match, an equal query comes first, and
        then the query with the longest common beginning, as in mahimahi's ReplayShell. Among equally good
        exchanges, the last exchange is returned, because an earlier one may have been a redirection to the
        same URL that sets a cookie.
        """
        path, _, query = target.partition("?")
        candidates = self._by_path.get((method, origin, path), ())

        def likeness(candidate: tuple[int, str, Exchange]) -> tuple[bool, int, int]:
            index, recorded, _ = candidate
            return recorded == query, _common(recorded, query), index

        return max(candidates, key=likeness)[2] if candidates else None

    @cached_property
    def _by_path(self) -> Mapping[tuple[str, Origin, str], list[tuple[int, str, Exchange]]]:
        candidates: dict[tuple[str, Origin, str], list[tuple[int, str, Exchange]]] = defaultdict(list)
        for index, exchange in enumerate(self.exchanges):
            path, _, query = target_of(exchange.request.url).partition("?")
            candidates[exchange.request.method, exchange.origin, path].append((index, query, exchange))
        return candidates


def origin_of(url: str) -> Origin:
    """Returns the origin of a URL. Raises ValueError with a reason if it has no address behind a link."""
    parts = urlsplit(url)
    if parts.scheme not in PORTS:
        raise ValueError("expected http:// or https://")
    host = (parts.hostname or "").rstrip(".")
    if ":" in host:
        raise ValueError("an IPv6 address; only names and IPv4 addresses are supported")
    if host == "localhost" or host.endswith(".localhost"):
        raise ValueError("an address of the machine itself, which is not behind a link")
    if re.fullmatch(r"[0-9.]+", host):
        address = ipaddress.IPv4Address(host)
        if address.is_loopback or address.is_unspecified or address.is_multicast or address.is_reserved:
            raise ValueError("an address that is not behind a link")
    elif not NAME.fullmatch(host) or len(host) > 253:
        raise ValueError("not the name of a host")
    return Origin(parts.scheme, host, parts.port or PORTS[parts.scheme])


def target_of(url: str) -> str:
    """Returns the target in the first line of a request for a URL: path and query."""
    rest = url.partition("://")[2].partition("#")[0]
    found = re.search(r"[/?]", rest)
    target = rest[found.start() :] if found else "/"
    return target if target.startswith("/") else f"/{target}"


def check_folder(folder: Path, overwrite: bool) -> None:
    """Raises InputError if a folder is neither empty nor, with `overwrite`, a recorded site."""
    if not folder.exists() or (folder.is_dir() and not contents(folder)):
        return
    if not (folder / INDEX).exists():
        raise InputError(f"SITE: {folder} exists and is not a recorded site; choose another folder")
    if not overwrite:
        raise InputError(f"SITE: {folder} has a recorded site; choose another folder or use --overwrite")


def write(folder: Path, exchanges: Iterable[Exchange], protocols: Mapping[Origin, str] | None = None) -> None:
    """Writes a recorded site to a folder; replaces a site that is already there."""
    bodies = folder / BODIES
    bodies.mkdir(parents=True, exist_ok=True)
    spoken = {str(origin): protocol for origin, protocol in (protocols or {}).items()}
    first = {"catnip_site": FORMAT, "created_by": f"catnip {__version__}", "protocols": spoken}
    lines: list[Json] = [first]
    stored = set()
    for exchange in exchanges:
        request, response = exchange.request, exchange.response
        digests = [_digest(message.body) for message in (request, response)]
        for digest, body in zip(digests, (request.body, response.body), strict=True):
            if digest is not None and digest not in stored:
                (bodies / digest).write_bytes(body)
                stored.add(digest)
        lines.append(
            {
                "method": request.method,
                "url": request.url,
                "address": exchange.address,
                "think_s": round(exchange.think_s, 6),
                "status": response.status,
                "reason": response.reason,
                "request": {"headers": request.headers, "body": digests[0]},
                "response": {"headers": response.headers, "body": digests[1]},
            }
        )
    # The index comes last: a folder without it is not a site.
    temporary = folder / f"{INDEX}.part"
    temporary.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="ascii")
    temporary.replace(folder / INDEX)
    for file in bodies.iterdir():
        if DIGEST.fullmatch(file.name) and file.name not in stored:
            file.unlink()


def read(folder: Path) -> Site:
    """Reads a recorded site. Raises InputError with file, key and value if it is damaged."""
    index = folder / INDEX
    if not index.exists():
        raise InputError(f"SITE: {folder} has no {INDEX}: expected a folder written by `catnip record`")
    try:
        lines = _contents(index).decode("ascii").splitlines() or [""]
    except UnicodeDecodeError as error:
        raise InputError(f"{index}: not ASCII at byte {error.start}") from error
    entries = _entries(index, lines)
    first = next(entries)
    first.check_format()
    protocols = first.protocols()
    exchanges = [entry.exchange(folder / BODIES) for entry in entries]
    if not exchanges:
        raise InputError(f"{index}: nothing was recorded")
    return Site(exchanges, protocols)


def _entries(index: Path, lines: Iterable[str]) -> Iterator["_Entry"]:
    for number, line in enumerate(lines, 1):
        where = f"{index}: line {number}"
        yield _Entry(where, _parsed(where, line))


def _parsed(where: str, line: str) -> Json:
    try:
        parsed = json.loads(line)
    except ValueError as error:
        raise InputError(f"{where}: not JSON: {error}") from error
    except RecursionError:
        raise InputError(f"{where}: not JSON: nested too deeply") from None
    if not isinstance(parsed, dict):
        raise InputError(f"{where}: expected an object, not {line[:40]}")
    return parsed


def _contents(file: Path) -> bytes:
    """Returns the contents of a file. Raises InputError if it may have no end: a device or a pipe."""
    with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:
        found = os.fstat(opened.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise InputError(f"{file}: not a file")
        if found.st_size > LONGEST:
            raise InputError(f"{file}: {found.st_size} bytes: longer than {LONGEST >> 20} MB")
        return opened.read()


@dataclass(frozen=True)
class _Entry:
    """Object in a line of site.jsonl, with checks of its values, because the file may have any content."""

    where: str
    values: Json

    def check_format(self) -> None:
        if self.values.get("catnip_site") != FORMAT:
            raise self.error("catnip_site", f"expected {FORMAT}, the format of this version of catnip")

    def protocols(self) -> dict[Origin, str]:
        """Returns the protocols of the origins; none for a site that was recorded without them."""
        listed = self.values.get("protocols", {})
        if not isinstance(listed, dict):
            raise self.error("protocols", "expected an object with the protocol of each origin")
        found = {}
        for url, protocol in listed.items():
            try:
                origin = origin_of(url)
            except ValueError as error:
                raise self.error("protocols", f"{url[:80]!r}: {error}") from error
            if protocol not in (HTTP1, HTTP2):
                raise self.error("protocols", f"{url[:80]!r}: expected {HTTP1} or {HTTP2}")
            found[origin] = protocol
        return found

    def exchange(self, bodies: Path) -> Exchange:
        method, url = self.text("method"), self.text("url")
        if not TOKEN.fullmatch(method):
            raise self.error("method", "not the name of a method")
        try:
            origin_of(url)
        except ValueError as error:
            raise self.error("url", str(error)) from error
        address, status = self.values.get("address"), self.values.get("status")
        if address is not None and not isinstance(address, str):
            raise self.error("address", "expected a text or null")
        if type(status) is not int or not 200 <= status <= 999:
            raise self.error("status", "expected a number from 200 to 999")
        request, response = self.part("request"), self.part("response")
        return Exchange(
            Request(method, url, request.headers(), request.body(bodies)),
            Response(status, self.text("reason"), response.headers(), response.body(bodies)),
            address,
            self.think_s(),
        )

    def think_s(self) -> float:
        """Returns the think time; 0 for an exchange that was recorded without it."""
        value = self.values.get("think_s", 0)
        if type(value) not in (int, float) or not 0 <= value <= MAX_THINK_S:
            raise self.error("think_s", f"expected a number from 0 to {MAX_THINK_S}")
        return float(value)

    def part(self, key: str) -> "_Entry":
        value = self.values.get(key)
        if not isinstance(value, dict):
            raise self.error(key, "expected an object")
        return _Entry(f"{self.where}: {key}", value)

    def text(self, key: str) -> str:
        value = self.values.get(key)
        if not _is_line(value):
            raise self.error(key, "expected a text of one line")
        return str(value)

    def headers(self) -> Headers:
        listed = self.values.get("headers")
        if not isinstance(listed, list):
            raise self.error("headers", "expected a list of names with values")
        for one in listed:
            if not (isinstance(one, list) and len(one) == 2 and all(map(_is_line, one))):
                raise self.error("headers", f"{one!r}: expected a name and a value")
            if not TOKEN.fullmatch(one[0]):
                raise self.error("headers", f"{one[0]!r}: not the name of a header")
        return [(name, value) for name, value in listed]

    def body(self, bodies: Path) -> bytes:
        digest = self.values.get("body")
        if digest is None:
            return b""
        # The digest becomes a part of a path.
        if not isinstance(digest, str) or not DIGEST.fullmatch(digest):
            raise self.error("body", "expected a SHA-256 in hexadecimal digits, or null")
        file = bodies / digest
        try:
            body = _contents(file)
        except FileNotFoundError as error:
            raise InputError(f"{self.where}: body: {file} is missing") from error
        if hashlib.sha256(body).hexdigest() != digest:
            raise InputError(
                f"{self.where}: body: {file} is damaged: its {len(body)} bytes have another SHA-256"
            )
        return body

    def error(self, key: str, expected: str) -> InputError:
        return InputError(f"{self.where}: {key}: {json.dumps(self.values.get(key))[:80]}: {expected}")


def _common(one: str, other: str) -> int:
    """Returns the length of the common prefix of two texts."""
    pairs = zip(one, other, strict=False)
    return next((index for index, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _is_line(value: Any) -> bool:
    """Returns true if a value is text that a header can contain: Latin-1 without line breaks and NUL."""
    return isinstance(value, str) and not re.search(r"[\r\n\0]|[^\0-\xff]", value)


def _is_html(exchange: Exchange) -> bool:
    kinds = (value for name, value in exchange.response.headers if name.lower() == "content-type")
    return next(kinds, "").lower().startswith("text/html")


def _digest(body: bytes) -> str | None:
    return hashlib.sha256(body).hexdigest() if body else None

"""Simulated loads of recorded pages as a HAR 1.2, which tools for recordings of browsers read."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from catnip._core import __version__
from catnip.analysis.loads import Fetch, Load
from catnip.store.sites import Site, SiteObject

EPOCH = datetime(2000, 1, 1)
"""Begin of every simulated run, UTC."""
MIME_OF_KIND = {
    "document": "text/html",
    "stylesheet": "text/css",
    "script": "text/javascript",
    "font": "font/woff2",
}
MIME_OF_ENDING = {
    ("font", "woff"): "font/woff",
    ("font", "ttf"): "font/ttf",
    ("font", "otf"): "font/otf",
    **{("image", name): f"image/{name}" for name in ("png", "gif", "webp", "avif", "jpeg")},
    ("image", "jpg"): "image/jpeg",
    ("image", "svg"): "image/svg+xml",
    ("image", "ico"): "image/x-icon",
    ("fetch", "json"): "application/json",
    ("media", "mp4"): "video/mp4",
    ("media", "webm"): "video/webm",
    ("media", "mp3"): "audio/mpeg",
}
"""Type of the content by the kind of an object and the ending of its path."""
UNKNOWN_MIME = "x-unknown"
PRIORITIES = ("VeryHigh", "High", "Medium", "Low", "VeryLow")
"""Names of Chromium's priorities by the urgency (RFC 9218) that it sends."""


@dataclass(frozen=True)
class Run:
    """Run of which loads are written: the words that tell it, its recorded site, and all of its loads."""

    told: str
    site: Site
    loads: Sequence[Load]


def har_of(run: Run, chosen: Sequence[Load]) -> dict[str, Any]:
    """Returns the HAR of some loads of a run, with an entry for each object, in the order of the requests."""
    entries = [
        (fetch.start_s, _entry(load, fetch, run.site.pages[load.page - 1]))
        for load in chosen
        for fetch in load.fetches
    ]
    entries.sort(key=lambda one: one[0])
    comment = f"{run.told}. Times count from {EPOCH.isoformat()}Z, the begin of the run."
    return {
        "log": {
            "version": "1.2",
            "creator": {"name": "catnip", "version": __version__},
            "pages": [_page(load, run.site) for load in chosen],
            "entries": [entry for _, entry in entries],
            "comment": comment,
        }
    }


def _page(load: Load, site: Site) -> dict[str, Any]:
    times_s = {
        "onLoad": load.load_s,
        "_firstByte": load.first_byte_s,
        "_startRender": load.render_s,
        "_byteIndex": load.byte_index_s,
        "_end": load.time_s,
    }
    return {
        "startedDateTime": _moment(load.start_s),
        "id": _page_id(load),
        "title": site.pages[load.page - 1][0].url,
        "pageTimings": {
            "onContentLoad": -1,
            **{name: _ms(round(time_s * 1e9)) for name, time_s in times_s.items()},
        },
    }


def _entry(load: Load, fetch: Fetch, objects: Sequence[SiteObject]) -> dict[str, Any]:
    one = objects[fetch.object]
    version = f"HTTP/{fetch.http}"
    urgency = _urgency(one.priority)
    return {
        "pageref": _page_id(load),
        "startedDateTime": _moment(fetch.start_s),
        "time": _ms(sum(fetch.parts_ns.values())),
        "request": {
            "method": "GET",
            "url": one.url,
            "httpVersion": version,
            "cookies": [],
            "headers": [],
            "queryString": [],
            "headersSize": one.request_bytes,
            "bodySize": 0,
        },
        "response": {
            "status": 200,
            "statusText": "OK",
            "httpVersion": version,
            "cookies": [],
            "headers": [],
            "content": {"size": fetch.bytes, "mimeType": _mime(one)},
            "redirectURL": "",
            "headersSize": -1,
            "bodySize": fetch.bytes,
            "_transferSize": fetch.bytes,
        },
        "cache": {},
        "timings": _timings(fetch),
        "connection": str(fetch.connection),
        "_connectionId": str(fetch.connection),
        "_initiator": _initiator(one, objects),
        "_renderBlocking": "blocking" if one.blocks_rendering else "non_blocking",
        **({} if one.kind is None else {"_resourceType": one.kind}),
        **({} if urgency is None else {"_priority": PRIORITIES[urgency]}),
    }


def _timings(fetch: Fetch) -> dict[str, float]:
    """Returns the parts of a fetch as HAR has them: -1 for those that a request has not, TLS in `connect`."""
    ns = fetch.parts_ns
    opening_ns = ns["connect"] + ns["tls"]
    return {
        "blocked": _ms(ns["queued"]),
        "dns": _ms(ns["look_up"]) if ns["look_up"] else -1,
        "connect": _ms(opening_ns) if opening_ns else -1,
        "ssl": _ms(ns["tls"]) if ns["tls"] else -1,
        "send": 0,
        "wait": _ms(ns["wait"]),
        "receive": _ms(ns["receive"]),
    }


def _initiator(one: SiteObject, objects: Sequence[SiteObject]) -> dict[str, str]:
    if one.after is None:
        return {"type": "other"}
    cause = objects[one.after]
    return {"type": "script" if cause.kind == "script" else "parser", "url": cause.url}


def _mime(one: SiteObject) -> str:
    ending = one.url.rpartition("/")[2].rpartition(".")[2].lower()
    kind = one.kind or ""
    return MIME_OF_ENDING.get((kind, ending), MIME_OF_KIND.get(kind, UNKNOWN_MIME))


def _urgency(priority: str | None) -> int | None:
    """Returns the urgency in the value of a `priority` header, if Chromium has a name for it."""
    if priority is None:
        return None
    given: Iterable[str] = (part.strip() for part in priority.split(","))
    urgency = next((int(part[2:]) for part in given if part.startswith("u=")), 3)
    return urgency if urgency < len(PRIORITIES) else None


def _page_id(load: Load) -> str:
    return f"page_{load.page}"


def _moment(at_s: float) -> str:
    return f"{(EPOCH + timedelta(microseconds=round(at_s * 1e6))).isoformat(timespec='microseconds')}Z"


def _ms(ns: int) -> float:
    return ns / 1e6

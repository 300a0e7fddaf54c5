"""HAR of a page load in headless Chromium, in the format of the export of its Network panel.

Run as a program, the module loads one page and writes its HAR, so that it can be the command of a replay.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from catnip.web.chromium import LONGEST_S, Chromium, find, flags_of, login_of

UNKNOWN = -1

Json = dict[str, Any]


def har(events: list[Json]) -> Json:
    """Returns the HAR of a page load from its DevTools events."""
    made = _exchanges(events)
    _add_headers(made, events)
    first = made[0].sent
    fired = {event["method"]: event["params"]["timestamp"] for event in events if "Event" in event["method"]}
    after = {name: (at - first["timestamp"]) * 1000 for name, at in fired.items()}
    page = {
        "startedDateTime": _moment(first["wallTime"]),
        "id": "page_1",
        "title": first["request"]["url"],
        "pageTimings": {
            "onContentLoad": after.get("Page.domContentEventFired"),
            "onLoad": after.get("Page.loadEventFired"),
        },
    }
    return {
        "log": {
            "version": "1.2",
            "creator": {"name": "WebInspector", "version": "537.36"},
            "pages": [page],
            "entries": [_entry(exchange) for exchange in made],
        }
    }


@dataclass
class _Exchange:
    """Request of a page with its response, from the browser's DevTools events."""

    sent: Json
    response: Json = field(default_factory=dict)
    request_headers: Mapping[str, str] = field(default_factory=dict)
    response_headers: Mapping[str, str] = field(default_factory=dict)
    headers_text: str | None = None
    body_bytes: int = 0
    """Size of the decoded body, bytes."""
    wire_bytes: int = 0
    end: float | None = None
    """End of the exchange on the clock of the DevTools timestamps, s."""
    error: str | None = None
    redirects_to: str = ""
    from_memory: bool = False


def _exchanges(events: Iterable[Json]) -> list[_Exchange]:
    """Returns the requests of a page load in their order, from the browser's DevTools events."""
    made: list[_Exchange] = []
    open_: dict[str, _Exchange] = {}
    for event in events:
        method, told = event["method"], event["params"]
        number = told.get("requestId")
        if method == "Network.requestWillBeSent":
            if "redirectResponse" in told:
                before = open_[number]
                before.response, before.end = told["redirectResponse"], told["timestamp"]
                before.wire_bytes = told["redirectResponse"]["encodedDataLength"]
                before.redirects_to = told["request"]["url"]
            open_[number] = _Exchange(told)
            made.append(open_[number])
        elif number not in open_:
            continue
        elif method == "Network.responseReceived":
            open_[number].response = told["response"]
        elif method == "Network.requestServedFromCache":
            open_[number].from_memory = True
        elif method == "Network.dataReceived":
            open_[number].body_bytes += told["dataLength"]
        elif method == "Network.loadingFinished":
            open_[number].end, open_[number].wire_bytes = told["timestamp"], told["encodedDataLength"]
        elif method == "Network.loadingFailed":
            open_[number].end, open_[number].error = told["timestamp"], told["errorText"]
    return made


def _add_headers(made: Iterable[_Exchange], events: Iterable[Json]) -> None:
    """Replaces the headers of the requests by those sent over the network, including cookies."""
    told: dict[tuple[str, str], list[Json]] = {}
    for event in events:
        if event["method"].endswith("ExtraInfo"):
            key = event["method"], event["params"]["requestId"]
            told.setdefault(key, []).append(event["params"])
    for exchange in made:
        number = exchange.sent["requestId"]
        exchange.request_headers = exchange.sent["request"]["headers"]
        exchange.response_headers = exchange.response.get("headers", {})
        if of_request := told.get(("Network.requestWillBeSentExtraInfo", number)):
            exchange.request_headers = of_request.pop(0)["headers"]
        if of_response := told.get(("Network.responseReceivedExtraInfo", number)):
            response = of_response.pop(0)
            exchange.response_headers = response["headers"]
            exchange.headers_text = response.get("headersText")


def _entry(exchange: _Exchange) -> Json:
    """Returns the HAR entry of a request."""
    sent, response = exchange.sent, exchange.response
    is_cached = exchange.from_memory or bool(response.get("fromDiskCache"))
    header_bytes = UNKNOWN if exchange.headers_text is None else len(exchange.headers_text)
    is_sized = header_bytes != UNKNOWN and not is_cached
    body_bytes = exchange.wire_bytes - header_bytes if is_sized else UNKNOWN
    content: Json = {"size": exchange.body_bytes, "mimeType": response.get("mimeType", "x-unknown")}
    if is_sized:
        content["compression"] = exchange.body_bytes - body_bytes
    times = _timings(exchange)
    return {
        "_connectionId": str(response.get("connectionId", "")),
        "_initiator": sent["initiator"],
        "_priority": sent["request"]["initialPriority"],
        "_resourceType": sent.get("type", "Other").lower(),
        **({"_fromCache": "memory" if exchange.from_memory else "disk"} if is_cached else {}),
        "cache": {},
        "connection": str(response.get("remotePort", "")),
        "pageref": "page_1",
        "request": {
            "method": sent["request"]["method"],
            "url": sent["request"]["url"],
            "httpVersion": response.get("protocol", "unknown"),
            "headers": _pairs(exchange.request_headers),
            "queryString": [],
            "cookies": [],
            "headersSize": UNKNOWN,
            "bodySize": len(sent["request"].get("postData", "")),
        },
        "response": {
            "status": response.get("status", 0),
            "statusText": response.get("statusText", ""),
            "httpVersion": response.get("protocol", "unknown"),
            "headers": _pairs(exchange.response_headers),
            "cookies": [],
            "content": content,
            "redirectURL": exchange.redirects_to,
            "headersSize": header_bytes,
            "bodySize": 0 if is_cached else body_bytes,
            "_transferSize": 0 if is_cached else exchange.wire_bytes,
            "_error": exchange.error,
            "_fetchedViaServiceWorker": bool(response.get("fromServiceWorker")),
        },
        "serverIPAddress": response.get("remoteIPAddress", ""),
        "startedDateTime": _moment(sent["wallTime"]),
        "time": sum(value for key, value in times.items() if value > 0 and key != "ssl"),
        "timings": times,
    }


def _timings(exchange: _Exchange) -> dict[str, float]:
    """Returns the phases of a request as HAR timings, ms; -1 for a missing phase."""
    issued, timing = exchange.sent["timestamp"], exchange.response.get("timing")
    end = issued if exchange.end is None else exchange.end
    if timing is None:
        parts = dict.fromkeys(("dns", "connect", "ssl"), float(UNKNOWN))
        return {"blocked": (end - issued) * 1000, **parts, "send": 0.0, "wait": 0.0, "receive": 0.0}
    queued = (timing["requestTime"] - issued) * 1000
    starts = (timing["dnsStart"], timing["connectStart"], timing["sendStart"])

    def part(name: str) -> float:
        begin = timing[f"{name}Start"]
        return float(timing[f"{name}End"] - begin if begin >= 0 else UNKNOWN)

    headers = timing["receiveHeadersEnd"]
    return {
        "blocked": queued + next(start for start in starts if start >= 0),
        "dns": part("dns"),
        "connect": part("connect"),
        "ssl": part("ssl"),
        "send": part("send"),
        "wait": headers - timing["sendEnd"],
        "receive": max(0.0, (end - timing["requestTime"]) * 1000 - headers),
    }


def _moment(seconds: float) -> str:
    """Formats a time in seconds since 1970 as a HAR date."""
    text = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def _pairs(headers: Mapping[str, str]) -> list[dict[str, str]]:
    """Returns headers as HAR name-value pairs."""
    return [{"name": name, "value": value} for name, value in headers.items()]


def main() -> int:
    """Records one page and writes its HAR."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("url", metavar="URL")
    arguments.add_argument("--out", type=Path, metavar="FILE.har", help="write there, not to stdout")
    options = arguments.parse_args()
    try:
        program = find("chromium")
        if program is None:
            raise RuntimeError("chromium: not found, install it (apt install chromium)")
        with Chromium(program, flags_of(os.environ), login=login_of(os.environ)) as browser:
            recorded = json.dumps(har(browser.record(options.url, LONGEST_S)), indent=1) + "\n"
        if options.out:
            options.out.write_text(recorded, encoding="utf-8")
        else:
            sys.stdout.write(recorded)
    except (RuntimeError, OSError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

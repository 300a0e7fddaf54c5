"""Recorder of a site: an addon that makes mitmproxy store all exchanges that it forwards."""

import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mitmproxy.http import Headers as Fields
from mitmproxy.http import HTTPFlow
from mitmproxy.tls import TlsData

from catnip.web.proxy import Serving, serving
from catnip.web.site import Exchange, Headers, Request, Response, origin_of

SECRETS = {"authorization", "cookie", "proxy-authorization"}
"""Headers of requests that identify the user; they are not recorded, because a replay does not need them."""
LARGEST_BODY = "100m"
"""Size of the largest body that is recorded, in mitmproxy's notation."""
REFUSED = 407
"""Status of the proxy's answer to a client without its password."""
MAX_RECORDED = 1 << 30
"""Largest total size of the recorded bodies, which are in memory until the end, bytes."""


class Recorder:
    """Addon of mitmproxy that stores each exchange."""

    def __init__(self) -> None:
        self._begun: dict[str, Exchange | None] = {}
        self._lost: dict[str, str] = {}
        self._recorded_bytes = 0

    @property
    def exchanges(self) -> list[Exchange]:
        """Complete exchanges, in the order of their requests."""
        return [exchange for exchange in self._begun.values() if exchange is not None]

    @property
    def lost(self) -> list[str]:
        """Requests without a complete exchange, each with the reason."""
        return list(self._lost.values())

    def requestheaders(self, flow: HTTPFlow) -> None:
        """Registers a request; it counts as incomplete until `response` is called for it."""
        if flow.response is not None:
            # The proxy has refused a client without its password.
            return
        self._begun[flow.id] = None
        self._lost[flow.id] = (
            f"{flow.request.method} {flow.request.url}: not complete at the end of the recording"
        )

    def response(self, flow: HTTPFlow) -> None:
        """Records an exchange whose response is complete."""
        request, response = flow.request, flow.response
        if flow.id not in self._begun or response is None:
            return
        size = len(request.raw_content or b"") + len(response.raw_content or b"")
        if self._recorded_bytes + size > MAX_RECORDED:
            self._lose(flow, f"the recording has {MAX_RECORDED >> 20} MB, and no more is kept")
            return
        self._recorded_bytes += size
        try:
            origin_of(request.url)
        except ValueError as why:
            self._lose(flow, str(why))
            return
        if response.status_code < 200:
            self._lose(
                flow, f"{response.status_code} {response.reason}: the rest of the connection is not HTTP"
            )
            return
        peer = flow.server_conn.peername
        sent = [(name, value) for name, value in _listed(request.headers) if name.lower() not in SECRETS]
        self._begun[flow.id] = Exchange(
            Request(request.method, request.url, sent, request.raw_content or b""),
            Response(
                response.status_code,
                response.reason,
                _listed(response.headers),
                response.raw_content or b"",
            ),
            peer[0] if peer else None,
        )
        del self._lost[flow.id]

    def error(self, flow: HTTPFlow) -> None:
        """Registers an exchange whose connection ended before the response was complete."""
        self._begun[flow.id] = None
        reason = flow.error.msg if flow.error else "no response"
        self._lose(flow, "a body of more than 100 MB" if "body_size_limit" in reason else reason)

    def http_connect_error(self, flow: HTTPFlow) -> None:
        """Registers a server that cannot be reached."""
        if flow.response is not None and flow.response.status_code == REFUSED:
            return
        self._lose(flow, flow.server_conn.error or "no connection")

    def tls_failed_client(self, data: TlsData) -> None:
        """Registers a client that does not trust the proxy's certificate authority."""
        host = data.conn.sni or "?"
        self._lost[data.conn.id] = (
            f"https://{host}: {data.conn.error or 'no TLS'}: is $CATNIP_CA trusted there?"
        )

    def _lose(self, flow: HTTPFlow, reason: str) -> None:
        method, url = flow.request.method, flow.request.url
        self._lost[flow.id] = f"{method} {url}: {re.sub(r'[^ -~]+', ' ', reason)}"


@asynccontextmanager
async def recording(recorder: Recorder, port: int, trusted: str | None) -> AsyncIterator[Serving]:
    """Runs a recording proxy on this machine during the block.

    It serves only clients with its password, so that other users of the machine cannot add to the recording.
    The proxy verifies servers by the certificate authorities of the file `trusted`, otherwise by those of
    Mozilla.
    """
    # Objects in a browser's cache would be missing from the recording.
    settings = {
        "anticache": True,
        "ssl_verify_upstream_trusted_ca": trusted,
        "body_size_limit": LARGEST_BODY,
    }
    login = f"catnip:{secrets.token_urlsafe(24)}"
    async with serving([f"regular@127.0.0.1:{port}"], recorder, settings, login) as proxy:
        yield proxy


def _listed(headers: Fields) -> Headers:
    """Returns headers as pairs of Latin-1 texts, which represent every byte."""
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers.fields]

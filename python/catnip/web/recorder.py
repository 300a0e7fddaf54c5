"""Recorder of a site: an addon that makes mitmproxy store all exchanges that it forwards."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mitmproxy.http import Headers as Fields
from mitmproxy.http import HTTPFlow
from mitmproxy.tls import TlsData

from catnip.web.proxy import Serving, serving
from catnip.web.site import Exchange, Headers, Request, Response, origin_of

SECRETS = {"authorization", "cookie", "proxy-authorization"}
"""Headers of requests that identify the user; they are not recorded, because a replay does not need them."""


class Recorder:
    """Addon of mitmproxy that stores each exchange."""

    def __init__(self) -> None:
        self._begun: dict[str, Exchange | None] = {}
        self._lost: dict[str, str] = {}

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
        self._begun[flow.id] = None
        self._lost[flow.id] = (
            f"{flow.request.method} {flow.request.url}: not complete at the end of the recording"
        )

    def response(self, flow: HTTPFlow) -> None:
        """Records an exchange whose response is complete."""
        request, response = flow.request, flow.response
        assert response is not None
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
        self._lose(flow, flow.error.msg if flow.error else "no response")

    def http_connect_error(self, flow: HTTPFlow) -> None:
        """Registers a server that cannot be reached."""
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

    The proxy verifies servers by the certificate authorities of the file `trusted`, otherwise by those of
    Mozilla.
    """
    # Objects in a browser's cache would be missing from the recording.
    settings = {"anticache": True, "ssl_verify_upstream_trusted_ca": trusted}
    async with serving([f"regular@127.0.0.1:{port}"], recorder, settings) as proxy:
        yield proxy


def _listed(headers: Fields) -> Headers:
    """Returns headers as pairs of Latin-1 texts, which represent every byte."""
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers.fields]

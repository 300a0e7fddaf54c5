"""Servers that send the recorded responses of a site, each host at an address of its own."""

import asyncio
import ipaddress
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from dns.exception import DNSException
from dns.message import Message, from_wire, make_response
from dns.rcode import Rcode
from dns.rdataclass import RdataClass
from dns.rdatatype import RdataType
from dns.rrset import from_text
from mitmproxy.http import Headers, HTTPFlow, Response

from catnip._core import InputError
from catnip.base.verbosity import note
from catnip.web.proxy import Serving, serving
from catnip.web.site import Exchange, Origin, Site

RANGE = ipaddress.IPv4Network("198.18.0.0/15")
"""Addresses of replayed hosts: the range for measurements of networks (RFC 2544), unused in the Internet."""
RESOLVER = str(RANGE[1])
TTL_S = 60
HOP_BY_HOP = {
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
}
"""Headers that concern the recorded connection only (RFC 9110)."""
ELSEWHERE = {"alt-svc"}
"""Headers that refer to other servers, which are not replayed, such as servers of HTTP/3."""
WITHOUT_BODY = {204, 304}


def addresses(site: Site) -> dict[str, str]:
    """Returns the address of each host: its name if it is an address, otherwise the next one of `RANGE`.

    Raises InputError if a host has the address of the resolver, or if there are more hosts than addresses.
    """
    hosts = list(dict.fromkeys(origin.host for origin in site.origins))
    literal = {host for host in hosts if _is_address(host)}
    if RESOLVER in literal:
        raise InputError(f"SITE: host {RESOLVER}: the address of a replay's DNS server")
    if len(hosts) > RANGE.num_addresses // 2:
        raise InputError(f"SITE: {len(hosts)} hosts: at most {RANGE.num_addresses // 2}")
    free = (str(address) for address in RANGE.hosts() if str(address) not in {RESOLVER, *literal})
    return {host: host if host in literal else next(free) for host in hosts}


class Replayer:
    """Addon of mitmproxy that answers requests and DNS queries from a recorded site, and counts them."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.addresses = addresses(site)
        self.answered = 0
        self.unmatched: Counter[str] = Counter()
        """Numbers of requests for which no response was recorded, by method and URL."""
        self.unknown: Counter[str] = Counter()
        """Numbers of DNS queries for names that are not those of recorded hosts."""

    def request(self, flow: HTTPFlow) -> None:
        """Answers a request with the recorded response, or with 404 if none was recorded."""
        request = flow.request
        scheme = "https" if flow.client_conn.tls_established else "http"
        port = flow.client_conn.sockname[1] if flow.client_conn.sockname else 0
        host = (request.host_header or "").rpartition("@")[2].partition(":")[0].rstrip(".").lower()
        origin = Origin(scheme, host, port)
        found = self.site.answer(request.method, origin, request.path)
        if found is None:
            self.unmatched[f"{request.method} {origin}{request.path}"] += 1
            flow.response = Response.make(404, "not recorded\n", {"Content-Type": "text/plain"})
        else:
            self.answered += 1
            flow.response = _response(found)

    def resolve(self, question: Message) -> Message:
        """Answers a DNS query. A recorded host has only an IPv4 address; other hosts do not exist."""
        answer = make_response(question, recursion_available=True)
        for entry in question.question:
            name = entry.name.to_text(omit_final_dot=True).lower()
            # Queries about HTTPS on a port other than 443 have the port before the name (RFC 9460).
            address = self.addresses.get(re.sub(r"^_\d+\._https\.", "", name))
            if address is None:
                self.unknown[name] += 1
                answer.set_rcode(Rcode.NXDOMAIN)
            elif entry.rdtype == RdataType.A:
                answer.answer.append(from_text(entry.name, TTL_S, RdataClass.IN, RdataType.A, address))
        return answer

    def document(self) -> dict[str, Any]:
        """Returns the counts of requests and queries, for JSON."""
        return {
            "addresses": self.addresses,
            "answered": self.answered,
            "unmatched": dict(self.unmatched),
            "unknown_names": dict(self.unknown),
        }

    def complaints(self) -> list[str]:
        """Returns descriptions of the requests without a recorded response and of the unknown names."""
        requests = [
            f"404, not recorded: {request}{_times(count)}" for request, count in self.unmatched.items()
        ]
        names = [f"no such name, not recorded: {name}{_times(count)}" for name, count in self.unknown.items()]
        return requests + names


@asynccontextmanager
async def replaying(replayer: Replayer) -> AsyncIterator[Serving]:
    """Runs the servers and a DNS resolver during the block, at addresses that this machine must have."""
    where = dict.fromkeys((replayer.addresses[origin.host], origin.port) for origin in replayer.site.origins)
    # In this mode, clients that begin with TLS are served with TLS. `replayer` answers all requests, so none
    # is forwarded to the addresses.
    modes = [f"reverse:http://{address}:{port}@{address}:{port}" for address, port in where]
    settings = {"connection_strategy": "lazy", "keep_host_header": True, "http2": False}
    loop = asyncio.get_running_loop()
    resolver, _ = await loop.create_datagram_endpoint(lambda: _Resolver(replayer), (RESOLVER, 53))
    try:
        async with serving(modes, replayer, settings) as servers:
            yield servers
    finally:
        resolver.close()


class _Resolver(asyncio.DatagramProtocol):
    """DNS resolver of a replay: receives queries and sends answers as UDP datagrams."""

    _transport: asyncio.DatagramTransport

    def __init__(self, replayer: Replayer) -> None:
        self._replayer = replayer

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        try:
            answer = self._replayer.resolve(from_wire(data))
        except DNSException as error:
            note(f"invalid DNS query from {addr[0]}: {error}")
        else:
            self._transport.sendto(answer.to_wire(), addr)


def _response(exchange: Exchange) -> Response:
    """Returns the recorded response of an exchange as HTTP/1.1 over a persistent connection."""
    recorded = exchange.response
    dropped = HOP_BY_HOP | ELSEWHERE
    has_body = exchange.request.method != "HEAD" and recorded.status not in WITHOUT_BODY
    if has_body:
        dropped = dropped | {"content-length"}
    fields = [
        (name.encode("latin-1"), value.encode("latin-1"))
        for name, value in recorded.headers
        if name.lower() not in dropped
    ]
    if has_body:
        fields.append((b"Content-Length", str(len(recorded.body)).encode()))
    return Response(
        http_version=b"HTTP/1.1",
        status_code=recorded.status,
        reason=recorded.reason.encode("latin-1"),
        headers=Headers(fields),
        content=recorded.body if has_body else b"",
        trailers=None,
        timestamp_start=0.0,
        timestamp_end=0.0,
    )


def _times(count: int) -> str:
    return f" ({count} times)" if count > 1 else ""


def _is_address(host: str) -> bool:
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return True

"""Servers that send the recorded responses of a site, each host at an address of its own."""

import asyncio
import ipaddress
import re
import socket
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from errno import EADDRINUSE
from itertools import count
from typing import Any

from dns.exception import DNSException
from dns.message import Message, from_wire, make_response
from dns.rcode import Rcode
from dns.rdataclass import RdataClass
from dns.rdatatype import RdataType
from dns.rrset import from_text

from catnip._core import InputError
from catnip.base.verbosity import note
from catnip.web import congestion, http, http2
from catnip.web.authority import Authority
from catnip.web.behaviour import Behaviour
from catnip.web.http import Answer, Asked, Connection, Servers, end_to_end
from catnip.web.site import HTTP1, HTTP2, Exchange, Origin, Site

RANGE = ipaddress.IPv4Network("198.18.0.0/15")
"""Addresses of replayed hosts: the range for measurements of networks (RFC 2544), unused in the Internet."""
RANGE6 = ipaddress.IPv6Network("2001:2::/48")
"""IPv6 addresses of replayed hosts: the range for measurements of networks (RFC 5180)."""
RESOLVER = str(RANGE[1])
TTL_S = 60
ELSEWHERE = "alt-svc"
"""Header that refers to other servers, which are not replayed, such as servers of HTTP/3."""
WITHOUT_BODY = {204, 304}
UNKNOWN = b"not recorded\n"
"""Body of the response to a request for which none was recorded."""


def addresses(site: Site, behaviour: Behaviour) -> dict[str, list[str]]:
    """Returns the addresses of each host: its name if it is one, otherwise the next ones of the ranges.

    Raises InputError if a host has the address of the resolver, or if there are more hosts than addresses.
    """
    hosts = list(dict.fromkeys(origin.host for origin in site.origins))
    literal = {host for host in hosts if _is_address(host)}
    if RESOLVER in literal:
        raise InputError(f"SITE: host {RESOLVER}: the address of a replay's DNS server")
    if len(hosts) > RANGE.num_addresses // 2:
        raise InputError(f"SITE: {len(hosts)} hosts: at most {RANGE.num_addresses // 2}")
    free = (str(address) for address in RANGE.hosts() if str(address) not in {RESOLVER, *literal})
    free6 = (str(RANGE6[number]) for number in count(2))
    named = (*([free] if behaviour.has_ipv4 else []), *([free6] if behaviour.has_ipv6 else []))
    return {host: [host] if host in literal else [next(addresses) for addresses in named] for host in hosts}


class Replayer:
    """Answers to requests and DNS queries from a recorded site, and their counts."""

    def __init__(self, site: Site, behaviour: Behaviour) -> None:
        self.site = site
        self._behaviour = behaviour
        self.addresses = addresses(site, behaviour)
        self.answered = 0
        self.think_s = 0.0
        """Sum of the think times of all responses."""
        self.connections: Counter[str] = Counter()
        """Numbers of connections by protocol."""
        self.connections6 = 0
        """Number of connections by IPv6."""
        self.congestion: Counter[str] = Counter()
        """Numbers of connections by the congestion control of the server."""
        self.unmatched: Counter[str] = Counter()
        """Numbers of requests for which no response was recorded, by method and URL."""
        self.unknown: Counter[str] = Counter()
        """Numbers of DNS queries for names that are not those of recorded hosts."""

    def protocol(self, origin: Origin) -> str:
        """Returns the protocol that the servers of an origin prefer: by default the recorded one.

        HTTP/2 needs TLS.
        """
        if origin.scheme == "http":
            return HTTP1
        return self._behaviour.protocol or self.site.protocols.get(origin, HTTP1)

    def count(self, protocol: str, connection: Connection) -> None:
        """Counts a connection."""
        own: socket.socket = connection.writer.get_extra_info("socket")
        self.connections[protocol] += 1
        self.connections6 += own.family == socket.AF_INET6
        self.congestion[congestion.of(own)] += 1

    def answer(self, asked: Asked, scheme: str, port: int) -> Answer:
        """Returns the recorded response to a request, or 404 if none was recorded."""
        host = asked.host.rpartition("@")[2].partition(":")[0].rstrip(".").lower()
        origin = Origin(scheme, host, port)
        found = self.site.answer(asked.method, origin, asked.target)
        if found is not None:
            self.answered += 1
            think_s = found.think_s if self._behaviour.thinks else 0.0
            self.think_s += think_s
            return _answer(found, think_s)
        self.unmatched[f"{asked.method} {origin}{asked.target}"] += 1
        fields = [(b"Content-Type", b"text/plain"), (b"Content-Length", str(len(UNKNOWN)).encode())]
        return Answer(404, b"Not Found", fields, None if asked.method == "HEAD" else UNKNOWN)

    def resolve(self, question: Message) -> Message:
        """Answers a DNS query for the addresses of a recorded host; other hosts do not exist."""
        answer = make_response(question, recursion_available=True)
        for entry in question.question:
            name = entry.name.to_text(omit_final_dot=True).lower()
            # Queries about HTTPS on a port other than 443 have the port before the name (RFC 9460).
            host = re.sub(r"^_\d+\._https\.", "", name)
            if host not in self.addresses:
                self.unknown[name] += 1
                answer.set_rcode(Rcode.NXDOMAIN)
                continue
            for address in self.addresses[host]:
                kind = RdataType.AAAA if ":" in address else RdataType.A
                if kind == entry.rdtype:
                    answer.answer.append(from_text(entry.name, TTL_S, RdataClass.IN, kind, address))
        return answer

    def document(self) -> dict[str, Any]:
        """Returns the counts of requests and queries, for JSON."""
        return {
            "addresses": self._addresses(is_ipv6=False),
            "addresses6": self._addresses(is_ipv6=True),
            "connections": dict(self.connections),
            "connections6": self.connections6,
            "congestion": dict(self.congestion),
            "answered": self.answered,
            "think_s": round(self.think_s, 6),
            "unmatched": dict(self.unmatched),
            "unknown_names": dict(self.unknown),
        }

    def _addresses(self, *, is_ipv6: bool) -> dict[str, str]:
        pairs = ((host, address) for host, known in self.addresses.items() for address in known)
        return {host: address for host, address in pairs if (":" in address) == is_ipv6}

    def complaints(self) -> list[str]:
        """Returns descriptions of the requests without a recorded response and of the unknown names."""
        requests = [
            f"404, not recorded: {request}{_times(count)}" for request, count in self.unmatched.items()
        ]
        names = [f"no such name, not recorded: {name}{_times(count)}" for name, count in self.unknown.items()]
        return requests + names


@asynccontextmanager
async def replaying(replayer: Replayer) -> AsyncIterator[Authority]:
    """Runs the servers and a DNS resolver during the block, at addresses that this machine must have.

    Yields the certificate authority of the servers. Raises InputError if one port has HTTP and HTTPS.
    """
    loop = asyncio.get_running_loop()
    resolver, _ = await loop.create_datagram_endpoint(lambda: _Resolver(replayer), (RESOLVER, 53))
    try:
        with Authority() as authority:
            async with Servers() as servers:
                for origin in replayer.site.origins:
                    await _listen(servers, replayer, authority, origin)
                yield authority
    finally:
        resolver.close()


async def _listen(servers: Servers, replayer: Replayer, authority: Authority, origin: Origin) -> None:
    """Starts the server of an origin."""

    async def serve(connection: Connection) -> None:
        protocol = connection.protocol or HTTP1
        replayer.count(protocol, connection)
        version = http2 if protocol == HTTP2 else http
        await version.serve(connection, lambda asked: replayer.answer(asked, origin.scheme, origin.port))

    is_secure = origin.scheme == "https"
    context = authority.context(origin.host, replayer.protocol(origin)) if is_secure else None
    try:
        for address in replayer.addresses[origin.host]:
            await servers.listen(serve, address, origin.port, context)
    except OSError as error:
        if error.errno == EADDRINUSE:
            reason = "the site has HTTP and HTTPS there; expected one of them"
            raise InputError(f"SITE: {origin.host}, port {origin.port}: {reason}") from error
        raise


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


def _answer(exchange: Exchange, think_s: float) -> Answer:
    """Returns the recorded response of an exchange, for a persistent connection."""
    recorded = exchange.response
    has_body = exchange.request.method != "HEAD" and recorded.status not in WITHOUT_BODY
    sent = [(name.encode("latin-1"), value.strip().encode("latin-1")) for name, value in recorded.headers]
    fields = end_to_end(sent, ELSEWHERE, *(["content-length"] if has_body else []))
    if has_body:
        fields.append((b"Content-Length", str(len(recorded.body)).encode()))
    body = recorded.body if has_body else None
    return Answer(recorded.status, recorded.reason.encode("latin-1"), fields, body, think_s)


def _times(count: int) -> str:
    return f" ({count} times)" if count > 1 else ""


def _is_address(host: str) -> bool:
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return True

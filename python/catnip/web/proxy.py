"""Proxy for HTTP and HTTPS that records what it forwards."""

import asyncio
import base64
import hmac
import os
import secrets
import socket
import ssl
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

import certifi
import h11

from catnip._core import InputError
from catnip.base.verbosity import note
from catnip.web.authority import Authority
from catnip.web.http import CHUNK, Broken, Connection, Servers, end_to_end
from catnip.web.recorder import MAX_BODY, SECRETS, TOO_LARGE, Recorder, listed
from catnip.web.site import HTTP1, HTTP2, PORTS, Exchange, Origin, Request, Response

CONDITIONS = {"if-modified-since", "if-none-match"}
"""Headers of conditional requests: objects in a client's cache would be missing from the recording."""
LONGEST_CONNECT_S = 30
"""Time after which a server that does not answer counts as unreachable."""
LONGEST_OFFER_S = 5
"""Time after which a server that does not choose a protocol at the end of a recording is not waited for."""
LONGEST_UNKNOWN_S = 10
"""Time within which a client must send its first request, which has the password."""
MIN_RTT = slice(148, 152)
"""Place of the minimal round-trip time, µs, in what Linux tells of a TCP connection (struct tcp_info)."""
MOST_UNKNOWN = 32
"""Largest number of clients that have not sent the password; if one more connects, the first must go."""
SWITCHING = HTTPStatus.SWITCHING_PROTOCOLS
# What a client without the password is answered.
REFUSED = [("Proxy-Authenticate", 'Basic realm="catnip"'), ("Content-Length", "0")]


@dataclass(frozen=True)
class Proxy:
    """Running proxy: where it listens, name and password (`NAME:PASSWORD`), and its certificate authority."""

    address: tuple[str, int]
    login: str
    authority: Authority


@dataclass(frozen=True)
class _Server:
    """Server to which requests are forwarded."""

    scheme: str
    host: str
    port: int

    def url(self, target: str) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}{'' if self.port == PORTS[self.scheme] else f':{self.port}'}{target}"


@asynccontextmanager
async def recording(recorder: Recorder, port: int, trusted: str | None) -> AsyncIterator[Proxy]:
    """Runs a recording proxy on this machine during the block.

    It serves only clients with its password, so that other users of the machine cannot add to the recording.
    The proxy verifies servers by the certificate authorities of the file `trusted`, otherwise by those of
    Mozilla. Raises InputError if the file cannot be read or the port is not free.
    """
    verified = _verified(trusted, HTTP1)
    offers = _Offers(recorder, _verified(trusted, HTTP2, HTTP1))
    login = f"catnip:{secrets.token_urlsafe(24)}"
    unknown: dict[Connection, None] = {}
    with Authority() as authority:

        async def serve(connection: Connection) -> None:
            if len(unknown) == MOST_UNKNOWN:
                next(iter(unknown)).close()
            unknown[connection] = None
            try:
                await _Client(recorder, authority, verified, offers, login, connection, unknown).serve()
            finally:
                unknown.pop(connection, None)

        async with Servers() as servers:
            try:
                address = await servers.listen(serve, "127.0.0.1", port)
            except OSError as error:
                reason = os.strerror(error.errno).lower() if error.errno else str(error)
                raise InputError(f"--port: 127.0.0.1:{port}: {reason}") from error
            yield Proxy(address, login, authority)
            await offers.finish()


def _verified(trusted: str | None, *protocols: str) -> ssl.SSLContext:
    """Returns the TLS context of a client that offers these protocols. Raises InputError."""
    try:
        context = ssl.create_default_context(cafile=trusted or certifi.where())
    except OSError as error:
        raise InputError(f"$SSL_CERT_FILE: {trusted}: {error.strerror or error}") from error
    context.set_alpn_protocols(protocols)
    # From Python 3.13 on, the default refuses authorities that browsers accept.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


class _Offers:
    """Protocols that servers choose, found out by a handshake of its own with each of them.

    The proxy itself speaks only HTTP/1.1.
    """

    def __init__(self, recorder: Recorder, context: ssl.SSLContext) -> None:
        self._recorder, self._context = recorder, context
        self._asked: dict[_Server, asyncio.Task[None]] = {}

    def ask(self, server: _Server, address: str) -> None:
        """Finds out the protocol of a server at this IP address, unless that has begun before."""
        if server not in self._asked:
            self._asked[server] = asyncio.create_task(self._ask(server, address))

    async def finish(self) -> None:
        """Waits for the servers that have been asked, but not for long."""
        if self._asked:
            _, pending = await asyncio.wait(self._asked.values(), timeout=LONGEST_OFFER_S)
            for task in pending:
                task.cancel()

    async def _ask(self, server: _Server, address: str) -> None:
        try:
            _, writer = await asyncio.open_connection(
                address, server.port, ssl=self._context, server_hostname=server.host
            )
        except OSError as error:
            note(f"{server.url('')}: HTTP/2 is not offered to it: {_why(error)}")
            return
        chosen = writer.get_extra_info("ssl_object").selected_alpn_protocol()
        self._recorder.protocols[Origin("https", server.host, server.port)] = chosen or HTTP1
        with suppress(OSError):
            writer.close()
            await writer.wait_closed()


class _Client:
    """Connection of a client, with the connection to the server of its last request."""

    def __init__(
        self,
        recorder: Recorder,
        authority: Authority,
        verified: ssl.SSLContext,
        offers: _Offers,
        login: str,
        connection: Connection,
        unknown: dict[Connection, None],
    ) -> None:
        self._recorder, self._authority, self._verified = recorder, authority, verified
        self._offers = offers
        self._password = b"Basic " + base64.b64encode(login.encode())
        self._here = connection
        self._unknown = unknown
        self._tunnel: _Server | None = None
        self._there: tuple[_Server, Connection] | None = None

    async def serve(self) -> None:
        """Forwards requests until the client or a server ends the connection. Raises Broken."""
        try:
            request = await self._first()
            while isinstance(request, h11.Request):
                if not await self._serve(request) or not self._here.goes_on():
                    return
                request = await self._here.receive()
        finally:
            if self._there is not None:
                self._there[1].close()

    async def _first(self) -> h11.Event | None:
        """Returns the begin of the first request. Raises Broken."""
        try:
            async with asyncio.timeout(LONGEST_UNKNOWN_S):
                return await self._here.receive()
        except TimeoutError as error:
            raise Broken(f"no request within {LONGEST_UNKNOWN_S} s") from error

    async def _serve(self, request: h11.Request) -> bool:
        """Serves a request; returns false if the connection must end. Raises Broken."""
        if self._tunnel is None and not self._may(request):
            # What a stranger sends further is not read.
            await self._answer(request, 407, REFUSED)
            return isinstance(await self._here.receive(), h11.EndOfMessage)
        self._unknown.pop(self._here, None)
        if request.method == b"CONNECT":
            if not isinstance(await self._here.receive(), h11.EndOfMessage):
                raise Broken("CONNECT with a body")
            await self._connect(request)
            return True
        number = self._recorder.begin(_subject(request, self._tunnel))
        return await self._forward(number, request, await self._body(number))

    def _may(self, request: h11.Request) -> bool:
        given = [value for name, value in request.headers if name == b"proxy-authorization"]
        return len(given) == 1 and hmac.compare_digest(given[0], self._password)

    async def _body(self, number: int) -> bytes:
        parts = []
        while isinstance(part := await self._here.receive(), h11.Data):
            if not self._recorder.hold(number, len(part.data)):
                raise Broken("too large a body")
            parts.append(part.data)
        return b"".join(parts)

    async def _answer(
        self, request: h11.Request, status: int, headers: list[tuple[str, str]], body: bytes = b""
    ) -> None:
        await self._here.send(
            h11.Response(status_code=status, headers=headers, reason=HTTPStatus(status).phrase),
            *([h11.Data(data=body)] if body and request.method != b"HEAD" else []),
            h11.EndOfMessage(),
        )

    async def _fail(self, request: h11.Request, reason: str) -> None:
        """Answers that the server cannot be reached."""
        body = f"{reason}\n".encode()
        fields = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))]
        await self._answer(request, 502, fields, body)

    async def _connect(self, request: h11.Request) -> None:
        """Answers CONNECT; after success, the client speaks TLS with this proxy. Raises Broken."""
        target = request.target.decode("latin-1")
        parts = urlsplit(f"//{target}")
        try:
            server = _Server("https", parts.hostname or "", parts.port or PORTS["https"])
        except ValueError as error:
            raise Broken(f"CONNECT {target}: {error}") from error
        try:
            # The server first: the client is told at once whether it can be reached and trusted.
            await self._connected(server)
        except (OSError, ValueError) as error:
            self._recorder.fail(server.url(""), _why(error))
            await self._fail(request, _why(error))
            return
        await self._here.send(h11.Response(status_code=200, headers=[], reason=b"Connection established"))
        here = self._here
        if here.trailing:
            raise Broken(f"CONNECT {target}: data before the answer")
        try:
            await here.writer.start_tls(self._authority.context(server.host))
        except ssl.SSLError as error:
            self._recorder.fail(server.url(""), f"{_why(error)}: is $CATNIP_CA trusted there?")
            raise Broken(_why(error)) from error
        except OSError as error:
            raise Broken(_why(error)) from error
        self._tunnel, self._here = server, Connection(here.reader, here.writer, h11.SERVER)

    async def _connected(self, server: _Server) -> tuple[Connection, bool]:
        """Returns a connection to a server, and true if it existed before. Raises OSError."""
        if self._there is not None:
            used, connection = self._there
            if used == server and connection.goes_on():
                return connection, True
            connection.close()
            self._there = None
        is_secure = server.scheme == "https"
        async with asyncio.timeout(LONGEST_CONNECT_S):
            reader, writer = await asyncio.open_connection(
                server.host, server.port, ssl=self._verified if is_secure else None, happy_eyeballs_delay=0.25
            )
        connection = Connection(reader, writer, h11.CLIENT)
        if is_secure:
            self._offers.ask(server, writer.get_extra_info("peername")[0])
        self._there = server, connection
        return connection, False

    async def _forward(self, number: int, request: h11.Request, body: bytes) -> bool:
        """Forwards a request and its response; returns false if the connection must end. Raises Broken."""
        server, target = self._tunnel, request.target.decode("latin-1")
        if server is None:
            try:
                server, target = _of_url(target)
            except Broken as broken:
                self._recorder.lose(number, str(broken))
                raise
        sent = end_to_end(request.headers.raw_items(), "expect", *CONDITIONS)
        recorded = [field for field in listed(sent) if field[0].lower() not in SECRETS]
        of = Request(request.method.decode(), server.url(target), recorded, body)
        if body and not any(name == b"content-length" for name, _ in request.headers):
            sent.append((b"Content-Length", str(len(body)).encode()))
        if upgrade := [value for name, value in request.headers if name == b"upgrade"]:
            sent += [(b"Connection", b"Upgrade"), (b"Upgrade", upgrade[0])]
        asked = h11.Request(method=request.method, target=target, headers=sent)
        try:
            there, begun, think_s = await self._exchange(server, asked, body)
        except (Broken, OSError, ValueError) as error:
            self._recorder.lose(number, _why(error))
            await self._fail(request, _why(error))
            return True
        if isinstance(begun, h11.InformationalResponse):
            known = f"{begun.status_code} {begun.reason.decode('latin-1')}"
            self._recorder.lose(number, f"{known}: the rest of the connection is not HTTP")
            await self._here.send(begun)
            await _relay(self._here, there)
            return False
        return await self._respond(number, of, there, begun, think_s)

    async def _exchange(
        self, server: _Server, request: h11.Request, body: bytes
    ) -> tuple[Connection, h11.Response | h11.InformationalResponse, float]:
        """Sends a request; returns the connection, the begin of the response or status 101, and the time that
        the server took for it, s.

        Raises Broken or OSError.
        """
        while True:
            there, is_used = await self._connected(server)
            there.began_at = None
            try:
                await there.send(request, *([h11.Data(data=body)] if body else []), h11.EndOfMessage())
                sent_at = began_at = time.monotonic()
                while isinstance(event := await there.receive(), h11.InformationalResponse):
                    if event.status_code == SWITCHING:
                        return there, event, 0
                    # The response itself has not begun, unless it has come together with this one.
                    began_at, there.began_at = there.began_at or began_at, None
                if isinstance(event, h11.Response):
                    waited_s = (there.began_at or began_at) - sent_at
                    return there, event, max(waited_s - _round_trip_s(there), 0)
                raise Broken("no response")
            except Broken:
                there.close()
                self._there = None
                # A server may end an idle connection at any time.
                if not is_used or there.began_at is not None:
                    raise

    async def _respond(
        self, number: int, of: Request, there: Connection, begun: h11.Response, think_s: float
    ) -> bool:
        """Passes a response on and records it; returns false if it has not arrived whole. Raises Broken."""
        fields = begun.headers.raw_items()
        passed_on = end_to_end(fields)
        await self._here.send(
            h11.Response(status_code=begun.status_code, headers=passed_on, reason=begun.reason)
        )
        body, is_kept = bytearray(), True
        while True:
            try:
                event = await there.receive()
            except Broken as broken:
                is_large = any(
                    name.lower() == b"content-length" and int(value) > MAX_BODY for name, value in fields
                )
                self._recorder.lose(number, TOO_LARGE if is_large else str(broken))
                return False
            if not isinstance(event, h11.Data):
                break
            is_kept = is_kept and self._recorder.hold(number, len(event.data))
            if is_kept:
                body += event.data
            else:
                body.clear()
            await self._here.send(event)
        await self._here.send(h11.EndOfMessage())
        received = Response(begun.status_code, begun.reason.decode("latin-1"), listed(fields), bytes(body))
        peer = there.writer.get_extra_info("peername")
        self._recorder.complete(number, Exchange(of, received, peer[0] if peer else None, think_s))
        return True


def _round_trip_s(connection: Connection) -> float:
    """Returns the shortest round-trip time that the kernel has measured on a connection."""
    own: socket.socket = connection.writer.get_extra_info("socket")
    info = own.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, MIN_RTT.stop)
    return int.from_bytes(info[MIN_RTT], sys.byteorder) / 10**6


def _subject(request: h11.Request, tunnel: _Server | None) -> str:
    target = request.target.decode("latin-1")
    return f"{request.method.decode()} {tunnel.url(target) if tunnel else target}"


def _of_url(url: str) -> tuple[_Server, str]:
    """Returns the server of an absolute URL, and the target there. Raises Broken."""
    try:
        parts = urlsplit(url)
        server = _Server(parts.scheme, parts.hostname or "", parts.port or PORTS[parts.scheme])
    except (KeyError, ValueError) as error:
        raise Broken(f"{url}: expected http:// or https://") from error
    return server, (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _why(error: Exception) -> str:
    """Returns the reason of a failed connection as a text of one line."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    if isinstance(error, TimeoutError):
        return f"no answer within {LONGEST_CONNECT_S} s"
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error)


async def _relay(one: Connection, other: Connection) -> None:
    """Passes all bytes on between two connections that have left HTTP, until one of them ends."""

    async def pass_on(source: Connection, sink: Connection) -> None:
        data = source.trailing
        try:
            while True:
                sink.writer.write(data)
                await sink.writer.drain()
                data = await source.reader.read(CHUNK)
                if not data:
                    return
        except OSError as error:
            raise Broken(_why(error)) from error

    both = [asyncio.create_task(pass_on(one, other)), asyncio.create_task(pass_on(other, one))]
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in both:
            task.cancel()
        await asyncio.gather(*both, return_exceptions=True)

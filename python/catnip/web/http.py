"""HTTP/1.1 over asyncio's streams, for servers and clients."""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

import h11

from catnip.base.verbosity import note

CHUNK = 1 << 16
"""Largest number of bytes that are read at once."""
MAX_HEADERS = 1 << 18
"""Largest size of the headers of a request or response, bytes."""
HOP_BY_HOP = {
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
}
"""Headers that concern one connection only (RFC 9110)."""
Fields = list[tuple[bytes, bytes]]


@dataclass(frozen=True)
class Asked:
    """Request of any version of HTTP, as far as it selects a response."""

    method: str
    host: str
    """Host as the client names it, possibly with a port."""
    target: str


@dataclass(frozen=True)
class Answer:
    """Response of any version of HTTP; `body` is None if it has none, as to HEAD."""

    status: int
    reason: bytes
    fields: Fields
    body: bytes | None
    think_s: float = 0.0
    """Time from the end of the request until the response begins."""


class Broken(Exception):
    """Raised if the peer does not speak HTTP/1.1, or ends the connection within a message."""


class Servers:
    """Servers and their connections; for use in `async with`, which ends them."""

    def __init__(self) -> None:
        self._listening: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self._listening:
            server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def listen(
        self,
        serve: Callable[["Connection"], Awaitable[None]],
        host: str,
        port: int,
        context: ssl.SSLContext | None = None,
    ) -> tuple[str, int]:
        """Serves the connections to an address, with TLS if there is a context; returns the address.

        A connection is closed when `serve` returns, or raises Broken or an error of the protocol, as for a
        message that HTTP cannot express. Raises OSError.
        """

        async def until_end(connection: Connection) -> None:
            try:
                await serve(connection)
            except (Broken, h11.ProtocolError) as error:
                note(f"a connection to {host}, port {port}: {error}")
            finally:
                connection.close()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(until_end(Connection(reader, writer, h11.SERVER)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        server = await asyncio.start_server(accept, host, port, ssl=context)
        self._listening.append(server)
        address: tuple[str, int] = server.sockets[0].getsockname()[:2]
        return address


class Connection:
    """One end of a connection over which requests follow each other."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, role: type[h11.CLIENT | h11.SERVER]
    ) -> None:
        self.reader, self.writer = reader, writer
        self.began_at: float | None = None
        """Time of the first byte that has come since this was set to None, s of the monotonic clock."""
        self._role = role
        self._http = h11.Connection(role, max_incomplete_event_size=MAX_HEADERS)

    @property
    def protocol(self) -> str | None:
        """Protocol that TLS has negotiated (ALPN); None without TLS, or if the client did not ask for one."""
        tls: ssl.SSLObject | None = self.writer.get_extra_info("ssl_object")
        return None if tls is None else tls.selected_alpn_protocol()

    @property
    def trailing(self) -> bytes:
        """Bytes that the peer has sent after a message with which the connection leaves HTTP."""
        return self._http.trailing_data[0]

    async def receive(self) -> h11.Event | None:
        """Returns the next event of the peer; None if it goes on after HTTP. Raises Broken."""
        try:
            while True:
                if self._role is h11.SERVER and self._http.they_are_waiting_for_100_continue:
                    await self.send(h11.InformationalResponse(status_code=100, headers=[]))
                event = self._http.next_event()
                if isinstance(event, h11.Event):
                    return event
                if event is h11.PAUSED:
                    return None
                data = await self.reader.read(CHUNK)
                if not data and self._http.their_state is h11.SEND_RESPONSE:
                    raise Broken("the server has ended the connection")
                if data and self.began_at is None:
                    self.began_at = time.monotonic()
                self._http.receive_data(data)
        except (h11.RemoteProtocolError, OSError) as error:
            raise Broken(str(error)) from error

    async def send(self, *events: h11.Event) -> None:
        """Sends events. Raises Broken."""
        try:
            for event in events:
                # The library passes bodies through as they are.
                self.writer.write(self._http.send(event) or b"")
            await self.writer.drain()
        except (h11.LocalProtocolError, OSError) as error:
            raise Broken(str(error)) from error

    def goes_on(self) -> bool:
        """Prepares for the next request; returns false if the connection must be closed instead."""
        states = {self._http.our_state, self._http.their_state}
        if states == {h11.DONE}:
            self._http.start_next_cycle()
        return states <= {h11.DONE, h11.IDLE} and not self.reader.at_eof()

    def close(self) -> None:
        """Closes the connection."""
        with suppress(OSError, RuntimeError):
            self.writer.close()


async def serve(connection: Connection, answer: Callable[[Asked], Answer]) -> None:
    """Answers the requests of a connection one after the other, until one of the ends closes it.

    Raises Broken.
    """
    while isinstance(request := await connection.receive(), h11.Request):
        while isinstance(await connection.receive(), h11.Data):
            pass
        host = b"".join(value for name, value in request.headers if name == b"host")
        texts = (text.decode("latin-1") for text in (request.method, host, request.target))
        given = answer(Asked(*texts))
        await asyncio.sleep(given.think_s)
        await connection.send(
            h11.Response(status_code=given.status, headers=given.fields, reason=given.reason),
            *([] if given.body is None else [h11.Data(data=given.body)]),
            h11.EndOfMessage(),
        )
        if not connection.goes_on():
            return


def end_to_end(fields: Iterable[tuple[bytes, bytes]], *others: str) -> Fields:
    """Returns headers without those of `HOP_BY_HOP` and `others`."""
    dropped = HOP_BY_HOP.union(others)
    return [(name, value) for name, value in fields if name.decode("latin-1").lower() not in dropped]

"""Tests of the servers of HTTP/2, frame by frame, by the client of the library h2, which checks windows."""

import asyncio
import gc
import socket
import ssl
from collections.abc import Awaitable, Callable

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    InformationalResponseReceived,
    PingAckReceived,
    RemoteSettingsChanged,
    ResponseReceived,
    StreamEnded,
)
from h2.settings import SettingCodes

from catnip.web import http2
from catnip.web.authority import Authority
from catnip.web.http import Answer, Asked, Connection, Servers
from catnip.web.site import HTTP2

LARGE = 1 << 24


class Client:
    """Client of one connection, with the events that it has received."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.http = H2Connection(H2Configuration())
        self.events: list[Event] = []

    def begin(self, window: int) -> None:
        """Sends the preface, with a window for each stream."""
        self.http.initiate_connection()
        self.http.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: window})
        self.http.increment_flow_control_window(LARGE)
        self.flush()

    def ask(self, stream: int, path: str, *fields: tuple[str, str], method: str = "GET") -> None:
        """Sends a request, which ends with its head unless it is a POST."""
        head = [(":method", method), (":scheme", "https"), (":authority", "a.test"), (":path", path), *fields]
        self.http.send_headers(stream, head, end_stream=method != "POST")
        self.flush()

    def update_priority(self, stream: int, value: str) -> None:
        """Sends a frame PRIORITY_UPDATE."""
        self.writer.write(priority_update(stream.to_bytes(4) + value.encode()))

    def open_windows(self) -> None:
        """Lets all responses go on."""
        self.http.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: LARGE})
        self.flush()

    def flush(self) -> None:
        self.writer.write(self.http.data_to_send())

    async def receive(self) -> bool:
        """Receives some frames; returns false at the end of the connection."""
        data = await self.reader.read(1 << 14)
        self.events += self.http.receive_data(data) if data else []
        self.flush()
        return bool(data)

    async def until(self, kind: type[Event], count: int = 1) -> None:
        """Receives until there have been so many events of a kind."""
        while sum(isinstance(event, kind) for event in self.events) < count:
            assert await self.receive(), "the server has ended the connection"

    async def settle(self) -> None:
        """Receives all that the server sends without being allowed more."""
        self.http.ping(b"settled?")
        self.flush()
        await self.until(PingAckReceived)

    def order(self) -> list[int]:
        """Returns the streams of the parts of bodies, each one once in a row."""
        streams = [event.stream_id for event in self.events if isinstance(event, DataReceived)]
        return [one for index, one in enumerate(streams) if streams[:index][-1:] != [one]]

    def received(self, stream: int) -> bytes:
        """Returns the body of a stream, as far as it was received."""
        parts = (event for event in self.events if isinstance(event, DataReceived))
        return b"".join(bytes(event.data) for event in parts if event.stream_id == stream)


def priority_update(body: bytes) -> bytes:
    return len(body).to_bytes(3) + b"\x10" + bytes(5) + body


def body_of(asked: Asked) -> Answer:
    """Returns a response with a body whose length is the last part of the path."""
    body = asked.target[-1].encode() * int(asked.target.rpartition("/")[2])
    return Answer(200, b"OK", [(b"X-Mixed", b"CaSe"), (b"Content-Length", str(len(body)).encode())], body)


def served(
    client: Callable[[Client], Awaitable[None]], answer: Callable[[Asked], Answer] = body_of
) -> Client:
    """Runs a client of a server."""

    async def main() -> Client:
        async def serve(connection: Connection) -> None:
            assert connection.protocol == HTTP2
            await http2.serve(connection, answer)

        with Authority() as authority:
            async with Servers() as servers:
                address = await servers.listen(serve, "127.0.0.1", 0, authority.context("a.test", HTTP2))
                context = ssl.create_default_context(cafile=str(authority.file))
                context.set_alpn_protocols([HTTP2])
                own = socket.socket()
                # A kernel that takes in little makes the server wait.
                own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
                own.connect(address)
                reader, writer = await asyncio.open_connection(
                    sock=own, ssl=context, server_hostname="a.test", limit=1 << 14
                )
                one = Client(reader, writer)
                await asyncio.wait_for(client(one), 30)
                writer.close()
        return one

    return asyncio.run(main())


def test_a_response_has_its_head_in_small_letters_and_all_bytes() -> None:
    async def client(one: Client) -> None:
        one.begin(LARGE)
        one.ask(1, "/300000")
        one.ask(3, "/0")
        await one.until(StreamEnded, 2)

    one = served(client)
    heads = {event.stream_id: event.headers for event in one.events if isinstance(event, ResponseReceived)}
    assert heads[1] == [(b":status", b"200"), (b"x-mixed", b"CaSe"), (b"content-length", b"300000")]
    assert heads[3][2] == (b"content-length", b"0")
    assert one.received(1) == b"0" * 300_000


def test_the_priority_of_a_request_decides_the_order_of_the_bodies() -> None:
    async def client(one: Client) -> None:
        one.begin(0)
        for stream, priority in enumerate(["u=5", "u=5", "u=3, i", "u=3, i", "u=0", ""]):
            one.ask(1 + 2 * stream, "/50000", *([("priority", priority)] if priority else []))
        await one.until(ResponseReceived, 6)
        one.open_windows()
        await one.until(StreamEnded, 6)

    assert served(client).order() == [9, 11, 5, 7, 5, 7, 5, 7, 5, 7, 1, 3]


def test_an_update_of_a_priority_counts_for_requests_before_and_after_it() -> None:
    async def client(one: Client) -> None:
        one.begin(0)
        one.ask(1, "/50000")
        one.update_priority(5, "u=0")
        one.update_priority(7, "u=7")
        for stream in (3, 5, 7):
            one.ask(stream, "/50000", ("priority", "u=3"))
        one.update_priority(3, "u=1")
        await one.until(ResponseReceived, 4)
        one.open_windows()
        await one.until(StreamEnded, 4)

    assert served(client).order() == [5, 3, 1, 7]


@pytest.mark.parametrize("body", [b"", b"\x00\x00\x00", b"\x00\x00\x00\x01\xff\x00u=9", b"\xff" * 100])
def test_an_update_that_makes_no_sense_changes_nothing(body: bytes) -> None:
    async def client(one: Client) -> None:
        one.begin(LARGE)
        one.writer.write(priority_update(body))
        one.ask(1, "/10")
        await one.until(StreamEnded)

    assert served(client).received(1) == b"0" * 10


def test_an_urgent_response_overtakes_one_that_has_begun() -> None:
    size = 8_000_000
    until_urgent = 0

    async def client(one: Client) -> None:
        nonlocal until_urgent
        one.begin(LARGE)
        one.ask(1, f"/{size}", ("priority", "u=3"))
        await one.until(DataReceived, 3)
        # The server writes as long as it finds room in the kernel.
        await asyncio.sleep(0.2)
        one.ask(3, "/10", ("priority", "u=0"))
        while not one.received(3):
            assert await one.receive()
        until_urgent = len(one.received(1))

    served(client)
    assert until_urgent < size / 8


def test_no_byte_is_sent_beyond_the_window_of_a_stream() -> None:
    async def client(one: Client) -> None:
        one.begin(1000)
        one.ask(1, "/5000")
        one.ask(3, "/500")
        await one.until(StreamEnded)
        await one.settle()
        assert (len(one.received(1)), len(one.received(3))) == (1000, 500)
        one.http.increment_flow_control_window(1500, 1)
        one.flush()
        await one.until(DataReceived, 3)
        one.events = [event for event in one.events if not isinstance(event, PingAckReceived)]
        await one.settle()
        assert len(one.received(1)) == 2500
        one.open_windows()
        await one.until(StreamEnded, 2)

    assert len(served(client).received(1)) == 5000


def test_a_window_of_the_connection_holds_all_streams() -> None:
    async def client(one: Client) -> None:
        one.http.initiate_connection()
        one.http.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: LARGE})
        one.ask(1, "/50000")
        one.ask(3, "/50000")
        await one.until(StreamEnded)
        await one.settle()
        assert (len(one.received(1)), len(one.received(3))) == (50000, 15535)
        one.http.increment_flow_control_window(LARGE)
        one.flush()
        await one.until(StreamEnded, 2)

    assert len(served(client).received(3)) == 50000


def test_a_server_thinks_about_each_request_on_its_own() -> None:
    def answer(asked: Asked) -> Answer:
        return Answer(200, b"OK", [], b"ok", 0.3 if asked.target == "/slow" else 0)

    async def client(one: Client) -> None:
        one.begin(LARGE)
        one.ask(1, "/slow")
        one.ask(3, "/fast")
        await one.until(StreamEnded, 2)

    assert served(client, answer).order() == [3, 1]


def test_a_request_that_is_given_up_while_the_server_thinks_has_no_response() -> None:
    async def client(one: Client) -> None:
        one.begin(LARGE)
        one.ask(1, "/1")
        one.http.reset_stream(1)
        one.ask(3, "/3")
        await one.until(StreamEnded)

    served_one = served(client, lambda asked: Answer(200, b"OK", [], b"ok", 0.05))
    assert served_one.order() == [3]


def test_a_response_that_is_given_up_makes_room_for_the_others() -> None:
    async def client(one: Client) -> None:
        one.begin(0)
        one.ask(1, "/50000")
        one.ask(3, "/50000")
        await one.until(ResponseReceived, 2)
        one.http.reset_stream(1)
        one.open_windows()
        await one.until(StreamEnded)

    assert served(client).order() == [3]


def test_a_response_has_no_body_where_http_has_none() -> None:
    def answer(asked: Asked) -> Answer:
        return Answer(204 if asked.target == "/204" else 200, b"", [(b"Content-Type", b"a/b")], None)

    async def client(one: Client) -> None:
        one.begin(LARGE)
        one.ask(1, "/204")
        one.ask(3, "/", method="HEAD")
        await one.until(StreamEnded, 2)

    assert served(client, answer).order() == []


def test_a_body_of_a_request_is_taken_whole_and_asked_for_where_the_client_waits() -> None:
    async def client(one: Client) -> None:
        one.begin(LARGE)
        await one.until(RemoteSettingsChanged)
        one.ask(1, "/10", ("expect", "100-continue"), method="POST")
        await one.until(InformationalResponseReceived)
        assert one.http.local_flow_control_window(1) >= 1 << 24
        left = 300_000
        while left:
            size = min(left, one.http.local_flow_control_window(1), one.http.max_outbound_frame_size)
            if size:
                left -= size
                one.http.send_data(1, bytes(size), end_stream=not left)
                one.flush()
            else:
                assert await one.receive()
        await one.until(StreamEnded)

    assert served(client).received(1) == b"0" * 10


def test_a_request_is_handed_over_as_the_client_makes_it() -> None:
    asked = []

    def answer(request: Asked) -> Answer:
        asked.append(request)
        return Answer(200, b"OK", [], b"ok")

    async def client(one: Client) -> None:
        one.begin(LARGE)
        one.ask(1, "/a%20b?c=d")
        await one.until(StreamEnded)

    served(client, answer)
    assert asked == [Asked("GET", "a.test", "/a%20b?c=d")]


@pytest.mark.parametrize(
    ("bytes_of_client", "is_told"),
    [
        (b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", False),
        (bytes(100), False),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(100), True),
    ],
)
def test_what_is_no_http_2_ends_the_connection_alone(
    bytes_of_client: bytes, is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def client(one: Client) -> None:
        one.writer.write(bytes_of_client)
        while await one.receive():
            pass
        assert any(isinstance(event, ConnectionTerminated) for event in one.events) == is_told

    served(client)
    # An error that is not handled is logged when its task is collected.
    gc.collect()
    assert caplog.records == []


def test_a_client_that_leaves_ends_its_connection_alone(caplog: pytest.LogCaptureFixture) -> None:
    async def client(one: Client) -> None:
        one.begin(LARGE)
        one.ask(1, "/8000000")
        await one.until(DataReceived, 3)
        one.writer.transport.abort()
        await asyncio.sleep(0.1)

    served(client)
    gc.collect()
    assert caplog.records == []

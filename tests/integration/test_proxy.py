"""Tests of the recording proxy, byte by byte, between a client and a server of sockets."""

import asyncio
import base64
import gc
from collections.abc import Awaitable, Callable
from contextlib import suppress

import h11
import pytest

from catnip._core import InputError
from catnip.web import proxy, recorder
from catnip.web.http import Connection, Servers
from catnip.web.proxy import MOST_UNKNOWN, recording
from catnip.web.recorder import Recorder

Reader = asyncio.StreamReader
Writer = asyncio.StreamWriter
OK = b"HTTP/1.1 200 Fine\r\nX-Case: Kept\r\nContent-Length: 2\r\n\r\nok"


class Server:
    """Server that answers each head of a request by a function, and keeps what it has received."""

    def __init__(self, answer: Callable[[Reader, Writer], Awaitable[None]]) -> None:
        self.heads: list[bytes] = []
        self.connections = 0
        self._answer = answer

    async def serve(self, reader: Reader, writer: Writer) -> None:
        self.connections += 1
        while head := await read_head(reader):
            self.heads.append(head)
            await self._answer(reader, writer)
            if writer.is_closing():
                return
        writer.close()


async def read_head(reader: Reader) -> bytes:
    """Returns a message up to its empty line; nothing if the connection ends before."""
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""


def through(
    answer: Callable[[Reader, Writer], Awaitable[None]],
    client: Callable[[Reader, Writer, str], Awaitable[None]],
) -> tuple[Server, Recorder]:
    """Runs a client, which has a connection to the proxy and the URL of the server."""

    async def main() -> tuple[Server, Recorder]:
        server, recorder = Server(answer), Recorder()
        listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        async with recording(recorder, 0, None) as proxy:
            reader, writer = await asyncio.open_connection(*proxy.address)
            login = base64.b64encode(proxy.login.encode()).decode()
            await asyncio.wait_for(client(reader, writer, f"{url} {login}"), 20)
            writer.close()
        listener.close()
        await asyncio.sleep(0)
        return server, recorder

    return asyncio.run(main())


def request(known: str, path: str, *fields: str, method: str = "GET") -> bytes:
    """Returns a request with the password of the proxy and these header fields."""
    url, login = known.split()
    lines = [f"{method} {url}{path} HTTP/1.1", "Host: here", f"Proxy-Authorization: Basic {login}", *fields]
    return "\r\n".join([*lines, "", ""]).encode()


async def send_ok(_: Reader, writer: Writer) -> None:
    writer.write(OK)


def test_fields_are_passed_on_as_they_are_but_for_those_of_the_connection_and_conditions() -> None:
    async def client(reader: Reader, writer: Writer, known: str) -> None:
        asked = [
            "X-Mixed: CaSe",
            "Proxy-Connection: keep-alive",
            "If-None-Match: *",
            "If-Modified-Since: now",
        ]
        writer.write(request(known, "/a?b=c", *asked))
        assert await reader.readexactly(len(OK)) == OK

    server, _ = through(send_ok, client)
    assert server.heads == [b"GET /a?b=c HTTP/1.1\r\nHost: here\r\nX-Mixed: CaSe\r\n\r\n"]


def test_a_request_is_sent_again_if_the_server_has_ended_an_idle_connection() -> None:
    async def answers_once(_: Reader, writer: Writer) -> None:
        writer.write(OK)
        await writer.drain()
        writer.close()

    async def client(reader: Reader, writer: Writer, known: str) -> None:
        for path in ("/1", "/2", "/3"):
            writer.write(request(known, path))
            assert await reader.readexactly(len(OK)) == OK

    server, _ = through(answers_once, client)
    assert (server.connections, len(server.heads)) == (3, 3)


def test_a_server_that_answers_nothing_is_asked_once_and_told() -> None:
    async def ends(_: Reader, writer: Writer) -> None:
        writer.close()

    async def client(reader: Reader, writer: Writer, known: str) -> None:
        writer.write(request(known, "/none"))
        assert (await read_head(reader)).startswith(b"HTTP/1.1 502 Bad Gateway\r\n")

    server, recorder = through(ends, client)
    assert len(server.heads) == 1
    assert recorder.lost[0].endswith("/none: the server has ended the connection")


def think_s(monkeypatch: pytest.MonkeyPatch, answer: Callable[[Reader, Writer], Awaitable[None]]) -> float:
    """Returns the think time that is recorded for a server, as if this machine were behind a link."""
    monkeypatch.setattr(recorder, "origin_of", lambda url: None)

    async def client(reader: Reader, writer: Writer, known: str) -> None:
        writer.write(request(known, "/"))
        assert (await reader.readexactly(len(OK)))[-2:] == b"ok"

    _, kept = through(answer, client)
    return kept.exchanges[0].think_s


async def thinks(_: Reader, writer: Writer) -> None:
    await asyncio.sleep(0.1)
    writer.write(OK[:1])
    await asyncio.sleep(0.1)
    writer.write(OK[1:])


def test_a_think_time_ends_with_the_first_byte_and_has_no_round_trip(monkeypatch: pytest.MonkeyPatch) -> None:
    whole_s = think_s(monkeypatch, thinks)
    monkeypatch.setattr(proxy, "_round_trip_s", lambda connection: 0.09)
    # A round trip on this machine takes no hundredth of that.
    assert whole_s > 0.099 and think_s(monkeypatch, thinks) < whole_s
    monkeypatch.setattr(proxy, "_round_trip_s", lambda connection: 100)
    assert think_s(monkeypatch, thinks) == 0


def test_a_think_time_does_not_end_with_an_early_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hints(_: Reader, writer: Writer) -> None:
        writer.write(b"HTTP/1.1 103 Early Hints\r\n\r\n")
        await thinks(_, writer)

    assert think_s(monkeypatch, hints) > 0.099


def test_a_body_is_asked_for_where_the_client_waits_for_that() -> None:
    async def echoes(reader: Reader, writer: Writer) -> None:
        body = await reader.readexactly(5)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" + body)

    async def client(reader: Reader, writer: Writer, known: str) -> None:
        writer.write(request(known, "/", "Expect: 100-continue", "Content-Length: 5", method="POST"))
        assert (await read_head(reader)).startswith(b"HTTP/1.1 100 ")
        writer.write(b"hello")
        await read_head(reader)
        assert await reader.readexactly(5) == b"hello"

    server, _ = through(echoes, client)
    assert b"expect" not in server.heads[0].lower()


def test_a_body_in_chunks_arrives_whole() -> None:
    async def echoes(reader: Reader, writer: Writer) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n" + await reader.readexactly(6))

    async def client(reader: Reader, writer: Writer, known: str) -> None:
        writer.write(request(known, "/", "Transfer-Encoding: chunked", method="POST"))
        writer.write(b"3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n")
        await read_head(reader)
        assert await reader.readexactly(6) == b"abcdef"

    server, _ = through(echoes, client)
    assert b"\r\nContent-Length: 6\r\n" in server.heads[0]


def test_a_stranger_is_refused_before_its_body() -> None:
    async def client(reader: Reader, writer: Writer, known: str) -> None:
        asked = request(known, "/", "Content-Length: 1000000", method="POST")
        writer.write(asked.replace(b"Basic ", b"Basic x"))
        assert (await read_head(reader)).startswith(b"HTTP/1.1 407 ")

    server, recorder = through(send_ok, client)
    assert (server.heads, recorder.lost) == ([], [])


def test_strangers_without_number_keep_out_no_client_that_knows_the_password() -> None:
    async def client(_: Reader, first: Writer, known: str) -> None:
        address = first.get_extra_info("peername")
        strangers = [await asyncio.open_connection(*address) for _ in range(200)]
        reader, writer = await asyncio.open_connection(*address)
        for path in ("/1", "/2"):
            writer.write(request(known, path))
            assert await reader.readexactly(len(OK)) == OK
        ended = [reader for reader, _ in strangers if reader.at_eof()]
        assert len(ended) == 200 + 1 - MOST_UNKNOWN
        writer.close()
        for _, writer in strangers:
            writer.close()

    server, _ = through(send_ok, client)
    assert len(server.heads) == 2


def test_a_client_that_asks_for_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "LONGEST_UNKNOWN_S", 0.1)

    async def client(reader: Reader, _: Writer, __: str) -> None:
        assert await reader.read() == b""

    through(send_ok, client)


def test_exchanges_in_flight_take_no_more_memory_than_a_recording_and_are_passed_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = bytes(100_000)
    monkeypatch.setattr(recorder, "MAX_RECORDED", 150_000)
    passed_on = asyncio.Barrier(3)

    async def answers(_: Reader, writer: Writer) -> None:
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body[1:])
        await passed_on.wait()
        writer.write(body[:1])

    async def client(reader: Reader, writer: Writer, known: str) -> None:
        other_reader, other = await asyncio.open_connection(*writer.get_extra_info("peername"))
        for path, to in (("/1", writer), ("/2", other)):
            to.write(request(known, path))
        for of in (reader, other_reader):
            assert (await read_head(of)).startswith(b"HTTP/1.1 200 ")
            assert await of.readexactly(len(body) - 1) == body[1:]
        await passed_on.wait()
        for of in (reader, other_reader):
            assert await of.readexactly(1) == body[:1]
        writer.close()
        other.close()

    _, kept = through(answers, client)
    # The other one was held whole: a recording has no addresses, of which it is told in the end.
    assert sorted(line.partition(": ")[2] for line in kept.lost) == [
        "an address that is not behind a link",
        "the recording has 0 MB, and no more is kept",
    ]
    assert kept._held_bytes == 0


def test_a_host_that_is_none_is_told_to_the_client_and_in_the_end() -> None:
    async def client(reader: Reader, writer: Writer, known: str) -> None:
        login = known.split()[1]
        for method in ("GET", "HEAD", "CONNECT"):
            target = "a..b:443" if method == "CONNECT" else "http://a..b/"
            fields = f"Host: a\r\nProxy-Authorization: Basic {login}\r\n\r\n"
            writer.write(f"{method} {target} HTTP/1.1\r\n{fields}".encode())
            head = await read_head(reader)
            assert head.startswith(b"HTTP/1.1 502 ")
            if method != "HEAD":
                await reader.readline()

    _, recorder = through(send_ok, client)
    assert [line.partition(": ")[0] for line in recorder.lost] == [
        "GET http://a..b/",
        "HEAD http://a..b/",
        "https://a..b",
    ]


def test_what_follows_a_change_of_protocol_is_passed_on_both_ways_and_told() -> None:
    async def upgrades(reader: Reader, writer: Writer) -> None:
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: w\r\nConnection: Upgrade\r\n\r\nfirst")
        writer.write(b"<" + await reader.readexactly(4) + b">")
        await writer.drain()
        writer.close()

    async def client(reader: Reader, writer: Writer, known: str) -> None:
        writer.write(request(known, "/ws", "Upgrade: w", "Connection: Upgrade"))
        assert (await read_head(reader)).startswith(b"HTTP/1.1 101 ")
        writer.write(b"ping")
        assert await reader.readexactly(11) == b"first<ping>"

    _, recorder = through(upgrades, client)
    assert recorder.lost[0].endswith("/ws: 101 Switching Protocols: the rest of the connection is not HTTP")


@pytest.mark.parametrize("bytes_of_client", [b"\x16\x03\x01\x00\x00", b"GET / HTTP/1.1\r\n" + b"a" * 2**19])
def test_what_is_no_request_ends_the_connection_alone(bytes_of_client: bytes) -> None:
    async def client(reader: Reader, writer: Writer, known: str) -> None:
        writer.write(bytes_of_client + b"\r\n\r\n")
        with suppress(ConnectionResetError):
            assert await reader.read() == b""

    server, recorder = through(send_ok, client)
    assert (server.heads, recorder.exchanges, recorder.lost) == ([], [], [])


def test_a_message_that_http_cannot_express_ends_its_connection_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> list[bytes]:
        async def serve(connection: Connection) -> None:
            await connection.receive()
            await connection.send(h11.Response(status_code=200, headers=[("X", "a\x00b")]))

        async with Servers() as servers:
            address = await servers.listen(serve, "127.0.0.1", 0)
            answers = []
            for _ in range(2):
                reader, writer = await asyncio.open_connection(*address)
                writer.write(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
                answers.append(await asyncio.wait_for(reader.read(), 20))
                writer.close()
            return answers

    assert asyncio.run(main()) == [b"", b""]
    # An error that is not handled is logged when its task is collected.
    gc.collect()
    assert caplog.records == []


def test_a_file_of_authorities_that_is_none_is_one_line() -> None:
    async def main() -> None:
        async with recording(Recorder(), 0, "/nowhere/ca.pem"):
            pass

    with pytest.raises(InputError, match=r"\$SSL_CERT_FILE: /nowhere/ca.pem: No such file"):
        asyncio.run(main())

"""Web client and server that replay a trace, run as a script at nodes of the emulator.

Both use only the standard library, so that they start before the first connection is due. The client opens
each connection at its time, whether earlier connections have ended or not, and requests each document after
the idle period that follows the preceding document (HTTP/1.1, persistent). Requests and responses have the
sizes of the trace, headers included: requests are padded, and requested bodies are shorter by the header of
the response. The client prints a line of JSON per response, and a last line for the whole run.

The server uses the kernel's TCP with the given congestion control. It prints the kernel's counters of each
connection as a line of JSON on standard error.
"""

import argparse
import asyncio
import contextlib
import json
import socket
import struct
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer

CHUNK_BYTES = 1 << 16
PARTING_S = 1.0
FILL = b"X-Fill: "
FILLING = b"abcdefghijklmnopqrstuvwxyz" * 2520
TCP_INFO_BYTES = 232
RETRANSMITTED_AT, SENT_AT = 100, 156
"""Offsets of tcpi_total_retrans and tcpi_data_segs_out in struct tcp_info (linux/tcp.h)."""


@dataclass(frozen=True)
class Exchange:
    """Request of the trace and its response."""

    request_bytes: int
    response_bytes: int
    silence_s: float
    """Idle period between the last byte of the preceding response and this request, s."""


@dataclass(frozen=True)
class Connection:
    """Connection of the trace, which opens `at_s` seconds after the start of the replay."""

    at_s: float
    exchanges: list[Exchange]


@dataclass(frozen=True)
class Response:
    """Measurements of a request and its response."""

    connection: int
    first_byte: int
    """Offset of the response in the server's data on the connection, according to the sizes in the trace."""
    bytes: int
    """Received bytes of the response's header and body."""
    idle_s: float
    start_s: float
    """Time of the request since the start of the replay, s."""
    first_s: float
    """Time from the request to the first bytes of the response, s."""
    time_s: float
    """Time from the request to the last byte of the response, s."""


@dataclass
class Replay:
    """State of a client that replays a trace."""

    address: tuple[str, int]
    began: float
    lateness_s: list[float] = field(default_factory=list)
    """Lateness of each connection and each request, s."""
    errors: int = 0
    """Number of connections that ended early."""


def main() -> None:
    """Reads the options and runs the client or the server."""
    options = argparse.ArgumentParser(description=__doc__)
    programs = options.add_subparsers(dest="program", required=True)
    client = programs.add_parser("client")
    client.add_argument("server", help="address of the server")
    client.add_argument("trace", type=Path, help="connection vectors in the original form (catnip tmix)")
    client.add_argument(
        "--for-s",
        type=float,
        default=3600.0,
        help="time limit of the replay; open connections are then closed",
    )
    server = programs.add_parser("server")
    server.add_argument(
        "--congestion", default="reno", help="congestion control, one that the kernel provides"
    )
    for program in (client, server):
        program.add_argument("--port", type=int, default=80)
    chosen = options.parse_args()
    if chosen.program == "server":
        serve(chosen.port, chosen.congestion)
    else:
        lines = chosen.trace.read_text(encoding="ascii").splitlines()
        asyncio.run(replay((chosen.server, chosen.port), list(connections(lines)), chosen.for_s))
    sys.stdout.flush()


def connections(lines: Iterable[str]) -> Iterator[Connection]:
    """Yields the sequential connections of a Tmix trace (Weigle et al., 2006) in its order.

    Lines begin with SEQ, w, >, t or <; times are in us.
    """
    at_s, pause_s, request, exchanges = 0.0, 0.0, (0, 0.0), list[Exchange]()
    for line in lines:
        tag, *values = line.split()
        match tag:
            case "SEQ":
                if exchanges:
                    yield Connection(at_s, exchanges)
                at_s, pause_s, exchanges = int(values[0]) / 1e6, 0.0, []
            case "t":
                pause_s = int(values[0]) / 1e6
            case ">":
                request, pause_s = (int(values[0]), pause_s), 0.0
            case "<":
                # A trace has a pause of one microsecond before each response, which is ignored.
                request_bytes, silence_s = request
                exchanges.append(Exchange(request_bytes, int(values[0]), silence_s))
                pause_s = 0.0
            case "w" | "r" | "l" | "m":
                pass
            case _:
                raise ValueError(f"{line}: not a line of a sequential connection")
    if exchanges:
        yield Connection(at_s, exchanges)


async def replay(address: tuple[str, int], trace: list[Connection], for_s: float) -> None:
    """Replays all connections, for at most `for_s` seconds, and prints lateness and number of errors."""
    state = Replay(address, time.perf_counter())
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(for_s):
            await asyncio.gather(*(one(state, number, each) for number, each in enumerate(trace)))
    # Servers must receive the end of the connections before the network is removed.
    await asyncio.sleep(PARTING_S)
    lateness_s = sorted(state.lateness_s)
    quantiles = (
        [lateness_s[int(share * (len(lateness_s) - 1))] for share in (0.5, 0.99, 1.0)] if lateness_s else []
    )
    print(json.dumps({"late_s": quantiles, "errors": state.errors}))


async def one(state: Replay, number: int, trace: Connection) -> None:
    """Replays one connection of the trace and prints a line for each response."""
    loop = asyncio.get_running_loop()
    await until(state, state.began + trace.at_s)
    with socket.socket() as stream:
        stream.setblocking(False)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            await loop.sock_connect(stream, state.address)
            ended, first_byte = time.perf_counter(), 0
            for exchange in trace.exchanges:
                if exchange.silence_s:
                    await until(state, ended + exchange.silence_s)
                start = time.perf_counter()
                await loop.sock_sendall(stream, request(state.address[0], exchange))
                size, first, last = await response(stream)
                record = Response(
                    connection=number,
                    first_byte=first_byte,
                    bytes=size,
                    idle_s=start - ended,
                    start_s=start - state.began,
                    first_s=first - start,
                    time_s=last - start,
                )
                print(json.dumps(asdict(record)))
                ended, first_byte = last, first_byte + exchange.response_bytes
        except OSError as error:
            state.errors += 1
            print(f"connection {number}: {error}", file=sys.stderr)


async def until(state: Replay, due: float) -> None:
    """Waits until the time `due` and records by how much the waiting took too long."""
    await asyncio.sleep(due - time.perf_counter())
    state.lateness_s.append(time.perf_counter() - due)


def request(host: str, exchange: Exchange) -> bytes:
    """Returns a request of the size in the trace, or the shortest possible one if that size is too small."""
    body_bytes = body_of(exchange.response_bytes)
    head = f"GET /of/{body_bytes} HTTP/1.1\r\nHost: {host}\r\n".encode()
    fill = exchange.request_bytes - len(head) - len(FILL) - 4
    return head + (FILL + b"x" * fill + b"\r\n" if fill >= 0 else b"") + b"\r\n"


def response_head(body_bytes: int) -> bytes:
    """Returns the header of a response, equal to that of the emulator's simulated servers."""
    return (
        b"HTTP/1.1 200 OK\r\nServer: catnip-emu\r\nContent-Type: application/octet-stream\r\n"
        b"Content-Length: %d\r\nConnection: keep-alive\r\n\r\n" % body_bytes
    )


def body_of(response_bytes: int) -> int:
    """Returns the length of the longest body whose response has at most `response_bytes`; 0 if none fits."""
    body_bytes = max(response_bytes - len(response_head(0)) + 1, 0)
    while body_bytes and body_bytes + len(response_head(body_bytes)) > response_bytes:
        body_bytes -= 1
    return body_bytes


async def response(stream: socket.socket) -> tuple[int, float, float]:
    """Receives a response; returns its size and the times at which its first and last bytes arrived."""
    loop = asyncio.get_running_loop()
    head, first = b"", 0.0
    while b"\r\n\r\n" not in head:
        received = await loop.sock_recv(stream, CHUNK_BYTES)
        if not received:
            raise ConnectionError("the server closed the connection")
        first = first or time.perf_counter()
        head += received
    header, _, body = head.partition(b"\r\n\r\n")
    status, *fields = header.decode("ascii").split("\r\n")
    if status.split()[1] != "200":
        raise ConnectionError(f"the server returned {status}")
    of_field = dict(line.lower().split(": ", 1) for line in fields)
    total = len(header) + 4 + int(of_field["content-length"])
    size = len(header) + 4 + len(body)
    while size < total:
        received = await loop.sock_recv(stream, min(CHUNK_BYTES, total - size))
        if not received:
            raise ConnectionError("the server closed the connection in the middle of a response")
        size += len(received)
    return size, first, time.perf_counter()


class Server(ThreadingTCPServer):
    """Web server with a thread per connection, so that a slow connection delays no other."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 1024


class Handler(StreamRequestHandler):
    """Handler of one connection to the Web server."""

    disable_nagle_algorithm = True

    def handle(self) -> None:
        """Answers the requests in turn, and prints the kernel's counters of the connection at its end."""
        with contextlib.suppress(ConnectionError):
            while line := self.rfile.readline():
                while self.rfile.readline() not in (b"\r\n", b""):
                    pass
                self.answer(int(line.split()[1].rpartition(b"/")[2]))
        info = self.connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
        (sent,), (retransmitted,) = (struct.unpack_from("I", info, at) for at in (SENT_AT, RETRANSMITTED_AT))
        # The line is a single write, because other threads write as well.
        sys.stderr.write(json.dumps({"sent": sent, "retransmitted": retransmitted}) + "\n")

    def answer(self, body_bytes: int) -> None:
        """Sends header and body in one call, so that a short response is one segment."""
        body = (FILLING * -(-body_bytes // len(FILLING)))[:body_bytes]
        self.connection.sendall(response_head(body_bytes) + body)


def serve(port: int, congestion: str) -> None:
    """Runs the server with a congestion control, which connections inherit from the listening socket."""
    with Server(("", port), Handler, bind_and_activate=False) as server:
        server.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion.encode())
        server.server_bind()
        server.server_activate()
        server.serve_forever()


if __name__ == "__main__":
    main()

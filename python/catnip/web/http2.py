"""HTTP/2 over asyncio's streams, for servers; responses share a connection by their priorities (RFC 9218)."""

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    UnknownFrameReceived,
    WindowUpdated,
)
from h2.exceptions import ProtocolError, StreamClosedError
from h2.settings import SettingCodes, Settings

from catnip.web.http import CHUNK, MAX_HEADERS, Answer, Asked, Broken, Connection
from catnip.web.priorities import Body, Priority, Turns

PRIORITY_UPDATE = 0x10
"""Type of the frame with which a client changes a priority (RFC 9218)."""
NO_RFC7540_PRIORITIES = 0x9
"""Setting that tells a client that its tree of priorities (RFC 7540) is not read."""
WINDOW = 1 << 24
"""Window for the bodies of requests, which are dropped, bytes: so large that only TCP limits an upload."""
MAX_STREAMS = 100
"""Largest number of requests at a time on one connection."""
UNSENT = 1 << 14
"""Number of bytes in the kernel and not yet sent, from which on no more are written. What is written can no
longer be overtaken by a response that is more urgent."""
PART = (1 << 14) - 9
"""Largest part of a body that is written at once, bytes: with the head of its frame, one record of TLS."""


async def serve(connection: Connection, answer: Callable[[Asked], Answer]) -> None:
    """Answers the requests of a connection until one of the ends closes it. Raises Broken."""
    session = _Session(connection, answer)
    both = [asyncio.create_task(task) for task in (session.receive(), session.send())]
    try:
        ended, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()
    except (ProtocolError, OSError) as error:
        session.flush()
        raise Broken(str(error) or type(error).__name__) from error
    finally:
        for task in both:
            task.cancel()
        await asyncio.gather(*both, return_exceptions=True)
        session.close()


class _Session:
    """Connection of a client, with its requests and the responses that are being sent."""

    def __init__(self, connection: Connection, answer: Callable[[Asked], Answer]) -> None:
        self._reader, self._writer = connection.reader, connection.writer
        self._answer = answer
        self._http = H2Connection(H2Configuration(client_side=False, header_encoding=None))
        settings: dict[SettingCodes | int, int] = {
            SettingCodes.MAX_CONCURRENT_STREAMS: MAX_STREAMS,
            SettingCodes.MAX_HEADER_LIST_SIZE: MAX_HEADERS,
            SettingCodes.INITIAL_WINDOW_SIZE: WINDOW,
            NO_RFC7540_PRIORITIES: 1,
        }
        # The library has names for the settings that it knows, and sends the others, too.
        named = cast(dict[SettingCodes, int], settings)
        self._http.local_settings = Settings(client=False, initial_values=named)
        self._asked: dict[int, Asked] = {}
        """Requests that are not complete, or not answered, by stream."""
        self._newest = 0
        """Stream of the last request."""
        self._priorities: dict[int, Priority] = {}
        self._ready: deque[tuple[int, Answer]] = deque()
        """Responses that begin as soon as possible, by stream."""
        self._turns = Turns()
        self._is_woken = asyncio.Event()
        # The loop watches the descriptor of a transport for the transport alone.
        own: socket.socket = connection.writer.get_extra_info("socket")
        self._descriptor = os.dup(own.fileno())
        own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT)

    async def receive(self) -> None:
        """Receives frames until the client ends the connection. Raises ProtocolError or OSError."""
        self._http.initiate_connection()
        self._http.increment_flow_control_window(WINDOW)
        while not self._writer.is_closing():
            self.flush()
            await self._writer.drain()
            data = await self._reader.read(CHUNK)
            if not data:
                return
            for event in self._http.receive_data(data):
                if isinstance(event, ConnectionTerminated):
                    return
                self._handle(event)

    async def send(self) -> None:
        """Sends responses. Raises ProtocolError or OSError."""
        while True:
            await self._is_woken.wait()
            while self._ready:
                self._begin(*self._ready.popleft())
            if self._turns.first(self._may_send) is None:
                self.flush()
                self._is_woken.clear()
                continue
            # The heads are written with the first part that follows, in one packet if they are small.
            await self._room()
            # Only now: a request that came in the meantime may be more urgent.
            if body := self._turns.first(self._may_send):
                self._send_part(body)

    def flush(self) -> None:
        """Writes the frames that are ready."""
        if data := self._http.data_to_send():
            self._writer.write(data)

    def close(self) -> None:
        """Closes what this object has opened."""
        self._asked.clear()
        os.close(self._descriptor)

    def _handle(self, event: Event) -> None:
        match event:
            case RequestReceived():
                self._begin_request(event)
            case DataReceived():
                # Bodies of requests select no response.
                self._http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case StreamEnded():
                self._respond(event.stream_id)
            case StreamReset():
                self._forget(event.stream_id)
            case UnknownFrameReceived():
                self._update(event.frame)
            case WindowUpdated() | RemoteSettingsChanged():
                self._is_woken.set()

    def _begin_request(self, event: RequestReceived) -> None:
        fields = [(bytes(name), bytes(value).decode("latin-1")) for name, value in event.headers]
        of = dict(reversed(fields))
        self._newest = event.stream_id
        self._asked[event.stream_id] = Asked(
            of[b":method"], of.get(b":authority", of.get(b"host", "")), of.get(b":path", "")
        )
        given = ",".join(value for name, value in fields if name == b"priority")
        # An update may arrive before the request that it is about.
        self._priorities.setdefault(event.stream_id, Priority.parse(given))
        if of.get(b"expect", "").lower() == "100-continue" and event.stream_ended is None:
            self._http.send_headers(event.stream_id, [(b":status", b"100")])

    def _respond(self, stream: int) -> None:
        if asked := self._asked.get(stream):
            answer = self._answer(asked)
            asyncio.get_running_loop().call_later(answer.think_s, self._start, stream, answer)

    def _start(self, stream: int, answer: Answer) -> None:
        """Makes a response ready, unless the client has given its request up."""
        if self._asked.pop(stream, None):
            self._ready.append((stream, answer))
            self._is_woken.set()

    def _forget(self, stream: int) -> None:
        self._asked.pop(stream, None)
        self._priorities.pop(stream, None)
        self._turns.drop(stream)

    def _update(self, frame: Any) -> None:
        """Handles a frame that changes the priority of a request, which may not have arrived yet."""
        if frame.type != PRIORITY_UPDATE or len(frame.body) < 4:
            return
        stream = int.from_bytes(frame.body[:4]) & 0x7FFFFFFF
        priority = Priority.parse(frame.body[4:].decode("latin-1"))
        is_later = stream > self._newest
        if stream in self._priorities or (is_later and len(self._priorities) < 2 * MAX_STREAMS):
            self._priorities[stream] = priority
            self._turns.prioritize(stream, priority)

    def _begin(self, stream: int, answer: Answer) -> None:
        """Sends the head of a response, and gives its body a place among the others."""
        head = [(b":status", str(answer.status).encode()), *answer.fields]
        with suppress(StreamClosedError):
            self._http.send_headers(stream, head, end_stream=not answer.body)
            if answer.body:
                priority = self._priorities[stream]
                self._turns.add(Body(stream, priority, memoryview(answer.body)))
                return
        self._forget(stream)

    def _may_send(self, stream: int) -> bool:
        return self._http.local_flow_control_window(stream) > 0

    async def _room(self) -> None:
        """Waits until the kernel has sent almost all that was written. Raises OSError."""
        await self._writer.drain()
        loop, is_writable = asyncio.get_running_loop(), asyncio.Event()
        loop.add_writer(self._descriptor, is_writable.set)
        try:
            await is_writable.wait()
        finally:
            loop.remove_writer(self._descriptor)
        if self._writer.is_closing():
            raise ConnectionResetError("the client has ended the connection")

    def _send_part(self, body: Body) -> None:
        window = self._http.local_flow_control_window(body.stream)
        part = self._turns.take(body, min(PART, window, self._http.max_outbound_frame_size))
        self._http.send_data(body.stream, part, end_stream=not body.rest)
        self.flush()
        if not body.rest:
            self._forget(body.stream)

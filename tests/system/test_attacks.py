"""Tests of what users and peers without rights try against an agent: random calls, responses and starts.

`make soak` repeats each of them 40 times as often, with other seeds.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agents import AGENT, Host, trouble
from catnip.base import programs

REASON = programs.cannot_control() or programs.cannot_mark()
pytestmark = pytest.mark.skipif(REASON is not None, reason=f"no agent: {REASON}")

TIMES = int(os.environ.get("CATNIP_ATTACKS", "1"))
SEED = int(os.environ.get("CATNIP_ATTACKS_SEED", "1"))
PORT = 8083
# Random calls by a user without rights on sockets of ten kinds, whose buffers end in bytes that no call may
# change.
CALLS = """
import ctypes, encodings.idna, os, random, socket, sys
count, chance = int(sys.argv[1]), random.Random(int(sys.argv[2]))
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
libc = ctypes.CDLL(None, use_errno=True)
listener = socket.create_server(("127.0.0.1", 0))
connected = socket.create_connection(listener.getsockname())
accepted, _ = listener.accept()
inet, inet6, unix = socket.AF_INET, socket.AF_INET6, socket.AF_UNIX
stream, datagram = socket.SOCK_STREAM, socket.SOCK_DGRAM
kinds = [(inet, stream), (inet6, stream), (inet, datagram), (inet6, datagram), (unix, stream)]
# Protocol 6 of netlink has the number of TCP, and is not TCP.
kinds += [(socket.AF_NETLINK, datagram), (socket.AF_NETLINK, socket.SOCK_RAW, 6)]
sockets = [listener, connected, accepted, *(socket.socket(*kind) for kind in kinds)]
guard, answered = b"\\xa5" * 256, 0
lengths = [-1, 0, 1, 2, 3, 4, 7, 8, 9, 12, 16, 255, 4096, 65536, 70000]
for _ in range(count):
    one = chance.choice(sockets)
    level = chance.choice([0x4350] * 8 + [0, 1, 6, 41, chance.getrandbits(31)])
    name = chance.choice([*range(7), chance.getrandbits(31)])
    length = chance.choice(lengths)
    room = max(length, 0)
    value = chance.choice([bytes(room), b"\\xff" * room, chance.randbytes(room)])
    buffer = ctypes.create_string_buffer(value + guard, room + len(guard))
    if chance.random() < 0.5:
        failed = libc.setsockopt(one.fileno(), level, name, buffer, ctypes.c_uint(length & 0xffffffff))
        assert buffer.raw == value + guard, (level, name, length)
    else:
        size = ctypes.c_uint(length & 0xffffffff)
        failed = libc.getsockopt(one.fileno(), level, name, buffer, ctypes.byref(size))
        # The kernel's own options take a length of -1 for a large one.
        whole = buffer.raw[room:] == guard and (failed or size.value <= room)
        assert whole or (level != 0x4350 and length < 0), (level, name, length, size)
    answered += not failed
    is_tcp = one.family in (inet, inet6) and one.type == stream
    assert failed or level != 0x4350 or is_tcp, (one, name)
    if chance.random() < 0.02:
        connected.send(b"x" * chance.randrange(1, 3000))
        accepted.recv(1 << 16)
print(answered)
"""
# Server whose responses are damaged at random places; after a connection to its second port, whole ones.
MUTATES = """
import random, select, socket, sys
port, chance = int(sys.argv[1]), random.Random(int(sys.argv[2]))
whole = b"HTTP/1.1 200 OK\\r\\nServer: x\\r\\nContent-Length: 20000\\r\\n\\r\\n" + bytes(20000)
seeds = [whole, b"HTTP/1.1 100 Continue\\r\\n\\r\\n" + whole]
seeds += [b"HTTP/1.1 304 N\\r\\nContent-Length: 5\\r\\n\\r\\n" + whole]
chunked = b"Transfer-Encoding: chunked\\r\\n\\r\\n5\\r\\nhello\\r\\n0\\r\\n\\r\\n"
seeds += [b"HTTP/1.1 200 OK\\r\\n" + chunked + whole]
words = [b"\\r\\n\\r\\n", b"\\n", b"Content-Length: 18446744073709551616\\r\\n", b"HTTP/1."]
words += [b"Content-Length: -1\\r\\n", b"Content-Length: 1\\r\\n", b"\\0" * 300]
words += [b"a:b\\r\\n" * 3000, b"\\xff"]
def mutated():
    some = bytearray(chance.choice(seeds)[: chance.choice([60, 200, 3000, 30000])])
    for _ in range(chance.randrange(1, 9)):
        at = chance.randrange(len(some) + 1)
        kind = chance.randrange(4)
        if kind == 0:
            some[at:at] = chance.choice(words)
        elif kind == 1:
            del some[at : at + chance.randrange(1, 40)]
        elif kind == 2 and at < len(some):
            some[at] = chance.randrange(256)
        else:
            some[at:at] = some[: chance.randrange(300)]
    return bytes(some) * chance.randrange(1, 4)
servers = [socket.create_server(("", port + number)) for number in range(2)]
print("ready", flush=True)
while True:
    for server in select.select(servers, [], [])[0]:
        connection, _ = server.accept()
        with connection:
            connection.recv(100)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            data = mutated() if server is servers[0] else whole
            while data:
                piece = chance.choice([1, 7, 500, 1448, 100000]) if server is servers[0] else len(data)
                connection.sendall(data[:piece])
                data = data[piece:]
                if len(data) > 4000 and piece < 500:
                    connection.sendall(data[:4000])
                    data = data[4000:]
"""


@contextmanager
def unharmed(host: Host) -> Iterator[None]:
    """Runs the block beside an agent; afterwards a document must have its marks, and the log no complaint."""
    before = trouble()
    script = [sys.executable, "-c", MUTATES, str(PORT), str(SEED)]
    with host.marking(), host.link.start(script, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        server.stdout.readline()
        try:
            yield
            marked = host.counts().get(("trailing", "high"), 0)
            fetch(host, PORT + 1)
            # The last packet may carry the FIN.
            assert host.counts().get(("trailing", "high"), 0) - marked in {2, 3}
        finally:
            server.kill()
    assert trouble() == before


def fetch(host: Host, port: int) -> None:
    with socket.create_connection((host.link.inside, port), timeout=30) as connection:
        connection.sendall(b"GET /")
        while connection.recv(1 << 16):
            pass


def test_random_calls_of_a_user_change_nothing_beyond_their_buffers(host: Host) -> None:
    with unharmed(host):
        command = [sys.executable, "-c", CALLS, str(3000 * TIMES), str(SEED)]
        done = host.link.run(command, capture_output=True, text=True, timeout=60 * (TIMES + 1))
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) > 100 * TIMES


def test_random_responses_harm_neither_the_agent_nor_the_next_response(host: Host) -> None:
    with unharmed(host):
        for _ in range(60 * TIMES):
            fetch(host, PORT)


def test_of_agents_that_start_at_once_one_runs_and_stops_leave_nothing(host: Host, tmp_path: Path) -> None:
    def settings() -> str:
        shown = host.link.run(["ip", "-d", "-j", "link", "show", host.device], capture_output=True, text=True)
        [of] = json.loads(shown.stdout)
        return str(of["gso_max_segs"])

    start = [*AGENT, "start", "--controllers", "none", "--device", host.device]
    before = settings()
    for _ in range(TIMES):
        three = [host.link.start(start, stderr=subprocess.PIPE, text=True) for _ in range(3)]
        told = [one.communicate(timeout=60)[1] for one in three]
        assert sorted(one.returncode for one in three) == [0, 2, 2], told
        assert all(text.count("\n") == 1 for one, text in zip(three, told, strict=True) if one.returncode)
        stops = [host.link.start([*AGENT, "stop"], stderr=subprocess.PIPE) for _ in range(3)]
        time.sleep(0.01)
        again = host.link.start(start, stderr=subprocess.PIPE)
        for one in [*stops, again]:
            one.communicate(timeout=60)
        host.link.run([*AGENT, "stop"], capture_output=True, timeout=60)
        assert settings() == before

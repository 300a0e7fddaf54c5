"""The Web client of the testbed: fetches one file over and over, each time over a new connection.

It runs inside a link's namespace by its path, with the standard library alone: starting it must not take
longer than what it measures. What it measured is logged as lines of JSON.
"""

import argparse
import asyncio
import json
import socket
import sys
import time
from urllib.parse import urlsplit

CHUNK_BYTES = 1 << 16


def main() -> None:
    """Reads the options."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("url", help="http://ADDRESS:PORT/FILE, or echo://ADDRESS:PORT/")
    options.add_argument("--count", type=int, default=10)
    options.add_argument("--per-second", type=float, default=20.0)
    options.add_argument("--timeout-s", type=float, default=120.0, help="gives a fetch up")
    chosen = options.parse_args()
    parts = urlsplit(chosen.url)
    address = (parts.hostname or "", parts.port or 80)
    if parts.scheme == "echo":
        asyncio.run(type_keys(*address, chosen.count))
    else:
        asyncio.run(users(address, parts.path, chosen.count, chosen.per_second, chosen.timeout_s))
    sys.stdout.flush()


async def users(address: tuple[str, int], path: str, count: int, per_second: float, timeout_s: float) -> None:
    """Fetches begin at their times, whether earlier ones have ended or not: a slow one delays no other."""

    async def user(number: int) -> None:
        await asyncio.sleep(number / per_second)
        start = time.perf_counter()
        try:
            async with asyncio.timeout(timeout_s):
                print(json.dumps(await fetch(address, path)))
        except (OSError, TimeoutError) as error:
            took_s = time.perf_counter() - start
            print(json.dumps({"error": f"{type(error).__name__}: {error}", "after_s": took_s}))

    await asyncio.gather(*map(user, range(count)))


async def fetch(address: tuple[str, int], path: str) -> dict[str, float]:
    """How long the handshake and the whole took from the SYN to the last byte, s; the bytes of the body."""
    loop = asyncio.get_running_loop()
    request = f"GET {path} HTTP/1.0\r\nHost: {address[0]}\r\n\r\n".encode()
    answer = bytearray()
    with socket.socket() as stream:
        stream.setblocking(False)
        start = time.perf_counter()
        await loop.sock_connect(stream, address)
        connected = time.perf_counter()
        await loop.sock_sendall(stream, request)
        while received := await loop.sock_recv(stream, CHUNK_BYTES):
            answer += received
        ended = time.perf_counter()
    body_bytes = len(answer) - answer.find(b"\r\n\r\n") - 4
    return {"connect_s": connected - start, "latency_s": ended - start, "bytes": body_bytes}


async def type_keys(host: str, port: int, count: int) -> None:
    """One connection over which keystrokes go, ten a second, each waiting for its echo."""
    reader, writer = await asyncio.open_connection(host, port)
    for _ in range(count):
        start = time.perf_counter()
        writer.write(b"x\n")
        await reader.readline()
        print(json.dumps({"latency_s": time.perf_counter() - start, "bytes": 2}))
        await asyncio.sleep(0.1)
    writer.close()


if __name__ == "__main__":
    main()

"""Web client of the testbed: fetches one file repeatedly, each time over a new connection.

With --users, the program simulates users who fetch a file, think and fetch again, from several servers.

The program runs as a script inside a link's namespace, and imports only the standard library, because its
start must not take longer than the measured fetches. The measurements are logged as lines of JSON.
"""

import argparse
import asyncio
import json
import random
import socket
import sys
import time
from urllib.parse import urlsplit

CHUNK_BYTES = 1 << 16


def main() -> None:
    """Runs the client: repeated fetches or, depending on the options, users or an interactive session."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("url", nargs="+", help="http://ADDRESS:PORT/FILE, or echo://ADDRESS:PORT/")
    options.add_argument("--count", type=int, default=10)
    options.add_argument("--per-second", type=float, default=20.0)
    options.add_argument("--timeout-s", type=float, default=120.0, help="time limit of a fetch")
    options.add_argument(
        "--users", type=int, help="number of users that fetch and think, with the servers in turn"
    )
    options.add_argument(
        "--files", default="", help="files that the users fetch, in random order, repeatedly"
    )
    options.add_argument("--think-s", type=float, default=5.0)
    options.add_argument("--for-s", type=float, default=45.0)
    options.add_argument("--seed", type=int, default=1)
    chosen = options.parse_args()
    parts = urlsplit(chosen.url[0])
    address = (parts.hostname or "", parts.port or 80)
    if chosen.users:
        servers = [(one.hostname or "", one.port or 80) for one in map(urlsplit, chosen.url)]
        asyncio.run(readers(servers, chosen))
    elif parts.scheme == "echo":
        asyncio.run(type_keys(*address, chosen.count))
    else:
        asyncio.run(users(address, parts.path, chosen.count, chosen.per_second, chosen.timeout_s))
    sys.stdout.flush()


async def users(address: tuple[str, int], path: str, count: int, per_second: float, timeout_s: float) -> None:
    """Fetches a file `count` times, starting at fixed times, whether earlier fetches have ended or not.

    Thus a slow fetch does not delay other fetches.
    """

    async def user(number: int) -> None:
        await asyncio.sleep(number / per_second)
        start = time.perf_counter()
        try:
            async with asyncio.timeout(timeout_s):
                print(json.dumps(await fetch(address, path)))
        except (OSError, TimeoutError) as error:
            elapsed_s = time.perf_counter() - start
            print(json.dumps({"error": f"{type(error).__name__}: {error}", "after_s": elapsed_s}))

    await asyncio.gather(*map(user, range(count)))


async def readers(servers: list[tuple[str, int]], chosen: argparse.Namespace) -> None:
    """Runs users who fetch a file and think in turn, until `chosen.for_s`, and prints each fetch.

    An unfinished fetch counts with its duration so far.
    """
    began = time.perf_counter()

    async def reader(number: int) -> None:
        lots = random.Random(chosen.seed << 16 | number)
        server = number % len(servers)
        files: list[str] = []
        while True:
            await asyncio.sleep(lots.expovariate(1 / chosen.think_s))
            if not files:
                files = chosen.files.split()
                lots.shuffle(files)
            name = files.pop()
            start = time.perf_counter()
            record: dict[str, object] = {"server": server, "size": int(name), "start_s": start - began}
            try:
                record |= await fetch(servers[server], f"/{name}")
            except OSError as error:
                record |= {
                    "error": f"{type(error).__name__}: {error}",
                    "after_s": time.perf_counter() - start,
                }
            except asyncio.CancelledError:
                print(json.dumps(record | {"after_s": time.perf_counter() - start}))
                raise
            print(json.dumps(record))

    tasks = [asyncio.create_task(reader(number)) for number in range(chosen.users)]
    await asyncio.wait(tasks, timeout=chosen.for_s)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def fetch(address: tuple[str, int], path: str) -> dict[str, float]:
    """Fetches a file over a new connection; returns its durations in seconds and the bytes of its body.

    The durations run from the SYN to the end of the handshake and to the last byte.
    """
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
    """Sends keystrokes over one connection, each after the echo of the last, and prints each echo's time."""
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

"""The Web client of the testbed: fetches one file over and over, each time over a new connection.

It runs inside a link's namespace by its path, with the standard library alone: starting it
must not take longer than what it measures. Latencies are logged as lines of JSON.
"""

import argparse
import asyncio
import json
import sys
import time
from urllib.parse import urlsplit


async def fetch(host: str, port: int, path: str, timeout_s: float) -> tuple[float, float, int]:
    """When it began, how long it took from the SYN to the last byte in seconds, and the bytes of the body."""
    began = time.time()
    start = time.perf_counter()
    async with asyncio.timeout(timeout_s):
        reader, writer = await asyncio.open_connection(host, port)
        try:
            writer.write(f"GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
            answer = await reader.read(-1)
        finally:
            writer.close()
    took_s = time.perf_counter() - start
    return began, took_s, len(answer) - answer.find(b"\r\n\r\n") - 4


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


async def user(url: str, count: int, wait_s: float, timeout_s: float) -> None:
    """One after the other, each as a line of JSON."""
    parts = urlsplit(url)
    await asyncio.sleep(wait_s)
    for _ in range(count):
        try:
            began, took_s, received = await fetch(
                parts.hostname or "", parts.port or 80, parts.path, timeout_s
            )
            print(json.dumps({"began_s": began, "latency_s": took_s, "bytes": received}))
        except (OSError, TimeoutError) as error:
            print(json.dumps({"error": f"{type(error).__name__}: {error}"}))


async def users(url: str, count: int, parallel: int, timeout_s: float) -> None:
    """Several users share the work; their first requests are spread over a second, as people's are."""
    shares = [count // parallel + (n < count % parallel) for n in range(parallel)]
    await asyncio.gather(
        *(user(url, share, n / parallel, timeout_s) for n, share in enumerate(shares) if share)
    )


def main() -> None:
    """Reads the options."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("url")
    options.add_argument("--count", type=int, default=10)
    options.add_argument("--parallel", type=int, default=1)
    options.add_argument("--timeout-s", type=float, default=120.0)
    chosen = options.parse_args()
    parts = urlsplit(chosen.url)
    if parts.scheme == "echo":
        asyncio.run(type_keys(parts.hostname or "", parts.port or 7, chosen.count))
        return
    asyncio.run(users(chosen.url, chosen.count, chosen.parallel, chosen.timeout_s))
    sys.stdout.flush()


if __name__ == "__main__":
    main()

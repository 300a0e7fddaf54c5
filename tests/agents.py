"""Host whose agent marks its packets, for tests, and checks of captures of these packets."""

import http.client
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from random import Random
from typing import Any

from catnip.api import Link
from catnip.papers.linux.runs import capturing, device

AGENT = [sys.executable, "-m", "catnip", "agent"]
PORT = 8080
SIZES = (1, 100, 1_200, 1_448, 2_896, 5_000, 10_000, 50_000, 200_000, 1_000_000)
NGINX = """
daemon off; worker_processes 2; pid {folder}/pid; error_log {folder}/error.log; user root;
events {{ worker_connections 4096; }}
http {{ access_log off; sendfile {sendfile}; tcp_nopush {nopush}; keepalive_requests 10000;
  client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;
  uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
  server {{ listen {port} backlog=4096; listen [::]:{port}; root {folder}/www; }} }}
"""
MIN_AGREEMENT = 0.99
TROUBLE = ("WARNING:", "BUG:", "Oops", "refcount", "use-after-free")


def trouble() -> int:
    """Returns the number of warnings and errors in the kernel's log."""
    return kernel_lines(*TROUBLE)


def kernel_lines(*words: str) -> int:
    """Returns the number of lines of the kernel's log that have one of these words."""
    log = subprocess.run(["dmesg"], capture_output=True, text=True, check=True).stdout
    return sum(any(word in line for word in words) for line in log.splitlines())


class Host:
    """Host behind an emulated link that uses this machine's kernel, and on which tests run an agent."""

    def __init__(self, link: Link, folder: Path) -> None:
        self.link, self.folder = link, folder
        self.device = device(link)

    def agent(self, *arguments: object, code: int = 0) -> str:
        """Runs a command of the agent, which must exit with `code`; returns its output or error message."""
        command = [*AGENT, *(str(argument) for argument in arguments)]
        done = self.link.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == code, (arguments, done.stdout, done.stderr)
        return str(done.stdout if code == 0 else done.stderr)

    @contextmanager
    def marking(self, *options: object) -> Iterator[None]:
        """Runs a marking agent at the host's device during the block, with these options of `start`."""
        self.agent("start", "--device", self.device, *options)
        try:
            yield
        finally:
            self.agent("stop")

    @contextmanager
    def nginx(self, sendfile: str = "on", nopush: str = "on") -> Iterator[None]:
        """Runs nginx on the host during the block, with a file of each size of `SIZES`."""
        www = self.folder / "www"
        www.mkdir(exist_ok=True)
        for size in SIZES:
            (www / str(size)).write_bytes(bytes(size))
        config = self.folder / "nginx.conf"
        config.write_text(NGINX.format(folder=self.folder, port=PORT, sendfile=sendfile, nopush=nopush))
        server = self.link.start(["nginx", "-c", str(config)])
        waits_for(PORT, self.link.inside)
        try:
            yield
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(timeout=10)

    def captured(self) -> AbstractContextManager[Path]:
        """Captures the packets of the host's device with tcpdump during the block; yields the file."""
        return capturing(self.link, self.folder / "sender.pcap")

    def counts(self) -> dict[tuple[str, str], int]:
        """Returns the numbers of packets that the agent has marked, by reason and priority level."""
        statistics = json.loads(self.agent("status", "--json"))["statistics"]
        return {(row["reason"], row["level"]): row["packets"] for row in statistics}

    def setting(self, name: str) -> str:
        """Returns the value of a sysctl in the host's network namespace."""
        path = f"/proc/sys/{name.replace('.', '/')}"
        shown = self.link.run(["cat", path], capture_output=True, text=True, check=True)
        return str(shown.stdout.strip())


def waits_for(port: int, address: str) -> None:
    for _ in range(100):
        try:
            socket.create_connection((address, port), timeout=5).close()
            return
        except ConnectionRefusedError:
            time.sleep(0.05)
    raise AssertionError(f"no server listens at {address}, {port}")


def verified(capture: Path, *options: str) -> dict[str, Any]:
    """Returns the result of `catnip agent verify` for a capture, with these options."""
    command = [*AGENT, "verify", str(capture), "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    sums: dict[str, Any] = json.loads(done.stdout)
    return sums


def fetch_all(address: str, seed: int, rounds: int) -> int:
    """Fetches files in random order over eight persistent connections, four at a time.

    Returns the total number of bytes received.
    """

    def fetch(number: int) -> int:
        order = Random((seed << 8) + number)
        connection = http.client.HTTPConnection(address, PORT, timeout=60)
        received = 0
        for _ in range(rounds):
            connection.request("GET", f"/{order.choice(SIZES)}")
            received += len(connection.getresponse().read())
        connection.close()
        return received

    with ThreadPoolExecutor(4) as pool:
        return sum(pool.map(fetch, range(8)))

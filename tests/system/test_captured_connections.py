"""Test that connection vectors of a real kernel's capture are what two programs said to each other."""

import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import catnip
from catnip import _core
from catnip.base import programs
from catnip.papers.linux.runs import capturing

REASON = programs.cannot_control()
pytestmark = pytest.mark.skipif(REASON is not None, reason=f"no captures: {REASON}")

SERVER = """
import socket, time
with socket.create_server(("0.0.0.0", 8080)) as listener:
    print("ready", flush=True)
    one, _ = listener.accept()
    for request, pause_s, response in ((300, 0.05, 20000), (400, 0.02, 100000)):
        received = 0
        while received < request:
            received += len(one.recv(request - received))
        time.sleep(pause_s)
        one.sendall(bytes(response))
    one.close()
"""


def test_what_two_programs_said_is_in_the_vectors_of_a_capture(tmp_path: Path) -> None:
    with catnip.link(rate="10Mbit", delay="10ms", loss="bernoulli:1%", seed=1) as link:
        server = link.start([sys.executable, "-c", SERVER], stdout=subprocess.PIPE)
        # A connection to try whether it listens could end within the capture.
        assert server.stdout is not None
        server.stdout.readline()
        with capturing(link, tmp_path / "x.pcap") as capture:
            with socket.create_connection((link.inside, 8080)) as client:
                for request, response in ((300, 20_000), (400, 100_000)):
                    client.sendall(bytes(request))
                    received = 0
                    while received < response:
                        received += len(client.recv(65_536))
                    time.sleep(0.3)
            server.communicate(timeout=10)
        text, columns, _, unopened, is_cut = _core.read_vectors(capture, "original")
    assert (len(columns["epochs"]), unopened, is_cut) == (1, 0, False)
    lines = [line.split() for line in text.splitlines()]
    sizes = [(line[0], int(line[1])) for line in lines if line[0] in "<>"]
    assert sizes == [(">", 300), ("<", 20_000), (">", 400), ("<", 100_000)]
    waits_ms = [int(line[1]) / 1000 for line in lines if line[0] == "t"][:3]
    # No program waits for less than it was told to.
    assert all(told <= waited + 2 for told, waited in zip((50, 300, 20), waits_ms, strict=True)), waits_ms
    assert next(int(line[1]) for line in lines if line[0] == "r") >= 20_000

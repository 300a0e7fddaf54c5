"""Test that the kernel receives all bytes in order from every simulated sender over an impaired link."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from catnip.base.programs import cannot_control

SOAK_S = float(os.environ.get("CATNIP_SOAK_S", "15"))
"""Duration of the transfers, s; `make soak` takes ten minutes."""
EMULATOR = Path(sys.executable).parent / "catnip-emu"
SENDERS = {
    "cubic": 'profile = "linux-6"\necn = "classic"',
    "bbr": 'profile = "linux-6"\ncontrol = "bbr"',
    "bbr3": 'profile = "linux-6"\ncontrol = "bbr3"',
    "gentle": 'profile = "linux-6"\ncontrol = "linux-cubic:slow-start=eca"\npacing = "linux"',
    "prague": 'profile = "linux-6"\ncontrol = "prague:after=3"\necn = "l4s"\npacing = "rate:1"',
    "dctcp": 'profile = "linux-6"\ncontrol = "dctcp"\necn = "exact"',
    "rfc": 'profile = "rfc"\nvalidation = "newcwv"\npacing = "rate:1,burst=4"',
    "newreno": 'profile = "rfc"\nrecovery = "newreno-rfc6582"\ncontrol = "cubic"',
}
CLIENT = """
import json, os, random, socket, threading, time
ALPHABET = b"abcdefghijklmnopqrstuvwxyz"
until = time.monotonic() + float(os.environ["SOAK_S"])
told = {}
def use(name, address):
    sizes = random.Random(name)
    got = told[name] = {"bytes": 0, "answers": 0, "wrong": []}
    while time.monotonic() < until and not got["wrong"]:
        with socket.create_connection((address, 80), timeout=60) as stream:
            # Their bodies run through the alphabet, so that a segment out of its place shows.
            wanted = [int(sizes.lognormvariate(9.5, 1.5)) % 400_000 + 1 for _ in range(10)]
            for size in wanted:
                stream.sendall(f"GET /anything/{size} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n".encode())
            file = stream.makefile("rb")
            for size in wanted:
                status = file.readline()
                head = dict(line.split(b": ", 1) for line in iter(lambda: file.readline().strip(), b""))
                body = file.read(size)
                is_whole = status == b"HTTP/1.1 200 OK\\r\\n" and int(head[b"Content-Length"]) == size
                if not is_whole or body != (ALPHABET * (size // 26 + 1))[:size]:
                    got["wrong"].append([size, str(status), len(body), str(body[:80])])
                    break
                got["bytes"] += size
                got["answers"] += 1
names = os.environ["SENDERS"].split()
threads = [threading.Thread(target=use, args=(name, os.environ["CATNIP_" + name.upper()])) for name in names]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(json.dumps(told))
"""


def scenario() -> str:
    """Returns a scenario with a real client and a server of each kind behind one impaired link."""
    parts = [
        f"""id = "X"
title = "Every sender, the kernel's receiver"
duration = "{SOAK_S + 90:g}s"
[node.r]
kind = "router"
[node.s]
kind = "router"
[node.client]
kind = "host"
ends_run = true
command = ["python3", "-c", '''{CLIENT}''']
[link.line]
from = "r"
to = "s"
rate = "40Mbit"
delay = "10ms"
queue = "fq-codel:500"
jitter = "uniform:2ms"
there.wire_loss = "bernoulli:1% | reorder:0.5%,by=4 | duplicate:0.5%"
back.wire_loss = "bernoulli:1% | duplicate:0.5%"
[link.client]
from = "s"
to = "client"
rate = "unlimited"
delay = "0ms"
queue = "drop-tail:1000"
"""
    ]
    for name, tcp in SENDERS.items():
        parts.append(
            f"""[node.{name}]
kind = "host"
[link.{name}]
from = "{name}"
to = "r"
rate = "1Gbit"
delay = "1ms"
queue = "drop-tail:1000"
[traffic.{name}]
kind = "web"
http = "1.1"
clients = "client"
servers = "{name}"
think = "0s"
[traffic.{name}.generate]
pages = 1
seed = 1
html_bytes = 1000
images = 0
image_bytes = 1
[traffic.{name}.tcp]
{tcp}
"""
        )
    return "".join(parts)


def test_the_kernel_takes_every_byte_of_every_simulated_sender(tmp_path: Path) -> None:
    if missing := cannot_control():
        pytest.skip(missing)
    file = tmp_path / "accepts.toml"
    file.write_text(scenario())
    environment = {**os.environ, "SOAK_S": f"{SOAK_S:g}", "SENDERS": " ".join(SENDERS)}
    ended = subprocess.run(
        [EMULATOR, "emulate", str(file), "--json"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    reports = [line for line in ended.stderr.splitlines() if line.startswith('{"')]
    assert reports, ended.stderr[-2000:]
    results = json.loads(reports[-1])
    print(f"\n{SOAK_S:g} s:", {name: (one["answers"], one["bytes"]) for name, one in results.items()})
    assert {name: one["wrong"] for name, one in results.items()} == {name: [] for name in SENDERS}
    assert all(one["answers"] >= 10 for one in results.values()), results

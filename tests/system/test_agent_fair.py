"""Tests of what strangers, many users and containers get of the agent's marks."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import catnip
from agents import Host
from catnip.base import programs

REASON = programs.cannot_control() or programs.cannot_mark()
pytestmark = pytest.mark.skipif(REASON is not None, reason=f"no agent: {REASON}")

QUIET = ("--controllers", "none")
FLOODS = """
import random, socket, struct, sys
own, to, port, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
raw, chance = socket.socket(socket.AF_INET, socket.SOCK_RAW, 6), random.Random(1)
ends = socket.inet_aton(own) + socket.inet_aton(to)
def checksum(data):
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    total = (total >> 16) + (total & 0xffff)
    return ~(total + (total >> 16)) & 0xffff
for _ in range(count):
    source, number = chance.randrange(1024, 65535), chance.getrandbits(32)
    head = struct.pack("!HHIIBBHHH", source, port, number, 0, 0x50, 2, 1000, 0, 0)
    pseudo = ends + struct.pack("!BBH", 0, 6, 20)
    raw.sendto(head[:16] + struct.pack("!H", checksum(pseudo + head)) + head[18:], (to, 0))
"""
MANY_USERS = """
import os, socket, sys
for user in range(1, int(sys.argv[1]) + 1):
    os.seteuid(user)
    one = socket.socket()
    one.setblocking(False)
    try:
        one.connect((sys.argv[2], 9))
    except BlockingIOError:
        pass
    one.close()
    os.seteuid(0)
"""
IN_A_NAMESPACE = """
import ctypes, os, socket, sys
# The parent may map any users for the child, which has made a user namespace of its own.
child_is_there, may_go = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    os.setreuid(65534, 65534)
    assert ctypes.CDLL(None).unshare(0x10000000) == 0
    os.write(child_is_there[1], b"x")
    os.read(may_go[0], 1)
    os.setresuid(0, 0, 0)
else:
    os.read(child_is_there[0], 1)
    with open(f"/proc/{child}/uid_map", "w") as users:
        users.write("0 65534 1\\n1 100000 20000\\n")
    os.write(may_go[1], b"x")
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with catnip.link(rate="1Gbit", queue="drop-tail:10000") as link:
        yield Host(link, tmp_path)


def counted(host: Host) -> dict[tuple[str, str], dict[str, int]]:
    rows: list[dict[str, Any]] = json.loads(host.agent("status", "--json"))["statistics"]
    return {(row["reason"], row["level"]): row for row in rows}


def flood(host: Host, port: int, count: int) -> None:
    command = [sys.executable, "-c", FLOODS, host.link.outside, host.link.inside, str(port), str(count)]
    subprocess.run(command, check=True, timeout=60)
    time.sleep(0.5)


def test_resets_of_no_connection_are_low_even_if_the_mark_is_that_of_the_application(host: Host) -> None:
    with host.marking(*QUIET, "--mark", "app:high"):
        flood(host, 9, 2000)
        rows = counted(host)
    assert rows.get(("end", "low"), {}).get("packets", 0) > 1000, rows
    assert not {("end", "high"), ("class", "high")} & set(rows)


def test_strangers_get_as_many_high_answers_as_their_limit_and_take_no_users_tokens(host: Host) -> None:
    limits = ["--handshake-limit", "80kbit/4000B", "--user-limit", "high=8kbit/4000B"]
    listens = (
        "import socket, time; s = socket.create_server(('', 8082), backlog=4096); "
        "print(flush=True); time.sleep(60)"
    )
    starts = [sys.executable, "-c", listens]
    with host.marking(*QUIET, *limits), host.link.start(starts, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        server.stdout.readline()
        began_s = time.monotonic()
        flood(host, 8082, 3000)
        lasted_s = time.monotonic() - began_s
        rows = counted(host)
        # The user who listens has all tokens still, for SYNs of its own.
        connects = (
            f"import socket; s = socket.socket(); s.settimeout(1); s.connect(('{host.link.outside}', 9))"
        )
        host.link.run([sys.executable, "-c", connects], capture_output=True)
        after = counted(host)
        server.kill()
    answers = rows["handshake", "high"]
    assert 0 < answers["bytes"] <= 4000 + 10_000 * (lasted_s + 1)
    assert rows["handshake", "low"]["demoted"] == rows["handshake", "low"]["packets"] > 1000
    assert after["handshake", "high"]["packets"] > answers["packets"]


def test_the_users_of_a_user_namespace_have_the_limit_of_its_owner(host: Host) -> None:
    with host.marking(*QUIET, "--user-limit", "high=8kbit/6000B"):
        script = IN_A_NAMESPACE + MANY_USERS
        host.link.run([sys.executable, "-c", script, "17000", host.link.outside], check=True)
        rows = counted(host)
        assert rows["handshake", "high"]["bytes"] <= 6000 + 1000 * 30
        assert rows["handshake", "low"]["demoted"] > 10_000
        # Another user, who has not sent before, is not affected.
        connects = (
            f"import socket; s = socket.socket(); s.settimeout(1); s.connect(('{host.link.outside}', 9))"
        )
        other = [
            "setpriv",
            "--reuid=65533",
            "--clear-groups",
            "env",
            "PATH=/usr/bin:/bin",
            "python3",
            "-c",
            connects,
        ]
        host.link.run(other, capture_output=True)
        assert counted(host)["handshake", "high"]["packets"] > rows["handshake", "high"]["packets"]


def test_users_who_have_stopped_leave_their_places_to_others(host: Host) -> None:
    # More users than there are places, each without a namespace. A SYN's tokens are back after 5 s.
    users = MANY_USERS.replace("os.seteuid(user)", "os.seteuid(200000 + user)")
    with host.marking(*QUIET, "--user-limit", "high=100bit/6000B"):
        host.link.run([sys.executable, "-c", users, "17000", host.link.outside], check=True)
        rows = counted(host)
        full = rows.get(("handshake", "low"), {}).get("packets", 0)
        assert full > 100, rows
        time.sleep(8)
        host.link.run([sys.executable, "-c", users, "100", host.link.outside], check=True)
        assert counted(host)["handshake", "low"]["packets"] == full


def test_packets_of_another_network_namespace_are_as_those_that_are_forwarded(host: Host) -> None:
    device = host.device
    script = f"""
      ip link add d0 type veth peer name d1 && ip link set d0 up && ip link set d1 up
      unshare --net sleep 60 & other=$!
      until [ "$(readlink /proc/$other/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.01; done
      ip link add link d0 name v0 type macvlan mode bridge && ip link set v0 netns $other
      there() {{ nsenter --target $other --net "$@"; }}
      there ip addr add 192.0.2.9/24 dev v0 && there ip link set v0 up
      there ip neigh add 192.0.2.1 lladdr 02:00:00:00:00:01 dev v0
      {programs.program(programs.AGENT)} start --device d0 --controllers none >&2
      there timeout 0.5 bash -c 'exec 3<>/dev/tcp/192.0.2.1/80'
      {programs.program(programs.AGENT)} status --json
      {programs.program(programs.AGENT)} stop >&2
      kill $other
    """
    done = host.link.run(["bash", "-c", script], capture_output=True, text=True)
    rows = {(row["reason"], row["level"]) for row in json.loads(done.stdout)["statistics"]}
    assert ("handshake", "high") not in rows and ("unmarked", "low") in rows, (device, done.stderr)


STACKED = """
set -e
ip link add d0 type veth peer name d1
unshare --net sleep 100 & other=$!
until [ "$(readlink /proc/$other/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.01; done
ip link set d1 netns $other
there() { nsenter --target $other --net "$@"; }
there ip link set d1 up; there ip link set lo up; there ip addr add 192.0.2.1/24 dev d1
ip link add link d0 name m0 type macvlan mode bridge
ip link set d0 up; ip link set m0 up; ip addr add 192.0.2.9/24 dev m0
# A queue above the lower device, which the packets reach after TCP has gone on.
tc qdisc add dev m0 root tbf rate 200mbit burst 20kb latency 500ms
there python3 -c 'import socket
listener = socket.create_server(("", 80))
one, _ = listener.accept()
while one.recv(1 << 20): pass' & sink=$!
sleep 0.5
AGENT start --device d0 --device m0 --controllers none --user-limit high=1bit/128KB,share=50% >&2
python3 -c 'import socket
with socket.create_connection(("192.0.2.1", 80)) as sink:
    sink.sendall(bytes(2_000_000))'
wait $sink
AGENT status --json
cat /proc/net/snmp
AGENT stop >&2
kill $other
ip link delete d0 2>/dev/null || true
"""


def tcp_lines(snmp: str) -> list[list[str]]:
    """Returns the names and the values of the kernel's counters of TCP, from a text with /proc/net/snmp."""
    return [line.split()[1:] for line in snmp.splitlines() if line.startswith("Tcp:")]


def test_a_packet_of_stacked_devices_is_decided_about_once(host: Host) -> None:
    script = STACKED.replace("AGENT", str(programs.program(programs.AGENT)))
    done = host.link.run(["bash", "-c", script], capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
    status, tcp_names, tcp_values = done.stdout.partition("\nIp:")[0], *tcp_lines(done.stdout)
    retransmitted = int(dict(zip(tcp_names, tcp_values, strict=True))["RetransSegs"])
    rows = {(row["reason"], row["level"]): row for row in json.loads(status)["statistics"]}
    seen = rows.get(("retransmission", "high"), {"packets": 0})["packets"]
    assert seen <= retransmitted < 100, rows
    of_data = sum(row["bytes"] for (reason, _), row in rows.items() if reason != "unmarked")
    assert 2_000_000 < of_data < 2_300_000, rows


CHEATS = """
import socket, sys, threading
# What goes over another device earns nothing here.
listener = socket.create_server(("127.0.0.1", 0))
ours = socket.create_connection(listener.getsockname())
other, _ = listener.accept()
def repeat(what):
    while True:
        what()
for what in (lambda: other.recv(1 << 20), lambda: ours.sendall(bytes(100_000))):
    threading.Thread(target=repeat, args=[what], daemon=True).start()
sys.path.insert(0, sys.argv[1])
from catnip import context
with socket.create_connection((sys.argv[2], int(sys.argv[4]))) as sink:
    for _ in range(int(sys.argv[3])):
        # Each segment is said to be a document, so that it is its last one.
        assert context.document(sink, 1448)
        sink.sendall(bytes(1448))
"""
SINK = """
import socket
listener = socket.create_server(("", 0))
print(listener.getsockname()[1], flush=True)
sink, _ = listener.accept()
while sink.recv(1 << 20):
    pass
"""


def test_a_user_who_announces_lies_gets_the_share_of_high_and_no_more(host: Host) -> None:
    source, segments = str(Path(catnip.__file__).parents[1]), 3000
    with subprocess.Popen([sys.executable, "-c", SINK], stdout=subprocess.PIPE) as sink:
        assert sink.stdout is not None
        port = sink.stdout.readline().decode().strip()
        # A rate that brings nothing in the time of this test.
        limit = ["--user-limit", "high=1bit/128KB,share=50%"]
        with host.marking(*QUIET, "--segments", "single", "--device", "lo", *limit):
            cheats = [sys.executable, "-c", CHEATS, source, host.link.outside, str(segments), port]
            host.link.run(cheats, check=True, timeout=60)
            rows = counted(host)
    high = rows["trailing", "high"]["bytes"]
    # With a header of 66 bytes for each segment.
    allowed = 0.5 * segments * (1448 + 66) + (128 << 10)
    assert 0.5 * allowed <= high <= allowed
    assert sum(row["demoted"] for row in rows.values()) > segments / 5

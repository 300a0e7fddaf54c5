"""End-to-end test of ECN: two kernels negotiate it, an emulated queue marks, the sender reduces cwnd."""

import shutil
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path
from threading import Thread

import pytest

import catnip
from catnip.base import programs

REASON = programs.cannot_emulate()
pytestmark = [
    pytest.mark.skipif(REASON is not None, reason=f"no emulation: {REASON}"),
    pytest.mark.skipif(
        not (shutil.which("tshark") and shutil.which("tcpdump")), reason="no tshark or tcpdump"
    ),
]

BYTES = 4_000_000
SENDER = """
import pathlib, signal, socket, subprocess, sys
address, port, size, capture = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
device = pathlib.Path("/proc/net/route").read_text().splitlines()[1].split()[0]
subprocess.run(["ip", "link", "set", "dev", device, "gso_max_segs", "1"], check=True)
pathlib.Path("/proc/sys/net/ipv4/tcp_ecn").write_text("1")
command = ["tcpdump", "-Z", "root", "-i", device, "-s", "100", "-U", "-w", capture, "tcp"]
watch = subprocess.Popen(command, stderr=subprocess.PIPE)
watch.stderr.readline()
with socket.socket() as connection:
    # Reno's slow start ends with a mark or a loss, that of CUBIC before packets wait for long.
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
    connection.settimeout(60)
    connection.connect((address, port))
    connection.sendall(bytes(size))
    connection.shutdown(socket.SHUT_WR)
    connection.recv(1)
watch.send_signal(signal.SIGINT)
watch.wait()
"""


def sent(tmp_path: Path, queue: str) -> Counter[str]:
    """Transfers data from behind a link with this queue; returns tshark's packet counts at the sender."""
    capture = tmp_path / "sender.pcap"
    received = []

    def receive(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            received.append(sum(iter(lambda: len(connection.recv(1 << 20)), 0)))

    with (
        socket.create_server(("0.0.0.0", 0)) as server,
        catnip.link(rate="20Mbit", delay="10ms", queue=queue) as link,
    ):
        server.settimeout(60)
        receiver = Thread(target=receive, args=(server,), daemon=True)
        receiver.start()
        arguments = [link.outside, str(server.getsockname()[1]), str(BYTES), str(capture)]
        link.run([sys.executable, "-c", SENDER, *arguments], check=True)
        receiver.join(timeout=60)
    assert received == [BYTES]
    fields = ["tcp.flags.syn", "tcp.flags.ack", "tcp.flags.ece", "tcp.flags.cwr", "ip.dsfield.ecn", "tcp.len"]
    options = [field for name in fields for field in ("-e", name)]
    command = ["tshark", "-n", "-r", str(capture), "-T", "fields", *options]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    counts: Counter[str] = Counter()
    for line in lines:
        syn, ack, ece, cwr = (field in ("1", "True") for field in line.split("\t")[:4])
        ecn, length = (int(field, 0) for field in line.split("\t")[4:])
        kind = ("SYN-ACK" if ack else "SYN") if syn else "data" if length else "ACK"
        counts[kind] += 1
        counts[f"{kind} with ECE"] += ece
        counts[f"{kind} with CWR"] += cwr
        counts[f"{kind} ECT(0)"] += ecn == 2
    retransmitted = subprocess.run(
        ["tshark", "-n", "-r", str(capture), "-Y", "tcp.analysis.retransmission"],
        capture_output=True,
        text=True,
        check=True,
    )
    counts["again"] = len(retransmitted.stdout.splitlines())
    return counts


@pytest.mark.parametrize(
    "queue", ["codel:1000", "fq-codel:1000", "cake:1000", "red:1000,min=50,max=900,ecn=true", "pie:1000"]
)
def test_a_kernel_that_negotiates_ecn_is_marked_and_reduces_and_loses_nothing(
    tmp_path: Path, queue: str
) -> None:
    counts = sent(tmp_path, queue)
    # RFC 3168, section 6.1.1.
    assert (counts["SYN with ECE"], counts["SYN with CWR"]) == (1, 1), counts
    assert (counts["SYN-ACK with ECE"], counts["SYN-ACK with CWR"]) == (1, 0), counts
    # The receiver echoes until the sender reports its reduction, which occurs once per window.
    assert counts["data with CWR"] > 0, counts
    assert counts["ACK with ECE"] >= counts["data with CWR"], counts
    # RFC 8033, section 5.1: PIE drops ECN packets above a drop probability of 10 %.
    if not queue.startswith("pie"):
        assert (counts["again"], counts["data ECT(0)"]) == (0, counts["data"]), counts

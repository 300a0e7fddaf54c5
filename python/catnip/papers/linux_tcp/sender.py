"""TCP sender behind the link, a separate program that reports the times of its segments and ACKs.

The program prints one JSON object: `segments`, [seconds, first byte] of each sent segment with data or a FIN,
counted from the first; `acks`, [seconds, next byte] of each received ACK; `counters` of this namespace's TCP;
`cwnd`, [seconds, segments] at intervals; and `done_s`, the time of the ACK of the last byte, or of the last
ACK. The last byte is the FIN unless it is sent late.
"""

import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

TCP_INFO, TCP_CONGESTION, TIMESTAMPNS = 11, 13, 35
SO_MAX_PACING_RATE, UNLIMITED_BYTES_PER_S, SIOCOUTQ = 47, 2**31, 0x5411
CWND_AT, FIN, SYN = 80, 1, 2
TIMEOUT_S = 90.0


def main(port: str, size: str, control: str, marks: str, polled_s: str, *switches: str) -> None:
    """Sends `size` bytes, or for a number of seconds if `size` ends in s, and prints the JSON object.

    The switch `paced` turns on the kernel's pacing; `late-fin` sends the FIN when all is acknowledged.
    """
    # The first line names the columns; the second has the only route, which uses the link.
    device = Path("/proc/net/route").read_text().splitlines()[1].split()[0]
    # The kernel must send each segment as a separate packet, like the simulator.
    subprocess.run(["ip", "link", "set", "dev", device, "gso_max_segs", "1"], check=True)
    Path("/proc/sys/net/ipv4/tcp_ecn").write_text(marks)
    capture = Capture(device, int(port))
    with socket.socket() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, control.encode())
        if "paced" in switches:
            # Any limit turns on the pacing of TCP itself; this one limits nothing.
            unlimited = struct.pack("Q", UNLIMITED_BYTES_PER_S)
            connection.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, unlimited)
        connection.settimeout(TIMEOUT_S)
        connection.connect((os.environ["CATNIP_OUTSIDE"], int(port)))
        cwnd = Polled(connection, float(polled_s))
        if size.endswith("s"):
            until = time.monotonic() + float(size[:-1])
            while time.monotonic() < until:
                connection.sendall(bytes(65536))
        else:
            connection.sendall(bytes(int(size)))
            while "late-fin" in switches and _unacknowledged(connection):
                time.sleep(0.01)
            connection.shutdown(socket.SHUT_WR)
            # The receiver closes once it has received everything.
            connection.recv(1)
        cwnd.stop()
    segments, acks = capture.stop()
    start, last = segments[0][0], max(first for _, first in segments)
    if "late-fin" in switches:
        last = int(size) - 1
    print(
        json.dumps(
            {
                "segments": [[at - start, first] for at, first in segments],
                "acks": [[at - start, following] for at, following in acks],
                "done_s": next((at for at, following in acks if following > last), acks[-1][0]) - start,
                "counters": counters(),
                "cwnd": cwnd.samples,
            }
        )
    )


class Capture:
    """Capture of a connection's sent segments and received ACKs, with the kernel's time stamps."""

    def __init__(self, device: str, port: int) -> None:
        self._port = port
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
        self._socket.bind((device, 0))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
        self._socket.setsockopt(socket.SOL_SOCKET, TIMESTAMPNS, 1)
        self._socket.settimeout(0.1)
        self._segments: list[tuple[float, int]] = []
        self._acks: list[tuple[float, int]] = []
        self._initial = 0
        self._stopped = False
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def stop(self) -> tuple[list[tuple[float, int]], list[tuple[float, int]]]:
        """Stops the capture and returns (seconds, byte) of the segments and of the ACKs."""
        time.sleep(0.05)
        self._stopped = True
        self._thread.join()
        return self._segments, self._acks

    def _watch(self) -> None:
        while not self._stopped:
            try:
                packet, extras, *_ = self._socket.recvmsg(128, 64)
            except TimeoutError:
                continue
            stamp = next(data for _, kind, data in extras if kind == TIMESTAMPNS)
            seconds, nanos = struct.unpack("qq", stamp)
            self._take(seconds + nanos / 1e9, packet)

    def _take(self, at: float, packet: bytes) -> None:
        if packet[0] >> 4 != 4 or packet[9] != socket.IPPROTO_TCP:
            return
        tcp = packet[4 * (packet[0] & 15) :]
        source, target, sequence, following = struct.unpack("!HHII", tcp[:12])
        length = int.from_bytes(packet[2:4]) - 4 * (packet[0] & 15) - 4 * (tcp[12] >> 4)
        if target == self._port:
            if tcp[13] & SYN:
                self._initial = sequence + 1
            elif length or tcp[13] & FIN:
                self._segments.append((at, (sequence - self._initial) % 2**32))
        elif source == self._port and not tcp[13] & SYN:
            self._acks.append((at, (following - self._initial) % 2**32))


class Polled:
    """Periodic record of a connection's congestion window."""

    def __init__(self, connection: socket.socket, every_s: float) -> None:
        self.samples: list[tuple[float, int]] = []
        self._connection, self._every_s = connection, every_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._poll)
        self._thread.start()

    def stop(self) -> None:
        """Stops the periodic record."""
        self._ended.set()
        self._thread.join()

    def _poll(self) -> None:
        begun = time.monotonic()
        while not self._ended.wait(self._every_s):
            info = self._connection.getsockopt(socket.IPPROTO_TCP, TCP_INFO, 256)
            self.samples.append((time.monotonic() - begun, *struct.unpack_from("I", info, CWND_AT)))


def _unacknowledged(connection: socket.socket) -> int:
    return int(struct.unpack("i", fcntl.ioctl(connection, SIOCOUTQ, bytes(4)))[0])


def counters() -> dict[str, int]:
    """Returns the nonzero TCP counters of this network namespace, by name."""
    lines = Path("/proc/net/netstat").read_text().splitlines()
    counted = zip(lines[::2], lines[1::2], strict=True)
    return {
        name: int(value)
        for names, values in counted
        for name, value in zip(names.split()[1:], values.split()[1:], strict=False)
        if value != "0"
    }


if __name__ == "__main__":
    main(*sys.argv[1:])

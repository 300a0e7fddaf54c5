"""Model of marking and of prioritized dropping, written from the words of the DiffServ paper.

The paper is Noureddine and Tobagi, "Improving the performance of interactive TCP applications using service
differentiation" (2002). Docstrings name its sections. What its words leave open is called an assumption. Run
as a script, the module prints the marks and the fates of the packets of `diffserv-sent.csv`, or of another
file with the same columns:

    python tests/diffserv_model.py > crates/net/tests/unit/data/diffserv.csv

Marks are H, M and L, or - if a policer drops the packet. In a queue a packet is taken (o) or dropped (x);
with shapers the result is how long it waits for the start of its transmission, in whole microseconds.
"""

import csv
import sys
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

DATA = Path(__file__).resolve().parent.parent / "crates/net/tests/unit/data"
PRIORITIES = "HML"
DROPPED, TAKEN, POLICED = "x", "o", "-"
SEED = 1


class Packet(NamedTuple):
    """Packet that a host sends, with what its TCP has at hand. Windows are in bytes."""

    ns: int
    host: str
    connection: int
    end: str
    service: str
    kind: str
    bytes: int
    cwnd: int | None
    rwnd: int | None
    recovering: bool = False
    answers: int | None = None
    """Number of the data that arrived last, which a pure ACK answers."""


def read(path: Path) -> list[Packet]:
    """Returns the packets of a file, whose columns have the names of the fields."""

    def number(text: str) -> int | None:
        return int(text) if text else None

    packets = list[Packet]()
    with path.open(newline="") as file:
        rows = csv.reader(file)
        assert tuple(next(rows)) == Packet._fields
        for ns, host, connection, end, service, kind, size, *state in rows:
            cwnd, rwnd, recovering, answers = map(number, state)
            packet = Packet(int(ns), host, int(connection), end, service, kind, int(size), cwnd, rwnd)
            packets.append(packet._replace(recovering=bool(recovering), answers=answers))
    return packets


def uniform(component: int, index: int, seed: int = SEED) -> Iterator[float]:
    """Yields the uniform numbers of a stream of the simulator.

    The generator is Philox4x32-10 (Salmon et al. 2011), so that the model and the simulator draw alike.
    """
    mask, block = 0xFFFFFFFF, 0
    while True:
        a, b, c, d = block & mask, block >> 32, component, index
        key = [seed, 0]
        for _ in range(10):
            left, right = a * 0xD2511F53, c * 0xCD9E8D57
            a, b, c, d = right >> 32 ^ b ^ key[0], right & mask, left >> 32 ^ d ^ key[1], left & mask
            key = [(key[0] + 0x9E3779B9) & mask, (key[1] + 0xBB67AE85) & mask]
        yield ((a << 32 | b) >> 11) / 2**53
        yield ((c << 32 | d) >> 11) / 2**53
        block += 1


def by_application(packets: list[Packet]) -> str:
    """Section V: all packets of Telnet are HIGH, those of the Web MED and those of FTP LOW."""
    return "".join({"T": "H", "W": "M", "F": "L"}[packet.service] for packet in packets)


def by_state(
    packets: list[Packet], thresholds: tuple[int, int] | None = None, *, random: bool = False
) -> str:
    """Section VI-A, Algorithm 1: marks follow the window, the smaller one of cwnd and the receive window.

    By section VI-C ACKs are "marked with the priority of the data they correspond to". For Telnet the
    thresholds are by default "set at maximum window size", for others they are 4 and 8.

    "The connection establishment segments" are sent at HIGH, and the ACK that ends a handshake is one of
    them: it corresponds to no data, and its sender's window is still that of the SYN (footnote 6). Segments
    of a loss recovery are HIGH (footnote 5).

    Assumption: the comparison is "at most". The window is in whole segments of 1000 bytes. A step "with
    probability" draws one number, from the stream of its end of the connection.
    """
    marks: list[str] = []
    draws: dict[tuple[int, str], Iterator[float]] = {}

    def of_window(packet: Packet) -> str:
        assert packet.cwnd is not None and packet.rwnd is not None
        window = min(packet.cwnd, packet.rwnd) // 1000
        high, med = thresholds or ((window, window) if packet.service == "T" else (4, 8))
        stream = 4 | {"client": 1, "server": 2}[packet.end] << 8
        draw = draws.setdefault((packet.connection, packet.end), uniform(stream, packet.connection))
        if window <= high or packet.recovering or (random and next(draw) < high / window):
            return "H"
        if window <= med or (random and next(draw) < med / window):
            return "M"
        return "L"

    for packet in packets:
        if packet.kind == "S" or (packet.kind == "A" and packet.answers is None):
            marks.append("H")
        elif packet.kind == "A":
            marks.append(marks[packet.answers or 0])
        else:
            marks.append(of_window(packet))
    return "".join(marks)


class Bucket:
    """Token bucket profile of section IV-B, full at first. Tokens are in billionths of a bit."""

    def __init__(self, rate: int, depth: int) -> None:
        self.rate, self.depth = rate, depth * 8 * 10**9
        self.tokens, self.since = self.depth, 0

    def ready(self, size: int) -> int:
        """Returns the time from which a packet conforms."""
        return self.since + max(0, -(-(size * 8 * 10**9 - self.tokens) // self.rate))

    def admits(self, now: int, size: int) -> bool:
        """Returns true if a packet conforms, and takes its tokens."""
        if now < self.ready(size):
            return False
        self.tokens = min(self.depth, self.tokens + self.rate * (now - self.since)) - size * 8 * 10**9
        self.since = now
        return True


def sla(med_rate: int) -> dict[str, Bucket]:
    """Section IV-B: limits of HIGH and MED for a user."""
    return {"H": Bucket(250_000, 6000), "M": Bucket(med_rate, 6000)}


def edge(packets: list[Packet], marks: str | None, med_rate: int, *, drops: bool = False) -> str:
    """Section IV-B: an edge router drops packets beyond their user's limits, or lowers their priority.

    Without `marks` it marks all by itself, as with "token bucket marking at edge routers" of section VI-C.

    Assumption: a packet that is given MED in place of HIGH needs a token of MED.
    """
    users = {host: sla(med_rate) for host in {packet.host for packet in packets}}

    def passed(packet: Packet, mark: str) -> str:
        limits = users[packet.host]
        lower = PRIORITIES[PRIORITIES.index(mark) :]
        for priority in lower[:1] if drops else lower:
            if priority == "L" or limits[priority].admits(packet.ns, packet.bytes):
                return priority
        return POLICED

    return "".join(map(passed, packets, marks or "H" * len(packets)))


SCHEMES: dict[str, Callable[[list[Packet]], str]] = {
    "application": by_application,
    "TCP state": by_state,
    "TCP state, randomized": lambda packets: by_state(packets, random=True),
    "TCP state, thresholds of 2 and 6": lambda packets: by_state(packets, (2, 6)),
    "edge router": lambda packets: edge(packets, None, 500_000),
    "application, remarked": lambda packets: edge(packets, by_application(packets), 110_000),
    "application, policed": lambda packets: edge(packets, by_application(packets), 250_000, drops=True),
    "TCP state, remarked": lambda packets: edge(packets, by_state(packets), 500_000),
    "none": lambda packets: "L" * len(packets),
}
"""Schemes in the order of the column `marks`."""

LINE_NS, LINE_PACKETS = 5000, 40
"""Nanoseconds per byte of the shared link, and packets that may wait for it."""
BANDS = {"L": (10, 25), "M": (40, 60), "H": (60, 95)}
"""Thresholds of figure 4, percent of the buffer."""


class ThreePriorityRed:
    """Section IV-A: an average queue for each priority, which counts its packets and those of higher ones.

    Assumption: an arrival updates the averages of all counts to which it belongs. Drops are independent, and
    a packet draws a number if its average is between the thresholds. The packet in transmission is not in the
    queue.
    """

    def __init__(self) -> None:
        self.averages = dict.fromkeys(PRIORITIES, 0.0)
        self.draws = uniform(1, 0)

    def takes(self, priority: str, waiting: str) -> bool:
        for level in PRIORITIES[PRIORITIES.index(priority) :]:
            counted = sum(waiting.count(other) for other in PRIORITIES[: PRIORITIES.index(level) + 1])
            self.averages[level] = 0.5 * self.averages[level] + 0.5 * counted
        low, high = (percent / 100 * LINE_PACKETS for percent in BANDS[priority])
        average = self.averages[priority]
        if low <= average < high:
            return not next(self.draws) < 0.1 * (average - low) / (high - low)
        return average < low


def shared_link(packets: list[Packet], marks: str, red: ThreePriorityRed | None) -> str:
    """Section IV-A, or drop tail: a FIFO for one link, which all packets reach. Returns their fates."""
    waiting: deque[tuple[str, int]] = deque()
    free, fates = 0, ""
    for packet, mark in zip(packets, marks, strict=True):
        while waiting and free <= packet.ns:
            free += waiting.popleft()[1] * LINE_NS
        if mark == POLICED:
            fates += POLICED
            continue
        is_taken = red is None or red.takes(mark, "".join(other for other, _ in waiting))
        if not is_taken or len(waiting) == LINE_PACKETS:
            fates += DROPPED
        elif free <= packet.ns:
            free, fates = packet.ns + packet.bytes * LINE_NS, fates + TAKEN
        else:
            waiting.append((mark, packet.bytes))
            fates += TAKEN
    return fates


ACCESS_NS, ACCESS_PACKETS = 4000, 63
"""Nanoseconds per byte of a host's link, and packets that may wait for it besides the one in transmission."""


class Host:
    """Source of sections V and VI-B, whose HIGH and MED packets wait for tokens.

    With application-based marking there is a queue for each priority, and the highest one that can send does.
    With marking by TCP's state there is a queue for each connection: classes are served in order, in each
    HIGH before MED before LOW, and connections of a class in turns of one packet. A packet that waits for a
    token blocks its priority in the lower classes.

    Assumption: tokens must be there when the last bit leaves, so that the policer behind the link finds them.
    """

    def __init__(self, med_rate: int, *, by_connection: bool) -> None:
        self.limits, self.by_connection = sla(med_rate), by_connection
        # Queues in the order of their turns.
        self.queues: dict[int, deque[tuple[int, Packet, str]]] = {}
        self.free = 0

    def arrives(self, number: int, packet: Packet, mark: str) -> None:
        self.free = max(self.free, packet.ns)
        if sum(map(len, self.queues.values())) < ACCESS_PACKETS:
            key = packet.connection if self.by_connection else PRIORITIES.index(mark)
            self.queues.setdefault(key, deque()).append((number, packet, mark))

    def _choice(self, now: int) -> tuple[int | None, int]:
        """Returns the queue that sends now, and otherwise when to look again."""
        blocked, again = set[str](), sys.maxsize
        for service in "TWF" if self.by_connection else "*":
            for priority in PRIORITIES:
                is_blocked = priority in blocked
                for key, queue in self.queues.items():
                    _, packet, mark = queue[0]
                    if mark != priority or service not in ("*", packet.service):
                        continue
                    sent = packet.bytes * ACCESS_NS
                    ready = self.limits[mark].ready(packet.bytes) - sent if mark != "L" else now
                    if ready > now:
                        blocked.add(mark)
                        again = min(again, ready)
                    elif not is_blocked:
                        return key, now
        return None, again

    def run(self, until: int) -> Iterator[tuple[int, int]]:
        """Yields the packets that start until a time, by number, with their times."""
        now = self.free
        while self.queues and now <= until:
            key, again = self._choice(now)
            if key is None:
                now = again
                continue
            queue = self.queues.pop(key)
            number, packet, mark = queue.popleft()
            if queue:
                self.queues[key] = queue
            yield number, now
            now = self.free = now + packet.bytes * ACCESS_NS
            assert mark == "L" or self.limits[mark].admits(self.free, packet.bytes)


def shaped(packets: list[Packet], marks: str, med_rate: int, *, by_connection: bool) -> list[str]:
    """Returns how long each packet waits at its host, or that it is dropped."""
    names = {packet.host for packet in packets}
    hosts = {name: Host(med_rate, by_connection=by_connection) for name in names}
    results = [DROPPED] * len(packets)

    def run(until: int) -> None:
        for host in hosts.values():
            for number, start in host.run(until):
                results[number] = str((start - packets[number].ns) // 1000)

    for number, (packet, mark) in enumerate(zip(packets, marks, strict=True)):
        run(packet.ns)
        hosts[packet.host].arrives(number, packet, mark)
    run(sys.maxsize - 1)
    return results


COLUMNS = ("marks", "drop_tail", "red", "application", "tcp_state", "randomized")


def results(packets: list[Packet]) -> Iterator[tuple[str, ...]]:
    """Yields a row for each packet.

    The row has its marks with each scheme, its fate in a drop-tail queue, its fates in three-priority RED
    with each scheme (the last one, with all packets LOW, is RED), and its waits with the shapers of three
    schemes.
    """
    marks = {name: mark(packets) for name, mark in SCHEMES.items()}
    tail = shared_link(packets, marks["none"], None)
    red = [shared_link(packets, of, ThreePriorityRed()) for of in marks.values()]
    return zip(
        map("".join, zip(*marks.values(), strict=True)),
        tail,
        map("".join, zip(*red, strict=True)),
        shaped(packets, marks["application"], 110_000, by_connection=False),
        shaped(packets, marks["TCP state"], 500_000, by_connection=True),
        shaped(packets, marks["TCP state, randomized"], 250_000, by_connection=True),
        strict=True,
    )


def text(path: Path) -> str:
    """Returns the results for a file of packets, as CSV."""
    return "".join(",".join(row) + "\n" for row in [COLUMNS, *results(read(path))])


if __name__ == "__main__":
    print(text(Path(sys.argv[1]) if len(sys.argv) > 1 else DATA / "diffserv-sent.csv"), end="")

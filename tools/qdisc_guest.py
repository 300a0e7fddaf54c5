#!/usr/bin/env python3
"""Tests of the BPF qdiscs in the running kernel, as root; tools/qdisc_vm.sh boots a kernel for this.

Marked packets go from one end of a veth pair to the other, at twice the rate of the qdisc on the near end.
The fate of each packet is not taken from the qdisc but from the kernel's trace points, which record arrivals,
drops and departures in order. Sender, qdisc and trace points use one processor, so that the order is certain.
A second implementation of the paper's rule then has to explain each drop and each departure; the qdisc's
counters and the packets received have to agree with it.

usage: qdisc_guest.py OBJECT [SEED]
"""

import ctypes
import fcntl
import json
import os
import random
import re
import socket
import struct
import subprocess
import sys
import termios
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

OBJECT = sys.argv[1]
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 1
RATE, LIMIT = 1_500_000, 10
LOW, HIGH = range(2)
RANDOM, NEWEST, OLDEST = range(3)
AF11 = 10
NOT_AF11 = [0, 12, 14, 18, 46]
HEADERS = {socket.AF_INET: 20 + 8, socket.AF_INET6: 40 + 8}
ETHERNET = 14
SMALLEST = 200
PORT = 4000
SENDER, RECEIVER = 0, 1  # number of the processor of each process
TURNS = 100
TRACING = Path("/sys/kernel/tracing")
EVENTS = {
    "net/net_dev_queue": 'name == "near"',
    "qdisc/qdisc_enqueue": "",
    "skb/kfree_skb": "",
    "net/net_dev_start_xmit": 'name == "near"',
}


def main() -> None:
    set_up()
    tests = {
        "settings that make no sense are refused": refusals,
        "DropTail": lambda: overload("bpf_drop_tail", RANDOM, 14000),
        "CATNIP-Good, a random victim": lambda: overload("bpf_catnip_good", RANDOM, 14000),
        "CATNIP-Good, the newest": lambda: overload("bpf_catnip_good", NEWEST, 2000),
        "CATNIP-Good, the oldest": lambda: overload("bpf_catnip_good", OLDEST, 2000),
        "a hundred times attached and detached under load": churn,
        "taken away without a trace": tear_down,
    }
    failed = 0
    for name, test in tests.items():
        try:
            print("passed:", name, json.dumps(test()), flush=True)
        except AssertionError as error:
            failed += 1
            print("FAILED:", name, error, flush=True)
    print(f"{len(tests) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


def run(command: str) -> str:
    return subprocess.run(command.split(), check=True, text=True, stdout=subprocess.PIPE).stdout


def set_up() -> None:
    os.sched_setaffinity(0, {SENDER})
    run(f"bpftool struct_ops register {OBJECT}")
    run("ip netns add there")
    run("ip link add name near type veth peer name far netns there")
    for ip, device, here, there in (("ip", "near", 1, 2), ("ip -n there", "far", 2, 1)):
        # With static neighbours and without automatic addresses, the kernel sends no packets of its own.
        run(f"{ip} link set {device} address 02:00:00:00:00:0{here} addrgenmode none up")
        for net, option in (("10.0.0.", ""), ("fd00::", "nodad")):
            run(f"{ip} address add {net}{here} peer {net}{there} dev {device} {option}")
            run(f"{ip} neighbour add {net}{there} lladdr 02:00:00:00:00:0{there} dev {device}")
    wait_for_silence()
    (TRACING / "buffer_size_kb").write_text("65536")
    for event, condition in EVENTS.items():
        if condition:
            (TRACING / "events" / event / "filter").write_text(condition)
        (TRACING / "events" / event / "enable").write_text("1")


def wait_for_silence() -> None:
    """Waits until the kernel has sent and repeated its reports of multicast groups."""
    counter = Path("/sys/class/net/near/statistics/tx_packets")
    before = None
    while before != (before := counter.read_text()):
        time.sleep(3)


def give(rate: int = RATE, limit: int = LIMIT, victim: int = RANDOM) -> None:
    """Writes the settings of the next qdisc to create: rate, limit and choice of the victim."""
    value = struct.pack("<QII", rate, limit, victim).hex(" ")
    run(f"bpftool map update name settings key 0 0 0 0 value hex {value}")


def refusals() -> dict[str, int]:
    wrong = [{"rate": 0}, {"limit": 0}, {"limit": 1}, {"victim": 3}]
    for settings in wrong:
        give(**settings)
        for kind in ("bpf_catnip_good", "bpf_drop_tail"):
            command = f"tc qdisc add dev near root {kind}".split()
            tc = subprocess.run(command, check=False, text=True, stderr=subprocess.PIPE)
            assert "Invalid argument" in tc.stderr, f"{kind} takes {settings}"
    return {"refused": 2 * len(wrong)}


@dataclass
class Packet:
    """Packet to be sent through the qdisc."""

    priority: int
    codepoint: int
    ecn: int
    family: socket.AddressFamily
    len: int  # with the IP header
    gap: float  # seconds before the packet


def packets(count: int) -> list[Packet]:
    """Returns random packets at twice the rate; at times most are HIGH, so that LOW packets run out."""
    rng = random.Random(SEED)
    drawn: list[Packet] = []
    high = 0.1
    for _ in range(count):
        if rng.random() < 0.02:
            high = rng.choice([0.1, 0.4, 0.4, 0.9])
        priority = HIGH if rng.random() < high else LOW
        codepoint = AF11 if priority == HIGH else rng.choice(NOT_AF11)
        family = rng.choice([socket.AF_INET, socket.AF_INET, socket.AF_INET6])
        length = rng.randint(SMALLEST, 1000)
        gap = rng.expovariate(2 * RATE / 8 / 600)
        drawn.append(Packet(priority, codepoint, rng.randrange(4), family, length, gap))
    return drawn


def send(sent: list[Packet]) -> None:
    sockets = {family: socket.socket(family, socket.SOCK_DGRAM) for family in HEADERS}
    due = time.monotonic()
    for number, packet in enumerate(sent):
        due += packet.gap
        time.sleep(max(0, due - time.monotonic()))
        payload = number.to_bytes(4, "big").ljust(packet.len - HEADERS[packet.family])
        traffic_class = packet.codepoint << 2 | packet.ecn
        if packet.family == socket.AF_INET:
            mark, to = (socket.IPPROTO_IP, socket.IP_TOS), "10.0.0.2"
        else:
            mark, to = (socket.IPPROTO_IPV6, socket.IPV6_TCLASS), "fd00::2"
        sockets[packet.family].sendmsg([payload], [(*mark, struct.pack("=i", traffic_class))], 0, (to, PORT))


def receive(told: Connection) -> None:
    """Receives packets until none has arrived for two seconds; then sends their numbers to `told`."""
    os.sched_setaffinity(0, {RECEIVER})
    with open("/run/netns/there") as namespace:
        # Python provides setns only from 3.12 on.
        assert ctypes.CDLL(None).setns(namespace.fileno(), 0) == 0
    # A single socket receives both families, because two sockets would lose the order.
    endpoint = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    endpoint.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    endpoint.bind(("::", PORT))
    told.send("ready")
    numbers = []
    endpoint.settimeout(20)
    try:
        while True:
            numbers.append(int.from_bytes(endpoint.recv(2048)[:4], "big"))
            endpoint.settimeout(2)
    except TimeoutError:
        told.send(numbers)


@dataclass
class Arrival:
    at: float
    packet: Packet
    enqueued: bool = False
    dropped: list[int] = field(default_factory=list)  # numbers of packets


@dataclass
class Departure:
    at: float
    number: int


def traced(sent: list[Packet]) -> tuple[list[Arrival], list[Arrival | Departure]]:
    """Returns all arrivals, and all arrivals and departures in order, from the kernel's trace points.

    The kernel frees dropped packets at the end of the arrival that caused the drop, so a drop belongs to the
    arrival before it.
    """
    stray = re.search(r".*dev=near.*", trace(RECEIVER))
    assert not stray, f"on the wrong processor: {stray[0]}"
    stats = (TRACING / f"per_cpu/cpu{SENDER}/stats").read_text()
    assert not re.search(r"(overrun|dropped events): [^0]", stats), f"trace points were lost: {stats}"
    arrivals: list[Arrival] = []
    story: list[Arrival | Departure] = []
    numbers: dict[str, int] = {}  # by the packet's address in memory
    for line in re.finditer(r" ([\d.]+): (\w+): .*skbaddr=(\w+).*", trace(SENDER)):
        at, event, address = float(line[1]), line[2], line[3]
        if event == "net_dev_queue":
            number = numbers[address] = len(arrivals)
            frame = ETHERNET + sent[number].len
            assert re.search(rf"\blen={frame}\b", line[0]), f"not packet {number}: {line[0]}"
            arrivals.append(Arrival(at, sent[number]))
            story.append(arrivals[-1])
        elif address in numbers:
            if event == "qdisc_enqueue":
                assert numbers[address] == len(arrivals) - 1
                arrivals[-1].enqueued = True
            elif event == "net_dev_start_xmit":
                story.append(Departure(at, numbers.pop(address)))
            elif "QDISC_DROP" in line[0]:
                arrivals[-1].dropped.append(numbers.pop(address))
    assert len(arrivals) == len(sent), f"{len(arrivals)} of {len(sent)} packets came to the qdisc"
    return arrivals, story


def trace(processor: int) -> str:
    return (TRACING / f"per_cpu/cpu{processor}/trace").read_text()


def explain(
    story: list[Arrival | Departure], sent: list[Packet], good: bool
) -> tuple[Counter[str], list[tuple[int, int]]]:
    """Checks the traced events against the drop rule of the CATNIP paper, section III-C.

    Returns the number of times that each case of the rule occurred and, for each dropped waiting packet
    (victim), the number of LOW packets in the queue and the number of those ahead of the victim. `good` is
    true for CATNIP-Good, false for DropTail.
    """
    queue: list[int] = []
    cases: Counter[str] = Counter()
    victims = []
    for event in story:
        if isinstance(event, Departure):
            assert queue[:1] == [event.number], f"packet {event.number} left, {queue} waited"
            queue.pop(0)
            continue
        number = cases.total()
        low = [one for one in queue if sent[one].priority == LOW]
        lost = [number]
        if len(queue) < LIMIT - 1:
            case, lost = "room", []
        elif not good:
            case = "full"
        elif event.packet.priority == LOW:
            case = "full, LOW"
        elif not low:
            case = "full, HIGH, no LOW waits"
        else:
            case, lost = "full, HIGH, a LOW one goes", event.dropped
            assert len(lost) == 1 and lost[0] in low, f"packet {number} costs {lost}, LOW are {low}"
            victims.append((len(low), low.index(lost[0])))
        cases[case] += 1
        assert event.dropped == lost, f"packet {number} ({case}) costs {event.dropped} of {queue}"
        assert event.enqueued == (number not in lost), f"packet {number} ({case}): {event}"
        queue = [one for one in [*queue, number] if one not in lost]
    assert not queue, f"{queue} never left"
    return cases, victims


def unevenness(victims: list[tuple[int, int]]) -> dict[str, float]:
    """Returns the chi-square of the victims' positions against equal chances, and its normal deviate."""
    table: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for low, position in victims:
        table[low][position] += 1
    square, freedom = 0.0, 0
    for low, positions in table.items():
        expected = positions.total() / low
        if low > 1 and expected >= 5:
            square += sum((positions[position] - expected) ** 2 / expected for position in range(low))
            freedom += low - 1
    # Wilson and Hilferty: the cube root is nearly normal.
    variance = 2 / (9 * freedom)
    sigma = ((square / freedom) ** (1 / 3) - (1 - variance)) / variance**0.5
    return {"chi-square": round(square, 1), "degrees of freedom": freedom, "sigma": round(sigma, 2)}


def overload(kind: str, victim: int, count: int) -> dict[str, object]:
    sent = packets(count)
    give(victim=victim)
    run(f"tc qdisc add dev near root {kind}")
    told, tells = Pipe(duplex=False)
    receiver = Process(target=receive, args=[tells])
    receiver.start()
    tells.close()
    told.recv()
    (TRACING / "trace").write_text("")
    send(sent)
    received = told.recv()
    receiver.join()
    queue = queue_of("near")
    drops = json.loads(run("tc -s -j qdisc show dev near"))[0]["drops"]
    run("tc qdisc del dev near root")

    arrivals, story = traced(sent)
    cases, victims = explain(story, sent, kind == "bpf_catnip_good")
    departures = [one for one in story if isinstance(one, Departure)]
    assert received == [one.number for one in departures], "the receiver got others, or in another order"

    fates: Counter[tuple[int, str]] = Counter()
    for number, arrival in enumerate(arrivals):
        fates[arrival.packet.priority, "enqueued" if arrival.enqueued else "dropped"] += 1
        fates.update((sent[one].priority, "evicted") for one in arrival.dropped if one != number)
    fates.update((sent[number].priority, "dequeued") for number in received)
    for priority in (LOW, HIGH):
        counted = queue["of"][priority]
        seen = {name: fates[priority, name] for name in counted}
        assert counted == seen, f"the qdisc counts {counted}, seen were {seen}"
    assert queue["waiting"] == queue["low"] == 0, queue
    assert drops == count - len(received), f"tc tells of {drops} drops, {len(received)} of {count} arrived"

    result: dict[str, object] = {"cases": dict(cases)}
    for name, priority in (("HIGH", HIGH), ("LOW", LOW)):
        ours = [packet.priority for packet in sent].count(priority)
        result[f"{name} lost"] = f"{ours - fates[priority, 'dequeued']} of {ours}"
    rate, late = timing(departures, arrivals)
    result |= {"rate, Mbit/s": round(rate / 1e6, 4), "late, ms, least, median and 99 %": late}
    # If the qdisc had another rate, packets would leave later and later, or too early.
    assert abs(rate / RATE - 1) < 0.02 and late[0] > -0.01 and late[1] < 2, result
    if kind == "bpf_catnip_good":
        assert len(cases) == 4, f"not every case occurred: {cases}"
        if victim == RANDOM:
            spread = unevenness(victims)
            result |= spread
            assert len(victims) > 1000 and spread["sigma"] < 4, f"victims are not evenly spread: {spread}"
        else:
            wrong = [one for one in victims if one[1] != (one[0] - 1 if victim == NEWEST else 0)]
            assert not wrong, f"victims, as LOW packets and LOW packets before them: {wrong}"
    else:
        assert len(cases) == 2, f"not every case occurred: {cases}"
    return result


def queue_of(device: str) -> dict[str, Any]:
    interface = socket.if_nametoindex(device)
    return next(one for one in queues() if one["interface"] == interface)


def queues() -> list[dict[str, Any]]:
    dump = json.loads(run("bpftool -j map dump name queues"))
    return [one["formatted"]["value"] for one in dump]


def timing(departures: list[Departure], arrivals: list[Arrival]) -> tuple[float, list[float]]:
    """Returns the measured rate and the lateness of the departures.

    The rate, in bits per second, is that of packets that waited and that, like the packet before them, were
    less than 1 ms late. The lateness, in milliseconds, is the time from the instant at which the link was
    free for a packet to its departure: minimum, median and 99th percentile.
    """
    bits = busy = before = free = size = 0.0
    late = [0.0]
    for departure in departures:
        arrival = arrivals[departure.number]
        start = max(arrival.at, free)
        late.append(1000 * (departure.at - start))
        # Late packets are left out, because the virtual machine stalls now and then, and catches up
        # afterwards.
        if arrival.at < before and max(late[-2:]) < 1:
            bits += size
            busy += departure.at - before
        before, size = departure.at, 8 * arrival.packet.len
        free = start + size / RATE
    late.sort()
    percentiles = [round(late[len(late) * percent // 100], 3) for percent in (0, 50, 99)]
    return bits / busy if busy else 0.0, percentiles


def churn() -> dict[str, int]:
    """Attaches and detaches qdiscs with packets inside, while another process sends.

    A packet's memory is charged to the packet's socket until the packet is freed. If a socket has no charged
    memory left, no packet has leaked.
    """
    # A second qdisc exists in the other namespace all the time, so each qdisc has to find its own queue.
    give()
    run("tc -n there qdisc add dev far root bpf_drop_tail")
    give(rate=100_000)
    flood = Process(target=send_without_end)
    flood.start()
    try:
        held = sum(come_and_go("bpf_drop_tail" if turn % 2 else "bpf_catnip_good") for turn in range(TURNS))
    finally:
        flood.terminate()
        flood.join()
    assert len(queues()) == 1, f"only the other one should be left: {queues()}"
    return {"turns": TURNS, "of these with packets inside": held}


def come_and_go(kind: str) -> bool:
    """Attaches a qdisc, sends packets and detaches it; returns true if packets were inside."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ours:
        ours.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, AF11 << 2)
        run(f"tc qdisc add dev near root {kind}")
        for _ in range(20):
            ours.sendto(bytes(1000), ("10.0.0.2", PORT + 1))
        inside = memory(ours) > 0
        # Our HIGH packets push out LOW packets of the other process.
        assert inside or kind == "bpf_drop_tail", "no packet inside"
        run("tc qdisc del dev near root")
        until = time.monotonic() + 1
        while memory(ours) and time.monotonic() < until:
            time.sleep(0.001)
        assert memory(ours) == 0, f"{memory(ours)} bytes were never freed"
        return inside


def memory(of: socket.socket) -> int:
    return int.from_bytes(fcntl.ioctl(of, termios.TIOCOUTQ, bytes(4)), sys.byteorder)


def send_without_end() -> None:
    os.sched_setaffinity(0, {RECEIVER})
    endpoint = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    while True:
        endpoint.sendto(bytes(500), ("10.0.0.2", PORT + 1))


def tear_down() -> dict[str, int]:
    """Removes namespace and qdiscs, and checks the kernel's log for warnings.

    The kernel waits for packets that hold a reference to a device before it removes the device, and logs that
    it waits.
    """
    run("ip netns del there")
    run("bpftool struct_ops unregister name catnip_good")
    run("bpftool struct_ops unregister name drop_tail")
    log = run("dmesg").splitlines()
    trouble = re.compile("WARNING|BUG|Oops|Call Trace|refcount|unregister_netdevice|leak")
    bad = [line for line in log if trouble.search(line)]
    assert not bad, "\n".join(bad)
    return {"lines of the kernel's log": len(log)}


if __name__ == "__main__":
    main()

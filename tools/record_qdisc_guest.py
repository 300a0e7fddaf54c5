#!/usr/bin/env python3
"""Records in the running kernel, as root, what a qdisc does with each packet.

UDP packets of six flows leave one end of a veth pair by a schedule. HTB with a burst of less than a packet
makes the near end a line of 10 Mbit/s, and the qdisc in question is its leaf. Probes at the leaf's functions
and the kernel's trace points record arrivals, departures and drops. The packets received tell which are
marked; they have to be those that left, in their order. tools/record_qdisc.sh boots a guest for this.

usage: record_qdisc_guest.py [CASE SEED FILE]; without arguments, it lists the cases
"""

import ctypes
import os
import random
import re
import socket
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

RATE = 10_000_000
FLOWS = 6
PORT = 4000
HEADERS, ETHERNET = 20 + 8, 14
ECT_0, CE = 2, 3
OUT, MARKED, AT_ENQUEUE, AT_DEQUEUE = "omed"
PSCHED_NS = 64  # unit of a qdisc's clock
TRACING = Path("/sys/kernel/tracing")
EVENTS = ["kprobes", "qdisc/qdisc_dequeue", "skb/kfree_skb"]
ROOT = "tc qdisc add dev near root handle 1: htb default 1"
LINE = f"tc class add dev near parent 1: classid 1:1 htb rate {RATE}bit burst 150b cburst 150b quantum 1514"
LOADS = {
    "slight": ((0.8, 0.95), (1.02, 1.06)),
    "mild": ((0.5, 0.9), (1.05, 1.15)),
    "heavy": ((0.5, 1.0), (1.3, 2.2)),
}
"""Ranges of the load, as a share of the line: those of calm and those of busy periods."""
CALM_S, BUSY_S = (0.1, 0.3), (0.4, 1.2)


class Case(NamedTuple):
    """Qdisc and what it is given."""

    qdisc: str
    load: str
    probe: str
    """Beginning of the names of the qdisc's functions in the kernel."""
    packets: int = 3500
    sizes: tuple[int, int] = (200, 1500)
    """Smallest and largest packet, with the IP header; half of the packets are as large as the largest."""


RED = "red limit 200000 min 15000 max 45000 avpkt 1000 burst 25 probability 0.1 bandwidth 10mbit"
CASES = {
    "codel-mild": Case("codel limit 1000 noecn", "mild", "codel_qdisc_"),
    "codel-mild-ecn": Case("codel limit 1000 ecn", "mild", "codel_qdisc_"),
    "codel-heavy": Case("codel limit 1000 noecn", "heavy", "codel_qdisc_"),
    "fq-codel-mild": Case("fq_codel limit 10240 noecn", "mild", "fq_codel_"),
    "fq-codel-heavy-ecn": Case("fq_codel limit 10240 ecn", "heavy", "fq_codel_"),
    "fq-codel-heavy-limit-100": Case("fq_codel limit 100 noecn", "heavy", "fq_codel_"),
    "pie-mild": Case("pie limit 1000 target 15ms tupdate 15ms noecn", "mild", "pie_qdisc_"),
    # PIE marks while it would drop less than one packet in ten.
    "pie-slight-ecn": Case("pie limit 1000 target 15ms tupdate 15ms ecn", "slight", "pie_qdisc_"),
    "red-mixed": Case(RED, "mild", "red_", 3000),
    "red-equal": Case(RED, "mild", "red_", 3000, (1000, 1000)),
    "cake-mild": Case("cake unlimited besteffort flows raw", "mild", "cake_"),
    "pfifo-heavy": Case("pfifo limit 50", "heavy", "pfifo_", 2000),
}


class Sent(NamedTuple):
    """Packet of the schedule."""

    at: float
    """Seconds from the schedule's beginning."""
    flow: int
    size: int
    ect: int


class Fate(NamedTuple):
    """End of a packet, as the kernel's events tell it."""

    arrival: int  # ns
    end: int
    kind: str
    """Departure (`o`, or `m` with a mark) or drop, at an arrival (`e`) or a departure (`d`)."""


def main() -> None:
    if len(sys.argv) == 1:
        print(*CASES)
        return
    name, seed, file = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    case = CASES[name]
    leaf = f"tc qdisc add dev near parent 1:1 handle 10: {case.qdisc}"
    sent = schedule(case, seed)
    receiver = set_up()
    senders = separate_flows(case, leaf)
    wait_until_empty()
    drain(receiver)
    run(leaf)
    watch(case)
    send(sent, senders)
    wait_until_empty()
    fates, updates = traced()
    for number in marked(fates, sent, drain(receiver)):
        fates[number] = fates[number]._replace(kind=MARKED)
    first = fates[0].arrival
    about = [
        f"Linux {os.uname().release}, {run('tc -V').split()[2].rstrip(',')}",
        *(ROOT, LINE, leaf),
        f"tools/record_qdisc.sh: case {name}, seed {seed}, load {case.load}",
    ]
    rows = [
        (fate.arrival - first, packet.flow, packet.size + ETHERNET, packet.ect, fate.end - first, fate.kind)
        for packet, fate in zip(sent, fates, strict=True)
    ]
    write(file, about, "arrival_ns,flow,size_bytes,ect,end_ns,fate", rows)
    if updates:
        to = file.with_suffix(".updates.csv")
        of_pie = [(at - first, delay * PSCHED_NS, *values) for at, delay, *values in updates]
        write(to, about, "time_ns,qdelay_ns,backlog_bytes,probability_before", of_pie)
    print(name, summary(fates), run("tc -s qdisc show dev near parent 1:1"), sep="\n")


def write(file: Path, about: list[str], columns: str, rows: Sequence[tuple[object, ...]]) -> None:
    lines = [*(f"# {line}" for line in about), columns, *(",".join(map(str, row)) for row in rows)]
    file.write_text("\n".join([*lines, ""]))


def summary(fates: list[Fate]) -> str:
    counts = Counter(fate.kind for fate in fates)
    waits = [fate.end - fate.arrival for fate in fates if fate.kind in (OUT, MARKED)]
    return (
        f"{counts[OUT]} left, {counts[MARKED]} marked, "
        f"{counts[AT_ENQUEUE]} dropped at enqueue, {counts[AT_DEQUEUE]} at dequeue; "
        f"mean wait {sum(waits) / len(waits) / 1e6:.2f} ms, longest {max(waits) / 1e6:.2f} ms"
    )


def run(command: str) -> str:
    return subprocess.run(command.split(), check=True, text=True, stdout=subprocess.PIPE).stdout


def schedule(case: Case, seed: int) -> list[Sent]:
    """Returns packets as a Poisson process whose rate changes with each period."""
    rng = random.Random(f"{seed} {case.load} {case.sizes}")
    smallest, largest = case.sizes
    mean_s = ((smallest + largest) / 2 + largest) / 2 * 8 / RATE
    at, end, is_busy, load = 0.0, 0.0, True, 1.0
    weights = [rng.uniform(1, 4) for _ in range(FLOWS)]
    sent: list[Sent] = []
    while len(sent) < case.packets:
        if at >= end:
            is_busy = not is_busy
            load = rng.uniform(*LOADS[case.load][is_busy])
            end = at + rng.uniform(*(BUSY_S if is_busy else CALM_S))
        at += rng.expovariate(load / mean_s)
        [flow] = rng.choices(range(FLOWS), weights)
        size = largest if rng.random() < 0.5 else rng.randint(smallest, largest)
        sent.append(Sent(at, flow, size, int(rng.random() < 0.5)))
    return sent


def set_up() -> socket.socket:
    """Makes the line; returns the socket that receives in the other namespace."""
    run("ip netns add there")
    run("ip link add name near type veth peer name far netns there")
    for ip, device, here, there in (("ip", "near", 1, 2), ("ip -n there", "far", 2, 1)):
        # With static neighbours and without automatic addresses, the kernel sends no packets of its own.
        run(f"{ip} link set {device} address 02:00:00:00:00:0{here} up")
        run(f"{ip} address add 10.0.0.{here} peer 10.0.0.{there} dev {device}")
        run(f"{ip} neighbour add 10.0.0.{there} lladdr 02:00:00:00:00:0{there} dev {device}")
    run(ROOT)
    run(LINE)
    with open("/proc/self/ns/net") as ours, open("/run/netns/there") as theirs:
        enter(theirs.fileno())
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        enter(ours.fileno())
    receiver.setsockopt(socket.SOL_SOCKET, 33, 1 << 28)  # SO_RCVBUFFORCE: everything is read at the end
    receiver.setsockopt(socket.IPPROTO_IP, 13, 1)  # IP_RECVTOS
    receiver.bind(("10.0.0.2", PORT))
    receiver.setblocking(False)
    # The default slack of timers is 50 us.
    assert ctypes.CDLL(None).prctl(29, 1, 0, 0, 0) == 0  # PR_SET_TIMERSLACK
    return receiver


def enter(namespace: int) -> None:
    # Python provides setns only from 3.12 on.
    assert ctypes.CDLL(None).setns(namespace, 0) == 0


def separate_flows(case: Case, leaf: str) -> list[socket.socket]:
    """Returns a socket for each flow, with ports whose queues differ if the qdisc has queues by hash."""
    for base in range(PORT, PORT + 100 * FLOWS, FLOWS):
        senders = []
        for flow in range(FLOWS):
            sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sender.setsockopt(socket.SOL_SOCKET, 32, 1 << 28)  # SO_SNDBUFFORCE
            sender.bind(("10.0.0.1", base + flow))
            senders.append(sender)
        if not case.qdisc.startswith(("fq_", "cake")):
            return senders
        run(leaf)
        for sender in senders * 4:
            sender.sendto(bytes(1400), ("10.0.0.2", PORT))
        classes = run("tc class show dev near")
        run("tc qdisc del dev near parent 1:1")
        if len(re.findall(r"parent 10:", classes)) == FLOWS:
            print(f"ports from {base}: {FLOWS} queues")
            return senders
        for sender in senders:
            sender.close()
    raise SystemExit("no ports without collision")


def watch(case: Case) -> None:
    (TRACING / "trace_clock").write_text("x86-tsc")
    (TRACING / "options/hash-ptr").write_text("0")
    (TRACING / "buffer_size_kb").write_text("65536")
    probes = [f"p:leaf_enqueue {case.probe}enqueue skbaddr=%di:x64"]
    if case.probe != "pfifo_":  # which has no function of its own
        probes.append(f"p:leaf_dequeue {case.probe}dequeue")
    if case.probe == "pie_qdisc_":
        update = "pie_calculate_probability qdelay=vars->qdelay:u64 backlog=backlog:u32 prob=vars->prob:u64"
        probes.append(f"p:update {update}")
    (TRACING / "kprobe_events").write_text("\n".join(probes))
    for event in EVENTS:
        (TRACING / "events" / event / "enable").write_text("1")


def send(sent: list[Sent], senders: list[socket.socket]) -> None:
    begin = time.monotonic() + 0.1
    for number, packet in enumerate(sent):
        time.sleep(max(0, begin + packet.at - time.monotonic()))
        payload = number.to_bytes(4, "big").ljust(packet.size - HEADERS)
        tos = struct.pack("=i", ECT_0 * packet.ect)
        mark = (socket.IPPROTO_IP, socket.IP_TOS, tos)
        senders[packet.flow].sendmsg([payload], [mark], 0, ("10.0.0.2", PORT))


def wait_until_empty() -> None:
    counter = Path("/sys/class/net/near/statistics/tx_packets")
    before = None
    while before != (before := counter.read_text()):
        time.sleep(0.5)


def drain(receiver: socket.socket) -> list[tuple[int, int]]:
    """Returns number and ECN bits of what was received."""
    received: list[tuple[int, int]] = []
    while True:
        try:
            payload, extra, _, _ = receiver.recvmsg(4, 64)
        except BlockingIOError:
            return received
        received.append((int.from_bytes(payload, "big"), extra[0][2][0] & 3))


def traced() -> tuple[list[Fate], list[tuple[int, ...]]]:
    """Returns the fates of packets in the order of their arrival, and PIE's updates.

    The kernel frees packets that were dropped at an arrival after it has looked for something to send, and
    those that were dropped at a departure before it has found that.
    """
    for event in EVENTS:
        (TRACING / "events" / event / "enable").write_text("0")
    stats = (TRACING / "per_cpu/cpu0/stats").read_text()
    assert not re.search(r"(overrun|dropped events): [^0]", stats), f"trace points were lost: {stats}"
    fates: list[Fate] = []
    updates: list[tuple[int, ...]] = []
    numbers: dict[str, int] = {}  # by the packet's address in memory
    arrived = asked = 0
    is_asked = False
    with (TRACING / "per_cpu/cpu0/trace").open() as trace:
        for line in trace:
            if not (found := re.search(r" (\d+): (\w+): .*?(?:skbaddr=(?:0x)?(\w+)|$)", line)):
                continue
            at, event, address = int(found[1]), found[2], found[3]
            if event == "leaf_enqueue":
                arrived = at
                numbers[address] = len(fates)
                fates.append(Fate(at, 0, ""))
            elif event == "leaf_dequeue":
                asked, is_asked = at, True
            elif event == "update":
                updates.append((at, *map(int, re.findall(r"=(\d+)", line))))
            elif event == "qdisc_dequeue":
                if address in numbers:
                    end(fates, numbers.pop(address), asked if is_asked else at, OUT)
                is_asked = False
            elif address in numbers:
                drop = (asked, AT_DEQUEUE) if is_asked else (arrived, AT_ENQUEUE)
                end(fates, numbers.pop(address), *drop)
    assert not numbers, f"{len(numbers)} packets have no end"
    return fates, updates


def end(fates: list[Fate], number: int, at: int, kind: str) -> None:
    fates[number] = fates[number]._replace(end=at, kind=kind)


def marked(fates: list[Fate], sent: list[Sent], received: list[tuple[int, int]]) -> set[int]:
    """Returns the numbers of the packets received with a mark.

    Those that were received have to be those that left, in their order.
    """
    assert len(fates) == len(sent), f"{len(fates)} of {len(sent)} packets came to the qdisc"
    left = [number for number, fate in enumerate(fates) if fate.kind == OUT]
    left.sort(key=lambda number: fates[number].end)
    assert left == [number for number, _ in received], "others were received than left, or in another order"
    for number, ecn in received:
        assert ecn in ((ECT_0, CE) if sent[number].ect else (0,)), f"packet {number} has ECN {ecn}"
    return {number for number, ecn in received if ecn == CE}


if __name__ == "__main__":
    main()

"""Speed and timing errors of the emulator on this machine, compared with the kernel's token bucket filter.

    cargo build --release -p catnip-emu
    sudo python3 benches/emulator.py             # writes benches/emulator.md; three minutes
    sudo python3 benches/emulator.py --against OLD_PROGRAM --gigabit-only       # prints a table only

It needs root, TUN devices, `ip`, `tc`, `unshare` and `nsenter`. Variants take turns in random order, because
the load of the machine varies. Spacing is measured by the kernel's receive time stamps (SO_TIMESTAMPNS) at
the other end of the link, and not by the emulator itself.
"""

import argparse
import itertools
import json
import math
import os
import platform
import random
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = os.environ.get("CATNIP_EMU", str(ROOT / "target" / "release" / "catnip-emu"))
SO_TIMESTAMPNS = 35
PACKET = 1500
SLOW = 1.5e6
SPIN = {
    "default": [],
    "without spinning": ["--spin", "0us"],
    "spinning 150 us, no budget": ["--spin", "150us"],
    "without SCHED_FIFO": ["--no-real-time"],
}

TBF = "kernel: tbf on veth"


def main() -> int:
    """Measures the emulator and writes benches/emulator.md; with `client` as an argument, only sends."""
    if len(sys.argv) > 2 and sys.argv[1] == "client":
        return client(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument(
        "--against", metavar="PROGRAM", help="another catnip-emu, which takes turns at 1 Gbit/s"
    )
    parser.add_argument("--gigabit-only", action="store_true")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    programs = {"this": PROGRAM} | ({"the other": options.against} if options.against else {})
    if options.gigabit_only:
        print("\n".join(gigabit_table(in_turn(programs, options.blocks, 2 * options.seconds))))
        return 0
    rows = [throughput("TCP, plain", []), throughput("TCP, --offload", ["--offload"])]
    timing: dict[str, list[tuple[float, ...]]] = {}
    order = random.Random(1)
    for _ in range(options.blocks):
        for name in order.sample([*SPIN, TBF], len(SPIN) + 1):
            found = token_bucket(options.seconds) if name == TBF else paced(SPIN[name], options.seconds)
            timing.setdefault(name, []).append(found)
    gigabit = gigabit_table(in_turn(programs, options.blocks, 2 * options.seconds))
    delay = added_delay()
    side = side_by_side(10, options.seconds)
    text = page(rows, gigabit, timing, delay, side, load)
    (ROOT / "benches" / "emulator.md").write_text(text)
    print(text)
    return 0


def client(kind: str, port: str, *rest: str) -> int:
    """Sends packets, as the program behind a link: TCP (`tcp`), paced UDP (`udp`), UDP echoes (`ping`)."""
    outside = (os.environ.get("CATNIP_OUTSIDE") or rest[-1], int(port))
    if kind == "tcp":
        with socket.socket() as stream:
            if len(rest) > 1:
                stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, rest[1].encode())
            stream.connect(outside)
            chunk, end = bytes(1 << 20), time.monotonic() + float(rest[0])
            while time.monotonic() < end:
                stream.sendall(chunk)
            stream.shutdown(socket.SHUT_WR)
            stream.recv(1)
        return 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        if kind == "ping":
            times = []
            for _ in range(300):
                start = time.monotonic_ns()
                sender.sendto(b"x", outside)
                sender.recv(10)
                times.append(time.monotonic_ns() - start)
                time.sleep(0.005)
            print(statistics.median(times) / 1e3)
            return 0
        rate, end, start = float(rest[0]), float(rest[1]), time.monotonic()
        number = 0
        while (due := number * PACKET * 8 / rate) < end:
            time.sleep(max(0.0, start + due - time.monotonic()))
            sender.sendto(bytes(PACKET - 28), outside)
            number += 1
        time.sleep(0.1)
    return 0


def link(options: list[str], words: list[str]) -> tuple[dict, str]:
    """Runs this file as the sender behind an emulated link.

    `options` are options of `catnip-emu link`, `words` the arguments of `client`. Returns the certificate of
    the link, the emulator's record of its timing errors, and the sender's output.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "certificate.json"
        command = [PROGRAM, "link", "-q", "--tolerance", "60s", "--certificate", str(file), *options, "--"]
        command += [sys.executable, __file__, "client", *words]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        # A link out of tolerance is a result, too.
        if done.returncode not in (0, 3):
            raise SystemExit(done.returncode)
        return json.loads(file.read_text()), done.stdout


def throughput(name: str, options: list[str]) -> tuple[str, float, float]:
    """Returns `name`, Gbit/s and thousand packets/s (both directions) of the best of three TCP transfers."""
    seconds, best = 2.0, (0.0, 0.0)
    for _ in range(3):
        with socket.create_server(("0.0.0.0", 0)) as server:
            sink = threading.Thread(target=drain, args=(server,), daemon=True)
            sink.start()
            certificate, _ = link(options, ["tcp", str(server.getsockname()[1]), str(seconds)])
            sink.join(5)
        packets = certificate["up"]["packets_out"] + certificate["down"]["packets_out"]
        best = max(best, (certificate["up"]["bytes_out"] * 8e-9 / seconds, packets / 1e3 / seconds))
    return name, *best


def in_turn(programs: dict[str, str], blocks: int, seconds: float) -> dict[str, list[dict]]:
    """Returns the certificates of 1 Gbit/s links with one TCP connection each, by emulator program.

    Each block runs every program once, in random order.
    """
    found: dict[str, list[dict]] = {name: [] for name in programs}
    order = random.Random(2)
    for _ in range(blocks):
        for name in order.sample(list(programs), len(programs)):
            found[name].append(on_one_core(programs[name], seconds))
    return found


def on_one_core(program: str, seconds: float) -> dict:
    """Returns the certificate of a 1 Gbit/s link that carries one CUBIC connection.

    The emulator is pinned to the last core; sender and receiver may use all cores.
    """
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("0.0.0.0", 0)) as server:
        sink = threading.Thread(target=drain, args=(server,), daemon=True)
        sink.start()
        file = Path(folder) / "certificate.json"
        wire = ["--rate", "1Gbit", "--delay", "5ms"]
        words = ["client", "tcp", str(server.getsockname()[1]), str(seconds), "cubic"]
        command = [program, "link", "-q", "--certificate", str(file), *wire, "--"]
        command += [sys.executable, __file__, *words]
        with subprocess.Popen(command) as emulator:
            # Wait until the emulator has started the command, which would otherwise inherit its CPU affinity.
            time.sleep(0.2)
            os.sched_setaffinity(emulator.pid, {max(os.sched_getaffinity(0))})
        sink.join(5)
        return json.loads(file.read_text())


def cpu_per_packet(certificate: dict) -> float:
    """Returns the emulator's CPU time per forwarded packet, us."""
    packets = certificate["up"]["packets_out"] + certificate["down"]["packets_out"]
    return certificate["cpu_share"] * certificate["duration_s"] * 1e6 / packets


def gigabit_table(found: dict[str, list[dict]]) -> list[str]:
    """Returns a Markdown table of the certificates of `in_turn`, a row for each emulator program.

    For two programs, a last line has the median over the blocks of the ratio of their CPU times per packet.
    """
    lines = [
        "| 1 Gbit/s, 5 ms | rate while busy, Mbit/s | CPU, % | CPU per packet, us | late p50, us"
        " | late p99, us | too long p99, ms | green |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, runs in found.items():
        up = [run["up"] for run in runs]
        columns = [
            cell([(way["busy_rate"] or math.nan) / 1e6 for way in up], 1),
            cell([100 * run["cpu_share"] for run in runs], 0),
            cell([cpu_per_packet(run) for run in runs], 1),
            cell([way["lateness_us"]["p50"] for way in up], 0),
            cell([way["lateness_us"]["p99"] for way in up], 0),
            cell([max(run[way]["excess_us"]["p99"] for way in ("up", "down")) / 1e3 for run in runs], 1),
            f"{sum(run['verdict'] == 'green' for run in runs)} of {len(runs)}",
        ]
        lines.append(f"| {name} | {' | '.join(columns)} |")
    if len(found) > 1:
        these, others = found.values()
        shares = [cpu_per_packet(a) / cpu_per_packet(b) for a, b in zip(these, others, strict=True)]
        lines += ["", f"CPU per packet, this / the other in the same block: {cell(shares, 2)}."]
    return lines


def drain(server: socket.socket) -> None:
    """Accepts one connection and reads it to its end."""
    stream, _ = server.accept()
    with stream:
        while stream.recv(1 << 20):
            pass


class Sink:
    """UDP receiver that records the time at which the kernel received each packet."""

    def __init__(self) -> None:
        """Binds a socket in the network namespace of this thread and starts to receive."""
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.socket.bind(("0.0.0.0", 0))
        self.socket.settimeout(0.5)
        self.port = self.socket.getsockname()[1]
        self.times: list[int] = []
        self.going = True
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        """Records the receive time of each packet until `spacing` stops it."""
        while self.going:
            try:
                _, notes, _, _ = self.socket.recvmsg(2000, 100)
            except TimeoutError:
                continue
            seconds, nanos = struct.unpack("qq", notes[0][2])
            self.times.append(seconds * 10**9 + nanos)

    def spacing(self, ideal_ns: float) -> tuple[float, float]:
        """Stops receiving; returns the median and the 99th percentile of the absolute spacing errors, us."""
        self.going = False
        self.thread.join()
        self.socket.close()
        # The first packets are left out, because they arrive at an empty queue.
        times = self.times[5:]
        errors = sorted(abs(b - a - ideal_ns) / 1e3 for a, b in itertools.pairwise(times))
        return quantile(errors, 0.5), quantile(errors, 0.99)


def quantile(values: list[float], q: float) -> float:
    """Returns the quantile `q` of sorted values."""
    return values[min(int(q * len(values)), len(values) - 1)]


def paced(extra: list[str], seconds: float) -> tuple[float, ...]:
    """Measures a link of 1.5 Mbit/s that is overloaded, and a link of 10 Mbit/s that is nearly fully loaded.

    `extra` are additional options of both links. Returns the median and the 99th percentile of the spacing
    errors at 1.5 Mbit/s (us), and the emulator's CPU share (percent) and largest lateness (ms) at 10 Mbit/s.
    """
    sink = Sink()
    options = ["--rate", "1.5Mbit", "--delay", "5ms", "--queue", "drop-tail:20"]
    link([*options, *extra], ["udp", str(sink.port), str(1.1 * SLOW), str(seconds)])
    p50, p99 = sink.spacing(PACKET * 8 / SLOW * 1e9)
    sink = Sink()
    options = ["--rate", "10Mbit", "--delay", "5ms", "--queue", "drop-tail:100"]
    certificate, _ = link([*options, *extra], ["udp", str(sink.port), "9.9e6", str(seconds)])
    sink.spacing(1)
    return p50, p99, 100 * certificate["cpu_share"], certificate["up"]["lateness_us"]["max"] / 1e3


def token_bucket(seconds: float) -> tuple[float, ...]:
    """Measures the spacing errors of the kernel's token bucket filter at 1.5 Mbit/s on a veth pair.

    Returns values like `paced`; CPU share and lateness are NaN, because they belong to an emulator.
    """
    with subprocess.Popen(["unshare", "-n", "sleep", "60"]) as space:
        time.sleep(0.2)
        inside = ["nsenter", "-t", str(space.pid), "-n"]
        # The filter also counts the 14 bytes of the Ethernet header.
        rate = f"{int(SLOW * (PACKET + 14) / PACKET)}bit"
        for command in (
            ["ip", "link", "add", "ctbf0", "type", "veth", "peer", "name", "ctbf1", "netns", str(space.pid)],
            ["ip", "address", "add", "198.18.77.1/30", "dev", "ctbf0"],
            ["ip", "link", "set", "ctbf0", "up"],
            [*inside, "ip", "address", "add", "198.18.77.2/30", "dev", "ctbf1"],
            [*inside, "ip", "link", "set", "ctbf1", "up"],
            [*inside, *f"tc qdisc add dev ctbf1 root tbf rate {rate} burst 1600 limit 30280".split()],
        ):
            subprocess.run(command, check=True)
        sink = Sink()
        words = ["client", "udp", str(sink.port), str(1.1 * SLOW), str(seconds), "198.18.77.1"]
        subprocess.run([*inside, sys.executable, __file__, *words], check=True)
        found = sink.spacing(PACKET * 8 / SLOW * 1e9)
        space.kill()
    return (*found, math.nan, math.nan)


def added_delay() -> float:
    """Returns the one-way delay that an emulated link without a configured delay adds, us.

    The delay is half the difference between the round-trip times over the link and over the loopback.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as echo:
        echo.bind(("0.0.0.0", 0))
        port = str(echo.getsockname()[1])

        def answer() -> None:
            while True:
                packet, sender = echo.recvfrom(10)
                if packet == b"q":
                    return
                echo.sendto(packet, sender)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        words = [sys.executable, __file__, "client", "ping", port, "127.0.0.1"]
        bare = float(subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout)
        through = min(float(link([], ["ping", port])[1]) for _ in range(3))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
            end.sendto(b"q", ("127.0.0.1", int(port)))
        thread.join()
    return (through - bare) / 2


def side_by_side(count: int, seconds: float) -> tuple[int, float, float]:
    """Runs `count` emulated links of 10 Mbit/s at the same time.

    Returns the number of links with a green certificate, the largest 99th percentile of the lateness (us),
    and the CPU share of all emulators together (percent).
    """
    with tempfile.TemporaryDirectory() as folder:
        sinks = [Sink() for _ in range(count)]
        files = [Path(folder) / str(number) for number in range(count)]
        options = ["--rate", "10Mbit", "--delay", "5ms", "--queue", "drop-tail:100"]
        begin, client = [PROGRAM, "link", "-q"], [sys.executable, __file__, "client", "udp"]
        running = [
            subprocess.Popen(
                [
                    *begin,
                    "--certificate",
                    str(file),
                    *options,
                    "--",
                    *client,
                    str(sink.port),
                    "9.9e6",
                    str(seconds),
                ]
            )
            for sink, file in zip(sinks, files, strict=True)
        ]
        for process in running:
            process.wait()
        for sink in sinks:
            sink.spacing(1)
        found = [json.loads(file.read_text()) for file in files]
    green = sum(certificate["verdict"] == "green" for certificate in found)
    worst = max(certificate["up"]["lateness_us"]["p99"] for certificate in found)
    return green, worst, 100 * sum(certificate["cpu_share"] for certificate in found)


def cell(values: list[float], digits: int) -> str:
    """Formats the median of `values`, with minimum and maximum in brackets; a dash for values of NaN."""
    if math.isnan(values[0]):
        return "–"
    middle = statistics.median(values)
    return f"{middle:.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def page(
    rows: list[tuple[str, float, float]],
    gigabit: list[str],
    timing: dict[str, list[tuple[float, ...]]],
    delay: float,
    side: tuple[int, float, float],
    load: float,
) -> str:
    """Returns the text of benches/emulator.md."""

    day, cores, kernel = time.strftime("%Y-%m-%d"), os.cpu_count(), platform.release()
    blocks = len(timing[TBF])
    lines = [
        "# How fast and how punctual the emulator is",
        "",
        "`python3 benches/emulator.py` as root writes this page.",
        f"{day}, {cores} cores, kernel {kernel}, load {load:.1f} before.",
        "",
        "| one TCP connection, 1500-byte packets, best of 3 | Gbit/s | kpps, both directions |",
        "| --- | ---: | ---: |",
        *(f"| {name} | {gbit:.2f} | {kpps:.0f} |" for name, gbit, kpps in rows),
        "",
        "With `--offload` a packet stands for up to 44.",
        "",
        *gigabit,
        "",
        "One CUBIC connection. The emulator has one core, on which the ends may work, too.",
        "",
        f"Medians of {blocks} blocks in which the variants take turns, with the least and the greatest:",
        "",
        "| | spacing error at 1.5 Mbit/s, p50, us | p99, us | p99 / that of tbf in the same block"
        " | CPU at 10 Mbit/s, % | most late there, ms |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name in (*SPIN, TBF):
        columns = list(zip(*timing[name], strict=True))
        shares = [own[1] / tbf[1] for own, tbf in zip(timing[name], timing[TBF], strict=True)]
        columns.insert(2, shares)
        cells = [cell(list(column), digits) for column, digits in zip(columns, (1, 0, 2, 1, 1), strict=True)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    green, worst, cpu = side
    lines += [
        "",
        f"Added delay one way at zero delay (round trip less that over lo, halved): {delay:.0f} us.",
        "",
        f"Ten links of 10 Mbit/s side by side: {green} of 10 in tolerance, worst p99 of the lateness"
        f" {worst:.0f} us, {cpu:.0f} % of one core in all.",
        "",
        NOTES,
    ]
    return "\n".join(lines)


NOTES = """\
Compared with: the kernel's `tbf` with a veth pair, which has an exact rate and a tail-drop queue, but
neither delay nor any other discipline. This kernel has no netem, and mahimahi is not packaged for this
system, so neither was measured.

**Stalls.** Where the greatest values are many milliseconds, it is the machine that stood still. A program
that does nothing but sleep 1 ms at a time under SCHED_FIFO with priority 50, one on each CPU, sees gaps of
the same lengths in the same runs, often on both CPUs at once, and by its `schedstat` spends many of them
running or not yet woken rather than waiting for other tasks: the virtual CPU itself was not executed.
Neither the margin nor its budget matters: in 30 blocks at 1.5 Mbit/s, in random order, a packet was more
than 5 ms late in 2 runs with the default and in 3 with the same margin without a budget. The certificate
shows such a run as late.

**Why 60 us and 1 %.** Waking up takes 30 to 40 us here, rarely more than 60. A margin of 150 us without a
budget costs 12 to 14 % of a CPU at 10 Mbit/s. With the budget, links of few packets are as exact as with
any margin, and links of many packets cost little more than without spinning. `--spin` sets a margin without
a budget.

**Why rests of 50 us.** At 1 Gbit/s a packet of 1500 bytes is due every 12 us. To sleep until each was
due took 28 % of the CPU time, and to wake a receiver for each another 17 %. So who has used up its
budget sleeps until 50 us after it was woken the last time, whatever comes or is due, and moves at once
what has gathered. CPU time per packet falls to 0.87 of what it was (0.64 to 0.95 in 16 pairs of runs)
and to 0.75 on a machine with ten busy processes; packets are 7 us later at the median. With 100 us it
would fall by another 14 %, with packets another 12 us later. Links of few packets never rest, and
neither does who says `--spin`.

**What gained nothing.** io_uring, 32 packets per system call, takes 750 in place of 870 ns for a read
and 750 in place of 1030 for a write that the kernel drops at once: 5 % of the 8 us that a packet takes,
as most of that is the TCP of the ends, which runs within the write. Moving that to the other core
(`rps_cpus`) costs as much in interrupts between cores as it saves (1.01 to 1.05 of the CPU time).
Segments written as one, or the kernel's GRO, would save TCP work; then captures of the receiver would
show packets that no link has carried.
"""


if __name__ == "__main__":
    sys.exit(main())

"""Components TB-S1 to S13, and the handshake and the other applications (TB-E9, E10)."""

import csv
import io
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from catnip import _core, models, testbed
from catnip.analysis import stats
from catnip.analysis.interval import Interval
from catnip.papers import check_values
from catnip.papers.quantity import Quantities
from catnip.papers.testbed import latency
from catnip.papers.testbed.latency import FETCHES, INITIAL_WINDOW, PER_SECOND
from catnip.papers.testbed.runs import TODAY, Measured, Point, Runs

measured = Quantities()

HANDSHAKES = 20
LEAST_DATA_BYTES = 100
EDGES = ("up", "down")
CLIENT = Path(testbed.__file__).with_name("client.py")
SERVER = "http://$CATNIP_OUTSIDE:8080"


@measured
def fetches_that_did_not_end(runs: Runs) -> float:
    """TB-S1: number of fetches over links with delay or loss that did not complete within two minutes."""
    return float(sum(one.errors for one in _delays_and_losses(runs)))


@measured
def loss_off_sigmas(runs: Runs, statistic: str) -> float:
    """TB-S2: mean or largest difference of a link's loss rate from the requested one, standard deviations."""
    losing = [one for one in latency.fetches(runs, "loss").values() if _asked_loss(one, "up") > 0]
    off = [abs(_sigmas(one, side)) for one in losing for side in EDGES]
    return float(np.mean(off)) if statistic == "mean" else max(off)


@measured
def round_trip_off(runs: Runs) -> float:
    """TB-S2: largest difference of handshake time from twice the delay, over the larger of 1 ms and 2 %."""
    off = []
    for one in latency.fetches(runs, "delay").values():
        asked_ms = 2 * _asked_ms(one)
        took_ms = 1e3 * float(
            np.median([fetch["connect_s"] for fetch in one.fetches if "connect_s" in fetch])
        )
        off.append(abs(took_ms - asked_ms) / max(1, 0.02 * asked_ms))
    return max(off)


@measured
def delay_off(runs: Runs) -> float:
    """TB-S2: largest difference of the mean delay from the requested one, over the larger of 1 ms and 2 %."""
    off = []
    for one in latency.fetches(runs, "delay").values():
        asked_ms = _asked_ms(one)
        for side in EDGES:
            off.append(abs(one.certificate[side]["delay_ms"]["mean"] - asked_ms) / max(1, 0.02 * asked_ms))
    return float(max(off))


@measured
def red_certificates(runs: Runs) -> str:
    """TB-S2: number of links with a delay or a loss whose certificate is red in both tries."""
    return str(sum(one.is_red for one in _delays_and_losses(runs)))


@measured
def wrong_checksums(runs: Runs, end: str) -> str:
    """TB-S3: number of segments with a wrong checksum that the kernel at one end has counted."""
    forced = _forced(runs)
    return str(_snmp(forced.out if end == "client" else forced.snmp)["Tcp"]["InCsumErrors"])


@measured
def packets_that_crossed(runs: Runs, side: str) -> float:
    """TB-S3: number of packets of five fetches of 30 KB that passed a direction of the link."""
    return float(_forced(runs).certificate[side]["packets_out"])


@measured
def packets_beside_the_link(runs: Runs, side: str) -> str:
    """TB-S4: packets sent or received by the client's kernel, less those that entered or left the link."""
    forced = _forced(runs)
    counters = _snmp(forced.out)["Ip"]
    if side == "up":
        return str(counters["OutRequests"] - forced.certificate["up"]["packets_in"])
    return str(counters["InReceives"] - forced.certificate["down"]["packets_out"])


@measured
def answers_around_a_stop(runs: Runs) -> str:
    """TB-S4: HTTP status of fetches before the emulator is stopped, while it is, and after it continues."""
    fetch = f"curl -s -m 2 -o /dev/null -w '%{{http_code}} ' {SERVER}/3"
    command = f"{fetch}; kill -STOP $PPID; {fetch}; kill -CONT $PPID; {fetch}"
    point = Point("stopped", ["--delay", "5ms"], command=command, stops=True)
    return runs.of("a stopped emulator", [point])["stopped"].out.strip()


@measured
def unaccounted(runs: Runs, mode: str) -> str:
    """TB-S5: number of packets that entered a link and neither left it nor were dropped nor are held."""
    return str(_unaccounted(_modes(runs)[mode]))


@measured
def out_of_order(runs: Runs, mode: str) -> str:
    """TB-S5: number of packets that left a link before a packet that had arrived earlier."""
    log = _modes(runs)[mode].log
    assert log, f"{mode}: the link has no log"
    return str(sum(_overtakings(numbers) for numbers in _departures(log)))


@measured
def distributed_delay_ms(runs: Runs, statistic: str) -> float:
    """TB-S5: statistic of the one-way delay of packets 100 ms apart over a link of 20 ± 5 ms, ms."""
    delay = _modes(runs)["distributed"].certificate["up"]["delay_ms"]
    return float(delay[statistic])


@measured
def logger_off_ms(runs: Runs, clients: int, fetches: int, statistic: str) -> float:
    """TB-S7: largest or median absolute difference of clients' latencies from those in link logs, ms."""
    # One fetch of a client ends before its next one begins.
    points = [
        Point(f"log-{n}", ["--delay", "20ms", *INITIAL_WINDOW], "30", fetches, per_second=2, log=True)
        for n in range(clients)
    ]
    made = runs.of(f"logger of {clients}", points).values()
    off_s = [np.abs(one.latencies_s - _logged_latencies_s(one.log or "")) for one in made]
    off_ms = 1e3 * np.concatenate(off_s)
    runs.sample = len(off_ms)
    return float(off_ms.max() if statistic == "largest" else np.median(off_ms))


@measured
def body_bytes(runs: Runs, size: int) -> str:
    """TB-S8: distinct lengths of the bodies that clients received for a file size."""
    served = {
        int(fetch.get("bytes", 0))
        for name, one in latency.fetches(runs, "delay").items()
        if name.startswith(f"{size}-")
        for fetch in one.fetches
    }
    return ", ".join(map(str, sorted(served)))


@measured
def apache_off_nginx_pct(runs: Runs, loss_pct: float) -> float:
    """TB-S9: absolute difference of Apache's mean latency from nginx's, 10 KB over 20 ms, percent."""
    apache, nginx = (_server(runs, server, loss_pct).mean_s.mean for server in ("apache", "nginx"))
    return 100 * abs(apache / nginx - 1)


@measured
def server_latency_s(runs: Runs, server: str, loss_pct: float) -> Interval:
    """TB-S9: mean latency of 10 KB over a link of 20 ms with loss, s."""
    return _server(runs, server, loss_pct).mean_s


@measured
def check_values_off(_runs: Runs, starts: str) -> float:
    """TB-S10, S11, S13: largest relative difference of these models from independently computed values."""
    return check_values.farthest(starts)


@measured
def chain_sampled_off_pct(_runs: Runs, samples: int) -> float:
    """TB-S11: largest relative difference of the sampled mean from the exact chain, percent.

    The data have one to three packets, at three loss rates.
    """
    off = []
    for data in (1, 2, 3):
        for p in (0.05, 0.1, 0.2):
            mean, _ = models.wzk_chain_sampled(data, p, samples=samples)
            off.append(abs(mean / float(models.wzk_chain(data, p)) - 1))
    return 100 * max(off)


@measured
def handshake_rtts_without_loss(_runs: Runs) -> float:
    """TB-S12: handshake time of the new model without loss, in round trips."""
    delay_s = 0.05
    parts = models.evaluate("wzk_new", data=8, pl=0.0, delay_s=delay_s)
    return round(float(parts["t_handshk_s"]) / (2 * delay_s), 12)


@measured
def handshake_costs_ms(runs: Runs, lost: str) -> Interval:
    """TB-E9: latency with one packet of the handshake lost, less the mean without loss, ms."""
    cases = {
        "none": ("none", "none"),
        "SYN": ("packets:1", "none"),
        "SYN-ACK": ("none", "packets:1"),
        "last ACK": ("packets:2", "none"),
    }
    points = [
        Point(
            f"{name}-{n}",
            ["--delay", "10ms", "--up", f"loss={up}", "--down", f"loss={down}", *INITIAL_WINDOW],
            "3",
            1,
        )
        for name, (up, down) in cases.items()
        for n in range(HANDSHAKES)
    ]
    made = runs.of("handshakes", points)
    with_loss, without = (
        np.array([made[f"{name}-{n}"].latencies_s[0] for n in range(HANDSHAKES)]) for name in (lost, "none")
    )
    return stats.mean(1e3 * (with_loss - without.mean()))


@measured
def curl_fetches(runs: Runs, what: str) -> str | float:
    """TB-E10: bytes or duration (s) of a fetch of 1 MB by curl through 10 Mbit/s."""
    size, took_s = _others(runs)["curl"].out.split()
    return size if what == "bytes" else float(took_s)


@measured
def echo_median_ms(runs: Runs) -> float:
    """TB-E10: median time of an interactive echo over 20 ms each way."""
    return _median_ms(_others(runs)["echo"])


@measured
def router_round_trip_ms(runs: Runs) -> float:
    """CWV-S14: median round trip through the router of the newCWV paper without a rate limit, ms."""
    return _median_ms(_router(runs)["delay"])


@measured
def router_down(runs: Runs, what: str) -> float:
    """CWV-S14: rate while busy (Mbit/s) or largest queue (packets) of the router at 2 Mbit/s and 30 KB."""
    down = _router(runs)["limited"].certificate["down"]
    return float(down["busy_rate"] / 1e6 if what == "rate" else down["largest_queue"])


def _delays_and_losses(runs: Runs) -> list[Measured]:
    return [one for over in ("delay", "loss") for one in latency.fetches(runs, over).values()]


def _forced(runs: Runs) -> Measured:
    fetch = f"for i in 1 2 3 4 5; do curl -s -o /dev/null {SERVER}/30; done"
    link = ["--delay", "5ms", "--loss", "bernoulli:0.02"]
    return runs.of("forced routing", [Point("forced", link, command=f"{fetch}; cat /proc/net/snmp")])[
        "forced"
    ]


def _modes(runs: Runs) -> dict[str, Measured]:
    lone = f"exec {sys.executable} {CLIENT} echo://$CATNIP_OUTSIDE:8081/ --count 100"
    queue = ["--rate", "2Mbit", "--delay", "5ms", "--queue", "drop-tail:20"]
    return runs.of(
        "link modes",
        [
            Point("fixed", ["--delay", "20ms"], "30", 20, log=True),
            Point("distributed", ["--delay", "20ms", "--jitter", "uniform:5ms"], command=lone, log=True),
            Point("distributed, busy", ["--delay", "20ms", "--jitter", "uniform:5ms"], "30", 20, log=True),
            Point("queue", queue, "30", 20, log=True),
        ],
    )


def _server(runs: Runs, server: str, loss_pct: float) -> Measured:
    link = ["--delay", "20ms", "--loss", f"bernoulli:{loss_pct / 100}", *INITIAL_WINDOW]
    point = Point("10 KB", link, "10", runs.count(FETCHES), PER_SECOND)
    return runs.of(f"{server} at {loss_pct:g} % loss", [point], server=server)["10 KB"]


def _others(runs: Runs) -> dict[str, Measured]:
    link = ["--rate", "10Mbit", "--delay", "20ms", "--queue", "drop-tail:100"]
    echo = f"exec {sys.executable} {CLIENT} echo://$CATNIP_OUTSIDE:8081/ --count 50"
    curl = f"exec curl -s -o /dev/null -w '%{{size_download}} %{{time_total}}' {SERVER}/bulk"
    points = [Point("curl", link, command=curl), Point("echo", link, command=echo)]
    return runs.of("other applications", points, stack=TODAY)


def _router(runs: Runs) -> dict[str, Measured]:
    fetch = f"exec curl -s -o /dev/null -w '%{{size_download}}' {SERVER}/bulk"
    echo = f"exec {sys.executable} {CLIENT} echo://$CATNIP_OUTSIDE:8081/ --count 20"
    delay = ["--delay", "100ms"]
    limited = [*delay, "--rate", "2Mbit", "--queue", "drop-tail:30KB"]
    points = [Point("delay", delay, command=echo), Point("limited", limited, command=fetch)]
    return runs.of("newCWV's router", points, stack=TODAY)


def _median_ms(one: Measured) -> float:
    return 1e3 * float(np.median(one.latencies_s))


def _asked_loss(one: Measured, side: str) -> float:
    return float(one.certificate[side]["asked"]["loss"].partition(":")[2] or 0)


def _sigmas(one: Measured, side: str) -> float:
    """Returns the difference of a direction's loss from the requested one, in standard deviations."""
    certified, asked = one.certificate[side], _asked_loss(one, side)
    n = certified["packets_in"]
    return float((certified["loss"] - asked) / np.sqrt(asked * (1 - asked) / n))


def _asked_ms(one: Measured) -> float:
    return 1e3 * _core.seconds(one.certificate["up"]["asked"]["delay"])


def _unaccounted(one: Measured) -> int:
    return sum(
        abs(side["packets_in"] - side["packets_out"] - sum(side["dropped"].values()) - side["held"])
        for side in (one.certificate["up"], one.certificate["down"])
    )


def _logged_latencies_s(log: str) -> list[float]:
    """Returns the times from each SYN to the last data packet that reached the client before the next SYN."""
    began_ns: list[int] = []
    ended_ns: list[int] = []
    flows = set()
    for row in csv.DictReader(io.StringIO(log)):
        time_ns = int(row["time_ns"])
        if (row["event"], row["edge"]) == ("arrive", "0") and row["flow"] not in flows:
            flows.add(row["flow"])
            began_ns.append(time_ns)
            ended_ns.append(time_ns)
        elif not ended_ns:
            continue  # packets before the first SYN are left over from another client with this address
        elif (row["event"], row["edge"]) == ("depart", "1") and int(row["len_bytes"]) > LEAST_DATA_BYTES:
            ended_ns[-1] = time_ns + int(row["lateness_ns"] or 0)
    return [(ended - began) / 1e9 for began, ended in zip(began_ns, ended_ns, strict=True)]


def _departures(log: str) -> Iterator[list[int]]:
    """Yields, for each direction, the packet numbers in the order of departure."""
    rows = list(csv.DictReader(io.StringIO(log)))
    for edge in ("0", "1"):
        yield [int(row["number"]) for row in rows if row["event"] == "depart" and row["edge"] == edge]


def _overtakings(numbers: Sequence[int]) -> int:
    return sum(later < earlier for earlier, later in pairwise(numbers))


def _snmp(text: str) -> dict[str, dict[str, int]]:
    """Returns the kernel's counters, by protocol and name."""
    counters: dict[str, dict[str, int]] = {}
    lines = [line.split() for line in text.splitlines() if line.startswith(("Ip:", "Tcp:"))]
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        counters[names[0].rstrip(":")] = dict(zip(names[1:], map(int, values[1:]), strict=True))
    return counters

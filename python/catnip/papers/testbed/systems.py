"""Measurements of components (TB-S1 to S13), of the handshake (TB-E9) and of other applications (TB-E10)."""

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
from catnip.papers.emulation import unaccounted_on_link
from catnip.papers.quantity import Quantities
from catnip.papers.testbed import latency
from catnip.papers.testbed.latency import INITIAL_WINDOW, PER_SECOND
from catnip.papers.testbed.runs import FETCHES, TODAY, FetchRuns, Measured, Point

measured = Quantities()

HANDSHAKES = 20
MIN_DATA_BYTES = 100
EDGES = ("up", "down")
CLIENT = Path(testbed.__file__).with_name("client.py")
SERVER = "http://$CATNIP_OUTSIDE:8080"


@measured
def fetches_that_did_not_end(runs: FetchRuns) -> float:
    """TB-S1: number of fetches over links with delay or loss that did not complete within two minutes."""
    return float(sum(one.errors for one in _delays_and_losses(runs)))


@measured
def loss_off_sigmas(runs: FetchRuns, statistic: str) -> float:
    """TB-S2: mean or largest deviation of the loss rate from the requested one, standard deviations."""
    losing = [one for one in latency.fetches(runs, "loss").values() if _requested_loss(one, "up") > 0]
    off = [abs(_sigmas(one, side)) for one in losing for side in EDGES]
    return float(np.mean(off)) if statistic == "mean" else max(off)


@measured
def round_trip_off(runs: FetchRuns) -> float:
    """TB-S2: largest difference of the handshake time from twice the requested delay, per tolerance.

    The tolerance is 1 ms or 2 % of twice the delay, whichever is larger; the result 1 means just within.
    """
    off = []
    for one in latency.fetches(runs, "delay").values():
        expected_ms = 2 * _requested_ms(one)
        measured_ms = 1e3 * float(
            np.median([fetch["connect_s"] for fetch in one.fetches if "connect_s" in fetch])
        )
        off.append(abs(measured_ms - expected_ms) / max(1, 0.02 * expected_ms))
    return max(off)


@measured
def delay_off(runs: FetchRuns) -> float:
    """TB-S2: largest difference of a link's mean delay from the requested delay, per tolerance.

    The tolerance is 1 ms or 2 % of the requested delay, whichever is larger; the result 1 means just within.
    """
    off = []
    for one in latency.fetches(runs, "delay").values():
        expected_ms = _requested_ms(one)
        for side in EDGES:
            off.append(
                abs(one.certificate[side]["delay_ms"]["mean"] - expected_ms) / max(1, 0.02 * expected_ms)
            )
    return float(max(off))


@measured
def red_certificates(runs: FetchRuns) -> str:
    """TB-S2: number of links with a delay or a loss whose certificate is red in both tries."""
    return str(sum(one.is_red for one in _delays_and_losses(runs)))


@measured
def bad_checksums(runs: FetchRuns, end: str) -> str:
    """TB-S3: number of segments with a wrong checksum, counted by the kernel at one end."""
    forced = _forced(runs)
    return str(_snmp(forced.out if end == "client" else forced.snmp)["Tcp"]["InCsumErrors"])


@measured
def packets_that_crossed(runs: FetchRuns, side: str) -> float:
    """TB-S3: number of packets of five fetches of 30 KB that left the link in a direction."""
    return float(_forced(runs).certificate[side]["packets_out"])


@measured
def packets_beside_the_link(runs: FetchRuns, side: str) -> str:
    """TB-S4: packets that the client's kernel sent or received minus those that entered or left the link."""
    forced = _forced(runs)
    counters = _snmp(forced.out)["Ip"]
    if side == "up":
        return str(counters["OutRequests"] - forced.certificate["up"]["packets_in"])
    return str(counters["InReceives"] - forced.certificate["down"]["packets_out"])


@measured
def answers_around_a_stop(runs: FetchRuns) -> str:
    """TB-S4: HTTP status of fetches before the emulator is stopped, while stopped, and after it continues."""
    fetch = f"curl -s -m 2 -o /dev/null -w '%{{http_code}}\\n' {SERVER}/3"
    point = Point("stopped", ["--delay", "5ms"], command=fetch, stops=True)
    return " ".join(runs.of("a stopped emulator", [point])["stopped"].out.split())


@measured
def unaccounted(runs: FetchRuns, mode: str) -> str:
    """TB-S5: number of packets that entered a link minus those that left it, were dropped or are held."""
    return str(unaccounted_on_link(_modes(runs)[mode].certificate))


@measured
def out_of_order(runs: FetchRuns, mode: str) -> str:
    """TB-S5: number of packets that left a link before a packet that had arrived earlier."""
    log = _modes(runs)[mode].log
    assert log, f"{mode}: the link has no log"
    return str(sum(_overtakings(numbers) for numbers in _departures(log)))


@measured
def distributed_delay_ms(runs: FetchRuns, statistic: str) -> float:
    """TB-S5: statistic of the one-way delay of packets 100 ms apart over a link of 20 ± 5 ms, ms."""
    delay = _modes(runs)["distributed"].certificate["up"]["delay_ms"]
    return float(delay[statistic])


@measured
def logger_off_ms(runs: FetchRuns, clients: int, fetches: int, statistic: str) -> float:
    """TB-S7: largest or median absolute difference of clients' latencies from those in link logs, ms."""
    # Each fetch of a client ends before the client's next fetch begins.
    points = [
        Point(f"log-{n}", ["--delay", "20ms", *INITIAL_WINDOW], "30", fetches, per_second=2, log=True)
        for n in range(clients)
    ]
    measurements = runs.of(f"logger of {clients}", points).values()
    off_s = [np.abs(one.latencies_s - _logged_latencies_s(one.log or "")) for one in measurements]
    off_ms = 1e3 * np.concatenate(off_s)
    runs.sample = len(off_ms)
    return float(off_ms.max() if statistic == "largest" else np.median(off_ms))


@measured
def body_bytes(runs: FetchRuns, size: int) -> str:
    """TB-S8: distinct lengths of the bodies that clients received for a file size, bytes."""
    served = {
        int(fetch.get("bytes", 0))
        for name, one in latency.fetches(runs, "delay").items()
        if name.startswith(f"{size}-")
        for fetch in one.fetches
    }
    return ", ".join(map(str, sorted(served)))


@measured
def apache_off_nginx_pct(runs: FetchRuns, loss_pct: float) -> Interval:
    """TB-S9: absolute difference of Apache's mean latency from nginx's, percent.

    The file has 10 KB, and the link a delay of 20 ms and a loss.
    """
    apache, nginx = (_server(runs, server, loss_pct).mean_s for server in ("apache", "nginx"))
    return stats.magnitude(stats.difference(apache, nginx) * (100 / nginx.mean))


@measured
def server_latency_s(runs: FetchRuns, server: str, loss_pct: float) -> Interval:
    """TB-S9: mean latency of a file of 10 KB from `server` over a link of 20 ms with loss, s."""
    return _server(runs, server, loss_pct).mean_s


@measured
def check_values_off(_runs: FetchRuns, starts: str) -> float:
    """TB-S10, S11, S13: largest relative difference between models and independently computed values.

    `starts` is a prefix of the names of the models to compare.
    """
    return check_values.farthest(starts)


@measured
def chain_sampled_off_pct(_runs: FetchRuns, samples: int) -> float:
    """TB-S11: largest relative difference of the sampled from the exact mean of the timeout chain, percent.

    The maximum is taken over one to three packets of data and three loss rates.
    """
    off = []
    for data in (1, 2, 3):
        for p in (0.05, 0.1, 0.2):
            mean, _ = models.wzk_chain_sampled(data, p, samples=samples)
            off.append(abs(mean / float(models.wzk_chain(data, p)) - 1))
    return 100 * max(off)


@measured
def handshake_rtts_without_loss(_runs: FetchRuns) -> float:
    """TB-S12: handshake time of the new model without loss, in round trips."""
    delay_s = 0.05
    parts = models.evaluate("wzk_new", data=8, pl=0.0, delay_s=delay_s)
    return round(float(parts["t_handshk_s"]) / (2 * delay_s), 12)


@measured
def handshake_costs_ms(runs: FetchRuns, lost: str) -> Interval:
    """TB-E9: latency with the packet `lost` of the handshake lost minus the mean latency without loss, ms."""
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
    measurements = runs.of("handshakes", points)
    with_loss, without = (
        np.array([measurements[f"{name}-{n}"].latencies_s[0] for n in range(HANDSHAKES)])
        for name in (lost, "none")
    )
    return stats.mean(1e3 * (with_loss - without.mean()))


@measured
def curl_fetches(runs: FetchRuns, result: str) -> str | float:
    """TB-E10: number of bytes, or duration (s), of a fetch of 1 MB by curl over 10 Mbit/s."""
    size, duration_s = _others(runs)["curl"].out.split()
    return size if result == "bytes" else float(duration_s)


@measured
def echo_median_ms(runs: FetchRuns) -> float:
    """TB-E10: median time of an interactive echo over a link of 20 ms each way, ms."""
    return _median_ms(_others(runs)["echo"])


@measured
def router_round_trip_ms(runs: FetchRuns) -> float:
    """CWV-S14: median round trip through the router of the newCWV paper without a rate limit, ms."""
    return _median_ms(_router(runs)["delay"])


@measured
def router_down(runs: FetchRuns, measure: str) -> float:
    """CWV-S14: rate while busy (Mbit/s) or largest queue (packets) of the router at 2 Mbit/s and 30 KB."""
    down = _router(runs)["limited"].certificate["down"]
    return float(down["busy_rate"] / 1e6 if measure == "rate" else down["largest_queue"])


def _delays_and_losses(runs: FetchRuns) -> list[Measured]:
    return [one for over in ("delay", "loss") for one in latency.fetches(runs, over).values()]


def _forced(runs: FetchRuns) -> Measured:
    fetch = f"for i in 1 2 3 4 5; do curl -s -o /dev/null {SERVER}/30; done"
    link = ["--delay", "5ms", "--loss", "bernoulli:0.02"]
    # The last connection is closed, even if its FIN is lost, before the kernel's counters are read.
    command = f"{fetch}; sleep 2; cat /proc/net/snmp"
    return runs.of("forced routing", [Point("forced", link, command=command)])["forced"]


def _modes(runs: FetchRuns) -> dict[str, Measured]:
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


def _server(runs: FetchRuns, server: str, loss_pct: float) -> Measured:
    link = ["--delay", "20ms", "--loss", f"bernoulli:{loss_pct / 100}", *INITIAL_WINDOW]
    point = Point("10 KB", link, "10", runs.scaled(FETCHES), PER_SECOND)
    return runs.of(f"{server} at {loss_pct:g} % loss", [point], server=server)["10 KB"]


def _others(runs: FetchRuns) -> dict[str, Measured]:
    link = ["--rate", "10Mbit", "--delay", "20ms", "--queue", "drop-tail:100"]
    echo = f"exec {sys.executable} {CLIENT} echo://$CATNIP_OUTSIDE:8081/ --count 50"
    curl = f"exec curl -s -o /dev/null -w '%{{size_download}} %{{time_total}}' {SERVER}/bulk"
    points = [Point("curl", link, command=curl), Point("echo", link, command=echo)]
    return runs.of("other applications", points, stack=TODAY)


def _router(runs: FetchRuns) -> dict[str, Measured]:
    fetch = f"exec curl -s -o /dev/null -w '%{{size_download}}' {SERVER}/bulk"
    echo = f"exec {sys.executable} {CLIENT} echo://$CATNIP_OUTSIDE:8081/ --count 20"
    delay = ["--delay", "100ms"]
    limited = [*delay, "--rate", "2Mbit", "--queue", "drop-tail:30KB"]
    points = [Point("delay", delay, command=echo), Point("limited", limited, command=fetch)]
    return runs.of("newCWV's router", points, stack=TODAY)


def _median_ms(one: Measured) -> float:
    return 1e3 * float(np.median(one.latencies_s))


def _requested_loss(one: Measured, side: str) -> float:
    return float(one.certificate[side]["asked"]["loss"].partition(":")[2] or 0)


def _sigmas(one: Measured, side: str) -> float:
    """Returns the measured minus the requested loss rate of a direction, in standard deviations."""
    certified, requested = one.certificate[side], _requested_loss(one, side)
    n = certified["packets_in"]
    return float((certified["loss"] - requested) / np.sqrt(requested * (1 - requested) / n))


def _requested_ms(one: Measured) -> float:
    return 1e3 * _core.seconds(one.certificate["up"]["asked"]["delay"])


def _logged_latencies_s(log: str) -> list[float]:
    """Returns the times from each SYN to the last data packet to the client before the next SYN, s.

    `log` is the packet log of a link.
    """
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
        elif (row["event"], row["edge"]) == ("depart", "1") and int(row["len_bytes"]) > MIN_DATA_BYTES:
            ended_ns[-1] = time_ns + int(row["lateness_ns"] or 0)
    return [(ended - began) / 1e9 for began, ended in zip(began_ns, ended_ns, strict=True)]


def _departures(log: str) -> Iterator[list[int]]:
    """Yields the packets' numbers in the order of their departure from a link, for each direction."""
    rows = list(csv.DictReader(io.StringIO(log)))
    for edge in ("0", "1"):
        yield [int(row["number"]) for row in rows if row["event"] == "depart" and row["edge"] == edge]


def _overtakings(numbers: Sequence[int]) -> int:
    return sum(later < earlier for earlier, later in pairwise(numbers))


def _snmp(text: str) -> dict[str, dict[str, int]]:
    """Returns the counters in a text in the format of /proc/net/snmp, by protocol and name."""
    counters: dict[str, dict[str, int]] = {}
    lines = [line.split() for line in text.splitlines() if line.startswith(("Ip:", "Tcp:"))]
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        counters[names[0].rstrip(":")] = dict(zip(names[1:], map(int, values[1:]), strict=True))
    return counters

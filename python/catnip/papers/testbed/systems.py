"""The components TB-S1 to S13, and the handshake and the other applications (TB-E9, E10)."""

import csv
import io
import sys
from pathlib import Path

import numpy as np

from catnip import _core, models, stats, testbed
from catnip.papers import reference
from catnip.papers.check_values import check_value
from catnip.papers.claims import Claim, at_most, exactly, within
from catnip.papers.outcome import Part
from catnip.papers.testbed import latency
from catnip.papers.testbed.latency import INITIAL_WINDOW
from catnip.papers.testbed.runs import FILES, SIZES_KB, TODAY, Measured, Point, Runs

TOLERANCE = 1e-5
CHECKED = {"TB-S10": ("wzk_new",), "TB-S11": ("wzk_chain",), "TB-S13": ("model_c_",)}
FIRST_TIMEOUT_S = 1.0
HANDSHAKES = 6
CLIENT = Path(testbed.__file__).with_name("client.py")


def components(runs: Runs) -> Part:
    """One claim or more for each component."""
    claims = [*_models(), *_links(runs), *_packets(runs), *_logger(runs)]
    return Part(sorted(claims, key=lambda claim: int(claim.id.removeprefix("TB-S"))))


def handshakes(runs: Runs) -> Part:
    """TB-E9: what losing one packet of the handshake costs."""
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
    mean = {
        name: stats.mean([made[f"{name}-{n}"].latencies_s[0] for n in range(HANDSHAKES)]) for name in cases
    }
    base = mean["none"].mean
    return Part(
        [
            *(
                within(
                    "TB-E9",
                    f"{name} lost: latency more than without loss, ms (first timeout ± 20)",
                    1e3 * (mean[name].mean - base),
                    980,
                    1020,
                    paper="3 s on Linux 2.0.34",
                    note="kernel-timers",
                )
                for name in ("SYN", "SYN-ACK")
            ),
            within(
                "TB-E9",
                "last ACK lost: latency more than without loss, ms (the request carries it)",
                1e3 * (mean["last ACK"].mean - base),
                -20,
                20,
                paper="the first data packet repairs it",
            ),
        ]
    )


def other_applications(runs: Runs) -> Part:
    """TB-E10: more real programs, none of them changed."""
    link = ["--rate", "10Mbit", "--delay", "20ms", "--queue", "drop-tail:100"]
    echo = f"exec {sys.executable} {CLIENT} echo://$CATNIP_OUTSIDE:8081/ --count 50"
    curl = "exec curl -s -o /dev/null -w '%{size_download} %{time_total}' http://$CATNIP_OUTSIDE:8080/bulk"
    made = runs.of(
        "other applications",
        [Point("curl", link, command=curl), Point("echo", link, command=echo)],
        stack=TODAY,
    )
    size, took_s = made["curl"].out.split()
    ends = [fetch["latency_s"] for fetch in made["echo"].fetches]
    return Part(
        [
            exactly("TB-E10", "curl fetches 1 MB through 10 Mbit/s: bytes", size, str(FILES["bulk"])),
            within("TB-E10", "its time, s (at least that of 1 MB at 10 Mbit/s)", float(took_s), 0.84, 1.6),
            within(
                "TB-E10", "interactive echo over 20 + 20 ms: median, ms", 1e3 * float(np.median(ends)), 40, 44
            ),
        ]
    )


def emulation_router(runs: Runs) -> Part:
    """CWV-S14: newCWV's router with a delay of 200 ms only, and with 2 Mbit/s and 30 KB as well."""
    fetch = "exec curl -s -o /dev/null -w '%{size_download}' http://$CATNIP_OUTSIDE:8080/bulk"
    echo = f"exec {sys.executable} {CLIENT} echo://$CATNIP_OUTSIDE:8081/ --count 20"
    delay = ["--delay", "100ms"]
    limited = [*delay, "--rate", "2Mbit", "--queue", "drop-tail:30KB"]
    made = runs.of(
        "newCWV's router",
        [
            Point("delay", delay, command=echo),
            Point("limited", limited, command=fetch),
        ],
        stack=TODAY,
    )
    rtt_ms = 1e3 * float(np.median([fetch["latency_s"] for fetch in made["delay"].fetches]))
    down = made["limited"].certificate["down"]
    return Part(
        [
            within("CWV-S14", "limits off: median round trip, ms", rtt_ms, 195, 205, paper=200),
            within(
                "CWV-S14",
                "2 Mbit/s and 30 KB: rate while busy, Mbit/s",
                down["busy_rate"] / 1e6,
                1.96,
                2.04,
                paper=2,
            ),
            at_most(
                "CWV-S14",
                "30 KB: most packets waiting (20 of 1500 bytes)",
                down["largest_queue"],
                20,
                paper=20,
            ),
        ]
    )


def _models() -> list[Claim]:
    rows = reference.rows("model_check_values.csv")
    claims = []
    for id, starts in CHECKED.items():
        mine = [row for row in rows if row["model"].startswith(starts)]
        off = max(
            abs(check_value(row["model"], row["params"], row["quantity"]) - float(row["value"]))
            / max(abs(float(row["value"])), 1e-12)
            for row in mine
            if float(row["value"])
        )
        claim = f"{len(mine)} values worked out independently: largest relative difference"
        claims.append(at_most(id, claim, off, TOLERANCE))
    sampled = []
    for data in (1, 2, 3):
        for p in (0.05, 0.1, 0.2):
            mean, _ = models.wzk_chain_sampled(data, p, samples=400_000)
            sampled.append(abs(mean / float(models.wzk_chain(data, p)) - 1))
    claims.append(
        at_most(
            "TB-S11", "400 000 samples against the exact chain, 9 points: largest, %", 100 * max(sampled), 1
        )
    )
    no_loss = models.evaluate("wzk_new", data=8, pl=0.0, delay_s=0.05)
    claims.append(
        at_most(
            "TB-S12",
            "no loss: handshake apart from 1.5 round trips, s",
            abs(float(no_loss["t_handshk_s"]) - 0.15),
            1e-12,
            paper="1.5 RTT",
        )
    )
    return claims


def _links(runs: Runs) -> list[Claim]:
    """TB-S1, S2, S5, S8, S9: what the links did while programs ran over them."""
    losses = latency._over_loss(runs)
    delays = latency._over_delay(runs)
    sigmas = [abs(_sigmas(one, side)) for one in losses.values() for side in ("up", "down")]
    off = [
        abs(one.certificate[side]["delay_ms"]["mean"] - _asked_ms(one)) / max(1, 0.02 * _asked_ms(one))
        for one in delays.values()
        for side in ("up", "down")
    ]
    modes = runs.of(
        "link modes",
        [
            Point("distributed", ["--delay", "20ms", "--jitter", "uniform:5ms"], "30", 20, 4),
            Point("queue", ["--rate", "2Mbit", "--delay", "5ms", "--queue", "drop-tail:20"], "30", 20, 4),
        ],
    )
    served = {
        size: {
            int(fetch.get("bytes", 0))
            for name, one in delays.items()
            if name.startswith(f"{size}-")
            for fetch in one.fetches
        }
        for size in SIZES_KB
    }
    both = {
        server: runs.of(
            f"{server} without loss", [latency._point(f"{server}-10", 10, 0.02, 0.0, runs)], server=server
        )
        for server in ("nginx", "apache")
    }
    nginx, apache = (both[server][f"{server}-10"] for server in ("nginx", "apache"))
    apart = abs(apache.mean_s.mean / nginx.mean_s.mean - 1)
    return [
        exactly(
            "TB-S1",
            "fetches by real clients from a real server, up to 10 % loss, that did not end in two minutes",
            str(sum(one.errors() for one in (*delays.values(), *_up_to_ten(losses)))),
            "0",
        ),
        at_most(
            "TB-S2",
            "loss asked for 0 to 20 %: mean distance of 48 links, standard deviations",
            float(np.mean(sigmas)),
            1.2,
        ),
        at_most("TB-S2", "the same, largest", max(sigmas), 4),
        exactly("TB-S2", "links measured so far whose certificate is red in two tries", str(runs.red), "0"),
        at_most(
            "TB-S2", "mean delay off what was asked for in units of 1 ms or 2 %, largest of 42", max(off), 1
        ),
        *(
            exactly(
                "TB-S5", f"{name} delay: packets in less out, dropped and held", str(_unaccounted(one)), "0"
            )
            for name, one in modes.items()
        ),
        within(
            "TB-S5",
            "distributed delay, 20 ± 5 ms in order: mean, ms",
            modes["distributed"].certificate["down"]["delay_ms"]["mean"],
            19,
            25,
        ),
        *(
            exactly(
                "TB-S8",
                f"{size} KB: bytes of each body",
                ", ".join(map(str, sorted(served[size]))),
                str(size * 1024),
            )
            for size in SIZES_KB
        ),
        at_most("TB-S9", "10 KB over 20 ms from Apache and from nginx: means apart, %", 100 * apart, 20),
    ]


def _packets(runs: Runs) -> list[Claim]:
    """TB-S3, S4: every packet of the programs crosses the link, and arrives whole."""
    fetch = "for i in 1 2 3 4 5; do curl -s -o /dev/null http://$CATNIP_OUTSIDE:8080/30; done"
    point = Point(
        "forced", ["--delay", "5ms", "--loss", "bernoulli:0.02"], command=f"{fetch}; cat /proc/net/snmp"
    )
    one = runs.of("forced routing", [point])["forced"]
    kernel = _snmp(one.out)
    up, down = one.certificate["up"], one.certificate["down"]
    return [
        exactly(
            "TB-S3", "segments with a wrong checksum at the client", str(kernel["Tcp"]["InCsumErrors"]), "0"
        ),
        exactly(
            "TB-S4",
            "packets that the client's kernel sent less those that crossed the link",
            str(kernel["Ip"]["OutRequests"] - up["packets_in"]),
            "0",
        ),
        exactly(
            "TB-S4",
            "packets that the link delivered less those that the client's kernel received",
            str(down["packets_out"] - kernel["Ip"]["InReceives"]),
            "0",
        ),
    ]


def _logger(runs: Runs) -> list[Claim]:
    """TB-S7: the client's log against the link's."""
    points = [Point(f"log-{n}", ["--delay", "20ms", *INITIAL_WINDOW], "30", 1, log=True) for n in range(5)]
    off = []
    for one in runs.of("logger", points).values():
        events = list(csv.DictReader(io.StringIO(one.log or "")))
        begins = {row["number"]: row for row in events if row["event"] == "arrive"}
        syn_ns = min(int(row["time_ns"]) for row in begins.values() if row["edge"] == "0")
        # The last packet with data that reached the client ends the fetch.
        data_ns = [
            int(row["time_ns"]) + int(row["lateness_ns"] or 0)
            for row in events
            if row["event"] == "depart" and row["edge"] == "1" and int(row["len_bytes"]) > 100
        ]
        off.append(abs(one.latencies_s[0] - (max(data_ns) - syn_ns) / 1e9))
    return [
        at_most(
            "TB-S7",
            "the client's latency against the link's log, five fetches: median difference, ms",
            1e3 * float(np.median(off)),
            1,
        )
    ]


def _up_to_ten(losses: dict[str, Measured]) -> list[Measured]:
    return [one for name, one in losses.items() if float(name.split("-")[1]) <= 0.1]


def _sigmas(one: Measured, side: str) -> float:
    """How far the loss of a direction is from what was asked for."""
    certified = one.certificate[side]
    asked = float(certified["asked"]["loss"].partition(":")[2] or 0)
    n = certified["packets_in"]
    if asked == 0 or n == 0:
        return 0.0
    return float((certified["loss"] - asked) / np.sqrt(asked * (1 - asked) / n))


def _asked_ms(one: Measured) -> float:
    return 1e3 * _core.seconds(one.certificate["up"]["asked"]["delay"])


def _unaccounted(one: Measured) -> int:
    return sum(
        side["packets_in"] - side["packets_out"] - sum(side["dropped"].values()) - side["held"]
        for side in (one.certificate["up"], one.certificate["down"])
    )


def _snmp(text: str) -> dict[str, dict[str, int]]:
    """The kernel's counters, by protocol and name."""
    counters: dict[str, dict[str, int]] = {}
    lines = [line.split() for line in text.splitlines() if line.startswith(("Ip:", "Tcp:"))]
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        counters[names[0].rstrip(":")] = dict(zip(names[1:], map(int, values[1:]), strict=True))
    return counters

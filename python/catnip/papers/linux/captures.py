"""Marks of unmodified servers compared with those expected from captures (CAT-S20, S21, E9, IDS-S21).

The expected marks are derived from the packets that tcpdump captured as they left the server, and from the
kernel's own trace of the congestion window.
"""

import http.client
import json
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from random import Random
from typing import TypeAlias

from catnip import api
from catnip._core import InputError
from catnip.analysis import stats
from catnip.analysis.interval import Interval
from catnip.api import Link
from catnip.base.programs import AGENT, program
from catnip.papers.linux.runs import TRIES, KernelRuns, agent_behind, capturing, tracing
from catnip.papers.quantity import Quantities
from catnip.papers.unavailable import Unavailable
from catnip.report.model import Table
from catnip.testbed import site

measured = Quantities()

SIZES = (1, 100, 1_200, 1_448, 2_896, 5_000, 10_000, 50_000, 200_000, 1_000_000)
SERVERS = ("nginx", "apache")
SEGMENTS = PACED, SINGLE, KERNEL = "paced", "single", "kernel"
"""Modes of the agent's option --segments: one segment per packet on paths below one segment per millisecond,
always, or as the kernel likes."""
Case: TypeAlias = tuple[str, str, bool, str]
MARKS = PARTIAL, FULL, LAST, STATE = "spm-partial", "spm", "last-only", "tcp-state"
LOSS = "bernoulli:2%"
RATE_MBPS = 20
BURST = f"{RATE_MBPS * 10}kbit/128KB"
"""Token bucket of HIGH that the agent sets by default on a device of this rate."""
WINDOW = 2
"""Initial window with Algorithm 1, segments. It is below both thresholds (4 and 8), which slow start exceeds
one after the other."""
AT_ONCE, CONNECTIONS = 4, 8
ROUNDS, QUICK_ROUNDS = 80, 5
"""Documents of each persistent connection. With 80 a capture has 800 documents, of which two may be wrong if
99 % are to be right beyond doubt."""
SIDE_BY_SIDE = 4


@dataclass
class Verdict:
    """Result of comparing the marks in a capture with the expected marks: counts, and the first faults."""

    documents: int = 0
    right_documents: int = 0
    undecided_documents: int = 0
    must_be_high: int = 0
    missing_high: int = 0
    must_be_med: int = 0
    wrong_med: int = 0
    must_be_low: int = 0
    wrong_high: int = 0
    packets: int = 0
    connections: int = 0
    retransmissions: int = 0
    bad_checksums: int = 0
    gaps: int = 0
    fetched: int = 0
    is_red: bool = False
    faults: list[str] = field(default_factory=list)


@measured
def right_documents_pct(
    runs: KernelRuns, mark: str, server: str, lossy: bool = False, segments: str = PACED
) -> Interval:
    """Share of documents in which each segment has the mark that it must have, percent.

    A document counts as wrong if it is not known of each of its segments what its mark must be.
    """
    verdict = _of(runs, mark, server, lossy, segments)
    return stats.share_pct(verdict.right_documents, verdict.documents)


@measured
def wrong_marks_pct(
    runs: KernelRuns, mark: str, server: str, kind: str, lossy: bool = False, segments: str = PACED
) -> Interval:
    """Share of segments without the mark that is due, of those due HIGH, MED or LOW, percent."""
    one = _of(runs, mark, server, lossy, segments)
    of = {
        "high": (one.missing_high, one.must_be_high),
        "med": (one.wrong_med, one.must_be_med),
        "low": (one.wrong_high, one.must_be_low),
    }
    return stats.share_pct(*of[kind])


@measured
def undecided_documents(
    runs: KernelRuns, mark: str, server: str, lossy: bool = False, segments: str = PACED
) -> str:
    """Number of documents without a wrong mark that has a segment whose mark may be either."""
    verdict = _of(runs, mark, server, lossy, segments)
    runs.sample = verdict.documents
    return str(verdict.undecided_documents)


@measured
def red_captures(runs: KernelRuns) -> str:
    """Number of captures whose link has a red certificate in all tries."""
    verdicts = [_of(runs, *each) for each in cases(runs.quick)]
    runs.sample = len(verdicts)
    return str(sum(one.is_red for one in verdicts))


@measured
def retransmissions(runs: KernelRuns, mark: str, server: str) -> float:
    """Number of retransmitted packets in the capture with losses, for a marker and a server."""
    return float(_of(runs, mark, server, True).retransmissions)


@measured
def damaged(runs: KernelRuns) -> str:
    """Number of packets with a wrong checksum plus number of gaps, over all captures."""
    verdicts = [_of(runs, *each) for each in cases(runs.quick)]
    runs.sample = len(verdicts)
    return str(sum(one.bad_checksums + one.gaps for one in verdicts))


def table(runs: KernelRuns) -> Table:
    """Returns the table of right documents and wrong marks in each capture."""
    rows = []
    for mark, server, lossy, segments in cases(runs.quick):
        one = _of(runs, mark, server, lossy, segments)
        rows.append(
            [
                f"{mark}, {server}{', 2 % lost' if lossy else ''}, segments {segments}",
                f"{one.right_documents} of {one.documents}",
                str(one.undecided_documents),
                f"{one.missing_high} of {one.must_be_high}",
                f"{one.wrong_med} of {one.must_be_med}" if mark == STATE else "–",
                f"{one.wrong_high} of {one.must_be_low}",
                *map(str, (one.connections, one.packets, one.retransmissions)),
            ]
        )
    columns = ["", "documents right", "undecided", "HIGH missing", "MED missing", "marked, due LOW"]
    columns += ["connections", "packets", "sent again"]
    note = (
        f"Documents of {SIZES[0]} byte to 1 MB over connections side by side, persistent ones and new ones, "
        "20 Mbit/s and a round trip of 40 ms, captured by tcpdump where they leave, with the windows from "
        "the kernel's trace. A document is right if each of its segments has the mark that it must have."
    )
    return Table("Marks in captures", columns, rows, note)


def cases(quick: bool = False) -> list[Case]:
    """Returns mark, server, presence of losses and segment mode of each capture to make; fewer if `quick`."""
    kinds = [(mark, segments) for mark in (PARTIAL, FULL) for segments in SEGMENTS]
    kinds += [(LAST, PACED), (LAST, SINGLE), (STATE, PACED)]
    kinds = [(mark, segments) for mark, segments in kinds if segments == PACED or not quick]
    return [
        (mark, server, lossy, segments)
        for mark, segments in kinds
        for server in SERVERS
        for lossy in (False, True)
    ]


def _of(runs: KernelRuns, mark: str, server: str, lossy: bool, segments: str = PACED) -> Verdict:
    if (mark, server, lossy, segments) not in cases(runs.quick):
        raise Unavailable("a quick run has the agent's usual segments only")
    return runs.cached(("captures", server), lambda: _all(runs, server))[mark, server, lossy, segments]


def _all(runs: KernelRuns, server: str) -> dict[Case, Verdict]:
    runs.require(server)
    report = runs.progress.task(f"captures at {server}")
    of_server = [case for case in cases(runs.quick) if case[1] == server]
    rounds = QUICK_ROUNDS if runs.quick else ROUNDS
    jobs = {case: partial(captured, *case, rounds, runs.first_seed) for case in of_server}
    return runs.each("captures", jobs, SIDE_BY_SIDE, report)


def captured(mark: str, server: str, lossy: bool, segments: str, rounds: int, seed: int) -> Verdict:
    """Captures a server's packets over one link and compares their marks with the expected ones.

    The measurement is repeated if the certificate of the link is red.
    """
    options: dict[str, str | int | bool] = {
        "rate": f"{RATE_MBPS}Mbit",
        "delay": "20ms",
        "queue": "drop-tail:2000",
    }
    options |= {"seed": seed} | ({"loss": LOSS} if lossy else {})
    if mark == STATE:
        options["initial_window"] = WINDOW
    for _ in range(TRIES):
        with tempfile.TemporaryDirectory(prefix="catnip-linux-") as temporary:
            folder = Path(temporary)
            with (
                api.link(**options) as link,
                serving(link, server, folder),
                marking(link, mark, segments),
                tracing(folder / "windows.txt") as trace,
                capturing(link, folder / "sender.pcap") as capture,
            ):
                received = fetch_all(link.inside, seed, rounds)
            verdict = verified(capture, mark, trace)
        verdict.fetched, verdict.is_red = received, link.certificate.get("verdict") == "red"
        if not verdict.is_red:
            break
    return verdict


@contextmanager
def serving(link: Link, kind: str, folder: Path) -> Iterator[None]:
    """Runs a Web server, nginx or Apache, behind a link during the block; it has a file of each size."""
    folder.chmod(0o755)
    (folder / "www").mkdir()
    for size in SIZES:
        (folder / "www" / str(size)).write_bytes(bytes(size))
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    server = link.start(
        ["env", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", *site.configured(kind, folder)], **quiet
    )
    for _ in range(200):
        try:
            socket.create_connection((link.inside, site.PORT), timeout=5).close()
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    else:
        raise InputError(f"linux: {kind} does not answer")
    try:
        yield
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=20)


@contextmanager
def marking(link: Link, mark: str, segments: str) -> Iterator[None]:
    """Runs a marking agent behind a link during the block, with the marker `mark`.

    The limit by user is the agent's default on a device that has the link's rate.
    """
    options = ["--controllers", "none", "--segments", segments, "--mark", mark]
    with_med, control = (f",med={BURST}", ["--control", "reno"]) if mark == STATE else ("", [])
    options += ["--user-limit", f"high={BURST}{with_med},share=50%", *control]
    with agent_behind(link, *options):
        yield


def fetch_all(address: str, seed: int, rounds: int) -> int:
    """Fetches files over concurrent connections and returns the number of bytes received.

    Some connections carry a file in each of these rounds, and a file of each size comes alone in every fifth.
    """

    def one(connection: http.client.HTTPConnection, size: int) -> int:
        connection.request("GET", f"/{size}")
        return len(connection.getresponse().read())

    def several(number: int) -> int:
        lots = Random((seed << 8) + number)
        connection = http.client.HTTPConnection(address, site.PORT, timeout=60)
        received = sum(one(connection, lots.choice(SIZES)) for _ in range(rounds))
        connection.close()
        return received

    def alone(size: int) -> int:
        connection = http.client.HTTPConnection(address, site.PORT, timeout=60)
        received = one(connection, size)
        connection.close()
        return received

    with ThreadPoolExecutor(AT_ONCE) as pool:
        received = sum(pool.map(several, range(CONNECTIONS)))
        return received + sum(pool.map(alone, SIZES * -(-rounds // 5)))


def verified(capture: Path, mark: str, trace: Path) -> Verdict:
    """Returns the result of `catnip agent verify` for a capture of packets marked by `mark`.

    `trace` has the kernel's trace of the windows during the capture.
    """
    command = [str(program(AGENT)), "verify", str(capture), "--json", "--mark", mark, "--acks", "low"]
    command += ["--trace", str(trace)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise InputError(f"linux: {done.stderr.strip()}")
    sums = json.loads(done.stdout)
    same = {one.name for one in fields(Verdict)} & set(sums) - {"faults"}
    return Verdict(faults=sums["faults"][:5], **{name: sums[name] for name in same})

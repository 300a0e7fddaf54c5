"""Measures the scaled tree of the Telnet, Web and FTP study with ns-2.

    python3 validation/ns2/diffserv.py [SEEDS]

Into python/catnip/reference/ns2 it writes diffserv_tree.csv, a row for each case and seed, and
diffserv_single.csv, what one page, file or echo takes alone. Debian's package ns2 must be installed.
"""

import csv
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from statistics import fmean, quantiles

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parents[1] / "python" / "catnip" / "reference" / "ns2"
PAIRS, FROM_S, END_S, PARALLEL = 80, 50, 350, 2
ALONE = {"ample": "1", "bottleneck_mbps": "100"}
CASES = {
    "droptail_20": {},
    "droptail_12": {"bottleneck_mbps": "12"},
    "red_20": {"queue": "RED"},
    "web_alone": {"sessions": "web", **ALONE},
    "telnet_alone": {"sessions": "telnet", **ALONE},
}
RTTS_MS = (20, 40, 80, 120, 200)
# What is lost, and the packets that the bottleneck is offered forward and back, from 0.
LOSSES = {"": {}, "syn": {"back": "0"}, "syn_ack": {"forward": "0"}, "request": {"back": "1"}}
FILE_LOSSES = {"": {}, "syn": {"forward": "0"}, "syn_ack": {"back": "0"}, "first_data": {"forward": "1"}}


def ns2(options: dict[str, str]) -> list[list[str]]:
    """The lines that one run prints, in words."""
    words = [word for option in options.items() for word in option]
    command = ["nice", "-n", "15", "ns", str(HERE / "diffserv.tcl"), *words]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    return [line.split() for line in ended.stdout.splitlines()]


def times(name: str, plural: str, seconds: Sequence[float], limits_s: Sequence[float]) -> dict[str, object]:
    """How many there are, the shares above the limits, and the usual statistics."""
    row: dict[str, object] = {plural: len(seconds)}
    cuts = quantiles(seconds, n=100, method="inclusive") if len(seconds) > 1 else None
    for limit_s in limits_s:
        above = f"{sum(time_s > limit_s for time_s in seconds) / len(seconds):.5f}" if cuts else ""
        row[f"{name}_above_{limit_s:g}_s_share"] = above
    row[f"{name}_mean_s"] = f"{fmean(seconds):.4f}" if cuts else ""
    for label, percent in {"median": 50, "p95": 95, "p99": 99}.items():
        row[f"{name}_{label}_s"] = f"{cuts[percent - 1]:.4f}" if cuts else ""
    return row


def measure(case: str, seed: int) -> dict[str, object]:
    """One row of the table."""
    lines = defaultdict(list)
    for what, *cells in ns2({**CASES[case], "seed": str(seed)}):
        lines[what].append([float(cell) for cell in cells])
    span_s = END_S - FROM_S
    mbps = float(CASES[case].get("bottleneck_mbps", "20"))
    row: dict[str, object] = {"case": case, "seed": seed, "bottleneck_mbps": f"{mbps:g}"}
    for way in ("forward", "back"):
        arrivals, drops, departed_bytes = lines[way][0]
        row[f"{way}_arrivals"], row[f"{way}_drops"] = round(arrivals), round(drops)
        row[f"{way}_loss_share"] = f"{drops / arrivals:.5f}"
        row[f"{way}_utilization_share"] = f"{departed_bytes * 8 / span_s / mbps / 1e6:.4f}"
        row[f"{way}_per_user_kbps"] = f"{departed_bytes * 8 / span_s / PAIRS / 1e3:.2f}"
    row |= times("page", "pages", [page[0] for page in lines["page"]], (5, 10))
    row["page_objects"] = sum(round(page[1]) for page in lines["page"])
    row["page_bytes"] = sum(round(page[2]) for page in lines["page"])
    row |= times("echo", "echoes", [echo[0] for echo in lines["echo"]], (0.15, 0.5, 1))
    for name, label in {"ftp": "file", "reverse": "reverse_file"}.items():
        row[f"{label}s"] = len(lines[name])
        row[f"{label}_bytes"] = sum(round(file[1]) for file in lines[name])
    return row


def single(what: str, rtt_ms: int, packets: int, objects: str, lost: str, time_s: str) -> dict[str, object]:
    """A row of the table of what one does alone."""
    names = ("what", "rtt_ms", "packets", "objects", "lost", "time_s")
    return dict(zip(names, (what, rtt_ms, packets, objects, lost, time_s), strict=True))


def alone(what: str, rtt_ms: int, packets: int, objects: str, lost: str) -> dict[str, object]:
    """One page or file on the idle network."""
    ways = (LOSSES if what == "page" else FILE_LOSSES)[lost]
    options = {"only": f"{what} {RTTS_MS.index(rtt_ms)}", "packets": str(packets), "objects": objects}
    lines = ns2(options | {f"lost_{way}": number for way, number in ways.items()})
    return single(what, rtt_ms, packets, objects, lost, next(line[1] for line in lines if line[0] == what))


def echo(rtt_ms: int) -> dict[str, object]:
    """The second echo of a Telnet session on the idle network: the first one waits for the handshake."""
    lines = ns2({"only": f"telnet {RTTS_MS.index(rtt_ms)}", "end_s": "20"})
    return single("echo", rtt_ms, 1, "", "", [line[1] for line in lines if line[0] == "echo"][1])


def write(name: str, rows: Sequence[dict[str, object]]) -> None:
    """A table with the columns of its first row."""
    with (FOLDER / name).open("w", encoding="utf-8", newline="") as opened:
        table = csv.DictWriter(opened, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


def main() -> None:
    """Measures all of it again."""
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    rows = [echo(rtt_ms) for rtt_ms in RTTS_MS]
    for rtt_ms in RTTS_MS:
        rows += [alone("page", rtt_ms, 1, objects, "") for objects in ("", "1 1", "1 1 1 1 1")]
        rows += [alone("page", rtt_ms, 10, "", lost) for lost in LOSSES]
        rows += [alone("file", rtt_ms, 10, "", lost) for lost in FILE_LOSSES]
    write("diffserv_single.csv", rows)
    with ThreadPoolExecutor(PARALLEL) as pool:
        runs = product(CASES, range(1, seeds + 1))
        write("diffserv_tree.csv", list(pool.map(lambda run: measure(*run), runs)))


if __name__ == "__main__":
    main()

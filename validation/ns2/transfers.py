"""Measures the transfers of python/catnip/reference/ns2/transfers.csv with ns-2, packet by packet.

    python3 validation/ns2/transfers.py

It writes transfers_packets.csv beside it, and the phase of each connection's clock into transfers.csv.
Debian's package ns2 must be installed.
"""

import csv
import subprocess
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parents[1] / "python" / "catnip" / "reference" / "ns2"
INPUTS = ("preset", "variant", "delayed_ack", "window", "packets", "queue_limit", "rate_mbps", "delay_ms")


def measure(row: dict[str, str]) -> tuple[list[list[str]], str]:
    """The packets that the sender handed to the link and the ACKs that it got; and its phase, in ticks."""
    lost = row["lost"].replace(" ", ",")
    command = ["ns", str(HERE / "transfers.tcl"), *(row[name] for name in INPUTS), lost, row["seed"]]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    return packets(line.split() for line in ended.stdout.splitlines())


def packets(trace: Iterable[list[str]]) -> tuple[list[list[str]], str]:
    """The rows of one transfer: time, event, number, cwnd after it, bytes on the wire."""
    rows: list[list[str]] = []
    cwnd, phase = "", ""
    queued: set[str] = set()
    for words in trace:
        if words[0] == "phase":
            phase = words[1]
        elif words[-2] == "cwnd_":
            cwnd = words[-1]
            if rows and rows[-1][1] == "ack" and abs(float(rows[-1][0]) - float(words[0])) < 2e-5:
                rows[-1][3] = cwnd
        else:
            event, time_s, source, target, kind, wire_bytes = words[:6]
            number, packet = words[-2:]
            offered = event == "+" or (event == "d" and packet not in queued)
            if kind == "tcp" and source == "0" and offered:
                queued.add(packet)
                rows.append([time_s, "send", number, cwnd, wire_bytes])
            elif kind == "ack" and event == "r" and target == "0":
                rows.append([time_s, "ack", number, cwnd, wire_bytes])
    return rows, phase


def main() -> None:
    """Measures all of them again."""
    with (FOLDER / "transfers.csv").open(encoding="utf-8", newline="") as opened:
        transfers = list(csv.DictReader(opened))
    with (FOLDER / "transfers_packets.csv").open("w", encoding="utf-8", newline="") as opened:
        writer = csv.writer(opened, lineterminator="\n")
        writer.writerow(["transfer", "time_s", "event", "seq", "cwnd", "wire_bytes"])
        for row in transfers:
            rows, row["phase"] = measure(row)
            writer.writerows([row["transfer"], *cells] for cells in rows)
    with (FOLDER / "transfers.csv").open("w", encoding="utf-8", newline="") as opened:
        table = csv.DictWriter(opened, list(transfers[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(transfers)


if __name__ == "__main__":
    main()

"""Packet traces as rows and as CSV, in the format of the ns-2 traces under python/catnip/reference."""

import csv
import math
from collections.abc import Iterator
from typing import Any, TextIO

import numpy as np

from catnip.store.tables import Table

FIELDS = ("time", "event", "seq", "cwnd", "ssthresh", "dupacks", "size")


def rows(events: Table) -> Iterator[dict[str, Any]]:
    """Yields one dictionary per event, in which None replaces values that the event does not have.

    A timeout belongs to no packet, and the end of a transfer has only a time.
    """
    columns = [events["time_s" if field == "time" else field] for field in (*FIELDS, "high")]
    for time, event, seq, cwnd, ssthresh, dupacks, size, high in zip(*columns, strict=True):
        of_packet, of_sender = event not in ("rto", "done"), event != "done"
        yield {
            "time": float(time),
            "event": event,
            "seq": int(seq) if of_packet else None,
            "cwnd": round(float(cwnd), 3) if of_sender else None,
            "ssthresh": round(float(ssthresh), 3) if of_sender and not math.isnan(ssthresh) else None,
            "dupacks": int(dupacks) if of_sender else None,
            "size": int(size) if of_packet else None,
            "high": bool(high) if event == "send" else None,
        }


def write_csv(file: TextIO, events: Table) -> None:
    """Writes events as CSV rows: times to the microsecond, windows in packets, blanks for missing values."""
    writer = csv.DictWriter(file, FIELDS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for row in rows(events):
        windows = {key: "" if row[key] is None else f"{row[key]:.7g}" for key in ("cwnd", "ssthresh")}
        writer.writerow(row | windows | {"time": f"{row['time']:.6f}"})


def outline(events: Table) -> dict[str, int | float | None]:
    """Returns the completion time of a traced transfer, and its numbers of packets and timeouts."""
    kinds = list(events["event"])
    seqs = [int(seq) for seq, kind in zip(events["seq"], kinds, strict=True) if kind == "send"]
    times = [float(time) for time, kind in zip(events["time_s"], kinds, strict=True) if kind == "done"]
    return {
        "completed_s": times[-1] if times else None,
        "sent": len(seqs),
        "retransmitted": len(seqs) - len(set(seqs)),
        "dropped": kinds.count("drop"),
        "timeouts": kinds.count("rto"),
    }


def connections_outline(connections: Table) -> dict[str, float]:
    """Returns the totals of connection vectors; the rate counts only the data of the responses."""
    starts = np.asarray(connections["start_us"], dtype=np.float64)
    sent_bytes = {
        end: int(np.sum(np.asarray(connections[f"{end}_bytes"]))) for end in ("initiator", "acceptor")
    }
    over_s = float(np.ptp(starts)) / 1e6
    return {
        "connections": len(starts),
        "epochs": int(np.sum(np.asarray(connections["epochs"]))),
        "request_bytes": sent_bytes["initiator"],
        "response_bytes": sent_bytes["acceptor"],
        "opened_over_s": over_s,
        "response_bit_per_s": 8 * sent_bytes["acceptor"] / over_s if over_s else 0.0,
    }

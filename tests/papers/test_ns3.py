"""Tests of today's queues against ns-3's: equal transfers over one bottleneck have similar results."""

import csv
from functools import cache
from typing import Any

import numpy as np
import pytest

import catnip
from catnip.base import paths

# As in ns-3, nothing but starts is random in these networks.
pytestmark = pytest.mark.filterwarnings("ignore:.*nothing but starts is random")

TABLE = paths.REFERENCE / "ns3" / "dumbbell.csv"
SEEDS = 10
QUEUES = {
    "codel": "codel:1000,ecn=false",
    # ns-3's quantum is the MTU.
    "fq-codel": "fq-codel:1000,ecn=false,quantum=1500B",
    "pie": "pie:1000,even=false,ecn=false",
    "red-step": "red:1000,min=20,max=21,weight=1,max_p=1,mean_packet=1500,wait=false,hard=false,ecn=true",
}
MARKS = {"control": "dctcp", "ecn": "exact"}
COLUMNS = ("goodput_mbps", "sojourn_ms", "dropped_pct", "marked_pct")
GOODPUT = 0.01
"""Largest relative difference of mean goodputs that counts as agreement; goodputs hardly vary between
seeds."""
RECOVERIES = ("rack", "sack")
GOODPUT_OF, WAITING, LOST, MARKED = COLUMNS
ALIKE = {"rfc6675": "sack", "dctcp-once": "rack"}
"""Loss recovery of this simulator that behaves like a sender of ns-3, by the name of that sender."""
OPEN_OF_ALIKE = {("fq-codel", "rfc6675", "sack"): {GOODPUT_OF, WAITING}}
OPEN_OF_OTHERS = {
    ("codel", "linux-reno", "rack"): {WAITING, LOST},
    ("codel", "linux-reno", "sack"): {WAITING, LOST},
    ("codel", "reno", "sack"): {LOST},
    ("codel", "rfc6675", "rack"): {LOST},
    ("fq-codel", "linux-reno", "rack"): {WAITING, LOST},
    ("fq-codel", "linux-reno", "sack"): {GOODPUT_OF, WAITING, LOST},
    ("fq-codel", "reno", "rack"): {GOODPUT_OF, WAITING, LOST},
    ("fq-codel", "reno", "sack"): {GOODPUT_OF, WAITING, LOST},
    ("fq-codel", "rfc6675", "rack"): {GOODPUT_OF, WAITING, LOST},
    ("pie", "linux-reno", "rack"): {LOST},
    ("pie", "linux-reno", "sack"): {LOST},
    ("pie", "reno", "sack"): {LOST},
    ("pie", "rfc6675", "rack"): {LOST},
    ("red-step", "dctcp", "rack"): {WAITING, MARKED},
    ("red-step", "dctcp", "sack"): {WAITING, MARKED},
    ("red-step", "dctcp-once", "sack"): {WAITING, MARKED},
}
"""Columns that do not agree for senders that are not in `ALIKE`, by queue, ns-3's sender and our loss
recovery (docs/deviations.md)."""


@cache
def ours(queue: str, recovery: str) -> dict[str, np.ndarray]:
    """Simulates the network of validation/ns3/dumbbell.cc; returns the columns of its table by seed."""
    access = {"rate": "1Gbit", "delay": "1ms", "queue": "drop-tail:10000"}
    # ns-3's line sends 1502 bytes, two of them PPP's, in the time in which this line sends 1500.
    line = {
        "rate": "19973368bit",
        "delay": "28ms",
        "queue": QUEUES[queue],
        "back": {"queue": "drop-tail:1000"},
    }
    scenario: dict[str, Any] = {
        "id": "X",
        "title": "Eight transfers",
        "duration": "70s",
        "warm_up": "10s",
        "node": {
            # Hosts of ns-3 process packets at once.
            **{name: {"kind": "host", "processing": "none", "count": 8} for name in ("a", "b")},
            **{name: {"kind": "router"} for name in ("r", "s")},
        },
        "link": {
            "in": {"from": "a", "to": "r", **access},
            "line": {"from": "r", "to": "s", **line},
            "out": {"from": "s", "to": "b", **access},
        },
        "tcp": {
            "profile": "rfc",
            "recovery": recovery,
            "segment": "1448B",
            "window_segments": 8000,
            "delayed_ack": False,
            **(MARKS if queue == "red-step" else {}),
        },
        "traffic": {
            "t": {
                "kind": "bulk",
                "from": "a",
                "to": "b",
                "bytes": "endless",
                "start": "uniform:minimum=0s,maximum=1s",
            }
        },
    }
    results = catnip.run(scenario, seeds=SEEDS, tables=["groups", "ports"])
    ports = results.to_pandas("ports")
    port = ports[ports["port"] == "line"]
    arrived, dropped = (
        sum(port[f"{counter}_{priority}"] for priority in ("high", "med", "low"))
        for counter in ("arrived", "dropped")
    )
    return {
        "goodput_mbps": results.to_pandas("groups")["goodput_mbps"].to_numpy(),
        "sojourn_ms": 1e3 * port["queue_delay_mean_s"].to_numpy(),
        "dropped_pct": (100 * dropped / arrived).to_numpy(),
        "marked_pct": (100 * port["marked"] / arrived).to_numpy(),
    }


def theirs() -> dict[tuple[str, str], dict[str, np.ndarray]]:
    """Returns the columns of ns-3's results, by queue and sender."""
    with TABLE.open(encoding="utf-8", newline="") as opened:
        rows = list(csv.DictReader(opened))
    cases = dict.fromkeys((row["queue"], row["tcp"]) for row in rows)
    return {
        case: {
            column: np.array([float(row[column]) for row in rows if (row["queue"], row["tcp"]) == case])
            for column in COLUMNS
        }
        for case in cases
    }


def agree(column: str, one: np.ndarray, other: np.ndarray) -> bool:
    """Returns true if the ranges of a column over the seeds overlap; for goodput, close means suffice."""
    assert len(one) == len(other) == SEEDS
    if column == "goodput_mbps" and one.mean() == pytest.approx(other.mean(), rel=GOODPUT):
        return True
    return bool(one.min() <= other.max() and other.min() <= one.max())


@cache
def off() -> dict[tuple[str, str, str], set[str]]:
    """Returns the columns that do not agree, by queue, ns-3's sender and our loss recovery."""
    columns = {
        (queue, tcp, recovery): {
            one for one in COLUMNS if not agree(one, ours(queue, recovery)[one], known[one])
        }
        for (queue, tcp), known in theirs().items()
        for recovery in RECOVERIES
    }
    return {case: these for case, these in columns.items() if these}


def is_alike(tcp: str, recovery: str) -> bool:
    """Returns true if ns-3's sender `tcp` behaves like our loss recovery `recovery`."""
    return ALIKE.get(tcp) == recovery


def test_behind_queues_of_today_senders_that_do_the_same_agree_with_ns3_but_for_fq_codel() -> None:
    assert set(ALIKE) <= {tcp for _, tcp in theirs()}
    assert {case: columns for case, columns in off().items() if is_alike(*case[1:])} == OPEN_OF_ALIKE


def test_behind_queues_of_today_it_is_known_where_other_senders_do_not_agree_with_ns3() -> None:
    assert {case: columns for case, columns in off().items() if not is_alike(*case[1:])} == OPEN_OF_OTHERS

"""Configurations (cells) that change one factor each, and cumulative steps from hosts of 2002 to today's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TypeAlias

Changes: TypeAlias = Sequence[tuple[str, str]]
"""Keys of a scenario to change and their values, as `catnip run --set` takes them."""


@dataclass(frozen=True)
class PageSet:
    """Set of pages with the line over which they are loaded, which has a scenario of its own."""

    scenario: str
    says: str
    product: int
    """Bandwidth-delay product of the line, packets of 1500 bytes."""
    seeds: int
    counted_s: tuple[float, float]
    """Range of the start times of counted pages, s: after the file transfer's slow start, and early enough to
    finish."""
    margin_s: float
    """Time that a run lasts after the last counted page began, s."""
    own: Mapping[str, Changes] = field(default_factory=dict)
    """Cells of its own in place of those of hosts, buffers and traffic; only the base has all queues."""

    def lasting(self, share: float) -> tuple[tuple[float, float], Changes]:
        """Returns the range of start times of a share of the pages, and the duration of such a run."""
        first_s, last_s = self.counted_s
        last_s = first_s + share * (last_s - first_s)
        return (first_s, last_s), [("duration", f"{last_s + self.margin_s:g}s")]

    def cells(self) -> Mapping[str, Changes]:
        """Returns the changes of each cell by its name; the first cell is the base, without changes."""
        return {
            BASE: (),
            **(self.own or {**_of_hosts(), **_of_buffers(self.product), **_of_traffic()}),
        }

    def cell(self, name: str) -> tuple[Changes, Sequence[str]]:
        """Returns the changes of a cell, of one of `BEYOND` too, and the queues behind which it runs."""
        cells = self.cells()
        if name not in cells:
            return BEYOND[name], BEYOND_QUEUES
        return cells[name], BEYOND_QUEUES if name in self.own else QUEUES


TEN = PageSet("today", "the ten pages", 50, 20, (10, 90), 30)
MIX = PageSet("today-mix", "pages of today", 100, 10, (10, 180), 60)
PAGE_SETS = {"ten": TEN, "mix": MIX}
"""Sets of pages with a cell for each single factor."""


def _of_sites(*changes: tuple[str, str]) -> Changes:
    return [(f"traffic.{group}.{key}", value) for group in ("web", "other") for key, value in changes]


FETCHES: Mapping[str, Changes] = {
    "HTTP/1.1": _of_sites(("http", '"1.1"')),
    "names known": _of_sites(("look_ups", "none")),
    "without TLS": _of_sites(("tls", "none")),
    "HTTP/1.1, names known, without TLS": _of_sites(("http", '"1.1"'), ("look_ups", "none"), ("tls", "none")),
    "handshakes resumed": _of_sites(("tls", "resumed")),
    "without priorities": _of_sites(("priorities", "none")),
    "open connections": _of_sites(("keep_alive", "true")),
    "open connections, newCWV": _of_sites(("keep_alive", "true"), ("tcp.validation", "newcwv")),
}
"""Changes of the parts of a fetch, by cell."""
SITES = PageSet("today-sites", "sites with names, TLS and HTTP/2", 100, 10, (10, 180), 60, FETCHES)
ALL_SETS = {**PAGE_SETS, "sites": SITES}

BASE = "as Linux does"
HALF, UNMARKED, ALONE = "half of the servers mark", "handshake unmarked", "no file transfer"
TWO_HOSTS = "pages from two hosts"
DROP_TAIL, FQ_CODEL = "DropTail", "FQ-CoDel"
CONTEXT = ("CATNIP-Good", "CATNIP-RED", "three-level RED")
BLIND = ("RED", "CoDel", FQ_CODEL, "PIE", "DualPI2", "CAKE", "CAKE, dual-dsthost")
"""Queues that ignore CATNIP's marks."""
QUEUES = (DROP_TAIL, *CONTEXT, *BLIND)

BEYOND_QUEUES = (DROP_TAIL, "CATNIP-Good", "CATNIP-RED", FQ_CODEL, "DualPI2")

STEPS: Mapping[str, Changes] = {
    "the paper's hosts": (),
    "SACK": (("tcp.recovery", "sack"),),
    "first timeout 1 s": (("tcp.rto_first", "1s"), ("tcp.rto_min", "200ms"), ("tcp.rto_tick", "1ms")),
    "initial window 10": (("tcp.initial_window_segments", "10"),),
    "Linux, with Reno": (
        ("tcp.profile", "linux-6"),
        ("tcp.recovery", "rack"),
        ("tcp.control", "reno"),
        ("tcp.segment", "460B"),
        ("tcp.marker", "spm:handshake=high"),
    ),
    "CUBIC": (("tcp.control", "linux-cubic"),),
    "full segments": (("tcp.segment", "1448B"),),
}
"""Changes to the hosts of 2002 that each step adds to those of the preceding steps, by the step's name.
Packets have 512 bytes until the last step."""

LOSSES = {
    "0.1 % lost": "bernoulli:0.001",
    "1 % lost": "bernoulli:0.01",
    "5 % lost": "bernoulli:0.05",
    "1 % lost in bursts": "gilbert-elliott:to_bad=0.002525,to_good=0.25,loss_bad=1",
    "5 % lost in bursts": "gilbert-elliott:to_bad=0.01316,to_good=0.25,loss_bad=1",
}
"""Losses behind the line's queue, whatever the marks; bursts have four packets on average."""
RADIO: Mapping[str, Changes] = {
    "AT&T's LTE": [
        ("link.line.there.rate", "trace:traces/att-lte-2016.trace"),
        # As many users as make a line of 4.6 Mbit/s lose some 4 % of the packets.
        ("node.reader.count", "10"),
        ("node.other-reader.count", "10"),
    ],
    "T-Mobile's LTE": [("link.line.there.rate", "trace:traces/t-mobile-lte-2012.trace")],
}
"""Recorded rates of the line in place of its 10 Mbit/s; traces/README.md says whose they are."""
RECOVERIES: Mapping[str, Changes] = {"": (), ", without RACK": [("tcp.recovery", "sack")]}
BESIDE_PRAGUE = "others by Prague"


def _beyond() -> Mapping[str, Changes]:
    lost = {name: [("link.line.there.loss", loss)] for name, loss in LOSSES.items()}
    of_radio = {
        f"{radio}{lossy}": [*RADIO[radio], *(lost[lossy.removeprefix(", ")] if lossy else ())]
        for radio, lossy in product(RADIO, ("", ", 1 % lost", ", 1 % lost in bursts"))
    }
    recovered = product((lost | of_radio).items(), RECOVERIES.items())
    by_prague = {"control": "prague", "ecn": "l4s", "pacing": "rate:1"}
    return {
        **{name + recovery: [*changes, *of_hosts] for (name, changes), (recovery, of_hosts) in recovered},
        BESIDE_PRAGUE: [(f"traffic.other.tcp.{key}", value) for key, value in by_prague.items()],
    }


BEYOND = _beyond()
"""Cells that a hostile reader asks for: lossy lines and recorded ones, with and without RACK-TLP, and
senders of two kinds."""


def step(name: str) -> Changes:
    """Returns the changes of a step of `STEPS` and of all preceding steps."""
    names = list(STEPS)
    upto = names[: names.index(name) + 1]
    return list(dict(change for one in upto for change in STEPS[one]).items())


def _of_hosts() -> Mapping[str, Changes]:
    return {
        "Reno": [("tcp.control", "reno")],
        "BBR": [("tcp.control", "bbr")],
        "initial window 1": [("tcp.initial_window_segments", "1")],
        "initial window 3": [("tcp.initial_window_segments", "3")],
        "first timeout 3 s": [("tcp.rto_first", "3s")],
        "without RACK": [("tcp.recovery", "sack")],
        "L4S": [("tcp.control", "prague"), ("tcp.ecn", "l4s"), ("tcp.pacing", "rate:1")],
        "ECN": [("tcp.ecn", "classic"), ("define.red", "gentle=true,mean_packet=1500,ecn=true,hard=false")],
    }


def _of_buffers(product: int) -> Mapping[str, Changes]:
    sizes = {"10 packets of buffer": 10, "half a product of buffer": product // 2}
    sizes |= {"two products of buffer": 2 * product}
    return {name: [("define.buffer", str(packets))] for name, packets in sizes.items()}


def _of_traffic() -> Mapping[str, Changes]:
    return {
        UNMARKED: [("define.handshake", "low")],
        HALF: [("define.others", "none")],
        ALONE: [("traffic.file", "none")],
        TWO_HOSTS: [("node.server.count", "1"), ("node.other-server.count", "1")],
    }

"""Quantities of the tree and of each traffic source alone: IDS-S1 to S7, and the load of IDS-E1."""

from collections.abc import Sequence

import numpy as np

from catnip.analysis import measures, stats
from catnip.analysis.interval import Interval
from catnip.base import paths
from catnip.papers.diffserv.runs import (
    COUNTED_S,
    DROP_TAIL,
    GROUPS,
    RTTS_MS,
    WEB_10,
    WEB_11,
    TreeRuns,
    typists,
)
from catnip.papers.quantity import Quantities
from catnip.papers.reference import number
from catnip.papers.rows import Rows, where
from catnip.papers.single_transfer import trace

measured = Quantities()

ECHO_BYTES = 100
HOPS_BPS = 2 * tuple(1e6 * number(id) for id in ("dsp05", "dsp06", "dsp07"))
"""Rates of the links between a user and its source, bit/s, except the bottleneck (`ALONE_BPS`)."""
ALONE_BPS = 1e9
LARGE_FILE = 1e6


@measured
def echo_off_us(runs: TreeRuns, rtt_ms: int) -> float:
    """IDS-S1: absolute difference between the fastest echo with a round trip and its calculated time, us."""
    echoes = runs.of("diffserv-alone", "probes").echoes
    fastest_s = float(echoes.of(typists(rtt_ms)).seconds.min())
    crossing_s = sum(8 * ECHO_BYTES / bps for bps in (*HOPS_BPS, ALONE_BPS))
    return abs(fastest_s - (rtt_ms / 1e3 + 2 * crossing_s)) * 1e6


@measured
def pairs(runs: TreeRuns) -> str:
    """IDS-S1: number of users who fetch files."""
    connections = runs.first("diffserv-alone", "FTP").connections
    return str(sum(len(np.unique(connections[group].user)) for group in ("ftp", "ftp-probe")))


@measured
def timeouts(
    _runs: TreeRuns,
    recovery: str,
    lost: Sequence[int],
    packets: int = 100,
    rate: str = "1Mbit",
    delay: str = "50ms",
) -> int:
    """IDS-S2: number of timeouts of a transfer that loses the packets `lost`.

    The defaults are the link and the size of ns-2's trace.
    """
    options = {"recovery": recovery, "rate": rate, "delay": delay, "queue": "drop-tail:1000", "window": 64}
    return list(trace("ns2-2.35", packets, lost, **options)["event"]).count("rto")


@measured
def keystrokes_per_s(runs: TreeRuns) -> Interval:
    """IDS-S3: keystrokes per second of one Telnet user, without other traffic in the network."""
    users = len(np.unique(runs.of("diffserv-alone", "Telnet").echoes.user))
    return stats.mean(runs.of("diffserv-alone", "Telnet").echoes.counts() / COUNTED_S / users)


@measured
def telnet_mbps(runs: TreeRuns) -> Interval:
    """IDS-S3: load of all Telnet echoes on the bottleneck, headers included, Mbit/s."""
    return stats.mean(runs.of("diffserv-alone", "Telnet").forward.bps / 1e6)


@measured
def keystrokes_before_the_echo(runs: TreeRuns) -> str:
    """IDS-S3: number of keystrokes that did not wait for the echo of the preceding one."""
    user, start, end = runs.first_of_tree(DROP_TAIL, 100).keystrokes_s.T
    # An end is the sum of two times, so it is accurate only to some nanoseconds.
    return str(int(((user[1:] == user[:-1]) & (start[1:] < end[:-1] - 1e-8)).sum()))


@measured
def connections_of_a_page(runs: TreeRuns, http: str) -> str:
    """IDS-S4, S5: smallest and largest number of connections that a measured page takes."""
    counts = runs.of("diffserv-alone", "probes").page_connections[GROUPS[http]]
    return " to ".join(str(int(count)) for count in np.unique([counts.min(), counts.max()]))


@measured
def connections_at_a_time(runs: TreeRuns) -> str:
    """IDS-S4: largest number of simultaneous connections of an HTTP/1.0 user, in an idle network."""
    rows = _alone(runs, "connections", WEB_10)
    max_count = 0
    for client in np.unique(rows["client"]):
        start, end = (rows[key][rows["client"] == client] for key in ("start_s", "received_s"))
        max_count = max(max_count, measures.max_concurrent(start, end))
    return str(max_count)


@measured
def idle_round_trips(runs: TreeRuns) -> float:
    """IDS-S4: time of the fastest page at a round trip of 200 ms in an idle network, in round trips."""
    pages = runs.of("diffserv-alone", "pages").pages[WEB_10]
    return float(pages.of(_pages_with_rtt(4)).seconds.min()) / (RTTS_MS[4] / 1e3)


@measured
def round_trips_of_handshakes(runs: TreeRuns) -> float:
    """IDS-S4: extra time of the fastest page due to handshakes at a round trip of 200 ms, in round trips.

    A handshake precedes the HTML, and handshakes precede each of two batches of four images.
    """
    with_them, without = (
        float(runs.of("diffserv-alone", name).pages[WEB_10].of(_pages_with_rtt(4)).seconds.min())
        for name in ("pages", "pages without handshakes")
    )
    return (with_them - without) / (RTTS_MS[4] / 1e3)


@measured
def longest_gap(runs: TreeRuns) -> float:
    """IDS-S5: longest gap between the ends of two images of an HTTP/1.1 page, in transmission times.

    The unit is the transmission time of an image. The round trip is 20 ms and the network is otherwise empty.
    """
    rows = _alone(runs, "objects", WEB_11)
    is_nearest = rows["client"] == np.unique(rows["client"])[_pages_with_rtt(0, offset=1)[0]]
    image = is_nearest & (rows["object"] > 0)
    ends = (rows["start_s"] + rows["time_s"])[image]
    same_page = np.diff(rows["page"][image]) == 0
    packets = 10
    one_s = 8 * packets * (1000 + 40) / (1e6 * number("dsp05"))
    return float(np.diff(ends)[same_page].max() / one_s)


@measured
def idle_page_spread_pct(runs: TreeRuns) -> float:
    """IDS-S4: largest coefficient of variation of HTTP/1.0 page times in an idle network, percent.

    Each round trip has a coefficient of variation; the largest one counts.
    """
    pages = runs.of("diffserv-alone", "pages").pages[WEB_10]
    of_rtt = [pages.of(_pages_with_rtt(index)).seconds for index in range(len(RTTS_MS))]
    return float(100 * max(times.std(ddof=1) / times.mean() for times in of_rtt))


@measured
def file_mean_off_pct(runs: TreeRuns) -> float:
    """IDS-S6: relative difference between the mean generated file size and the distribution's mean, percent.

    Both means count sizes above 1 MB as 1 MB.
    """
    sizes = runs.of("diffserv-alone", "FTP").file_bytes["ftp"].astype(float)
    shape, minimum = number("dsp25"), 1e3 * number("dsp24") * (number("dsp25") - 1) / number("dsp25")
    expected = minimum * (shape - (minimum / LARGE_FILE) ** (shape - 1)) / (shape - 1)
    return float(100 * abs(np.minimum(sizes, LARGE_FILE).mean() / expected - 1))


@measured
def back_over_forward(runs: TreeRuns) -> Interval:
    """IDS-S6: ratio of the bottleneck's utilization towards the sources to that towards the users."""
    tree = runs.tree(DROP_TAIL, 100)
    return stats.ratio(tree.back.utilization, tree.forward.utilization)


@measured
def files_alone_mbps(runs: TreeRuns) -> Interval:
    """IDS-S6: load of all file transfers without other traffic, with ten times the capacity, Mbit/s."""
    return stats.mean(runs.of("diffserv-alone", "FTP").forward.bps / 1e6)


@measured
def page_sizes(runs: TreeRuns, http: str) -> str:
    """IDS-S7: distinct sizes of the measured pages, bytes."""
    sizes = runs.tree(DROP_TAIL, 100).page_bytes[GROUPS[http]]
    return ", ".join(str(int(size)) for size in np.unique(sizes))


@measured
def file_sizes(runs: TreeRuns) -> str:
    """IDS-S7: distinct sizes of the measured files, bytes."""
    return ", ".join(str(int(size)) for size in np.unique(runs.tree(DROP_TAIL, 100).file_bytes["ftp-probe"]))


@measured
def sessions(runs: TreeRuns, group: str) -> str:
    """IDS-S7: number of users of a measured traffic group."""
    tree = runs.of("diffserv-alone", "probes")
    by_group = tree.pages if group in tree.pages else tree.connections
    return str(len(np.unique(by_group[group].user)))


@measured
def web_alone_mbps(runs: TreeRuns) -> Interval:
    """IDS-E1: load of all Web users without other traffic and without loss, headers included, Mbit/s."""
    return stats.mean(runs.of("diffserv-alone", "Web").forward.bps / 1e6)


def _pages_with_rtt(index: int, offset: int = 0) -> list[int]:
    """Returns the indices of the measured Web users whose round trip is `RTTS_MS[index]`.

    The numbers of measured users are 42 apart and begin with `offset`.
    """
    return [user for user in range(10) if (offset + 42 * user) % len(RTTS_MS) == index]


def _alone(runs: TreeRuns, table: str, group: str) -> Rows:
    """Returns a table's rows of a group of measured pages, from a run in an otherwise empty network."""
    tables = runs.cached("pages alone", lambda: _pages_alone(runs.first_seed))
    # The table of objects has no group; users are numbered group by group.
    connections = tables["connections"]
    clients = np.unique(connections["client"][connections["group"] == group])
    rows = tables[table]
    return where(rows, np.isin(rows["client"], clients))


def _pages_alone(seed: int) -> dict[str, Rows]:
    tables = ["connections", "objects"]
    results = paths.scenario("diffserv-alone").run(["pages"], [seed], tables)
    return {name: measures.select(results[name], 0) for name in tables}

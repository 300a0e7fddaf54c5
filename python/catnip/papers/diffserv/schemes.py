"""Quantities of congestion and of each marking scheme: IDS-E1 to E9."""

import numpy as np

from catnip.analysis import stats
from catnip.analysis.interval import Interval
from catnip.analysis.measures import Floats
from catnip.papers.diffserv.runs import (
    APPL_250,
    DROP_TAIL,
    GROUPS,
    RATES_MBPS,
    RED,
    TCP_DS,
    WEB_10,
    WEB_11,
    Result,
    Times,
    TreeRuns,
    ratio,
    share_pct,
    typists,
)
from catnip.papers.quantity import Quantities

measured = Quantities()
SLOW_LINKS = (DROP_TAIL, RED, APPL_250, TCP_DS, *(f"{weight} % for Telnet" for weight in (5, 10, 20, 30)))
"""Variants of the network of slow links whose echoes are drawn."""
REVERSE = ("all", "a quarter", "none")
TIMED_OUT_S = 1.0
"""Lower bound of all retransmission timeouts, s."""


@measured
def loss_pct(runs: TreeRuns, scheme: str, rate_mbps: float) -> Interval:
    """Share of packets that the bottleneck towards the users drops, percent."""
    return share_pct(runs.tree(scheme, rate_mbps).forward.loss())


@measured
def loss_falls_with_rate(runs: TreeRuns) -> Interval:
    """IDS-E1: fall of the loss over drop tail to a faster bottleneck, least over all pairs, points."""
    return stats.descent([100 * runs.tree(DROP_TAIL, rate).forward.loss() for rate in RATES_MBPS])


@measured
def pages_above_pct(
    runs: TreeRuns, scheme: str, rate_mbps: float, limit_s: float, http: str = "1.0"
) -> Interval:
    """Share of measured pages that take more than `limit_s`, percent."""
    return share_pct(runs.tree(scheme, rate_mbps).pages[GROUPS[http]].above(limit_s))


@measured
def slow_with_reverse_pct(runs: TreeRuns, reverse: str) -> Interval:
    """IDS-E1: share of pages that take more than 10 s at 60 Mbit/s, percent.

    `reverse` is the part of the users who also send files.
    """
    return share_pct(runs.whole("diffserv-reverse", reverse, *REVERSE).pages[WEB_10].above(10))


@measured
def fewer_slow_with_11(runs: TreeRuns, rate_mbps: float) -> Interval:
    """IDS-E1: share of pages that take more than 10 s, HTTP/1.1 minus HTTP/1.0, percentage points."""
    pages = runs.tree(DROP_TAIL, rate_mbps).pages
    return stats.paired_difference(100 * pages[WEB_11].above(10), 100 * pages[WEB_10].above(10))


@measured
def fewer_slow_with_short_timeout(runs: TreeRuns, rate_mbps: float) -> Interval:
    """IDS-E2: share of pages above 10 s with a first timeout of 1 s minus that with 6 s, in points."""
    known = [f"{DROP_TAIL} / rto_first={first} / rate={rate_mbps}Mbit" for first in ("1s", "6s")]
    short, usual = (runs.whole("diffserv-first-timeout", name, *known).pages[WEB_10] for name in known)
    return stats.paired_difference(100 * short.above(10), 100 * usual.above(10))


@measured
def slow_with_processing_points(runs: TreeRuns) -> Interval:
    """IDS-S1: share of pages above 10 s with hosts that take up to 20 us per packet minus that without.

    In the small tree, drop tail at 60 Mbit/s; percentage points.
    """
    taken = runs.of("diffserv-processing", f"{DROP_TAIL} / rate=12Mbit").pages[WEB_10]
    usual = runs.small(DROP_TAIL, 60).pages[WEB_10]
    return stats.paired_difference(100 * taken.above(10), 100 * usual.above(10))


@measured
def echoes_above_pct(runs: TreeRuns, scheme: str, rate_mbps: float, limit_s: float) -> Interval:
    """Share of echoes that take more than `limit_s`, percent."""
    return share_pct(runs.tree(scheme, rate_mbps).echoes.above(limit_s))


@measured
def echoes_within_pct(runs: TreeRuns, from_s: float, to_s: float) -> Interval:
    """IDS-E3: share of echoes that take from `from_s` to `to_s`, drop tail at 100 Mbit/s, percent."""
    echoes = runs.tree(DROP_TAIL, 100).echoes
    return share_pct(echoes.above(from_s) - echoes.above(to_s))


@measured
def between_the_modes(runs: TreeRuns) -> Interval:
    """IDS-E3: ratio of the number of echoes of 0.6 to 1 s to that of 1 to 1.4 s, drop tail at 100 Mbit/s."""
    above = {limit_s: runs.tree(DROP_TAIL, 100).echoes.above(limit_s) for limit_s in (0.6, 1, 1.4)}
    return stats.ratio(above[0.6] - above[1], above[1] - above[1.4])


@measured
def slow_echoes_fall_with_rate(runs: TreeRuns) -> Interval:
    """IDS-E3: fall of the share of echoes above 1 s to a faster bottleneck, least of all pairs, points.

    The queue is drop tail.
    """
    trees = [runs.tree(DROP_TAIL, rate) for rate in RATES_MBPS]
    return stats.descent([100 * tree.echoes.above(TIMED_OUT_S) for tree in trees])


@measured
def high_packets_dropped(runs: TreeRuns, scheme: str, where: str = "bottleneck") -> str:
    """IDS-E4: number of HIGH packets that a scheme drops, both directions, all rates.

    `where` is `bottleneck`, or `routers` for all of them.
    """
    of = Result.of_routers if where == "routers" else Result.bottleneck
    ports = [port for rate in RATES_MBPS for port in of(runs.tree(scheme, rate))]
    return str(int(sum(port.dropped["high"].sum() for port in ports)))


@measured
def page_time_ratio(runs: TreeRuns, scheme: str, other: str, rate_mbps: float) -> Interval:
    """Ratio of the measured pages' median time with a scheme to that with the scheme `other`."""
    return ratio(runs.tree(name, rate_mbps).pages[WEB_10].quantile(0.5) for name in (scheme, other))


@measured
def scaled_echo_ms(runs: TreeRuns, variant: str, percent: float) -> Interval:
    """IDS-E5: percentile of echo times over slow links, for users with a round trip of 80 ms, ms."""
    return stats.mean(1e3 * slow_echoes(runs, variant).quantile(percent / 100))


@measured
def scaled_echo_ratio(runs: TreeRuns, variant: str, other: str, percent: float) -> Interval:
    """IDS-E5: ratio of a percentile of echo times over slow links with `variant` to that with `other`."""
    return ratio(slow_echoes(runs, name).quantile(percent / 100) for name in (variant, other))


@measured
def file_time_ratio(runs: TreeRuns, scheme: str, other: str, rate_mbps: float) -> Interval:
    """IDS-E6: ratio of the measured files' median time with a scheme to that with the scheme `other`."""
    files = (runs.tree(name, rate_mbps).connections["ftp-probe"] for name in (scheme, other))
    return ratio(one.quantile(0.5) for one in files)


@measured
def page_time_falls_with_rate(runs: TreeRuns, scheme: str) -> Interval:
    """IDS-E7: fall of a scheme's mean page time to a faster bottleneck, least over all pairs, s."""
    trees = [runs.tree(scheme, rate) for rate in RATES_MBPS]
    return stats.descent([tree.pages[WEB_10].per_seed(np.mean) for tree in trees])


@measured
def slow_ratio(runs: TreeRuns, scheme: str, other: str, limit_s: float, http: str = "1.0") -> Interval:
    """IDS-E8, E17: ratio of the share of pages above `limit_s` with a scheme to that with `other`.

    The bottleneck has 100 Mbit/s.
    """
    return ratio(runs.tree(name, 100).pages[GROUPS[http]].above(limit_s) for name in (scheme, other))


@measured
def more_slow_points(runs: TreeRuns, scheme: str, other: str, limit_s: float) -> Interval:
    """IDS-E8: share of pages above `limit_s` with a scheme minus that with `other`, 100 Mbit/s, points."""
    one, two = (100 * runs.tree(name, 100).pages[WEB_10].above(limit_s) for name in (scheme, other))
    return stats.paired_difference(one, two)


@measured
def echo_ratio(runs: TreeRuns, scheme: str, other: str) -> Interval:
    """IDS-E8: ratio of the share of echoes above 1 s with a scheme to that with `other`, at 100 Mbit/s."""
    return ratio(runs.tree(name, 100).echoes.above(TIMED_OUT_S) for name in (scheme, other))


@measured
def files_ratio(runs: TreeRuns, scheme: str, rate_mbps: float, other: str = RED) -> Interval:
    """IDS-E9: ratio of the finished files per second with a scheme to those with the scheme `other`."""
    return ratio(files_per_s(runs.tree(name, rate_mbps)) for name in (scheme, other))


@measured
def measured_pages(runs: TreeRuns, rate_mbps: float) -> Interval:
    """IDS-S20: mean number of measured HTTP/1.0 pages per run over drop tail."""
    return stats.mean(runs.tree(DROP_TAIL, rate_mbps).pages[WEB_10].counts())


def files_per_s(result: Result) -> Floats:
    """Returns the files per second that all users finish, including the measured users, for each run."""
    return result.files_per_s("ftp", "ftp-probe")


def slow_echoes(runs: TreeRuns, variant: str) -> Times:
    """Returns the echo times of users with a round trip of 80 ms, in the network of slow links."""
    return runs.of("diffserv-scaled", variant, *SLOW_LINKS).echoes.of(typists(80))

"""Quantities of variants of the tree: IDS-E10 to E13, parts of E4 and E8; and of a fifth of it: E14, E15."""

from itertools import combinations

import numpy as np

from catnip.analysis import measures, stats
from catnip.analysis.interval import Interval
from catnip.analysis.measures import Floats
from catnip.base import paths
from catnip.papers.diffserv.runs import (
    COUNTED_S,
    DROP_TAIL,
    END_S,
    RED,
    SCHEMES,
    TCP_DS,
    WARM_UP_S,
    WEB_10,
    Result,
    Times,
    TreeRuns,
    ratio,
    share_pct,
)
from catnip.papers.diffserv.schemes import files_per_s
from catnip.papers.quantity import Quantities
from catnip.papers.reference import number

measured = Quantities()

LONG = "diffserv-long"
SAMPLE_S = 4
"""Length of a throughput sample, s; the paper uses 2 to 4 s."""
PIECE_BYTES = 2000
EDGES = ("both sides", "sources")
HOST_BUFFERS = ("64", "1000")
AT_RANDOM = ("nobody", "the Web", "files", "all")
OBJECTS = ("1", "2", "4", "8", "16", "32")
THRESHOLDS = ("1/2", "2/4", "4/8", "8/16", "16/32")
HONEST, POLICED, NOT_POLICED = "honest", "greedy, policed", "greedy, not policed"
GREEDY_USERS = 8


@measured
def variation_ratio(runs: TreeRuns, other: str, rate_mbps: float) -> Interval:
    """IDS-E10: ratio of the variation of a long transfer's throughput with TCP-DS to that with `other`.

    The variation is the coefficient of variation over the samples of a transfer, averaged over transfers.
    """
    return ratio(_variation(runs, scheme, rate_mbps) for scheme in (TCP_DS, other))


@measured
def spread_ratio(runs: TreeRuns, other: str, rate_mbps: float) -> Interval:
    """IDS-E10: ratio of the variation among users' throughputs with TCP-DS to that with `other`.

    The variation is the coefficient of variation of the users' mean throughputs. Each round trip has two
    users.
    """
    return ratio(_spread(runs, scheme, rate_mbps) for scheme in (TCP_DS, other))


@measured
def slow_ratio_of_version(runs: TreeRuns, recovery: str, scheme: str) -> Interval:
    """IDS-E11: ratio of the share of pages that take more than 5 s with `scheme` to that with drop tail.

    All senders use the loss recovery `recovery`.
    """
    return ratio(_version(runs, name, recovery).pages[WEB_10].above(5) for name in (scheme, DROP_TAIL))


@measured
def reversed_pairs(runs: TreeRuns, recovery: str) -> Interval:
    """IDS-E11: number of pairs of schemes whose order the loss recovery `recovery` reverses.

    Schemes are ordered by their share of pages that take more than 5 s. All pairs count, also those that
    hardly differ. Certain are those pairs both of whose differences are apart from zero, with other signs.
    """
    pairs = list(combinations(SCHEMES, 2))
    each = stats.family(2 * len(pairs))
    usual = {name: runs.tree(name, 100).pages[WEB_10].above(5) for name in SCHEMES}
    changed = {name: _version(runs, name, recovery).pages[WEB_10].above(5) for name in SCHEMES}

    def orders(one: str, other: str) -> tuple[Interval, Interval]:
        before, after = (stats.paired_difference(slow[one], slow[other], each) for slow in (usual, changed))
        return before, after

    both = [orders(*pair) for pair in pairs]
    return Interval(
        sum(one.mean * other.mean < 0 for one, other in both),
        sum(one.mean * other.mean < 0 and _apart(one, other) for one, other in both),
        sum(not _agree(one, other) for one, other in both),
        min(one.n for one, _ in both),
    )


@measured
def files_ratio_of_version(runs: TreeRuns, recovery: str, scheme: str) -> Interval:
    """IDS-E11: ratio of the finished files per second with `scheme` to those with RED.

    All senders use the loss recovery `recovery`.
    """
    return ratio(files_per_s(_version(runs, name, recovery)) for name in (scheme, RED))


@measured
def slow_ratio_of_few(runs: TreeRuns, scheme: str) -> Interval:
    """IDS-E11: ratio of the share of pages that take more than 5 s with `scheme` to that with drop tail.

    The network is the small tree.
    """
    return ratio(runs.small(name, 100).pages[WEB_10].above(5) for name in (scheme, DROP_TAIL))


@measured
def deviation_grows_with_objects(runs: TreeRuns) -> Interval:
    """IDS-E12: growth of the standard deviation of page times with the number of images, s.

    It is the least over all pairs of numbers of images.
    """
    results = [runs.whole("diffserv-objects", name, *OBJECTS) for name in reversed(OBJECTS)]
    return stats.descent([result.pages[WEB_10].per_seed(measures.deviation) for result in results])


@measured
def deviation_s(runs: TreeRuns, objects: str) -> Interval:
    """IDS-E12: standard deviation of the times of pages with `objects` images, s."""
    pages = runs.whole("diffserv-objects", objects, *OBJECTS).pages[WEB_10]
    return stats.mean(pages.per_seed(measures.deviation))


@measured
def time_falls_with_thresholds(runs: TreeRuns, traffic: str, last: str = THRESHOLDS[-1]) -> Interval:
    """IDS-E13: fall of the mean page or file time from thresholds to higher ones, least of all pairs, s."""
    pairs = THRESHOLDS[: THRESHOLDS.index(last) + 1]
    return stats.descent([_with_thresholds(runs, pair, traffic).per_seed(np.mean) for pair in pairs])


@measured
def with_thresholds_s(runs: TreeRuns, thresholds: str, traffic: str) -> Interval:
    """IDS-E13: mean time of the measured pages or files with a pair of thresholds, s."""
    return stats.mean(_with_thresholds(runs, thresholds, traffic).per_seed(np.mean))


@measured
def edge_slow_ratio(runs: TreeRuns, side: str) -> Interval:
    """IDS-E8: ratio of the share of pages that take more than 5 s with marking at the edges to that with RED.

    `side` is `sources` if only the sources' edge marks, or `both sides`.
    """
    known = (*EDGES, RED)
    return ratio(runs.whole("diffserv-edge", name, *known).pages[WEB_10].above(5) for name in (side, RED))


@measured
def slow_echoes_by_host_buffer_pct(runs: TreeRuns, packets: str) -> Interval:
    """IDS-E4: share of echoes that take more than 1 s with APPL-250K at 175 Mbit/s, percent.

    `packets` is the size of the hosts' buffers.
    """
    return share_pct(runs.whole("diffserv-hosts", packets, *HOST_BUFFERS).echoes.above(1))


@measured
def high_packets_dropped_by_hosts(runs: TreeRuns, packets: str) -> str:
    """IDS-E4: number of HIGH packets that hosts with buffers of `packets` packets drop."""
    ports = runs.whole("diffserv-hosts", packets, *HOST_BUFFERS).of_hosts()
    return str(int(sum(port.dropped["high"].sum() for port in ports)))


@measured
def slow_at_random_pct(runs: TreeRuns, programs: str) -> Interval:
    """IDS-E8: share of pages that take more than 5 s at 60 Mbit/s, percent.

    Marking is randomized for the programs that `programs` selects, and plain for all other programs.
    """
    return share_pct(runs.whole("diffserv-random", programs, *AT_RANDOM).pages[WEB_10].above(5))


@measured
def today_pages_above_pct(runs: TreeRuns, scheme: str, rate_mbps: float, limit_s: float) -> Interval:
    """IDS-E14: share of measured pages that take more than `limit_s`, with today's end systems, percent."""
    return share_pct(runs.small(scheme, rate_mbps, "diffserv-today").pages[WEB_10].above(limit_s))


@measured
def today_echoes_above_pct(runs: TreeRuns, scheme: str, rate_mbps: float, limit_s: float) -> Interval:
    """IDS-E14: share of echoes that take more than `limit_s`, with today's end systems, percent."""
    return share_pct(runs.small(scheme, rate_mbps, "diffserv-today").echoes.above(limit_s))


@measured
def greedy_kbps(runs: TreeRuns, variant: str) -> Interval:
    """IDS-E15: mean throughput of a greedy user, counting only complete pages and files, kbit/s."""
    return stats.mean(_greedy_bps(greedy(runs, variant)) / 1e3)


@measured
def others_files_ratio(runs: TreeRuns, variant: str) -> Interval:
    """IDS-E15: ratio of the other users' finished files per second to those if all users are honest."""
    return ratio(files_per_s(greedy(runs, name)) for name in (variant, HONEST))


@measured
def others_slow_points(runs: TreeRuns, variant: str) -> Interval:
    """IDS-E15: increase of the share of the other users' pages that take more than 5 s, percentage points.

    The reference is the share if all users are honest.
    """
    one, two = (100 * greedy(runs, name).pages[WEB_10].above(5) for name in (variant, HONEST))
    return stats.paired_difference(one, two)


def greedy(runs: TreeRuns, variant: str) -> Result:
    """Returns the results of a small tree with eight additional users, honest or greedy by `variant`."""
    return runs.of("diffserv-greedy", variant, HONEST, POLICED, NOT_POLICED)


def _apart(one: Interval, other: Interval) -> bool:
    """Returns true if both intervals exclude zero."""
    return (one.low > 0 or one.high < 0) and (other.low > 0 or other.high < 0)


def _agree(one: Interval, other: Interval) -> bool:
    """Returns true if both intervals lie on the same side of zero."""
    return min(one.low, other.low) > 0 or max(one.high, other.high) < 0


def _greedy_bps(result: Result) -> Floats:
    page_bits, file_bits = (8e3 * number(id) for id in ("dsp22", "dsp24"))
    bits = (
        page_bits * result.pages["greedy-web"].counts()
        + file_bits * result.connections["greedy-ftp"].counts()
    )
    return np.asarray(bits / COUNTED_S / GREEDY_USERS)


def _with_thresholds(runs: TreeRuns, thresholds: str, traffic: str) -> Times:
    known = [f"{traffic} {pair}" for pair in THRESHOLDS]
    result = runs.whole("diffserv-thresholds", f"{traffic} {thresholds}", *known)
    return result.pages[WEB_10] if traffic == "pages" else result.connections["ftp-probe"]


def _version(runs: TreeRuns, scheme: str, recovery: str) -> Result:
    both = [f"{scheme} / recovery={name}" for name in ("reno", "sack")]
    return runs.whole("diffserv-recoveries", f"{scheme} / recovery={recovery}", *both)


def throughputs(runs: TreeRuns, scheme: str, rate_mbps: float) -> list[list[Floats]]:
    """Returns the throughput of each long transfer in each sample, bit/s, by run and user."""
    runs.require_whole()
    variant = f"{scheme} / rate={rate_mbps:g}Mbit"
    return runs.cached(("throughputs", variant), lambda: _throughputs(runs, variant))


def _throughputs(runs: TreeRuns, variant: str) -> list[list[Floats]]:
    report = runs.progress.task(f"{paths.scenario(LONG).id} {variant}")
    rows = measures.select(runs.run(LONG, [variant], ["objects"], report)["objects"], 0)
    # Only the pieces of long transfers have this size among all measured objects.
    pieces = rows["bytes"] == PIECE_BYTES
    edges = np.arange(WARM_UP_S, END_S + 1, SAMPLE_S)
    ended = rows["start_s"] + rows["time_s"]
    series = []
    for seed in runs.seeds(LONG):
        of_run = pieces & (rows["seed"] == seed)
        users = np.unique(rows["client"][of_run])
        of_users = (ended[of_run & (rows["client"] == user)] for user in users)
        series.append([np.histogram(times, edges)[0] * 8 * PIECE_BYTES / SAMPLE_S for times in of_users])
    return series


def _variation(runs: TreeRuns, scheme: str, rate_mbps: float) -> Floats:
    series = throughputs(runs, scheme, rate_mbps)
    return np.array([np.mean([bps.std(ddof=1) / bps.mean() for bps in users]) for users in series])


def _spread(runs: TreeRuns, scheme: str, rate_mbps: float) -> Floats:
    means = [[bps.mean() for bps in users] for users in throughputs(runs, scheme, rate_mbps)]
    return np.array([np.std(of_run, ddof=1) / np.mean(of_run) for of_run in means])

"""Quantities of whole curves, single users, and other versions of TCP in the whole tree: IDS-E16 to E20."""

from collections.abc import Callable
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ks_2samp

from catnip.analysis import stats
from catnip.analysis.interval import Interval
from catnip.analysis.measures import Floats, deviation
from catnip.papers.diffserv.runs import (
    GROUPS,
    SCHEMES,
    TCP_DS,
    TCP_RAND,
    WEB_10,
    WEB_11,
    Result,
    Times,
    TreeRuns,
    ratio,
    share_pct,
    with_rtt,
)
from catnip.papers.diffserv.schemes import slow_echoes
from catnip.papers.quantity import Quantities

measured = Quantities()

FILES = ("ftp", "ftp-probe")
RATES_OF_RANDOM = (60, 75, 100)
"""Rates of the bottleneck at which randomized marking is looked for an advantage, Mbit/s."""
RECOVERIES = ("reno", "sack")
PROBE_STEP, SMALL_PROBE_STEP = 42, 8
"""Distance of the numbers of the users who fetch the measured pages, in the whole and in the small tree."""
PROBES = 10
FIRST_PROBE = {WEB_10: 0, WEB_11: 1}


@measured
def file_curves_apart(runs: TreeRuns, scheme: str, other: str, rate_mbps: float) -> Interval:
    """IDS-E16: largest distance between the CCDFs of the times of all files with two schemes."""
    ours, theirs = (_files(runs.tree(name, rate_mbps)) for name in (scheme, other))

    def distance(chosen: NDArray[np.intp]) -> float:
        return float(
            ks_2samp(*(np.concatenate([of[run] for run in chosen]) for of in (ours, theirs))).statistic
        )

    return stats.jackknife(distance, len(ours))


@measured
def variation_of_a_user_ratio(runs: TreeRuns, scheme: str, other: str, rate_mbps: float) -> Interval:
    """IDS-E16: ratio of the variation of a user's file times with a scheme to that with `other`.

    The variation is the coefficient of variation of the times of a user's files, averaged over the users who
    fetch files of one size.
    """
    return ratio(_variation(runs.tree(name, rate_mbps).connections["ftp-probe"]) for name in (scheme, other))


@measured
def variation_over_users_ratio(runs: TreeRuns, scheme: str, other: str, rate_mbps: float) -> Interval:
    """IDS-E16: ratio of the variation of users' mean file times with a scheme to that with `other`.

    The variation is the coefficient of variation over the users who fetch files of one size.
    """
    return ratio(_spread(runs.tree(name, rate_mbps).connections["ftp-probe"]) for name in (scheme, other))


@measured
def randomization_gain_pct(runs: TreeRuns) -> Interval:
    """IDS-E17: greatest reduction of a mean time by TCP-RAND relative to TCP-DS over several cells, percent.

    The cells are pages by HTTP/1.1 and files of one size, each at several rates of the bottleneck.
    """
    cells = list(product(RATES_OF_RANDOM, (_pages_11, _files_of_one_size)))
    each = stats.family(len(cells))
    return stats.greatest([_randomization_gain_pct(runs, *cell, each) for cell in cells])


@measured
def randomization_gain_at_pct(runs: TreeRuns, rate_mbps: float, traffic: str) -> Interval:
    """IDS-E17: reduction of the mean time of `pages` by HTTP/1.1 or of `files` by TCP-RAND, percent."""
    return _randomization_gain_pct(runs, rate_mbps, _pages_11 if traffic == "pages" else _files_of_one_size)


@measured
def probe_ratio(
    runs: TreeRuns, scheme: str, rate_mbps: float, rtt_ms: int, percent: float, http: str = "1.0"
) -> Interval:
    """IDS-E18: ratio of a percentile of the page times of users with a round trip to that of all users."""
    group, step = GROUPS[http], SMALL_PROBE_STEP if runs.quick else PROBE_STEP
    pages = runs.tree(scheme, rate_mbps).pages[group]
    return ratio(of.quantile(percent / 100) for of in (pages.of(probes(rtt_ms, group, step)), pages))


@measured
def scaled_echoes_within_pct(runs: TreeRuns, variant: str, limit_ms: float) -> Interval:
    """IDS-E19: share of echoes over slow links that take at most `limit_ms`, percent."""
    return share_pct(1 - slow_echoes(runs, variant).above(limit_ms / 1e3))


@measured
def recovery_apart_points(runs: TreeRuns, recovery: str, share: str, limit_s: float) -> Interval:
    """IDS-E20: greatest difference of a share in the whole tree between a loss recovery and NewReno, points.

    `share` is that of pages by HTTP/`1.0` or `1.1`, or of `echoes`, which take more than `limit_s`. It is
    taken over all schemes, at 100 Mbit/s.
    """
    each = stats.family(len(SCHEMES))
    of = (_recovery_apart_points(runs, scheme, recovery, share, limit_s, each) for scheme in SCHEMES)
    return stats.greatest([stats.magnitude(one) for one in of])


def probes(rtt_ms: int, group: str, step: int = PROBE_STEP) -> list[int]:
    """Returns the indices of those users of a group of measured pages who have a round trip of `rtt_ms`."""
    return with_rtt(rtt_ms, FIRST_PROBE[group], step, PROBES)


def _files(result: Result) -> list[Floats]:
    """Returns the times of all files in each run, s."""
    of = [result.connections[group] for group in FILES]
    return [np.concatenate([one.seconds[one.seed == run] for one in of]) for run in range(of[0].seeds)]


def _variation(files: Times) -> Floats:
    def mean_of_users(run: int) -> float:
        times = [files.seconds[(files.seed == run) & (files.user == user)] for user in np.unique(files.user)]
        return float(np.mean([deviation(of) / of.mean() for of in times if len(of) > 1]))

    return np.array([mean_of_users(run) for run in range(files.seeds)])


def _spread(files: Times) -> Floats:
    def of_run(run: int) -> float:
        here = files.seed == run
        means = np.array(
            [files.seconds[here & (files.user == user)].mean() for user in np.unique(files.user)]
        )
        return deviation(means) / float(means.mean())

    return np.array([of_run(run) for run in range(files.seeds)])


def _pages_11(result: Result) -> Times:
    return result.pages[WEB_11]


def _files_of_one_size(result: Result) -> Times:
    return result.connections["ftp-probe"]


def _randomization_gain_pct(
    runs: TreeRuns, rate_mbps: float, of: Callable[[Result], Times], confidence: float = 0.95
) -> Interval:
    ours, base = (of(runs.tree(scheme, rate_mbps)).per_seed(np.mean) for scheme in (TCP_RAND, TCP_DS))
    return stats.reduction_pct(ours, base, confidence)


def _recovery_apart_points(
    runs: TreeRuns, scheme: str, recovery: str, share: str, limit_s: float, confidence: float
) -> Interval:
    name = "diffserv-recoveries"
    changed = runs.of(
        name, f"{scheme} / recovery={recovery}", *(f"{scheme} / recovery={one}" for one in RECOVERIES)
    )
    usual = runs.tree(scheme, 100)
    one, two = (
        (result.echoes if share == "echoes" else result.pages[GROUPS[share]]).above(limit_s)
        for result in (changed, usual)
    )
    return stats.paired_difference(100 * one, 100 * two, confidence)

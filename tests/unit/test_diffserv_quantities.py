"""Tests of each published quantity of the DiffServ paper: hand-made results, values worked out by hand."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from pytest import approx
from test_diffserv import SEEDS, result, table, tables, times

from catnip.analysis import stats
from catnip.analysis.interval import Interval
from catnip.base.progress import Progress
from catnip.papers import component_results
from catnip.papers.diffserv import beyond, components, printed, schemes, traffic
from catnip.papers.diffserv.runs import ByGroup, Port, Result, Times, TreeRuns, reduced, typists
from catnip.papers.diffserv.runs import times as of_rows
from catnip.store.tables import Table

WEB_10, WEB_11 = "web-10-probe", "web-11-probe"
PRIORITIES = ("high", "med", "low")
RATES = (45, 60, 75, 100, 175)
SCHEMES = ("drop tail", "RED", "APPL-250K", "APPL-110K", "TCP-DS", "TCP-RAND", "ER-TBM")


class KnownRuns(TreeRuns):
    """Stand-in for `TreeRuns` of two seeds that returns given results, by scenario and variant."""

    def __init__(
        self, results: Mapping[tuple[str, str], Result], objects: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(False, len(SEEDS), SEEDS[0], Progress(quiet=True))
        self.results = results
        self.objects = objects

    def of(self, name: str, *variants: str) -> Result:
        return self.results[name, variants[0]]

    def first(self, name: str, variant: str) -> Result:
        return self.results[name, variant]

    def run(self, name: str, variants: Sequence[str], *_: Any, **__: Any) -> Mapping[str, Table]:
        assert self.objects is not None, (name, variants)
        return {"objects": self.objects}


def known(scenario: str, **results: Result) -> KnownRuns:
    """Returns runs of one scenario with these results; an underscore in a variant's name is a blank."""
    return KnownRuns({(scenario, name.replace("_", " ")): one for name, one in results.items()})


def at_rates(results: Mapping[tuple[str, int], Result]) -> KnownRuns:
    """Returns runs of the whole tree with these results, by scheme and rate, Mbit/s."""
    return KnownRuns(
        {("diffserv", f"{scheme} / rate={rate}Mbit"): one for (scheme, rate), one in results.items()}
    )


def tree(
    pages: Times | None = None,
    files: Times | None = None,
    pages_11: Times | None = None,
    probes: Times | None = None,
    **fields: Any,
) -> Result:
    """Returns a result of two runs with pages of both versions of HTTP, and files of two groups."""
    of_pages = {WEB_10: pages, WEB_11: pages_11}
    of_files = {"ftp": files, "ftp-probe": probes}
    return replace(
        result(),
        pages=ByGroup({name: one for name, one in of_pages.items() if one is not None}, 2),
        connections=ByGroup({name: one for name, one in of_files.items() if one is not None}, 2),
        **fields,
    )


def slow(limit_s: float, *counts: int) -> Times:
    """Returns ten durations of each run, `counts` of which are just above a limit; all others are at it."""
    return times(*([1.01 * limit_s] * count + [limit_s] * (10 - count) for count in counts))


def of_users(*per_seed: Sequence[tuple[int, float]]) -> Times:
    """Returns durations from pairs of a user's index and a duration, a list of pairs for each run."""
    all_of_runs = [pair for pairs in per_seed for pair in pairs]
    user, seconds = (np.array(column) for column in zip(*all_of_runs, strict=True))
    seed = np.repeat(range(len(per_seed)), [len(pairs) for pairs in per_seed])
    return Times(seconds, seed, user, len(per_seed))


def port(
    arrived: Sequence[int] = (10, 10, 10), dropped: Sequence[int] = (0, 0, 0), mbps: float = 1.0
) -> Port:
    """Returns a port with these HIGH, MED and LOW packets in the first run; the second has twice as many."""

    def of_runs(counts: Sequence[int]) -> dict[str, np.ndarray]:
        return {name: np.array([count, 2.0 * count]) for name, count in zip(PRIORITIES, counts, strict=True)}

    rates = np.array([mbps, 3 * mbps]) * 1e6
    return Port(of_runs(arrived), of_runs(dropped), rates, np.array([0.5, 0.7]))


def ports(forward: Port, back: Port | None = None) -> dict[str, Port]:
    return {"bottleneck": forward, "bottleneck:back": back or port()}


def test_drops_of_high_packets_are_counted_in_both_directions_at_all_rates() -> None:
    # HIGH drops of both runs are three times those of the first: 3 * (1 + 2 + 3 + 4 + 5 + 5 * 10).
    trees = {
        ("TCP-DS", rate): tree(ports=ports(port(dropped=(at, 7, 9)), port(dropped=(10, 8, 6))))
        for at, rate in enumerate(RATES, 1)
    }
    assert schemes.high_packets_dropped(at_rates(trees), "TCP-DS") == "195"


def test_drops_of_high_packets_are_told_apart_by_who_sends_over_the_link() -> None:
    routers = ("bottleneck", "edge", "source:back", "user-20")
    every = {name: port(dropped=(1, 7, 9)) for name in (*routers, "source", "user-20:back", "user-200:back")}
    trees = {("APPL-250K", rate): tree(ports=every) for rate in RATES}
    assert schemes.high_packets_dropped(at_rates(trees), "APPL-250K", "routers") == str(3 * 5 * 4)
    hosts = KnownRuns({("diffserv-hosts", "64"): tree(ports=every)})
    assert beyond.high_packets_dropped_by_hosts(hosts, "64") == str(3 * 3)


def test_a_loss_is_the_share_of_all_that_arrived_towards_the_users() -> None:
    # 2 + 3 + 5 of 10 + 20 + 70 packets are lost, and towards the sources half of them.
    lossy = tree(ports=ports(port((10, 20, 70), (2, 3, 5)), port((10, 20, 70), (5, 10, 35))))
    assert schemes.loss_pct(at_rates({("RED", 60): lossy}), "RED", 60).mean == approx(10)


def test_the_loss_falls_with_the_rate_by_the_least_of_all_pairs_of_rates() -> None:
    # Losses of 20, 15, 9, 8 and 1 %: the least fall is that from 75 to 100 Mbit/s.
    losses = dict(zip(RATES, (20, 15, 9, 8, 1), strict=True))
    trees = {
        ("drop tail", rate): tree(ports=ports(port((0, 0, 100), (0, 0, lost))))
        for rate, lost in losses.items()
    }
    assert schemes.loss_falls_with_rate(at_rates(trees)).mean == approx(1)


def test_pages_of_each_version_of_http_are_those_of_its_own_users() -> None:
    runs = at_rates({("drop tail", 100): tree(pages=slow(10, 8, 4), pages_11=slow(10, 3, 1))})
    assert schemes.pages_above_pct(runs, "drop tail", 100, 10).mean == approx(60)
    assert schemes.pages_above_pct(runs, "drop tail", 100, 10, "1.1").mean == approx(20)


def test_pages_of_http_1_1_that_are_less_often_slow_give_a_negative_difference() -> None:
    # Of ten pages 8 and 5 are slow with HTTP/1.0, 3 and 2 with HTTP/1.1: -50 and -30 points.
    runs = at_rates({("drop tail", 100): tree(pages=slow(10, 8, 5), pages_11=slow(10, 3, 2))})
    assert schemes.fewer_slow_with_11(runs, 100).mean == approx(-40)


@pytest.mark.parametrize(
    ("changed", "usual", "quantity"),
    [
        (
            ("diffserv-first-timeout", "drop tail / rto_first=1s / rate=60Mbit"),
            ("diffserv-first-timeout", "drop tail / rto_first=6s / rate=60Mbit"),
            lambda runs: schemes.fewer_slow_with_short_timeout(runs, 60),
        ),
        (
            ("diffserv-processing", "drop tail / rate=12Mbit"),
            ("diffserv-small", "drop tail / rate=12Mbit"),
            schemes.slow_with_processing_points,
        ),
    ],
)
def test_a_change_of_hosts_is_compared_with_the_usual_ones_at_the_same_rate(
    changed: tuple[str, str], usual: tuple[str, str], quantity: Any
) -> None:
    # Of ten pages 2 and 4 are slow with the change, 7 and 5 without: -50 and -10 points.
    runs = KnownRuns({changed: tree(pages=slow(10, 2, 4)), usual: tree(pages=slow(10, 7, 5))})
    assert quantity(runs).mean == approx(-30)


def test_echoes_are_slow_above_a_limit_and_not_at_it() -> None:
    # Above 1 s are one of four and two of four.
    echoes = times([0.1, 0.9, 1.0, 1.1], [0.1, 0.2, 1.2, 1.7])
    runs = at_rates({("RED", 100): tree(echoes=echoes)})
    assert schemes.echoes_above_pct(runs, "RED", 100, 1).mean == approx(37.5)
    # From 0.9 to 1.1 s are the one of 1 s and the one of 1.1 s.
    only = at_rates({("drop tail", 100): tree(echoes=echoes)})
    assert schemes.echoes_within_pct(only, 0.9, 1.1).mean == approx((50 + 0) / 2)


def test_the_modes_of_echoes_are_half_of_a_second_apart() -> None:
    # Of 0.6 to 1 s are 1 and 1 of five, of 1 to 1.4 s are 3 and 2 of five: 2 / 5.
    echoes = times([0.1, 0.7, 1.1, 1.2, 1.3], [0.5, 0.9, 1.1, 1.4, 1.5])
    assert schemes.between_the_modes(at_rates({("drop tail", 100): tree(echoes=echoes)})).mean == approx(0.4)


def test_slow_echoes_fall_with_the_rate_by_the_least_of_all_pairs_of_rates() -> None:
    # 90, 70, 60, 20 and 10 % of the echoes are slow; the least fall is 10 points.
    counts = dict(zip(RATES, (9, 7, 6, 2, 1), strict=True))
    trees = {("drop tail", rate): tree(echoes=slow(1, count, count)) for rate, count in counts.items()}
    assert schemes.slow_echoes_fall_with_rate(at_rates(trees)).mean == approx(10)


def test_mean_page_times_fall_with_the_rate_by_the_least_of_all_pairs_of_rates() -> None:
    # Means of 9, 7, 4, 3.5 and 2 s; the least fall is half a second.
    means = dict(zip(RATES, (9, 7, 4, 3.5, 2), strict=True))
    trees = {("RED", rate): tree(pages=times([0, 0, 3 * mean], [mean])) for rate, mean in means.items()}
    assert schemes.page_time_falls_with_rate(at_rates(trees), "RED").mean == approx(0.5)


def test_median_times_of_pages_and_measured_files_are_compared_run_by_run() -> None:
    # Medians of 2 and 4 s with RED, of 1 and 3 s with drop tail: 6 / 4. Other users' files do not count.
    red, drop_tail = times([2, 1, 90], [4, 4, 4]), times([1, 1, 50], [3, 2, 60])
    others = times([1], [1])
    runs = at_rates(
        {
            ("RED", 75): tree(pages=red, files=others, probes=red),
            ("drop tail", 75): tree(pages=drop_tail, files=others, probes=drop_tail),
        }
    )
    assert schemes.page_time_ratio(runs, "RED", "drop tail", 75).mean == approx(1.5)
    assert schemes.file_time_ratio(runs, "RED", "drop tail", 75).mean == approx(1.5)


def test_echoes_over_slow_links_are_those_of_the_users_with_a_round_trip_of_80_ms() -> None:
    # Users 2, 7, 12 and 17 have 80 ms: medians 0.2 and 0.4 s, and half of that with RED.
    mixed = [(0, 9.0), (1, 9.0), (3, 9.0), (4, 9.0)]
    echoes = of_users(
        [*mixed, (2, 0.1), (7, 0.2), (12, 0.6)], [*mixed, (2, 0.4), (17, 0.4), (17, 0.5), (7, 0.1)]
    )
    halved = of_users([*mixed, (2, 0.1)], [*mixed, (7, 0.2)])
    runs = known("diffserv-scaled", drop_tail=tree(echoes=echoes), RED=tree(echoes=halved))
    assert schemes.scaled_echo_ms(runs, "drop tail", 50).mean == approx(300)
    assert schemes.scaled_echo_ms(runs, "drop tail", 100).mean == approx(550)
    assert schemes.scaled_echo_ratio(runs, "RED", "drop tail", 50).mean == approx(0.5)


def test_schemes_are_compared_by_their_slow_pages_slow_echoes_and_files_at_one_rate() -> None:
    # TCP-DS: 10 and 30 % slow, 2 + 1 and 4 + 1 files; RED: 50 and 70 %, 3 + 1 and 5 + 1 files.
    one, two = times([1], [1]), times([1] * 2, [1] * 4)
    three = times([1] * 3, [1] * 5)
    ours = tree(pages=slow(5, 1, 3), echoes=slow(1, 1, 3), files=two, probes=one)
    theirs = tree(pages=slow(5, 5, 7), echoes=slow(1, 5, 7), files=three, probes=one)
    runs = at_rates({("TCP-DS", 100): ours, ("RED", 100): theirs})
    assert schemes.slow_ratio(runs, "TCP-DS", "RED", 5).mean == approx(20 / 60)
    assert schemes.more_slow_points(runs, "TCP-DS", "RED", 5).mean == approx(-40)
    assert schemes.echo_ratio(runs, "TCP-DS", "RED").mean == approx(20 / 60)
    assert schemes.files_ratio(runs, "TCP-DS", 100).mean == approx(8 / 10)
    assert list(schemes.files_per_s(ours)) == approx([3 / 300, 5 / 300])


def test_measured_pages_are_counted_run_by_run() -> None:
    runs = at_rates({("drop tail", 100): tree(pages=times([1] * 3, [1] * 8), pages_11=times([1], [1]))})
    # Counts of 3 and 8: the t quantile of one degree of freedom is 12.7062, the deviation over sqrt(2) 2.5.
    counted = schemes.measured_pages(runs, 100)
    assert [counted.mean, counted.high, counted.n] == approx([5.5, 5.5 + 12.7062 * 2.5, 2])


def test_shares_of_slow_pages_in_modified_trees_are_means_over_the_runs() -> None:
    # 20 and 60 % of the pages take more than 10 s (and 5 s), 10 and 30 % of the echoes more than 1 s.
    one = tree(pages=slow(5, 2, 6), echoes=slow(1, 1, 3))
    reverse = known("diffserv-reverse", none=tree(pages=slow(10, 2, 6)))
    assert schemes.slow_with_reverse_pct(reverse, "none").mean == approx(40)
    assert beyond.slow_at_random_pct(known("diffserv-random", all=one), "all").mean == approx(40)
    hosts = KnownRuns({("diffserv-hosts", "64"): one})
    assert beyond.slow_echoes_by_host_buffer_pct(hosts, "64").mean == approx(20)
    today = KnownRuns({("diffserv-today", "CoDel / rate=20Mbit"): one})
    assert beyond.today_pages_above_pct(today, "CoDel", 100, 5).mean == approx(40)
    assert beyond.today_echoes_above_pct(today, "CoDel", 100, 1).mean == approx(20)


# A sample has one of 75 counts. With k pieces in k of the 75 samples, the mean is k / 75 and the variance is
# k (75 - k) / (75 * 74), so the coefficient of variation is sqrt(75 (75 - k) / (74 k)).
def pieces(*rows: tuple[int, int, float, int]) -> Table:
    """Returns a table of objects from rows of seed, client, end (s) and bytes; each takes one second."""
    seed, client, end_s, size = zip(*rows, strict=True)
    return table(
        seed=seed, client=client, start_s=[end - 1.0 for end in end_s], time_s=[1.0] * len(rows), bytes=size
    )


OF_LONG_TRANSFERS = pieces(
    (3, 5, 51.0, 2000),
    (3, 5, 52.0, 2000),  # the same sample
    (3, 9, 49.0, 2000),  # during the warm-up
    (3, 9, 54.5, 2000),
    (3, 9, 349.0, 2000),  # the last sample
    (3, 9, 100.0, 9999),  # not of a long transfer
    (4, 5, 60.0, 2000),
    (4, 9, 70.0, 2000),
    (4, 9, 80.0, 2000),
    (4, 9, 90.0, 2000),
)


def test_a_long_transfer_has_the_bits_of_its_pieces_in_each_sample_of_4_s() -> None:
    series = beyond.throughputs(KnownRuns({}, OF_LONG_TRANSFERS), "TCP-DS", 100)
    assert [len(of_run) for of_run in series] == [2, 2]
    assert {len(bps) for of_run in series for bps in of_run} == {75}
    # A piece of 16 kbit gives 4 kbit/s in its sample.
    assert [float(bps.sum()) for of_run in series for bps in of_run] == [8000, 8000, 4000, 12000]
    first, second = series[0]
    assert (first[0], second[0], second[1], second[-1]) == (8000, 0, 4000, 4000)


def test_variation_is_that_over_the_samples_of_a_transfer_and_spread_that_among_users() -> None:
    def of(*series: Sequence[Sequence[float]]) -> list[list[np.ndarray]]:
        return [[np.array(bps) for bps in users] for users in series]

    # TCP-DS: deviations of 4 of 12 and 0 of 12, then 6 of 12 and 0 of 4; means 12 and 12, then 12 and 4.
    ours = of([[8, 12, 16], [12, 12, 12]], [[6, 12, 18], [4, 4, 4]])
    # RED: deviations of 10 of 10 and of 40 of 40; means 10 and 10, then 10 and 40.
    theirs = of([[0, 10, 20], [20, 0, 10]], [[0, 10, 20], [0, 40, 80]])
    runs = KnownRuns({})
    runs.cached(("throughputs", "TCP-DS / rate=100Mbit"), lambda: ours)
    runs.cached(("throughputs", "RED / rate=100Mbit"), lambda: theirs)
    assert beyond.variation_ratio(runs, "RED", 100).mean == approx(((1 / 3 + 0) + (1 / 2 + 0)) / 4)
    # Two means of 12 and 4 deviate by sqrt(32) from 8, two of 10 and 40 by sqrt(450) from 25.
    assert beyond.spread_ratio(runs, "RED", 100).mean == approx((math.sqrt(32) / 8) / (math.sqrt(450) / 25))


def test_the_variation_of_few_pieces_follows_from_their_number() -> None:
    variation = beyond._variation(KnownRuns({}, OF_LONG_TRANSFERS), "TCP-DS", 100)
    one, two, three = (math.sqrt(75 * (75 - k) / (74 * k)) for k in (1, 2, 3))
    assert list(variation) == approx([(one + two) / 2, (one + three) / 2])
    # Means of one and three pieces deviate by sqrt(2) pieces from two.
    spread = beyond._spread(KnownRuns({}, OF_LONG_TRANSFERS), "TCP-DS", 100)
    assert list(spread) == approx([0, math.sqrt(2) / 2])


def of_version(usual: Sequence[Times], changed: Sequence[Times]) -> KnownRuns:
    """Returns the tree with pages by scheme, with the usual recovery and with `reno`."""
    return KnownRuns(
        {
            ("diffserv", f"{scheme} / rate=100Mbit"): tree(pages=pages)
            for scheme, pages in zip(SCHEMES, usual, strict=True)
        }
        | {
            ("diffserv-recoveries", f"{scheme} / recovery=reno"): tree(pages=pages, files=pages)
            for scheme, pages in zip(SCHEMES, changed, strict=True)
        }
    )


USUAL = [slow(5, count, count) for count in (9, 8, 1, 2, 3, 4, 7)]


def test_pairs_of_schemes_are_reversed_where_their_difference_changes_its_sign() -> None:
    # Drop tail and RED change places; TCP-DS and TCP-RAND become equal, so perhaps they are reversed.
    changed = [slow(5, count, count) for count in (8, 9, 1, 2, 3, 3, 7)]
    assert beyond.reversed_pairs(of_version(USUAL, changed), "reno") == Interval(1, 1, 2, 2)
    assert beyond.reversed_pairs(of_version(USUAL, USUAL), "reno") == Interval(0, 0, 0, 2)
    backwards = [slow(5, 10 - count, 10 - count) for count in (9, 8, 1, 2, 3, 4, 7)]
    assert beyond.reversed_pairs(of_version(USUAL, backwards), "reno") == Interval(21, 21, 21, 2)


def test_a_reversed_pair_is_not_certain_if_its_difference_may_be_zero() -> None:
    # RED has 90 % slow pages on average, but 100 and 80 % of two runs: its order to all six is uncertain.
    changed = [slow(5, 8, 8), slow(5, 10, 8), *USUAL[2:]]
    assert beyond.reversed_pairs(of_version(USUAL, changed), "reno") == Interval(1, 0, 6, 2)


ABOVE, BELOW = Interval(0.2, 0.1, 0.3, 2), Interval(-0.2, -0.3, -0.1, 2)
PERHAPS_ABOVE, PERHAPS_BELOW = Interval(0.2, 0.0, 0.4, 2), Interval(-0.2, -0.4, 0.0, 2)


@pytest.mark.parametrize(
    ("one", "other", "apart", "agree"),
    [
        (ABOVE, ABOVE, True, True),
        (BELOW, BELOW, True, True),
        (ABOVE, BELOW, True, False),
        (BELOW, ABOVE, True, False),
        (ABOVE, PERHAPS_ABOVE, False, False),
        (PERHAPS_ABOVE, ABOVE, False, False),
        (BELOW, PERHAPS_BELOW, False, False),
        (PERHAPS_BELOW, BELOW, False, False),
        (PERHAPS_BELOW, PERHAPS_BELOW, False, False),
    ],
)
def test_two_differences_are_apart_from_zero_or_agree_by_their_intervals(
    one: Interval, other: Interval, apart: bool, agree: bool
) -> None:
    assert (beyond._apart(one, other), beyond._agree(one, other)) == (apart, agree)


def test_the_differences_of_all_pairs_before_and_after_hold_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    confidences: list[float] = []

    def difference(one: Any, other: Any, confidence: float) -> Interval:
        confidences.append(confidence)
        return Interval(1, 1, 1, 2)

    monkeypatch.setattr(stats, "paired_difference", difference)
    beyond.reversed_pairs(of_version(USUAL, USUAL), "reno")
    # 21 pairs of seven schemes have two differences each.
    assert confidences == approx([1 - 0.05 / 42] * 42)


def test_a_version_of_tcp_is_compared_with_drop_tail_by_slow_pages_and_with_red_by_files() -> None:
    changed = [slow(5, 8, 4), times([12] * 2, [12] * 2), slow(5, 1, 1), *USUAL[3:]]
    runs = of_version(USUAL, changed)
    assert beyond.slow_ratio_of_version(runs, "reno", "APPL-250K").mean == approx(1 / 6)
    assert beyond.files_ratio_of_version(runs, "reno", "APPL-250K").mean == approx(10 / 2)
    few = zip(SCHEMES, USUAL, strict=True)
    fifth = KnownRuns({("diffserv-small", f"{name} / rate=20Mbit"): tree(pages=pages) for name, pages in few})
    assert beyond.slow_ratio_of_few(fifth, "APPL-250K").mean == approx(1 / 9)


def test_each_version_of_tcp_has_a_tree_of_its_own() -> None:
    # Of ten pages 8 are slow with marks and Reno, and 3 with SACK; with drop tail they are 4 and 6.
    slow_pages = {("reno", "APPL-250K"): 8, ("reno", "drop tail"): 4}
    slow_pages |= {("sack", "APPL-250K"): 3, ("sack", "drop tail"): 6}
    runs = KnownRuns(
        {
            ("diffserv-recoveries", f"{scheme} / recovery={recovery}"): tree(pages=slow(5, count, count))
            for (recovery, scheme), count in slow_pages.items()
        }
    )
    ratios = [beyond.slow_ratio_of_version(runs, recovery, "APPL-250K").mean for recovery in ("reno", "sack")]
    assert ratios == approx([2, 0.5])


def test_marking_at_the_edges_is_compared_with_red_by_slow_pages() -> None:
    # 10 and 30 % of the pages are slow with marks at the sources, 50 and 30 % with RED.
    runs = known("diffserv-edge", sources=tree(pages=slow(5, 1, 3)), RED=tree(pages=slow(5, 5, 3)))
    assert beyond.edge_slow_ratio(runs, "sources").mean == 0.5


def test_page_times_deviate_more_with_more_images_by_the_least_of_all_pairs() -> None:
    # Two pages 10 - d and 10 + d deviate by d sqrt(2); the least growth is that from 4 to 8 images.
    half = dict(zip(("1", "2", "4", "8", "16", "32"), (1, 3, 5, 6, 8, 12), strict=True))
    results = {
        ("diffserv-objects", name): tree(pages=times([10 - d, 10 + d], [10 - d, 10 + d]))
        for name, d in half.items()
    }
    assert beyond.deviation_grows_with_objects(KnownRuns(results)).mean == approx(math.sqrt(2))
    assert beyond.deviation_s(KnownRuns(results), "16").mean == approx(8 * math.sqrt(2))


def test_times_with_thresholds_are_those_of_measured_pages_or_measured_files() -> None:
    pairs = {"1/2": 9, "2/4": 7, "4/8": 6, "8/16": 6.5, "16/32": 1}
    results = {
        ("diffserv-thresholds", f"{kind} {pair}"): tree(
            pages=times([0, 0, 3 * mean], [mean]),
            probes=times([3 * mean], [3 * mean]),
            files=times([99], [99]),
        )
        for kind in ("pages", "files")
        for pair, mean in pairs.items()
    }
    runs = KnownRuns(results)
    assert beyond.with_thresholds_s(runs, "2/4", "pages").mean == 7
    assert beyond.with_thresholds_s(runs, "2/4", "files").mean == 21
    assert beyond.time_falls_with_thresholds(runs, "pages").mean == -0.5
    assert beyond.time_falls_with_thresholds(runs, "files", last="4/8").mean == 3


def test_other_users_are_compared_with_those_beside_honest_users() -> None:
    # Files: 2 and 4 beside greedy users, 6 and 6 beside honest ones; slow pages 7 and 5, 1 and 3 of ten.
    runs = KnownRuns(
        {
            ("diffserv-greedy", "greedy, policed"): tree(pages=slow(5, 7, 5), files=times([1] * 2, [1] * 4)),
            ("diffserv-greedy", "honest"): tree(pages=slow(5, 1, 3), files=times([1] * 6, [1] * 6)),
        }
    )
    assert beyond.others_files_ratio(runs, "greedy, policed").mean == approx(0.5)
    assert beyond.others_slow_points(runs, "greedy, policed").mean == approx(40)


def test_each_of_eight_greedy_users_gets_an_eighth_of_their_pages_and_files() -> None:
    # In 300 s 8 * 3 pages of 81 KB and 8 * 6 files of 200 KB: (3 * 648 + 6 * 1600) kbit / 300 s.
    one = tree()
    one.pages["greedy-web"] = times([1] * 24, [1] * 24)
    one.connections["greedy-ftp"] = times([1] * 48, [1] * 48)
    assert beyond.greedy_kbps(known("diffserv-greedy", honest=one), "honest").mean == approx(38.48)


def alone(variant: str, one: Result) -> KnownRuns:
    return KnownRuns({("diffserv-alone", variant): one})


def test_the_fastest_echo_is_that_of_a_user_with_the_round_trip() -> None:
    # 800 bits take 533.3, 80 and 17.8 us on the links of one side and 0.8 us on the bottleneck:
    # 2 * (2 * 631.11 + 0.8) = 2526.04 us beside the round trip of 20 ms. Users 0, 5, 10 and 15 have it.
    echoes = of_users([(0, 0.0226), (1, 0.0101), (5, 0.02253), (2, 0.0225)], [(10, 0.03), (15, 0.04)])
    assert traffic.echo_off_us(alone("probes", tree(echoes=echoes)), 20) == approx(3.9556, rel=1e-4)
    early = of_users([(0, 0.0225)], [(0, 0.03)])
    assert traffic.echo_off_us(alone("probes", tree(echoes=early)), 20) == approx(26.0444, rel=1e-4), (
        "its magnitude"
    )


def test_users_and_their_keystrokes_are_counted_per_user() -> None:
    files = of_users([(0, 1), (1, 1), (1, 1)], [(0, 1), (2, 1)])
    assert traffic.pairs(alone("FTP", tree(files=files, probes=of_users([(0, 1)], [(1, 1)])))) == "5"
    # 300 s, two users, three and nine echoes: 6 / 600.
    echoes = of_users([(0, 1.0), (1, 1.0), (1, 1.0)], [(0, 1.0)] * 9)
    telnet = alone("Telnet", tree(echoes=echoes, ports=ports(port(mbps=2), port(mbps=5))))
    assert traffic.keystrokes_per_s(telnet).mean == approx(0.01)
    assert traffic.telnet_mbps(telnet).mean == approx(4)


def test_loads_of_a_traffic_alone_are_those_towards_the_users() -> None:
    one = tree(ports=ports(port(mbps=20), port(mbps=3)))
    assert traffic.web_alone_mbps(alone("Web", one)).mean == approx(40)
    assert traffic.files_alone_mbps(alone("FTP", one)).mean == approx(40)


def test_the_utilization_towards_the_sources_is_compared_with_that_towards_the_users() -> None:
    back = replace(port(), utilization=np.array([0.1, 0.2]))
    runs = at_rates({("drop tail", 100): tree(ports=ports(port(), back))})
    assert traffic.back_over_forward(runs).mean == approx(0.3 / 1.2)


def test_connections_of_a_page_are_the_fewest_and_the_most() -> None:
    of_page = {WEB_10: np.array([9, 8, 12, 9]), WEB_11: np.array([1, 1])}
    runs = alone("probes", tree(page_connections=of_page))
    assert traffic.connections_of_a_page(runs, "1.0") == "8 to 12"
    assert traffic.connections_of_a_page(runs, "1.1") == "1"


def test_distinct_sizes_are_those_of_the_measured_pages_and_files() -> None:
    of_page = {WEB_10: np.array([81_000, 81_000, 80_000]), WEB_11: np.array([77_000])}
    of_file = {"ftp": np.array([1, 2]), "ftp-probe": np.array([200_000, 200_000])}
    runs = at_rates({("drop tail", 100): tree(page_bytes=of_page, file_bytes=of_file)})
    assert traffic.page_sizes(runs, "1.0") == "80000, 81000"
    assert traffic.page_sizes(runs, "1.1") == "77000"
    assert traffic.file_sizes(runs) == "200000"


def test_sessions_are_the_users_of_a_group_of_pages_or_files() -> None:
    one = tree(pages=of_users([(0, 1), (0, 1), (4, 1)], [(0, 1)]), probes=of_users([(2, 1)], [(2, 1)]))
    runs = alone("probes", one)
    assert (traffic.sessions(runs, WEB_10), traffic.sessions(runs, "ftp-probe")) == ("2", "1")


def test_the_mean_of_generated_files_counts_large_ones_as_1_mb() -> None:
    # The Pareto distribution of shape 1.2 has a least size of 200 KB * 0.2 / 1.2 = 33 333 bytes, and with the
    # limit of 1 MB a mean of 33 333 * (1.2 - (1 / 30)^0.2) / 0.2 = 115 584 bytes; generated are 550 000.
    runs = alone("FTP", tree(file_bytes={"ftp": np.array([100_000, 5_000_000]), "ftp-probe": np.array([1])}))
    assert traffic.file_mean_off_pct(runs) == approx(100 * (550_000 / 115_584 - 1), rel=1e-4)
    few = alone("FTP", tree(file_bytes={"ftp": np.array([57_792, 57_792])}))
    assert traffic.file_mean_off_pct(few) == approx(50, rel=1e-4), "its magnitude"


def test_idle_round_trips_are_those_of_the_farthest_users() -> None:
    # Users 2 and 7 have 200 ms: 1.6 s are eight round trips, and 0.8 s without handshakes four.
    with_them = of_users([(0, 0.3), (2, 1.7), (7, 1.6)], [(2, 1.8)])
    without = of_users([(0, 0.2), (2, 0.8)], [(7, 0.9)])
    runs = known("diffserv-alone", pages=tree(with_them), pages_without_handshakes=tree(without))
    assert traffic.idle_round_trips(runs) == approx(8)
    assert traffic.round_trips_of_handshakes(runs) == approx(4)


def test_the_spread_of_idle_pages_is_the_largest_of_all_round_trips() -> None:
    # Users 0, 3, 1, 4 and 2 have 20 to 200 ms. Those with 40 ms deviate by sqrt(2) from 4 s, all others by
    # sqrt(2) / 10 from 4 s or less.
    spread = [(3, 3.0), (3, 5.0), *((user, 4 + off) for user in (0, 1, 2, 4) for off in (-0.1, 0.1))]
    runs = known("diffserv-alone", pages=tree(of_users(spread, [(0, 4.0)])))
    assert traffic.idle_page_spread_pct(runs) == approx(100 * math.sqrt(2) / 4)


def of_pages_alone(**tables: Table) -> KnownRuns:
    runs = KnownRuns({})
    runs.cached("pages alone", partial(dict, tables))
    return runs


def test_connections_at_a_time_are_those_of_one_user_of_http_1_0() -> None:
    # User 4 has three at a time, users 5 and 6 two; connections that follow one another do not overlap.
    connections = table(
        group=[WEB_10] * 8 + [WEB_11] * 4,
        client=[4, 4, 4, 4, 5, 5, 6, 6, 8, 8, 8, 8],
        start_s=[1.0, 1.5, 1.8, 2.0, 1.0, 1.1, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
        received_s=[2.0, 3.0, 3.0, 3.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0],
    )
    assert traffic.connections_at_a_time(of_pages_alone(connections=connections)) == "3"


def test_the_longest_gap_of_images_is_within_a_page_of_the_nearest_user() -> None:
    # User 2 of HTTP/1.1 (client 12) has 20 ms. Its images end at 1, 1.3 and 1.4 s, then at 3 and 3.2 s on the
    # next page. An image takes 10 * 1040 bytes * 8 / 1.5 Mbit/s = 55.467 ms.
    objects = table(
        client=[10, 10, 11, 12, 12, 12, 12, 12, 12, 12],
        object=[1, 2, 1, 0, 1, 2, 3, 0, 1, 2],
        page=[1, 1, 1, 1, 1, 1, 1, 2, 2, 2],
        start_s=[0.0, 8.0, 0.0, 0.0, 0.9, 0.9, 0.9, 2.0, 2.5, 2.5],
        time_s=[1.0, 1.0, 1.0, 0.1, 0.1, 0.4, 0.5, 0.4, 0.5, 0.7],
    )
    connections = table(client=[10, 11, 12, 1], group=[WEB_11] * 3 + [WEB_10])
    runs = of_pages_alone(objects=objects, connections=connections)
    assert traffic.longest_gap(runs) == approx(0.3 / 0.0554667, rel=1e-5)


def test_keystrokes_of_other_users_are_not_before_an_echo() -> None:
    # User 1 types at 60 s, before the echo at 60.2 s of another one; the second user's types are in order.
    echoes = table(
        seed=[3] * 4 + [4],
        group=["telnet-probe"] * 5,
        client=[2, 1, 2, 1, 1],
        start_s=[60.1, 60.0, 60.5, 60.3, 60.01],
        time_s=[0.4, 0.2, 0.1, 0.5, 9.0],
    )
    one = reduced({**tables(), "echoes": echoes}, 0, SEEDS)
    runs = at_rates({("drop tail", 100): one})
    assert traffic.keystrokes_before_the_echo(runs) == "0"
    late = reduced(
        {**tables(), "echoes": {**echoes, "time_s": np.array([0.41, 0.31, 0.1, 0.5, 9])}}, 0, SEEDS
    )
    assert traffic.keystrokes_before_the_echo(at_rates({("drop tail", 100): late})) == "2"


def test_an_end_that_is_nanoseconds_late_is_not_after_the_next_keystroke() -> None:
    one = replace(tree(), keystrokes_s=np.array([(1, 60.0, 60.2), (1, 60.2 - 5e-9, 60.4), (1, 60.4, 60.5)]))
    assert traffic.keystrokes_before_the_echo(at_rates({("drop tail", 100): one})) == "0"
    earlier = replace(tree(), keystrokes_s=np.array([(1, 60.0, 60.2), (1, 60.2 - 2e-8, 60.4)]))
    assert traffic.keystrokes_before_the_echo(at_rates({("drop tail", 100): earlier})) == "1"


def test_what_ends_at_the_end_of_the_warm_up_or_later_counts() -> None:
    rows = {
        "seed": np.array([3, 3, 3, 4]),
        "client": np.array([7, 7, 9, 9]),
        "start_s": np.array([10.0, 30.0, 10.0, 60.0]),
        "time_s": np.array([40.0, 10.0, 45.0, 1.0]),
    }
    counted = of_rows(rows, SEEDS)
    found = [*zip(counted.seconds, counted.seed, counted.user, strict=True)]
    assert found == [(40, 0, 0), (45, 0, 1), (1, 1, 1)]


def test_users_alternate_among_five_round_trips() -> None:
    assert list(typists(20)) == [0, 5, 10, 15]
    assert list(typists(40)) == [1, 6, 11, 16]
    assert list(typists(80)) == [2, 7, 12, 17]
    assert list(typists(120)) == [3, 8, 13, 18]
    assert list(typists(200)) == [4, 9, 14, 19]


def test_a_port_has_its_packets_by_priority() -> None:
    counts = {"arrived_high": [8], "arrived_med": [20], "arrived_low": [50]}
    counts |= {"dropped_high": [1], "dropped_med": [2], "dropped_low": [5]}
    columns = table(seed=[3], port=["bottleneck"], delivered_bytes=[350], utilization=[0.5], **counts)
    one = reduced({**tables(), "ports": columns}, 0, SEEDS).forward
    assert [float(one.dropped[name][0]) for name in PRIORITIES] == [1, 2, 5]
    assert [float(one.arrived[name][0]) for name in PRIORITIES] == [8, 20, 50]
    # 8 of 78 packets are lost; 350 bytes in 350 s are 8 bit/s.
    assert (one.loss()[0], one.bps[0]) == (8 / 78, 8)


class Chunks(TreeRuns):
    """Runs whose pages take as many seconds as their variant's name has letters, plus the seed."""

    def __init__(self) -> None:
        super().__init__(False, 2, 3, Progress(quiet=True))
        self.calls: list[tuple[list[str], list[int]]] = []

    def run(self, name: str, variants: Sequence[str], *_: Any, **options: Any) -> Mapping[str, Table]:
        seeds = options.get("seeds") or self.seeds(name)
        self.calls.append((list(variants), seeds))
        cells = [(at, seed, len(of)) for at, of in enumerate(variants) for seed in seeds]
        variant, seed, length = (np.array(column) for column in zip(*cells, strict=True))
        times_s: dict[str, Any] = {"variant": variant, "start_s": seed + 60, "time_s": length + seed}
        others = {"seed": seed, "client": seed, "bytes": seed, "connections": seed}
        return {**tables(), "pages": {**times_s, **others, "group": [WEB_10] * len(cells)}}


def test_each_variant_has_its_own_results_and_runs_once() -> None:
    runs = Chunks()
    seconds = [
        list(runs.of("diffserv-reverse", *names).pages[WEB_10].seconds)
        for names in (("a", "bbb", "cc"), ("cc", "a"), ("bbb",))
    ]
    assert seconds == [[4, 5], [5, 6], [6, 7]]
    assert runs.calls == [(["a", "bbb"], [3, 4]), (["cc"], [3, 4])]
    assert runs.sample == 2
    assert list(runs.first("diffserv-reverse", "dddd").pages[WEB_10].seconds) == [7], "of the first seed"


def test_the_whole_tree_has_five_seeds_and_the_small_one_ten() -> None:
    runs = TreeRuns(False, None, 1, Progress(quiet=True))
    assert [len(runs.seeds(name)) for name in ("diffserv", "diffserv-scaled", "diffserv-small")] == [5, 5, 10]


def test_files_last_until_their_last_byte_is_acknowledged() -> None:
    files = reduced(tables(), 0, SEEDS).connections
    assert [*files["ftp"].seconds, *files["ftp-probe"].seconds] == [2, 10, 4]
    assert list(reduced(tables(), 0, SEEDS).page_bytes[WEB_10]) == [81_000] * 4


def test_timeouts_are_the_expired_timers_of_the_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def trace(*arguments: Any, **options: Any) -> dict[str, list[str]]:
        calls.append((*arguments, options))
        return {"event": ["send", "rto", "ack", "rto", "drop"]}

    monkeypatch.setattr(traffic, "trace", trace)
    assert traffic.timeouts(KnownRuns({}), "newreno", [3]) == 2
    assert traffic.timeouts(KnownRuns({}), "sack", [4], packets=50, rate="2Mbit", delay="10ms") == 2
    shared = {"queue": "drop-tail:1000", "window": 64}
    assert calls == [
        ("ns2-2.35", 100, [3], {"recovery": "newreno", "rate": "1Mbit", "delay": "50ms", **shared}),
        ("ns2-2.35", 50, [4], {"recovery": "sack", "rate": "2Mbit", "delay": "10ms", **shared}),
    ]


def test_timeouts_in_ns_2_are_those_of_a_version_its_losses_and_a_long_queue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        printed,
        "rows",
        lambda _: [
            dict(preset="ns235", variant=name, scenario=lost, queue_limit=limit, timeouts=count)
            for name, lost, limit, count in (
                ("Reno", "d20", "1000", "1"),
                ("NewReno", "d20_21", "10", "2"),
                ("NewReno", "d20_21", "1000", "3"),
            )
        ],
    )
    assert printed.timeouts_in_ns2("newreno", [20, 21]) == 3


def test_a_component_is_as_far_off_as_the_worst_of_its_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(component_results, "alone", lambda says: {"drops": [0.5, 2.0, 1.0]}[says])
    assert components.driven_alone(KnownRuns({}), "drops") == 2

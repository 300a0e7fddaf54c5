"""Tests of quantities of what the papers say besides their tables: hand-made results, values by hand."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pytest import approx
from test_diffserv import times
from test_diffserv_quantities import KnownRuns, at_rates, known, of_users, slow, tree
from test_linux_quantities import of_network
from test_linux_quantities import wan as of_pages
from test_newcwv import pairs, runs_with
from test_newcwv_quantities import Burst, of_pairs
from test_quantities import BASE, OURS, FixedRuns, FixedTrials, catnip
from test_testbed_quantities import in_lab, wide_area

from catnip import models
from catnip.analysis.interval import Interval
from catnip.papers.catnip import pages, windows
from catnip.papers.catnip.runs import Result
from catnip.papers.diffserv import curves, schemes
from catnip.papers.diffserv.runs import SCHEMES
from catnip.papers.hysteresis import accuracy
from catnip.papers.hysteresis.trials import RENO
from catnip.papers.linux import network
from catnip.papers.newcwv import gains, printed
from catnip.papers.newcwv.runs import NEW_CWV
from catnip.papers.testbed import printed as table_xi
from catnip.papers.testbed import wan

WEB_10, WEB_11 = "web-10-probe", "web-11-probe"


def test_pages_that_gain_are_those_within_both_ends() -> None:
    # Page 1 gains 50 %, page 2 gains 25 %, page 3 loses 100 %.
    runs = FixedRuns(e=dict(base=BASE, ours=OURS))
    arguments = dict(scenario="e", variant="ours", base="base", column="mean")
    for low, high, expected in ((0, 100, 2), (25, 50, 2), (26, 50, 1), (26, 49, 0), (-100, 100, 3)):
        counted = catnip("pages_gaining", runs, low=low, high=high, **arguments)
        assert counted == Interval(expected, expected, expected, 2), (low, high)
    assert catnip("page_gain_pct", runs, page=2, **arguments).mean == approx(25)
    assert catnip("page_gain_pct", runs, page=3, **arguments).mean == approx(-100)


def test_what_hosts_gain_is_the_mean_over_the_pages_of_their_groups() -> None:
    def result(*rows: tuple[int, str, float]) -> Result:
        seed, group, time_s = zip(*rows, strict=True)
        table: dict[str, Any] = {
            "variant": np.zeros(len(rows), int),
            "seed": np.array(seed),
            "group": list(group),
        }
        return Result({"pages": table | {"time_s": np.array(time_s)}}, 0, [1, 2])

    # Of the groups a and b 2 and 4 s on average in the two runs, without marks 4 and 8 s.
    marked = result((1, "a", 1), (1, "b", 3), (2, "a", 5), (2, "b", 3), (1, "c", 99))
    none = result((1, "a", 4), (1, "b", 4), (2, "a", 6), (2, "b", 10), (1, "c", 1))
    runs: Any = SimpleNamespace(of=lambda _scenario: {"marked": marked, "none": none})
    assert pages.hosts_gain_pct(runs, "marked", "none", ["a", "b"]).mean == approx(50)


def test_a_reset_is_a_timeout_of_a_window_above_one_segment() -> None:
    # Connection 1 has a window of three segments when its timer expires, which then expires again; connection
    # 2 loses its first packet, and its window is one segment before and after. Sent are 1, 3, 1, 1 and 1, 1.
    one: list[tuple[Any, ...]] = [
        (1, "server", "send", 1),
        (1, "server", "ack", 3),
        (1, "server", "send", 3),
        (2, "server", "send", 1),
        (1, "client", "send", 9),
        (1, "server", "rto", 1),
        (1, "server", "send", 1),
        (2, "server", "rto", 1),
        (2, "server", "send", 1),
        (1, "server", "rto", 1),
        (1, "server", "send", 1),
        (1, "", "drop", math.nan),
    ]
    connection, end, kind, cwnd = zip(*one, strict=True)
    events: dict[str, Any] = {
        "variant": np.zeros(len(one), int),
        "seed": np.full(len(one), 7),
        "connection": np.array(connection),
        "end": list(end),
        "kind": list(kind),
        "time_s": np.arange(len(one), dtype=float),
        "cwnd_bytes": 512.0 * np.array(cwnd),
    }
    found = windows.windows(events, [7])
    assert (found.timeouts[0], found.resets[0]) == (1.5, 0.5)
    assert found.cwnd_segments[0] == approx((1 + 3 + 1 + 1 + 1 + 1) / 6)
    # Connection 1 has 1 for a second, 3 from then to 5 s, and 1 to 10 s; connection 2 has 1 from 3 to 8 s.
    assert found.cwnd_over_time_segments[0] == approx((1 + 3 * 4 + 5 + 5) / (10 + 5))


def test_windows_and_timeouts_of_transfers_are_compared_run_by_run(monkeypatch: pytest.MonkeyPatch) -> None:
    of = {
        "good": windows.Windows(*map(np.array, ([0.1, 0.3], [0.1, 0.1], [6.0, 8.0], [9.0, 9.0]))),
        "tail": windows.Windows(*map(np.array, ([0.4, 0.6], [0.2, 0.3], [5.0, 5.0], [5.0, 7.0]))),
    }
    monkeypatch.setattr(windows, "_of", lambda _runs: of)
    runs: Any = None
    assert windows.timeouts_ratio(runs, "good", "tail").mean == approx(0.4)
    assert windows.resets_ratio(runs, "good", "tail").mean == approx(0.4)
    assert windows.cwnd_ratio(runs, "good", "tail").mean == approx(1.4)
    assert windows.cwnd_over_time_ratio(runs, "good", "tail").mean == approx(1.5)
    assert windows.per_hundred_transfers(runs, "tail", "resets").mean == approx(25)
    assert windows.cwnd_segments(runs, "good").mean == approx(7)


def test_models_are_compared_with_cardwell_00_on_the_same_transfers() -> None:
    class Modelled(FixedTrials):
        def transfer(self, sender: str, packets: int, loss: float) -> np.ndarray:
            # Both models are off by as much where the mean is halfway between them.
            predicted = (models.cardwell00(packets, loss), models.cardwell98(packets, loss))
            return np.full(2, sum(map(float, predicted)) / 2)

    trials: Any = Modelled({RENO: [1, 1]})
    assert accuracy.v_over_cardwell00(trials, "Cardwell-98", "short", 0.05).mean == approx(1)
    assert accuracy.v_over_cardwell00(trials, "Cardwell-00", "long", 0.05).mean == approx(1)


def test_an_absolute_relative_error_is_in_percent_and_of_one_model() -> None:
    class Doubled(FixedTrials):
        def transfer(self, sender: str, packets: int, loss: float) -> np.ndarray:
            return np.full(2, float(models.padhye_latency(packets, loss)) / 2)

    trials: Any = Doubled({RENO: [1, 1]})
    assert accuracy.absolute_relative_pct(trials, "Padhye", "long", 0.03).mean == approx(100)


def test_curves_of_files_are_as_far_apart_as_at_their_farthest() -> None:
    # Of eight files 2 with one scheme end within 1 s, of eight 6 with the other one.
    ours, theirs = times([1, 2, 3, 4], [1, 2, 3, 4]), times([1, 1, 1, 4], [1, 1, 1, 4])
    none = times([], [])
    runs = at_rates(
        {
            ("TCP-DS", 75): tree(files=ours, probes=none),
            ("drop tail", 75): tree(files=none, probes=theirs),
        }
    )
    assert curves.file_curves_apart(runs, "TCP-DS", "drop tail", 75).mean == approx(0.5)


def test_a_user_varies_over_files_and_users_vary_among_each_other() -> None:
    # User 0 has files of 1 and 3 s, user 1 of 4 s twice: variations of sqrt(2) / 2 and 0; means of 2 and 4 s
    # have a deviation of sqrt(2) over 3. With drop tail, both of user 1's files take 2 and 6 s.
    ours = of_users([(0, 1), (0, 3), (1, 4), (1, 4)], [(0, 1), (0, 3), (1, 4), (1, 4)])
    theirs = of_users([(0, 1), (0, 3), (1, 2), (1, 6)], [(0, 1), (0, 3), (1, 2), (1, 6)])
    runs = at_rates({("TCP-DS", 60): tree(probes=ours), ("drop tail", 60): tree(probes=theirs)})
    ratio = curves.variation_of_a_user_ratio(runs, "TCP-DS", "drop tail", 60)
    assert ratio.mean == approx((math.sqrt(2) / 2) / (math.sqrt(2) / 2 + math.sqrt(8) / 4))
    assert curves.variation_over_users_ratio(runs, "TCP-DS", "drop tail", 60).mean == approx(1)


def test_randomized_marking_gains_where_it_gains_most() -> None:
    def of(pages_s: float, files_s: float) -> Any:
        return tree(pages_11=times([pages_s], [pages_s]), probes=times([files_s], [files_s]))

    runs = at_rates(
        {("TCP-DS", rate): of(10, 10) for rate in (60, 75, 100)}
        | {("TCP-RAND", 60): of(11, 12), ("TCP-RAND", 75): of(9, 10), ("TCP-RAND", 100): of(10, 7)}
    )
    assert curves.randomization_gain_pct(runs).mean == approx(30)
    assert curves.randomization_gain_at_pct(runs, 75, "pages").mean == approx(10)
    assert curves.randomization_gain_at_pct(runs, 60, "files").mean == approx(-20)


def test_probes_have_their_round_trips_in_turn() -> None:
    # Users 0, 42, 84, ... have round trips 0, 2, 4, 1, 3 of the five; users 1, 43, ... the next ones.
    assert [curves.probes(rtt, WEB_10) for rtt in (20, 40, 80, 120, 200)] == [
        [0, 5],
        [3, 8],
        [1, 6],
        [4, 9],
        [2, 7],
    ]
    assert curves.probes(40, WEB_11) == [0, 5]
    # In the small tree they are 8 apart: 0, 8, 16, ... have round trips 0, 3, 1, 4, 2.
    assert curves.probes(120, WEB_10, 8) == [1, 6]


def test_a_probe_is_compared_with_all_of_them() -> None:
    pages = of_users([(0, 1.0), (5, 3.0), (1, 4.0), (2, 4.0)], [(0, 2.0), (5, 2.0), (3, 4.0), (4, 8.0)])
    runs = at_rates({("drop tail", 100): tree(pages=pages)})
    # Medians of 2 and 2 s; of all 3.5 and 3 s.
    assert curves.probe_ratio(runs, "drop tail", 100, 20, 50).mean == approx(4 / 6.5)


def test_echoes_within_a_limit_are_those_at_it_or_below() -> None:
    echoes = of_users([(2, 0.15), (7, 0.1), (2, 0.2), (7, 0.3)], [(2, 0.15), (7, 0.1), (2, 0.1), (0, 0.9)])
    runs = known("diffserv-scaled", RED=tree(echoes=echoes))
    assert curves.scaled_echoes_within_pct(runs, "RED", 150).mean == approx(75)


def test_slow_pages_of_either_version_of_http_are_compared() -> None:
    runs = at_rates(
        {
            ("TCP-DS", 100): tree(pages=slow(5, 1, 3), pages_11=slow(5, 2, 2)),
            ("drop tail", 100): tree(pages=slow(5, 5, 7), pages_11=slow(5, 8, 8)),
        }
    )
    assert schemes.slow_ratio(runs, "TCP-DS", "drop tail", 5).mean == approx(1 / 3)
    assert schemes.slow_ratio(runs, "TCP-DS", "drop tail", 5, "1.1").mean == approx(1 / 4)


def test_a_recovery_is_as_far_apart_as_under_its_farthest_scheme() -> None:
    # With Reno, one of ten pages more is slow under each scheme, under RED three fewer.
    usual = {("diffserv", f"{name} / rate=100Mbit"): tree(pages=slow(5, 5, 5)) for name in SCHEMES}
    changed = {
        ("diffserv-recoveries", f"{name} / recovery=reno"): tree(
            pages=slow(5, *(2, 2) if name == "RED" else (6, 6))
        )
        for name in SCHEMES
    }
    assert curves.recovery_apart_points(KnownRuns(usual | changed), "reno", "1.0", 5).mean == approx(30)


def test_bursts_end_sooner_by_the_decile_at_which_they_gain_least() -> None:
    # Ten bursts of 1 to 10 s; the shortest and the longest end half a second sooner, all others a second.
    rows: list[Burst] = [
        (seed, 6_000, 2, float(at), at - (0.5 if at in (1, 10) else 1.0))
        for seed in (1, 2)
        for at in range(1, 11)
    ]
    runs = runs_with(of_pairs("newcwv", NEW_CWV, pairs(rows)))
    before = np.quantile(np.arange(1.0, 11.0), 0.1)
    after = np.quantile([0.5, *np.arange(1.0, 9.0), 9.5], 0.1)
    assert gains.sooner_at_every_decile_s(runs, "newcwv").mean == approx(before - after)


def test_a_class_outside_a_figure_is_as_far_as_the_farthest() -> None:
    # The class above 5 KB gains 70 %, larger ones 20 %: 8 and 17 points outside 37 to 62 %.
    rows: list[Burst] = [(seed, 6_000, 20, 1.0, 1 - 1.2) for seed in (1, 2)]
    rows += [(seed, 90_000, 20, 1.0, 0.8) for seed in (1, 2)]
    runs = runs_with(of_pairs("newcwv", NEW_CWV, pairs(rows)))
    assert gains.outside_figure(runs, "newcwv", 37, 62).mean == approx(0.17)
    assert gains.outside_figure(runs, "newcwv", 20, 70).mean == approx(0)


def test_the_link_of_a_sawtooth_is_idle_where_its_window_is_below_the_path() -> None:
    # 33.3 segments of path and 20 of buffer: from 26.7 to 33.3 it lacks 22.2 of 1088.9 segments.
    assert printed.sawtooth_utilization() == approx(1 - 22.222 / 1088.89, rel=1e-4)
    # From 21.7 to 43.3 packets: 68.1 of idle time beside 704.2 that are sent.
    assert printed.sawtooth_utilization(15) == approx(704.2 / (704.2 + 68.1), rel=1e-3)
    assert printed.sawtooth_utilization(60) == 1


def test_the_largest_gain_of_a_page_is_that_of_its_mean_over_the_runs() -> None:
    # Page 1 takes 0.8 and 1.0 of FIFO's time, page 2 takes 0.7 and 1.3.
    assert wan.largest_gain_pct(np.array([[0.8, 0.7], [1.0, 1.3]])).mean == approx(10)
    lab = wide_area(
        _64_KB_CATNIP=[of_pages(0.8, *[1.0] * 9), of_pages(1.0, *[1.0] * 9)],
        _64_KB_FIFO=[of_pages(*[1.0] * 10), of_pages(*[1.0] * 10)],
    )
    assert in_lab("largest_page_gain_pct", lab, buffer_kb=64).mean == approx(10)
    of_kernel = of_network(FIFO=[of_pages(*[2.0] * 10)] * 2, partial_SPM=[of_pages(*[2.0] * 9, 1.0)] * 2)
    assert network.wan_largest_page_gain_pct(of_kernel, 64, "partial SPM").mean == approx(50)
    assert table_xi.table_xi_page(4, 64) == 0.64
    assert table_xi.table_xi_largest_gain_pct(64) == approx(36)

"""Tests of the quantities of the DiffServ paper on hand-made tables with known results."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import pytest
from pytest import approx

from catnip.analysis.interval import Interval
from catnip.papers.diffserv import beyond, schemes, traffic
from catnip.papers.diffserv.runs import ByGroup, Port, Result, Times, TreeRuns, reduced
from catnip.store.tables import Table

SEEDS = [3, 4]


def table(**columns: Sequence[Any]) -> Table:
    rows = len(next(iter(columns.values())))
    return {"variant": np.zeros(rows, int), **{key: np.array(values) for key, values in columns.items()}}


def tables() -> Mapping[str, Table]:
    """Returns results tables of two runs: pages and echoes around the warm-up, files, and a bottleneck."""
    ports = {
        f"{counter}_{priority}": [value, 2 * value]
        for counter, values in {"arrived": (100, 50, 50), "dropped": (0, 5, 15)}.items()
        for priority, value in zip(("high", "med", "low"), values, strict=True)
    }
    return {
        "pages": table(
            seed=[3, 3, 3, 4],
            group=["web-10-probe"] * 4,
            client=[7, 7, 9, 9],
            start_s=[10, 49, 100, 200],
            time_s=[5.0, 4.0, 12.0, 2.0],
            bytes=[81000] * 4,
            connections=[9, 9, 9, 8],
        ),
        "echoes": table(
            seed=[3, 3, 4],
            group=["telnet-probe"] * 3,
            client=[1, 1, 2],
            start_s=[60.0, 60.2, 61.0],
            time_s=[0.2, 1.5, 0.1],
        ),
        "connections": table(
            seed=[3, 4, 4],
            group=["ftp", "ftp", "ftp-probe"],
            client=[1, 1, 5],
            start_s=[100, 100, 100],
            acked_s=[102, 110, 104],
            bytes=[1000, 2000, 200000],
        ),
        "ports": table(
            seed=SEEDS,
            port=["bottleneck"] * 2,
            delivered_bytes=[350_000, 700_000],
            utilization=[0.5, 0.9],
            **ports,
        ),
        "runs": table(seed=SEEDS, hops=[10, 20]),
    }


def times(*per_seed: Sequence[float]) -> Times:
    seconds = np.concatenate([np.asarray(one, float) for one in per_seed])
    seed = np.repeat(range(len(per_seed)), [len(one) for one in per_seed])
    return Times(seconds, seed, np.zeros(len(seconds), int), len(per_seed))


def result(**groups: Times) -> Result:
    """Returns a result with these times of pages, files and echoes, by the group's name.

    Its port drops a ninth of the LOW packets.
    """
    arrived = {"high": np.ones(2), "med": np.zeros(2), "low": np.full(2, 9.0)}
    port = Port(arrived, {"high": np.zeros(2), "med": np.zeros(2), "low": np.ones(2)}, np.ones(2), np.ones(2))
    return Result(
        pages=ByGroup({"web-10-probe": groups["pages"]} if "pages" in groups else {}, 2),
        connections=ByGroup({"ftp": groups["files"]} if "files" in groups else {}, 2),
        page_bytes={},
        page_connections={},
        file_bytes={},
        echoes=groups.get("echoes", times([], [])),
        keystrokes_s=np.zeros((0, 3)),
        ports={"bottleneck": port, "bottleneck:back": port},
    )


class FixedRuns:
    """Stand-in for `TreeRuns` that returns given results."""

    def __init__(self, results: Mapping[str, Result]) -> None:
        self.results = results

    def tree(self, scheme: str, _rate_mbps: float) -> Result:
        return self.results[scheme]

    def of(self, _name: str, variant: str, *_others: str) -> Result:
        return self.results[variant]

    first_of_tree, first, whole = tree, of, of


def runs_of(**results: Result) -> TreeRuns:
    """Returns a stand-in for `TreeRuns` with these results, by scheme or variant.

    An underscore in a name stands for a blank.
    """
    return cast(TreeRuns, FixedRuns({name.replace("_", " "): one for name, one in results.items()}))


def test_what_ended_before_the_warm_up_does_not_count() -> None:
    result = reduced(tables(), 0, SEEDS)
    pages = result.pages["web-10-probe"]
    assert list(pages.seconds) == [4.0, 12.0, 2.0]
    assert list(pages.counts()) == [2, 1]
    assert list(pages.above(3)) == [1, 0]
    assert list(pages.of([1]).seconds) == [12.0, 2.0], "users are numbered within their group"
    assert list(result.files_per_s("ftp", "ftp-probe")) == approx([1 / 300, 2 / 300])
    assert list(result.forward.loss()) == approx([0.1, 0.1])
    assert list(result.forward.bps) == approx([8000, 16000])


def test_a_group_of_which_nobody_finished_has_no_times_and_is_no_error() -> None:
    result = reduced(tables(), 0, SEEDS)
    assert list(result.pages["web-11-probe"].counts()) == [0, 0]
    assert np.isnan(result.pages["web-11-probe"].above(5)).all()


def test_a_keystroke_before_the_echo_of_the_last_one_is_noticed() -> None:
    result = reduced(tables(), 0, SEEDS)
    assert traffic.keystrokes_before_the_echo(runs_of(drop_tail=result)) == "0"
    hasty = {**tables()["echoes"], "start_s": np.array([60.0, 60.19, 61.0])}
    early = reduced({**tables(), "echoes": hasty}, 0, SEEDS)
    assert traffic.keystrokes_before_the_echo(runs_of(drop_tail=early)) == "1"


def test_echoes_within_bounds_are_a_share_of_all() -> None:
    runs = runs_of(drop_tail=result(echoes=times([0.1, 0.7, 1.0, 1.7], [0.1, 0.1, 1.6, 1.2])))
    assert schemes.echoes_within_pct(runs, 0.9, 1.6).mean == approx((25 + 50) / 2)


def test_schemes_are_alike_by_the_difference_of_their_slow_pages_seed_by_seed() -> None:
    # Half of the first run's pages are slow with RED, all of them with drop tail; in the second all and half.
    runs = runs_of(RED=result(pages=times([1, 6], [6, 6])), drop_tail=result(pages=times([6, 6], [1, 6])))
    apart = schemes.more_slow_points(runs, "RED", "drop tail", 5)
    assert apart.mean == 0
    assert apart.high == approx(12.706 * 50, rel=1e-4), "differences of -50 and 50, of deviation 50 sqrt(2)"


def test_shares_and_ratios_are_taken_seed_by_seed() -> None:
    runs = runs_of(
        drop_tail=result(pages=times([1, 6, 6, 6], [6, 6, 6, 6]), files=times([1, 1], [1, 1])),
        RED=result(pages=times([1, 1, 6, 6], [1, 6, 6, 6]), files=times([1], [1])),
    )
    slow = schemes.pages_above_pct(runs, "RED", 100, 5)
    assert slow.mean == approx(62.5)
    assert schemes.slow_ratio(runs, "RED", "drop tail", 5).mean == approx(0.625 / 0.875)
    assert schemes.files_ratio(runs, "RED", 60, "drop tail").mean == approx(0.5)
    assert schemes.loss_pct(runs, "RED", 60).mean == approx(10)


@pytest.mark.parametrize(
    ("means", "least"), [((9, 5, 4, 3, 2), 1), ((9, 5, 6, 3, 2), -1), ((9, 5, 4, 3, 3), 0)]
)
def test_times_fall_as_thresholds_rise_by_the_least_of_all_steps(
    means: Sequence[float], least: float
) -> None:
    results = {
        f"pages_{pair}": result(pages=times([mean], [mean]))
        for pair, mean in zip(beyond.THRESHOLDS, means, strict=True)
    }
    assert beyond.time_falls_with_thresholds(runs_of(**results), "pages") == Interval(least, least, least, 2)


def test_what_a_user_gets_is_whole_pages_and_files_per_second() -> None:
    greedy = result()
    greedy.pages["greedy-web"] = times([1] * 300, [1] * 600)
    greedy.connections["greedy-ftp"] = times([1] * 300, [])
    kbps = beyond.greedy_kbps(runs_of(honest=greedy), "honest")
    assert kbps.mean == approx((81 * 8 + 200 * 8 + 2 * 81 * 8) / 2 / beyond.GREEDY_USERS)

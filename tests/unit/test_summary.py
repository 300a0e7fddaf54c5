"""Tests of summaries of small tables, and of transfers cut short by the end of a run."""

import math

import numpy as np
import pytest
from pytest import approx

from catnip.analysis import summary
from catnip.analysis.summary import Summary
from catnip.report import summary_tables
from catnip.store.tables import Column, Table

SEEDS = [3, 4]
NAN = math.nan


def integers(*values: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.array(values, dtype=np.uint64)


def floats(*values: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array(values, dtype=np.float64)


RUNS: Table = {
    "variant": integers(0, 0, 1, 1),
    "seed": integers(3, 4, 3, 4),
    "hops": integers(9, 9, 9, 9),
}
GROUPS: Table = {
    "variant": integers(0, 0),
    "seed": integers(3, 4),
    "group": ["files"] * 2,
    "kind": ["transfers"] * 2,
    "started": integers(2, 1),
    "finished": integers(2, 1),
    "connections": integers(2, 1),
    "goodput_mbps": floats(3.2, 2),
    "sent": integers(100, 50),
    "retransmitted": integers(3, 2),
    "timeouts": integers(2, 0),
    "rtt_mean_s": floats(0.125, NAN),
    "rtt_samples": integers(4, 0),
    "fairness": floats(0.8, 0.5),
}
TRANSFERS: Table = {
    "variant": integers(0, 0, 0),
    "seed": integers(3, 3, 4),
    "group": ["files"] * 3,
    "number": integers(0, 1, 0),
    "time_s": floats(1.5, 3.5, 3.5),
    "waited_s": floats(1.5, 3.5, 3.5),
}
PORTS: Table = {
    "variant": integers(0, 0, 0),
    "seed": integers(3, 3, 4),
    "port": ["radio", "radio:back", "radio"],
    "arrived_high": integers(40, 7, 0),
    "arrived_med": integers(0, 7, 0),
    "arrived_low": integers(60, 7, 100),
    "dropped_high": integers(1, 7, 0),
    "dropped_med": integers(0, 7, 0),
    "dropped_low": integers(6, 7, 5),
    "utilization": floats(0.5, 0.25, 0.75),
    "queue_mean_packets": floats(3, 0, 5),
    "queue_delay_mean_s": floats(0.01, 0, 0.03),
}


def without_rows(table: Table) -> Table:
    return {key: values[:0] for key, values in table.items()}


TABLES = {"runs": RUNS, "groups": GROUPS, "transfers": TRANSFERS, "ports": PORTS}


def summarized(*variants: str, **tables: Table) -> dict[str, Summary]:
    """Returns the summary of variants from these tables; all other tables have no rows."""
    nothing = {name: without_rows(table) for name, table in TABLES.items()}
    return summary.of_tables(nothing | {"runs": RUNS} | tables, variants or ("one", "two"), SEEDS)


def waits(kind: str, seeds: list[int], times_s: list[float], numbers: list[int]) -> dict[str, Table]:
    """Returns tables of one group, `kind` pages or keystrokes, with these times; `numbers` are the pages'."""
    count = len(seeds)
    started = np.array([seeds.count(seed) for seed in SEEDS], dtype=np.uint64)
    groups = {**GROUPS, "kind": [kind] * 2, "started": started, "finished": started, "connections": started}
    transfers: Table = {
        "variant": np.zeros(count, dtype=np.uint64),
        "seed": np.array(seeds, dtype=np.uint64),
        "group": ["files"] * count,
        "number": np.array(numbers, dtype=np.uint64),
        "time_s": np.array(times_s),
        "waited_s": np.array(times_s),
    }
    return {"groups": groups, "transfers": transfers}


def test_known_pages_weigh_the_same_whoever_has_fetched_them() -> None:
    tables = waits("pages", [3, 3, 3, 4, 4], [1, 3, 5, 6, 4], [1, 1, 2, 2, 1])
    [of] = summarized(**tables)["one"].groups.values()
    assert (of.kind, of.started, of.finished, of.is_cut_short) == ("pages", 5, 5, False)
    assert of.means["page_time_s"].mean == approx(((2 + 5) / 2 + (6 + 4) / 2) / 2)
    assert of.restricted_s is None


def test_runs_that_differ_in_nothing_but_a_start_are_one_replicate() -> None:
    for longest_s, cell in ((2.001, "2.000 ="), (2.01, "2.002")):
        tables = waits("pages", [3, 3, 4, 4], [2, 2, 2, longest_s], [1, 1, 1, 1])
        summaries = summarized(**tables)
        table, *_ = summary_tables.tables("x", SEEDS, {"one": summaries["one"]})
        assert table.rows[0][1].startswith(cell)
        assert (table.note == summary_tables.ALIKE) == cell.endswith("=")


def test_drawn_pages_count_by_fetch() -> None:
    tables = waits("pages", [3, 3, 3, 4], [1, 3, 5, 6], [1, 1, 2, 2])
    [of] = summarized(**tables)["one"].groups.values()
    assert of.means["page_time_s"].mean == approx((3 + 6) / 2)


def test_keystrokes_are_told_by_their_echoes() -> None:
    [of] = summarized(**waits("keystrokes", [3, 3, 4], [0.1, 0.3, 0.5], [0, 1, 0]))["one"].groups.values()
    assert of.kind == "keystrokes"
    assert of.means["echo_s"].mean == approx((0.2 + 0.5) / 2)


def test_transfers_have_times_rates_and_fairness() -> None:
    means = summarized(groups=GROUPS, transfers=TRANSFERS)["one"].groups["files"].means
    assert means["completed_s"].mean == approx((2.5 + 3.5) / 2)
    assert means["goodput_mbps"].mean == approx((3.2 + 2) / 2)
    assert means["fairness"].mean == approx((0.8 + 0.5) / 2)
    assert means["retransmitted_pct"].mean == approx((3 + 4) / 2)
    assert means["timeouts"].mean == approx((1 + 0) / 2)
    assert means["rtt_ms"].mean == approx(125), "the second run has not measured any"
    assert means["median_s"].mean == approx(3.5)
    assert "p95_s" not in means, "of three there is none that only a twentieth exceeds"


def test_every_link_is_told_whatever_its_name() -> None:
    links = summarized(ports=PORTS)["one"].links
    assert list(links) == ["radio", "radio:back"]
    radio = {key: value.mean for key, value in links["radio"].items()}
    assert radio["loss_pct"] == approx((7 + 5) / 2)
    assert radio["utilization_pct"] == approx((50 + 75) / 2)
    assert radio["queue_packets"] == approx(4)
    assert radio["queue_delay_ms"] == approx(20)
    assert radio["high_share_pct"] == approx(40 / 2)
    assert radio["high_loss_pct"] == approx(2.5 / 2)


def both(one: dict[str, Table], two: dict[str, Table]) -> dict[str, Table]:
    """Joins the tables of two variants into tables of both."""

    def joined(name: str) -> Table:
        here, there = one[name], two[name]
        columns: dict[str, Column] = {}
        for key, values in here.items():
            if isinstance(values, list):
                columns[key] = [*values, *there[key]]
            else:
                columns[key] = np.concatenate([values, np.asarray(there[key])])
        return columns

    return {name: joined(name) for name in one}


def as_second(tables: dict[str, Table]) -> dict[str, Table]:
    return {name: {**of, "variant": np.asarray(of["variant"]) + np.uint64(1)} for name, of in tables.items()}


def test_a_summary_of_several_variants_is_that_of_each_alone() -> None:
    once = {"groups": GROUPS, "transfers": TRANSFERS}
    alone = summarized(**once)["one"].groups["files"]
    twice = summarized(**both(once, as_second(once)))
    assert str(twice["one"].groups["files"]) == str(twice["two"].groups["files"]) == str(alone)


def often(table: Table, times: int) -> Table:
    """Returns a table with each row as many times."""
    return {
        key: np.repeat(values, times)
        if isinstance(values, np.ndarray)
        else [str(value) for value in values for _ in range(times)]
        for key, values in table.items()
    }


@pytest.mark.parametrize("times", [33, 34])
def test_differences_are_paired_by_seed_and_known_from_a_hundred_transfers_on(times: int) -> None:
    transfers = often(TRANSFERS, times)
    waits_s = np.repeat(floats(2, 4, 4), times)
    slow: dict[str, Table] = {
        "groups": GROUPS,
        "transfers": {**transfers, "time_s": waits_s, "waited_s": waits_s},
    }
    summaries = summarized(**both({"groups": GROUPS, "transfers": transfers}, as_second(slow)))
    one, two = (summaries[name].groups["files"] for name in ("one", "two"))
    less = two.less(one)
    if 3 * times < 100:
        assert math.isnan(one.means["completed_s"].low)
        assert math.isnan(less["completed_s"].low)
        return
    # Seeds differ by a second, variants by half a second with the same seed.
    assert (less["completed_s"].low, less["completed_s"].high) == approx((0.5, 0.5))
    assert less["goodput_mbps"].mean == 0
    assert one.means["completed_s"].low < 0


def cut_short(seeds: list[int], times_s: list[float], is_over: list[bool]) -> dict[str, Table]:
    """Returns tables of transfers with their times, some of which the end of the run cut short."""
    over = np.array(is_over)
    tables = waits("transfers", seeds, times_s, list(range(len(seeds))))
    finished = [sum(over & (np.array(seeds) == seed)) for seed in SEEDS]
    groups = {**tables["groups"], "finished": np.array(finished, dtype=np.uint64)}
    ends = np.where(over, times_s, NAN)
    return {"groups": groups, "transfers": {**tables["transfers"], "time_s": ends}}


def test_the_restricted_mean_and_the_median_are_those_of_the_textbook() -> None:
    # Weeks of remission under 6-MP (Freireich et al., Blood 21, 1963; table 1 of Gehan, Biometrika 52, 1965).
    # R's survival package, `print(survfit(Surv(time, status) ~ 1), rmean = 35)`, has 23.287 and 23.
    over = [6, 6, 6, 7, 10, 13, 16, 22, 23]
    still = [6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35]
    weeks = [float(t) for t in over + still]
    tables = cut_short([3] * 20 + [4], weeks, [True] * 9 + [False] * 12)
    of = summarized(**tables)["one"].groups["files"]
    assert (of.finished, of.started, of.horizon_s) == (9, 21, 35)
    assert of.restricted_s is not None
    assert of.restricted_s.mean == approx(23.287, abs=5e-4)
    assert of.means["median_s"].mean == 23
    assert "p95_s" not in of.means, "it is not known when a twentieth is left"


def test_what_a_run_cuts_short_turns_no_conclusion_round() -> None:
    # The second variant is slower. All transfers of the first variant finish in time, but only the fast
    # transfers of the second.
    fast = cut_short([3, 3, 4, 4], [2, 3, 2.5, 3.5], [True] * 4)
    slow = cut_short([3, 3, 4, 4], [1, 5, 1.5, 5], [True, False, True, False])
    summaries = summarized(**both(fast, as_second(slow)))
    one, two = (summaries[name].groups["files"] for name in ("one", "two"))
    assert two.means["completed_s"].mean < one.means["completed_s"].mean, "a mean of what has finished errs"
    assert (two.finished, two.started, two.is_cut_short) == (2, 4, True)
    assert one.restricted_s is not None
    assert two.restricted_s is not None
    # Both variants have information up to 5 s, because all transfers of the first variant finish before.
    assert one.horizon_s == two.horizon_s == 5
    assert one.restricted_s.mean == approx((2 + 3 + 2.5 + 3.5) / 4)
    assert two.restricted_s.mean == approx((1 + 5 + 1.5 + 5) / 4)
    assert two.less(one)["restricted_s"].mean == approx((1 + 5 + 1.5 + 5 - 11) / 4)


def test_where_nothing_has_finished_there_are_no_times() -> None:
    open_ = cut_short([3, 3, 4, 4], [1, 1, 2, 2], [False] * 4)
    [of] = summarized(**open_)["one"].groups.values()
    assert (of.finished, of.started) == (0, 4)
    assert not {"completed_s", *summary.QUANTILES} & set(of.means)
    assert of.restricted_s is not None
    assert of.restricted_s.mean == of.horizon_s == 2

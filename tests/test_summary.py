"""Summaries of small tables whose values can be seen, and of what the end of a run has cut short."""

import math

import numpy as np
from pytest import approx

from catnip import summary
from catnip.summary import Summary
from catnip.tables import Table

SEEDS = [3, 4]
NAN = math.nan


def integers(*values: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.array(values, dtype=np.uint64)


def floats(*values: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array(values, dtype=np.float64)


RUNS: Table = {
    "variant": integers(0, 0, 1, 1),
    "seed": integers(3, 4, 3, 4),
    "end_s": floats(10, 8, 10, 8),
    "hops": integers(9, 9, 9, 9),
}
PAGES: Table = {
    "variant": integers(0, 0, 0, 0, 0),
    "seed": integers(3, 3, 3, 4, 4),
    "group": ["readers"] * 5,
    "page": integers(1, 1, 2, 2, 1),
    "start_s": floats(0, 0, 0, 0, 0),
    "time_s": floats(1, 3, 5, 6, 4),
}
ECHOES: Table = {
    "variant": integers(0, 0, 0),
    "seed": integers(3, 3, 4),
    "group": ["typists"] * 3,
    "number": integers(0, 1, 0),
    "start_s": floats(0, 0, 0),
    "time_s": floats(0.1, 0.3, 0.5),
}
CONNECTIONS: Table = {
    "variant": integers(0, 0, 0),
    "seed": integers(3, 3, 4),
    "group": ["files"] * 3,
    "client": integers(0, 1, 0),
    "start_s": floats(1, 2, 0),
    "received_s": floats(2, 5, 3),
    "acked_s": floats(2.5, 5.5, 3.5),
    "delivered_bytes": integers(1_000_000, 3_000_000, 2_000_000),
    "retransmitted": integers(0, 3, 2),
    "timeouts": integers(0, 2, 0),
    "rtt_mean_s": floats(0.1, 0.2, NAN),
    "rtt_samples": integers(3, 1, 0),
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


TABLES = {"runs": RUNS, "pages": PAGES, "connections": CONNECTIONS, "echoes": ECHOES, "ports": PORTS}


def summarized(*variants: str, **tables: Table) -> dict[str, Summary]:
    """Of these tables and of no rows in others."""
    nothing = {name: without_rows(table) for name, table in TABLES.items()}
    return summary.summarize(nothing | {"runs": RUNS} | tables, variants or ("one", "two"), SEEDS)


def test_known_pages_weigh_the_same_whoever_has_fetched_them() -> None:
    [of] = summarized(pages=PAGES)["one"].groups.values()
    assert (of.kind, of.started, of.finished, of.is_cut_short) == ("pages", 5, 5, False)
    assert of.means["page_time_s"].mean == approx(((2 + 5) / 2 + (6 + 4) / 2) / 2)
    assert of.restricted_s is None


def test_drawn_pages_count_by_fetch() -> None:
    drawn: Table = {key: np.asarray(values)[:4] for key, values in PAGES.items()}
    [of] = summarized(pages=drawn)["one"].groups.values()
    assert of.means["page_time_s"].mean == approx((3 + 6) / 2)


def test_keystrokes_are_told_by_their_echoes() -> None:
    [of] = summarized(echoes=ECHOES)["one"].groups.values()
    assert of.kind == "keystrokes"
    assert of.means["echo_s"].mean == approx((0.2 + 0.5) / 2)


def test_each_group_stands_for_itself() -> None:
    groups = summarized(pages=PAGES, connections=CONNECTIONS)["one"].groups
    assert {name: of.kind for name, of in groups.items()} == {"readers": "pages", "files": "transfers"}


def test_transfers_have_times_rates_and_fairness() -> None:
    means = summarized(connections=CONNECTIONS)["one"].groups["files"].means
    assert means["received_s"].mean == approx((2 + 3) / 2)
    assert means["completed_s"].mean == approx((2.5 + 3.5) / 2)
    assert means["retransmitted"].mean == approx((1.5 + 2) / 2)
    # 4 MB in 10 s, 2 MB in 8 s.
    assert means["goodput_mbps"].mean == approx((3.2 + 2) / 2)
    # Jain's index of 1 and 3, and of 2 and 0.
    assert means["fairness"].mean == approx((16 / 20 + 4 / 8) / 2)
    assert "rtt_ms" not in means, "the second run has not measured any"


def test_round_trips_count_as_often_as_they_were_measured() -> None:
    measured: Table = {**CONNECTIONS, "rtt_mean_s": floats(0.1, 0.2, 0.4), "rtt_samples": integers(3, 1, 2)}
    means = summarized(connections=measured)["one"].groups["files"].means
    assert means["rtt_ms"].mean == approx((125 + 400) / 2)


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


def test_a_summary_of_several_variants_is_that_of_each_alone() -> None:
    twice: Table = {
        key: [*values, *values] if isinstance(values, list) else np.concatenate([values, values])
        for key, values in CONNECTIONS.items()
    } | {"variant": integers(0, 0, 0, 1, 1, 1)}
    alone = summarized(connections=CONNECTIONS)["one"].groups["files"]
    both = summarized(connections=twice)
    assert str(both["one"].groups["files"]) == str(both["two"].groups["files"]) == str(alone)


def cut_short(variant: int, seeds: list[int], times_s: list[float], is_over: list[bool]) -> Table:
    """Transfers from 0 on that have taken so long when they ended or the run did."""
    over = np.array(is_over)
    count = len(times_s)
    ends = np.where(over, times_s, NAN)
    return {
        "variant": np.full(count, variant, dtype=np.uint64),
        "seed": np.array(seeds, dtype=np.uint64),
        "group": ["files"] * count,
        "client": np.arange(count, dtype=np.uint64),
        "start_s": np.where(over, 0, np.where(np.array(seeds) == 3, 10, 8) - np.array(times_s)),
        "received_s": ends,
        "acked_s": ends,
        "delivered_bytes": np.full(count, 1000, dtype=np.uint64),
        "retransmitted": np.zeros(count, dtype=np.uint64),
        "timeouts": np.zeros(count, dtype=np.uint64),
        "rtt_mean_s": np.full(count, NAN),
        "rtt_samples": np.zeros(count, dtype=np.uint64),
    }


def test_the_restricted_mean_is_that_of_the_textbook() -> None:
    # Weeks of remission under 6-MP (Freireich et al., Blood 21, 1963; table 1 of Gehan, Biometrika 52, 1965).
    # R's survival package, `print(survfit(Surv(time, status) ~ 1), rmean = 35)`, has 23.287.
    over = [6, 6, 6, 7, 10, 13, 16, 22, 23]
    still = [6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35]
    run: Table = {
        "variant": integers(0),
        "seed": integers(3),
        "end_s": floats(10),
        "hops": integers(1),
    }
    weeks = cut_short(0, [3] * 21, [float(t) for t in over + still], [True] * 9 + [False] * 12)
    nothing = {name: without_rows(table) for name, table in TABLES.items()}
    made = summary.summarize(nothing | {"runs": run, "connections": weeks}, ["6-MP"], [3])
    of = made["6-MP"].groups["files"]
    assert (of.finished, of.started, of.horizon_s) == (9, 21, 35)
    assert of.restricted_s is not None
    assert of.restricted_s.mean == approx(23.287, abs=5e-4)


def test_what_a_run_cuts_short_turns_no_conclusion_round() -> None:
    # The second variant is slower. Of the first, all is over by the end; of the second, only what was quick.
    fast = cut_short(0, [3, 3, 4, 4], [2, 3, 2.5, 3.5], [True] * 4)
    slow = cut_short(1, [3, 3, 4, 4], [1, 5, 1.5, 5], [True, False, True, False])
    both: Table = {
        key: [*fast[key], *slow[key]] if key == "group" else np.concatenate([fast[key], slow[key]])
        for key in fast
    }
    made = summarized(connections=both)
    one, two = (made[name].groups["files"] for name in ("one", "two"))
    assert two.means["completed_s"].mean < one.means["completed_s"].mean, "a mean of what has finished errs"
    assert (two.finished, two.started, two.is_cut_short) == (2, 4, True)
    assert one.restricted_s is not None
    assert two.restricted_s is not None
    # Of both something is known up to 5 s: of the first, that all is over before.
    assert one.horizon_s == two.horizon_s == 5
    assert one.restricted_s.mean == approx((2 + 3 + 2.5 + 3.5) / 4)
    assert two.restricted_s.mean == approx((1 + 5 + 1.5 + 5) / 4)


def test_where_nothing_has_finished_there_are_no_times() -> None:
    open_ = cut_short(0, [3, 3, 4, 4], [1, 1, 2, 2], [False] * 4)
    [of] = summarized(connections=open_)["one"].groups.values()
    assert (of.finished, of.started) == (0, 4)
    assert set(of.means) == {"goodput_mbps", "fairness"}
    assert of.restricted_s is not None
    assert of.restricted_s.mean == of.horizon_s == 2

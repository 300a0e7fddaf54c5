"""Today's congestion controllers and queues on a single bottleneck, compared with the literature."""

from typing import Any

import pytest

import catnip

BULK = {"kind": "bulk", "bytes": "endless", "start": "uniform:minimum=0s,maximum=1s"}


def bottleneck(groups: dict[str, dict[str, Any]], line: dict[str, str], seconds: int) -> dict[str, Any]:
    """Returns a scenario in which groups of senders, each with its own hosts, share one line."""
    access = {"rate": "10Gbit", "delay": "1ms", "queue": "drop-tail:10000"}
    nodes: dict[str, Any] = {"r": {"kind": "router"}, "s": {"kind": "router"}}
    links = {"line": {"from": "r", "to": "s", **line}}
    traffic = {}
    for name, group in groups.items():
        a, b, count = f"a_{name}", f"b_{name}", group.get("count", 1)
        nodes |= {a: {"kind": "host", "count": count}, b: {"kind": "host", "count": count}}
        links |= {
            f"in_{name}": {"from": a, "to": "r", **access},
            f"out_{name}": {"from": "s", "to": b, **access},
        }
        kind = group.get("kind", BULK)
        ends = {"from": a, "to": b} if kind == BULK else {"clients": a, "servers": b}
        traffic[name] = {**ends, "tcp": group["tcp"], **kind}
    return {
        "id": "X",
        "title": "One bottleneck",
        "duration": f"{seconds}s",
        "warm_up": "10s",
        "node": nodes,
        "link": links,
        "traffic": traffic,
    }


def test_cubic_has_renos_share_where_it_is_friendly_and_that_of_its_response_function_beyond() -> None:
    tcp = {"profile": "rfc", "recovery": "rack", "delayed_ack": False}
    groups = {control: {"tcp": {**tcp, "control": control}} for control in ("cubic", "reno")}
    # RFC 9438, section 5.1: at a round trip of 0.1 s Reno has a mean window of 1.2 / p^0.5, CUBIC of
    # 1.054 (0.1 s)^0.75 / p^0.75 unless Reno's is larger.
    for loss, p in (("0.1%", 1e-3), ("0.01%", 1e-4)):
        line = {"rate": "10Gbit", "delay": "48ms", "queue": "drop-tail:100000", "loss": f"bernoulli:{loss}"}
        groups_table = catnip.run(bottleneck(groups, line, 1500), seeds=4).to_pandas("groups")
        reno, cubic = (
            groups_table[groups_table["group"] == name]["goodput_mbps"].mean() for name in ("reno", "cubic")
        )
        predicted = max(1.2 / p**0.5, 1.054 * (0.1 / p) ** 0.75) / (1.2 / p**0.5)
        assert cubic / reno == pytest.approx(predicted, rel=0.2), loss


def test_codel_holds_the_standing_queue_near_its_target() -> None:
    groups = {"bulk": {"count": 4, "tcp": {"profile": "linux-6"}}}
    line = {"rate": "20Mbit", "delay": "23ms", "queue": "codel:1000"}
    results = catnip.run(bottleneck(groups, line, 60), seeds=3, tables=["groups"])
    queue_s = results.to_pandas("groups")["rtt_mean_s"].mean() - 0.050
    assert 0.0025 < queue_s < 0.010
    line["queue"] = "drop-tail:1000"
    full = catnip.run(bottleneck(groups, line, 60), seeds=3).to_pandas("groups")
    assert full["rtt_mean_s"].mean() - 0.050 > 0.1


@pytest.mark.parametrize("queue", ["fq-codel:10000", "cake:10000"])
def test_a_sparse_flow_does_not_wait_behind_a_hundred_bulk_flows(queue: str) -> None:
    groups: dict[str, dict[str, Any]] = {
        "bulk": {"count": 100, "tcp": {"profile": "linux-6"}},
        "keys": {
            "tcp": {"profile": "linux-6"},
            "kind": {"kind": "telnet", "pause": "exponential:mean=200ms"},
        },
    }
    line = {"rate": "20Mbit", "delay": "23ms", "queue": queue}
    echoes = catnip.run(bottleneck(groups, line, 60), seeds=3).to_pandas("echoes")
    # A packet waits at most for the packet in transmission, 0.6 ms, and for other new flows. The round trip
    # is 50 ms.
    assert echoes["time_s"].median() - 0.050 < 0.002


def test_dual_pi2_keeps_l4s_data_below_a_millisecond_while_classic_flows_fill_the_link() -> None:
    groups = {
        "l4s": {"tcp": {"profile": "linux-6", "control": "dctcp", "ecn": "l4s"}},
        "classic": {"tcp": {"profile": "linux-6"}},
    }
    line = {"rate": "100Mbit", "delay": "3ms", "queue": "dual-pi2:10000"}
    results = catnip.run(bottleneck(groups, line, 60), seeds=3).to_pandas("groups")
    of = {name: results[results["group"] == name] for name in groups}
    assert of["l4s"]["rtt_mean_s"].mean() - 0.010 < 0.001
    assert 0.005 < of["classic"]["rtt_mean_s"].mean() - 0.010 < 0.025
    assert sum(one["goodput_mbps"].mean() for one in of.values()) > 0.9 * 100 * 1448 / 1500


def test_cake_is_fair_between_hosts_where_fq_codel_is_fair_between_connections() -> None:
    groups = {name: {"tcp": {"profile": "linux-6"}} for name in ("two", "eight")}
    shares = {}
    for queue in ("fq-codel:1000", "cake:1000,isolation=dual-srchost"):
        scenario = bottleneck(groups, {"rate": "20Mbit", "delay": "10ms", "queue": queue}, 40)
        # One sender has two connections, as a single one leaves a tenth of its half unused.
        for name, count in (("two", 2), ("eight", 8)):
            for number in range(1, count):
                scenario["traffic"][f"{name}-{number}"] = scenario["traffic"][name]
        goodputs = catnip.run(scenario, seeds=2).to_pandas("groups").groupby("group")["goodput_mbps"].mean()
        of_two = goodputs[goodputs.index.str.startswith("two")]
        shares[queue.split(":")[0]] = of_two.sum() / goodputs.sum()
    assert shares["fq-codel"] == pytest.approx(0.2, rel=0.1)
    assert shares["cake"] == pytest.approx(0.5, rel=0.1)


def test_prague_shares_a_line_whatever_its_round_trip_where_dctcp_takes_all_over_the_short_one() -> None:
    shares = {}
    for control in ("dctcp", "prague"):
        tcp = {"profile": "linux-6", "control": control, "ecn": "l4s", "pacing": "rate:1"}
        groups = {name: {"tcp": tcp} for name in ("short", "long")}
        line = {"rate": "40Mbit", "delay": "500us", "queue": "dual-pi2:10000"}
        scenario = bottleneck(groups, line, 60)
        # The round trips are 5 and 25 ms. By Prague's draft (section 2.4), both senders get equal rates. With
        # DCTCP, rates are at best inversely proportional to the round trip.
        scenario["link"]["in_long"] = {**scenario["link"]["in_long"], "delay": "11ms"}
        goodputs = catnip.run(scenario, seeds=3).to_pandas("groups").groupby("group")["goodput_mbps"].mean()
        shares[control] = goodputs["long"] / goodputs.sum()
        assert goodputs.sum() > 0.95 * 40 * 1448 / 1500
    assert shares["prague"] == pytest.approx(0.5, rel=0.1)
    assert shares["dctcp"] < 1 / 6


def test_prague_above_its_reference_shares_between_the_ratio_of_round_trips_and_its_square() -> None:
    tcp = {"profile": "linux-6", "control": "prague", "ecn": "l4s", "pacing": "rate:1"}
    scenario = bottleneck(
        {name: {"tcp": tcp} for name in ("short", "long")},
        {"rate": "20Mbit", "delay": "8ms", "queue": "dual-pi2:1000"},
        90,
    )
    scenario["link"]["in_long"] = {**scenario["link"]["in_long"], "delay": "51ms"}
    goodputs = catnip.run(scenario, seeds=3).to_pandas("groups").groupby("group")["goodput_mbps"].mean()
    # The round trips are 20 ms, which counts as 25, and 120 ms. Equal windows give their ratio; behind a step
    # DCTCP, whose rules apply above 25 ms, takes by its square (docs/deviations.md).
    assert 120 / 25 < goodputs["short"] / goodputs["long"] < (120 / 25) ** 2

"""Tests of the testbed's quantities: hand-made links and clients, values by hand."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from test_quantities import Columns

from catnip import models
from catnip.analysis import resampling, stats
from catnip.analysis.interval import Interval
from catnip.base.progress import Progress
from catnip.papers import runner
from catnip.papers.testbed import latency, systems, wan
from catnip.papers.testbed.estimators import ESTIMATORS, HIGH, LOW, NEW, PAPER, TODAY, Timers
from catnip.papers.testbed.runs import FetchRuns, Measured, Point


def fetched(*latencies_s: float, link: Mapping[str, Any] | None = None, **more: Any) -> Measured:
    """Returns the measured fetches of a client; a negative latency is a fetch abandoned after 120 s."""
    lines = [
        json.dumps({"latency_s": one, "connect_s": one, "bytes": 10240})
        if one >= 0
        else json.dumps({"error": "TimeoutError", "after_s": 120.0})
        for one in latencies_s
    ]
    certificate = link or {"up": side(), "down": side()}
    return Measured(Point("p", []), "\n".join(lines), certificate, **{"log": None, **more})


def side(requested_loss: str = "none", delay: str = "20ms", **more: Any) -> dict[str, Any]:
    counters = {
        "packets_in": 10,
        "packets_out": 10,
        "dropped": {},
        "held": 0,
        "loss": 0.0,
        "delay_ms": {"mean": 20.0},
    }
    return {"asked": {"loss": requested_loss, "delay": delay}, **counters, **more}


class Lab(FetchRuns):
    """Stand-in for `FetchRuns` that returns given results, by name of the measurement."""

    def __init__(
        self,
        simulated: Mapping[str, Any] | None = None,
        emulated: Mapping[str, list[wan.Emulated]] | None = None,
        **made: Mapping[str, Measured],
    ) -> None:
        super().__init__(False, None, 1, Progress(quiet=True))
        self.made = made
        for name, times in (simulated or {}).items():
            self.cached(("simulated", name), partial(dict, times))
        if emulated:
            self.cached(wan.EMULATED, partial(dict, emulated))

    def of(self, name: str, *_points: Any, **_more: Any) -> dict[str, Measured]:
        known = name.replace(" ", "_").replace("-", "_").replace("%", "pct").replace("'", "")
        return dict(self.made[known])


def in_lab(name: str, lab: Lab, **arguments: Any) -> Any:
    return runner.load("testbed").measured[name](lab, **arguments)


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces the states of the simulated link: at load x > 0, the delay is x ms and the loss x/10."""

    def state(load: float) -> latency.LinkState:
        values = (load / 1e3, load, load / 10)
        return latency.LinkState(load, *(Interval(value, value, value, 9) for value in values))

    monkeypatch.setattr(latency, "states", lambda _: tuple(map(state, latency.LOADS)))


def over_load(seconds: Callable[[float], float]) -> dict[str, Measured]:
    return {f"{size}-{100 * x:g}": fetched(*[seconds(x)] * 2) for size in (3, 10, 30) for x in latency.LOADS}


def over_loss(seconds: Callable[[float], float]) -> dict[str, Measured]:
    return {f"{size}-{100 * x:g}": fetched(seconds(x)) for size in (3, 10, 30) for x in latency.LOSSES}


def over_delay(seconds: Callable[[float], float]) -> dict[str, Measured]:
    return {f"{size}-{x}": fetched(seconds(x)) for size in (3, 10, 30) for x in latency.DELAYS_MS}


@pytest.mark.usefixtures("loads")
def test_a_link_that_gets_better_with_load_is_counted_and_its_spread_is_compared() -> None:
    assert in_lab("falls_with_load", Lab(), of="delay_s") == "0"
    assert in_lab("deviation_grows_by", Lab(), from_pct=10, to_pct=100).mean == pytest.approx(10)
    assert in_lab("deviation_ms", Lab(), load_pct=60).mean == pytest.approx(600)
    assert in_lab("link_loss_pct", Lab(), load_pct=60).mean == pytest.approx(6)


@pytest.mark.usefixtures("loads")
def test_latency_rises_by_the_least_step_between_loads() -> None:
    noisy = over_load(lambda x: x) | {"3-50": fetched(0.1, 0.2, 0.9), "3-60": fetched(0.1, 0.15, 0.2, 0.25)}
    lab = Lab(latency_over_load=noisy)
    steady = in_lab("least_rise_ms", lab, size=10)
    assert (steady.mean, steady.low, steady.high) == pytest.approx((100, 100, 100))
    # 0.175 s at 60 % is 0.225 s less than 0.4 s at 50 %, but these few fetches cannot tell.
    few = in_lab("least_rise_ms", lab, size=3)
    assert few.mean == pytest.approx(-225)
    assert few.low < -225 < 0 < few.high
    falling = over_load(lambda x: 1 - x)
    assert in_lab("least_rise_ms", Lab(latency_over_load=falling), size=3).high == pytest.approx(-100)


@pytest.mark.usefixtures("loads")
def test_slopes_are_those_on_both_sides_of_the_knee() -> None:
    bent = Lab(
        latency_over_load=over_load(lambda x: x if x <= 0.6 else 0.6 + 3 * (x - 0.6)),
        latency_over_loss=over_loss(lambda x: x if x <= 0.1 else 0.1 + 4 * (x - 0.1)),
    )
    assert in_lab("steeper_above", bent, over="load", size=3).mean == pytest.approx(3)
    assert in_lab("steeper_above", bent, over="loss", size=30).mean == pytest.approx(4)
    # The knee belongs to both sides: a peak at the knee rises by 0.3/0.28 and falls by 0.2/0.1.
    peak = Lab(latency_over_load=over_load(lambda x: float(x == 0.6)))
    assert in_lab("steeper_above", peak, over="load", size=3).mean == pytest.approx(-28 / 15)


def test_a_straight_line_is_straight_and_a_step_is_not() -> None:
    straight, step = (
        in_lab("straightness", Lab(latency_over_delay=over_delay(seconds)), size=3)
        for seconds in (lambda x: 2 + x, lambda x: float(x > 100))
    )
    assert straight.mean == pytest.approx(1)
    # Slope 7/1330 per ms explains 0.765 of the variance: np.corrcoef squared of positions and step.
    position = np.array(latency.DELAYS_MS)
    assert step.mean == pytest.approx(np.corrcoef(position, position > 100)[0, 1] ** 2)


@pytest.mark.usefixtures("loads")
def test_parts_of_a_load_are_held_against_the_whole_load_by_load() -> None:
    # Delay alone gives 1 s and loss alone 2 s. The whole load gives 3 s, but 6 s at 90 %; at 10 % loss
    # nothing is compared.
    combined = over_load(lambda x: 6.0 if x == 0.9 else 99.0 if x == 1 else 3.0)
    parts = {
        f"{size}-{100 * x:g}-{part}": fetched(seconds)
        for size in (3, 10, 30)
        for x in latency.LOADS
        for part, seconds in (("delay", 1.0), ("loss", 2.0))
    }
    lab = Lab(latency_over_load=combined, parts_of_a_load=parts)
    assert in_lab("parts_off_pct", lab, size=3, statistic="largest").mean == pytest.approx(50)
    assert in_lab("parts_off_pct", lab, size=3, statistic="mean").mean == pytest.approx(50 / 9)
    assert in_lab("parts_off_pct", lab, size=3, statistic="in total").mean == pytest.approx(
        100 * (1 - 27 / 30)
    )


def test_the_widest_interval_is_half_of_it_over_its_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    intervals = [Interval(1, 1, 1, 9), *[Interval(2, 1, 3, 9)] * 6, Interval(4, 3.5, 4.1, 9)]
    monkeypatch.setattr(latency, "latencies", lambda *_: intervals)
    assert in_lab("widest_interval_pct", Lab(), over="loss", statistic="largest") == pytest.approx(50)
    assert in_lab("widest_interval_pct", Lab(), over="loss", statistic="median") == pytest.approx(50)
    # A tenth of the width takes a hundred times as many.
    lab = Lab()
    expected = 100 * lab.scaled(10_000)
    assert in_lab("fetches_until_5_pct", lab, over="loss") == pytest.approx(expected)


@pytest.fixture
def models_of_one_and_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces the models' latencies: new 1 s, Model C low 0.5 s, high 2 s; tenfold with old timers."""
    values_s = {NEW: 1.0, LOW: 0.5, HIGH: 2.0}

    def model(value: float) -> Callable[..., float]:
        return lambda _packets, _loss, _delay_s, timers: value * (1 if timers.times_handshake else 10)

    monkeypatch.setattr(latency, "ESTIMATORS", {name: model(value) for name, value in values_s.items()})


@pytest.mark.usefixtures("loads", "models_of_one_and_more")
def test_errors_of_models_are_relative_to_what_was_measured() -> None:
    # Measured latencies: 2 s below 50 % load, 4 s at 50 %, 10 s at 60 %, then 1 s. Without load nothing is
    # compared.
    lab = Lab(
        latency_over_load=over_load(
            lambda x: 9 if x == 0 else 2 if x < 0.5 else 4 if x == 0.5 else 10 if x == 0.6 else 1.0
        )
    )

    def of(name: str, **more: Any) -> Any:
        return in_lab(name, lab, over="load", size=3, server="kernel", **more)

    assert of("error_pct", model=NEW, statistic="largest", below_knee=True).mean == pytest.approx(75)
    assert of("error_pct", model=NEW, statistic="mean").mean == pytest.approx((4 * 50 + 75 + 90) / 10)
    low = (4 * 75 + 87.5 + 95 + 4 * 50) / 10
    assert of("error_less_pct", than=LOW).mean == pytest.approx((4 * 50 + 75 + 90) / 10 - low)
    # Model C high predicts 2 s, so it is exact up to 40 % load, and closer than the new model at 50 and 60 %.
    assert of("positions_of_another") == "10, 20, 30, 40, 50, 60"


@pytest.mark.usefixtures("loads", "models_of_one_and_more")
def test_model_c_is_judged_from_60_pct_load_on() -> None:
    lab = Lab(latency_over_load=over_load(lambda x: 100.0 if x < 0.6 else 1 + x))
    smallest = in_lab("measured_over", lab, model=LOW, size=3, server="kernel", statistic="least")
    largest = in_lab("measured_over", lab, model=HIGH, size=3, server="kernel", statistic="most")
    assert (smallest.mean, largest.mean) == pytest.approx((1.6 / 0.5, 2 / 2))


@pytest.mark.usefixtures("loads", "models_of_one_and_more")
def test_an_error_varies_as_the_measured_latencies_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "latencies", lambda *_: [Interval(2.0, 1.9, 2.1, 50)] * len(latency.LOADS))
    value = in_lab("error_pct", Lab(), model=NEW, over="load", size=3, server="kernel", statistic="mean")
    # 1 s is predicted: 50 %, which a latency moves by 100 / 2**2 = 25 % per second, and the mean of ten by a
    # root of ten less.
    assert (value.mean, value.n) == (pytest.approx(50), 50)
    assert (value.high - value.low) / 2 == pytest.approx(25 * 0.1 / math.sqrt(10), rel=0.1)


@pytest.mark.usefixtures("models_of_one_and_more")
def test_a_simulated_kernel_is_held_against_models_with_its_timers() -> None:
    by_variant = {
        f"{stack} / wire_loss=bernoulli:{loss:g}": {size: np.full(4, 5.0 * scale) for size in (3, 10, 30)}
        for stack, scale in (("linux-2.0", 1), ("today", 99))
        for loss in latency.LOSSES
    }
    lab = Lab({"testbed-loss": by_variant}, latency_over_loss=over_loss(lambda x: 1 + 10 * x))
    assert in_lab("heavy_loss_ratio", lab, size=3, server="linux-2.0").mean == pytest.approx(2)
    # The measured latencies are 2.5 and 3 s at 15 and 20 % loss.
    assert in_lab("heavy_loss_ratio", lab, size=3, server="kernel").mean == pytest.approx(
        (1 / 2.5 + 1 / 3) / 2
    )
    assert in_lab("stack_over_kernel", lab, size=3, variant="today", loss_pct=10) == pytest.approx(495 / 2)


def test_fetches_that_were_given_up_are_counted_and_weigh_as_long_as_they_were_tried() -> None:
    lab = Lab(latency_over_delay={"a": fetched(1.0, -1)}, latency_over_loss={"b": fetched(-1, -1, 2.0)})
    assert in_lab("fetches_that_did_not_end", lab) == 3
    assert replace(fetched(1.0), point=Point("p", [], file="30")).errors == 1, "not the whole file"
    assert fetched(1.0, -1).mean_s.mean == pytest.approx(60.5)


def test_a_red_link_is_counted_unless_it_was_stopped_on_purpose() -> None:
    red = fetched(1.0, link={"verdict": "red"})
    stopped = replace(red, point=Point("p", [], stops=True))
    lab = Lab(latency_over_delay={"a": red, "b": stopped}, latency_over_loss={"c": fetched(1.0)})
    assert in_lab("red_certificates", lab) == "1"


def test_loss_and_delay_of_links_are_off_by_what_was_asked() -> None:
    lossy = {
        "up": side("bernoulli:0.1", packets_in=900, loss=0.12),
        "down": side("bernoulli:0.1", packets_in=900, loss=0.09),
    }
    lab = Lab(
        latency_over_loss={"a": fetched(1.0, link=lossy), "b": fetched(1.0)},
        latency_over_delay={
            "a": fetched(0.0405, 0.0405, 9.0),
            "b": fetched(
                0.4,
                link={
                    "up": side(delay="200ms", delay_ms={"mean": 202}),
                    "down": side(delay_ms={"mean": 200}),
                },
            ),
        },
    )
    assert in_lab("loss_off_sigmas", lab, statistic="mean") == pytest.approx(1.5)
    assert in_lab("loss_off_sigmas", lab, statistic="largest") == pytest.approx(2)
    # The difference is half a millisecond for 40 ms, and none for 400 ms.
    assert in_lab("round_trip_off", lab) == pytest.approx(0.5)
    # The difference is 2 ms of 200 ms, half of the tolerance of 2 %.
    assert in_lab("delay_off", lab) == pytest.approx(0.5)


def test_packets_of_a_link_are_accounted_for() -> None:
    def mode(**more: Any) -> Lab:
        return Lab(link_modes={"queue": fetched(link={"up": side(**more), "down": side(**more)})})

    assert in_lab("unaccounted", mode(dropped={"loss": 2}, held=1, packets_out=7), mode="queue") == "0"
    assert in_lab("unaccounted", mode(dropped={"loss": 2}, held=1, packets_out=5), mode="queue") == "4"


def test_packets_beside_a_link_are_those_that_only_the_kernel_knows() -> None:
    snmp = "Ip: InReceives OutRequests\nIp: 17 19\nTcp: InCsumErrors\nTcp: 3\n"
    at_server = snmp.replace(" 3", " 4")
    link = {"up": side(packets_in=18), "down": side(packets_out=17)}
    forced = Measured(Point("forced", []), snmp, link, None, at_server)
    lab = Lab(forced_routing={"forced": forced})
    assert [in_lab("packets_beside_the_link", lab, side=side) for side in ("up", "down")] == ["1", "0"]
    assert [in_lab("bad_checksums", lab, end=end) for end in ("client", "server")] == ["3", "4"]
    assert in_lab("packets_that_crossed", lab, side="down") == 17


LOG = """event,time_ns,number,edge,flow,len_bytes,priority,ecn,reason,lateness_ns
arrive,1000000,0,0,7,60,low,0,,
depart,2000000,0,0,7,60,,,,5000
depart,5000000,2,1,8,1500,,,,
depart,6000000,1,1,8,500,,,,100000
depart,7000000,3,1,8,52,,,,
arrive,20000000,4,0,9,60,low,0,,
depart,23000000,5,1,3,1500,,,,
"""


def test_a_log_gives_what_overtook_and_how_long_each_fetch_took() -> None:
    assert in_lab("out_of_order", Lab(link_modes={"fixed": fetched(log=LOG)}), mode="fixed") == "1"
    lab = Lab(logger_of_1={"log": fetched(0.0052, 0.0034, log=LOG)})
    # Fetches last from 1 to 6.1 ms, and from 20 to 23 ms.
    assert in_lab("logger_off_ms", lab, clients=1, fetches=2, statistic="largest") == pytest.approx(0.4)
    assert in_lab("logger_off_ms", lab, clients=1, fetches=2, statistic="median") == pytest.approx(0.25)


def test_bodies_of_other_lengths_are_shown_and_servers_compared() -> None:
    lab = Lab(
        latency_over_delay={"3-0": fetched(1.0), "30-0": fetched(1.0, -1)},
        apache_at_5_pct_loss={"10 KB": fetched(1.0, 2.0)},
        nginx_at_5_pct_loss={"10 KB": fetched(1.0, 1.0)},
    )
    assert [in_lab("body_bytes", lab, size=size) for size in (3, 30)] == ["10240", "0, 10240"]
    assert in_lab("apache_off_nginx_pct", lab, loss_pct=5).mean == pytest.approx(50)


def test_a_lost_packet_of_the_handshake_costs_what_it_takes_more_than_none() -> None:
    cases = {"none": 0.1, "SYN": 1.1, "SYN-ACK": 1.2, "last ACK": 0.1}
    lab = Lab(
        handshakes={f"{name}-{n}": fetched(s) for name, s in cases.items() for n in range(systems.HANDSHAKES)}
    )
    assert in_lab("handshake_costs_ms", lab, lost="SYN").mean == pytest.approx(1000)
    assert in_lab("handshake_costs_ms", lab, lost="SYN-ACK").mean == pytest.approx(1100)


def test_models_are_given_the_one_way_delay_and_the_timers_of_the_kernel() -> None:
    # Without loss: 1.5 round trips, and a packet in a window of two, log 1.5 of 1 + 2/(2*2) round trips.
    assert ESTIMATORS[NEW](1, 0.0, 0.1, TODAY) == pytest.approx(0.3 + 0.2)
    assert ESTIMATORS[LOW](1, 0.0, 0.1, TODAY) == pytest.approx(0.3 + 0.2 * math.log(2) / math.log(1.5))
    assert (TODAY.first_s, TODAY.min_s, PAPER.first_s, PAPER.min_s) == (1.0, 0.2, 3.0, 0.2)
    # The paper's kernel starts data with a timeout of 3 s; with an RTT sample of the handshake it would not.
    assert ESTIMATORS[NEW](1, 0.1, 0.1, PAPER) == pytest.approx(float(models.wzk_new(1, 0.1, 0.1, Ts_s=3)))
    assert (
        ESTIMATORS[NEW](1, 0.1, 0.1, Timers(3, times_handshake=True))
        < ESTIMATORS[NEW](1, 0.1, 0.1, PAPER) - 0.3
    )
    # With an RTT sample, a timeout is three round trips.
    expected = models.model_c_low(3, 0.05, 0.1, T0_s=0.6, Ts_s=1)
    assert ESTIMATORS[LOW](3, 0.05, 0.1, TODAY) == pytest.approx(float(expected))


def emulated(*times: float, **tables: Columns) -> wan.Emulated:
    columns = {"page": np.arange(1, 11), "time_s": np.array(times)}
    dropped = {"packets_in": 200, "packets_out": 150, "dropped": {"overflow": 40, "loss": 10}, "held": 0}
    links = [{"name": "bottleneck", "certificate": {"up": dropped, "down": dropped}}]
    hosts = [{"missed": 4, "unwritable": 1}]
    certificate = {
        "links": links,
        "packets_inside": [3, 5],
        "hosts": hosts,
        "lateness_us": [1, 700, 9],
        "verdict": "red",
    }
    rows = [
        {key: np.array(values) for key, values in tables.get(name, {}).items()} for name in wan.TABLES[1:]
    ]
    return wan.Emulated(certificate, columns, *rows)


def wide_area(**runs: list[wan.Emulated]) -> Lab:
    return Lab(emulated={name.strip("_").replace("_", " "): of for name, of in runs.items()})


def bottleneck(high: int, low: int, high_dropped: int, low_dropped: int) -> Columns:
    arrived = {"arrived_high": [high], "arrived_med": [0], "arrived_low": [low]}
    dropped = {"dropped_high": [high_dropped], "dropped_med": [0], "dropped_low": [low_dropped]}
    return {"seed": [1], "variant": [0], "port": ["bottleneck"], **arrived, **dropped}


HANDSHAKES: Columns = {"syn_timeouts": [0, 0, 2, 0]}


def test_a_run_on_busy_cores_does_not_count() -> None:
    one = emulated(*[1.0] * 10)
    green = {**one.certificate, "verdict": "green", "idle_share": 0.5, "busy": False}
    assert one.is_red and not replace(one, certificate=green).is_red
    assert replace(one, certificate={**green, "idle_share": 0.1, "busy": True}).is_red


def test_table_xi_is_catnip_over_fifo() -> None:
    lab = wide_area(
        _64_KB_CATNIP=[emulated(*[1.0] * 10, ports=bottleneck(60, 40, 3, 20), connections=HANDSHAKES)],
        _64_KB_FIFO=[emulated(*[2.0] * 10, ports=bottleneck(0, 200, 0, 50), connections=HANDSHAKES)],
    )
    assert in_lab("page_time_ratio", lab, buffer_kb=64).mean == 0.5
    lost = (
        in_lab("loss_pct", lab, buffer_kb=64, router="CATNIP", packets=one) for one in ("all", "high", "low")
    )
    assert [one.mean for one in lost] == [23, 5, 50]
    assert in_lab("loss_pct", lab, buffer_kb=64, router="FIFO").mean == 25
    assert in_lab("high_share_pct", lab, buffer_kb=64, router="CATNIP").mean == 60
    assert in_lab("handshakes_repeated_pct", lab, buffer_kb=64, router="CATNIP").mean == 25
    assert in_lab("packets_lost_from_sight", lab) == str(2 * (2 + 4 + 1))
    assert (in_lab("red_runs", lab), in_lab("lateness_p99_ms", lab)) == ("2", 0.7)


def test_short_pages_may_gain_what_large_ones_lose() -> None:
    of_fifo = [1.0] * 10
    high, low = ([1.0, large, *[1.0] * 7, short] for large, short in ((1.5, 0.5), (1.1, 0.9)))
    times = {"FIFO": of_fifo, "CATNIP": high, "CATNIP with SYN-ACKs LOW": low}
    nothing = bottleneck(0, 1, 0, 0)
    lab = Lab(
        emulated={
            f"64 KB {name}": [emulated(*of, ports=nothing, connections=HANDSHAKES)]
            for name, of in times.items()
        }
    )
    ratio = partial(in_lab, "page_time_ratio", lab, buffer_kb=64)
    assert (ratio(pages=[2]).mean, ratio(pages=[2, 10]).mean) == (1.5, 1)
    assert ratio(router="CATNIP with SYN-ACKs LOW", pages=[2]).mean == 1.1
    assert ratio(pages=[2], than="CATNIP with SYN-ACKs LOW").mean == pytest.approx(1.5 / 1.1)
    assert in_lab("total_time_ratio", lab, buffer_kb=64, router="CATNIP").mean == 1


def test_what_short_pages_gain_is_told_with_what_routers_lose() -> None:
    ports = {
        wan.FIFO: bottleneck(0, 200, 0, 50),
        wan.HIGH: bottleneck(60, 40, 3, 20),
        wan.LOW: bottleneck(1, 1, 0, 0),
    }
    by_variant = {
        f"{kb} KB {name}": [emulated(*[1.0] * 10, ports=ports[name], connections=HANDSHAKES)]
        for kb in wan.BUFFERS_KB
        for name in ports
    }
    rows = wan.trade(Lab(emulated=by_variant), "nginx").rows
    assert len(rows) == len(wan.BUFFERS_KB) * len(wan.ROUTERS)
    assert rows[0] == ["64 KB, FIFO", "1", "1", "1", "1", "25.000", "–", "–", "0.000", "25.000"]
    assert rows[1] == ["64 KB, CATNIP", *["1.000"] * 4, "23.000", "5.000", "50.000", "60.000", "25.000"]


def test_a_damaged_object_is_of_another_length_or_content() -> None:
    expected = "e71fa2190541574b"  # FNV-1a of "abc"
    objects: dict[str, list[Any]] = {
        "bytes": [3, 3, 3, 3],
        "body_bytes": [3, 3, 2, 3],
        "whole": [1, 1, 1, 0],
        "body_fnv1a": [expected, "0" * 16, expected, expected],
    }
    run = emulated(*[1.0] * 10, objects=objects)
    assert in_lab("damaged_objects", wide_area(_64_KB_FIFO=[run])) == "3"


def test_marks_of_a_real_server_are_counted_where_nothing_was_sent_twice() -> None:
    # The connections: one data packet and a SYN-ACK; 40 packets, six of them HIGH; too many HIGH; too few
    # HIGH; one retransmission.
    connections = {
        "sent": [1, 40, 40, 40, 40],
        "sent_high": [2, 8, 10, 5, 20],
        "retransmitted": [0, 0, 0, 0, 1],
    }
    high, low = connections["sent_high"], [1, 6, 9, 5, 20]

    def wrong(of_high: list[int], of_low: list[int]) -> str:
        marked = {wan.FIFO: [0] * 5, wan.HIGH: of_high, wan.LOW: of_low}
        runs = {name: {**connections, "sent_high": of} for name, of in marked.items()}
        by_variant = {f"64 KB {name}": [emulated(*[1.0] * 10, connections=of)] for name, of in runs.items()}
        return str(in_lab("wrongly_marked", Lab(emulated=by_variant)))

    assert wrong(high, low) == "4"
    assert wrong(low, low) == "5", "SYN-ACKs that are missing"


def test_the_mean_of_a_heavy_tail_has_an_interval_that_reaches_further_up() -> None:
    sample = [0.1] * 95 + [10.0] * 5
    interval = resampling.mean(sample)
    assert interval.mean == pytest.approx(np.mean(sample))
    assert interval.high - interval.mean > interval.mean - interval.low > 0
    assert resampling.mean([2.0, 2.0]) == stats.mean([2.0, 2.0])

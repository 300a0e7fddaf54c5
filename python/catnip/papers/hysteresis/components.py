"""Measurements of single components, HYS-S1 to S13, and comparisons of models and simulator."""

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from catnip import models
from catnip.analysis import measures, stats
from catnip.analysis.interval import Interval
from catnip.analysis.measures import Floats
from catnip.base import paths
from catnip.papers import check_values, reference, single_transfer
from catnip.papers.hysteresis.trials import (
    DESIGN,
    FULL,
    LOSSES,
    PAPER_TRIALS,
    PARTIAL,
    RENO,
    Trials,
    transfer_times_s,
)
from catnip.papers.quantity import Quantities
from catnip.papers.reference import number
from catnip.papers.rows import Rows, where

measured = Quantities()

LONG_FLOWS = 20
ONE_LOSS_TRIALS = 200
RARE = 1e-6
"""Loss probability at which a transfer loses one packet or none."""
MSS = int(number("hysp01"))
ROUND_TRIP_S = number("hysp02") / 1e3
LINK_BPS = number("hysp05") * 1e6
DELACK_S = number("hysp08") / 1e3
LONE = f"{RENO} / packets=1 / loss=priority:low=0.01"


@measured
def check_values_off(_trials: Trials, starts: Sequence[str]) -> float:
    """Largest relative difference between models' results and independently computed values.

    `starts` are prefixes of the names of the models to compare.
    """
    return check_values.farthest(*starts)


@measured
def sampled_off_pct(trials: Trials, samples: int) -> float:
    """HYS-S1: largest relative difference between sampled and exact mean latencies at 15 points, percent."""
    off = []
    for n in (12, 36, 143):
        for p in LOSSES:
            mean, _ = models.hysteresis_sampled(n, p, samples=samples, seed=trials.first_seed)
            off.append(abs(mean / float(models.hysteresis(n, p)) - 1))
    return 100 * max(off)


@measured
def cardwell_without_loss_off_s(_trials: Trials) -> float:
    """HYS-S4: largest difference of Cardwell-00 at p = 0 from a window growing by half each round, s."""
    sizes = np.array([1, 3, 6, 12, 23, 36])
    rounds = np.log(1 + sizes / 2) / math.log(1.5)
    return float(np.abs(models.cardwell00(sizes, 0.0) - (ROUND_TRIP_S * rounds + DELACK_S)).max())


@measured
def partial_at_equal_loss_off_pct(_trials: Trials, packets: int) -> float:
    """HYS-S6: largest relative difference of the partial from the hysteresis model at p' = p, percent.

    The largest difference is taken over the loss rates.
    """
    losses = np.array(LOSSES)
    same, plain = models.partial_catnip(packets, losses, losses), models.hysteresis(packets, losses)
    return float(100 * np.abs(same / plain - 1).max())


@measured
def partial_grows_with_high_loss(_trials: Trials) -> str:
    """HYS-S6: `yes` if Partial CATNIP's mean latency by the model grows with p' from 0 to p, else `no`."""
    sizes, losses = np.array([6, 12, 23, 36]), np.array(LOSSES)[:, None]
    levels = np.linspace(0, 1, 11)[:, None, None] * losses
    mean = models.partial_catnip(sizes, losses, levels)
    return "yes" if np.all(np.diff(mean, axis=0) > 0) else "no"


@measured
def round_trip_ms(trials: Trials) -> float:
    """HYS-S7: shortest simulated time of a one-packet transfer, ms.

    The ACK of the shortest transfer waits least for the tick of the delayed-ACK timer.
    """
    return 1e3 * float(_lone_packets_s(trials).min())


@measured
def lost_to_a_full_queue(trials: Trials) -> str:
    """HYS-S7: number of packets that full queues drop, in transfers of 143 packets at 10 % loss."""
    ports = _ports(trials, f"{RENO} / packets=143 / loss=priority:low=0.1", ["access", "path"])
    return str(int(ports["overflow"].sum()))


@measured
def time_with_processing(trials: Trials) -> Interval:
    """HYS-S7: mean time of 36 packets at 5 % loss with hosts that take up to 20 us over that without."""
    [taken] = trials.of("hysteresis-processing").values()
    return stats.ratio(taken, trials.transfer(RENO, 36, 0.05))


@measured
def rate_off_sigmas(trials: Trials, scenario: str, variant: str, priority: str, p: float) -> float:
    """HYS-S8, S9: absolute difference of a priority's loss rate from p, in standard deviations."""
    ports = _ports(trials, variant, ["path"], scenario)
    lost, of = int(ports[f"dropped_{priority}"].sum()), int(ports[f"arrived_{priority}"].sum())
    return abs(lost / of - p) / math.sqrt(p * (1 - p) / of)


@measured
def high_packets_lost(trials: Trials) -> str:
    """HYS-S9: number of HIGH packets that are lost although their loss probability p' is 0."""
    ports = _ports(trials, f"{PARTIAL} / packets=143 / loss=priority:low=0.05", ["path"])
    return str(int(ports["dropped_high"].sum()))


@measured
def packets_sent_without_loss(trials: Trials, packets: int) -> str:
    """HYS-S10: number of packets sent by a transfer of `packets` packets without loss."""
    return str(int(_rows(trials, "connections", "slow-start", f"packets={packets}", 1)["sent"][0]))


@measured
def lone_packet_off_ns(trials: Trials) -> float:
    """HYS-S10: absolute difference between simulated and calculated time of a one-packet transfer, ns."""
    by_hand_s = ROUND_TRIP_S + (MSS + 40 + 40) * 8 / LINK_BPS
    return abs(float(trials.of("slow-start", 1)["packets=1"][0]) - by_hand_s) * 1e9


@measured
def lone_packet_wait_ms(trials: Trials, statistic: str) -> Interval | float:
    """HYS-S11: mean or longest delay of the ACK of a one-packet transfer, ms.

    The delay is the time of the transfer minus a round trip.
    """
    flow = paths.scenario(DESIGN).single_flow(LONE)
    assert flow is not None
    waits_ms = 1e3 * (_lone_packets_s(trials) - flow["rtt_s"])
    return stats.mean(waits_ms) if statistic == "mean" else float(waits_ms.max())


@measured
def packets_of_one_ack(_trials: Trials) -> str:
    """HYS-S11: largest number of packets that one ACK acknowledges, in 31 packets without loss."""
    acked = [-1, *(seq for seq, event in _events() if event == "ack")]
    return str(max(np.diff(acked)))


@measured
def out_of_order_less_duplicates(_trials: Trials, lost: int) -> str:
    """HYS-S11: packets that arrive after a lost packet minus duplicate ACKs, in a transfer of 31 packets."""
    trace = _trace(31, [lost])
    events = [(int(seq) + 1, event) for seq, event in zip(trace["seq"], trace["event"], strict=True)]
    resent = [i for i, one in enumerate(events) if one == (lost, "send")][1]
    beyond = sum(event == "send" and seq > lost for seq, event in events[:resent])
    duplicates = sum(one == (lost - 1, "ack") for one in events) - 1
    return str(beyond - duplicates)


@measured
def high_packets(_trials: Trials, packets: int, marker: str) -> str:
    """HYS-S12: numbers of those packets of a transfer without loss that the marker `marker` marks HIGH."""
    trace = _trace(packets, [], marker)
    sent = zip(*(trace[key] for key in ("seq", "event", "high")), strict=True)
    return ", ".join(str(int(seq) + 1) for seq, event, high in sent if event == "send" and high)


@measured
def more_high_packets_after_losses(trials: Trials) -> Interval:
    """HYS-S12: share of transfers with more than six HIGH packets, for CATNIP minus for Partial CATNIP."""
    full, partial = (
        _rows(trials, "connections", DESIGN, f"{sender} / packets=36 / loss=priority:low=0.01")["sent_high"]
        for sender in (FULL, PARTIAL)
    )
    return stats.paired_difference(full > 6, partial > 6)


@measured
def alike_by_threads(trials: Trials, threads: Sequence[int]) -> str:
    """HYS-S13: `the same` if 1000 trials give equal results on two numbers of threads, else `different`."""
    one, many = (_batch(trials, count) for count in threads)
    return "the same" if all(np.array_equal(one[key], many[key]) for key in one) else "different"


@measured
def seeds_not_recorded(trials: Trials) -> str:
    """HYS-S13: number of trials whose result row does not contain their seed."""
    recorded = _batch(trials, 1)["seed"]
    return str(
        sum(int(seed) != expected for seed, expected in zip(recorded, trials.seeds(DESIGN), strict=False))
    )


@measured
def means_beyond_three_errors_pct(trials: Trials) -> float:
    """HYS-S13: largest relative difference of a mean transfer time from that of another simulator, percent.

    Three standard errors of the mean are subtracted from each difference.
    """
    off = []
    for row in reference.rows("hysteresis_means.csv"):
        p, n, mean_s = float(row["p"]), int(row["packets"]), float(row["mean_s"])
        if p > 0:
            times = trials.transfer(RENO, n, p)
            error_s = times.std(ddof=1) / math.sqrt(len(times))
            off.append((abs(times.mean() - mean_s) - 3 * error_s) / mean_s)
    return float(100 * max(off))


@measured
def goodput_off_pftk_pct(trials: Trials, loss_pct: float) -> Interval:
    """HYS-S2: absolute relative difference of long transfers' goodput from PFTK's receive rate, percent."""
    times = trials.of("steady-state", LONG_FLOWS)
    sample = next(t for name, t in times.items() if float(name.rpartition(":")[2]) == loss_pct / 100)
    predicted = float(models.pftk_throughput(loss_pct / 100))
    return stats.magnitude(stats.shifted(stats.mean(20_000 / sample / predicted), -1)) * 100


@measured
def over_sikdar(trials: Trials, packets: int, lost: Literal[0, 1]) -> Interval:
    """HYS-S5: simulated time of transfers that lose one packet, each in turn, or none, over the model."""
    times = trials.of("hysteresis-one-loss", ONE_LOSS_TRIALS)
    # What is lost beyond the end of a transfer is not of it.
    places = range(1, packets + 1) if lost else [packets + 1]
    mean_s = np.mean([times[f"packets={packets} / loss=packets:{place}"] for place in places], axis=0)
    return stats.mean(mean_s / _sikdar_s(packets, lost))


@measured
def over_sikdar_quick_acks(trials: Trials, packets: int) -> Interval:
    """HYS-S5: as `over_sikdar` without loss; the receiver waits 5 ms with an ACK, the model not at all."""
    times_s = trials.of("hysteresis-quick-acks", ONE_LOSS_TRIALS)[f"packets={packets}"]
    return stats.mean(times_s / float(models.sikdar_threecase(packets, 0.0, delack_s=0.0)))


def _sikdar_s(packets: int, lost: Literal[0, 1]) -> float:
    """Returns the time of a transfer in Sikdar's model with one or no packet lost, s."""
    without_s = float(models.sikdar_threecase(packets, 0.0, T0_s=1.0))
    if not lost:
        return without_s
    none, one = (1 - RARE) ** packets, packets * RARE * (1 - RARE) ** (packets - 1)
    return (float(models.sikdar_threecase(packets, RARE, T0_s=1.0)) - none * without_s) / one


@measured
def slow_start_off_ns(_trials: Trials) -> float:
    """HYS-S4: largest difference between simulated and closed-form slow start over 1 to 255 packets, ns."""
    scenario = paths.scenario("slow-start")
    rows = scenario.run(scenario.variants, [1], ["connections"])["connections"]
    durations_s = transfer_times_s(rows)
    packets = np.asarray(rows["bytes"]) / MSS
    wire_s = (MSS + 40) * 8 / LINK_BPS
    round_s = ROUND_TRIP_S + wire_s + 40 * 8 / LINK_BPS
    window = 64
    # The packets of the last round leave back to back; the first ACK ends the round.
    last_round = np.minimum((packets + 1) / 2, window)
    closed = models.E_Tss(packets, w1=1, b=1, RTT_s=round_s, Wmax=window) + (last_round - 1) * wire_s
    return float(np.abs(durations_s - closed).max() * 1e9)


@measured
def timeout_probability(_trials: Trials, loss: float, window: float) -> str:
    """HYS-E3: probability (equation 8) that a loss in a window causes a timeout, to two digits."""
    return f"{models.Q_hat(loss, window):.2f}"


def _lone_packets_s(trials: Trials) -> Floats:
    """Returns the times of the one-packet transfers whose packet is not lost, s."""
    rows = _rows(trials, "connections", DESIGN, LONE)
    return np.asarray((rows["acked_s"] - rows["start_s"])[rows["dropped"] == 0])


def _trace(packets: int, drop: Sequence[int], marker: str | None = None) -> dict[str, Any]:
    """Simulates one transfer over the paper's path, with the ACK timer of the paper's receiver."""
    link = {"rate": "10Mbit", "delay": "100ms", "queue": "drop-tail:1000"}
    return single_transfer.trace("bsd-reno", packets, drop, marker=marker, **link)


def _events() -> list[tuple[int, str]]:
    trace = _trace(31, [])
    return [(int(seq), event) for seq, event in zip(trace["seq"], trace["event"], strict=True)]


def _batch(trials: Trials, threads: int) -> dict[str, Floats]:
    """Returns the rows of connections of one batch of trials, simulated on this number of threads."""

    def make() -> dict[str, Floats]:
        variant = f"{RENO} / packets=36 / loss=priority:low=0.1"
        seeds = trials.seeds(DESIGN)[:PAPER_TRIALS]
        trials.count_sample(len(seeds))
        table = paths.scenario(DESIGN).run([variant], seeds, ["connections"], threads)["connections"]
        return {key: np.asarray(values) for key, values in table.items()}

    return trials.cached(("batch", threads), make)


def _ports(trials: Trials, variant: str, ports: list[str], name: str = DESIGN) -> Rows:
    rows = _rows(trials, "ports", name, variant)
    return where(rows, np.isin(rows["port"], ports))


def _rows(trials: Trials, table: str, name: str, variant: str, count: int = PAPER_TRIALS) -> Rows:
    seeds = trials.seeds(name)[:count]
    return measures.select(trials.run(name, [variant], [table], seeds=seeds)[table], 0)

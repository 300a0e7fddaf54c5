"""The components HYS-S1 to S13, each on its own, and what ties models and simulator together."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from catnip import measures, models, paths, stats
from catnip.measures import Floats
from catnip.papers import reference
from catnip.papers.check_values import check_value
from catnip.papers.claims import Claim, at_most, exactly, within
from catnip.papers.hysteresis import accuracy
from catnip.papers.hysteresis.trials import FULL, LOSSES, PAPER_TRIALS, PARTIAL, RENO, Trials
from catnip.papers.outcome import Part

TOLERANCE = 1e-5
SAMPLES = 10_000
LONG_FLOWS = 20
ROUND_TRIP_S = 0.2
HEARTBEAT_S = 0.2

CHECKED = {
    "HYS-S1": ("hysteresis", "hysteresis_last_cycle_lossless", "hysteresis_trace", "E_dss", "E_dss_no_plus1"),
    "HYS-S2": ("padhye_latency", "pftk_", "f_p", "E_ZTO", "Q_hat", "Q_approx"),
    "HYS-S3": ("cardwell98",),
    "HYS-S4": ("cardwell00", "handshake"),
    "HYS-S5": ("sikdar_",),
    "HYS-S6": ("partial_catnip",),
}
"""Which rows of model_check_values.csv belong to a component, by the start of their model's name."""


def components(trials: Trials) -> Part:
    """One claim or more for each component."""
    claims = [
        *_check_values(),
        *_sampled(trials.first_seed),
        *_without_loss(),
        *_partial(),
        *_path(trials),
        *_loss_rates(trials),
        *_transfers(trials),
        *_marks(trials),
        *_batch(trials),
        *accuracy.measures_of_error(trials).claims,
    ]
    return Part(sorted(claims, key=lambda claim: int(claim.id.removeprefix("HYS-S"))))


def timeout_probability(_trials: Trials) -> Part:
    """HYS-E3: equation 8 at a window of 10."""
    return Part(
        [
            exactly(
                "HYS-E3",
                f"probability that a loss in a window of 10 waits for the timer, p = {100 * p:g} %",
                f"{models.Q_hat(p, 10):.2f}",
                printed,
                paper=printed,
            )
            for p, printed in ((0.03, "0.39"), (0.1, "0.57"))
        ]
    )


def two_worlds(trials: Trials) -> Part:
    """Long transfers against PFTK, loss-free ones against slow start in closed form."""
    return Part([*_steady_state(trials), *_slow_start()])


def _check_values() -> list[Claim]:
    rows = reference.rows("model_check_values.csv")
    claims = []
    for id, starts in CHECKED.items():
        mine = [row for row in rows if row["model"].startswith(starts)]
        off = max(_relative_difference(row) for row in mine)
        claims.append(
            at_most(
                id,
                f"{len(mine)} values worked out independently: largest relative difference",
                off,
                TOLERANCE,
            )
        )
    return claims


def _relative_difference(row: dict[str, str]) -> float:
    ours, expected = check_value(row["model"], row["params"], row["quantity"]), float(row["value"])
    return abs(ours - expected) / abs(expected) if expected else abs(ours)


def _sampled(seed: int) -> list[Claim]:
    points = [(n, p) for n in (12, 36, 143) for p in LOSSES]
    off = []
    for n, p in points:
        mean, _ = models.hysteresis_sampled(n, p, samples=SAMPLES, seed=seed)
        off.append(abs(mean / float(models.hysteresis(n, p)) - 1))
    claim = f"{SAMPLES} samples against the exact mean, {len(points)} points: largest difference, %"
    return [at_most("HYS-S1", claim, 100 * max(off), 2)]


def _without_loss() -> list[Claim]:
    sizes = np.array([1, 3, 6, 12, 23, 36, 143, 1000])
    loss_free = models.E_Tss(sizes, w1=1) + 0.1
    off = np.abs(models.cardwell00(sizes, 0.0) - loss_free).max()
    return [at_most("HYS-S4", "p = 0: apart from slow start without loss, s", float(off), 1e-12)]


def _partial() -> list[Claim]:
    sizes, losses = np.array([6, 12, 23, 36]), np.array(LOSSES)[:, None]
    plain = models.hysteresis(sizes, losses)
    same = models.partial_catnip(sizes, losses, losses)
    levels = np.linspace(0, 1, 11)[:, None, None] * losses
    mean = models.partial_catnip(sizes, losses, levels)
    return [
        *(
            at_most(
                "HYS-S6",
                f"p' = p, {packets} packets: largest distance from the plain model, %",
                float(100 * np.abs(same / plain - 1)[:, i].max()),
                15,
                note="partial-catnip-at-equal-loss",
            )
            for i, packets in enumerate(sizes)
        ),
        exactly(
            "HYS-S6", "the mean grows with p'", "yes" if np.all(np.diff(mean, axis=0) > 0) else "no", "yes"
        ),
    ]


def _path(trials: Trials) -> list[Claim]:
    scenario = paths.scenario("hysteresis")
    flow = scenario.single_flow(scenario.variants[0])
    assert flow is not None
    ports = _ports(trials, [f"{RENO} / packets=143 / loss=priority:low=0.1"], ["access", "path"])
    return [
        within("HYS-S7", "round trip of a packet and its ACK, ms", 1e3 * flow["rtt_s"], 198, 202, paper=200),
        exactly("HYS-S7", "packets lost to a full queue", str(int(ports["overflow"].sum())), "0"),
    ]


def _loss_rates(trials: Trials) -> list[Claim]:
    bernoulli = _ports(trials, [f"{RENO} / packets=143 / loss=priority:low=0.05"], ["path"])
    partial = _ports(trials, [f"{PARTIAL} / packets=143 / loss=priority:low=0.05"], ["path"])
    both = "Partial CATNIP / loss=priority:high=0.05,low=0.1"
    mixed = _ports(trials, [both], ["path"], "hysteresis-priority")
    return [
        _rate("HYS-S8", "each packet with p = 5 %", bernoulli, "low", 0.05),
        _rate("HYS-S9", "LOW packets with p = 5 %, p' = 0", partial, "low", 0.05),
        exactly("HYS-S9", "HIGH packets lost, p' = 0", str(int(partial["dropped_high"].sum())), "0"),
        _rate("HYS-S9", "LOW packets with p = 10 %, p' = 5 %", mixed, "low", 0.1),
        _rate("HYS-S9", "HIGH packets with p' = 5 %", mixed, "high", 0.05),
    ]


def _rate(id: str, what: str, ports: dict[str, np.ndarray], priority: str, p: float) -> Claim:
    lost, of = int(ports[f"dropped_{priority}"].sum()), int(ports[f"arrived_{priority}"].sum())
    sigma = math.sqrt(p * (1 - p) / of)
    return at_most(
        id, f"{what}: rate of {of} packets off by, standard deviations", abs(lost / of - p) / sigma, 3
    )


def _transfers(trials: Trials) -> list[Claim]:
    clean = _connections(trials, "slow-start", ["packets=31"], 1)
    alone = trials.of("slow-start", 1)["packets=1"]
    by_hand_s = ROUND_TRIP_S + (1433 + 40 + 40) * 8 / 10e6
    waits = _lone_packet_waits(trials)
    return [
        exactly("HYS-S10", "packets sent without loss, of 31", str(int(clean["sent"][0])), "31"),
        at_most(
            "HYS-S10",
            "first packet sent to its ACK received, by hand: off by, ns",
            abs(float(alone[0]) - by_hand_s) * 1e9,
            1,
        ),
        within(
            "HYS-S11",
            "wait for the ACK of a lone packet, mean, ms",
            stats.mean(1e3 * waits),
            95,
            105,
            paper=100,
        ),
        at_most("HYS-S11", "longest wait, ms", float(1e3 * waits.max()), 200.001, paper=200),
    ]


def _lone_packet_waits(trials: Trials) -> Floats:
    """How much longer a transfer of one packet takes than a round trip, where nothing was lost."""
    rows = _connections(trials, "hysteresis", [f"{RENO} / packets=1 / loss=priority:low=0.01"])
    flow = paths.scenario("hysteresis").single_flow(f"{RENO} / packets=1 / loss=priority:low=0.01")
    assert flow is not None
    took = (rows["acked_s"] - rows["start_s"])[rows["dropped"] == 0]
    return np.asarray(took - flow["rtt_s"])


def _marks(trials: Trials) -> list[Claim]:
    share = {
        n: _connections(trials, "hysteresis", [f"{PARTIAL} / packets={n} / loss=priority:low=0.01"])
        for n in (6, 36)
    }
    clean = {n: rows["sent_high"][rows["dropped"] == 0] for n, rows in share.items()}
    full = _connections(trials, "hysteresis", [f"{FULL} / packets=36 / loss=priority:low=0.01"])
    untouched = full["dropped"] == 0
    return [
        exactly("HYS-S12", "HIGH packets of 6 (100 %)", _only(clean[6]), "6", paper="100 %"),
        exactly("HYS-S12", "HIGH packets of 36 (17 %)", _only(clean[36]), "6", paper="17 %"),
        exactly(
            "HYS-S12",
            "full marking without loss: HIGH packets of 36 (first window below three, first and last three)",
            _only(full["sent_high"][untouched]),
            "6",
        ),
        at_most(
            "HYS-S12",
            "full marking after losses: share of transfers with more HIGH packets than six, less that of"
            " Partial CATNIP",
            float((share[36]["sent_high"] > 6).mean() - (full["sent_high"] > 6).mean()),
            0,
        ),
    ]


def _only(counts: Sequence[int] | np.ndarray) -> str:
    return ", ".join(str(count) for count in np.unique(counts))


def _batch(trials: Trials) -> list[Claim]:
    scenario = paths.scenario("hysteresis")
    variant = f"{RENO} / packets=36 / loss=priority:low=0.1"
    seeds = trials.seeds[:PAPER_TRIALS]
    one, many = (
        scenario.run([variant], seeds, ["connections"], threads)["connections"] for threads in (1, 4)
    )
    same = all(np.array_equal(one[key], many[key]) for key in one)
    expected = {
        (float(row["p"]), int(row["packets"])): float(row["mean_s"])
        for row in reference.rows("hysteresis_means.csv")
    }
    off = []
    for (p, n), mean_s in expected.items():
        if p > 0:
            times = trials.transfer(RENO, n, p)
            error_s = times.std(ddof=1) / math.sqrt(len(times))
            off.append((abs(times.mean() - mean_s) - 3 * error_s) / mean_s)
    recorded = [int(seed) for seed in one["seed"]] == seeds
    return [
        exactly(
            "HYS-S13", "one thread and four, 1000 trials", "the same" if same else "different", "the same"
        ),
        exactly("HYS-S13", "the seed of each trial is in its row", "yes" if recorded else "no", "yes"),
        at_most(
            "HYS-S13",
            "means of 65 points against another simulator: most beyond three standard errors, %",
            100 * max(off),
            5,
        ),
    ]


def _steady_state(trials: Trials) -> list[Claim]:
    claims = []
    times = trials.of("steady-state", LONG_FLOWS)
    for variant, sample in times.items():
        p = float(variant.rpartition(":")[2])
        goodput = stats.mean(20_000 / sample)
        rate = float(models.pftk_throughput(p))
        off = abs(goodput.mean / rate - 1) * 100
        claim = (
            f"long transfers, {100 * p:g} %: goodput apart from PFTK's receive rate ({rate:.3g} packets/s), %"
        )
        if p <= 0.03:
            claims.append(at_most("HYS-S2", claim, off, 5))
        else:
            claims.append(at_most("HYS-S2", claim, off, 15))
    return claims


def _slow_start() -> list[Claim]:
    scenario = paths.scenario("slow-start")
    rows = scenario.run(scenario.variants, [1], ["connections"])["connections"]
    took = np.asarray(rows["acked_s"]) - np.asarray(rows["start_s"])
    packets = np.asarray(rows["bytes"]) / 1433
    wire_s = (1433 + 40) * 8 / 10e6
    round_s = ROUND_TRIP_S + wire_s + 40 * 8 / 10e6
    window = 64
    # The packets of the last round leave one after the other; its first ACK ends the round.
    last_round = np.minimum((packets + 1) / 2, window)
    closed = models.E_Tss(packets, w1=1, b=1, RTT_s=round_s, Wmax=window) + (last_round - 1) * wire_s
    off_ns = float(np.abs(took - closed).max() * 1e9)
    return [
        at_most(
            "HYS-S4",
            "1 to 255 packets without loss: simulator apart from closed-form slow start, ns",
            off_ns,
            10,
        )
    ]


def _ports(
    trials: Trials, variants: list[str], ports: list[str], name: str = "hysteresis"
) -> dict[str, np.ndarray]:
    table = paths.scenario(name).run(variants, trials.seeds[:PAPER_TRIALS], ["ports"])["ports"]
    rows = measures.select(table, 0)
    here = np.isin(rows["port"], ports)
    return {key: values[here] for key, values in rows.items()}


def _connections(
    trials: Trials, name: str, variants: list[str], count: int = PAPER_TRIALS
) -> dict[str, np.ndarray[Any, Any]]:
    seeds = trials.seeds[:count]
    table = paths.scenario(name).run(variants, seeds, ["connections"])["connections"]
    return measures.select(table, 0)

"""Experiments with single transfers: CAT-E1, CAT-E2 and CAT-E11."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from catnip import _core, stats
from catnip.figures.transfers import sequence_plots, single_loss_profile
from catnip.papers.catnip import published
from catnip.papers.catnip.runs import Result, Runs
from catnip.papers.claims import Claim, at_most, exactly, within
from catnip.papers.outcome import Figure, Part

PACKETS = 28
TICK_S = 0.1
ROUND_TRIP_S = 0.204416
SOURCES: Mapping[str, dict[str, Any]] = {
    "Reno": {},
    "Reno+RBPLW": {"pacing": "rbplw"},
    "ECA": {"control": "eca"},
    "ECA+RBPLW": {"control": "eca", "pacing": "rbplw"},
}


def trace(packets: int, drop: Sequence[int] = (), **options: Any) -> dict[str, Any]:
    """One transfer over the paper's two-node network: 1 Mbit/s, 100 ms, packets of 512 B."""
    fixed: dict[str, Any] = dict.fromkeys(
        ("recovery", "control", "pacing", "marker", "size", "window", "tick_phase")
    )
    link = {"rate": "1Mbit", "delay": "100ms", "queue": "drop-tail:1000"}
    asked = {"profile": "ns2-2002", "delayed_ack": False, "seed": 1, **link, **fixed, **options}
    return dict(_core.trace(packets=packets, drop=list(drop), **asked))


def sends(events: Mapping[str, Any]) -> tuple[list[float], list[int]]:
    """Times and packet numbers (from 1) of all transmissions."""
    sent = [i for i, event in enumerate(events["event"]) if event == "send"]
    return [float(events["time_s"][i]) for i in sent], [int(events["seq"][i]) + 1 for i in sent]


def bursts(times: list[float]) -> str:
    """Sizes of bursts: what is sent less than half a round trip after the packet before."""
    sizes: list[int] = []
    for before, now in zip([-1.0, *times], times, strict=False):
        if sizes and now - before < ROUND_TRIP_S / 2:
            sizes[-1] += 1
        else:
            sizes.append(1)
    return ", ".join(map(str, sizes))


def loss_profile(runs: Runs) -> Part:
    """CAT-E1, Figure 1: what it costs to lose the k-th packet."""
    results = runs.of("catnip-e1")
    completion = {k: _completion(results[f"k = {k}"]) for k in range(1, PACKETS + 1)}
    timeouts = {k: _largest(results[f"k = {k}"], "timeouts") for k in completion}
    base = _completion(results["no loss"])
    ns2 = published.ns2_single_loss()
    extra = {k: times - base.mean() for k, times in completion.items()}
    early, late, middle = (2, 3), (26, 27, 28), range(4, 26)

    def beside(*packets: int) -> str:
        values = sorted(ns2[k][0] for k in packets)
        return f"{values[0]:.2f} to {values[-1]:.2f}" if len(values) > 1 else f"{values[0]:.2f}"

    apart = [max(ns2[k][1] - times.max(), times.min() - ns2[k][2], 0.0) for k, times in completion.items()]
    claims = [
        within("CAT-E1", "no loss, s", stats.mean(base), 1.05, 1.12, paper=1.1, oracle=ns2[0][0]),
        within("CAT-E1", "packet 1 lost, s", stats.mean(completion[1]), 7.0, 8.0, oracle=beside(1)),
        *(
            within(
                "CAT-E1",
                f"packet {k} lost: extra time, s",
                stats.mean(extra[k]),
                0.8,
                2.0,
                oracle=_extra(ns2, k),
            )
            for k in early
        ),
        *(
            within(
                "CAT-E1",
                f"packet {k} lost: extra time, s",
                stats.mean(extra[k]),
                0.3,
                1.0,
                oracle=_extra(ns2, k),
            )
            for k in late
        ),
        exactly(
            "CAT-E1",
            "packets whose loss needs a timeout",
            ", ".join(str(k) for k, count in timeouts.items() if count),
            "1, 2, 3, 26, 27, 28",
            paper="1, 2, 3, 26, 27, 28",
            oracle="1, 2, 3, 26, 27, 28",
        ),
        at_most(
            "CAT-E1",
            "extra time of 26 to 28 over that of 2 and 3",
            max(extra[k].mean() for k in late) / min(extra[k].mean() for k in early),
            1.0,
        ),
        at_most("CAT-E1", "packets 4 to 25: most extra time, s", max(extra[k].max() for k in middle), 1.1),
        at_most(
            "CAT-E1", "packets 12 to 25: most extra time, s", max(extra[k].max() for k in range(12, 26)), 0.31
        ),
        at_most(
            "CAT-E1", "farthest from ns-2's range over its clock phases, s", max(apart), TICK_S, oracle=0.0
        ),
    ]
    svg = single_loss_profile(
        list(completion),
        [float(times.mean()) for times in completion.values()],
        [ns2[k][0] for k in completion],
        float(base.mean()),
        [count > 0 for count in timeouts.values()],
    )
    caption = (
        "Transfer time of a 28-packet document that loses one packet, once. The first and the last "
        "three packets cost a retransmission timeout, the first one the initial timeout of 6 s; the "
        "others are repaired by fast retransmit. The paper's figure is lost; ns-2 2.35 with the "
        "settings of its time stands in for it."
    )
    return Part(claims, [Figure("catnip-e1", "Figure 1: not all packet losses are equal", caption, svg)])


def burst_patterns(_runs: Runs) -> Part:
    """CAT-E2, Figure 2: what the sources do with 14 packets."""
    sent = {name: sends(trace(14, **options)) for name, options in SOURCES.items()}
    gaps = {name: np.diff(times) for name, (times, _) in sent.items()}
    claims = [
        exactly("CAT-E2", "Reno: bursts", bursts(sent["Reno"][0]), "1, 2, 4, 7", paper="1, 2, 4, 7"),
        exactly("CAT-E2", "ECA: bursts", bursts(sent["ECA"][0]), "1, 2, 4, 4, 3", paper="1, 2, 4, 4, 3"),
        at_most(
            "CAT-E2",
            "RBPLW: last 7 packets, largest difference of a gap from srtt/7, ms",
            _largest_ms(gaps["Reno+RBPLW"][7:], ROUND_TRIP_S / 7),
            1.0,
        ),
        at_most(
            "CAT-E2",
            "ECA+RBPLW: last 3 packets, largest difference of a gap from srtt/3, ms",
            _largest_ms(gaps["ECA+RBPLW"][11:], ROUND_TRIP_S / 3),
            2.0,
        ),
        exactly(
            "CAT-E2",
            "packets sent before the last window, RBPLW as Reno",
            "alike" if sent["Reno+RBPLW"][0][:8] == sent["Reno"][0][:8] else "different",
            "alike",
        ),
    ]
    panels = [(name, times, seqs) for name, (times, seqs) in sent.items()]
    caption = (
        "Packets of a 14-packet document as the server sends them over 1 Mbit/s and 100 ms. RBPLW "
        "spreads the last window over a round trip; ECA sends 4 and 3 packets instead of 7."
    )
    svg = sequence_plots(panels, "The last burst is spread, or made smaller")
    return Part(
        claims, [Figure("catnip-e2", "Figure 2: what a source can do about its bursts", caption, svg)]
    )


def small_network(runs: Runs) -> Part:
    """CAT-E11: results that can be worked out by hand."""
    results = runs.of("catnip-e11")
    access_s, bottleneck_s = 512 * 8 / 10e6, 512 * 8 / 1.5e6
    path_s = access_s + 0.001 + 0.005 + access_s + 0.001
    all_in, three = results["room for all"].rows("connections"), results["room for three"].rows("connections")
    two = sorted(results["two senders"].rows("connections")["received_s"])

    def same(claim: str, ours_s: float, expected_s: float) -> Claim:
        return at_most(
            "CAT-E11", f"{claim} ({1e3 * expected_s:.4f} ms): off by, ns", abs(ours_s - expected_s) * 1e9, 3
        )

    return Part(
        [
            same("burst of six, all received", float(all_in["received_s"][0]), path_s + 6 * bottleneck_s),
            same("two senders, first packet", float(two[0]), path_s + bottleneck_s),
            same("two senders, second packet waits for the first", float(two[1]), path_s + 2 * bottleneck_s),
            exactly(
                "CAT-E11",
                "room for three of six: dropped, resent, timeouts",
                ", ".join(str(int(three[key][0])) for key in ("dropped", "retransmitted", "timeouts")),
                "3, 3, 1",
            ),
        ]
    )


def _completion(result: Result) -> np.ndarray:
    rows = result.rows("connections")
    return np.asarray(rows["acked_s"] - rows["start_s"])


def _largest(result: Result, column: str) -> int:
    return int(result.rows("connections")[column].max())


def _extra(ns2: Mapping[int, tuple[float, float, float]], k: int) -> float:
    return ns2[k][0] - ns2[0][0]


def _largest_ms(gaps: np.ndarray, expected_s: float) -> float:
    return float(np.abs(gaps - expected_s).max() * 1e3)

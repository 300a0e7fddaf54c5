"""What marking the ends of a transfer is worth: Figures 5 and 6 (HYS-E4 to E7, E10)."""

import numpy as np
from scipy.stats import ks_2samp

from catnip import stats
from catnip.figures.latency import Curve, Panel, distributions, latency_panels
from catnip.measures import Floats
from catnip.papers.claims import Claim, at_least, at_most, exactly, reported, within
from catnip.papers.hysteresis import predictions
from catnip.papers.hysteresis.trials import FULL, KILOBYTES, LOSSES, PARTIAL, RENO, SHORT, Trials
from catnip.papers.outcome import Figure, Part
from catnip.stats import Interval

MARKED = tuple(packets for packets in SHORT if packets >= 6)
INDEPENDENT_GAIN_PCT = {0.01: (9.5, 6.7, 5.5, 7.4), 0.1: (56.0, 42.0, 30.0, 23.0)}
"""Gains in another simulator of the same setting, for the sizes of `MARKED` (HYS-E5)."""
PAPER_GAIN = {0.01: "5 to 32", 0.1: "20 to 42"}


def distribution(trials: Trials) -> Part:
    """HYS-E4: Figure 5, 32 KB at 5 %."""
    partial, full = (trials.transfer(sender, 23, 0.05) for sender in (PARTIAL, FULL))
    claims = [
        at_most(
            "HYS-E4",
            "32 KB, 5 %: mean of CATNIP apart from Partial CATNIP, %",
            100 * abs(float(full.mean() / partial.mean()) - 1),
            5,
            paper="almost the same",
            note="partial-and-full-catnip",
        ),
        at_most(
            "HYS-E4",
            "32 KB, 5 %: Kolmogorov-Smirnov distance of the two distributions",
            float(ks_2samp(partial, full).statistic),
            0.1,
            paper="almost the same",
        ),
    ]
    caption = (
        "About one packet of 23 is lost, so that few windows are small and few more packets are HIGH:"
        " the curves lie on each other. The"
        " steps are timeouts of 1, 2 and 4 s."
    )
    svg = distributions("Marking the ends is nearly all there is to gain", [(PARTIAL, partial), (FULL, full)])
    return Part(claims, [Figure("hysteresis-distribution", "Figure 5: 32 KB at 5 % loss", caption, svg)])


def gain(trials: Trials) -> Part:
    """HYS-E5 and E6: Figure 6, what Partial CATNIP gains, and whether its model knows."""
    claims: list[Claim] = []
    for loss, independent in INDEPENDENT_GAIN_PCT.items():
        for packets, expected in zip(MARKED, independent, strict=True):
            gained = _gain_pct(trials, packets, loss)
            claims.append(
                within(
                    "HYS-E5",
                    f"{packets} packets, {100 * loss:g} %: gain of Partial CATNIP over Reno, % (± 5 of an"
                    " independent check)",
                    gained,
                    expected - 5,
                    expected + 5,
                    paper=PAPER_GAIN[loss],
                    oracle=expected,
                )
            )
    least = min(
        (_gain_pct(trials, packets, loss) for packets in MARKED for loss in LOSSES), key=lambda g: g.low
    )
    claims.append(at_least("HYS-E5", "smallest gain at any size and loss rate, lower bound, %", least.low, 0))
    greatest = max(_gain_pct(trials, packets, 0.01).mean for packets in MARKED)
    claims.append(
        at_least(
            "HYS-E5",
            "1 %: the greatest gain over the sizes, %",
            greatest,
            32,
            paper=32,
            oracle=9.5,
            note="partial-catnip-at-1",
        )
    )
    off = {loss: max(abs(_model_error_pct(trials, packets, loss)) for packets in MARKED) for loss in LOSSES}
    claims += [
        at_most(
            "HYS-E6",
            f"{100 * loss:g} %: largest relative error of the Partial CATNIP model, %",
            worst,
            22,
            paper="below 22",
        )
        for loss, worst in off.items()
    ]
    panels = [_panel(trials, loss) for loss in (0.01, 0.1)]
    caption = (
        "Points: simulated Partial CATNIP with 95 % intervals. Reno is simulated, too. At 1 % there is"
        " little to gain, because Reno loses"
        " little; at 10 % a short transfer takes half the time."
    )
    svg = latency_panels(
        "Marking the first and last three packets pays where packets are lost",
        panels,
        simulated="Partial CATNIP, simulated, 95 % interval",
    )
    return Part(claims, [Figure("hysteresis-partial", "Figure 6: Partial CATNIP", caption, svg)])


def partial_and_full(trials: Trials) -> Part:
    """HYS-E7: is it enough to mark the ends?"""
    claims: list[Claim] = []
    for loss in LOSSES:
        apart = max(
            abs(float(trials.transfer(PARTIAL, n, loss).mean() / trials.transfer(FULL, n, loss).mean()) - 1)
            for n in SHORT
        )
        claim = f"short flows, {100 * loss:g} %: Partial CATNIP at most so far from CATNIP, %"
        if loss <= 0.05:
            claims.append(at_most("HYS-E7", claim, 100 * apart, 15, paper="within 15"))
        else:
            claims.append(
                at_most("HYS-E7", claim, 100 * apart, 15, paper="within 15", note="partial-and-full-catnip")
            )
    return Part(claims)


def between(trials: Trials) -> Part:
    """HYS-E10: HIGH packets are lost with p' from 0 to p."""
    times = trials.of("hysteresis-priority")
    levels = ("0", "0.025", "0.05", "0.1")
    variant = {high: f"loss=priority:high={high},low=0.1" for high in levels}
    partial = [times[f"Partial CATNIP / {variant[high]}"] for high in levels]
    means = [float(sample.mean()) for sample in partial]
    reno = times[f"Reno / {variant['0.1']}"]
    claims = [
        exactly(
            "HYS-E10",
            "36 packets, p = 10 %: the mean grows with p'",
            "yes" if np.all(np.diff(means) > 0) else "no",
            "yes",
        ),
        at_most(
            "HYS-E10",
            "p' = p: largest difference from Reno in the same trial, s",
            float(np.abs(partial[-1] - reno).max()),
            0,
        ),
    ]
    claims += [
        reported(
            "HYS-E10",
            f"36 packets, p = 10 %, p' = {100 * float(high):g} %: gain over Reno, %",
            100 * (1 - _mean_ratio(sample, reno)),
        )
        for high, sample in zip(levels, partial, strict=True)
    ]
    return Part(claims)


def _gain_pct(trials: Trials, packets: int, loss: float) -> Interval:
    ratio = stats.ratio(trials.transfer(PARTIAL, packets, loss), trials.transfer(RENO, packets, loss))
    return Interval(100 * (1 - ratio.mean), 100 * (1 - ratio.high), 100 * (1 - ratio.low), ratio.n)


def _model_error_pct(trials: Trials, packets: int, loss: float) -> float:
    predicted = float(predictions.partial_catnip([packets], loss)[0])
    return 100 * (predicted / float(trials.transfer(PARTIAL, packets, loss).mean()) - 1)


def _mean_ratio(above: Floats, below: Floats) -> float:
    return float(above.mean() / below.mean())


def _panel(trials: Trials, loss: float) -> Panel:
    simulated = [(KILOBYTES[n], stats.mean(trials.transfer(PARTIAL, n, loss))) for n in MARKED]
    reno = [float(trials.transfer(RENO, packets, loss).mean()) for packets in MARKED]
    model = [float(t) for t in predictions.partial_catnip(MARKED, loss)]
    curves = [Curve("Partial CATNIP, model", model), Curve("Reno, simulated", reno)]
    return Panel(
        f"p = {100 * loss:g} %, p' = 0", [KILOBYTES[packets] for packets in MARKED], simulated, curves
    )

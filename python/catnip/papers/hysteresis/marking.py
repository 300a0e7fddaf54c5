"""Benefit of marking the first and last packets of a transfer, Figures 5 and 6: HYS-E4 to E7, E10."""

import math
from collections.abc import Sequence
from itertools import combinations, product

import numpy as np
from scipy.stats import ks_2samp

from catnip.analysis import stats
from catnip.analysis.interval import Interval
from catnip.papers.hysteresis import predictions
from catnip.papers.hysteresis.trials import FULL, LOSSES, PARTIAL, RENO, SHORT, Trials
from catnip.papers.quantity import Quantities
from catnip.papers.reference import number

measured = Quantities()

MARKED = tuple(packets for packets in SHORT if packets >= number("hysp14") + number("hysp15"))


@measured
def full_apart_from_partial_pct(trials: Trials, packets: int, loss: float) -> Interval:
    """HYS-E4: difference between the mean transfer times of CATNIP and Partial CATNIP, percent.

    The difference is absolute, and relative to Partial CATNIP.
    """
    partial, full = (trials.transfer(sender, packets, loss) for sender in (PARTIAL, FULL))
    return stats.magnitude(stats.reduction_pct(full, partial))


@measured
def distance_of_distributions(trials: Trials, packets: int, loss: float) -> Interval:
    """HYS-E4: Kolmogorov-Smirnov distance between the transfer times of CATNIP and Partial CATNIP.

    The interval is that of Massart's inequality, which holds for any distribution: half of the 5 % for each
    sample.
    """
    partial, full = (trials.transfer(sender, packets, loss) for sender in (PARTIAL, FULL))
    distance = float(ks_2samp(partial, full).statistic)
    reach = sum(math.sqrt(math.log(2 / 0.025) / (2 * len(times))) for times in (partial, full))
    return Interval(distance, max(0.0, distance - reach), min(1.0, distance + reach), len(partial))


@measured
def gain_pct(trials: Trials, packets: int, loss: float) -> Interval:
    """HYS-E5: reduction of the mean transfer time by Partial CATNIP relative to Reno, percent."""
    return _gain_pct(trials, packets, loss)


@measured
def smallest_gain_pct(trials: Trials) -> Interval:
    """HYS-E5: `gain_pct`, smallest over all sizes and loss rates, percent."""
    points = list(product(MARKED, LOSSES))
    return stats.least([_gain_pct(trials, *point, stats.family(len(points))) for point in points])


@measured
def greatest_gain_pct(trials: Trials, loss: float) -> Interval:
    """HYS-E5: `gain_pct`, largest over the sizes at a loss rate, percent."""
    each = stats.family(len(MARKED))
    return stats.greatest([_gain_pct(trials, packets, loss, each) for packets in MARKED])


@measured
def gain_falls_by_points(trials: Trials, loss: float) -> Interval:
    """HYS-E5: by how much `gain_pct` falls from a size to a larger one, least over all pairs, points."""
    pairs = list(combinations(MARKED, 2))

    def fall(small: int, large: int) -> Interval:
        times = [trials.transfer(sender, size, loss) for size in (small, large) for sender in (PARTIAL, RENO)]
        means = [float(one.mean()) for one in times]
        errors_s = [float(one.std(ddof=1)) / math.sqrt(len(one)) for one in times]
        return stats.drawn(
            lambda mean: 100 * (mean[:, 2] / mean[:, 3] - mean[:, 0] / mean[:, 1]),
            means,
            errors_s,
            len(times[0]),
            stats.family(len(pairs)),
        )

    return stats.least([fall(*pair) for pair in pairs])


@measured
def model_off_pct(trials: Trials, loss: float) -> Interval:
    """HYS-E6: absolute relative error of the model of Partial CATNIP, largest over the sizes, percent."""

    def off(packets: int) -> Interval:
        predicted = float(predictions.partial_catnip([packets], loss)[0])
        mean_s = stats.mean(trials.transfer(PARTIAL, packets, loss), stats.family(len(MARKED)))
        ratio = Interval(predicted / mean_s.mean, predicted / mean_s.high, predicted / mean_s.low, mean_s.n)
        return stats.magnitude(stats.shifted(ratio, -1))

    return stats.greatest([off(packets) for packets in MARKED]) * 100


@measured
def partial_apart_from_full_pct(trials: Trials, loss: float) -> Interval:
    """HYS-E7: difference between the mean transfer times of Partial CATNIP and CATNIP, percent.

    The difference is absolute, relative to CATNIP, and the largest over the sizes of short transfers.
    """

    def apart(packets: int) -> Interval:
        partial, full = (trials.transfer(sender, packets, loss) for sender in (PARTIAL, FULL))
        return stats.magnitude(stats.reduction_pct(partial, full, stats.family(len(SHORT))))

    return stats.greatest([apart(packets) for packets in SHORT])


@measured
def grows_with_high_loss(trials: Trials, sender: str, levels: Sequence[str]) -> Interval:
    """HYS-E10: least growth of a sender's mean time from a loss p' of HIGH packets to a higher one, s.

    It is the least over all pairs of `levels`.
    """
    return stats.descent([_at(trials, sender, high) for high in reversed(levels)])


@measured
def off_reno_s(trials: Trials, sender: str) -> float:
    """HYS-E10: largest absolute difference between the times of a sender and of Reno in the same trial, s.

    HIGH packets are lost like all others (p' = p).
    """
    return float(np.abs(_at(trials, sender, "0.1") - _at(trials, RENO, "0.1")).max())


@measured
def gain_at_pct(trials: Trials, sender: str, high: str) -> Interval:
    """HYS-E10: reduction of the mean transfer time by a sender whose HIGH packets are lost with p', percent.

    Their loss probability p' is `high`. The reference is Reno with p' = p.
    """
    return stats.reduction_pct(_at(trials, sender, high), _at(trials, RENO, "0.1"))


def _gain_pct(trials: Trials, packets: int, loss: float, confidence: float = 0.95) -> Interval:
    partial, reno = (trials.transfer(sender, packets, loss) for sender in (PARTIAL, RENO))
    return stats.reduction_pct(partial, reno, confidence)


def _at(trials: Trials, sender: str, high: str) -> np.ndarray:
    return trials.of("hysteresis-priority")[f"{sender} / loss=priority:high={high},low=0.1"]

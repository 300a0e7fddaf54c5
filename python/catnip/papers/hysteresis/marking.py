"""Benefit of marking the first and last packets of a transfer, Figures 5 and 6: HYS-E4 to E7, E10."""

from collections.abc import Sequence

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
def full_apart_from_partial_pct(trials: Trials, packets: int, loss: float) -> float:
    """HYS-E4: difference between the mean transfer times of CATNIP and Partial CATNIP, percent.

    The difference is absolute, and relative to Partial CATNIP.
    """
    partial, full = (trials.transfer(sender, packets, loss) for sender in (PARTIAL, FULL))
    return 100 * abs(float(full.mean() / partial.mean()) - 1)


@measured
def distance_of_distributions(trials: Trials, packets: int, loss: float) -> float:
    """HYS-E4: Kolmogorov-Smirnov distance between the transfer times of CATNIP and Partial CATNIP."""
    partial, full = (trials.transfer(sender, packets, loss) for sender in (PARTIAL, FULL))
    return float(ks_2samp(partial, full).statistic)


@measured
def gain_pct(trials: Trials, packets: int, loss: float) -> Interval:
    """HYS-E5: reduction of the mean transfer time by Partial CATNIP relative to Reno, percent."""
    ratio = stats.ratio(trials.transfer(PARTIAL, packets, loss), trials.transfer(RENO, packets, loss))
    return Interval(100 * (1 - ratio.mean), 100 * (1 - ratio.high), 100 * (1 - ratio.low), ratio.n)


@measured
def smallest_gain_pct(trials: Trials) -> float:
    """HYS-E5: lower end of the interval of `gain_pct`, smallest over all sizes and loss rates, percent."""
    return min(gain_pct(trials, packets, loss).low for packets in MARKED for loss in LOSSES)


@measured
def greatest_gain_pct(trials: Trials, loss: float) -> float:
    """HYS-E5: mean of `gain_pct`, largest over the sizes at a loss rate, percent."""
    return max(gain_pct(trials, packets, loss).mean for packets in MARKED)


@measured
def model_off_pct(trials: Trials, loss: float) -> float:
    """HYS-E6: absolute relative error of the model of Partial CATNIP, largest over the sizes, percent."""

    def off(packets: int) -> float:
        predicted = float(predictions.partial_catnip([packets], loss)[0])
        return abs(predicted / float(trials.transfer(PARTIAL, packets, loss).mean()) - 1)

    return 100 * max(map(off, MARKED))


@measured
def partial_apart_from_full_pct(trials: Trials, loss: float) -> float:
    """HYS-E7: difference between the mean transfer times of Partial CATNIP and CATNIP, percent.

    The difference is absolute, relative to CATNIP, and the largest over the sizes of short transfers.
    """

    def apart(packets: int) -> float:
        partial, full = (trials.transfer(sender, packets, loss) for sender in (PARTIAL, FULL))
        return abs(float(partial.mean() / full.mean()) - 1)

    return 100 * max(map(apart, SHORT))


@measured
def grows_with_high_loss(trials: Trials, sender: str, levels: Sequence[str]) -> str:
    """HYS-E10: `yes` if a sender's mean transfer time grows with the loss p' of HIGH packets, else `no`."""
    means = [float(_at(trials, sender, high).mean()) for high in levels]
    return "yes" if np.all(np.diff(means) > 0) else "no"


@measured
def off_reno_s(trials: Trials, sender: str) -> float:
    """HYS-E10: largest absolute difference between the times of a sender and of Reno in the same trial, s.

    HIGH packets are lost like all others (p' = p).
    """
    return float(np.abs(_at(trials, sender, "0.1") - _at(trials, RENO, "0.1")).max())


@measured
def gain_at_pct(trials: Trials, sender: str, high: str) -> float:
    """HYS-E10: reduction of the mean transfer time by a sender whose HIGH packets are lost with p', percent.

    Their loss probability p' is `high`. The reference is Reno with p' = p.
    """
    return float(100 * (1 - _at(trials, sender, high).mean() / _at(trials, RENO, "0.1").mean()))


def _at(trials: Trials, sender: str, high: str) -> np.ndarray:
    return trials.of("hysteresis-priority")[f"{sender} / loss=priority:high={high},low=0.1"]

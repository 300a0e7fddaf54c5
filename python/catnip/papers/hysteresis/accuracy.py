"""Errors of the models against the simulation, Tables 2 and 3: HYS-E1, E2, E8, E9, S14."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from catnip.analysis import stats
from catnip.analysis.interval import Interval
from catnip.analysis.measures import Floats
from catnip.papers.hysteresis.predictions import CARDWELL00, COMPARED, EARLIER, HYSTERESIS, Model
from catnip.papers.hysteresis.trials import LONG, LOSSES, RENO, SHORT, Trials
from catnip.papers.quantity import Quantities

measured = Quantities()

FLOWS = {"short": SHORT, "long": LONG}
MODELS = {model.name: model for model in (*COMPARED, *EARLIER)}


@dataclass(frozen=True)
class Errors:
    """Errors of a model against simulated mean transfer times, over several sizes at one loss rate."""

    v: Interval
    """Error V by equation 13 of the paper as printed: mean squared difference of the times, s²."""
    squared_relative: Interval
    absolute_relative: Interval
    bias: Interval
    """Mean relative error: predicted time over simulated time, minus one."""


def errors(predicted: Floats, simulated: Sequence[Floats], confidence: float = 0.95) -> Errors:
    """Returns the errors of `predicted` times; `simulated` has the trials' times for each size.

    The intervals result from drawing each simulated mean from its normal distribution.
    """

    def of(error: Callable[[Floats], Floats]) -> Interval:
        return _of_means(lambda means: error(means).mean(axis=1), simulated, confidence)

    return Errors(
        v=of(lambda means: (predicted - means) ** 2),
        squared_relative=of(lambda means: (predicted / means - 1) ** 2),
        absolute_relative=of(lambda means: np.abs(predicted / means - 1)),
        bias=of(lambda means: predicted / means - 1),
    )


def errors_of(
    trials: Trials,
    model: Model,
    flows: str,
    loss: float,
    count: int | None = None,
    confidence: float = 0.95,
) -> Errors:
    """Returns a model's errors for short or long transfers, against `count` trials per size, or all."""
    sizes = FLOWS[flows]
    simulated = [times[:count] for times in _simulated(trials, sizes, loss)]
    return errors(model.predicts(sizes, loss), simulated, confidence)


@measured
def v_s2(trials: Trials, model: str, flows: str, loss: float) -> Interval:
    """HYS-E1, E2, E9: mean squared error V of a model's transfer times (equation 13), s²."""
    return errors_of(trials, MODELS[model], flows, loss).v


@measured
def v_over_hysteresis(trials: Trials, model: str, flows: str, loss: float) -> Interval:
    """HYS-E1, E2: ratio of a model's mean squared error V to that of the hysteresis model."""
    return _v_ratio(trials, MODELS[model], HYSTERESIS, flows, loss)


@measured
def v_over_cardwell00(trials: Trials, model: str, flows: str, loss: float) -> Interval:
    """HYS-E11: ratio of a model's mean squared error V to that of Cardwell-00."""
    return _v_ratio(trials, MODELS[model], CARDWELL00, flows, loss)


@measured
def absolute_relative_pct(trials: Trials, model: str, flows: str, loss: float) -> Interval:
    """HYS-E11: mean absolute relative error of a model, percent."""
    return errors_of(trials, MODELS[model], flows, loss).absolute_relative * 100


@measured
def v_grows_with_loss(trials: Trials, flows: str) -> Interval:
    """HYS-E2: least growth of the hysteresis model's V from one loss rate to a higher one, all pairs, s²."""
    pairs = list(combinations(LOSSES, 2))
    of = {
        loss: (HYSTERESIS.predicts(FLOWS[flows], loss), _simulated(trials, FLOWS[flows], loss))
        for loss in LOSSES
    }

    def growth(low: float, high: float) -> Interval:
        (predicted_low, low_times), (predicted_high, high_times) = of[low], of[high]
        count = len(low_times)
        return _of_means(
            lambda means: (
                ((predicted_high - means[:, count:]) ** 2).mean(axis=1)
                - ((predicted_low - means[:, :count]) ** 2).mean(axis=1)
            ),
            [*low_times, *high_times],
            stats.family(len(pairs)),
        )

    return stats.least([growth(*pair) for pair in pairs])


@measured
def worst_absolute_relative_pct(trials: Trials, flows: str, up_to: float = LOSSES[-1]) -> Interval:
    """HYS-E1, E2: mean absolute relative error of the hysteresis model, largest over loss rates, percent.

    `up_to` is the largest of the loss rates.
    """
    rates = [loss for loss in LOSSES if loss <= up_to]
    each = stats.family(len(rates))
    of = (errors_of(trials, HYSTERESIS, flows, loss, None, each).absolute_relative for loss in rates)
    return stats.greatest(list(of)) * 100


@measured
def bias_pct(trials: Trials, flows: str, loss: float) -> Interval:
    """HYS-E2: mean relative error of the hysteresis model, positive if it overestimates, percent."""
    return errors_of(trials, HYSTERESIS, flows, loss).bias * 100


@measured
def v_by_hand(_trials: Trials, measure: str) -> float:
    """HYS-S14: error measure `measure` of two predictions, 1 and 4, against the trials (2, 2) and (1, 3)."""
    result = errors(np.array([1.0, 4.0]), [np.array([2.0, 2.0]), np.array([1.0, 3.0])])
    error: Interval = getattr(result, measure)
    return error.mean


@measured
def largest_squared_relative(trials: Trials) -> Interval:
    """HYS-S14: mean squared relative error, largest over all models, kinds of transfer and loss rates."""
    cases = list(product(COMPARED, FLOWS, LOSSES))
    each = stats.family(len(cases))
    return stats.greatest([errors_of(trials, *case, None, each).squared_relative for case in cases])


@measured
def residuals_ratio(trials: Trials, flows: str, fit: str, loss: float) -> Interval:
    """HYS-E8: ratio of the sums of squared residuals of two fits of the mean time to the size.

    The ratio is that of the fit `fit`, `log` or `linear`, to the other fit.
    """
    sizes = np.array(FLOWS[flows], float)
    x, other = (np.log(sizes), sizes) if fit == "log" else (sizes, np.log(sizes))
    return _of_means(
        lambda means: _unexplained(x, means) / _unexplained(other, means),
        _simulated(trials, FLOWS[flows], loss),
    )


def _v_ratio(trials: Trials, model: Model, over: Model, flows: str, loss: float) -> Interval:
    sizes = FLOWS[flows]
    above, below = (one.predicts(sizes, loss) for one in (model, over))
    return _of_means(
        lambda means: ((above - means) ** 2).mean(axis=1) / ((below - means) ** 2).mean(axis=1),
        _simulated(trials, sizes, loss),
    )


def _simulated(trials: Trials, sizes: Sequence[int], loss: float) -> list[Floats]:
    return [trials.transfer(RENO, packets, loss) for packets in sizes]


def _of_means(
    statistic: Callable[[Floats], Floats], simulated: Sequence[Floats], confidence: float = 0.95
) -> Interval:
    """Returns a statistic of the mean times, whose interval results from drawing them."""
    means = [float(times.mean()) for times in simulated]
    errors_s = [float(times.std(ddof=1)) / math.sqrt(len(times)) for times in simulated]
    return stats.drawn(statistic, means, errors_s, len(simulated[0]), confidence)


def _unexplained(x: Floats, y: Floats) -> Floats:
    """Returns the sum of squared residuals of a linear fit of each row of `y` to `x`."""
    design = np.column_stack([x, np.ones_like(x)])
    fitted = design @ np.linalg.lstsq(design, y.T, rcond=None)[0]
    return np.asarray(((y.T - fitted) ** 2).sum(axis=0))

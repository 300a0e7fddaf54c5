"""Errors of the models against the simulation, Tables 2 and 3: HYS-E1, E2, E8, E9, S14."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from catnip.analysis.interval import Interval
from catnip.analysis.measures import Floats
from catnip.papers.hysteresis.predictions import COMPARED, HYSTERESIS, Model
from catnip.papers.hysteresis.trials import LONG, LOSSES, RENO, SHORT, Trials
from catnip.papers.quantity import Quantities

measured = Quantities()

RESAMPLES = 2000
FLOWS = {"short": SHORT, "long": LONG}
MODELS = {model.name: model for model in COMPARED}


@dataclass(frozen=True)
class Errors:
    """Errors of a model against simulated mean transfer times, over several sizes at one loss rate."""

    v: Interval
    """Error V by equation 13 of the paper as printed: mean squared difference of the times, s²."""
    squared_relative: float
    absolute_relative: float
    bias: float
    """Mean relative error: predicted time over simulated time, minus one."""


def errors(predicted: Floats, simulated: Sequence[Floats], seed: int = 1) -> Errors:
    """Returns the errors of `predicted` times; `simulated` has the trials' times for each size.

    The interval of V results from drawing each simulated mean from its normal distribution.
    """
    means = np.array([times.mean() for times in simulated])
    spread = np.array([times.std(ddof=1) / np.sqrt(len(times)) for times in simulated])
    drawn = means + spread * np.random.default_rng(seed).standard_normal((RESAMPLES, len(means)))
    low, high = np.quantile(((predicted - drawn) ** 2).mean(axis=1), (0.025, 0.975))
    relative = predicted / means - 1
    v = float(((predicted - means) ** 2).mean())
    return Errors(
        v=Interval(v, min(float(low), v), max(float(high), v), len(simulated[0])),
        squared_relative=float((relative**2).mean()),
        absolute_relative=float(np.abs(relative).mean()),
        bias=float(relative.mean()),
    )


def errors_of(trials: Trials, model: Model, flows: str, loss: float, count: int | None = None) -> Errors:
    """Returns a model's errors for short or long transfers, against `count` trials per size, or all."""
    sizes = FLOWS[flows]
    simulated = [trials.transfer(RENO, packets, loss)[:count] for packets in sizes]
    return errors(model.predicts(sizes, loss), simulated)


@measured
def v_s2(trials: Trials, model: str, flows: str, loss: float) -> Interval:
    """HYS-E1, E2, E9: mean squared error V of a model's transfer times (equation 13), s²."""
    return errors_of(trials, MODELS[model], flows, loss).v


@measured
def v_over_hysteresis(trials: Trials, model: str, flows: str, loss: float) -> float:
    """HYS-E1, E2: ratio of a model's mean squared error V to that of the hysteresis model."""
    above, below = (errors_of(trials, one, flows, loss).v.mean for one in (MODELS[model], HYSTERESIS))
    return above / below


@measured
def worst_absolute_relative_pct(trials: Trials, flows: str) -> float:
    """HYS-E1: mean absolute relative error of the hysteresis model, largest over the loss rates, percent."""
    return 100 * max(errors_of(trials, HYSTERESIS, flows, loss).absolute_relative for loss in LOSSES)


@measured
def bias_pct(trials: Trials, flows: str, loss: float) -> float:
    """HYS-E2: mean relative error of the hysteresis model, positive if it overestimates, percent."""
    return 100 * errors_of(trials, HYSTERESIS, flows, loss).bias


@measured
def v_by_hand(_trials: Trials, measure: str) -> float:
    """HYS-S14: error measure `measure` of two predictions, 1 and 4, against the trials (2, 2) and (1, 3)."""
    result = errors(np.array([1.0, 4.0]), [np.array([2.0, 2.0]), np.array([1.0, 3.0])])
    return result.v.mean if measure == "v" else float(getattr(result, measure))


@measured
def largest_squared_relative(trials: Trials) -> float:
    """HYS-S14: mean squared relative error, largest over all models, kinds of transfer and loss rates."""
    return max(
        errors_of(trials, model, flows, loss).squared_relative
        for model in COMPARED
        for flows in FLOWS
        for loss in LOSSES
    )


@measured
def residuals_ratio(trials: Trials, flows: str, fit: str, loss: float) -> float:
    """HYS-E8: ratio of the sums of squared residuals of two fits of the mean time to the size.

    The ratio is that of the fit `fit`, `log` or `linear`, to the other fit.
    """
    sizes = FLOWS[flows]
    means = np.array([trials.transfer(RENO, packets, loss).mean() for packets in sizes])
    left = {"log": _unexplained(np.log(sizes), means), "linear": _unexplained(np.array(sizes, float), means)}
    return left.pop(fit) / next(iter(left.values()))


def _unexplained(x: Floats, y: Floats) -> float:
    slope, intercept = np.polyfit(x, y, 1)
    return float(((y - slope * x - intercept) ** 2).sum())

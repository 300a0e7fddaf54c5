"""Headlines of run reports: what changes from one variant to another, as sentences with intervals."""

import math
from collections.abc import Mapping, Sequence

from catnip import _core
from catnip.analysis.interval import Interval
from catnip.analysis.summary import GroupSummary, Summary
from catnip.report.summary_tables import MEASURES, TIMES, Pairs

MOST = 4
"""Largest number of sentences."""
P95, GOODPUT = "p95_s", "goodput_mbps"
SOONER = (P95, *TIMES)
"""Measures that are better if they are less, the one that is told first."""


def sentences(pairs: Pairs, base_of: Mapping[str, str]) -> list[str]:
    """Returns a sentence for each group and variant that is compared, the largest effects if there are many.

    `pairs` has each variant and what it is compared with, `base_of` the name of the latter.
    """
    told = []
    for name, (ours, base) in pairs.items():
        for group in (group for group in ours.groups if group in base.groups):
            effect = effect_of(ours.groups[group], base.groups[group])
            if effect is not None:
                measure, change = effect
                of = f"{group}: " if len(ours.groups) > 1 else ""
                told.append((abs(change.mean), f"{of}{sentence(name, base_of[name], measure, change)}"))
    if len(told) > MOST:
        told = sorted(told, reverse=True)[:MOST]
    return [says for _, says in told]


def effect_of(ours: GroupSummary, base: GroupSummary) -> tuple[str, Interval] | None:
    """Returns the measure to tell, and its change in percent; None if there is none with an interval.

    Runs whose times are all alike are one replicate, whose spread tells nothing.
    """
    if ours.is_alike or base.is_alike:
        return None
    for measure in (*SOONER, GOODPUT):
        if measure in ours.values and measure in base.values:
            change = change_pct(ours.values[measure], base.values[measure])
            if change is not None:
                return measure, change
    return None


def change_pct(ours: Sequence[float], base: Sequence[float]) -> Interval | None:
    """Returns the change of a mean in percent, with a 95 % interval; values with the same index are paired.

    None if a value is missing, or if the mean of the base is not positive.
    """
    change = _core.relative_change(list(ours), list(base))
    if change is None:
        return None
    mean, low, high, n = change
    return Interval(100 * mean, 100 * low, 100 * high, n)


def sentence(name: str, base: str, measure: str, change: Interval) -> str:
    """Returns an effect in words, such as `A: 30 % [26, 34] faster than B at the 95th percentile`."""
    where = {P95: " at the 95th percentile", GOODPUT: " goodput"}.get(measure, f" by {_plain(measure)}")
    if change.low <= 0 <= change.high:
        ends = f"{_whole(change.mean)} % [{_whole(change.low)}, {_whole(change.high)}]"
        what = where if measure == GOODPUT else f"{where.removeprefix(' at').removeprefix(' by')}"
        return f"{name}: no difference to {base} that these runs see:{what} {ends}"
    is_better = change.mean < 0 if measure in SOONER else change.mean > 0
    low, high = sorted((abs(change.low), abs(change.high)))
    amount = f"{_whole(abs(change.mean))} % [{_whole(low)}, {_whole(high)}]"
    if measure == GOODPUT:
        return f"{name}: {amount} {'more' if is_better else 'less'}{where} than {base}"
    return f"{name}: {amount} {'faster' if is_better else 'slower'} than {base}{where}"


def alone(name: str, summary: Summary) -> str:
    """Returns what a single variant says of itself: its most telling measure with its interval."""
    told = []
    for group, of in summary.groups.items():
        measure = next((key for key in (*SOONER, GOODPUT) if key in of.means), None)
        if measure is not None:
            value = of.means[measure]
            ends = "" if math.isnan(value.low) else f" [{value.low:.3g}, {value.high:.3g}]"
            label, _, unit = MEASURES[measure].rpartition(", ")
            told.append(f"{group}: {label} {value.mean:.3g}{ends} {unit}")
    return f"{name}: {'; '.join(told)}" if told else ""


def _plain(measure: str) -> str:
    return "mean " + MEASURES[measure].rpartition(", ")[0]


def _whole(percent: float) -> str:
    """Formats a percentage with as many digits as matter: one behind the point below 10."""
    return f"{percent:.0f}" if abs(percent) >= 10 else f"{percent:.1f}"

"""Quantities of a streaming server, whose segments have idle periods between them (CWV-S16)."""

from typing import Literal, TypeAlias

import numpy as np

from catnip.analysis import stats
from catnip.analysis.interval import Interval
from catnip.analysis.measures import Floats, select
from catnip.papers.newcwv.runs import BurstRuns
from catnip.papers.quantity import Quantities
from catnip.papers.rows import Rows, where
from catnip.store.tables import Table

measured = Quantities()

Statistic: TypeAlias = Literal["rate_mbps", "startup_s", "stalls", "stalled_s"]


@measured
def video(runs: BurstRuns, scenario: str, variant: str, statistic: Statistic) -> Interval:
    """Mean of a column of the table of videos over the videos that were played to their ends."""
    return stats.mean(_per_seed(runs, scenario, variant, statistic))


@measured
def video_ratio(runs: BurstRuns, scenario: str, variant: str, over: str, statistic: Statistic) -> Interval:
    """Ratio of the mean of a column of the table of videos to that in the variant `over`, paired by run."""
    one, other = (_per_seed(runs, scenario, name, statistic) for name in (variant, over))
    return stats.ratio(one, other)


@measured
def first_video_ratio(
    runs: BurstRuns, scenario: str, variant: str, over: str, statistic: Statistic
) -> Interval:
    """Ratio as `video_ratio`, of the first video of a run only, over a connection that has just opened."""
    one, other = (_per_seed(runs, scenario, name, statistic, first=True) for name in (variant, over))
    return stats.ratio(one, other)


@measured
def video_difference(
    runs: BurstRuns, scenario: str, variant: str, less: str, statistic: Statistic
) -> Interval:
    """Mean of a column of the table of videos minus that in the variant `less`, paired by run."""
    one, other = (_per_seed(runs, scenario, name, statistic) for name in (variant, less))
    return stats.paired_difference(one, other)


def _per_seed(
    runs: BurstRuns, scenario: str, variant: str, statistic: Statistic, first: bool = False
) -> Floats:
    rows = runs.cached(("videos", scenario, variant), lambda: _videos(runs, scenario, variant))
    chosen = where(rows, rows["video"] == 0) if first else rows
    means = [chosen[statistic][chosen["seed"] == seed].mean() for seed in runs.seeds(scenario)]
    return np.array(means, dtype=np.float64)


def _videos(runs: BurstRuns, scenario: str, variant: str) -> Rows:
    names = runs.variants(scenario)

    def run() -> Table:
        report = runs.progress.task(f"videos, {scenario}")
        return runs.run(scenario, names, ["videos"], report)["videos"]

    return select(runs.cached(("videos", scenario), run), names.index(variant))

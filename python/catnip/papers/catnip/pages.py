"""Experiments with ten pages and 100 clients: CAT-E3 to CAT-E8 and CAT-E12."""

from collections.abc import Sequence

import numpy as np

from catnip.analysis import stats
from catnip.analysis.interval import Interval
from catnip.papers.catnip import printed
from catnip.papers.catnip.runs import Result, Runs
from catnip.papers.quantity import Quantities
from catnip.papers.reference import number

measured = Quantities()

USERS = int(number("catp01"))


def gains_pct(ours: np.ndarray, base: np.ndarray) -> np.ndarray:
    """Returns the reduction of each page's pooled value, percent."""
    return np.asarray(100 * (1 - ours.mean(axis=0) / base.mean(axis=0)))


def average_gain(ours: np.ndarray, base: np.ndarray) -> Interval:
    """Returns the mean of the pages' gains, percent, with a jackknife interval over the runs."""
    values = stats.pseudo_values(lambda runs: float(gains_pct(ours[runs], base[runs]).mean()), len(ours))
    return stats.mean(values)


def session_min(result: Result) -> np.ndarray:
    """Returns the time from a user's first page start to the last page end, mean over users, per run."""
    rows = result.rows("pages")
    spans = []
    for seed in result.seeds:
        of_seed = rows["seed"] == seed
        client = rows["client"][of_seed]
        start, end = rows["start_s"][of_seed], rows["start_s"][of_seed] + rows["time_s"][of_seed]
        per_user = [end[client == user].max() - start[client == user].min() for user in np.unique(client)]
        spans.append(float(np.mean(per_user)) / 60)
    return np.array(spans)


@measured
def loss_pct(runs: Runs, scenario: str, variant: str) -> Interval:
    """Share of packets dropped at the bottleneck, percent."""
    return runs.of(scenario)[variant].loss_pct()


@measured
def priority_loss_pct(runs: Runs, scenario: str, variant: str, priority: str) -> Interval:
    """Share of the packets of a priority, `high` or `low`, dropped at the bottleneck, percent."""
    port = runs.of(scenario)[variant].port
    return stats.mean(100 * (port.high_loss if priority == "high" else port.low_loss))


@measured
def high_over_low_loss(runs: Runs, scenario: str, variant: str) -> Interval:
    """Loss of HIGH packets over loss of LOW packets."""
    port = runs.of(scenario)[variant].port
    return stats.ratio(port.high_loss, port.low_loss)


@measured
def high_share_pct(runs: Runs, scenario: str, variant: str) -> Interval:
    """Share of HIGH packets among all arrivals at the bottleneck, percent."""
    return stats.mean(100 * runs.of(scenario)[variant].port.high_share)


@measured
def share_ratio(runs: Runs, scenario: str, variant: str, over: str) -> Interval:
    """Share of HIGH packets over the share in the same variant of another scenario."""
    ours, base = (runs.of(name)[variant].port.high_share for name in (scenario, over))
    return stats.ratio(ours, base)


@measured
def loss_ratio(runs: Runs, scenario: str, variant: str, over: Sequence[str], scale: float = 1.0) -> Interval:
    """Loss over the loss of another scenario's variant."""
    base = runs.of(over[0])[over[1]].port.loss
    return stats.ratio(runs.of(scenario)[variant].port.loss, base) * scale


@measured
def loss_reduction_pct(runs: Runs, scenario: str, variant: str, base: str) -> Interval:
    """Reduction of the loss relative to another variant, percent."""
    results = runs.of(scenario)
    quotient = stats.ratio(results[variant].port.loss, results[base].port.loss) * 100
    return Interval(100 - quotient.mean, 100 - quotient.high, 100 - quotient.low, quotient.n)


@measured
def loss_difference_points(runs: Runs, scenario: str, variant: str, base: str) -> Interval:
    """Loss less that of another variant, percentage points."""
    results = runs.of(scenario)
    return stats.paired_difference(100 * results[variant].port.loss, 100 * results[base].port.loss)


@measured
def pages_in_ns2_range(
    runs: Runs, scenario: str, variant: str, queue: str, column: str, slack_s: float = 0.0
) -> float:
    """Number of pages whose pooled `mean` or `median` lies within the range of ns-2's runs."""
    result = runs.of(scenario)[variant]
    values = (result.page_means() if column == "mean" else result.page_medians).mean(axis=0)
    low, high = (np.array(printed.ns2_pages(queue, f"run_{column}_{end}")) for end in ("lo", "hi"))
    return float(((values >= low - slack_s) & (values <= high + slack_s)).sum())


@measured
def page_time_s(runs: Runs, scenario: str, variant: str) -> Interval:
    """Mean over the ten pages of their mean times, s."""
    return stats.mean(runs.of(scenario)[variant].overall_mean_s())


@measured
def times_ratio(runs: Runs, scenario: str, variant: str, base: str, scale: float = 1.0) -> Interval:
    """Mean page time over that of another variant."""
    results = runs.of(scenario)
    return stats.ratio(results[variant].overall_mean_s(), results[base].overall_mean_s()) * scale


@measured
def gain_pct(
    runs: Runs, scenario: str, variant: str, base: str, column: str, statistic: str
) -> Interval | float:
    """Statistic of the pages' gains over another variant, in their means or deviations.

    `statistic` is `average`, which has an interval, or one of `printed.of_pages`.
    """
    ours, theirs = (
        result.page_means() if column == "mean" else result.page_deviations
        for result in (runs.of(scenario)[variant], runs.of(scenario)[base])
    )
    if statistic == "average":
        return average_gain(ours, theirs)
    return printed.of_pages(list(gains_pct(ours, theirs)), statistic)


@measured
def sources_differ_pct(runs: Runs, scenario: str, router: str, sources: Sequence[str]) -> float:
    """Largest difference of a source's mean page time from that of the first source, percent."""
    means = [runs.of(scenario)[f"{name}/{router}"].overall_mean_s().mean() for name in sources]
    return float(100 * max(abs(mean / means[0] - 1) for mean in means))


@measured
def source_over_router(runs: Runs, scenario: str, base: str, source: str, router: str) -> float:
    """Relative change of the mean page time by another source over that by another router."""
    times = {name: runs.of(scenario)[name].overall_mean_s().mean() for name in (base, source, router)}
    return float(abs(times[source] / times[base] - 1) / abs(times[router] / times[base] - 1))


@measured
def longest_page_s(runs: Runs, scenario: str, variant: str) -> Interval:
    """Longest page time of a run, s."""
    result = runs.of(scenario)[variant]
    rows = result.rows("pages")
    return stats.mean([rows["time_s"][rows["seed"] == seed].max() for seed in result.seeds])


@measured
def group_loss_ratio(runs: Runs, router: str) -> Interval:
    """CAT-E7: loss of the ECA sources over that of the Reno sources."""
    result = runs.of("catnip-e7")[router]
    return stats.ratio(result.sender_loss("eca"), result.sender_loss("reno"))


@measured
def group_loss_pct(runs: Runs, router: str, group: str) -> Interval:
    """CAT-E7: loss of a group of sources, percent."""
    return stats.mean(100 * runs.of("catnip-e7")[router].sender_loss(group))


@measured
def group_times_ratio_pct(runs: Runs, router: str) -> Interval:
    """CAT-E7: mean page time of ECA over that of Reno, percent."""
    result = runs.of("catnip-e7")[router]
    return stats.ratio(result.overall_mean_s("eca"), result.overall_mean_s("reno")) * 100


@measured
def connections_per_user(runs: Runs, variant: str) -> str:
    """CAT-E12: connections of a session."""
    result = runs.of("catnip-e12")[variant]
    return f"{len(result.rows('connections')['bytes']) / (USERS * len(result.seeds)):g}"


@measured
def bytes_per_user(runs: Runs, variant: str) -> str:
    """CAT-E12: bytes of a session."""
    result = runs.of("catnip-e12")[variant]
    return f"{result.rows('connections')['bytes'].sum() / (USERS * len(result.seeds)):.0f}"


@measured
def packets_per_user(runs: Runs, variant: str) -> str:
    """CAT-E12: packets of a session, without retransmissions."""
    result = runs.of("catnip-e12")[variant]
    rows = result.rows("connections")
    first_sent = rows["sent"] - rows["retransmitted"]
    return f"{first_sent.sum() / (USERS * len(result.seeds)):g}"


@measured
def load_mbps(runs: Runs, variant: str) -> Interval:
    """CAT-E12: load of all users in session, Mbit/s."""
    result = runs.of("catnip-e12")[variant]
    bits = result.rows("connections")["bytes"].sum() / len(result.seeds) * 8
    return stats.mean(bits / (60 * session_min(result)) / 1e6)


@measured
def session_length_min(runs: Runs, variant: str) -> Interval:
    """CAT-E12: session length of a user, minutes."""
    return stats.mean(session_min(runs.of("catnip-e12")[variant]))


@measured
def packets_sent(runs: Runs, scenario: str, variant: str) -> Interval:
    """Data packets sent per run."""
    return stats.mean(runs.of(scenario)[variant].rows("runs")["packets_sent"])

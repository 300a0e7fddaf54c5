"""Quantities of the experiments with ten pages and 100 clients: CAT-E3 to CAT-E8, CAT-E12 and CAT-E19."""

from collections.abc import Sequence

import numpy as np

from catnip.analysis import stats
from catnip.analysis.interval import Interval
from catnip.papers.catnip import printed
from catnip.papers.catnip.runs import Result, VariantRuns
from catnip.papers.quantity import Quantities
from catnip.papers.reference import number

measured = Quantities()

USERS = int(number("catp01"))


def gains_pct(ours: np.ndarray, base: np.ndarray) -> np.ndarray:
    """Returns the reduction of each page's mean over the runs relative to that of `base`, percent.

    `ours` and `base` have a row for each run and a column for each page.
    """
    return np.asarray(100 * (1 - ours.mean(axis=0) / base.mean(axis=0)))


def average_gain(ours: np.ndarray, base: np.ndarray) -> Interval:
    """Returns the mean of `gains_pct` over the pages, percent, with a jackknife interval over the runs."""
    values = stats.pseudo_values(lambda runs: float(gains_pct(ours[runs], base[runs]).mean()), len(ours))
    return stats.mean(values)


def session_min(result: Result) -> np.ndarray:
    """Returns the mean session length of the users in each run, minutes.

    A user's session lasts from the start of the first page to the end of the last one.
    """
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
def loss_pct(runs: VariantRuns, scenario: str, variant: str) -> Interval:
    """Share of packets that the bottleneck drops, percent."""
    return runs.of(scenario)[variant].loss_pct()


@measured
def priority_loss_pct(runs: VariantRuns, scenario: str, variant: str, priority: str) -> Interval:
    """Share of the packets of a priority, `high` or `low`, that the bottleneck drops, percent."""
    port = runs.of(scenario)[variant].port
    return stats.mean(100 * (port.high_loss if priority == "high" else port.low_loss))


@measured
def high_over_low_loss(runs: VariantRuns, scenario: str, variant: str) -> Interval:
    """Ratio of the loss rate of HIGH packets to the loss rate of LOW packets at the bottleneck."""
    port = runs.of(scenario)[variant].port
    return stats.ratio(port.high_loss, port.low_loss)


@measured
def high_share_pct(runs: VariantRuns, scenario: str, variant: str) -> Interval:
    """Share of HIGH packets among all arrivals at the bottleneck, percent."""
    return stats.mean(100 * runs.of(scenario)[variant].port.high_share)


@measured
def share_ratio(runs: VariantRuns, scenario: str, variant: str, over: str) -> Interval:
    """Ratio of the share of HIGH packets at the bottleneck in two scenarios: `scenario` to `over`.

    Both shares are those of the variant `variant`.
    """
    ours, base = (runs.of(name)[variant].port.high_share for name in (scenario, over))
    return stats.ratio(ours, base)


@measured
def loss_ratio(
    runs: VariantRuns, scenario: str, variant: str, over: Sequence[str], scale: float = 1.0
) -> Interval:
    """Ratio of the loss rate at the bottleneck to that of `over`, a scenario and a variant, times `scale`."""
    base = runs.of(over[0])[over[1]].port.loss
    return stats.ratio(runs.of(scenario)[variant].port.loss, base) * scale


@measured
def loss_reduction_pct(runs: VariantRuns, scenario: str, variant: str, base: str) -> Interval:
    """Reduction of the loss rate at the bottleneck relative to the variant `base`, percent."""
    results = runs.of(scenario)
    return stats.reduction_pct(results[variant].port.loss, results[base].port.loss)


@measured
def loss_difference_points(runs: VariantRuns, scenario: str, variant: str, base: str) -> Interval:
    """Loss rate at the bottleneck minus the loss rate in the variant `base`, percentage points."""
    results = runs.of(scenario)
    return stats.paired_difference(100 * results[variant].port.loss, 100 * results[base].port.loss)


@measured
def pages_in_ns2_range(
    runs: VariantRuns, scenario: str, variant: str, queue: str, column: str, slack_s: float = 0.0
) -> Interval:
    """Number of pages whose time lies within the range of ns-2's runs, extended by `slack_s` at both ends.

    The time is the `mean` or `median` of a run, as `column` specifies, averaged over the runs.
    """
    result = runs.of(scenario)[variant]
    values = result.page_means() if column == "mean" else result.page_medians
    low, high = (np.array(printed.ns2_pages(queue, f"run_{column}_{end}")) for end in ("lo", "hi"))
    # The place of a time in ns-2's range: 0 at its lower end, 1 at its upper one.
    places = (values - (low - slack_s)) / (high - low + 2 * slack_s)
    return stats.count([stats.mean(place, stats.family(len(low))) for place in places.T], 0, 1)


@measured
def page_time_s(runs: VariantRuns, scenario: str, variant: str) -> Interval:
    """Mean page time over the ten pages, s."""
    return stats.mean(runs.of(scenario)[variant].overall_mean_s())


@measured
def times_ratio(runs: VariantRuns, scenario: str, variant: str, base: str, scale: float = 1.0) -> Interval:
    """Ratio of the mean page time of a variant to that of the variant `base`, times `scale`."""
    results = runs.of(scenario)
    return stats.ratio(results[variant].overall_mean_s(), results[base].overall_mean_s()) * scale


@measured
def gain_pct(
    runs: VariantRuns,
    scenario: str,
    variant: str,
    base: str,
    column: str,
    statistic: str,
    pages: Sequence[int] = (),
) -> Interval:
    """Statistic of the ten pages' time reductions relative to the variant `base`, percent.

    The reductions are those of mean times if `column` is `mean`, otherwise of standard deviations.
    `statistic` is `average`, `pages` (the number of pages that are reduced), `max`, or a rank, 0 for the
    least. `pages` are the numbers of the pages; all if it is empty.
    """
    if statistic == "average":
        return average_gain(*(_of_pages(runs, scenario, name, column, pages) for name in (variant, base)))
    each = _gains(runs, scenario, variant, base, column, pages)
    if statistic == "pages":
        return stats.count(each, low=0)
    return stats.greatest(each) if statistic == "max" else stats.ranked(each, int(statistic))


@measured
def pages_gaining(
    runs: VariantRuns, scenario: str, variant: str, base: str, column: str, low: float, high: float
) -> Interval:
    """Number of pages whose time is reduced relative to the variant `base` by `low` to `high` percent.

    The reductions are those of mean times if `column` is `mean`, otherwise of standard deviations.
    """
    return stats.count(_gains(runs, scenario, variant, base, column), low, high)


@measured
def page_gain_pct(
    runs: VariantRuns, scenario: str, variant: str, base: str, column: str, page: int
) -> Interval:
    """Reduction of the mean time (`mean`), or of its standard deviation (`sdev`), of one page, percent."""
    ours, theirs = (_of_pages(runs, scenario, name, column)[:, page - 1] for name in (variant, base))
    return stats.reduction_pct(ours, theirs)


@measured
def sources_differ_pct(runs: VariantRuns, scenario: str, router: str, sources: Sequence[str]) -> Interval:
    """Largest relative difference of a source's mean page time from that of `sources[0]`, percent."""
    base, *others = (runs.of(scenario)[f"{name}/{router}"].overall_mean_s() for name in sources)
    each = (stats.reduction_pct(other, base, stats.family(len(others))) for other in others)
    return stats.greatest([stats.magnitude(one) for one in each])


@measured
def source_over_router(runs: VariantRuns, scenario: str, base: str, source: str, router: str) -> Interval:
    """Ratio of the effect of a source to that of a router on the mean page time.

    The effects are the absolute changes from the variant `base` to `source` and to `router`.
    """
    times = {name: runs.of(scenario)[name].overall_mean_s() for name in (base, source, router)}
    return stats.magnitude(stats.ratio(times[source] - times[base], times[router] - times[base]))


@measured
def longest_page_s(runs: VariantRuns, scenario: str, variant: str) -> Interval:
    """Longest page time of each run, mean over the runs, s."""
    result = runs.of(scenario)[variant]
    rows = result.rows("pages")
    return stats.mean([rows["time_s"][rows["seed"] == seed].max() for seed in result.seeds])


@measured
def group_loss_ratio(runs: VariantRuns, router: str) -> Interval:
    """CAT-E7: ratio of the loss rate of the ECA sources' data packets to that of the Reno sources'."""
    result = runs.of("catnip-e7")[router]
    return stats.ratio(result.sender_loss("eca"), result.sender_loss("reno"))


@measured
def group_loss_pct(runs: VariantRuns, router: str, group: str) -> Interval:
    """CAT-E7: loss rate of the data packets of the group `eca` or `reno`, percent."""
    return stats.mean(100 * runs.of("catnip-e7")[router].sender_loss(group))


@measured
def group_times_ratio_pct(runs: VariantRuns, router: str) -> Interval:
    """CAT-E7: ratio of the mean page time of the ECA sources to that of the Reno sources, percent."""
    result = runs.of("catnip-e7")[router]
    return stats.ratio(result.overall_mean_s("eca"), result.overall_mean_s("reno")) * 100


@measured
def hosts_gain_pct(runs: VariantRuns, variant: str, base: str, groups: Sequence[str]) -> Interval:
    """CAT-E19: reduction of the mean page time of some hosts relative to the variant `base`, percent.

    `groups` are the traffic groups of the hosts. A user loads each page once, so that all count alike.
    """
    ours, theirs = (_mean_of(runs.of("catnip-e19")[name], groups) for name in (variant, base))
    return stats.reduction_pct(ours, theirs)


@measured
def connections_per_user(runs: VariantRuns, variant: str) -> str:
    """CAT-E12: mean number of connections of a user's session."""
    result = runs.of("catnip-e12")[variant]
    return f"{len(result.rows('connections')['bytes']) / (USERS * len(result.seeds)):g}"


@measured
def bytes_per_user(runs: VariantRuns, variant: str) -> str:
    """CAT-E12: mean number of bytes sent over the connections of a user's session."""
    result = runs.of("catnip-e12")[variant]
    return f"{result.rows('connections')['bytes'].sum() / (USERS * len(result.seeds)):.0f}"


@measured
def packets_per_user(runs: VariantRuns, variant: str) -> str:
    """CAT-E12: mean number of data packets of a user's session, without retransmissions."""
    result = runs.of("catnip-e12")[variant]
    rows = result.rows("connections")
    first_sent = rows["sent"] - rows["retransmitted"]
    return f"{first_sent.sum() / (USERS * len(result.seeds)):g}"


@measured
def load_mbps(runs: VariantRuns, variant: str) -> Interval:
    """CAT-E12: data of all sessions of a run divided by the mean session length, Mbit/s."""
    result = runs.of("catnip-e12")[variant]
    bits = result.rows("connections")["bytes"].sum() / len(result.seeds) * 8
    return stats.mean(bits / (60 * session_min(result)) / 1e6)


@measured
def session_length_min(runs: VariantRuns, variant: str) -> Interval:
    """CAT-E12: mean session length of the users, minutes."""
    return stats.mean(session_min(runs.of("catnip-e12")[variant]))


@measured
def packets_sent(runs: VariantRuns, scenario: str, variant: str) -> Interval:
    """Number of data packets sent per run."""
    return stats.mean(runs.of(scenario)[variant].rows("runs")["packets_sent"])


def _mean_of(result: Result, groups: Sequence[str]) -> np.ndarray:
    """Returns the mean page time of some traffic groups in each run, s."""
    pages = [result.rows("pages", group) for group in groups]
    seed, time_s = (np.concatenate([rows[name] for rows in pages]) for name in ("seed", "time_s"))
    return np.array([time_s[seed == one].mean() for one in result.seeds])


def _gains(
    runs: VariantRuns, scenario: str, variant: str, base: str, column: str, pages: Sequence[int] = ()
) -> list[Interval]:
    """Returns the reduction of each page's time, percent, with intervals that hold all at once."""
    ours, theirs = (_of_pages(runs, scenario, name, column, pages) for name in (variant, base))
    each = stats.family(len(ours.T))
    return [stats.reduction_pct(one, other, each) for one, other in zip(ours.T, theirs.T, strict=True)]


def _of_pages(
    runs: VariantRuns, scenario: str, variant: str, column: str, pages: Sequence[int] = ()
) -> np.ndarray:
    """Returns mean time or standard deviation of some pages (columns; all if empty) in each run (rows), s."""
    result = runs.of(scenario)[variant]
    times = result.page_means() if column == "mean" else result.page_deviations
    return times[:, [page - 1 for page in pages] or slice(None)]

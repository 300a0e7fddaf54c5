//! Summary of runs: results of the transfers of each traffic group, and results of the links.

#[cfg(test)]
mod coverage;
mod interval;
mod survival;

pub use interval::{Interval, paired_difference, relative_change, t_quantile};
pub use survival::{Estimate, Times};

use crate::results::column::Column;
use crate::results::rows::{TableName, Unit};
use crate::results::table::Table;
use interval::{NORMAL_95, mean, mean_of_known};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

/// Tables and columns that a summary is computed from.
pub const TABLES: [(TableName, &[&str]); 4] = [
    (TableName::RUNS, &["variant", "seed", "hops"]),
    (
        TableName::GROUPS,
        &[
            "variant",
            "seed",
            "group",
            "kind",
            "started",
            "finished",
            "connections",
            "goodput_mbps",
            "sent",
            "retransmitted",
            "timeouts",
            "rtt_mean_s",
            "fairness",
        ],
    ),
    (TableName::TRANSFERS, &["variant", "seed", "group", "number", "time_s", "waited_s"]),
    (
        TableName::PORTS,
        &[
            "variant",
            "seed",
            "port",
            "arrived_high",
            "arrived_med",
            "arrived_low",
            "dropped_high",
            "dropped_med",
            "dropped_low",
            "utilization",
            "queue_mean_packets",
            "queue_delay_mean_s",
        ],
    ),
];

/// Quantiles of the transfer time, with their names. A quantile is estimated only if there are enough transfers to expect at least one
/// above the quantile.
pub const QUANTILES: [(&str, f64); 3] = [("median_s", 0.5), ("p95_s", 0.95), ("p99_s", 0.99)];

/// Maximum number of points of a survival curve.
const POINTS: usize = 400;

/// Values with the names of what they belong to, in order.
type Named<T> = Vec<(Arc<str>, T)>;
/// Values with the names of their measures, in order.
type Measured<T> = Vec<(&'static str, T)>;

/// Summary of one variant over its seeds.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Traffic groups with at least one transfer or connection.
    pub groups: Named<GroupSummary>,
    /// Means over the seeds for each port, that is, for each link and direction.
    pub links: Named<Measured<Interval>>,
    /// Packet-hops: packets times the links that they have crossed.
    pub hops: u64,
}

/// Transfers of a traffic group over all seeds: pages, keystrokes or connections.
#[derive(Clone, Debug)]
pub struct GroupSummary {
    /// Kind of the transfers: `pages`, `keystrokes`, `transfers` or `flows`.
    pub kind: Arc<str>,
    /// Number of transfers started.
    pub started: u64,
    /// Number of transfers that finished before the end of the run.
    pub finished: u64,
    /// Means over the seeds, by measure: time of finished transfers, quantiles of the transfer time that can be estimated, and rates.
    pub means: Measured<Interval>,
    /// Restricted mean transfer time, seconds: the mean over all transfers of the transfer time or `horizon_s`, whichever is less. The
    /// estimate is based on the Kaplan-Meier survival curve and includes unfinished transfers. `None` if all transfers have finished in all
    /// variants, or if the group has no transfers.
    pub restricted_s: Option<Interval>,
    /// Horizon of `restricted_s`, seconds; NaN if all transfers have finished in all variants.
    pub horizon_s: f64,
    /// Survival curve for plots: times in ascending order, and the share of transfers that take longer than each time.
    pub curve: (Vec<f64>, Vec<f64>),
    /// Lower and upper ends of the intervals of the curve at its points; NaN for a single run.
    pub band: (Vec<f64>, Vec<f64>),
    /// Values of each measure, one for each seed or block of seeds, for differences between variants. The mean of the values estimates the
    /// measure. NaN means a seed without a value.
    pub values: Measured<Vec<f64>>,
}

/// Rows of a table that belong to one variant.
#[derive(Clone, Debug)]
pub struct Rows<'a> {
    table: Cow<'a, Table>,
    rows: Range<usize>,
}

impl<'a> Rows<'a> {
    /// Returns all rows of a table.
    pub fn all(table: Table) -> Self {
        let rows = 0..table.rows();
        Self { table: Cow::Owned(table), rows }
    }

    /// Returns the rows of a variant from a table in the order of variants.
    pub fn of_variant(table: &'a Table, variant: usize) -> Self {
        let variants = table.integers("variant");
        let first = variants.partition_point(|&of| of < variant as u64);
        let end = variants.partition_point(|&of| of <= variant as u64);
        Self { table: Cow::Borrowed(table), rows: first..end }
    }

    fn floats(&self, name: &str) -> &[f64] {
        &self.table.floats(name)[self.rows.clone()]
    }

    fn integers(&self, name: &str) -> &[u64] {
        &self.table.integers(name)[self.rows.clone()]
    }

    /// Returns each name in the text column `column`, with the indices of its rows, in the order of the first rows.
    fn by_name(&self, column: &str) -> Named<Vec<usize>> {
        let Column::Text(texts) = self.table.column(column) else { unreachable!("{column} holds names") };
        let mut rows_by_name: Named<Vec<usize>> = Vec::new();
        let mut indices: BTreeMap<&str, usize> = BTreeMap::new();
        for row in self.rows.clone() {
            let name = &texts[row];
            let index = *indices.entry(name).or_insert_with(|| {
                rows_by_name.push((name.into(), Vec::new()));
                rows_by_name.len() - 1
            });
            rows_by_name[index].1.push(row - self.rows.start);
        }
        rows_by_name
    }

    fn text(&self, column: &str, row: usize) -> &str {
        let Column::Text(texts) = self.table.column(column) else { unreachable!("{column} holds names") };
        &texts[self.rows.start + row]
    }
}

/// Summarizes each variant. The rows of the tables must be in the order of variants, and `seeds` in ascending order.
pub fn summarize_tables(tables: &BTreeMap<TableName, Table>, variants: usize, seeds: &[u64]) -> Vec<Summary> {
    let read = |name, variant| Ok::<_, Infallible>(Rows::of_variant(&tables[&name], variant));
    let Ok(summaries) = summarize(read, &vec![seeds; variants]);
    summaries
}

/// Summarizes each variant. `seeds` has the seeds of each, in ascending order. `read` returns the rows of a table that belong to the variant
/// with a given index. Only the rows of one variant are in memory at a time.
pub fn summarize<'a, E>(
    mut read: impl FnMut(TableName, usize) -> Result<Rows<'a>, E>,
    seeds: &[&[u64]],
) -> Result<Vec<Summary>, E> {
    let horizons_s = horizons_s(&mut read, seeds)?;
    seeds
        .iter()
        .enumerate()
        .map(|(variant, seeds)| {
            let (groups, transfers) =
                (read(TableName::GROUPS, variant)?, read(TableName::TRANSFERS, variant)?);
            let groups = of_groups(&groups, &transfers, seeds, &horizons_s);
            drop(transfers);
            let links = of_links(&read(TableName::PORTS, variant)?, seeds);
            let hops = read(TableName::RUNS, variant)?.integers("hops").iter().sum();
            Ok(Summary { groups, links, hops })
        })
        .collect()
}

/// Returns the horizon of each group that has unfinished transfers in a variant: the time up to which the survival curves of all variants
/// are known, or the longest time of any transfer if all curves are known completely.
fn horizons_s<'a, E>(
    read: &mut impl FnMut(TableName, usize) -> Result<Rows<'a>, E>,
    seeds: &[&[u64]],
) -> Result<BTreeMap<Arc<str>, f64>, E> {
    let mut censored: BTreeSet<Arc<str>> = BTreeSet::new();
    for variant in 0..seeds.len() {
        let groups = read(TableName::GROUPS, variant)?;
        let (started, finished) = (groups.integers("started"), groups.integers("finished"));
        let is_censored = |rows: &Vec<usize>| rows.iter().any(|&row| finished[row] < started[row]);
        censored.extend(
            groups.by_name("group").into_iter().filter(|(_, rows)| is_censored(rows)).map(|(name, _)| name),
        );
    }
    let mut until_s: BTreeMap<Arc<str>, (f64, f64)> =
        censored.into_iter().map(|name| (name, (f64::INFINITY, 0.0))).collect();
    let censored = if until_s.is_empty() { &[] } else { seeds };
    for (variant, seeds) in censored.iter().enumerate() {
        let transfers = read(TableName::TRANSFERS, variant)?;
        for (name, rows) in transfers.by_name("group") {
            if let Some((known_s, longest_s)) = until_s.get_mut(&name) {
                let times = times(&transfers, &rows, seeds);
                *known_s = known_s.min(times.known_until_s());
                *longest_s = longest_s.max(times.longest_s());
            }
        }
    }
    let horizon_s = |(known_s, longest_s): (f64, f64)| if known_s.is_finite() { known_s } else { longest_s };
    Ok(until_s.into_iter().map(|(name, until)| (name, horizon_s(until))).collect())
}

fn of_groups(
    groups: &Rows<'_>,
    transfers: &Rows<'_>,
    seeds: &[u64],
    horizons_s: &BTreeMap<Arc<str>, f64>,
) -> Named<GroupSummary> {
    let waits: BTreeMap<Arc<str>, Vec<usize>> = transfers.by_name("group").into_iter().collect();
    let is_active = |rows: &[usize]| {
        ["started", "connections"]
            .iter()
            .any(|&column| rows.iter().any(|&row| groups.integers(column)[row] > 0))
    };
    let of = |(name, rows): (Arc<str>, Vec<usize>)| {
        let waits = waits.get(&name).map_or(&[][..], Vec::as_slice);
        let horizon_s = horizons_s.get(&name).copied().unwrap_or(f64::NAN);
        let summary = of_group(groups, &rows, transfers, waits, seeds, horizon_s);
        (name, summary)
    };
    groups.by_name("group").into_iter().filter(|(_, rows)| is_active(rows)).map(of).collect()
}

fn of_group(
    groups: &Rows<'_>,
    rows: &[usize],
    transfers: &Rows<'_>,
    waits: &[usize],
    seeds: &[u64],
    horizon_s: f64,
) -> GroupSummary {
    let kind: Arc<str> = groups.text("kind", rows[0]).into();
    let total = |column: &str| rows.iter().map(|&row| groups.integers(column)[row]).sum::<u64>();
    let mut values = rates(groups, rows, seeds);
    let mut times_spread = None;
    let over: Vec<usize> =
        waits.iter().copied().filter(|&row| !transfers.floats("time_s")[row].is_nan()).collect();
    if !over.is_empty() {
        let unit = Unit::named(&kind).unwrap_or(Unit::TRANSFER);
        let means = if unit.by_number { page_means } else { seed_means };
        values.push((unit.measure, means(transfers, &over, seeds)));
        times_spread = Some((unit.measure, Spread::of(transfers, &over, unit.by_number)));
    }
    let mut means: Measured<Interval> = values
        .iter()
        .filter_map(|(measure, values)| Some((*measure, mean_of_known(values.iter().copied())?)))
        .collect();
    for (measure, mean) in &mut means {
        if *measure == "fairness" {
            *mean = mean_of_indices(*mean);
        }
        if let Some((_, spread)) = times_spread.as_ref().filter(|(times, _)| times == measure) {
            *mean = spread.bounded(*mean);
        }
    }
    let times = times(transfers, waits, seeds);
    for (measure, share) in QUANTILES {
        let enough = times.len() as f64 * (1.0 - share) >= 1.0 - 1e-9;
        if let Some(estimate) = times.quantile(share).filter(|_| enough) {
            means.push((measure, estimate.interval));
            values.push((measure, estimate.values));
        }
    }
    let restricted = (!horizon_s.is_nan() && times.len() > 0).then(|| times.restricted_mean(horizon_s));
    let restricted_s = restricted.map(|estimate| {
        values.push(("restricted_s", estimate.values));
        estimate.interval
    });
    let (started, finished) = (total("started"), total("finished"));
    let curve = times.curve(POINTS);
    let band = times.band(&curve.0);
    GroupSummary { kind, started, finished, means, restricted_s, horizon_s, curve, band, values }
}

/// Spread of the times of single transfers, which tells whether seeds agree by chance, and whether their mean has an interval at all.
struct Spread {
    count: f64,
    deviation: f64,
    skewness: f64,
}

impl Spread {
    /// Least number of transfers for an interval of their mean. Rare long times, such as 3 % of timeouts, are missing from fewer.
    const MIN_COUNT: f64 = 100.0;
    /// Greatest skewness of the mean of that many independent transfers with which the interval still holds.
    const MAX_SKEWNESS: f64 = 0.3;
    /// Half of the narrowest interval, in standard errors of the mean of independent transfers. Two or three seeds may have equal means
    /// by chance.
    const FLOOR: f64 = 0.95;

    /// Returns the spread of the times in these rows around their mean or, by number, around the mean of the page of the same number.
    fn of(transfers: &Rows<'_>, over: &[usize], by_number: bool) -> Self {
        let (time_s, number) = (transfers.floats("time_s"), transfers.integers("number"));
        Self::of_times(over.iter().map(|&row| (if by_number { number[row] } else { 0 }, time_s[row])))
    }

    /// Returns the spread of times around the mean of those of the same kind.
    fn of_times(times: impl Iterator<Item = (u64, f64)> + Clone) -> Self {
        let mut sums: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
        for (kind, time) in times.clone() {
            let (sum, count) = sums.entry(kind).or_default();
            *sum += time;
            *count += 1.0;
        }
        let (mut count, mut squares, mut cubes) = (0.0, 0.0, 0.0);
        for (kind, time) in times {
            let (sum, of_kind) = sums[&kind];
            let deviation = time - sum / of_kind;
            count += 1.0;
            squares += deviation.powi(2);
            cubes += deviation.powi(3);
        }
        let deviation = (squares / count).sqrt();
        let skewness = if deviation > 0.0 { cubes / count / deviation.powi(3) } else { 0.0 };
        Self { count, deviation, skewness }
    }

    /// Returns the mean with an interval that is not too narrow, or without one if there are too few transfers for it, or too skewed ones.
    fn bounded(&self, mean: Interval) -> Interval {
        let is_known =
            self.count >= Self::MIN_COUNT && self.skewness.abs() <= Self::MAX_SKEWNESS * self.count.sqrt();
        if !is_known {
            return Interval { low: f64::NAN, high: f64::NAN, ..mean };
        }
        let least = Self::FLOOR * self.deviation / self.count.sqrt();
        Interval { low: mean.low.min(mean.mean - least), high: mean.high.max(mean.mean + least), ..mean }
    }
}

/// Returns the mean of Jain's indices with its interval, which it has from ten seeds on. An index that depends on whether one user has
/// much more or less than the others is the same in a few seeds by chance.
fn mean_of_indices(mean: Interval) -> Interval {
    if mean.n < 10 { Interval { low: f64::NAN, high: f64::NAN, ..mean } } else { mean }
}

/// Returns the mean over the seeds of the share of `parts` in `totals`, counts by seed, percent. A seed without counts has a share of 0.
///
/// The interval is no narrower than that of as many independent events, because two or three seeds may have equal shares by chance.
fn percentage(parts: &[f64], totals: &[f64]) -> Interval {
    let share = |(&part, &of): (&f64, &f64)| if of > 0.0 { 100.0 * (part / of) } else { 0.0 };
    let interval = mean(parts.iter().zip(totals).map(share));
    let (part, total) = (parts.iter().sum::<f64>(), totals.iter().sum::<f64>());
    // Laplace's estimate, which is not 0 if nothing was counted.
    let likely = (part + 1.0) / (total + 2.0);
    let least = NORMAL_95 * 100.0 * (likely * (1.0 - likely) / total.max(1.0)).sqrt();
    let (low, high) = (interval.low.min(interval.mean - least), interval.high.max(interval.mean + least));
    if interval.low.is_nan() || total == 0.0 { interval } else { Interval { low, high, ..interval } }
}

fn times(transfers: &Rows<'_>, rows: &[usize], seeds: &[u64]) -> Times {
    let (waited_s, time_s) = (transfers.floats("waited_s"), transfers.floats("time_s"));
    let seed = transfers.integers("seed");
    let of = |&row: &usize| (waited_s[row], !time_s[row].is_nan(), run(seeds, seed[row]));
    Times::new(rows.iter().map(of), seeds.len())
}

/// Returns the index of `seed` in `seeds`, which are in ascending order.
fn run(seeds: &[u64], seed: u64) -> usize {
    seeds.partition_point(|&other| other < seed)
}

/// Returns goodput, round-trip time, fairness, retransmissions and timeouts of a group by seed, over all of its connections, finished or
/// not.
fn rates(groups: &Rows<'_>, rows: &[usize], seeds: &[u64]) -> Measured<Vec<f64>> {
    let by_seed = |of: &dyn Fn(usize) -> f64| {
        let mut rates = vec![f64::NAN; seeds.len()];
        rows.iter().for_each(|&row| rates[run(seeds, groups.integers("seed")[row])] = of(row));
        rates
    };
    // NaN if both counts are 0.
    let share = |part: &str, of: &str, row: usize| {
        groups.integers(part)[row] as f64 / groups.integers(of)[row] as f64
    };
    let mut rates = vec![
        ("goodput_mbps", by_seed(&|row| groups.floats("goodput_mbps")[row])),
        ("rtt_ms", by_seed(&|row| 1e3 * groups.floats("rtt_mean_s")[row])),
        ("fairness", by_seed(&|row| groups.floats("fairness")[row])),
        ("retransmitted_pct", by_seed(&|row| 100.0 * share("retransmitted", "sent", row))),
        ("timeouts", by_seed(&|row| share("timeouts", "connections", row))),
    ];
    rates.retain(|(_, values)| values.iter().any(|value| !value.is_nan()));
    rates
}

fn seed_means(transfers: &Rows<'_>, over: &[usize], seeds: &[u64]) -> Vec<f64> {
    let (time_s, seed) = (transfers.floats("time_s"), transfers.integers("seed"));
    means_by(over.iter().map(|&row| (run(seeds, seed[row]), time_s[row])), seeds.len())
}

/// Returns the mean page time by seed. If all seeds with results have completed the same pages, each page has the same weight, as in the
/// averages of the papers; otherwise each fetch of a page has the same weight.
fn page_means(transfers: &Rows<'_>, over: &[usize], seeds: &[u64]) -> Vec<f64> {
    let (time_s, seed) = (transfers.floats("time_s"), transfers.integers("seed"));
    let number = transfers.integers("number");
    let pages: Vec<u64> = over.iter().map(|&row| number[row]).collect::<BTreeSet<_>>().into_iter().collect();
    let cell =
        |row: usize| run(seeds, seed[row]) * pages.len() + pages.partition_point(|&page| page < number[row]);
    let each = means_by(over.iter().map(|&row| (cell(row), time_s[row])), seeds.len() * pages.len());
    // A run that has completed no page at all has no mean.
    let is_complete_or_empty = |pages: &[f64]| {
        let missing = pages.iter().filter(|mean| mean.is_nan()).count();
        missing == 0 || missing == pages.len()
    };
    if each.chunks(pages.len()).all(is_complete_or_empty) {
        return each
            .chunks(pages.len())
            .map(|pages| pages.iter().sum::<f64>() / pages.len() as f64)
            .collect();
    }
    seed_means(transfers, over, seeds)
}

/// Returns the mean of the values in each cell; NaN for a cell without values. Each value comes with the index of its cell.
fn means_by(values: impl Iterator<Item = (usize, f64)>, cells: usize) -> Vec<f64> {
    let mut sums = vec![(0.0, 0u64); cells];
    for (cell, value) in values {
        sums[cell].0 += value;
        sums[cell].1 += 1;
    }
    sums.into_iter().map(|(sum, count)| sum / count as f64).collect()
}

fn of_links(ports: &Rows<'_>, seeds: &[u64]) -> Named<Measured<Interval>> {
    let seed = ports.integers("seed");
    let of = |rows: &[usize]| {
        let by_seed = |of: &dyn Fn(usize) -> f64| {
            let mut sums = vec![0.0; seeds.len()];
            rows.iter().for_each(|&row| sums[run(seeds, seed[row])] += of(row));
            sums
        };
        let packets = |column: &[&str]| {
            by_seed(&|row| column.iter().map(|&column| ports.integers(column)[row]).sum::<u64>() as f64)
        };
        // A percentage of zero packets is 0.
        let percent = |part: &[&str], of: &[&str]| percentage(&packets(part), &packets(of));
        let measured = |name: &str, scale: f64| {
            mean(by_seed(&|row| ports.floats(name)[row]).into_iter().map(|value| scale * value))
        };
        let arrived = ["arrived_high", "arrived_med", "arrived_low"];
        let mut measures = vec![
            ("utilization_pct", measured("utilization", 100.0)),
            ("queue_packets", measured("queue_mean_packets", 1.0)),
            ("queue_delay_ms", measured("queue_delay_mean_s", 1e3)),
            ("loss_pct", percent(&["dropped_high", "dropped_med", "dropped_low"], &arrived)),
        ];
        let high_share = percent(&["arrived_high"], &arrived);
        if high_share.mean > 0.0 {
            measures.push(("high_share_pct", high_share));
            measures.push(("high_loss_pct", percent(&["dropped_high"], &["arrived_high"])));
            measures.push(("low_loss_pct", percent(&["dropped_low"], &["arrived_low"])));
        }
        measures
    };
    ports.by_name("port").into_iter().map(|(name, rows)| (name, of(&rows))).collect()
}

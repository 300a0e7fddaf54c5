//! Quantiles and means of durations, some of which are censored by the end of the run.
//!
//! The survival curve is the estimate of Kaplan and Meier (JASA 53, 1958). The variability of an estimate is determined by leaving out
//! blocks of seeds in turn (Tukey's jackknife), because runs with different seeds are independent of each other, while the transfers of one
//! run are not.

use super::interval::{Interval, NORMAL_95, around, half_width};
use catnip_base::math;
use std::collections::BTreeSet;

/// Maximum number of blocks of seeds.
const BLOCKS: usize = 50;
/// Tolerance for rounding errors of shares, which would otherwise move a quantile by a whole step of the survival curve.
const ROUNDING: f64 = 1e-12;

/// Estimate of a quantity with its interval, and a value for each block of seeds, for differences between variants.
#[derive(Clone, Debug)]
pub struct Estimate {
    /// Estimate and its confidence interval.
    pub interval: Interval,
    /// Jackknife value of each block of seeds. The mean of these values estimates the same quantity.
    pub values: Vec<f64>,
}

/// Durations of the transfers of a group: complete durations of finished transfers, and censored durations of unfinished transfers.
#[derive(Clone, Debug)]
pub struct Times {
    /// Durations in ascending order; of equal durations, complete ones come first.
    waits: Vec<Wait>,
    blocks: usize,
    /// Estimated share of transfers that take longer than each duration.
    lasting: Vec<f64>,
}

#[derive(Clone, Copy, Debug)]
struct Wait {
    waited_s: f64,
    is_over: bool,
    block: usize,
}

impl Times {
    /// Creates the set of durations from `waits`: for each transfer the duration in seconds, true if the transfer has finished, and the
    /// index of its run. `runs` is the number of runs. The assignment of runs to blocks does not depend on the durations.
    pub fn new(waits: impl IntoIterator<Item = (f64, bool, usize)>, runs: usize) -> Self {
        let blocks = runs.min(BLOCKS);
        let mut waits: Vec<Wait> = waits
            .into_iter()
            .map(|(waited_s, is_over, run)| Wait { waited_s, is_over, block: run * blocks / runs })
            .collect();
        waits.sort_by(|a, b| a.waited_s.total_cmp(&b.waited_s).then(b.is_over.cmp(&a.is_over)));
        let lasting = curve(waits.iter(), waits.len()).map(|(_, lasting)| lasting).collect();
        Self { waits, blocks, lasting }
    }

    /// Returns the number of durations.
    #[expect(clippy::len_without_is_empty, reason = "a collection of nothing is no special case")]
    pub fn len(&self) -> usize {
        self.waits.len()
    }

    /// Returns the longest duration; 0 if there are no durations.
    pub fn longest_s(&self) -> f64 {
        self.waits.last().map_or(0.0, |last| last.waited_s)
    }

    /// Returns the time up to which the survival curve is known: the longest duration if it is censored, otherwise infinity.
    pub fn known_until_s(&self) -> f64 {
        // Of equal durations, censored ones come last.
        self.waits.last().filter(|last| !last.is_over).map_or(f64::INFINITY, |last| last.waited_s)
    }

    /// Returns the mean, over all transfers, of the duration or `horizon_s`, whichever is less.
    pub fn restricted_mean(&self, horizon_s: f64) -> Estimate {
        self.varied(Statistic::RestrictedMean { horizon_s })
    }

    /// Returns the least time within which the share `share` of the transfers has finished; `None` if too few transfers have finished.
    ///
    /// The interval is Woodruff's (JASA 47, 1952): the confidence interval of the share of transfers that have finished by the returned
    /// time is centered at `share`, and its ends are converted to times by the survival curve. It is no narrower than that of as many
    /// independent transfers, because two or three runs may have equal shares by chance.
    pub fn quantile(&self, share: f64) -> Option<Estimate> {
        let at_s = self.reached(share)?;
        if self.blocks == 1 {
            let interval = Interval { mean: at_s, low: f64::NAN, high: f64::NAN, n: 1 };
            return Some(Estimate { interval, values: vec![at_s] });
        }
        let shares = self.varied(Statistic::ShareBy { at_s }).values;
        let half = half_width(&shares).max(self.half_of_independent(share));
        let (low, high) = (self.reached(share - half), self.reached(share + half));
        // Inverse slope of the curve, which converts differences of shares to differences of times.
        let low_s = low.unwrap_or(f64::INFINITY);
        let rise_s = high.map_or(at_s - low_s, |high_s| (high_s - low_s) / 2.0);
        let slope_s = if half > 0.0 { rise_s / half } else { 0.0 };
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        let interval =
            Interval { mean: at_s, low: low_s, high: high.unwrap_or(f64::INFINITY), n: self.blocks };
        let values = shares.iter().map(|share| at_s - slope_s * (share - mean)).collect();
        Some(Estimate { interval, values })
    }

    /// Returns at most `max_points` points of the survival curve: times at which transfers end, and the share of transfers that take
    /// longer than each time.
    ///
    /// The points are denser at long times, where few transfers are left, since upper quantiles are read there.
    pub fn curve(&self, max_points: usize) -> (Vec<f64>, Vec<f64>) {
        let over = self.waits.iter().zip(&self.lasting).filter(|(wait, _)| wait.is_over);
        let points: Vec<(f64, f64)> = over.map(|(wait, &lasting)| (wait.waited_s, lasting)).collect();
        let count = points.len();
        if count <= max_points {
            return points.into_iter().unzip();
        }
        // The ranks of the chosen points, counted from the last one, grow by a constant factor.
        let factor = math::ln(count as f64) / (max_points - 1) as f64;
        let rank = |step: usize| count - math::exp(factor * step as f64).round_ties_even() as usize;
        let chosen: BTreeSet<usize> = (0..max_points).map(rank).collect();
        chosen.into_iter().map(|rank| points[rank]).unzip()
    }

    /// Returns the lower and the upper ends of the intervals of the survival curve at these times, which must ascend: pointwise, no narrower
    /// than those of as many independent transfers, and within 0 and 1. They are NaN for a single run.
    pub fn band(&self, at_s: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let full = lasting_at(self.waits.iter(), self.waits.len(), at_s);
        if self.blocks == 1 {
            return (vec![f64::NAN; at_s.len()], vec![f64::NAN; at_s.len()]);
        }
        let mut of_block = vec![0; self.blocks];
        self.waits.iter().for_each(|wait| of_block[wait.block] += 1);
        let blocks = self.blocks as f64;
        let without: Vec<Vec<f64>> = (0..self.blocks)
            .map(|block| {
                let others = self.waits.iter().filter(|wait| wait.block != block);
                lasting_at(others, self.waits.len() - of_block[block], at_s)
            })
            .collect();
        let ends = full.iter().enumerate().map(|(point, &share)| {
            let values: Vec<f64> =
                without.iter().map(|shares| blocks * share - (blocks - 1.0) * shares[point]).collect();
            let half = half_width(&values).max(self.half_of_independent(share));
            ((share - half).max(0.0), (share + half).min(1.0))
        });
        ends.unzip()
    }

    /// Returns half of the interval of a share of as many independent transfers: the normal approximation of the binomial distribution.
    fn half_of_independent(&self, share: f64) -> f64 {
        NORMAL_95 * (share * (1.0 - share) / self.waits.len() as f64).sqrt()
    }

    /// Computes an estimate from the survival curve of all durations, and its jackknife values from those of all durations except those of
    /// each block.
    fn varied(&self, statistic: Statistic) -> Estimate {
        let points = self.waits.iter().zip(&self.lasting);
        let full = statistic.of(points.map(|(wait, &lasting)| (wait.waited_s, lasting)));
        if self.blocks == 1 {
            let interval = Interval { mean: full, low: f64::NAN, high: f64::NAN, n: 1 };
            return Estimate { interval, values: vec![full] };
        }
        let mut of_block = vec![0; self.blocks];
        self.waits.iter().for_each(|wait| of_block[wait.block] += 1);
        let blocks = self.blocks as f64;
        let value = |(block, &of_block)| {
            let others = self.waits.iter().filter(move |wait| wait.block != block);
            let without = statistic.of(curve(others, self.waits.len() - of_block));
            blocks * full - (blocks - 1.0) * without
        };
        let values: Vec<f64> = of_block.iter().enumerate().map(value).collect();
        Estimate { interval: around(full, &values), values }
    }

    /// Returns the least time by which the share `share` of the transfers has finished; `None` if the curve does not reach this share.
    fn reached(&self, share: f64) -> Option<f64> {
        let index = if share <= 0.0 {
            0
        } else {
            self.lasting.partition_point(|&lasting| lasting > 1.0 - share + ROUNDING)
        };
        self.waits.get(index).map(|wait| wait.waited_s)
    }
}

/// Statistic of a survival curve.
#[derive(Clone, Copy)]
enum Statistic {
    /// Share of transfers that have finished by a time.
    ShareBy { at_s: f64 },
    /// Area under the curve up to a horizon.
    RestrictedMean { horizon_s: f64 },
}

impl Statistic {
    /// Returns the statistic of a curve with these points.
    fn of(self, curve: impl Iterator<Item = (f64, f64)>) -> f64 {
        match self {
            Self::ShareBy { at_s } => {
                let by_then = curve.take_while(|&(waited_s, _)| waited_s <= at_s);
                1.0 - by_then.last().map_or(1.0, |(_, lasting)| lasting)
            }
            Self::RestrictedMean { horizon_s } => {
                let (mut area, mut from_s, mut share) = (0.0, 0.0, 1.0);
                for (at_s, lasting) in curve.take_while(|&(waited_s, _)| waited_s < horizon_s) {
                    area += share * (at_s - from_s);
                    (from_s, share) = (at_s, lasting);
                }
                area + share * (horizon_s - from_s)
            }
        }
    }
}

/// Yields each of `count` durations with the estimated share of transfers that take longer (Kaplan and Meier).
fn curve<'a>(
    waits: impl Iterator<Item = &'a Wait> + 'a,
    count: usize,
) -> impl Iterator<Item = (f64, f64)> + 'a {
    let mut share = 1.0;
    waits.enumerate().map(move |(before, wait)| {
        let at_risk = (count - before) as f64;
        share *= if wait.is_over { (at_risk - 1.0) / at_risk } else { 1.0 };
        (wait.waited_s, share)
    })
}

/// Returns the share of transfers that take longer than each of these times, which must ascend.
fn lasting_at<'a>(waits: impl Iterator<Item = &'a Wait> + 'a, count: usize, at_s: &[f64]) -> Vec<f64> {
    let mut curve = curve(waits, count).peekable();
    let mut share = 1.0;
    let mut lasting = |&at_s: &f64| {
        while let Some((_, after)) = curve.next_if(|(waited_s, _)| *waited_s <= at_s) {
            share = after;
        }
        share
    };
    at_s.iter().map(&mut lasting).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_band_is_around_its_curve_and_that_of_the_shares_of_runs() {
        // Run r has the times 1 to 10 and r more of 20: of all 60 transfers, 10 take longer than 15.
        let times = (0..5_usize).flat_map(|run| {
            let short = (1..=10).map(move |time| (f64::from(time), true, run));
            short.chain((0..run).map(move |_| (20.0, true, run)))
        });
        let times = Times::new(times, 5);
        let (at_s, lasting) = times.curve(100);
        let (low, high) = times.band(&at_s);
        // Of equal times, the last has the share of what takes longer than all of them.
        for point in (0..at_s.len()).filter(|&point| at_s.get(point + 1) != Some(&at_s[point])) {
            assert!(low[point] <= lasting[point] && lasting[point] <= high[point], "{}", at_s[point]);
        }
        let (low, high) = times.band(&[15.0]);
        // By hand: without run r, it is 10 - r of 50 - r transfers.
        let values: Vec<f64> =
            (0..5).map(|run| 5.0 * 10.0 / 60.0 - 4.0 * (10 - run) as f64 / (50 - run) as f64).collect();
        let half = half_width(&values);
        assert!(
            (low[0] - (10.0 / 60.0 - half)).abs() < 1e-12 && (high[0] - (10.0 / 60.0 + half)).abs() < 1e-12
        );
        let single = Times::new([(1.0, true, 0), (2.0, true, 0)], 1);
        assert!(single.band(&[1.0]).0[0].is_nan());
    }

    #[test]
    fn the_same_runs_are_in_the_same_blocks_whatever_the_times() {
        for runs in [1, 2, 49, 50, 51, 120, 1000] {
            let blocks_of = |step: usize| {
                let times = Times::new((0..runs).step_by(step).map(|run| (run as f64, true, run)), runs);
                times
                    .waits
                    .iter()
                    .map(|wait| (wait.waited_s as usize, wait.block))
                    .collect::<BTreeMap<_, _>>()
            };
            let (all, some) = (blocks_of(1), blocks_of(3));
            assert!(some.iter().all(|(run, block)| all[run] == *block));
            assert_eq!(all.values().collect::<BTreeSet<_>>().len(), runs.min(BLOCKS));
        }
    }
}

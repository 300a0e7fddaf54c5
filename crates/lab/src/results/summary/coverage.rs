//! Coverage of the intervals: how often they hold the true value, over data sets with known truth.
//!
//! A data set has 2 to 30 seeds with 20 transfers each. Each distribution is one that results have: symmetric and skewed times, sizes by a
//! truncated Pareto law, rare timeouts, times that are often equal, and times of which a fifth is cut off.

use super::interval::mean_of_known;
use super::survival::Times;
use super::{Interval, Spread, mean_of_indices, paired_difference, percentage};
use catnip_base::{Rng, Stream, math};
use std::thread;

const SEEDS: [usize; 5] = [2, 3, 5, 10, 30];
const TRANSFERS: usize = 20;
/// Number of data sets with this many seeds. Those with many seeds, which take longest to draw, are farthest from the bounds.
const fn data_sets(seeds: usize) -> usize {
    if seeds < 10 { 10_000 } else { 2_000 }
}

/// Number of draws that determine the true values.
const MANY: usize = 1_000_000;
/// Bounds of the share of intervals that hold the true value, and the upper bound for a statistic that varies continuously.
const AT_LEAST: f64 = 0.93;
const AT_MOST: f64 = 0.97;

type Draw = fn(&mut Rng) -> f64;

const DISTRIBUTIONS: [(&str, Draw); 5] = [
    ("normal", |rng| 10.0 + rng.normal()),
    ("lognormal", |rng| math::exp(rng.normal())),
    ("Pareto 1.2 up to 1000", |rng| {
        math::pow(1.0 - rng.uniform() * (1.0 - math::pow(1000.0, -1.2)), -1.0 / 1.2)
    }),
    ("timeouts", |rng| 0.3 + 0.05 * rng.normal() + if rng.uniform() < 0.03 { 6.0 } else { 0.0 }),
    ("ties", |rng| match rng.uniform() {
        share if share < 0.45 => 1.0,
        share if share < 0.75 => 1.5,
        share if share < 0.92 => 2.0,
        _ => 3.0,
    }),
];

fn rng(seed: u64) -> Rng {
    Rng::new(seed, Stream::Jitter(0))
}

/// Numbers of data sets: of all, and of those whose interval holds the truth, that have one, and whose interval does not hold it.
struct Coverage {
    of: usize,
    held: usize,
    printed: usize,
    missed: usize,
}

impl Coverage {
    fn with(seeds: usize) -> Self {
        Self { of: data_sets(seeds), held: 0, printed: 0, missed: 0 }
    }

    fn count(&mut self, interval: Interval, truth: f64) {
        let Interval { low, high, .. } = interval;
        if low.is_nan() || high.is_nan() {
            return;
        }
        self.printed += 1;
        let slack = 1e-9 * truth.abs();
        if low - slack <= truth && truth <= high + slack { self.held += 1 } else { self.missed += 1 }
    }

    fn check(&self, what: &str, is_continuous: bool) {
        let missed = self.missed as f64 / self.of as f64;
        assert!(1.0 - missed >= AT_LEAST, "{what}: printed, and wrong, in {:.1} % of cases", 100.0 * missed);
        if is_continuous && self.printed == self.of {
            let held = self.held as f64 / self.printed as f64;
            assert!(held <= AT_MOST, "{what}: holds in {:.1} %, so it is too wide", 100.0 * held);
        }
    }
}

/// Calls `check` for each distribution and number of seeds, with the truth about the distribution, on two threads.
fn each<T: Sync>(truth: impl Fn(Draw) -> T + Sync, check: impl Fn(&str, Draw, usize, &T) + Sync) {
    thread::scope(|scope| {
        for half in 0..2 {
            let (truth, check) = (&truth, &check);
            scope.spawn(move || {
                for (name, draw) in DISTRIBUTIONS.into_iter().skip(half).step_by(2) {
                    let truth = truth(draw);
                    for seeds in SEEDS {
                        check(&format!("{name}, {seeds} seeds"), draw, seeds, &truth);
                    }
                }
            });
        }
    });
}

fn drawn(rng: &mut Rng, draw: Draw, seeds: usize) -> Vec<f64> {
    (0..seeds * TRANSFERS).map(|_| draw(rng)).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn by_seed(times: &[f64]) -> Vec<f64> {
    times.chunks(TRANSFERS).map(mean).collect()
}

/// Returns the sorted times of many transfers.
fn many(draw: Draw) -> Vec<f64> {
    let mut rng = rng(1);
    let mut times: Vec<f64> = (0..MANY).map(|_| draw(&mut rng)).collect();
    times.sort_by(f64::total_cmp);
    times
}

fn mean_interval(times: &[f64]) -> Interval {
    Spread::of_times(times.iter().map(|&time| (0, time))).bounded(mean_of_known(by_seed(times)).unwrap())
}

#[test]
fn a_mean_of_times_is_in_its_interval() {
    each(
        |draw| mean(&many(draw)),
        |name, draw, seeds, &truth| {
            let (mut rng, mut coverage) = (rng(2), Coverage::with(seeds));
            for _ in 0..data_sets(seeds) {
                coverage.count(mean_interval(&drawn(&mut rng, draw, seeds)), truth);
            }
            coverage.check(&format!("mean, {name}"), true);
        },
    );
}

#[test]
fn a_paired_difference_of_times_is_in_its_interval() {
    each(
        |_| (),
        |name, draw, seeds, ()| {
            let (mut rng, mut coverage) = (rng(3), Coverage::with(seeds));
            for _ in 0..data_sets(seeds) {
                let [one, other] = [(); 2].map(|()| drawn(&mut rng, draw, seeds));
                let known = [&one, &other].iter().all(|times| !mean_interval(times).low.is_nan());
                if known {
                    coverage.count(paired_difference(&by_seed(&one), &by_seed(&other)).unwrap(), 0.0);
                }
            }
            coverage.check(&format!("difference, {name}"), true);
        },
    );
}

#[test]
fn quantiles_are_in_their_intervals() {
    let shares = [0.5, 0.95];
    let truth = |draw: Draw| {
        let all = many(draw);
        shares.map(|share| all[(share * MANY as f64) as usize])
    };
    each(truth, |name, draw, seeds, truths| {
        for (share, &truth) in shares.into_iter().zip(truths) {
            let (mut rng, mut coverage) = (rng(4), Coverage::with(seeds));
            for _ in 0..data_sets(seeds) {
                let times = drawn(&mut rng, draw, seeds);
                let waits = times.iter().enumerate().map(|(at, &time)| (time, true, at / TRANSFERS));
                coverage.count(Times::new(waits, seeds).quantile(share).unwrap().interval, truth);
            }
            coverage.check(&format!("{share} quantile, {name}"), false);
        }
    });
}

#[test]
fn a_restricted_mean_is_in_its_interval_though_a_fifth_is_cut_off() {
    let truth = |draw: Draw| {
        let all = many(draw);
        let horizon_s = all[(0.9 * MANY as f64) as usize];
        (horizon_s, all.iter().map(|time| time.min(horizon_s)).sum::<f64>() / MANY as f64)
    };
    each(truth, |name, draw, seeds, &(horizon_s, truth)| {
        let (mut rng, mut coverage) = (rng(5), Coverage::with(seeds));
        for _ in 0..data_sets(seeds) {
            let waits: Vec<_> = (0..seeds * TRANSFERS)
                .map(|at| {
                    let time = draw(&mut rng);
                    // Two in five are watched only as long as another transfer takes: a half of them not to their end.
                    let until = if rng.uniform() < 0.4 { draw(&mut rng) } else { f64::INFINITY };
                    (time.min(until), time <= until, at / TRANSFERS)
                })
                .collect();
            coverage.count(Times::new(waits, seeds).restricted_mean(horizon_s).interval, truth);
        }
        coverage.check(&format!("restricted mean, {name}"), true);
    });
}

#[test]
fn a_share_of_counts_is_in_its_interval() {
    for share in [0.01, 0.1, 0.5] {
        for seeds in SEEDS {
            let (mut rng, mut coverage) = (rng(6), Coverage::with(seeds));
            for _ in 0..data_sets(seeds) {
                let parts: Vec<f64> =
                    (0..seeds).map(|_| (0..200).filter(|_| rng.chance(share)).count() as f64).collect();
                coverage.count(percentage(&parts, &vec![200.0; seeds]), 100.0 * share);
            }
            coverage.check(&format!("share of {share}, {seeds} seeds"), false);
        }
    }
}

#[test]
fn a_mean_of_jains_indices_is_in_its_interval() {
    let index = |bytes: &[f64]| {
        let squares: f64 = bytes.iter().map(|one| one.powi(2)).sum();
        bytes.iter().sum::<f64>().powi(2) / (bytes.len() as f64 * squares)
    };
    let truth = |draw: Draw| {
        let mut rng = rng(1);
        mean(&(0..MANY / TRANSFERS).map(|_| index(&drawn(&mut rng, draw, 1))).collect::<Vec<_>>())
    };
    each(truth, |name, draw, seeds, &truth| {
        let (mut rng, mut coverage) = (rng(7), Coverage::with(seeds));
        for _ in 0..data_sets(seeds) {
            let indices = (0..seeds).map(|_| index(&drawn(&mut rng, draw, 1)));
            coverage.count(mean_of_indices(mean_of_known(indices).unwrap()), truth);
        }
        coverage.check(&format!("Jain's index, {name}"), false);
    });
}

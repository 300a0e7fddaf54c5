use statrs::distribution::{ContinuousCDF, StudentsT};

/// Of the intervals.
const CONFIDENCE: f64 = 0.95;

/// A mean and its confidence interval of 95 %; the bounds are NaN where one value alone cannot give them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The mean, or another estimate.
    pub mean: f64,
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
    /// How many independent values it has.
    pub n: usize,
}

/// A quantile of Student's t distribution.
pub fn t_quantile(degrees: f64, share: f64) -> f64 {
    StudentsT::new(0.0, 1.0, degrees).map_or(f64::NAN, |distribution| distribution.inverse_cdf(share))
}

/// The mean of left - right, seed by seed, where both are known; what both sides share cancels out. `None` if they cannot be paired.
pub fn paired_difference(left: &[f64], right: &[f64]) -> Option<Interval> {
    (left.len() == right.len()).then(|| mean_of_known(left.iter().zip(right).map(|(a, b)| a - b)))?
}

/// The mean of the values that are numbers; `None` if none is.
pub(super) fn mean_of_known(values: impl IntoIterator<Item = f64>) -> Option<Interval> {
    let known: Vec<f64> = values.into_iter().filter(|value| !value.is_nan()).collect();
    (!known.is_empty()).then(|| mean(known))
}

/// The mean of independent values, one per seed, with its t-interval.
pub(super) fn mean(values: impl IntoIterator<Item = f64>) -> Interval {
    let values: Vec<f64> = values.into_iter().collect();
    around(values.iter().sum::<f64>() / values.len() as f64, &values)
}

/// An estimate that varies as the mean of these values does.
pub(super) fn around(estimate: f64, values: &[f64]) -> Interval {
    let half = half_width(values);
    Interval { mean: estimate, low: estimate - half, high: estimate + half, n: values.len() }
}

/// Half of the t-interval of the mean of some values; NaN of one.
pub(super) fn half_width(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    if values.len() < 2 {
        return f64::NAN;
    }
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    t_quantile(n - 1.0, f64::midpoint(1.0, CONFIDENCE)) * (variance / n).sqrt()
}

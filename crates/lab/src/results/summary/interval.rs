use statrs::distribution::{ContinuousCDF, StudentsT};

/// Confidence level of the intervals.
const CONFIDENCE: f64 = 0.95;
/// Quantile 0.95 of the normal distribution: half of the narrowest interval of a share, in standard deviations of as many independent events.
/// With the quantile 0.975, the interval of few seeds would hold in 99 % of cases.
pub(super) const NORMAL_95: f64 = 1.644_853_626_951_472;

/// Mean of independent values, and its 95 % confidence interval. The bounds are NaN for a single value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Mean, or another estimate of a quantity.
    pub mean: f64,
    /// Lower bound of the confidence interval.
    pub low: f64,
    /// Upper bound of the confidence interval.
    pub high: f64,
    /// Number of independent values from which the mean was computed.
    pub n: usize,
}

/// Returns the quantile `share` of Student's t distribution with `degrees` degrees of freedom.
pub fn t_quantile(degrees: f64, share: f64) -> f64 {
    StudentsT::new(0.0, 1.0, degrees).map_or(f64::NAN, |distribution| distribution.inverse_cdf(share))
}

/// Returns the mean of the differences left - right by seed, with its t-interval, over the seeds for which both values are known. Variation
/// that a seed causes in both values cancels out. Returns `None` if the lengths differ, or if no difference is known.
pub fn paired_difference(left: &[f64], right: &[f64]) -> Option<Interval> {
    (left.len() == right.len()).then(|| mean_of_known(left.iter().zip(right).map(|(a, b)| a - b)))?
}

/// Returns the change of a mean from `base` to `ours`, as a share of that of `base`, with a 95 % interval; values with the same index are
/// paired. Returns `None` if there are fewer than two pairs, if a value is not known, or if the mean of `base` is not positive.
///
/// The interval is that of a ratio of means by linearization: the differences between ours and the ratio times the base have the mean 0, and
/// their spread over the mean of the base is that of the ratio.
pub fn relative_change(ours: &[f64], base: &[f64]) -> Option<Interval> {
    let n = base.len();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / n as f64;
    if ours.len() != n
        || n < 2
        || !ours.iter().chain(base).all(|value| value.is_finite())
        || mean(base) <= 0.0
    {
        return None;
    }
    let ratio = mean(ours) / mean(base);
    let rest: Vec<f64> = ours.iter().zip(base).map(|(ours, base)| ours - ratio * base).collect();
    let half = half_width(&rest) / mean(base);
    let change = ratio - 1.0;
    half.is_finite().then_some(Interval { mean: change, low: change - half, high: change + half, n })
}

/// Returns the mean of the values that are not NaN, with its t-interval; `None` if all values are NaN.
pub(super) fn mean_of_known(values: impl IntoIterator<Item = f64>) -> Option<Interval> {
    let known: Vec<f64> = values.into_iter().filter(|value| !value.is_nan()).collect();
    (!known.is_empty()).then(|| mean(known))
}

/// Returns the mean of independent values, one per seed, with its t-interval.
pub(super) fn mean(values: impl IntoIterator<Item = f64>) -> Interval {
    let values: Vec<f64> = values.into_iter().collect();
    around(values.iter().sum::<f64>() / values.len() as f64, &values)
}

/// Returns an interval with `estimate` in the middle, as wide as the t-interval of the mean of `values`.
pub(super) fn around(estimate: f64, values: &[f64]) -> Interval {
    let half = half_width(values);
    Interval { mean: estimate, low: estimate - half, high: estimate + half, n: values.len() }
}

/// Returns half the width of the t-interval of the mean of these values; NaN for fewer than two values.
pub(super) fn half_width(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    if values.len() < 2 {
        return f64::NAN;
    }
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    t_quantile(n - 1.0, f64::midpoint(1.0, CONFIDENCE)) * (variance / n).sqrt()
}

use catnip_base::Rng;

/// A distribution of sizes, counts or times; the unit is its user's.
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
    /// Always the same.
    Constant(f64),
    /// Uniform between two bounds.
    Uniform {
        /// Lower bound.
        minimum: f64,
        /// Upper bound.
        maximum: f64,
    },
    /// Exponential.
    Exponential {
        /// Mean.
        mean: f64,
    },
    /// Pareto; values above `maximum` count as `maximum`.
    Pareto {
        /// Tail index.
        shape: f64,
        /// Least value.
        minimum: f64,
        /// Greatest value.
        maximum: f64,
    },
    /// Lognormal.
    Lognormal {
        /// Mean of the logarithm.
        mu: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
    /// Piecewise linear through points of a measured distribution function.
    Empirical {
        /// (value, probability of being at or below it), both ascending; the last probability is 1.
        points: Vec<(f64, f64)>,
    },
}

impl Distribution {
    /// One value.
    pub fn draw(&self, rng: &mut Rng) -> f64 {
        match self {
            Self::Constant(value) => *value,
            Self::Uniform { minimum, maximum } => minimum + (maximum - minimum) * rng.uniform(),
            Self::Exponential { mean } => rng.exponential(*mean),
            Self::Pareto { shape, minimum, maximum } => rng.pareto(*shape, *minimum).min(*maximum),
            Self::Lognormal { mu, sigma } => (mu + sigma * rng.normal()).exp(),
            Self::Empirical { points } => quantile(points, rng.uniform()),
        }
    }

    /// The probability of being at or below `value`.
    pub fn cdf(&self, value: f64) -> f64 {
        match self {
            Self::Constant(constant) => f64::from(value >= *constant),
            Self::Uniform { minimum, maximum } => ((value - minimum) / (maximum - minimum)).clamp(0.0, 1.0),
            Self::Exponential { mean } => 1.0 - (-value.max(0.0) / mean).exp(),
            Self::Pareto { maximum, .. } if value >= *maximum => 1.0,
            Self::Pareto { shape, minimum, .. } => 1.0 - (minimum / value.max(*minimum)).powf(*shape),
            Self::Lognormal { mu, sigma } => normal_cdf((value.ln() - mu) / sigma),
            Self::Empirical { points } => {
                let above = points.partition_point(|p| p.0 <= value);
                if above == 0 {
                    return 0.0;
                }
                let Some(high) = points.get(above) else { return 1.0 };
                let low = points[above - 1];
                low.1 + (high.1 - low.1) * (value - low.0) / (high.0 - low.0)
            }
        }
    }
}

fn quantile(points: &[(f64, f64)], probability: f64) -> f64 {
    let above = points.partition_point(|p| p.1 < probability).min(points.len() - 1);
    if above == 0 {
        return points[0].0;
    }
    let (low, high) = (points[above - 1], points[above]);
    low.0 + (high.0 - low.0) * (probability - low.1) / (high.1 - low.1)
}

/// Standard normal distribution function (Abramowitz and Stegun 7.1.26, absolute error below 2e-7).
fn normal_cdf(z: f64) -> f64 {
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let series = [1.061_405_429, -1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592];
    let erf = 1.0 - series.iter().fold(0.0, |sum, c| (sum + c) * t) * (-x * x).exp();
    if z < 0.0 { 0.5 * (1.0 - erf) } else { 0.5 * (1.0 + erf) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catnip_base::Stream;

    #[test]
    fn samples_pass_a_kolmogorov_smirnov_test_against_their_own_distribution() {
        let distributions = [
            Distribution::Uniform { minimum: 2.0, maximum: 5.0 },
            Distribution::Exponential { mean: 40.0 },
            Distribution::Pareto { shape: 1.1, minimum: 133_000.0, maximum: 1e12 },
            Distribution::Lognormal { mu: 9.357, sigma: 1.318 },
            Distribution::Empirical { points: vec![(0.0, 0.0), (1.0, 0.25), (10.0, 1.0)] },
        ];
        for (n, distribution) in distributions.iter().enumerate() {
            let mut rng = Rng::new(11, Stream::Workload(n as u32));
            let count = 20_000;
            let mut sample: Vec<f64> = (0..count).map(|_| distribution.draw(&mut rng)).collect();
            sample.sort_by(f64::total_cmp);
            let distance = sample.iter().enumerate().fold(0.0f64, |worst, (i, &x)| {
                let expected = distribution.cdf(x);
                let (below, at) = (i as f64 / f64::from(count), (i + 1) as f64 / f64::from(count));
                worst.max((expected - below).abs()).max((at - expected).abs())
            });
            let critical = 1.63 / f64::from(count).sqrt();
            assert!(distance < critical, "{distribution:?}: {distance} (1 % level: {critical})");
        }
    }
}

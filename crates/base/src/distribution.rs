use crate::notation::{Kind, Notation, Usage, Written};
use crate::{Bytes, ParseError, Rng, Share, Span, math};
use std::str::FromStr;

/// Distribution of sizes, counts or times. The user of the distribution determines the unit. All values are nonnegative.
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
    /// Constant value.
    Constant(f64),
    /// Uniform distribution between two bounds.
    Uniform {
        /// Lower bound.
        minimum: f64,
        /// Upper bound.
        maximum: f64,
    },
    /// Exponential distribution.
    Exponential {
        /// Mean.
        mean: f64,
    },
    /// Pareto distribution; values above `maximum` are set to `maximum`.
    Pareto {
        /// Tail index.
        shape: f64,
        /// Least value.
        minimum: f64,
        /// Greatest value.
        maximum: f64,
    },
    /// Lognormal distribution; values above `maximum` are set to `maximum`.
    Lognormal {
        /// Mean of the logarithm.
        mu: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
        /// Greatest value.
        maximum: f64,
    },
    /// Piecewise linear distribution function through measured points.
    Empirical {
        /// Points (value, probability of a value at or below this value). Values and probabilities ascend, and the last probability is 1.
        points: Vec<(f64, f64)>,
    },
}

/// Quantity that a distribution describes, which determines the units of its values in text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Counts.
    Count,
    /// Times, as numbers of seconds or texts such as 200ms.
    Time,
    /// Sizes, as numbers of bytes or texts such as 32KB.
    Size,
}

impl Measure {
    /// Parses a value, with or without a unit.
    pub fn read(self, text: &str) -> Option<f64> {
        let text = text.trim();
        let with_unit = match self {
            Self::Count => None,
            Self::Time => text.parse().ok().map(|time: Span| time.as_secs()),
            Self::Size => text.parse().ok().map(|Bytes(bytes)| bytes as f64),
        };
        f64::from_str(text).ok().or(with_unit)
    }

    /// Returns the description of a valid value, for errors.
    fn expected(self) -> &'static str {
        match self {
            Self::Count => "a number such as 8",
            Self::Time => "a time such as 200ms, or a number of seconds",
            Self::Size => "a size such as 32KB, or a number of bytes",
        }
    }
}

impl Kind for Distribution {
    const USAGE: &'static [Usage] = &[
        ("constant:value=", "constant value"),
        ("uniform:minimum=,maximum=", "uniform distribution between the bounds"),
        ("exponential:mean=", "exponential distribution with this mean"),
        (
            "pareto:shape=,minimum=[,maximum=]",
            "Pareto distribution with this tail index; values above the maximum are set to it",
        ),
        (
            "lognormal:mu=,sigma=[,maximum=]",
            "log-normal distribution; mu and sigma are the mean and the standard deviation of the logarithm; values above the maximum are \
             set to it",
        ),
        (
            "empirical:points=0/0;1/0.25;10/1",
            "linear interpolation between points value/probability of a cumulative distribution function",
        ),
    ];
    const EXAMPLES: &'static [&'static str] = &[
        "constant:value=3",
        "uniform:minimum=0.5,maximum=4",
        "exponential:mean=2",
        "pareto:shape=1.5,minimum=1,maximum=100",
        "lognormal:mu=0.5,sigma=2",
        "empirical:points=0/0;0.5/0.5;3/1",
    ];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        Self::read_as(text, Measure::Count)
    }

    fn write(&self, to: &mut Written) {
        match self {
            Self::Constant(value) => to.name("constant").key("value", value),
            Self::Uniform { minimum, maximum } => {
                to.name("uniform").key("minimum", minimum).key("maximum", maximum)
            }
            Self::Exponential { mean } => to.name("exponential").key("mean", mean),
            Self::Pareto { shape, minimum, maximum } => to
                .name("pareto")
                .key("shape", shape)
                .key("minimum", minimum)
                .option("maximum", *maximum, f64::INFINITY),
            Self::Lognormal { mu, sigma, maximum } => to
                .name("lognormal")
                .key("mu", mu)
                .key("sigma", sigma)
                .option("maximum", *maximum, f64::INFINITY),
            Self::Empirical { points } => {
                let points: Vec<String> = points.iter().map(|(value, p)| format!("{value}/{p}")).collect();
                to.name("empirical").key("points", points.join(";"))
            }
        };
    }
}

crate::as_text!(Distribution);

impl Distribution {
    /// Parses a distribution whose values may have units. A single value stands for a constant distribution.
    pub fn with_units(text: &str, values: Measure) -> Result<Self, ParseError> {
        if let Some(value) = values.read(text) {
            let constant = Self::Constant(value);
            return constant.checked_as(values).map_err(|expected| ParseError::new(text, expected));
        }
        if !text.trim_start().starts_with(|c: char| c.is_ascii_alphabetic() || c == ':') {
            return Err(ParseError::new(text, format!("{}, or a distribution", values.expected())));
        }
        // An unknown name is reported before any mistake in the parameters.
        let mut notation = Notation::of_family::<Self>(text)?;
        let read = Self::read_as(&mut notation, values)?;
        notation.finish_as(Self::USAGE)?;
        read.checked_as(values).map_err(|expected| ParseError::new(text, expected))
    }

    fn read_as(text: &mut Notation<'_>, values: Measure) -> Result<Self, ParseError> {
        let optional_value = |text: &mut Notation<'_>, key: &str| {
            let value = text.take(key);
            let read = |value: &str| values.read(value).ok_or_else(|| text.invalid_value(key, value));
            value.map(read).transpose()
        };
        let value = |text: &mut Notation<'_>, key: &str| {
            optional_value(text, key)?.ok_or_else(|| text.error(format!("{key}=")))
        };
        let maximum_value =
            |text: &mut Notation<'_>| Ok(optional_value(text, "maximum")?.unwrap_or(f64::INFINITY));
        let read = match text.name() {
            "constant" => Self::Constant(value(text, "value")?),
            "uniform" => Self::Uniform { minimum: value(text, "minimum")?, maximum: value(text, "maximum")? },
            "exponential" => Self::Exponential { mean: value(text, "mean")? },
            "pareto" => Self::Pareto {
                shape: text.key("shape")?,
                minimum: value(text, "minimum")?,
                maximum: maximum_value(text)?,
            },
            "lognormal" => Self::Lognormal {
                mu: text.key("mu")?,
                sigma: text.key("sigma")?,
                maximum: maximum_value(text)?,
            },
            _ => {
                let points: String = text.key("points")?;
                let point = |point: &str| {
                    let (value, probability) = point.split_once('/')?;
                    Some((values.read(value)?, probability.parse::<Share>().ok()?.0))
                };
                let points = points.split(';').map(point).collect::<Option<_>>();
                Self::Empirical {
                    points: points.ok_or_else(|| text.error("points such as 0/0;1/0.25;10/1"))?,
                }
            }
        };
        read.checked().map_err(|expected| text.error(expected))
    }

    /// Checks the parameters; a constant number of bytes or of things must be whole.
    fn checked_as(self, values: Measure) -> Result<Self, &'static str> {
        match self {
            Self::Constant(value) if values != Measure::Time && value.is_finite() && value.fract() != 0.0 => {
                Err("a whole number")
            }
            _ => self.checked(),
        }
    }

    fn checked(self) -> Result<Self, &'static str> {
        match self.violated_constraint() {
            None => Ok(self),
            Some(expected) => Err(expected),
        }
    }

    /// Returns the constraint that the parameters violate, or `None` if they are valid.
    fn violated_constraint(&self) -> Option<&'static str> {
        let positive = |value: f64| value > 0.0 && value.is_finite();
        let (is_valid, expected) = match self {
            Self::Constant(value) => (*value >= 0.0 && value.is_finite(), "a non-negative value"),
            Self::Uniform { minimum, maximum } => {
                let is_valid = 0.0 <= *minimum && minimum <= maximum && maximum.is_finite();
                (is_valid, "0 <= minimum <= maximum")
            }
            Self::Exponential { mean } => (positive(*mean), "a positive mean"),
            Self::Pareto { shape, minimum, maximum } => {
                let is_valid = positive(*shape) && positive(*minimum) && *maximum > 0.0;
                (is_valid, "positive shape, minimum and maximum")
            }
            Self::Lognormal { mu, sigma, maximum } => {
                let is_valid = mu.is_finite() && positive(*sigma) && *maximum > 0.0;
                (is_valid, "a positive sigma and maximum")
            }
            Self::Empirical { points } => {
                let ascending = points.windows(2).all(|w| w[0].0 <= w[1].0 && w[0].1 < w[1].1);
                let ends = points.first().is_some_and(|p| p.0 >= 0.0 && p.1 >= 0.0)
                    && points.last().is_some_and(|p| p.0.is_finite() && p.1 == 1.0);
                (
                    ascending && ends,
                    "points in ascending order of value and probability, the last one with probability 1",
                )
            }
        };
        (!is_valid).then_some(expected)
    }

    /// Draws a random value from the distribution.
    pub fn draw(&self, rng: &mut Rng) -> f64 {
        match self {
            Self::Constant(value) => *value,
            Self::Uniform { minimum, maximum } => minimum + (maximum - minimum) * rng.uniform(),
            Self::Exponential { mean } => rng.exponential(*mean),
            Self::Pareto { shape, minimum, maximum } => rng.pareto(*shape, *minimum).min(*maximum),
            Self::Lognormal { mu, sigma, maximum } => math::exp(mu + sigma * rng.normal()).min(*maximum),
            Self::Empirical { points } => quantile(points, rng.uniform()),
        }
    }

    /// Returns the probability that a drawn value is at or below `value`.
    pub fn cdf(&self, value: f64) -> f64 {
        match self {
            Self::Constant(constant) => f64::from(value >= *constant),
            Self::Uniform { minimum, maximum } => ((value - minimum) / (maximum - minimum)).clamp(0.0, 1.0),
            Self::Exponential { mean } => 1.0 - math::exp(-value.max(0.0) / mean),
            Self::Pareto { maximum, .. } if value >= *maximum => 1.0,
            Self::Pareto { shape, minimum, .. } => 1.0 - math::pow(minimum / value.max(*minimum), *shape),
            Self::Lognormal { mu, sigma, .. } => normal_cdf((math::ln(value) - mu) / sigma),
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

/// Computes the standard normal distribution function (Abramowitz and Stegun 7.1.26, absolute error below 2e-7).
fn normal_cdf(z: f64) -> f64 {
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let series = [1.061_405_429, -1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592];
    let erf = 1.0 - series.iter().fold(0.0, |sum, c| (sum + c) * t) * math::exp(-x * x);
    if z < 0.0 { 0.5 * (1.0 - erf) } else { 0.5 * (1.0 + erf) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rng, Stream};
    use proptest::prelude::*;

    #[test]
    fn samples_pass_a_kolmogorov_smirnov_test_against_their_own_distribution() {
        let distributions = [
            Distribution::Uniform { minimum: 2.0, maximum: 5.0 },
            Distribution::Exponential { mean: 40.0 },
            Distribution::Pareto { shape: 1.1, minimum: 133_000.0, maximum: 1e12 },
            Distribution::Lognormal { mu: 9.357, sigma: 1.318, maximum: f64::INFINITY },
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

    fn any_distribution() -> impl Strategy<Value = Distribution> {
        let size = 1e-6..1e12f64;
        prop_oneof![
            (0.0..1e9f64).prop_map(Distribution::Constant),
            (0.0..1e6f64, 0.0..1e6f64)
                .prop_map(|(minimum, more)| Distribution::Uniform { minimum, maximum: minimum + more }),
            size.clone().prop_map(|mean| Distribution::Exponential { mean }),
            (0.1..5.0f64, size.clone(), prop_oneof![size, Just(f64::INFINITY)])
                .prop_map(|(shape, minimum, maximum)| Distribution::Pareto { shape, minimum, maximum }),
            (-50.0..50.0f64, 0.01..10.0f64).prop_map(|(mu, sigma)| Distribution::Lognormal {
                mu,
                sigma,
                maximum: 9.0
            }),
            (1.0..9.0f64)
                .prop_map(|x| Distribution::Empirical { points: vec![(0.0, 0.0), (x, 0.3), (9.0, 1.0)] }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back_as_the_same(distribution in any_distribution()) {
            prop_assert_eq!(distribution.to_string().parse(), Ok(distribution));
        }
    }

    #[test]
    fn values_may_have_units_and_a_value_alone_is_always_the_same() {
        let time = |text| Distribution::with_units(text, Measure::Time).map_err(|error| error.to_string());
        assert_eq!(time("5s"), Ok(Distribution::Constant(5.0)));
        assert_eq!(time("0.25"), Ok(Distribution::Constant(0.25)));
        assert_eq!(time("exponential:mean=2s"), time("exponential:mean=2"));
        assert_eq!(time("uniform:minimum=0,maximum=1min"), time("uniform:minimum=0s,maximum=60"));
        assert_eq!(time("empirical:points=0s/0;200ms/25%;1/1"), time("empirical:points=0/0;0.2/0.25;1/1"));
        let size = |text| Distribution::with_units(text, Measure::Size).unwrap();
        assert_eq!(size("32KB"), Distribution::Constant(32768.0));
        assert_eq!(
            size("pareto:shape=1.2,minimum=1KB,maximum=1MB"),
            size("pareto:shape=1.2,minimum=1024,maximum=1048576")
        );
        for (text, measure, named) in [
            ("5s", Measure::Count, "a number such as 8"),
            ("5s", Measure::Size, "a size such as 32KB"),
            ("-1", Measure::Time, "non-negative"),
            ("exponential:mean=2KB", Measure::Time, "a value for mean, not \"2KB\""),
            ("exponental:mean=2", Measure::Time, "did you mean exponential?"),
        ] {
            let error = Distribution::with_units(text, measure).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn numbers_that_make_no_distribution_are_refused() {
        for (text, named) in [
            ("constant:value=-1", "non-negative"),
            ("uniform:minimum=3,maximum=2", "0 <= minimum <= maximum"),
            ("exponential:mean=0", "positive mean"),
            ("pareto:shape=nan,minimum=1", "positive shape"),
            ("lognormal:mu=1,sigma=-1", "positive sigma"),
            ("empirical:points=0/0;1/0.5", "the last one with probability 1"),
            ("empirical:points=0/0;1", "points such as"),
            ("exponential", "mean="),
            ("normal:mu=1", "one of constant, uniform, exponential, pareto, lognormal, empirical"),
        ] {
            let error = text.parse::<Distribution>().unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}

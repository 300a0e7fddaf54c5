//! Execution of a plan: seeds of its points, the rule by which they end, and values of its ranges.

use crate::InputError;
use crate::error::in_toml_terms;
use crate::scenario::text::Text;
use catnip_base::{ParseError, Rng, Stream};
use schemars::JsonSchema;
use serde::Deserialize;
use std::fmt;
use std::str::FromStr;

/// Execution of a plan, whose points are the variants with their values of all axes.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "sweep")]
pub struct Sweep {
    /// Numbers of seeds at the first and at the last look, FIRST..LAST. In between, the number is doubled. `--seeds` replaces the first.
    #[serde(default)]
    #[schemars(with = "Option<String>", example = &"5..200", extend("x-default" = "those of `--until`"))]
    seeds: Option<Text<Looks>>,
    /// Rule by which a point gets no further seeds, as in `--until`.
    #[serde(default)]
    #[schemars(example = &"page_time_s 5%", extend("x-default" = "none; all points get all seeds"))]
    pub until: Option<String>,
    /// Variant, or value of an axis, with which the others are compared, as in `--against`.
    #[serde(default)]
    #[schemars(example = &"queue=drop-tail:10", extend("x-default" = "none"))]
    pub against: Option<String>,
    /// Number of values that are drawn in the ranges of axes.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100_000), example = 64, extend("x-default" = "required with a range"))]
    samples: Option<u32>,
    /// Method by which values are drawn in ranges: `latin-hypercube`, a value in each of as many equal parts of every range as there are samples, in
    /// random order; or `sobol`, Sobol's sequence, scrambled by Owen's method, whose first values stay if more are drawn.
    #[serde(default)]
    #[schemars(with = "String", example = &"sobol", extend("x-default" = "`latin-hypercube`"))]
    design: Design,
    /// True if the scenario has the table.
    #[serde(skip)]
    pub is_there: bool,
}

impl Sweep {
    /// Removes `[sweep]` from a scenario and returns it.
    pub(crate) fn take(file: &str, base: &mut toml::Table) -> Result<Self, InputError> {
        let Some(value) = base.remove("sweep") else { return Ok(Self::default()) };
        let read: Self = serde_path_to_error::deserialize(value).map_err(|error| {
            let path = error.path().to_string();
            let key = if path == "." { "sweep".into() } else { format!("sweep.{path}") };
            InputError::new(file, &key, in_toml_terms(error.inner().message()))
        })?;
        match read.samples {
            Some(0) => Err(InputError::new(file, "sweep.samples", "0: at least one value is needed")),
            _ => Ok(Self { is_there: true, ..read }),
        }
    }

    /// Returns the numbers of seeds at the first and at the last look; `None` if the scenario does not set them.
    pub fn seeds(&self) -> Option<(u32, u32)> {
        self.seeds.map(|Text(Looks { first, last })| (first, last))
    }

    pub(crate) fn samples(&self) -> Option<u32> {
        self.samples
    }

    pub(crate) fn design(&self) -> Design {
        self.design
    }
}

/// Numbers of seeds at the first and at the last look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Looks {
    first: u32,
    last: u32,
}

impl FromStr for Looks {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let bounds = text.split_once("..").map(|(first, last)| (first.trim().parse(), last.trim().parse()));
        match bounds {
            Some((Ok(first @ 1..), Ok(last))) if first <= last && last <= 100_000 => Ok(Self { first, last }),
            _ => Err(ParseError::new(text, "numbers of seeds FIRST..LAST, such as 5..200")),
        }
    }
}

impl fmt::Display for Looks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.first, self.last)
    }
}

/// Method by which values are drawn in several ranges at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Design {
    /// A value in each of as many equal parts of every range as there are samples, in random order (McKay, Beckman and Conover, 1979).
    #[default]
    LatinHypercube,
    /// Sobol's sequence, scrambled by Owen's method: more samples refine what fewer have covered.
    Sobol,
}

/// Seed of the designs: the values of a plan do not depend on the seeds of its runs.
const SEED: u64 = 1;

impl Design {
    /// Returns the shares of range number `range` at which its values lie, from 0 to less than 1.
    pub(crate) fn shares(self, range: u32, samples: u32) -> Vec<f64> {
        match self {
            Self::LatinHypercube => {
                let mut rng = Rng::new(SEED, Stream::Design(range));
                let mut parts: Vec<u32> = (0..samples).collect();
                rng.shuffle(&mut parts);
                parts.into_iter().map(|part| (f64::from(part) + rng.uniform()) / f64::from(samples)).collect()
            }
            Self::Sobol => {
                // Each set of dimensions has a seed of its own, so that no two ranges have the same values.
                let (set, dimension) =
                    (range / sobol_burley::NUM_DIMENSIONS, range % sobol_burley::NUM_DIMENSIONS);
                (0..samples).map(|sample| f64::from(sobol_burley::sample(sample, dimension, set))).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latin_hypercube_has_one_value_in_each_part_of_every_range() {
        for (range, samples) in [(0, 1), (1, 7), (2, 100)] {
            let shares = Design::LatinHypercube.shares(range, samples);
            let mut parts: Vec<u32> =
                shares.iter().map(|share| (share * f64::from(samples)) as u32).collect();
            parts.sort_unstable();
            assert_eq!(parts, (0..samples).collect::<Vec<_>>());
        }
    }

    #[test]
    fn powers_of_two_of_sobols_points_fill_all_boxes_of_two_ranges_evenly() {
        // A (0, m, 2)-net in base 2: every elementary box of area 1 / 2^m has one of 2^m points.
        let (one, other) = (Design::Sobol.shares(0, 64), Design::Sobol.shares(1, 64));
        for bits in 0..=6u32 {
            let (columns, rows) = (f64::from(1u32 << bits), f64::from(64u32 >> bits));
            let mut boxes: Vec<(u32, u32)> =
                one.iter().zip(&other).map(|(x, y)| ((x * columns) as u32, (y * rows) as u32)).collect();
            boxes.sort_unstable();
            boxes.dedup();
            assert_eq!(boxes.len(), 64, "{bits} bits");
        }
    }

    #[test]
    fn ranges_have_values_of_their_own_beyond_the_dimensions_of_the_sequence() {
        assert_ne!(Design::Sobol.shares(0, 8), Design::Sobol.shares(256, 8));
    }
}

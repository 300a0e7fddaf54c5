use super::{JitterKind, width};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Rng, Span};

/// Uniformly distributed deviation from the delay, up to a bound that does not exceed the delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uniform {
    /// Largest deviation.
    half_width: Span,
}

impl Kind for Uniform {
    const USAGE: &'static [Usage] =
        &[("uniform:5ms", "uniformly distributed delay, up to 5 ms below or above the configured one")];
    const EXAMPLES: &'static [&'static str] = &["uniform:5ms"];
    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        Ok(Self { half_width: width(text)? })
    }
    fn write(&self, to: &mut Written) {
        to.name("uniform").value(self.half_width);
    }
}

impl JitterKind for Uniform {
    fn draw_s(&self, rng: &mut Rng) -> f64 {
        self.half_width.as_secs() * (2.0 * rng.uniform() - 1.0)
    }
    fn min_delay(&self) -> Span {
        self.half_width
    }
}

use super::{JitterKind, width};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Rng, Span};

/// Exponentially distributed addition to the delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exponential {
    /// Mean of the addition.
    mean: Span,
}

impl Kind for Exponential {
    const USAGE: &'static [Usage] =
        &[("exponential:3ms", "delay plus an exponentially distributed time with a mean of 3 ms")];
    const EXAMPLES: &'static [&'static str] = &["exponential:3ms"];
    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        Ok(Self { mean: width(text)? })
    }
    fn write(&self, to: &mut Written) {
        to.name("exponential").value(self.mean);
    }
}

impl JitterKind for Exponential {
    fn draw_s(&self, rng: &mut Rng) -> f64 {
        rng.exponential(self.mean.as_secs())
    }
    fn min_delay(&self) -> Span {
        Span::ZERO
    }
}

use super::{JitterKind, width};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Rng, Span};

/// Normally distributed deviation from the delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Normal {
    /// Standard deviation.
    deviation: Span,
}

impl Kind for Normal {
    const USAGE: &'static [Usage] =
        &[("normal:2ms", "normally distributed delay with a standard deviation of 2 ms")];
    const EXAMPLES: &'static [&'static str] = &["normal:2ms"];
    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        Ok(Self { deviation: width(text)? })
    }
    fn write(&self, to: &mut Written) {
        to.name("normal").value(self.deviation);
    }
}

impl JitterKind for Normal {
    fn draw_s(&self, rng: &mut Rng) -> f64 {
        self.deviation.as_secs() * rng.normal()
    }
    fn min_delay(&self) -> Span {
        self.deviation * 3
    }
}

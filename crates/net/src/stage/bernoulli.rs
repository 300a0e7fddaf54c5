use super::{ByPriority, StageKind, probability};
use crate::Priority;
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Rng, Share};

/// Configuration of independent losses with the same probability for all packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BernoulliSpec {
    /// Loss probability, in [0, 1).
    pub probability: f64,
}

impl Kind for BernoulliSpec {
    const USAGE: &'static [Usage] =
        &[("bernoulli:P", "loses each packet with probability P, such as 5% or 0.05")];
    const EXAMPLES: &'static [&'static str] = &["bernoulli:0.2"];
    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let Share(value) = text.value("a probability, as in bernoulli:5% or bernoulli:0.05")?;
        Ok(Self { probability: probability(text, value)? })
    }
    fn write(&self, to: &mut Written) {
        to.name("bernoulli").value(self.probability);
    }
}

impl StageKind for BernoulliSpec {
    type Stage = ByPriority;
    fn build(&self, rng: Rng) -> ByPriority {
        ByPriority::new([self.probability; Priority::COUNT], rng)
    }
    fn loss(&self) -> Option<[f64; Priority::COUNT]> {
        Some([self.probability; Priority::COUNT])
    }
}

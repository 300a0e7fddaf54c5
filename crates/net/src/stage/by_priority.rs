use super::{Stage, StageKind, lost_if, probability};
use crate::{DropReason, Packet, Priority};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Rng, Share, Time};

/// Configuration of independent losses with a probability for each priority.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ByPrioritySpec {
    /// Loss probability of HIGH packets, in [0, 1).
    pub high: f64,
    /// Loss probability of MED packets, in [0, 1).
    pub med: f64,
    /// Loss probability of LOW packets, in [0, 1).
    pub low: f64,
}

impl Kind for ByPrioritySpec {
    const USAGE: &'static [Usage] = &[(
        "priority:high=P,low=P[,med=P]",
        "loses each packet with the probability of its priority; med is low by default",
    )];
    const EXAMPLES: &'static [&'static str] = &["priority:high=0.05,low=0.2"];
    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let (high, low) = (text.optional("high")?, text.optional("low")?);
        let (Share(high), Share(low)) = match (high, low) {
            (None, None) => return Err(text.error("high= or low= or both, each 0 by default")),
            (high, low) => (high.unwrap_or(Share(0.0)), low.unwrap_or(Share(0.0))),
        };
        let Share(med) = text.option("med", Share(low))?;
        let [high, med, low] = [high, med, low].map(|value| probability(text, value));
        Ok(Self { high: high?, med: med?, low: low? })
    }
    fn write(&self, to: &mut Written) {
        to.name("priority").key("high", self.high).key("low", self.low).option("med", self.med, self.low);
    }
}

impl StageKind for ByPrioritySpec {
    type Stage = ByPriority;
    fn build(&self, rng: Rng) -> ByPriority {
        ByPriority::new(self.probabilities(), rng)
    }
    fn loss(&self) -> Option<[f64; Priority::COUNT]> {
        Some(self.probabilities())
    }
    fn reads_priority(&self) -> bool {
        true
    }
}

impl ByPrioritySpec {
    fn probabilities(&self) -> [f64; Priority::COUNT] {
        let mut probability = [self.low; Priority::COUNT];
        probability[Priority::High as usize] = self.high;
        probability[Priority::Medium as usize] = self.med;
        probability
    }
}

/// Independent losses with one probability per priority. One random number is drawn per packet, regardless of its priority. Equal
/// probabilities therefore lose the same packets as [`super::BernoulliSpec`] with that probability.
#[derive(Debug)]
pub struct ByPriority {
    probability: [f64; Priority::COUNT],
    rng: Rng,
}

impl ByPriority {
    pub(super) fn new(probability: [f64; Priority::COUNT], rng: Rng) -> Self {
        Self { probability, rng }
    }
}

impl Stage for ByPriority {
    fn pass(&mut self, _now: Time, packet: &mut Packet) -> Result<(), DropReason> {
        lost_if(self.rng.chance(self.probability[packet.dscp.priority() as usize]))
    }
}

use super::{Stage, StageKind, probability};
use crate::{DropReason, Forwarding, Packet};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Rng, Share, Time};

/// Configuration of duplication: a second copy of some packets arrives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DuplicateSpec {
    /// Duplication probability, in [0, 1).
    pub probability: f64,
}

impl Kind for DuplicateSpec {
    const USAGE: &'static [Usage] = &[(
        "duplicate:P",
        "delivers a second copy of each packet with probability P, in wire_loss or conditioner only",
    )];
    const EXAMPLES: &'static [&'static str] = &["duplicate:0.1"];
    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let Share(value) = text.value("a probability, as in duplicate:1%")?;
        Ok(Self { probability: probability(text, value)? })
    }
    fn write(&self, to: &mut Written) {
        to.name("duplicate").value(self.probability);
    }
}

impl StageKind for DuplicateSpec {
    type Stage = Box<Duplicate>;
    fn build(&self, rng: Rng) -> Box<Duplicate> {
        Box::new(Duplicate { probability: self.probability, rng })
    }
    fn needs_wire(&self) -> bool {
        true
    }
}

/// Stage that copies some packets.
#[derive(Debug)]
pub struct Duplicate {
    probability: f64,
    rng: Rng,
}

impl Stage for Duplicate {
    fn pass(&mut self, _now: Time, _packet: &mut Packet) -> Result<(), DropReason> {
        Ok(())
    }
    fn forwarding(&mut self, _packet: &Packet) -> Forwarding {
        if self.rng.chance(self.probability) { Forwarding::Duplicated } else { Forwarding::Immediate }
    }
}

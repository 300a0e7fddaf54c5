use super::{Stage, StageKind, probability};
use crate::{DropReason, Forwarding, Packet};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Rng, Share, Time};

/// Configuration of corruption: one random bit is flipped in some packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CorruptSpec {
    /// Corruption probability, in [0, 1).
    pub probability: f64,
}

impl Kind for CorruptSpec {
    const USAGE: &'static [Usage] = &[(
        "corrupt:P",
        "inverts one bit of each packet with probability P, in wire_loss or conditioner only; a packet between simulated hosts, which has \
         no contents, is lost instead",
    )];
    const EXAMPLES: &'static [&'static str] = &["corrupt:0.1"];
    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let Share(value) = text.value("a probability, as in corrupt:1%")?;
        Ok(Self { probability: probability(text, value)? })
    }
    fn write(&self, to: &mut Written) {
        to.name("corrupt").value(self.probability);
    }
}

impl StageKind for CorruptSpec {
    type Stage = Box<Corrupt>;
    fn build(&self, rng: Rng) -> Box<Corrupt> {
        Box::new(Corrupt { probability: self.probability, rng })
    }
    fn needs_wire(&self) -> bool {
        true
    }
}

/// Stage that flips one bit of some packets.
#[derive(Debug)]
pub struct Corrupt {
    probability: f64,
    rng: Rng,
}

impl Stage for Corrupt {
    fn pass(&mut self, _now: Time, _packet: &mut Packet) -> Result<(), DropReason> {
        Ok(())
    }
    fn forwarding(&mut self, packet: &Packet) -> Forwarding {
        match self.rng.chance(self.probability) {
            true => Forwarding::Corrupted { bit: self.rng.below(packet.len.max(1).saturating_mul(8)) },
            false => Forwarding::Immediate,
        }
    }
}

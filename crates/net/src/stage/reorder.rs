use super::{Stage, StageKind, probability};
use crate::{DropReason, Forwarding, Packet, Priority};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Rng, Share, Span, Time};
use std::num::NonZeroU32;

/// Configuration of reordering: some packets are held back, so that others overtake them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReorderSpec {
    /// Probability that a packet is held back, in [0, 1).
    pub probability: f64,
    /// Maximum time for which a packet is held back, above zero.
    pub by: Span,
    /// Number of overtaking packets after which a held-back packet continues even before the end of this time; `None` for no limit.
    pub overtakers: Option<NonZeroU32>,
}

const DEFAULT: Span = Span::from_millis(10);
const DEFAULT_WITHIN: Span = Span::from_millis(100);

impl Kind for ReorderSpec {
    const USAGE: &'static [Usage] = &[
        (
            "reorder:P[,by=10ms]",
            "holds back each packet with probability P for the time by, so that others overtake it, in wire_loss or conditioner only",
        ),
        (
            "reorder:P,by=3[,within=100ms]",
            "holds back each packet with probability P until 3 others have overtaken it, at most for 100 ms, in wire_loss or conditioner \
             only",
        ),
    ];
    const EXAMPLES: &'static [&'static str] = &["reorder:0.2", "reorder:0.2,by=3", "reorder:0.1,by=5ms"];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let Share(value) = text.value("a probability, as in reorder:1%,by=10ms")?;
        let probability = probability(text, value)?;
        let by = text.take("by");
        let overtakers = by.and_then(|by| by.parse().ok());
        let by = match (by, overtakers) {
            (None, _) => DEFAULT,
            (Some(_), Some(_)) => text.option("within", DEFAULT_WITHIN)?,
            (Some(by), None) => by.parse().unwrap_or(Span::ZERO),
        };
        if by == Span::ZERO {
            return Err(text.error("a time above zero, as in by=10ms, or packets, as in by=3,within=100ms"));
        }
        Ok(Self { probability, by, overtakers })
    }

    fn write(&self, to: &mut Written) {
        to.name("reorder").value(self.probability);
        match self.overtakers {
            None => to.option("by", self.by, DEFAULT),
            Some(overtakers) => to.key("by", overtakers).option("within", self.by, DEFAULT_WITHIN),
        };
    }
}

impl StageKind for ReorderSpec {
    type Stage = Box<Reorder>;
    fn build(&self, rng: Rng) -> Box<Reorder> {
        Box::new(Reorder { spec: *self, rng })
    }
    fn loss(&self) -> Option<[f64; Priority::COUNT]> {
        Some([0.0; Priority::COUNT])
    }
    fn needs_wire(&self) -> bool {
        true
    }
}

/// Stage that holds some packets back.
#[derive(Debug)]
pub struct Reorder {
    spec: ReorderSpec,
    rng: Rng,
}

impl Stage for Reorder {
    fn pass(&mut self, _now: Time, _packet: &mut Packet) -> Result<(), DropReason> {
        Ok(())
    }
    fn forwarding(&mut self, _packet: &Packet) -> Forwarding {
        let ReorderSpec { probability, by, overtakers } = self.spec;
        if self.rng.chance(probability) {
            Forwarding::Delayed { by, overtakers }
        } else {
            Forwarding::Immediate
        }
    }
}

use super::numbers::{Named, Numbers};
use super::{Stage, StageKind};
use crate::{Colour, DropReason, Forwarding, Packet};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Rng, Span, Time};

/// Configuration of late packets: the packets with the given numbers, counted from 1 in order of arrival, are held back for a fixed time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LateSpec {
    packets: Numbers,
    by: Span,
}

const USUAL: Span = Span::from_millis(10);

impl Kind for LateSpec {
    const USAGE: &'static [Usage] = &[(
        "late:N,N,…[,by=10ms]",
        "holds back the packets with these numbers, counted from 1, for the time by, in wire_loss or conditioner only",
    )];
    const EXAMPLES: &'static [&'static str] = &["late:2,4,by=5ms"];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let by = text.option("by", USUAL)?;
        if by == Span::ZERO {
            return Err(text.error("a time above zero, as in by=10ms"));
        }
        Ok(Self { packets: Numbers::read(text, "late:20,22,by=10ms")?, by })
    }

    fn write(&self, to: &mut Written) {
        self.packets.write(to.name("late")).option("by", self.by, USUAL);
    }
}

impl StageKind for LateSpec {
    type Stage = Box<Late>;
    fn build(&self, _rng: Rng) -> Box<Late> {
        Box::new(Late { packets: self.packets.count(), by: self.by })
    }
    fn loss(&self) -> Option<[f64; Colour::COUNT]> {
        Some([0.0; Colour::COUNT])
    }
    fn needs_wire(&self) -> bool {
        true
    }
}

/// Stage that holds back exactly the packets with the given numbers.
#[derive(Debug)]
pub struct Late {
    packets: Named,
    by: Span,
}

impl Stage for Late {
    fn pass(&mut self, _now: Time, _packet: &mut Packet) -> Result<(), DropReason> {
        Ok(())
    }
    fn onward(&mut self, _packet: &Packet) -> Forwarding {
        if self.packets.hits() {
            Forwarding::Delayed { by: self.by, overtakers: None }
        } else {
            Forwarding::Immediate
        }
    }
}

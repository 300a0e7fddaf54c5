use super::numbers::{PacketCounter, PacketNumbers};
use super::{Stage, StageKind};
use crate::{DropReason, Forwarding, Packet, Priority};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Rng, Span, Time};

/// Configuration of late packets: the packets with the given numbers, counted from 1 in order of arrival, are held back for a fixed time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelayListSpec {
    packets: PacketNumbers,
    by: Span,
}

const DEFAULT: Span = Span::from_millis(10);

impl Kind for DelayListSpec {
    const USAGE: &'static [Usage] = &[(
        "late:N,N,…[,by=10ms]",
        "holds back the packets with these numbers, counted from 1, for the time by, in wire_loss or conditioner only",
    )];
    const EXAMPLES: &'static [&'static str] = &["late:2,4,by=5ms"];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let by = text.option("by", DEFAULT)?;
        if by == Span::ZERO {
            return Err(text.error("a time above zero, as in by=10ms"));
        }
        Ok(Self { packets: PacketNumbers::read(text, "late:20,22,by=10ms")?, by })
    }

    fn write(&self, to: &mut Written) {
        self.packets.write(to.name("late")).option("by", self.by, DEFAULT);
    }
}

impl StageKind for DelayListSpec {
    type Stage = Box<DelayList>;
    fn build(&self, _rng: Rng) -> Box<DelayList> {
        Box::new(DelayList { packets: self.packets.counter(), by: self.by })
    }
    fn loss(&self) -> Option<[f64; Priority::COUNT]> {
        Some([0.0; Priority::COUNT])
    }
    fn needs_wire(&self) -> bool {
        true
    }
}

/// Stage that holds back exactly the packets with the given numbers.
#[derive(Debug)]
pub struct DelayList {
    packets: PacketCounter,
    by: Span,
}

impl Stage for DelayList {
    fn pass(&mut self, _now: Time, _packet: &mut Packet) -> Result<(), DropReason> {
        Ok(())
    }
    fn forwarding(&mut self, _packet: &Packet) -> Forwarding {
        if self.packets.next_is_listed() {
            Forwarding::Delayed { by: self.by, overtakers: None }
        } else {
            Forwarding::Immediate
        }
    }
}

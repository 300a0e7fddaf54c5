use super::numbers::{PacketCounter, PacketNumbers};
use super::{Stage, StageKind};
use crate::{DropReason, Ecn, Packet, Priority};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Rng, Time};

/// Configuration of a mark list: the packets with the given numbers, counted from 1 in order of arrival, get the CE
/// codepoint (RFC 3168) if they are ECN-capable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkListSpec {
    packets: PacketNumbers,
}

impl Kind for MarkListSpec {
    const USAGE: &'static [Usage] = &[(
        "marks:N,N,…",
        "sets CE in the packets with these numbers, counted from 1, if they are ECN-capable",
    )];
    const EXAMPLES: &'static [&'static str] = &["marks:2,5"];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        Ok(Self { packets: PacketNumbers::read(text, "marks:20,22")? })
    }

    fn write(&self, to: &mut Written) {
        self.packets.write(to.name("marks"));
    }
}

impl StageKind for MarkListSpec {
    type Stage = Box<MarkList>;
    fn build(&self, _rng: Rng) -> Box<MarkList> {
        Box::new(MarkList { packets: self.packets.counter() })
    }
    fn loss(&self) -> Option<[f64; Priority::COUNT]> {
        Some([0.0; Priority::COUNT])
    }
    fn marks_ecn(&self) -> bool {
        true
    }
}

/// Stage that marks exactly the packets with the given numbers.
#[derive(Debug)]
pub struct MarkList {
    packets: PacketCounter,
}

impl Stage for MarkList {
    fn pass(&mut self, _now: Time, packet: &mut Packet) -> Result<(), DropReason> {
        if self.packets.next_is_listed() && packet.ecn != Ecn::NOT_ECT {
            packet.ecn = Ecn::CE;
        }
        Ok(())
    }
}

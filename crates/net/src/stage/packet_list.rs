use super::numbers::{PacketCounter, PacketNumbers};
use super::{Stage, StageKind, lost_if};
use crate::{DropReason, Packet};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Rng, Time};

/// Configuration of a loss list: the packets with the given numbers, counted from 1 in order of arrival, are lost once each (CAT-S17).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketListSpec {
    packets: PacketNumbers,
}

impl PacketListSpec {
    /// Creates the list of these packet numbers; `None` if `packets` is empty or contains 0.
    pub fn new(packets: Vec<u64>) -> Option<Self> {
        PacketNumbers::new(packets).map(|packets| Self { packets })
    }
}

impl Kind for PacketListSpec {
    const USAGE: &'static [Usage] =
        &[("packets:N,N,…", "loses the packets with these numbers, counted from 1")];
    const EXAMPLES: &'static [&'static str] = &["packets:2,3,7"];
    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        Ok(Self { packets: PacketNumbers::read(text, "packets:20,22")? })
    }
    fn write(&self, to: &mut Written) {
        self.packets.write(to.name("packets"));
    }
}

impl StageKind for PacketListSpec {
    type Stage = PacketList;
    fn build(&self, _rng: Rng) -> PacketList {
        PacketList { packets: self.packets.counter() }
    }
}

/// Stage that drops exactly the packets with the given numbers.
#[derive(Debug)]
pub struct PacketList {
    packets: PacketCounter,
}

impl Stage for PacketList {
    fn pass(&mut self, _now: Time, _packet: &mut Packet) -> Result<(), DropReason> {
        lost_if(self.packets.next_is_listed())
    }
}

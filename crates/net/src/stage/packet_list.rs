use super::{Stage, StageKind, lost_if};
use crate::{DropReason, Packet};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Rng, Time};

/// The packets with these numbers are lost, counted from 1 in order of arrival, once each (CAT-S17).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketListSpec {
    /// Ascending, no repetition.
    packets: Vec<u64>,
}

impl PacketListSpec {
    /// Loses these packets, or `None` if there are none or one of them is number 0.
    pub fn new(mut packets: Vec<u64>) -> Option<Self> {
        packets.sort_unstable();
        packets.dedup();
        (*packets.first()? > 0).then_some(Self { packets })
    }
}

impl Kind for PacketListSpec {
    const USAGE: &'static [Usage] =
        &[("packets:N,N,…", "loses the packets with these numbers, counted from 1")];
    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let packets = std::iter::from_fn(|| text.next()).map(str::parse).collect::<Result<Vec<u64>, _>>();
        let read = packets.ok().and_then(Self::new);
        read.ok_or_else(|| text.error("packet numbers from 1, as in packets:20,22"))
    }
    fn write(&self, to: &mut Written) {
        self.packets.iter().fold(to.name("packets"), Written::value);
    }
}

impl StageKind for PacketListSpec {
    type Stage = PacketList;
    fn build(&self, _rng: Rng) -> PacketList {
        PacketList { packets: self.packets.clone(), next: 0, seen: 0 }
    }
}

/// Exactly the packets one asked for.
#[derive(Debug)]
pub struct PacketList {
    packets: Vec<u64>,
    next: usize,
    seen: u64,
}

impl Stage for PacketList {
    fn pass(&mut self, _now: Time, _packet: &mut Packet) -> Result<(), DropReason> {
        self.seen += 1;
        let hit = self.packets.get(self.next) == Some(&self.seen);
        self.next += usize::from(hit);
        lost_if(hit)
    }
}

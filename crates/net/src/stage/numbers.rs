use catnip_base::ParseError;
use catnip_base::notation::{Notation, Written};

/// Numbers of packets, counted from 1, in ascending order and without repetition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PacketNumbers(Vec<u64>);

/// Counter of packets that recognizes the packets with the given numbers.
#[derive(Debug)]
pub(super) struct PacketCounter {
    packets: Vec<u64>,
    next: usize,
    count: u64,
}

impl PacketNumbers {
    /// Creates the list; `None` if `packets` is empty or contains 0.
    pub(super) fn new(mut packets: Vec<u64>) -> Option<Self> {
        packets.sort_unstable();
        packets.dedup();
        (*packets.first()? > 0).then_some(Self(packets))
    }

    /// Reads the numbers in a stage's text. Error messages contain `example`.
    pub(super) fn read(text: &mut Notation<'_>, example: &str) -> Result<Self, ParseError> {
        let packets = std::iter::from_fn(|| text.next()).map(str::parse).collect::<Result<Vec<u64>, _>>();
        let read = packets.ok().and_then(Self::new);
        read.ok_or_else(|| text.error(format!("packet numbers from 1, as in {example}")))
    }

    pub(super) fn write<'a>(&self, to: &'a mut Written) -> &'a mut Written {
        self.0.iter().fold(to, Written::value)
    }

    pub(super) fn counter(&self) -> PacketCounter {
        PacketCounter { packets: self.0.clone(), next: 0, count: 0 }
    }
}

impl PacketCounter {
    /// Counts a packet. Returns true if its number is in the list.
    pub(super) fn next_is_listed(&mut self) -> bool {
        self.count += 1;
        let hit = self.packets.get(self.next) == Some(&self.count);
        self.next += usize::from(hit);
        hit
    }
}

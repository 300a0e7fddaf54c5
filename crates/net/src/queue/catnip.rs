use super::fifo::Fifo;
use super::victim::VictimRule;
use super::{Capacity, Holds, QueueDiscipline, QueueKind, Site};
use crate::{Backlog, Colour, DropReason, Fate, Packet};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Rng, Time};

/// CATNIP-Good, DropTail in which a HIGH arrival takes the place of a LOW packet, or CATNIP-Bad, its mirror image, as
/// configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CatnipSpec {
    good: bool,
    limit: Capacity,
    victim: VictimRule,
}

const GOOD: &str = "catnip-good";
const BAD: &str = "catnip-bad";

impl Kind for CatnipSpec {
    const USAGE: &'static [Usage] = &[
        (
            "catnip-good:LIMIT[,victim=random|newest|oldest|probe]",
            "HIGH arrivals push LOW packets out; LIMIT in packets or bytes, as that of drop-tail",
        ),
        ("catnip-bad:LIMIT[,victim=…]", "LOW arrivals push HIGH packets out"),
    ];
    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let (limit, victim) = (Capacity::read(text)?, VictimRule::read(text)?);
        Ok(Self { good: text.name() == GOOD, limit, victim })
    }
    fn write(&self, to: &mut Written) {
        let name = if self.good { GOOD } else { BAD };
        to.name(name).value(self.limit).option("victim", self.victim, VictimRule::default());
    }
}

impl QueueKind for CatnipSpec {
    type Queue = Box<CatnipQueue>;
    fn build(&self, site: &Site<'_>) -> Box<CatnipQueue> {
        let build = if self.good { CatnipQueue::good } else { CatnipQueue::bad };
        Box::new(build(self.limit, self.victim, site.victims()))
    }
    fn holds(&self) -> Holds {
        self.limit.holds()
    }
    fn counts_packets(&self) -> bool {
        matches!(self.limit, Capacity::Packets(_))
    }
}

/// CATNIP-Good and its mirror image CATNIP-Bad (CATNIP paper, section III-C): DropTail, except that an arriving
/// HIGH packet takes the place of a queued LOW one. Of three colours, the one that is dropped first goes first; the paper
/// has two.
///
/// Service stays FIFO and the remaining packets keep their order. A packet in transmission is out of reach.
#[derive(Debug)]
pub struct CatnipQueue {
    queue: Fifo,
    capacity: Capacity,
    /// Bytes of the packet in transmission, which keeps its place until its last bit has left.
    in_transmission: u32,
    /// Which colours go first.
    order: [Colour; Colour::COUNT],
    victim: VictimRule,
    rng: Rng,
}

impl CatnipQueue {
    /// CATNIP-Good: HIGH packets are protected at the cost of LOW ones. A number is that of packets that wait beside the one
    /// in transmission.
    pub fn good(capacity: impl Into<Capacity>, victim: VictimRule, rng: Rng) -> Self {
        let (queue, order) = (Fifo::default(), Colour::DROPPED_FIRST);
        Self { queue, capacity: capacity.into(), in_transmission: 0, order, victim, rng }
    }

    /// CATNIP-Bad: LOW packets are protected at the cost of HIGH ones.
    pub fn bad(capacity: impl Into<Capacity>, victim: VictimRule, rng: Rng) -> Self {
        let mut queue = Self::good(capacity, victim, rng);
        queue.order.reverse();
        queue
    }

    fn has_room(&self, len: u32) -> bool {
        match self.capacity {
            Capacity::Packets(places) => self.queue.len() < places.waiting().get(),
            Capacity::Bytes(limit) => self.bytes_with(len) <= limit.get(),
        }
    }

    /// Pushes out whom it takes to let this one in, or nobody where that could not be enough. Apart from the usual way, which
    /// stays short without it (counted: 2 % of all instructions).
    #[inline(never)]
    fn makes_room(&mut self, now: Time, len: u32, colour: Colour, fate: &mut dyn Fate) -> bool {
        let may = self.could_have_room(len, colour);
        while may && !self.has_room(len) {
            let victim = self.victim.choose(&self.queue, self.order, colour, &mut self.rng);
            let Some(index) = victim else { return false };
            fate.dropped(now, self.queue.remove(index), DropReason::PushedOut);
        }
        may
    }

    /// Could it have, without the packets that go before this one? A large arrival may need the room of several.
    fn could_have_room(&self, len: u32, colour: Colour) -> bool {
        let Capacity::Bytes(limit) = self.capacity else { return true };
        let before = self.order.into_iter().take_while(|&other| other != colour);
        let theirs: u64 = before.map(|other| self.queue.bytes_of(other)).sum();
        self.bytes_with(len) <= limit.get() + theirs
    }

    fn bytes_with(&self, len: u32) -> u64 {
        self.queue.backlog().bytes + u64::from(self.in_transmission) + u64::from(len)
    }
}

impl QueueDiscipline for CatnipQueue {
    #[inline]
    fn enqueue(&mut self, now: Time, packet: Packet, fate: &mut dyn Fate) {
        if self.has_room(packet.len) || self.makes_room(now, packet.len, packet.dscp.colour(), fate) {
            self.queue.push(packet);
        } else {
            fate.dropped(now, packet, DropReason::Overflow);
        }
    }

    #[inline]
    fn dequeue(&mut self, _now: Time, _fate: &mut dyn Fate) -> Option<Packet> {
        let packet = self.queue.pop();
        self.in_transmission = packet.map_or(0, |packet| packet.len);
        packet
    }

    fn released(&mut self) {
        self.in_transmission = 0;
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }
}

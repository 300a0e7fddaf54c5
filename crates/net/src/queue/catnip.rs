use super::fifo::Fifo;
use super::limit::Buffer;
use super::victim::{VictimRule, Victims};
use super::{BufferBounds, Capacity, PortContext, QueueDiscipline, QueueKind, QueueTraits};
use crate::{Backlog, DropReason, Packet, PacketEvents, Priority};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Rng, Time};

/// Configuration of CATNIP-Good, drop-tail in which a HIGH arrival pushes out a LOW packet, or of CATNIP-Bad, in which a LOW arrival pushes
/// out a HIGH packet.
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
            "drop-tail in which an arriving HIGH packet pushes out a queued LOW packet, selected by victim; LIMIT in packets or bytes, \
             including the packet in transmission",
        ),
        (
            "catnip-bad:LIMIT[,victim=…]",
            "mirror image of catnip-good: an arriving LOW packet pushes out a queued HIGH packet",
        ),
    ];
    const EXAMPLES: &'static [&'static str] =
        &["catnip-good:5", "catnip-good:5,victim=probe", "catnip-bad:5,victim=newest"];
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
    type Queue = CatnipQueue;
    fn build(&self, context: &PortContext<'_>) -> CatnipQueue {
        let build = if self.good { CatnipQueue::good } else { CatnipQueue::bad };
        build(self.limit, self.victim, context.victim_rng())
    }
    fn buffer_bounds(&self) -> BufferBounds {
        self.limit.buffer_bounds()
    }
    fn counts_packets(&self) -> bool {
        !self.limit.is_in_bytes()
    }
    fn traits(&self) -> QueueTraits {
        QueueTraits { reads_priority: true, ..QueueTraits::default() }
    }
}

/// CATNIP-Good and its opposite CATNIP-Bad (CATNIP paper, section III-C): drop-tail, except that in CATNIP-Good an arriving HIGH packet
/// pushes out a queued LOW packet. The paper has two priorities. With the three priorities here, an arriving packet pushes out a packet of
/// the lowest priority in the queue if that priority is lower than its own. CATNIP-Bad reverses the order of the priorities.
///
/// Service stays FIFO, and the remaining packets keep their order. A packet in transmission cannot be pushed out.
#[derive(Debug)]
pub struct CatnipQueue {
    queue: Fifo,
    buffer: Buffer,
    victims: Victims,
}

impl CatnipQueue {
    /// Creates CATNIP-Good: HIGH packets are protected at the expense of LOW packets. A `NonZeroU32` as `capacity` is the number of packets
    /// that may wait besides the one in transmission.
    pub fn good(capacity: impl Into<Capacity>, victim: VictimRule, rng: Rng) -> Self {
        Self::with(capacity.into(), Victims::new(victim, Priority::DROPPED_FIRST, rng))
    }

    /// Creates CATNIP-Bad: LOW packets are protected at the expense of HIGH packets.
    pub fn bad(capacity: impl Into<Capacity>, victim: VictimRule, rng: Rng) -> Self {
        let mut order = Priority::DROPPED_FIRST;
        order.reverse();
        Self::with(capacity.into(), Victims::new(victim, order, rng))
    }

    fn with(capacity: Capacity, victims: Victims) -> Self {
        Self { queue: Fifo::default(), buffer: Buffer::new(capacity), victims }
    }
}

impl QueueDiscipline for CatnipQueue {
    #[inline]
    fn enqueue(&mut self, now: Time, packet: Packet, events: &mut dyn PacketEvents) {
        let Self { queue, buffer, victims } = self;
        if buffer.accepts(queue.backlog(), &packet) || victims.push_out(now, &packet, (queue, buffer), events)
        {
            queue.push(packet);
        } else {
            events.dropped(now, packet, DropReason::Overflow);
        }
    }

    #[inline]
    fn dequeue(&mut self, _now: Time, _events: &mut dyn PacketEvents) -> Option<Packet> {
        let packet = self.queue.pop();
        self.buffer.set_in_transmission(packet.as_ref());
        packet
    }

    fn released(&mut self) {
        self.buffer.set_in_transmission(None);
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }
}

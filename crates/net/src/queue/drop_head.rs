use super::fifo::Fifo;
use super::limit::Buffer;
use super::{BufferBounds, Capacity, PortContext, QueueDiscipline, QueueKind};
use crate::{Backlog, DropReason, Packet, PacketEvents};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Time};

/// Configuration of drop-head: a FIFO that drops the packets that have waited longest to make space for an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropHeadSpec {
    /// Buffer limit, the packet in transmission included.
    pub limit: Capacity,
}

impl Kind for DropHeadSpec {
    const USAGE: &'static [Usage] = &[(
        "drop-head:LIMIT",
        "FIFO that drops its oldest packet when it is full; LIMIT in packets or bytes, including the packet in transmission",
    )];
    const EXAMPLES: &'static [&'static str] = &["drop-head:5", "drop-head:4000B"];
    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        Ok(Self { limit: Capacity::read(text)? })
    }
    fn write(&self, to: &mut Written) {
        to.name("drop-head").value(self.limit);
    }
}

impl QueueKind for DropHeadSpec {
    type Queue = Box<DropHead>;
    fn build(&self, _context: &PortContext<'_>) -> Box<DropHead> {
        Box::new(DropHead { queue: Fifo::default(), buffer: Buffer::new(self.limit) })
    }
    fn buffer_bounds(&self) -> BufferBounds {
        self.limit.buffer_bounds()
    }
    fn counts_packets(&self) -> bool {
        !self.limit.is_in_bytes()
    }
}

/// FIFO that drops packets at its head. Compared with tail drop, losses are detected earlier, by the queueing delay.
#[derive(Debug)]
pub struct DropHead {
    queue: Fifo,
    buffer: Buffer,
}

impl QueueDiscipline for DropHead {
    fn enqueue(&mut self, now: Time, packet: Packet, events: &mut dyn PacketEvents) {
        if !self.buffer.fits(&packet) {
            return events.dropped(now, packet, DropReason::Overflow);
        }
        while !self.buffer.accepts(self.queue.backlog(), &packet) {
            match self.queue.pop() {
                Some(head) => events.dropped(now, head, DropReason::PushedOut),
                None => return events.dropped(now, packet, DropReason::Overflow),
            }
        }
        self.queue.push(packet);
    }

    fn dequeue(&mut self, _now: Time, _events: &mut dyn PacketEvents) -> Option<Packet> {
        let packet = self.queue.pop();
        self.buffer.set_in_transmission(packet.as_ref());
        packet
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    fn released(&mut self) {
        self.buffer.set_in_transmission(None);
    }
}

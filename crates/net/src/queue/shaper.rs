use super::gate::{Gate, Gated, SERVED_FIRST};
use super::limit::Buffer;
use super::{BufferBounds, PortContext, QueueDiscipline, QueueKind, QueueTraits};
use crate::{Backlog, DropReason, Packet, PacketEvents, Priority, Sla};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Time};
use std::collections::VecDeque;

/// Configuration of the shaper of a source (DiffServ paper, application-based marking; RFC 2475, section 2.3.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShaperSpec(pub Gated);

impl Kind for ShaperSpec {
    const USAGE: &'static [Usage] = &[(
        "shaper:LIMIT,high=RATE/DEPTH[,med=RATE/DEPTH]",
        "a FIFO for each priority; HIGH and MED packets wait for tokens of their bucket; LIMIT in packets or bytes, including the packet \
         in transmission",
    )];
    const EXAMPLES: &'static [&'static str] =
        &["shaper:5,high=300kbit/2000B,med=1Mbit/1499B", "shaper:4000B,high=300kbit/2000B"];
    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        Gated::read(text).map(Self)
    }
    fn write(&self, to: &mut Written) {
        self.0.write("shaper", to);
    }
}

impl QueueKind for ShaperSpec {
    type Queue = Box<ShaperQueue>;
    fn build(&self, context: &PortContext<'_>) -> Box<ShaperQueue> {
        Box::new(ShaperQueue {
            fifos: Default::default(),
            backlog: Backlog::default(),
            buffer: Buffer::new(self.0.limit),
            gate: Gate::new(&self.0.sla, context),
            wake_at: None,
        })
    }
    fn buffer_bounds(&self) -> BufferBounds {
        self.0.buffer_bounds()
    }
    fn counts_packets(&self) -> bool {
        !self.0.limit.is_in_bytes()
    }
    fn is_work_conserving(&self) -> bool {
        false
    }
    fn sla(&self) -> Option<Sla> {
        Some(self.0.sla)
    }
    fn traits(&self) -> QueueTraits {
        QueueTraits { reads_priority: true, ..QueueTraits::default() }
    }
}

/// Three FIFOs in one buffer, one for each priority. The FIFO of the highest priority whose first packet conforms is served. LOW packets
/// always conform.
#[derive(Debug)]
pub struct ShaperQueue {
    /// FIFOs by drop precedence.
    fifos: [VecDeque<Packet>; Priority::COUNT],
    backlog: Backlog,
    buffer: Buffer,
    gate: Gate,
    /// Earliest time at which a packet that had to wait for tokens at the last `dequeue` conforms; `None` if no packet had to wait.
    wake_at: Option<Time>,
}

impl QueueDiscipline for ShaperQueue {
    fn enqueue(&mut self, now: Time, packet: Packet, events: &mut dyn PacketEvents) {
        if !self.gate.fits(&packet) {
            return events.dropped(now, packet, DropReason::Policed);
        }
        if !self.buffer.accepts(self.backlog, &packet) {
            return events.dropped(now, packet, DropReason::Overflow);
        }
        self.backlog.add(&packet);
        self.fifos[packet.dscp.priority() as usize].push_back(packet);
    }

    fn dequeue(&mut self, now: Time, _events: &mut dyn PacketEvents) -> Option<Packet> {
        let packet = self.next(now);
        self.buffer.set_in_transmission(packet.as_ref());
        packet
    }

    fn wake_at(&self) -> Option<Time> {
        self.wake_at
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn released(&mut self) {
        self.buffer.set_in_transmission(None);
    }
}

impl ShaperQueue {
    /// Removes and returns the packet to send now; `None` if no packet conforms.
    fn next(&mut self, now: Time) -> Option<Packet> {
        self.wake_at = None;
        for priority in SERVED_FIRST {
            let fifo = &mut self.fifos[priority as usize];
            let Some(first) = fifo.front() else { continue };
            if self.gate.admits(now, first) {
                let packet = fifo.pop_front()?;
                self.backlog.remove(&packet);
                return Some(packet);
            }
            let ready = self.gate.ready_at(first);
            self.wake_at = Some(self.wake_at.map_or(ready, |other| other.min(ready)));
        }
        None
    }
}

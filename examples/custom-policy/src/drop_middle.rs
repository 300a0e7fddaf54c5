use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Time};
use catnip_net::queue::{BufferBounds, PacketLimit, PortContext, QueueDiscipline, QueueKind};
use catnip_net::{Backlog, DropReason, Packet, PacketEvents};
use std::collections::VecDeque;

/// Configuration of [`DropMiddle`], `drop-middle:LIMIT` in a scenario.
#[derive(Debug)]
pub(crate) struct DropMiddleSpec(PacketLimit);

impl Kind for DropMiddleSpec {
    const USAGE: &'static [Usage] = &[(
        "drop-middle:LIMIT",
        "FIFO that drops the packet in its middle when it is full; LIMIT in packets, including the packet in transmission",
    )];
    const EXAMPLES: &'static [&'static str] = &["drop-middle:5"];
    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        text.value("a limit of at least 2 packets").map(Self)
    }
    fn write(&self, to: &mut Written) {
        to.name("drop-middle").value(self.0);
    }
}

impl QueueKind for DropMiddleSpec {
    type Queue = Box<dyn QueueDiscipline>;
    fn build(&self, _site: &PortContext<'_>) -> Self::Queue {
        Box::new(DropMiddle { packets: VecDeque::new(), bytes: 0, waiting: self.0.waiting().get() })
    }
    fn buffer_bounds(&self) -> BufferBounds {
        BufferBounds { guaranteed: self.0.total(), max: Some(self.0.total()) }
    }
}

/// FIFO queue. A packet that arrives at a full buffer pushes out the packet in the middle, so that neither the first nor the last packets
/// are lost.
#[derive(Debug)]
pub(crate) struct DropMiddle {
    packets: VecDeque<Packet>,
    bytes: u64,
    waiting: u32,
}

impl QueueDiscipline for DropMiddle {
    fn enqueue(&mut self, now: Time, packet: Packet, events: &mut dyn PacketEvents) {
        if self.packets.len() as u32 >= self.waiting
            && let Some(middle) = self.packets.remove(self.packets.len() / 2)
        {
            self.bytes -= u64::from(middle.len);
            events.dropped(now, middle, DropReason::PushedOut);
        }
        self.bytes += u64::from(packet.len);
        self.packets.push_back(packet);
    }

    fn dequeue(&mut self, _now: Time, _events: &mut dyn PacketEvents) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.bytes -= u64::from(packet.len);
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        Backlog { packets: self.packets.len() as u32, bytes: self.bytes }
    }
}

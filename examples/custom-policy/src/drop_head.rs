use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Time};
use catnip_net::queue::{Holds, Places, QueueDiscipline, QueueKind, Site};
use catnip_net::{Backlog, DropReason, Fate, Packet};
use std::collections::VecDeque;

/// As a scenario has it: `drop-head:LIMIT`.
#[derive(Debug)]
pub struct DropHeadSpec(Places);

impl Kind for DropHeadSpec {
    const USAGE: &'static [Usage] = &[(
        "drop-head:LIMIT",
        "FIFO that gives up the oldest packet; LIMIT counts the packet in transmission",
    )];
    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        text.value("a limit of at least 2 packets").map(Self)
    }
    fn write(&self, to: &mut Written) {
        to.name("drop-head").value(self.0);
    }
}

impl QueueKind for DropHeadSpec {
    type Queue = Box<dyn QueueDiscipline>;
    fn build(&self, _site: &Site<'_>) -> Self::Queue {
        Box::new(DropHead { packets: VecDeque::new(), bytes: 0, waiting: self.0.waiting().get() })
    }
    fn holds(&self) -> Holds {
        Holds { surely: self.0.all(), at_most: Some(self.0.all()) }
    }
}

/// FIFO; an arrival at a full buffer pushes out the packet that has waited longest, so that its loss is noticed sooner.
#[derive(Debug)]
pub struct DropHead {
    packets: VecDeque<Packet>,
    bytes: u64,
    waiting: u32,
}

impl QueueDiscipline for DropHead {
    fn enqueue(&mut self, now: Time, packet: Packet, fate: &mut dyn Fate) {
        if self.packets.len() as u32 >= self.waiting
            && let Some(oldest) = self.dequeue(now, fate)
        {
            fate.dropped(now, oldest, DropReason::PushedOut);
        }
        self.bytes += u64::from(packet.len);
        self.packets.push_back(packet);
    }

    fn dequeue(&mut self, _now: Time, _fate: &mut dyn Fate) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.bytes -= u64::from(packet.len);
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        Backlog { packets: self.packets.len() as u32, bytes: self.bytes }
    }
}

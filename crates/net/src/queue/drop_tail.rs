use super::QueueDiscipline;
use crate::{Backlog, DropReason, Fate, Packet};
use catnip_base::Time;
use std::collections::VecDeque;

/// FIFO; an arrival that finds the buffer full is dropped (CATNIP paper, section III-C).
#[derive(Debug)]
pub struct DropTail {
    packets: VecDeque<Packet>,
    waiting_limit: u32,
    bytes: u64,
}

impl DropTail {
    /// A queue in which at most `waiting_limit` packets wait beside the one in transmission.
    pub fn new(waiting_limit: u32) -> Self {
        Self { packets: VecDeque::new(), waiting_limit, bytes: 0 }
    }
}

impl QueueDiscipline for DropTail {
    #[inline]
    fn enqueue(&mut self, now: Time, packet: Packet, fate: &mut dyn Fate) {
        if self.packets.len() as u32 >= self.waiting_limit {
            return fate.dropped(now, packet, DropReason::Overflow);
        }
        self.bytes += u64::from(packet.len);
        self.packets.push_back(packet);
    }

    #[inline]
    fn dequeue(&mut self, _now: Time, _fate: &mut dyn Fate) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.bytes -= u64::from(packet.len);
        Some(packet)
    }

    fn fifo_limit(&self) -> Option<u32> {
        Some(self.waiting_limit)
    }

    fn backlog(&self) -> Backlog {
        Backlog { packets: self.packets.len() as u32, bytes: self.bytes }
    }
}

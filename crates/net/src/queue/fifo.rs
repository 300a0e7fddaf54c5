use crate::{Backlog, Packet, Priority};
use std::collections::VecDeque;

/// FIFO from which any packet can be removed without changing the order of the others.
#[derive(Debug, Default)]
pub(super) struct Fifo {
    packets: VecDeque<Packet>,
    bytes: u64,
    by_priority: [u32; Priority::COUNT],
}

impl Fifo {
    pub(super) fn len(&self) -> u32 {
        self.packets.len() as u32
    }

    pub(super) fn backlog(&self) -> Backlog {
        Backlog { packets: self.len(), bytes: self.bytes }
    }

    pub(super) fn count(&self, priority: Priority) -> u32 {
        self.by_priority[priority as usize]
    }

    pub(super) fn by_priority(&self) -> [u32; Priority::COUNT] {
        self.by_priority
    }

    pub(super) fn bytes_of(&self, priority: Priority) -> u64 {
        let of_priority = self.packets.iter().filter(|packet| packet.dscp.priority() == priority);
        of_priority.map(|packet| u64::from(packet.len)).sum()
    }

    pub(super) fn priority_at(&self, index: u32) -> Priority {
        self.packets[index as usize].dscp.priority()
    }

    /// Returns the packet that arrived first.
    pub(super) fn head(&self) -> Option<&Packet> {
        self.packets.front()
    }

    #[inline]
    pub(super) fn push(&mut self, packet: Packet) {
        self.bytes += u64::from(packet.len);
        self.by_priority[packet.dscp.priority() as usize] += 1;
        self.packets.push_back(packet);
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.subtract(&packet);
        Some(packet)
    }

    pub(super) fn remove(&mut self, index: u32) -> Packet {
        let packet = self.packets.remove(index as usize).expect("the index is within the queue");
        self.subtract(&packet);
        packet
    }

    /// Returns the index of the `nth` packet (from 0, in order of arrival) of this drop precedence. Panics if the queue holds fewer.
    pub(super) fn nth_of(&self, priority: Priority, nth: u32) -> u32 {
        let mut of_priority = self.packets.iter().enumerate().filter(|(_, p)| p.dscp.priority() == priority);
        of_priority.nth(nth as usize).expect("the queue holds that many").0 as u32
    }

    fn subtract(&mut self, packet: &Packet) {
        self.bytes -= u64::from(packet.len);
        self.by_priority[packet.dscp.priority() as usize] -= 1;
    }
}

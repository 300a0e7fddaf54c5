use crate::{Backlog, Colour, Packet};
use std::collections::VecDeque;

/// FIFO from which any packet can be removed without changing the order of the others.
#[derive(Debug, Default)]
pub(super) struct Fifo {
    packets: VecDeque<Packet>,
    bytes: u64,
    by_colour: [u32; Colour::COUNT],
}

impl Fifo {
    pub(super) fn len(&self) -> u32 {
        self.packets.len() as u32
    }

    pub(super) fn backlog(&self) -> Backlog {
        Backlog { packets: self.len(), bytes: self.bytes }
    }

    pub(super) fn count(&self, colour: Colour) -> u32 {
        self.by_colour[colour as usize]
    }

    pub(super) fn by_colour(&self) -> [u32; Colour::COUNT] {
        self.by_colour
    }

    pub(super) fn bytes_of(&self, colour: Colour) -> u64 {
        let of_colour = self.packets.iter().filter(|packet| packet.dscp.colour() == colour);
        of_colour.map(|packet| u64::from(packet.len)).sum()
    }

    pub(super) fn colour_at(&self, index: u32) -> Colour {
        self.packets[index as usize].dscp.colour()
    }

    /// Returns the packet that arrived first.
    pub(super) fn head(&self) -> Option<&Packet> {
        self.packets.front()
    }

    #[inline]
    pub(super) fn push(&mut self, packet: Packet) {
        self.bytes += u64::from(packet.len);
        self.by_colour[packet.dscp.colour() as usize] += 1;
        self.packets.push_back(packet);
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.forget(&packet);
        Some(packet)
    }

    pub(super) fn remove(&mut self, index: u32) -> Packet {
        let packet = self.packets.remove(index as usize).expect("the index is within the queue");
        self.forget(&packet);
        packet
    }

    /// Returns the index of the `nth` packet (from 0, in order of arrival) of this drop precedence. Panics if the queue holds fewer.
    pub(super) fn nth_of(&self, colour: Colour, nth: u32) -> u32 {
        let mut of_colour = self.packets.iter().enumerate().filter(|(_, p)| p.dscp.colour() == colour);
        of_colour.nth(nth as usize).expect("the queue holds that many").0 as u32
    }

    fn forget(&mut self, packet: &Packet) {
        self.bytes -= u64::from(packet.len);
        self.by_colour[packet.dscp.colour() as usize] -= 1;
    }
}

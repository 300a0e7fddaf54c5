use super::QueueDiscipline;
use crate::shape::{AnyShaper, Shaper};
use crate::{Backlog, DropReason, Fate, Packet};
use catnip_base::{Span, Time};
use std::collections::VecDeque;

/// DropTail whose buffer is not measured in packets.
#[derive(Debug)]
pub struct MeasuredDropTail {
    packets: VecDeque<Packet>,
    bytes: u64,
    room: Room,
}

#[derive(Debug)]
enum Room {
    Bytes {
        limit: u64,
        /// Of the packet in transmission, which keeps its place until its last bit has left.
        in_transmission: u32,
    },
    Wait {
        limit: Span,
        /// A copy of the wire, which knows when it will have sent all that was accepted.
        wire: AnyShaper,
        free_at: Time,
    },
}

impl Room {
    /// Takes an arrival of `len` bytes in, if there is room beside `waiting` bytes.
    fn accept(&mut self, now: Time, waiting: u64, len: u32) -> bool {
        match self {
            Self::Bytes { limit, in_transmission } => {
                waiting + u64::from(*in_transmission) + u64::from(len) <= *limit
            }
            Self::Wait { limit, wire, free_at } => {
                let accepted = free_at.since(now) <= *limit;
                if accepted {
                    *free_at = wire.finish(now.max(*free_at), len);
                }
                accepted
            }
        }
    }
}

impl MeasuredDropTail {
    /// At most `limit` bytes, those of the packet in transmission included.
    pub fn bytes(limit: u64) -> Self {
        Self::new(Room::Bytes { limit, in_transmission: 0 })
    }

    /// A packet that would wait longer than `limit` until its transmission begins is dropped; `wire` is as the port's.
    pub fn wait(limit: Span, wire: AnyShaper) -> Self {
        Self::new(Room::Wait { limit, wire, free_at: Time::ZERO })
    }

    fn new(room: Room) -> Self {
        Self { packets: VecDeque::new(), bytes: 0, room }
    }
}

impl QueueDiscipline for MeasuredDropTail {
    fn enqueue(&mut self, now: Time, packet: Packet, fate: &mut dyn Fate) {
        if !self.room.accept(now, self.bytes, packet.len) {
            return fate.dropped(now, packet, DropReason::Overflow);
        }
        self.bytes += u64::from(packet.len);
        self.packets.push_back(packet);
    }

    fn dequeue(&mut self, _now: Time, _fate: &mut dyn Fate) -> Option<Packet> {
        let packet = self.packets.pop_front();
        let len = packet.map_or(0, |packet| packet.len);
        self.bytes -= u64::from(len);
        if let Room::Bytes { in_transmission, .. } = &mut self.room {
            *in_transmission = len;
        }
        packet
    }

    fn backlog(&self) -> Backlog {
        Backlog { packets: self.packets.len() as u32, bytes: self.bytes }
    }
}

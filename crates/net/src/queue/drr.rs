use crate::Packet;
use std::collections::VecDeque;

/// Deficit round robin over the queues of flows, in which a queue that was empty for a while is served first (RFC 8290, section 4).
#[derive(Debug)]
pub(super) struct Drr {
    turns: Vec<Turn>,
    /// New queues: those in their first turn since they were empty, in order.
    new: VecDeque<u32>,
    /// Old queues: the others that take turns, in order.
    old: VecDeque<u32>,
    quantum: i64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    /// Bytes that the queue may still send in its turn.
    credit: i64,
    /// True if the queue is in one of the two lists.
    is_listed: bool,
}

impl Drr {
    /// Creates the turns of so many queues, each of which may send `quantum` bytes in a turn.
    pub(super) fn new(queues: u32, quantum: u32) -> Self {
        let turns = vec![Turn::default(); queues as usize];
        Self { turns, new: VecDeque::new(), old: VecDeque::new(), quantum: i64::from(quantum) }
    }

    /// Gives a queue a turn because a packet has arrived in it, unless it has one already.
    pub(super) fn activate(&mut self, queue: u32) {
        let turn = &mut self.turns[queue as usize];
        if !turn.is_listed {
            *turn = Turn { credit: self.quantum, is_listed: true };
            self.new.push_back(queue);
        }
    }

    /// Returns the next packet of all queues; `pop` takes one out of a queue.
    pub(super) fn next(&mut self, mut pop: impl FnMut(u32) -> Option<Packet>) -> Option<Packet> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let queue = *list.front()?;
            let turn = &mut self.turns[queue as usize];
            if turn.credit <= 0 {
                turn.credit += self.quantum;
                list.pop_front();
                self.old.push_back(queue);
                continue;
            }
            if let Some(packet) = pop(queue) {
                turn.credit -= i64::from(packet.len);
                return Some(packet);
            }
            // An emptied new queue becomes an old one for a turn: otherwise it could become new again at once and always be served first.
            if is_new {
                self.new.pop_front();
                self.old.push_back(queue);
            } else {
                self.old.pop_front();
                turn.is_listed = false;
            }
        }
    }
}

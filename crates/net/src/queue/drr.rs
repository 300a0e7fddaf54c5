use crate::Packet;
use std::collections::VecDeque;

/// Deficit round robin over the queues of flows. A queue that was empty for a while is served first (RFC 8290, section 4).
#[derive(Debug)]
pub(super) struct Drr {
    /// New queues, in order of service: queues in their first turn since they were empty.
    new: VecDeque<u32>,
    /// Old queues, in order of service: all other queues that take turns.
    old: VecDeque<u32>,
    quantum: i64,
}

/// State of a queue in the round. It is stored with the packets of the queue, so that one cache line is accessed instead of two.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turn {
    /// Bytes that the queue may still send in its turn.
    credit: i64,
    /// True if the queue is in one of the two lists.
    is_listed: bool,
}

impl Drr {
    /// Creates a round in which each queue may send `quantum` bytes in a turn.
    pub(super) fn new(quantum: u32) -> Self {
        Self { new: VecDeque::new(), old: VecDeque::new(), quantum: i64::from(quantum) }
    }

    /// Adds the queue with this index to the new queues if it is in neither list. Called when a packet has arrived in the queue.
    #[inline]
    pub(super) fn activate(&mut self, index: u32, turn: &mut Turn) {
        if !turn.is_listed {
            *turn = Turn { credit: self.quantum, is_listed: true };
            self.new.push_back(index);
        }
    }

    /// Returns the next packet of all queues. `turn` returns the state of a queue, and `pop` removes the first packet of a queue.
    #[inline]
    pub(super) fn next<Q>(
        &mut self,
        queues: &mut [Q],
        turn: impl Fn(&mut Q) -> &mut Turn,
        mut pop: impl FnMut(&mut Q) -> Option<Packet>,
    ) -> Option<Packet> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let index = *list.front()?;
            let queue = &mut queues[index as usize];
            if turn(queue).credit <= 0 {
                turn(queue).credit += self.quantum;
                list.pop_front();
                self.old.push_back(index);
                continue;
            }
            if let Some(packet) = pop(queue) {
                turn(queue).credit -= i64::from(packet.len);
                return Some(packet);
            }
            // An emptied new queue becomes an old queue for a turn. Otherwise it could become new again at once and always be served first.
            if is_new {
                self.new.pop_front();
                self.old.push_back(index);
            } else {
                self.old.pop_front();
                turn(queue).is_listed = false;
            }
        }
    }
}

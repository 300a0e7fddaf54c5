use super::flow_table::FlowTable;
use crate::Packet;

/// Deficit round robin over the queues of flows. A queue that was empty for a while is served first (RFC 8290, section 4).
#[derive(Debug)]
pub(super) struct Drr {
    /// New queues, in order of service: queues in their first turn since they were empty.
    new: List,
    /// Old queues, in order of service: all other queues that take turns.
    old: List,
    quantum: i64,
}

/// State of a queue in the round. It is stored with the packets of the queue, so that one cache line is accessed instead of two.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turn {
    /// Bytes that the queue may still send in its turn.
    credit: i64,
    /// Position of the next queue of the list; meaningless for the last one.
    next: u32,
    /// True if the queue is in one of the two lists.
    is_listed: bool,
}

impl Turn {
    /// Subtracts a packet that the queue sends from its credit.
    #[inline]
    pub(super) fn spend(&mut self, packet: &Packet) {
        self.credit -= i64::from(packet.len);
    }
}

/// Queue that takes turns.
pub(super) trait TakesTurns {
    /// True if an emptied new queue becomes an old queue even if there is no old queue before which it could be served (RFC 8290). Linux's
    /// FQ-CoDel removes it from the lists in this case.
    const KEEPS_TURN_ALONE: bool = true;
    /// Returns the state of the queue in the round.
    fn turn(&mut self) -> &mut Turn;
}

/// List of queues, linked by [`Turn::next`].
#[derive(Debug, Default)]
struct List {
    /// Positions of the first and the last queue; meaningless in an empty list.
    first: u32,
    last: u32,
    len: u32,
}

impl List {
    #[inline]
    fn push<Q: TakesTurns>(&mut self, queues: &mut FlowTable<Q>, position: u32) {
        if self.len == 0 {
            self.first = position;
        } else {
            queues[self.last].turn().next = position;
        }
        self.last = position;
        self.len += 1;
    }

    #[inline]
    fn pop<Q: TakesTurns>(&mut self, queues: &mut FlowTable<Q>) {
        self.first = queues[self.first].turn().next;
        self.len -= 1;
    }
}

impl Drr {
    /// Creates a round in which each queue may send `quantum` bytes in a turn.
    pub(super) fn new(quantum: u32) -> Self {
        Self { new: List::default(), old: List::default(), quantum: i64::from(quantum) }
    }

    /// Adds the queue at this position to the new queues if it is in neither list. Called when a packet has arrived in the queue.
    #[inline]
    pub(super) fn activate<Q: TakesTurns>(&mut self, queues: &mut FlowTable<Q>, position: u32) {
        let turn = queues[position].turn();
        if !turn.is_listed {
            *turn = Turn { credit: self.quantum, is_listed: true, ..*turn };
            self.new.push(queues, position);
        }
    }

    /// Removes all queues from the lists, and calls `empty` with each. Equivalent to [`Self::next`] if no packet waits. `empty` returns the
    /// number of a queue that need not exist any longer.
    #[inline]
    pub(super) fn clear<Q: TakesTurns>(
        &mut self,
        queues: &mut FlowTable<Q>,
        mut empty: impl FnMut(&mut Q) -> Option<u32>,
    ) {
        for list in [&mut self.new, &mut self.old] {
            while list.len > 0 {
                let queue = &mut queues[list.first];
                queue.turn().is_listed = false;
                let removed = empty(queue);
                list.pop(queues);
                if let Some(number) = removed {
                    queues.remove(number);
                }
            }
        }
    }

    /// Returns the next packet of all queues. `pop` removes the first packet of a queue. `leave` is called with a queue that has left the
    /// lists, and returns its number if it need not exist any longer.
    #[inline]
    pub(super) fn next<Q: TakesTurns>(
        &mut self,
        queues: &mut FlowTable<Q>,
        mut pop: impl FnMut(&mut Q) -> Option<Packet>,
        mut leave: impl FnMut(&Q) -> Option<u32>,
    ) -> Option<Packet> {
        loop {
            let is_new = self.new.len > 0;
            let list = if is_new { &mut self.new } else { &mut self.old };
            if list.len == 0 {
                return None;
            }
            let position = list.first;
            let queue = &mut queues[position];
            if queue.turn().credit <= 0 {
                queue.turn().credit += self.quantum;
                list.pop(queues);
                self.old.push(queues, position);
                continue;
            }
            if let Some(packet) = pop(queue) {
                queue.turn().spend(&packet);
                return Some(packet);
            }
            list.pop(queues);
            // An emptied new queue becomes an old queue for a turn. Otherwise it could become new again at once and always be served first.
            if is_new && (Q::KEEPS_TURN_ALONE || self.old.len > 0) {
                self.old.push(queues, position);
            } else {
                let queue = &mut queues[position];
                queue.turn().is_listed = false;
                if let Some(number) = leave(queue) {
                    queues.remove(number);
                }
            }
        }
    }
}

use crate::queue::QueueDiscipline;
use crate::shape::Shaper;
use crate::{DropReason, Fate, Packet, Priority};
use catnip_base::{Span, Time};
use std::collections::VecDeque;

/// The sending side of a link: a queue, a wire that takes time per byte, and a propagation delay.
///
/// Service is at logical time. A packet starts when the wire became free, even if the host wakes up later, so the
/// same arrivals give the same departures however late the host is. Packets that have started are kept in the
/// order in which they will arrive at the other end; this is why a port needs one calendar entry, for the first
/// of them, whatever its queue discipline.
#[derive(Debug)]
pub struct Port<Q, S> {
    queue: Q,
    shaper: S,
    delay: Span,
    /// When the wire becomes free.
    free_at: Time,
    /// The wire was free and the queue had nothing to send.
    idle: bool,
    /// Started packets; `arrived` is the time of arrival at the other end.
    wire: VecDeque<Packet>,
    counters: PortCounters,
}

/// What a port has to do next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Next {
    /// This packet arrives at the other end at this time.
    Deliver(Time, Packet),
    /// Nothing before then.
    Wait(Time),
    /// Nothing until something arrives.
    Idle,
}

/// What has happened at a port. Packets in = delivered + dropped + waiting + on the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Arrivals by priority.
    pub arrived: [u64; Priority::COUNT],
    /// Packets that have reached the other end.
    pub delivered: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Drops by priority and reason.
    pub dropped: [[u64; DropReason::COUNT]; Priority::COUNT],
}

impl PortCounters {
    /// Drops of one priority for any reason.
    pub fn dropped_of(&self, priority: Priority) -> u64 {
        self.dropped[priority as usize].iter().sum()
    }
}

/// Counts drops on their way to the host.
struct Counting<'a> {
    dropped: &'a mut [[u64; DropReason::COUNT]; Priority::COUNT],
    fate: &'a mut dyn Fate,
}

impl Fate for Counting<'_> {
    fn dropped(&mut self, now: Time, packet: Packet, why: DropReason) {
        self.dropped[packet.priority as usize][why as usize] += 1;
        self.fate.dropped(now, packet, why);
    }
    fn marked(&mut self, now: Time, packet: &Packet) {
        self.fate.marked(now, packet);
    }
}

impl<Q: QueueDiscipline, S: Shaper> Port<Q, S> {
    /// A port that is idle.
    pub fn new(queue: Q, shaper: S, delay: Span) -> Self {
        Self {
            queue,
            shaper,
            delay,
            free_at: Time::ZERO,
            idle: true,
            wire: VecDeque::new(),
            counters: PortCounters::default(),
        }
    }

    /// A packet arrives; departures due by then come first. Arrivals must not go back in time.
    #[inline]
    pub fn arrive(&mut self, at: Time, mut packet: Packet, fate: &mut dyn Fate) {
        self.advance(at, fate);
        packet.arrived = at;
        self.counters.arrived[packet.priority as usize] += 1;
        let mut counting = Counting { dropped: &mut self.counters.dropped, fate: &mut *fate };
        self.queue.enqueue(at, packet, &mut counting);
        if self.idle {
            self.serve(at, fate);
        }
    }

    /// Starts all packets whose turn comes by `now`, each at its own time.
    #[inline]
    pub fn advance(&mut self, now: Time, fate: &mut dyn Fate) {
        while !self.idle && self.free_at <= now {
            self.serve(self.free_at, fate);
        }
        while self.idle && self.queue.wake_at().is_some_and(|at| at <= now) {
            let at = self.queue.wake_at().expect("it was there in the condition");
            self.serve(at.max(self.free_at), fate);
        }
    }

    /// Delivers what has arrived at the other end by `now`, one packet a call, or says when to ask again.
    pub fn poll(&mut self, now: Time, fate: &mut dyn Fate) -> Next {
        self.advance(now, fate);
        match self.next_at() {
            None => Next::Idle,
            Some(at) if at > now => Next::Wait(at),
            Some(at) => {
                let packet = self.take(fate).expect("what is due after advancing is on the wire");
                Next::Deliver(at, packet)
            }
        }
    }

    /// When something happens next: the first arrival at the other end, or a held-back packet's turn.
    #[inline]
    pub fn next_at(&self) -> Option<Time> {
        match self.wire.front() {
            Some(packet) => Some(packet.arrived),
            None => self.queue.wake_at(),
        }
    }

    /// The first packet on the wire arrives at the other end; the wire goes on up to that time.
    #[inline]
    pub(crate) fn take(&mut self, fate: &mut dyn Fate) -> Option<Packet> {
        let packet = self.wire.pop_front()?;
        self.counters.delivered += 1;
        self.counters.delivered_bytes += u64::from(packet.len);
        self.advance(packet.arrived, fate);
        Some(packet)
    }

    /// What has happened so far.
    pub fn counters(&self) -> &PortCounters {
        &self.counters
    }

    /// The queue.
    pub fn queue(&self) -> &Q {
        &self.queue
    }

    /// Packets that have started and not arrived.
    pub fn on_the_wire(&self) -> usize {
        self.wire.len()
    }

    /// Puts the next packet on the wire at `start`, or falls idle.
    #[inline]
    fn serve(&mut self, start: Time, fate: &mut dyn Fate) {
        let mut fate = Counting { dropped: &mut self.counters.dropped, fate };
        let Some(mut packet) = self.queue.dequeue(start, &mut fate) else {
            self.idle = true;
            return;
        };
        self.idle = false;
        self.free_at = self.shaper.finish(start, packet.len);
        packet.arrived = self.free_at + self.delay;
        debug_assert!(
            self.wire.back().is_none_or(|last| last.arrived <= packet.arrived),
            "a wire keeps order"
        );
        self.wire.push_back(packet);
    }
}

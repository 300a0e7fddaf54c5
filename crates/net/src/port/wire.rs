use crate::{Packet, Route};
use catnip_base::{Span, Time};

/// Packets whose arrival time at the other end (`arrived`) is known, in order of arrival.
///
/// The first packet is stored inline: most wires carry at most one packet most of the time, so that no other memory is accessed.
#[derive(Debug)]
pub(super) struct Wire {
    /// First packet; on an empty wire, no packet and an arrival that never comes. An `Option` would be copied in pieces, which the
    /// processor then waits for.
    pub(super) first: Packet,
    len: u32,
    /// Maximum number of waiting packets, which the wire then holds, too; [`NOT_KNOWN`] if waiting packets are in a queue.
    pub(super) fifo_limit: u32,
    /// Number of packets after the first whose transmission had started at the last call of [`Wire::waiting`].
    started: u32,
    /// Position of the second packet in `ring`, modulo its length.
    head: u32,
    /// Packets after the first. The length is zero or a power of two.
    ring: Box<[Packet]>,
}

/// Value of [`Wire::fifo_limit`] if departures are not known at arrival.
pub(super) const NOT_KNOWN: u32 = u32::MAX;

impl Wire {
    pub(super) fn new(fifo_limit: u32) -> Self {
        let first = Packet::new(Time::NEVER, Route::default(), 0, 0);
        Self { first, len: 0, fifo_limit, started: 0, head: 0, ring: Box::default() }
    }

    #[inline(always)]
    pub(super) fn first(&self) -> Option<&Packet> {
        (self.len > 0).then_some(&self.first)
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends a packet that arrives at the other end at `arrival`. The packet is stored before its new time: a change of the packet itself
    /// would be read back, together with the rest, before it is in the cache.
    #[inline(always)]
    pub(super) fn push(&mut self, packet: Packet, arrival: Time) {
        if self.len == 0 {
            self.first = packet;
            self.first.arrived = arrival;
        } else {
            let following = self.len - 1;
            if following as usize == self.ring.len() {
                self.grow();
            }
            debug_assert!(self.last().arrived <= arrival, "a wire keeps order");
            let at = self.position(following);
            let slot = &mut self.ring[at];
            *slot = packet;
            slot.arrived = arrival;
        }
        self.len += 1;
    }

    /// Removes and returns the first packet. The wire must not be empty.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> Packet {
        let packet = self.first;
        self.len -= 1;
        if self.len == 0 {
            self.first.arrived = Time::NEVER;
        } else {
            self.first = self.ring[self.position(0)];
            self.head = self.head.wrapping_add(1);
            self.started = self.started.saturating_sub(1);
        }
        packet
    }

    /// Returns true if one more packet may wait at `now`, which must not decrease between calls.
    #[inline(always)]
    pub(super) fn has_space(&mut self, now: Time, delay: Span) -> bool {
        // The first packet does not wait.
        self.len <= self.fifo_limit || self.waiting(now, delay) < self.fifo_limit
    }

    /// Returns the number of packets whose transmission, which starts `delay` before the previous packet's arrival, has not started.
    #[inline(never)]
    fn waiting(&mut self, now: Time, delay: Span) -> u32 {
        let following = self.len - 1;
        let mut before = match self.started {
            0 => self.first.arrived,
            started => self.ring[self.position(started - 1)].arrived,
        };
        while self.started < following && before <= now + delay {
            before = self.ring[self.position(self.started)].arrived;
            self.started += 1;
        }
        following - self.started
    }

    pub(super) fn packets(&self) -> impl Iterator<Item = &Packet> {
        let following = 0..self.len.saturating_sub(1);
        self.first().into_iter().chain(following.map(|number| &self.ring[self.position(number)]))
    }

    /// Returns the last packet. The wire must not be empty.
    fn last(&self) -> &Packet {
        if self.len == 1 { &self.first } else { &self.ring[self.position(self.len - 2)] }
    }

    /// Returns the position of a packet in the ring; number 0 is the second packet of the wire.
    #[inline(always)]
    fn position(&self, number: u32) -> usize {
        self.head.wrapping_add(number) as usize & (self.ring.len() - 1)
    }

    #[cold]
    fn grow(&mut self) {
        let following = self.packets().skip(1).copied();
        let mut ring: Vec<Packet> = following.collect();
        ring.resize((2 * self.ring.len()).max(4), self.first);
        (self.ring, self.head) = (ring.into_boxed_slice(), 0);
    }
}

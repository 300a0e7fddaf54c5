use crate::{Backlog, Packet};
use catnip_base::{Span, Time};
use std::collections::VecDeque;
use std::num::NonZeroU32;

/// Packets that have crossed the wire but are held back by a stage behind it, and copies that directly follow their originals.
#[derive(Debug, Default)]
pub(crate) struct HoldQueue {
    /// Held packets in order of release, then of insertion. Most packets are held for the same duration, so most insertions are at the end.
    waiting: VecDeque<Held>,
    /// Number of held packets that are released early once enough packets have overtaken them.
    counting: u32,
    /// Index of the next stage of the packet that was removed last; 0 for packets from the wire.
    resume: u32,
    pub(crate) copies: u64,
    pub(crate) copied_bytes: u64,
}

#[derive(Debug)]
struct Held {
    at: Time,
    /// Index of the next stage to pass.
    stage: u32,
    /// Number of packets that must still overtake this packet to release it before `at`; `None` if it is held until `at` in any case.
    overtakers: Option<NonZeroU32>,
    packet: Packet,
}

impl HoldQueue {
    /// Returns the release time of the first held packet.
    #[inline]
    pub(crate) fn next_at(&self) -> Option<Time> {
        self.waiting.front().map(|first| first.at)
    }

    /// Holds a packet before `stage` until `at`, or until `overtakers` other packets have overtaken it, if that is sooner.
    pub(crate) fn hold(&mut self, at: Time, stage: u32, overtakers: Option<NonZeroU32>, packet: Packet) {
        self.counting += u32::from(overtakers.is_some());
        self.insert(Held { at, stage, overtakers, packet });
    }

    /// Inserts a copy of a packet that passes a stage at `now`. The copy continues at `stage`, directly behind the original.
    pub(crate) fn copy(&mut self, now: Time, stage: u32, copy: Packet) {
        self.copies += 1;
        self.copied_bytes += u64::from(copy.len);
        self.insert(Held { at: now, stage, overtakers: None, packet: copy });
    }

    /// Removes and returns the first held packet if its release is due by `now`.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<Packet> {
        self.next_at().filter(|&at| at <= now)?;
        let Held { at, stage, overtakers, packet } = self.waiting.pop_front()?;
        self.counting -= u32::from(overtakers.is_some());
        self.resume = stage;
        Some(Packet { arrived: at, ..packet })
    }

    /// Returns the index of the next stage of the packet that was removed last, and resets the index to 0.
    pub(crate) fn resume(&mut self) -> u32 {
        std::mem::take(&mut self.resume)
    }

    /// Records that a packet has passed the stage before `stage` at `now`, and has thus overtaken the packets held there.
    #[inline]
    pub(crate) fn overtake(&mut self, now: Time, stage: u32) {
        if self.counting > 0 {
            self.count(now, stage);
        }
    }

    #[inline(never)]
    fn count(&mut self, now: Time, stage: u32) {
        for index in 0..self.waiting.len() {
            let waiting = &mut self.waiting[index];
            let Some(remaining) = waiting.overtakers.filter(|_| waiting.stage == stage) else { continue };
            waiting.overtakers = NonZeroU32::new(remaining.get() - 1);
            if waiting.overtakers.is_none()
                && let Some(released) = self.waiting.remove(index)
            {
                // The packet moves to an earlier index, among the packets that are already due, so the index of the next element does not
                // change.
                self.counting -= 1;
                self.insert(Held { at: now, ..released });
            }
        }
    }

    pub(crate) fn backlog(&self) -> Backlog {
        let mut backlog = Backlog::default();
        self.waiting.iter().for_each(|waiting| backlog.add(&waiting.packet));
        backlog
    }

    fn insert(&mut self, waiting: Held) {
        let index = self.waiting.partition_point(|other| other.at <= waiting.at);
        self.waiting.insert(index, waiting);
    }
}

/// Forwarding decision for a packet that a stage behind the wire lets pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Forwarding {
    /// Immediate forwarding.
    #[default]
    Immediate,
    /// Delayed forwarding, during which other packets overtake the packet.
    Delayed {
        /// Longest holding time.
        by: Span,
        /// Number of overtaking packets that ends the holding time early; the packet then directly follows the last of them.
        overtakers: Option<NonZeroU32>,
    },
    /// Immediate forwarding of the packet, and of a copy directly behind it.
    Duplicated,
    /// Immediate forwarding with one corrupted bit.
    Corrupted {
        /// Index of the corrupted bit, counted from the first byte of the packet.
        bit: u32,
    },
}

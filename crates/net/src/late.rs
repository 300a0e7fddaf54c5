use crate::{Backlog, Packet};
use catnip_base::{Span, Time};
use std::collections::VecDeque;
use std::num::NonZeroU32;

/// Packets that have crossed a wire and have not come to the other end, because a stage behind the wire holds them back, and copies
/// that come right behind their originals.
#[derive(Debug, Default)]
pub(crate) struct Late {
    /// In order of time, then of being put here. Most are held for the same time, so that a packet joins the end.
    waiting: VecDeque<Waiting>,
    /// How many of them wait for others to overtake them.
    counting: u32,
    /// The stage that the packet passes next which was taken last; those from the wire begin with the first one.
    resume: u32,
    pub(crate) copies: u64,
    pub(crate) copied_bytes: u64,
}

#[derive(Debug)]
struct Waiting {
    at: Time,
    /// The next stage on its way.
    stage: u32,
    /// It goes on sooner if so many others have overtaken it.
    overtakers: Option<NonZeroU32>,
    packet: Packet,
}

impl Late {
    /// When the first one goes on.
    #[inline]
    pub(crate) fn next_at(&self) -> Option<Time> {
        self.waiting.front().map(|first| first.at)
    }

    /// Holds a packet back before this stage until then, or until so many others have overtaken it.
    pub(crate) fn hold(&mut self, at: Time, stage: u32, overtakers: Option<NonZeroU32>, packet: Packet) {
        self.counting += u32::from(overtakers.is_some());
        self.insert(Waiting { at, stage, overtakers, packet });
    }

    /// A copy of a packet that passes a stage now goes on from the stage behind it, right behind that packet.
    pub(crate) fn copy(&mut self, now: Time, stage: u32, copy: Packet) {
        self.copies += 1;
        self.copied_bytes += u64::from(copy.len);
        self.insert(Waiting { at: now, stage, overtakers: None, packet: copy });
    }

    /// The first one, if it goes on by now.
    pub(crate) fn take(&mut self, now: Time) -> Option<Packet> {
        self.next_at().filter(|&at| at <= now)?;
        let Waiting { at, stage, overtakers, packet } = self.waiting.pop_front()?;
        self.counting -= u32::from(overtakers.is_some());
        self.resume = stage;
        Some(Packet { arrived: at, ..packet })
    }

    /// The stage with which the packet goes on that was taken last, once asked.
    pub(crate) fn resume(&mut self) -> u32 {
        std::mem::take(&mut self.resume)
    }

    /// A packet has passed the stage before this one now: it has overtaken those that stand there.
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
            let Some(left) = waiting.overtakers.filter(|_| waiting.stage == stage) else { continue };
            waiting.overtakers = NonZeroU32::new(left.get() - 1);
            if waiting.overtakers.is_none()
                && let Some(free) = self.waiting.remove(index)
            {
                // It joins those before it; the next index is the same as before.
                self.counting -= 1;
                self.insert(Waiting { at: now, ..free });
            }
        }
    }

    pub(crate) fn backlog(&self) -> Backlog {
        let mut backlog = Backlog::default();
        self.waiting.iter().for_each(|waiting| backlog.add(&waiting.packet));
        backlog
    }

    fn insert(&mut self, waiting: Waiting) {
        let place = self.waiting.partition_point(|other| other.at <= waiting.at);
        self.waiting.insert(place, waiting);
    }
}

/// What becomes of a packet that a stage behind a wire lets pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Onward {
    /// It goes on.
    #[default]
    AtOnce,
    /// It goes on later, and others overtake it.
    Later {
        /// How long it is held back.
        by: Span,
        /// Or until so many others have passed, if that is sooner: right behind the last of them.
        overtakers: Option<NonZeroU32>,
    },
    /// It goes on, and a copy of it right behind.
    Twice,
    /// It goes on with one bit wrong.
    Corrupted {
        /// Which one, counted from its first byte.
        bit: u32,
    },
}

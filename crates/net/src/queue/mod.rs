//! Queue disciplines: which packet waits, which one leaves next, which one is given up.

mod catnip;
mod catnip_red;
mod drop_tail;
mod fifo;
mod measured;
mod red;
#[cfg(test)]
mod tests;

pub use catnip::{CatnipQueue, VictimRule};
pub use catnip_red::CatnipRed;
pub use drop_tail::DropTail;
pub use measured::MeasuredDropTail;
pub use red::{Red, RedLaw, RedParameters, Verdict};

use crate::loss::Lossy;
use crate::shape::RateSpec;
use crate::{Backlog, Fate, Packet};
use catnip_base::{Rate, Rng, Span, Stream, Time};
use std::fmt::Debug;

/// The contract of every queue.
///
/// A port calls `dequeue` each time its wire becomes ready, until the answer is `None`; so a `None` tells the
/// queue that the wire is idle from then on. After that the port asks again only after an `enqueue` or at
/// `wake_at`.
pub trait QueueDiscipline: Debug + Send {
    /// Takes `packet` in, or tells `fate` which packet is given up instead.
    fn enqueue(&mut self, now: Time, packet: Packet, fate: &mut dyn Fate);
    /// The packet that goes on the wire at `now`.
    fn dequeue(&mut self, now: Time, fate: &mut dyn Fate) -> Option<Packet>;
    /// For a queue that serves in order of arrival, drops nothing but arrivals, and that only for want of room: how many
    /// packets may wait. A port then counts by itself and never calls `enqueue`.
    fn fifo_limit(&self) -> Option<u32> {
        None
    }
    /// When a queue that holds packets back wants to be asked again.
    fn wake_at(&self) -> Option<Time> {
        None
    }
    /// What waits.
    fn backlog(&self) -> Backlog;
}

/// A queue discipline as configuration: plain data from which a port builds its queue.
#[derive(Clone, Debug, PartialEq)]
pub enum QueueSpec {
    /// FIFO that drops arrivals at a full buffer. `limit` counts the packet in transmission.
    DropTail {
        /// Packets the buffer holds, the one in transmission included; at least 2.
        limit: u32,
    },
    /// The same with a buffer measured in bytes. A packet larger than all of it never passes.
    DropTailBytes {
        /// Bytes the buffer holds, those of the packet in transmission included until its last bit has left.
        limit: u64,
    },
    /// The same with a buffer measured in time: an arrival is dropped if more than that would pass until its own
    /// transmission begins, with the rest of the packet in transmission before it.
    DropTailWait {
        /// The longest wait.
        limit: Span,
    },
    /// Random early detection.
    Red {
        /// Packets that may wait beside the one in transmission.
        limit: u32,
        /// The law's numbers.
        parameters: RedParameters,
    },
    /// CATNIP-Good. `limit` as for DropTail.
    CatnipGood {
        /// Packets the buffer holds, the one in transmission included; at least 2.
        limit: u32,
        /// Which LOW packet gives its place.
        victim: VictimRule,
    },
    /// CATNIP-Bad, its mirror image.
    CatnipBad {
        /// Packets the buffer holds, the one in transmission included; at least 2.
        limit: u32,
        /// Which HIGH packet gives its place.
        victim: VictimRule,
    },
    /// RED decides when a packet goes, CATNIP which one.
    CatnipRed {
        /// Packets that may wait beside the one in transmission.
        limit: u32,
        /// The law's numbers.
        parameters: RedParameters,
        /// Which LOW packet gives its place.
        victim: VictimRule,
    },
}

/// Stands for a wire without a bound.
const FASTEST: Rate = Rate::from_bits_per_second(u64::MAX).unwrap();

impl QueueSpec {
    /// The queue of port number `port` with this line rate, in the run with this seed.
    pub fn build(&self, rate: &RateSpec, seed: u64, port: u32) -> AnyQueue {
        let victims = Rng::new(seed, Stream::Victim(port));
        let law = |parameters| {
            let mean = rate.mean().unwrap_or(FASTEST);
            RedLaw::new(parameters, mean, Rng::new(seed, Stream::Queue(port)))
        };
        match *self {
            Self::DropTail { limit } => AnyQueue::DropTail(DropTail::new(limit - 1)),
            Self::DropTailBytes { limit } => AnyQueue::Measured(Box::new(MeasuredDropTail::bytes(limit))),
            Self::DropTailWait { limit } => {
                AnyQueue::Measured(Box::new(MeasuredDropTail::wait(limit, rate.build())))
            }
            Self::Red { limit, parameters } => AnyQueue::Red(Box::new(Red::new(limit, law(parameters)))),
            Self::CatnipGood { limit, victim } => {
                AnyQueue::Catnip(Box::new(CatnipQueue::good(limit - 1, victim, victims)))
            }
            Self::CatnipBad { limit, victim } => {
                AnyQueue::Catnip(Box::new(CatnipQueue::bad(limit - 1, victim, victims)))
            }
            Self::CatnipRed { limit, parameters, victim } => {
                AnyQueue::CatnipRed(Box::new(CatnipRed::new(limit, law(parameters), victim, victims)))
            }
        }
    }
}

/// The built-in queues, wrappers around them, and one of your own.
///
/// DropTail stands inline because most ports of most networks have it; the others are behind one pointer so that
/// ports stay small.
#[derive(Debug)]
pub enum AnyQueue {
    /// See [`DropTail`].
    DropTail(DropTail),
    /// See [`MeasuredDropTail`].
    Measured(Box<MeasuredDropTail>),
    /// See [`Red`].
    Red(Box<Red>),
    /// CATNIP-Good and CATNIP-Bad: see [`CatnipQueue`].
    Catnip(Box<CatnipQueue>),
    /// See [`CatnipRed`].
    CatnipRed(Box<CatnipRed>),
    /// A loss model around any of these.
    Lossy(Box<Lossy<AnyQueue>>),
    /// Anything else.
    Custom(Box<dyn QueueDiscipline>),
}

macro_rules! each_queue {
    ($any:expr, $queue:ident => $do:expr) => {
        match $any {
            AnyQueue::DropTail($queue) => $do,
            AnyQueue::Measured($queue) => $do,
            AnyQueue::Red($queue) => $do,
            AnyQueue::Catnip($queue) => $do,
            AnyQueue::CatnipRed($queue) => $do,
            AnyQueue::Lossy($queue) => $do,
            AnyQueue::Custom($queue) => $do,
        }
    };
}

impl QueueDiscipline for AnyQueue {
    #[inline]
    fn enqueue(&mut self, now: Time, packet: Packet, fate: &mut dyn Fate) {
        each_queue!(self, queue => queue.enqueue(now, packet, fate));
    }
    #[inline]
    fn dequeue(&mut self, now: Time, fate: &mut dyn Fate) -> Option<Packet> {
        each_queue!(self, queue => queue.dequeue(now, fate))
    }
    #[inline(always)]
    fn wake_at(&self) -> Option<Time> {
        match self {
            AnyQueue::DropTail(_)
            | AnyQueue::Measured(_)
            | AnyQueue::Red(_)
            | AnyQueue::Catnip(_)
            | AnyQueue::CatnipRed(_) => None,
            AnyQueue::Lossy(queue) => queue.wake_at(),
            AnyQueue::Custom(queue) => queue.wake_at(),
        }
    }
    fn fifo_limit(&self) -> Option<u32> {
        each_queue!(self, queue => queue.fifo_limit())
    }
    fn backlog(&self) -> Backlog {
        each_queue!(self, queue => queue.backlog())
    }
}

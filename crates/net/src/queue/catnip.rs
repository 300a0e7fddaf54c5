use super::QueueDiscipline;
use super::fifo::Fifo;
use crate::{Backlog, DropReason, Fate, Packet, Priority};
use catnip_base::{Rng, Time};

/// Which of the queued packets of the sacrificed priority gives its place to a protected arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VictimRule {
    /// One of them, uniformly at random: the paper's example.
    #[default]
    Random,
    /// The one that arrived last.
    Newest,
    /// The one that arrived first.
    Oldest,
    /// One queued packet of any priority is drawn; if it is protected itself, the arrival is dropped.
    Probe,
}

impl VictimRule {
    /// The place of the packet of priority `sacrificed` that goes, if one is found.
    pub(super) fn choose(self, queue: &Fifo, sacrificed: Priority, rng: &mut Rng) -> Option<u32> {
        let candidates = queue.count(sacrificed);
        if candidates == 0 {
            return None;
        }
        match self {
            Self::Random => Some(queue.nth_of(sacrificed, rng.below(candidates))),
            Self::Newest => Some(queue.nth_of(sacrificed, candidates - 1)),
            Self::Oldest => Some(queue.nth_of(sacrificed, 0)),
            Self::Probe => {
                let drawn = rng.below(queue.len());
                (queue.priority_at(drawn) == sacrificed).then_some(drawn)
            }
        }
    }
}

/// CATNIP-Good and its mirror image CATNIP-Bad (CATNIP paper, section III-C): DropTail, except that an arriving
/// packet of the protected priority takes the place of a queued packet of the other one.
///
/// Service stays FIFO and the remaining packets keep their order. A packet in transmission is out of reach.
#[derive(Debug)]
pub struct CatnipQueue {
    queue: Fifo,
    waiting_limit: u32,
    protected: Priority,
    sacrificed: Priority,
    victim: VictimRule,
    rng: Rng,
}

impl CatnipQueue {
    /// CATNIP-Good: HIGH packets are protected at the cost of LOW ones.
    pub fn good(waiting_limit: u32, victim: VictimRule, rng: Rng) -> Self {
        Self {
            queue: Fifo::default(),
            waiting_limit,
            protected: Priority::High,
            sacrificed: Priority::Low,
            victim,
            rng,
        }
    }

    /// CATNIP-Bad: LOW packets are protected at the cost of HIGH ones.
    pub fn bad(waiting_limit: u32, victim: VictimRule, rng: Rng) -> Self {
        let good = Self::good(waiting_limit, victim, rng);
        Self { protected: good.sacrificed, sacrificed: good.protected, ..good }
    }
}

impl QueueDiscipline for CatnipQueue {
    fn enqueue(&mut self, now: Time, packet: Packet, fate: &mut dyn Fate) {
        if self.queue.len() >= self.waiting_limit {
            let victim = (packet.priority == self.protected)
                .then(|| self.victim.choose(&self.queue, self.sacrificed, &mut self.rng))
                .flatten();
            match victim {
                None => return fate.dropped(now, packet, DropReason::Overflow),
                Some(index) => fate.dropped(now, self.queue.remove(index), DropReason::PushedOut),
            }
        }
        self.queue.push(packet);
    }

    fn dequeue(&mut self, _now: Time, _fate: &mut dyn Fate) -> Option<Packet> {
        self.queue.pop()
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }
}

use super::fifo::Fifo;
use super::victim::VictimRule;
use super::{Holds, Places, QueueDiscipline, QueueKind, Site};
use crate::{Backlog, Colour, DropReason, Fate, Packet};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Rng, Time};
use std::num::NonZeroU32;

/// CATNIP-Good, DropTail in which a HIGH arrival takes the place of a LOW packet, or CATNIP-Bad, its mirror image, as
/// configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CatnipSpec {
    good: bool,
    limit: Places,
    victim: VictimRule,
}

const GOOD: &str = "catnip-good";
const BAD: &str = "catnip-bad";

impl Kind for CatnipSpec {
    const USAGE: &'static [Usage] = &[
        ("catnip-good:LIMIT[,victim=random|newest|oldest|probe]", "HIGH arrivals push LOW packets out"),
        ("catnip-bad:LIMIT[,victim=…]", "LOW arrivals push HIGH packets out"),
    ];
    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let (limit, victim) = (text.value(Places::EXPECTED)?, VictimRule::read(text)?);
        Ok(Self { good: text.name() == GOOD, limit, victim })
    }
    fn write(&self, to: &mut Written) {
        let name = if self.good { GOOD } else { BAD };
        to.name(name).value(self.limit).option("victim", self.victim, VictimRule::default());
    }
}

impl QueueKind for CatnipSpec {
    type Queue = Box<CatnipQueue>;
    fn build(&self, site: &Site<'_>) -> Box<CatnipQueue> {
        let build = if self.good { CatnipQueue::good } else { CatnipQueue::bad };
        Box::new(build(self.limit.waiting(), self.victim, site.victims()))
    }
    fn holds(&self) -> Holds {
        Holds { surely: self.limit.all(), at_most: Some(self.limit.all()) }
    }
}

/// CATNIP-Good and its mirror image CATNIP-Bad (CATNIP paper, section III-C): DropTail, except that an arriving
/// HIGH packet takes the place of a queued LOW one. Of three colours, the one that is dropped first goes first; the paper
/// has two.
///
/// Service stays FIFO and the remaining packets keep their order. A packet in transmission is out of reach.
#[derive(Debug)]
pub struct CatnipQueue {
    queue: Fifo,
    waiting: NonZeroU32,
    /// Which colours go first.
    order: [Colour; Colour::COUNT],
    victim: VictimRule,
    rng: Rng,
}

impl CatnipQueue {
    /// CATNIP-Good, in which at most `waiting` packets wait beside the one in transmission: HIGH packets are protected at the cost of LOW ones.
    pub fn good(waiting: NonZeroU32, victim: VictimRule, rng: Rng) -> Self {
        Self { queue: Fifo::default(), waiting, order: Colour::DROPPED_FIRST, victim, rng }
    }

    /// CATNIP-Bad: LOW packets are protected at the cost of HIGH ones.
    pub fn bad(waiting: NonZeroU32, victim: VictimRule, rng: Rng) -> Self {
        let mut queue = Self::good(waiting, victim, rng);
        queue.order.reverse();
        queue
    }
}

impl QueueDiscipline for CatnipQueue {
    fn enqueue(&mut self, now: Time, packet: Packet, fate: &mut dyn Fate) {
        if self.queue.len() >= self.waiting.get() {
            let arrival = packet.dscp.colour();
            let victim = self.victim.choose(&self.queue, self.order, arrival, &mut self.rng);
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

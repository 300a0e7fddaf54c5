use super::fifo::Fifo;
use super::red::{RedLaw, RedSpec, red_drop};
use super::victim::VictimRule;
use super::{Holds, QueueDiscipline, QueueKind, Site};
use crate::{Backlog, Colour, DropReason, Fate, Packet};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Rng, Time};
use std::num::NonZeroU32;

/// RED decides when a packet goes, CATNIP which one, as configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CatnipRedSpec {
    /// The buffer and the law's numbers.
    pub red: RedSpec,
    /// Which LOW packet gives its place.
    pub victim: VictimRule,
}

impl Kind for CatnipRedSpec {
    const USAGE: &'static [Usage] =
        &[("catnip-red:LIMIT[,…]", "RED decides when a packet goes, a LOW one goes first")];
    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        Ok(Self { red: RedSpec::read(text)?, victim: VictimRule::read(text)? })
    }
    fn write(&self, to: &mut Written) {
        self.red.write_numbers(to.name("catnip-red")).option("victim", self.victim, VictimRule::default());
    }
}

impl QueueKind for CatnipRedSpec {
    type Queue = Box<CatnipRed>;
    fn build(&self, site: &Site<'_>) -> Box<CatnipRed> {
        Box::new(CatnipRed::new(self.red.waiting, self.red.law(site), self.victim, site.victims()))
    }
    fn holds(&self) -> Holds {
        self.red.holds()
    }
}

/// CATNIP-RED (CATNIP paper, section III-C): RED decides when a packet must go; then a LOW packet goes if there
/// is one, the arrival itself first.
#[derive(Debug)]
pub struct CatnipRed {
    queue: Fifo,
    waiting: NonZeroU32,
    law: RedLaw,
    victim: VictimRule,
    rng: Rng,
}

impl CatnipRed {
    /// A queue in which at most `waiting` packets wait.
    pub fn new(waiting: NonZeroU32, law: RedLaw, victim: VictimRule, rng: Rng) -> Self {
        Self { queue: Fifo::default(), waiting, law, victim, rng }
    }
}

impl QueueDiscipline for CatnipRed {
    fn enqueue(&mut self, now: Time, packet: Packet, fate: &mut dyn Fate) {
        if let Some(why) = red_drop(&mut self.law, now, &self.queue, self.waiting) {
            let (order, arrival) = (Colour::DROPPED_FIRST, packet.dscp.colour());
            let victim = self.victim.choose(&self.queue, order, arrival, &mut self.rng);
            match victim {
                None => return fate.dropped(now, packet, why),
                Some(index) => fate.dropped(now, self.queue.remove(index), DropReason::PushedOut),
            }
        }
        self.queue.push(packet);
    }

    fn dequeue(&mut self, now: Time, _fate: &mut dyn Fate) -> Option<Packet> {
        let packet = self.queue.pop();
        if packet.is_none() {
            self.law.on_idle(now);
        }
        packet
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }
}

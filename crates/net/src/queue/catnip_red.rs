use super::fifo::Fifo;
use super::red::{RedLaw, red_drop};
use super::{QueueDiscipline, VictimRule};
use crate::{Backlog, DropReason, Fate, Packet, Priority};
use catnip_base::{Rng, Time};

/// CATNIP-RED (CATNIP paper, section III-C): RED decides when a packet must go; then a LOW packet goes if there
/// is one, the arrival itself first.
#[derive(Debug)]
pub struct CatnipRed {
    queue: Fifo,
    waiting_limit: u32,
    law: RedLaw,
    victim: VictimRule,
    rng: Rng,
}

impl CatnipRed {
    /// A queue in which at most `waiting_limit` packets wait.
    pub fn new(waiting_limit: u32, law: RedLaw, victim: VictimRule, rng: Rng) -> Self {
        Self { queue: Fifo::default(), waiting_limit, law, victim, rng }
    }
}

impl QueueDiscipline for CatnipRed {
    fn enqueue(&mut self, now: Time, packet: Packet, fate: &mut dyn Fate) {
        if let Some(why) = red_drop(&mut self.law, now, &self.queue, self.waiting_limit) {
            let victim = (packet.priority == Priority::High)
                .then(|| self.victim.choose(&self.queue, Priority::Low, &mut self.rng))
                .flatten();
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

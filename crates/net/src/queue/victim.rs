use super::fifo::Fifo;
use super::limit::Buffer;
use crate::{DropReason, Packet, PacketEvents, Priority};
use catnip_base::notation::Notation;
use catnip_base::{ParseError, Rng, Time, keywords};

keywords! {
    /// Rule that selects the packet to push out for an arriving packet, among the queued packets of the least protected drop precedence.
    #[derive(Default)]
    pub enum VictimRule {
        /// Uniformly random packet, as in the paper's example.
        #[default]
        Random = ("random", "random packet of the sacrificed priority"),
        /// Packet that arrived last.
        Newest = ("newest", "packet of the sacrificed priority that arrived last"),
        /// Packet that arrived first.
        Oldest = ("oldest", "packet of the sacrificed priority that arrived first"),
        /// Uniformly random packet of any drop precedence. It is pushed out if it is less protected than the arriving packet; otherwise the
        /// arriving packet is dropped.
        Probe = ("probe", "random packet of any priority, or the arrival if that packet may not be pushed out"),
    }
}

impl VictimRule {
    /// Reads the rule in a queue's text, or the default if it has none.
    pub(super) fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let rule = text.take("victim").map_or(Ok(Self::default()), str::parse);
        rule.map_err(|_| text.error("victim=random, newest, oldest or probe"))
    }
}

/// Selector of the packets that are pushed out for an arriving packet.
#[derive(Debug)]
pub(super) struct Victims {
    rule: VictimRule,
    /// Drop precedences in the order in which they are pushed out.
    order: [Priority; Priority::COUNT],
    rng: Rng,
}

impl Victims {
    pub(super) fn new(rule: VictimRule, order: [Priority; Priority::COUNT], rng: Rng) -> Self {
        Self { rule, order, rng }
    }

    /// Returns the index of the packet to push out for a packet that arrives with drop precedence `arrival`; `None` if no packet can be
    /// pushed out. A packet can be pushed out if its drop precedence precedes `arrival` in `order`. The candidates are the packets of the
    /// first such drop precedence that the queue holds, or, with [`VictimRule::Probe`], of all such drop precedences.
    pub(super) fn choose(&mut self, queue: &Fifo, arrival: Priority) -> Option<u32> {
        let before = || self.order.into_iter().take_while(|&priority| priority != arrival);
        let victim_priority = before().find(|&priority| queue.count(priority) > 0)?;
        let candidates = queue.count(victim_priority);
        match self.rule {
            VictimRule::Random => Some(queue.nth_of(victim_priority, self.rng.below(candidates))),
            VictimRule::Newest => Some(queue.nth_of(victim_priority, candidates - 1)),
            VictimRule::Oldest => Some(queue.nth_of(victim_priority, 0)),
            VictimRule::Probe => {
                let drawn = self.rng.below(queue.len());
                before().any(|priority| priority == queue.priority_at(drawn)).then_some(drawn)
            }
        }
    }

    /// Pushes out as many packets as `packet` needs to fit, or none if the space of all candidates is not enough. Returns true if `packet`
    /// fits afterwards. Out of line, which keeps the common path short (measured: 2 % of all instructions).
    #[inline(never)]
    pub(super) fn push_out(
        &mut self,
        now: Time,
        packet: &Packet,
        (queue, buffer): (&mut Fifo, &Buffer),
        events: &mut dyn PacketEvents,
    ) -> bool {
        let priority = packet.dscp.priority();
        let can_fit = self.can_push_out(packet, queue, buffer);
        while can_fit && !buffer.accepts(queue.backlog(), packet) {
            let Some(index) = self.choose(queue, priority) else { return false };
            events.dropped(now, queue.remove(index), DropReason::PushedOut);
        }
        can_fit
    }

    /// Returns true if `packet` would fit, in bytes, after the removal of all packets that may be pushed out for it. A large packet may
    /// need the space of several packets.
    fn can_push_out(&self, packet: &Packet, queue: &Fifo, buffer: &Buffer) -> bool {
        let mut with = queue.backlog();
        with.add(packet);
        let excess = buffer.excess_bytes(with);
        let candidates = self.order.into_iter().take_while(|&other| other != packet.dscp.priority());
        excess == 0 || excess <= candidates.map(|other| queue.bytes_of(other)).sum()
    }
}

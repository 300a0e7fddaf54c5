use super::fifo::Fifo;
use super::places::Room;
use crate::{Colour, DropReason, Fate, Packet};
use catnip_base::notation::Notation;
use catnip_base::{ParseError, Rng, Time, words};

words! {
    /// Which of the queued packets of the sacrificed colour gives its place to a protected arrival.
    #[derive(Default)]
    pub enum VictimRule {
        /// One of them, uniformly at random: the paper's example.
        #[default]
        Random = ("random", "any of them"),
        /// The one that arrived last.
        Newest = ("newest", "the one that arrived last"),
        /// The one that arrived first.
        Oldest = ("oldest", "the one that arrived first"),
        /// One queued packet of any colour is drawn; if it is no less protected, the arrival is dropped.
        Probe = ("probe", "any packet, or else the arrival"),
    }
}

impl VictimRule {
    /// The rule that a queue's text names.
    pub(super) fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let rule = text.take("victim").map_or(Ok(Self::default()), str::parse);
        rule.map_err(|_| text.error("victim=random, newest, oldest or probe"))
    }
}

/// Who gives its place to an arrival.
#[derive(Debug)]
pub(super) struct Victims {
    rule: VictimRule,
    /// Which colours go first.
    order: [Colour; Colour::COUNT],
    rng: Rng,
}

impl Victims {
    pub(super) fn new(rule: VictimRule, order: [Colour; Colour::COUNT], rng: Rng) -> Self {
        Self { rule, order, rng }
    }

    /// The place of the packet that goes for an arrival of this colour, if one is found: one of the colour that goes first, of
    /// those that go before the arrival's own.
    pub(super) fn choose(&mut self, queue: &Fifo, arrival: Colour) -> Option<u32> {
        let before = || self.order.into_iter().take_while(|&colour| colour != arrival);
        let sacrificed = before().find(|&colour| queue.count(colour) > 0)?;
        let candidates = queue.count(sacrificed);
        match self.rule {
            VictimRule::Random => Some(queue.nth_of(sacrificed, self.rng.below(candidates))),
            VictimRule::Newest => Some(queue.nth_of(sacrificed, candidates - 1)),
            VictimRule::Oldest => Some(queue.nth_of(sacrificed, 0)),
            VictimRule::Probe => {
                let drawn = self.rng.below(queue.len());
                before().any(|colour| colour == queue.colour_at(drawn)).then_some(drawn)
            }
        }
    }

    /// Pushes out whom it takes to let this one in, or nobody where that could not be enough. Apart from the usual way, which
    /// stays short without it (counted: 2 % of all instructions).
    #[inline(never)]
    pub(super) fn make_room(
        &mut self,
        now: Time,
        packet: &Packet,
        (queue, room): (&mut Fifo, &Room),
        fate: &mut dyn Fate,
    ) -> bool {
        let colour = packet.dscp.colour();
        let may = self.could_make_room(packet, queue, room);
        while may && !room.takes(queue.backlog(), packet) {
            let Some(index) = self.choose(queue, colour) else { return false };
            fate.dropped(now, queue.remove(index), DropReason::PushedOut);
        }
        may
    }

    /// Would there be room without the packets that go before this one? A large arrival may need the room of several.
    fn could_make_room(&self, packet: &Packet, queue: &Fifo, room: &Room) -> bool {
        let mut with = queue.backlog();
        with.add(packet);
        let lacks = room.lacks_bytes(with);
        let before = self.order.into_iter().take_while(|&other| other != packet.dscp.colour());
        lacks == 0 || lacks <= before.map(|other| queue.bytes_of(other)).sum()
    }
}

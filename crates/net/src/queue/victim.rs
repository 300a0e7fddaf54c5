use super::fifo::Fifo;
use crate::Colour;
use catnip_base::notation::Notation;
use catnip_base::{ParseError, Rng, words};

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

    /// The place of the packet that goes for an arrival of this colour, if one is found: one of the colour that goes first
    /// by `order`, of those that go before the arrival's own.
    pub(super) fn choose(
        self,
        queue: &Fifo,
        order: [Colour; Colour::COUNT],
        arrival: Colour,
        rng: &mut Rng,
    ) -> Option<u32> {
        let before = || order.into_iter().take_while(|&colour| colour != arrival);
        let sacrificed = before().find(|&colour| queue.count(colour) > 0)?;
        let candidates = queue.count(sacrificed);
        match self {
            Self::Random => Some(queue.nth_of(sacrificed, rng.below(candidates))),
            Self::Newest => Some(queue.nth_of(sacrificed, candidates - 1)),
            Self::Oldest => Some(queue.nth_of(sacrificed, 0)),
            Self::Probe => {
                let drawn = rng.below(queue.len());
                before().any(|colour| colour == queue.colour_at(drawn)).then_some(drawn)
            }
        }
    }
}

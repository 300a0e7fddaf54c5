use super::fifo::Fifo;
use crate::Priority;
use catnip_base::notation::Notation;
use catnip_base::{ParseError, Rng, words};

words! {
    /// Which of the queued packets of the sacrificed priority gives its place to a protected arrival.
    #[derive(Default)]
    pub enum VictimRule {
        /// One of them, uniformly at random: the paper's example.
        #[default]
        Random = ("random", "any of them"),
        /// The one that arrived last.
        Newest = ("newest", "the one that arrived last"),
        /// The one that arrived first.
        Oldest = ("oldest", "the one that arrived first"),
        /// One queued packet of any priority is drawn; if it is protected itself, the arrival is dropped.
        Probe = ("probe", "any packet, or else the arrival"),
    }
}

impl VictimRule {
    /// The rule that a queue's text names.
    pub(super) fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let rule = text.take("victim").map_or(Ok(Self::default()), str::parse);
        rule.map_err(|_| text.error("victim=random, newest, oldest or probe"))
    }

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

use catnip_base::words;
use catnip_law::eca;

words! {
    /// Rule by which early congestion avoidance stops doubling. The paper prints no rule.
    #[derive(Default)]
    pub enum EcaRule {
        /// Linear growth for each ACK that finds at most two windows unsent: the rule that gives the paper's idle page times
        /// (docs/deviations.md).
        #[default]
        LastRound = ("last-round", "with at most two windows unsent"),
        /// End of slow start, from a window of 4 segments on, once the next doubled window would finish the document. ssthresh becomes the
        /// window.
        FinalWindow = ("final-window", "before the doubled window that would complete the document"),
        /// End of slow start once linear growth to the end takes at most one round more than doubling. ssthresh becomes the window.
        OneMoreRound = ("one-more-round", "as soon as it takes at most one additional round trip"),
    }
}

impl EcaRule {
    /// Returns true if a window of `window` whole segments opens linearly while `left` segments are unsent.
    pub(super) fn acts(self, window: u64, left: u64) -> bool {
        match self {
            Self::LastRound => eca::last_round(window, left),
            Self::FinalWindow => eca::final_window(window, left),
            Self::OneMoreRound => eca::one_more_round(window, left),
        }
    }

    /// Returns true if slow start ends as soon as the rule applies.
    pub(super) fn is_final(self) -> bool {
        self != Self::LastRound
    }
}

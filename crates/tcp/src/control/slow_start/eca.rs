use catnip_base::words;
use catnip_law::eca;

words! {
    /// Rule by which early congestion avoidance stops the doubling of cwnd. The paper gives no explicit rule.
    #[derive(Default)]
    pub enum EcaRule {
        /// Linear growth for each ACK that arrives while at most two windows of data are unsent. This rule reproduces the paper's page
        /// times on an idle network (docs/deviations.md).
        #[default]
        LastRound = ("last-round", "with at most two windows unsent"),
        /// End of slow start, from a window of 4 segments on, once the next doubled window would send the rest of the document. ssthresh
        /// becomes the window.
        FinalWindow = ("final-window", "before the doubled window that would complete the document"),
        /// End of slow start once the rest of the document takes at most one round more with linear growth than with doubling. ssthresh
        /// becomes the window.
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

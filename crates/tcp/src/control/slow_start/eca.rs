use catnip_base::keywords;
use catnip_law::eca;

keywords! {
    /// Rule by which early congestion avoidance stops the doubling of cwnd. The paper gives no explicit rule.
    #[derive(Default)]
    pub enum EcaRule {
        /// Linear growth for each ACK that arrives while at most two congestion windows of data are unsent. This rule reproduces the
        /// paper's page times on an idle network (docs/deviations.md).
        #[default]
        LastRound = ("last-round", "with at most two windows unsent"),
        /// End of slow start when the next doubled window would send the rest of the document, if cwnd is at least 4 segments. ssthresh
        /// becomes cwnd.
        FinalWindow = ("final-window", "before the doubled window that would complete the document"),
        /// End of slow start when the rest of the document takes at most one round trip more with linear growth than with doubling.
        /// ssthresh becomes cwnd.
        OneMoreRound = ("one-more-round", "as soon as it takes at most one additional round trip"),
    }
}

impl EcaRule {
    /// Returns true if a window of `window` whole segments grows linearly while `unsent` segments are unsent.
    pub(super) fn is_linear(self, window: u64, unsent: u64) -> bool {
        match self {
            Self::LastRound => eca::last_round(window, unsent),
            Self::FinalWindow => eca::final_window(window, unsent),
            Self::OneMoreRound => eca::one_more_round(window, unsent),
        }
    }

    /// Returns true if slow start ends when the rule applies for the first time.
    pub(super) fn ends_slow_start(self) -> bool {
        self != Self::LastRound
    }
}

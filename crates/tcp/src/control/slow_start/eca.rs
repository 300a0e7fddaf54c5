use catnip_base::words;
use catnip_law::eca;

words! {
    /// When early congestion avoidance stops doubling. The paper prints no rule.
    #[derive(Default)]
    pub enum EcaRule {
        /// An ACK that finds at most two windows unsent opens the window linearly: the rule that gives the paper's
        /// idle page times (docs/deviations.md).
        #[default]
        LastRound = ("last-round", "with at most two windows unsent"),
        /// From a window of 4 on, ssthresh becomes the window once the next doubled window would finish the document.
        FinalWindow = ("final-window", "before the doubled window that would finish"),
        /// ssthresh becomes the window once growing linearly to the end takes at most one round more than doubling.
        OneMoreRound = ("one-more-round", "when that costs at most one round"),
    }
}

impl EcaRule {
    /// Does a window of so many whole segments open linearly now that so many have yet to be sent?
    pub(super) fn acts(self, window: u64, left: u64) -> bool {
        match self {
            Self::LastRound => eca::last_round(window, left),
            Self::FinalWindow => eca::final_window(window, left),
            Self::OneMoreRound => eca::one_more_round(window, left),
        }
    }

    /// Is slow start over once it has acted?
    pub(super) fn is_final(self) -> bool {
        self != Self::LastRound
    }
}

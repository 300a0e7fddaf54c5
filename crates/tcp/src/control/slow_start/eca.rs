use catnip_base::words;

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

/// The smallest window that can trigger a fast retransmit, segments.
const SMALLEST_USEFUL_WINDOW: f64 = 4.0;

impl EcaRule {
    /// Does a window of so many whole segments open linearly now that so many have yet to be sent?
    pub(super) fn acts(self, window: f64, left: f64) -> bool {
        match self {
            Self::LastRound => left <= 2.0 * window,
            Self::FinalWindow => window >= SMALLEST_USEFUL_WINDOW && left > 0.0 && left <= 2.0 * window,
            Self::OneMoreRound => {
                left > 0.0 && rounds(left, window, |w| w + 1.0) <= 1 + rounds(left, window, |w| 2.0 * w)
            }
        }
    }

    /// Is slow start over once it has acted?
    pub(super) fn is_final(self) -> bool {
        self != Self::LastRound
    }
}

/// Rounds in which windows that begin at the successor of `window` send `left` segments.
fn rounds(mut left: f64, mut window: f64, grow: impl Fn(f64) -> f64) -> u32 {
    let mut rounds = 0;
    while left > 0.0 {
        window = grow(window);
        left -= window;
        rounds += 1;
    }
    rounds
}

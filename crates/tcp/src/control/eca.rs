use super::{Ack, Congestion, CongestionControl, Control, ControlKind, Phase, Reno};
use crate::TcpConfig;
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Time, words};

/// Early congestion avoidance as configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EcaSpec(pub EcaRule);

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

impl Kind for EcaSpec {
    const USAGE: &'static [Usage] = &[
        ("eca[:last-round]", "early congestion avoidance: linear growth once at most two windows are unsent"),
        ("eca:final-window", "the same before the doubled window that would finish the document"),
        ("eca:one-more-round", "the same as soon as it costs at most one round more"),
    ];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let rule = text.next().map_or(Ok(EcaRule::default()), str::parse);
        rule.map(Self).map_err(|_| text.error("eca:last-round, eca:final-window or eca:one-more-round"))
    }

    fn write(&self, to: &mut Written) {
        to.name("eca");
        if self.0 != EcaRule::default() {
            to.value(self.0);
        }
    }
}

impl ControlKind for EcaSpec {
    type Control = Eca;
    fn build(&self, config: &TcpConfig) -> Eca {
        Eca::new(Reno::new(config), self.0)
    }
}

/// Early congestion avoidance (CATNIP paper, section III-B): a source that knows the size of its document leaves
/// slow start before the burst that would end it.
#[derive(Clone, Debug)]
pub struct Eca {
    reno: Reno,
    rule: EcaRule,
}

/// The smallest window that can trigger a fast retransmit, segments.
const SMALLEST_USEFUL_WINDOW: f64 = 4.0;

impl Eca {
    /// Reno that also looks at what is left to send.
    pub fn new(reno: Reno, rule: EcaRule) -> Self {
        Self { reno, rule }
    }

    fn acts(&self, unsent: u64) -> bool {
        let (window, left) = (self.reno.whole_cwnd(), self.reno.segments(unsent).ceil());
        match self.rule {
            EcaRule::LastRound => left <= 2.0 * window,
            EcaRule::FinalWindow => window >= SMALLEST_USEFUL_WINDOW && left > 0.0 && left <= 2.0 * window,
            EcaRule::OneMoreRound => {
                left > 0.0 && rounds(left, window, |w| w + 1.0) <= 1 + rounds(left, window, |w| 2.0 * w)
            }
        }
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

impl CongestionControl for Eca {
    fn control(&self) -> Control {
        self.reno.control()
    }

    fn phase(&self, unsent: u64) -> Phase {
        if self.acts(unsent) { Phase::CongestionAvoidance } else { self.reno.phase(unsent) }
    }

    fn on_ack(&mut self, ack: &Ack) {
        let phase = self.phase(ack.unsent);
        if phase != self.reno.phase(ack.unsent) && self.rule != EcaRule::LastRound {
            self.reno.end_slow_start();
        }
        self.reno.grow(phase, ack);
    }

    fn on_congestion(&mut self, event: &Congestion) {
        self.reno.on_congestion(event);
    }

    fn on_recovered(&mut self, now: Time, limit: u64) {
        self.reno.on_recovered(now, limit);
    }
}

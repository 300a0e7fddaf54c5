//! Slow start: growth of the window before congestion avoidance, and the end of doubling without a loss. Every controller with a slow start
//! supports each [`SlowStartKind`].

mod eca;
mod hystart;
mod hystart_plus;
#[cfg(test)]
mod tests;

pub use eca::EcaRule;
pub use hystart::HyStart;
pub use hystart_plus::HyStartPlus;

use super::Ack;
use catnip_base::keywords;

keywords! {
    /// Slow start algorithm of a controller.
    #[derive(Default)]
    pub enum SlowStartKind {
        /// Standard slow start (RFC 5681, section 3.1).
        #[default]
        Standard = ("standard", "doubles the window per round trip until a loss (RFC 5681)"),
        /// See [`HyStartPlus`].
        HyStartPlus = ("hystart++", "slower growth, then linear growth, once round-trip times increase (RFC 9406)"),
        /// See [`HyStart`].
        HyStart = ("hystart", "ends once round-trip times increase or ACKs arrive in a long train (Linux)"),
        /// See [`EcaRule::LastRound`].
        Eca = ("eca", "early congestion avoidance: linear growth once at most two windows are unsent"),
        /// See [`EcaRule::FinalWindow`].
        EcaFinalWindow = ("eca-final-window", "early congestion avoidance before the doubled window that would complete the document"),
        /// See [`EcaRule::OneMoreRound`].
        EcaOneMoreRound = ("eca-one-more-round", "early congestion avoidance as soon as it takes at most one additional round trip"),
    }
}

impl SlowStartKind {
    /// Returns the slow start with early congestion avoidance by `rule`.
    pub fn of(rule: EcaRule) -> Self {
        match rule {
            EcaRule::LastRound => Self::Eca,
            EcaRule::FinalWindow => Self::EcaFinalWindow,
            EcaRule::OneMoreRound => Self::EcaOneMoreRound,
        }
    }
}

/// Slow start state of a connection.
#[derive(Clone, Debug)]
pub struct SlowStart {
    rule: Rule,
    /// Maximum growth per ACK in standard slow start and with early congestion avoidance, segments.
    limit: f64,
}

#[derive(Clone, Debug)]
enum Rule {
    Standard,
    Eca(EcaRule),
    HyStartPlus(Box<HyStartPlus>),
    HyStart(Box<HyStart>),
}

/// Effect of an ACK on the window in slow start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Growth {
    /// Growth of the window, segments.
    pub segments: f64,
    /// True if slow start ends. ssthresh then becomes cwnd.
    pub ends: bool,
}

impl From<SlowStartKind> for SlowStart {
    fn from(kind: SlowStartKind) -> Self {
        let rule = match kind {
            SlowStartKind::Standard => Rule::Standard,
            SlowStartKind::HyStartPlus => Rule::HyStartPlus(Box::default()),
            SlowStartKind::HyStart => Rule::HyStart(Box::default()),
            SlowStartKind::Eca => Rule::Eca(EcaRule::LastRound),
            SlowStartKind::EcaFinalWindow => Rule::Eca(EcaRule::FinalWindow),
            SlowStartKind::EcaOneMoreRound => Rule::Eca(EcaRule::OneMoreRound),
        };
        // RFC 5681, equation 2: "cwnd += min (N, SMSS)".
        Self { rule, limit: 1.0 }
    }
}

impl SlowStart {
    /// Sets if the window grows by all bytes that an ACK acknowledges, or by at most one segment per ACK.
    pub fn byte_counting(self, byte_counting: bool) -> Self {
        Self { limit: if byte_counting { f64::INFINITY } else { 1.0 }, ..self }
    }

    /// Returns true if early congestion avoidance increases a window of `cwnd` segments linearly while `unsent` bytes are unsent.
    #[inline]
    pub fn is_linear(&self, unsent: u64, cwnd: f64, segment: f64) -> bool {
        // ns-2 may halve a window of one segment, so the window counts as at least one segment.
        matches!(self.rule, Rule::Eca(rule) if rule.is_linear((cwnd as u64).max(1), unsent.div_ceil(segment as u64)))
    }

    /// Returns true if slow start ends permanently when growth becomes linear.
    pub fn ends_when_linear(&self) -> bool {
        matches!(self.rule, Rule::Eca(rule) if rule.ends_slow_start())
    }

    /// Handles an ACK in slow start. The window has `cwnd` segments of `segment` bytes.
    #[inline]
    pub fn on_ack(&mut self, ack: &Ack, cwnd: f64, segment: f64) -> Growth {
        let acked = ack.bytes as f64 / segment;
        match &mut self.rule {
            Rule::Standard | Rule::Eca(_) => Growth { segments: acked.min(self.limit), ends: false },
            Rule::HyStartPlus(it) => it.on_ack(ack, acked),
            Rule::HyStart(it) => it.on_ack(ack, acked, cwnd, segment),
        }
    }

    /// Handles a congestion event; `is_timeout` is true for a timeout.
    pub fn on_congestion(&mut self, is_timeout: bool) {
        match &mut self.rule {
            Rule::Standard | Rule::Eca(_) => {}
            // RFC 9406, section 4.3: "HyStart++ ... SHOULD be used only for the initial slow start".
            Rule::HyStartPlus(_) => self.rule = Rule::Standard,
            Rule::HyStart(it) if is_timeout => **it = HyStart::default(),
            Rule::HyStart(_) => {}
        }
    }
}

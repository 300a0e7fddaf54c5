//! Slow start: how the window opens before congestion avoidance, and when it stops doubling without a loss. Each kind goes with
//! each controller that has one.

mod eca;
mod hystart;
mod hystart_plus;
#[cfg(test)]
mod tests;

pub use eca::EcaRule;
pub use hystart::HyStart;
pub use hystart_plus::HyStartPlus;

use super::Ack;
use catnip_base::words;

words! {
    /// Which slow start a controller has.
    #[derive(Default)]
    pub enum SlowStartKind {
        /// RFC 5681, section 3.1.
        #[default]
        Standard = ("standard", "the window doubles per round trip until something is lost (RFC 5681)"),
        /// See [`HyStartPlus`].
        HyStartPlus = ("hystart++", "it grows more slowly, then linearly, once round trips get longer (RFC 9406)"),
        /// See [`HyStart`].
        HyStart = ("hystart", "it ends once round trips get longer or ACKs come in a long train (Linux)"),
        /// See [`EcaRule::LastRound`].
        Eca = ("eca", "early congestion avoidance: linear growth once at most two windows are unsent"),
        /// See [`EcaRule::FinalWindow`].
        EcaFinalWindow = ("eca-final-window", "it ends before the doubled window that would finish the document"),
        /// See [`EcaRule::OneMoreRound`].
        EcaOneMoreRound = ("eca-one-more-round", "it ends as soon as that costs at most one round more"),
    }
}

impl SlowStartKind {
    /// Early congestion avoidance by this rule.
    pub fn of(rule: EcaRule) -> Self {
        match rule {
            EcaRule::LastRound => Self::Eca,
            EcaRule::FinalWindow => Self::EcaFinalWindow,
            EcaRule::OneMoreRound => Self::EcaOneMoreRound,
        }
    }
}

/// The slow start of a connection.
#[derive(Clone, Debug)]
pub struct SlowStart {
    rule: Rule,
    /// Segments that an ACK counts for at most in a standard one.
    limit: f64,
}

#[derive(Clone, Debug)]
enum Rule {
    Standard,
    Eca(EcaRule),
    HyStartPlus(Box<HyStartPlus>),
    HyStart(Box<HyStart>),
}

/// What an ACK does to a window in slow start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Growth {
    /// It grows by so many segments.
    pub segments: f64,
    /// Slow start ends there: ssthresh is the window.
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
    /// The same; does an ACK count for all that it acknowledges?
    pub fn byte_counting(self, byte_counting: bool) -> Self {
        Self { limit: if byte_counting { f64::INFINITY } else { 1.0 }, ..self }
    }

    /// Early congestion avoidance: does a window of so many segments open linearly while so many bytes are unsent?
    #[inline]
    pub fn is_linear(&self, unsent: u64, cwnd: f64, segment: f64) -> bool {
        // ns-2 may halve a window of one segment.
        matches!(self.rule, Rule::Eca(rule) if rule.acts((cwnd as u64).max(1), unsent.div_ceil(segment as u64)))
    }

    /// Is it over once it was linear?
    pub fn ends_linear(&self) -> bool {
        matches!(self.rule, Rule::Eca(rule) if rule.is_final())
    }

    /// An ACK in slow start finds a window of so many segments of so many bytes.
    #[inline]
    pub fn on_ack(&mut self, ack: &Ack, cwnd: f64, segment: f64) -> Growth {
        let acked = ack.bytes as f64 / segment;
        match &mut self.rule {
            Rule::Standard | Rule::Eca(_) => Growth { segments: acked.min(self.limit), ends: false },
            Rule::HyStartPlus(it) => it.on_ack(ack, acked),
            Rule::HyStart(it) => it.on_ack(ack, acked, cwnd, segment),
        }
    }

    /// Something was lost, or seemed to be; the timer said so or not.
    pub fn on_congestion(&mut self, by_timer: bool) {
        match &mut self.rule {
            Rule::Standard | Rule::Eca(_) => {}
            // RFC 9406, section 4.3: "HyStart++ ... SHOULD be used only for the initial slow start".
            Rule::HyStartPlus(_) => self.rule = Rule::Standard,
            Rule::HyStart(it) if by_timer => **it = HyStart::default(),
            Rule::HyStart(_) => {}
        }
    }
}

//! Slow start: how the window opens before congestion avoidance, and when it stops doubling without a loss. Each kind goes with
//! each controller that has one.

mod hystart;
mod hystart_plus;
#[cfg(test)]
mod tests;

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
    }
}

/// The slow start of a connection.
#[derive(Clone, Debug)]
pub enum SlowStart {
    /// RFC 5681, section 3.1.
    Standard,
    /// See [`HyStartPlus`].
    HyStartPlus(Box<HyStartPlus>),
    /// See [`HyStart`].
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
        match kind {
            SlowStartKind::Standard => Self::Standard,
            SlowStartKind::HyStartPlus => Self::HyStartPlus(Box::default()),
            SlowStartKind::HyStart => Self::HyStart(Box::default()),
        }
    }
}

impl SlowStart {
    /// An ACK in slow start finds a window of so many segments of so many bytes.
    #[inline]
    pub fn on_ack(&mut self, ack: &Ack, cwnd: f64, segment: f64) -> Growth {
        let acked = ack.bytes as f64 / segment;
        match self {
            // RFC 5681, equation 2: "cwnd += min (N, SMSS)".
            Self::Standard => Growth { segments: acked.min(1.0), ends: false },
            Self::HyStartPlus(it) => it.on_ack(ack, acked),
            Self::HyStart(it) => it.on_ack(ack, acked, cwnd, segment),
        }
    }

    /// Something was lost, or seemed to be; the timer said so or not.
    pub fn on_congestion(&mut self, by_timer: bool) {
        match self {
            Self::Standard => {}
            // RFC 9406, section 4.3: "HyStart++ ... SHOULD be used only for the initial slow start".
            Self::HyStartPlus(_) => *self = Self::Standard,
            Self::HyStart(it) if by_timer => **it = HyStart::default(),
            Self::HyStart(_) => {}
        }
    }
}

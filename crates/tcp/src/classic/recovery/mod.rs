//! Loss recovery: what to resend. A recovery is told of ACKs and timeouts and answers what they mean; the sender
//! does the rest.

mod newreno;
mod reno;
mod sack;
mod tahoe;

pub use newreno::NewReno;
pub use reno::Reno;
pub use sack::Sack;
pub use tahoe::Tahoe;

use crate::Scoreboard;
pub(super) use crate::recovery::{DUPACK_THRESHOLD, RecoveryKind};

/// What the sender knows when an ACK arrives; all in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// What the ACK says.
    pub ack: u64,
    /// First byte not acknowledged before it.
    pub una: u64,
    /// End of everything sent so far.
    pub max: u64,
    /// Duplicate ACKs in a row, this one included.
    pub dupacks: u32,
    /// A full segment.
    pub segment: u64,
    /// See [`crate::TcpConfig::second_always_fast`].
    pub second_always_fast: bool,
    /// See [`crate::TcpConfig::inflate_without_retransmit`].
    pub inflate_without_retransmit: bool,
}

/// What a duplicate ACK means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDuplicate {
    /// It is not counted.
    Ignore,
    /// Nothing yet.
    Count,
    /// A segment was lost: a congestion episode begins, and the first segment is sent again at once.
    FastRetransmit,
    /// A segment was lost: start over from there with a window of one.
    SlowStart,
}

/// What an ACK of new data means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnAdvance {
    /// All is well.
    Normal,
    /// Recovery is over.
    Recovered {
        /// What partial ACKs took from cwnd, bytes.
        taken: u64,
        /// The ACK may open the window besides, if the configuration says so.
        grows: bool,
    },
    /// More is missing.
    Partial {
        /// The first missing segment is sent again at once.
        resend: bool,
        /// The retransmission timer starts anew.
        restart_timer: bool,
        /// The back-off ends, though there is no sample.
        ends_backoff: bool,
    },
}

/// Fast retransmit happens once per window: not before everything that was out at the last episode, and something
/// beyond it, is acknowledged (RFC 6582, section 4; ns-2's `bugFix_`).
#[derive(Clone, Copy, Debug)]
struct Gate {
    opens_at: u64,
}

impl Gate {
    fn is_open(self, facts: &Facts) -> bool {
        facts.una >= self.opens_at || (facts.second_always_fast && facts.una == facts.segment)
    }

    fn close(&mut self, max: u64) {
        self.opens_at = max + 1;
    }
}

/// The built-in recoveries.
#[derive(Debug)]
pub enum Recovery {
    /// See [`Tahoe`].
    Tahoe(Tahoe),
    /// See [`Reno`].
    Reno(Reno),
    /// See [`NewReno`].
    NewReno(NewReno),
    /// See [`Sack`].
    Sack(Sack),
}

impl Recovery {
    /// A recovery of this kind for a new connection, without a fast retransmit before so many bytes are acknowledged.
    pub fn new(kind: RecoveryKind, earliest_fast_retransmit: u64) -> Self {
        let gate = Gate { opens_at: earliest_fast_retransmit };
        match kind {
            RecoveryKind::Tahoe => Self::Tahoe(Tahoe::new(gate)),
            RecoveryKind::Reno => Self::Reno(Reno::new(gate)),
            RecoveryKind::NewReno => Self::NewReno(NewReno::new(gate)),
            RecoveryKind::Sack1 => Self::Sack(Sack::new(gate)),
            RecoveryKind::SackRfc6675 | RecoveryKind::Rack | RecoveryKind::NewRenoRfc6582 => {
                unreachable!("a recovery of the modern sender")
            }
        }
    }

    /// A duplicate ACK. With SACK, `news` says whether its blocks told anything new.
    pub fn on_duplicate(&mut self, facts: &Facts, news: bool) -> OnDuplicate {
        match self {
            Self::Tahoe(r) => r.on_duplicate(facts),
            Self::Reno(r) => r.on_duplicate(facts),
            Self::NewReno(r) => r.on_duplicate(facts),
            Self::Sack(r) => r.on_duplicate(facts, news),
        }
    }

    /// An ACK of new data.
    #[inline]
    pub fn on_advance(&mut self, facts: &Facts) -> OnAdvance {
        match self {
            Self::Tahoe(_) => OnAdvance::Normal,
            Self::Reno(r) => r.on_advance(),
            Self::NewReno(r) => r.on_advance(facts),
            Self::Sack(r) => r.on_advance(facts),
        }
    }

    /// The timer expired.
    pub fn on_timeout(&mut self, max: u64) {
        match self {
            Self::Tahoe(r) => r.on_timeout(max),
            Self::Reno(r) => r.on_timeout(max),
            Self::NewReno(r) => r.on_timeout(max),
            Self::Sack(r) => r.on_timeout(max),
        }
    }

    /// What the other side reported beyond the cumulative ACK, if this recovery looks at it.
    pub fn scoreboard(&mut self) -> Option<&mut Scoreboard> {
        match self {
            Self::Sack(r) => Some(&mut r.scoreboard),
            _ => None,
        }
    }

    /// Is a fast recovery going on?
    pub fn in_recovery(&self) -> bool {
        match self {
            Self::Tahoe(_) => false,
            Self::Reno(r) => r.in_recovery(),
            Self::NewReno(r) => r.in_recovery(),
            Self::Sack(r) => r.in_recovery(),
        }
    }

    /// cwnd with what duplicate ACKs add to it and partial ACKs take from it.
    #[inline]
    pub fn window(&self, cwnd: u64) -> u64 {
        match self {
            Self::Tahoe(_) | Self::Sack(_) => cwnd,
            Self::Reno(r) => cwnd + r.inflation(),
            Self::NewReno(r) => r.window(cwnd),
        }
    }

    /// What partial ACKs have left of cwnd.
    pub fn deflated(&self, cwnd: u64) -> u64 {
        match self {
            Self::NewReno(r) => r.deflated(cwnd),
            _ => cwnd,
        }
    }

    /// What partial ACKs have taken from cwnd, bytes.
    pub fn taken(&self) -> u64 {
        match self {
            Self::NewReno(r) => r.taken(),
            _ => 0,
        }
    }
}

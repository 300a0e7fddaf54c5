//! Loss recovery of the classic senders. A recovery receives ACKs and timeouts and returns an action, which the sender performs.

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

/// State of the sender when an ACK arrives; sequence numbers and sizes in bytes.
#[derive(Clone, Copy, Debug)]
pub struct AckContext {
    /// Acknowledgement number of the ACK.
    pub ack: u64,
    /// SND.UNA before the ACK.
    pub snd_una: u64,
    /// End of the data sent so far, SND.MAX.
    pub snd_max: u64,
    /// Consecutive duplicate ACKs, including this one.
    pub dupacks: u32,
    /// Size of a full segment.
    pub segment: u64,
    /// Value of [`crate::TcpConfig::second_always_fast`].
    pub second_always_fast: bool,
    /// Value of [`crate::TcpConfig::inflate_without_retransmit`].
    pub inflate_without_retransmit: bool,
}

/// Action for a duplicate ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DupackAction {
    /// Duplicate ACK that does not count.
    Ignore,
    /// No action except counting the duplicate ACK.
    Count,
    /// Fast retransmit: a congestion episode begins, and the first unacknowledged segment is retransmitted immediately.
    FastRetransmit,
    /// Slow start from the lost segment with a cwnd of one segment.
    SlowStart,
}

/// Action for an ACK of new data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewAckAction {
    /// Normal processing, outside of recovery.
    Normal,
    /// End of the recovery.
    Recovered {
        /// Reduction of cwnd due to partial ACKs, bytes.
        deflation: u64,
        /// True if the recovery permits that the ACK also increases cwnd. The configuration may still forbid it.
        grows_cwnd: bool,
    },
    /// Partial ACK: more segments are missing.
    Partial {
        /// True if the first missing segment is retransmitted immediately.
        retransmit: bool,
        /// True if the retransmission timer restarts.
        restart_timer: bool,
        /// True if the RTO back-off ends although there is no RTT sample.
        ends_backoff: bool,
    },
}

/// Limit of one fast retransmit per window of data. The next fast retransmit requires an ACK beyond the data that was outstanding at the
/// last fast retransmit or timeout (RFC 6582, section 4; ns-2's `bugFix_`).
#[derive(Clone, Copy, Debug)]
struct FastRetransmitGate {
    blocked_until: u64,
}

impl FastRetransmitGate {
    fn is_open(self, ctx: &AckContext) -> bool {
        ctx.snd_una >= self.blocked_until || (ctx.second_always_fast && ctx.snd_una == ctx.segment)
    }

    fn close(&mut self, snd_max: u64) {
        self.blocked_until = snd_max + 1;
    }
}

/// Built-in recoveries.
#[derive(Debug)]
pub enum Recovery {
    /// Fast retransmit without fast recovery, see [`Tahoe`].
    Tahoe(Tahoe),
    /// Fast recovery until the first new ACK, see [`Reno`].
    Reno(Reno),
    /// Fast recovery with partial ACKs, see [`NewReno`].
    NewReno(NewReno),
    /// Recovery with SACK, see [`Sack`].
    Sack(Sack),
}

impl Recovery {
    /// Creates a recovery of type `kind` for a new connection. No fast retransmit happens until `earliest_fast_retransmit` bytes are
    /// acknowledged.
    pub fn new(kind: RecoveryKind, earliest_fast_retransmit: u64) -> Self {
        let gate = FastRetransmitGate { blocked_until: earliest_fast_retransmit };
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

    /// Handles a duplicate ACK. With SACK, `has_new_delivery` is true if the SACK blocks report new data.
    pub fn on_duplicate(&mut self, ctx: &AckContext, has_new_delivery: bool) -> DupackAction {
        match self {
            Self::Tahoe(r) => r.on_duplicate(ctx),
            Self::Reno(r) => r.on_duplicate(ctx),
            Self::NewReno(r) => r.on_duplicate(ctx),
            Self::Sack(r) => r.on_duplicate(ctx, has_new_delivery),
        }
    }

    /// Handles an ACK of new data.
    #[inline]
    pub fn on_new_ack(&mut self, ctx: &AckContext) -> NewAckAction {
        match self {
            Self::Tahoe(_) => NewAckAction::Normal,
            Self::Reno(r) => r.on_new_ack(),
            Self::NewReno(r) => r.on_new_ack(ctx),
            Self::Sack(r) => r.on_new_ack(ctx),
        }
    }

    /// Handles an expiry of the retransmission timer.
    pub fn on_timeout(&mut self, snd_max: u64) {
        match self {
            Self::Tahoe(r) => r.on_timeout(snd_max),
            Self::Reno(r) => r.on_timeout(snd_max),
            Self::NewReno(r) => r.on_timeout(snd_max),
            Self::Sack(r) => r.on_timeout(snd_max),
        }
    }

    /// Returns the scoreboard of data SACKed beyond the cumulative ACK, if this recovery uses SACK.
    pub fn scoreboard(&mut self) -> Option<&mut Scoreboard> {
        match self {
            Self::Sack(r) => Some(&mut r.scoreboard),
            _ => None,
        }
    }

    /// Returns true during fast recovery.
    pub fn in_recovery(&self) -> bool {
        match self {
            Self::Tahoe(_) => false,
            Self::Reno(r) => r.in_recovery(),
            Self::NewReno(r) => r.in_recovery(),
            Self::Sack(r) => r.in_recovery(),
        }
    }

    /// Returns cwnd including its inflation by duplicate ACKs and its deflation by partial ACKs.
    #[inline]
    pub fn window(&self, cwnd: u64) -> u64 {
        match self {
            Self::Tahoe(_) | Self::Sack(_) => cwnd,
            Self::Reno(r) => cwnd + r.inflation(),
            Self::NewReno(r) => r.window(cwnd),
        }
    }

    /// Returns cwnd reduced by the deflation due to partial ACKs.
    pub fn deflated(&self, cwnd: u64) -> u64 {
        match self {
            Self::NewReno(r) => r.deflated(cwnd),
            _ => cwnd,
        }
    }

    /// Returns the deflation of cwnd due to partial ACKs, bytes.
    pub fn deflation(&self) -> u64 {
        match self {
            Self::NewReno(r) => r.deflation(),
            _ => 0,
        }
    }
}

use super::{AckContext, DUPACK_THRESHOLD, DupackAction, FastRetransmitGate, NewAckAction};
use crate::Scoreboard;

/// Recovery with selective acknowledgement as in ns-2's Sack1 (Fall and Floyd 1996): missing segments are retransmitted while the pipe is
/// below cwnd. The pipe is a count of segments: each duplicate ACK subtracts one, a partial ACK subtracts two, and each transmission adds
/// one.
#[derive(Debug)]
pub struct Sack {
    pub(super) scoreboard: Scoreboard,
    gate: FastRetransmitGate,
    recovery: Option<Episode>,
    /// True from a timeout until new data is acknowledged. Duplicate ACKs are ignored during this time.
    after_timeout: bool,
}

#[derive(Debug)]
struct Episode {
    recovery_point: u64,
    /// Number of segments in the network.
    pipe: i64,
    /// End of the retransmitted data (HighRxt). All missing data below this byte was retransmitted.
    high_rxt: u64,
}

impl Sack {
    pub(super) fn new(gate: FastRetransmitGate) -> Self {
        Self { scoreboard: Scoreboard::default(), gate, recovery: None, after_timeout: false }
    }

    pub(super) fn on_duplicate(&mut self, ctx: &AckContext, has_new_delivery: bool) -> DupackAction {
        if let Some(episode) = &mut self.recovery {
            episode.pipe -= 1;
            return if has_new_delivery { DupackAction::Count } else { DupackAction::Ignore };
        }
        if self.after_timeout || !has_new_delivery {
            return DupackAction::Ignore;
        }
        if ctx.dupacks != DUPACK_THRESHOLD || !self.gate.is_open(ctx) {
            return DupackAction::Count;
        }
        self.gate.close(ctx.snd_max);
        let in_flight = ((ctx.snd_max - ctx.snd_una) / ctx.segment) as i64;
        let high_rxt = ctx.snd_una + ctx.segment;
        self.recovery = Some(Episode {
            recovery_point: ctx.snd_max,
            pipe: in_flight - i64::from(DUPACK_THRESHOLD),
            high_rxt,
        });
        DupackAction::FastRetransmit
    }

    pub(super) fn on_new_ack(&mut self, ctx: &AckContext) -> NewAckAction {
        self.after_timeout = false;
        let Some(episode) = &mut self.recovery else {
            // ns-2 clears the scoreboard with each ACK outside of recovery.
            self.scoreboard.clear();
            return NewAckAction::Normal;
        };
        if ctx.ack >= episode.recovery_point {
            self.recovery = None;
            self.scoreboard.clear();
            self.gate.blocked_until = 0;
            return NewAckAction::Recovered { deflation: 0, grows_cwnd: false };
        }
        // The lost segment and its retransmission have both left the network.
        episode.pipe -= 2;
        NewAckAction::Partial { retransmit: false, restart_timer: true, ends_backoff: true }
    }

    pub(super) fn on_timeout(&mut self, snd_max: u64) {
        self.gate.close(snd_max);
        self.recovery = None;
        self.after_timeout = true;
        self.scoreboard.clear();
    }

    pub(crate) fn in_recovery(&self) -> bool {
        self.recovery.is_some()
    }

    /// Returns true if a recovery is in progress and the pipe is below cwnd.
    pub(crate) fn can_send(&self, cwnd: u64, segment: u64) -> bool {
        self.recovery.as_ref().is_some_and(|episode| episode.pipe < (cwnd / segment) as i64)
    }

    /// Returns the start of the first missing segment that was not retransmitted during this recovery.
    pub(crate) fn next_missing(&self, snd_una: u64) -> Option<u64> {
        let episode = self.recovery.as_ref()?;
        self.scoreboard.next_hole(episode.high_rxt.max(snd_una))
    }

    /// Records the transmission of a segment that ends at `end`, if a recovery is in progress.
    pub(crate) fn on_sent(&mut self, end: u64, retransmission: bool) {
        if let Some(episode) = &mut self.recovery {
            episode.pipe += 1;
            if retransmission {
                episode.high_rxt = episode.high_rxt.max(end);
            }
        }
    }
}

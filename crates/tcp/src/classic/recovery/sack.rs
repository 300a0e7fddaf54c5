use super::{DUPACK_THRESHOLD, Facts, Gate, OnAdvance, OnDuplicate};
use crate::Scoreboard;

/// Recovery with selective acknowledgement as in ns-2's Sack1 (Fall and Floyd 1996): missing segments are retransmitted while the pipe is
/// below cwnd. The pipe is a count of segments: each duplicate ACK subtracts one, a partial ACK subtracts two, and each transmission adds
/// one.
#[derive(Debug)]
pub struct Sack {
    pub(super) scoreboard: Scoreboard,
    gate: Gate,
    recovery: Option<Episode>,
    /// True from a timeout until new data is acknowledged. Duplicate ACKs are ignored during this time.
    after_timeout: bool,
}

#[derive(Debug)]
struct Episode {
    end: u64,
    /// Number of segments in the network.
    pipe: i64,
    /// End of the retransmitted data (HighRxt). All missing data below this byte was retransmitted.
    resent_to: u64,
}

impl Sack {
    pub(super) fn new(gate: Gate) -> Self {
        Self { scoreboard: Scoreboard::default(), gate, recovery: None, after_timeout: false }
    }

    pub(super) fn on_duplicate(&mut self, facts: &Facts, news: bool) -> OnDuplicate {
        if let Some(episode) = &mut self.recovery {
            episode.pipe -= 1;
            return if news { OnDuplicate::Count } else { OnDuplicate::Ignore };
        }
        if self.after_timeout || !news {
            return OnDuplicate::Ignore;
        }
        if facts.dupacks != DUPACK_THRESHOLD || !self.gate.is_open(facts) {
            return OnDuplicate::Count;
        }
        self.gate.close(facts.max);
        let out = ((facts.max - facts.snd_una) / facts.segment) as i64;
        let resent_to = facts.snd_una + facts.segment;
        self.recovery = Some(Episode { end: facts.max, pipe: out - i64::from(DUPACK_THRESHOLD), resent_to });
        OnDuplicate::FastRetransmit
    }

    pub(super) fn on_advance(&mut self, facts: &Facts) -> OnAdvance {
        self.after_timeout = false;
        let Some(episode) = &mut self.recovery else {
            // ns-2 clears the scoreboard with each ACK outside of recovery.
            self.scoreboard.clear();
            return OnAdvance::Normal;
        };
        if facts.ack >= episode.end {
            self.recovery = None;
            self.scoreboard.clear();
            self.gate.opens_at = 0;
            return OnAdvance::Recovered { taken: 0, grows: false };
        }
        // The lost segment and its retransmission have both left the network.
        episode.pipe -= 2;
        OnAdvance::Partial { resend: false, restart_timer: true, ends_backoff: true }
    }

    pub(super) fn on_timeout(&mut self, max: u64) {
        self.gate.close(max);
        self.recovery = None;
        self.after_timeout = true;
        self.scoreboard.clear();
    }

    pub(crate) fn in_recovery(&self) -> bool {
        self.recovery.is_some()
    }

    /// Returns true if a recovery is in progress and the pipe is below cwnd.
    pub(crate) fn has_room(&self, cwnd: u64, segment: u64) -> bool {
        self.recovery.as_ref().is_some_and(|episode| episode.pipe < (cwnd / segment) as i64)
    }

    /// Returns the start of the first missing segment that was not retransmitted during this recovery.
    pub(crate) fn next_missing(&self, snd_una: u64) -> Option<u64> {
        let episode = self.recovery.as_ref()?;
        self.scoreboard.next_hole(episode.resent_to.max(snd_una))
    }

    /// Records the transmission of a segment that ends at `end`, if a recovery is in progress.
    pub(crate) fn on_sent(&mut self, end: u64, retransmission: bool) {
        if let Some(episode) = &mut self.recovery {
            episode.pipe += 1;
            if retransmission {
                episode.resent_to = episode.resent_to.max(end);
            }
        }
    }
}

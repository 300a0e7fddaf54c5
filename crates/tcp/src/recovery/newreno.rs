use super::{DUPACK_THRESHOLD, Facts, Gate, OnAdvance, OnDuplicate};
use catnip_base::notation::Usage;

pub(super) const USAGE: Usage =
    ("newreno", "fast recovery until all that was out is acknowledged (RFC 6582)");

/// NewReno (RFC 6582): fast recovery lasts until everything that was out when it began is acknowledged; each
/// partial ACK resends the next missing segment and takes from the window what has left the network.
#[derive(Debug)]
pub struct NewReno {
    gate: Gate,
    recovery: Option<Episode>,
    /// What duplicate ACKs outside of recovery add to the window, bytes.
    stray_inflation: u64,
}

#[derive(Debug)]
struct Episode {
    /// Everything sent when it began ends here.
    end: u64,
    /// What duplicate ACKs have added to the window, bytes.
    inflation: u64,
    /// What partial ACKs have taken from cwnd itself, bytes.
    deflation: u64,
    had_partial: bool,
}

impl NewReno {
    pub(super) fn new(gate: Gate) -> Self {
        Self { gate, recovery: None, stray_inflation: 0 }
    }

    pub(super) fn on_duplicate(&mut self, facts: &Facts) -> OnDuplicate {
        if let Some(episode) = &mut self.recovery {
            episode.inflation += facts.segment;
        } else if self.stray_inflation > 0 {
            self.stray_inflation += facts.segment;
        } else if facts.dupacks == DUPACK_THRESHOLD {
            let inflation = u64::from(DUPACK_THRESHOLD) * facts.segment;
            if !self.gate.is_open(facts) {
                self.stray_inflation = if facts.inflate_without_retransmit { inflation } else { 0 };
                return OnDuplicate::Count;
            }
            self.gate.close(facts.max);
            self.recovery = Some(Episode { end: facts.max, inflation, deflation: 0, had_partial: false });
            return OnDuplicate::FastRetransmit;
        }
        OnDuplicate::Count
    }

    #[inline]
    pub(super) fn on_advance(&mut self, facts: &Facts, cwnd: u64) -> OnAdvance {
        let Some(episode) = &mut self.recovery else {
            self.stray_inflation = 0;
            return OnAdvance::Normal;
        };
        if facts.ack >= episode.end {
            let limit = cwnd.saturating_sub(episode.deflation).max(facts.segment);
            self.recovery = None;
            return OnAdvance::Recovered { limit, grows: true };
        }
        // RFC 6582, step 3: deflate by the data acknowledged, add back one segment. What the inflation cannot give
        // comes off cwnd, of which one segment always stays.
        let acked = facts.ack - facts.una;
        if episode.inflation > acked {
            episode.inflation -= acked - facts.segment.min(acked);
        } else {
            let most = cwnd.saturating_sub(facts.segment);
            episode.deflation = (episode.deflation + acked - episode.inflation).min(most);
            episode.inflation = facts.segment;
        }
        let first = !std::mem::replace(&mut episode.had_partial, true);
        // Only the first partial ACK restarts the timer ("impatient", RFC 6582, section 4).
        OnAdvance::Partial { resend: true, restart_timer: first, ends_backoff: false }
    }

    pub(super) fn on_timeout(&mut self, max: u64) {
        self.gate.close(max);
        self.recovery = None;
        self.stray_inflation = 0;
    }

    pub(super) fn in_recovery(&self) -> bool {
        self.recovery.is_some()
    }

    #[inline]
    pub(super) fn window(&self, cwnd: u64) -> u64 {
        match &self.recovery {
            None => cwnd + self.stray_inflation,
            Some(episode) => cwnd.saturating_sub(episode.deflation) + episode.inflation,
        }
    }
}

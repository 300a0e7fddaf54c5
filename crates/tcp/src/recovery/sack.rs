use super::{DUPACK_THRESHOLD, Facts, Gate, OnAdvance, OnDuplicate};
use crate::Scoreboard;
use catnip_base::notation::Usage;

pub(super) const SACK1: Usage = ("sack1", "SACK with a count of the pipe, as ns-2's Sack1 has it");
pub(super) const SACK: Usage = ("sack", "SACK by RFC 6675");

/// How SACK estimates what is in the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SackRule {
    /// A count: each ACK takes one segment out, a partial ACK two, each transmission adds one (Fall and Floyd 1996).
    Pipe1996,
    /// From the scoreboard: what was neither reported nor lost, and what was resent (RFC 6675, section 4).
    Rfc6675,
}

/// Recovery with selective acknowledgement (RFC 2018): it resends what is missing, as the pipe has room.
#[derive(Debug)]
pub struct Sack {
    pub(super) scoreboard: Scoreboard,
    gate: Gate,
    rule: SackRule,
    recovery: Option<Episode>,
    /// After a timeout, duplicate ACKs mean nothing until something new is acknowledged.
    after_timeout: bool,
}

#[derive(Debug)]
struct Episode {
    end: u64,
    /// Segments in the network by the count of 1996.
    pipe: i64,
    /// Everything below was resent.
    resent_to: u64,
    /// The rescue retransmission has been made.
    rescued: bool,
}

impl Sack {
    pub(super) fn new(gate: Gate, rule: SackRule) -> Self {
        Self { scoreboard: Scoreboard::default(), gate, rule, recovery: None, after_timeout: false }
    }

    pub(super) fn on_duplicate(&mut self, facts: &Facts, news: bool) -> OnDuplicate {
        if let Some(episode) = &mut self.recovery {
            episode.pipe -= 1;
            return if news { OnDuplicate::Count } else { OnDuplicate::Ignore };
        }
        if self.after_timeout || !news {
            return OnDuplicate::Ignore;
        }
        if !self.says_lost(facts) || !self.gate.is_open(facts) {
            return OnDuplicate::Count;
        }
        self.gate.close(facts.max);
        let out = ((facts.max - facts.una) / facts.segment) as i64;
        let resent_to = facts.una + facts.segment;
        self.recovery = Some(Episode {
            end: facts.max,
            pipe: out - i64::from(DUPACK_THRESHOLD),
            resent_to,
            rescued: false,
        });
        OnDuplicate::FastRetransmit
    }

    pub(super) fn on_advance(&mut self, facts: &Facts) -> OnAdvance {
        self.after_timeout = false;
        let Some(episode) = &mut self.recovery else {
            self.forget();
            return OnAdvance::Normal;
        };
        if facts.ack >= episode.end {
            self.recovery = None;
            self.forget();
            self.gate.opens_at = 0;
            return OnAdvance::Recovered { taken: 0, grows: false };
        }
        // The segment that was resent and the one that was lost have both left the network.
        episode.pipe -= 2;
        OnAdvance::Partial { resend: false, restart_timer: true, ends_backoff: true }
    }

    pub(super) fn on_timeout(&mut self, max: u64) {
        match self.rule {
            SackRule::Pipe1996 => self.gate.close(max),
            // RFC 6675, section 5.1: not before everything that was out is acknowledged.
            SackRule::Rfc6675 => self.gate.opens_at = max,
        }
        self.recovery = None;
        self.after_timeout = true;
        self.scoreboard.clear();
    }

    pub(crate) fn in_recovery(&self) -> bool {
        self.recovery.is_some()
    }

    /// During recovery: has the network room for one more segment?
    pub(crate) fn has_room(&self, cwnd: u64, una: u64, max: u64, segment: u64) -> bool {
        let Some(episode) = &self.recovery else { return false };
        match self.rule {
            SackRule::Pipe1996 => episode.pipe < (cwnd / segment) as i64,
            SackRule::Rfc6675 => self.pipe_by_scoreboard(episode, una, max, segment) + segment <= cwnd,
        }
    }

    /// During recovery: the start of the first missing segment that was not resent.
    pub(crate) fn next_missing(&self, una: u64, segment: u64) -> Option<u64> {
        let episode = self.recovery.as_ref()?;
        let hole = self.scoreboard.next_hole(episode.resent_to.max(una))?;
        // RFC 6675, NextSeg rule 1: only what counts as lost; rule 3 would send the rest too.
        (self.rule == SackRule::Pipe1996 || self.is_lost(hole, segment)).then_some(hole)
    }

    /// During recovery: the next hole even if nothing says that it was lost (RFC 6675, NextSeg rule 3).
    pub(crate) fn next_unsure(&self, una: u64) -> Option<u64> {
        let episode = self.recovery.as_ref()?;
        self.scoreboard.next_hole(episode.resent_to.max(una))
    }

    /// During recovery, once: the segment with the highest byte of all up to `end` that was not reported, unless it was
    /// resent already (RFC 6675, NextSeg rule 4; "HighRxt MUST NOT be updated").
    pub(crate) fn rescue(&mut self, una: u64, end: u64, segment: u64) -> Option<u64> {
        let episode =
            self.recovery.as_mut().filter(|episode| self.rule == SackRule::Rfc6675 && !episode.rescued)?;
        let (from, to) = self.scoreboard.last_hole(una, end).filter(|hole| hole.1 > episode.resent_to)?;
        episode.rescued = true;
        Some(to.saturating_sub(segment).max(from))
    }

    /// A segment that ends at `end` was sent during recovery.
    pub(crate) fn on_sent(&mut self, end: u64, retransmission: bool) {
        if let Some(episode) = &mut self.recovery {
            episode.pipe += 1;
            if retransmission {
                episode.resent_to = episode.resent_to.max(end);
            }
        }
    }

    /// ns-2's Sack1 forgets all reports with each ACK outside of recovery.
    fn forget(&mut self) {
        if self.rule == SackRule::Pipe1996 {
            self.scoreboard.clear();
        }
    }

    fn says_lost(&self, facts: &Facts) -> bool {
        match self.rule {
            SackRule::Pipe1996 => facts.dupacks == DUPACK_THRESHOLD,
            SackRule::Rfc6675 => facts.dupacks >= DUPACK_THRESHOLD || self.is_lost(facts.una, facts.segment),
        }
    }

    /// RFC 6675, IsLost: three ranges, or more than two segments' bytes, were reported above.
    fn is_lost(&self, at: u64, segment: u64) -> bool {
        let threshold = u64::from(DUPACK_THRESHOLD);
        self.scoreboard.ranges_above(at) as u64 >= threshold
            || self.scoreboard.bytes_above(at) > (threshold - 1) * segment
    }

    /// RFC 6675, SetPipe, by holes instead of by bytes.
    fn pipe_by_scoreboard(&self, episode: &Episode, una: u64, max: u64, segment: u64) -> u64 {
        let mut pipe = 0;
        let mut from = una;
        for &(start, end) in self.scoreboard.ranges() {
            let resent = episode.resent_to.min(start).saturating_sub(from);
            let lost = self.is_lost(from, segment);
            pipe += resent + if lost { 0 } else { start.saturating_sub(from) };
            from = end;
        }
        pipe + max.saturating_sub(from)
    }
}

#[cfg(test)]
mod tests;

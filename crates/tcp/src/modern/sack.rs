use crate::Scoreboard;
use crate::recovery::DUPACK_THRESHOLD;

/// Loss recovery with selective acknowledgement (RFC 6675): what counts as lost, what is in the network, what goes out next.
///
/// Of another side without SACK it knows how many segments have arrived, by duplicate ACKs, but not which. They are taken for
/// those right behind the first missing one. That makes it NewReno (RFC 6582): a window that a duplicate inflates there has
/// room for one more segment here, because there is one less in the network.
#[derive(Debug, Default)]
pub struct Sack {
    scoreboard: Scoreboard,
    episode: Option<Episode>,
    /// No episode begins before this is acknowledged: everything that was out when the timer expired (RFC 6675, section 5.1).
    opens_at: u64,
    /// After a timeout, duplicate ACKs mean nothing until something new is acknowledged.
    after_timeout: bool,
    /// Without SACK: bytes that have arrived behind what is missing.
    arrived: u64,
}

#[derive(Debug)]
struct Episode {
    /// RecoveryPoint: everything that was out when it began ends here.
    end: u64,
    /// HighRxt: everything below was resent.
    resent_to: u64,
    /// The rescue retransmission has been made.
    rescued: bool,
}

impl Sack {
    /// What other side has reported beyond the cumulative ACK.
    pub fn scoreboard(&mut self) -> &mut Scoreboard {
        &mut self.scoreboard
    }

    /// Is a loss being repaired?
    #[inline]
    pub fn in_recovery(&self) -> bool {
        self.episode.is_some()
    }

    /// Does a duplicate ACK count? Not without news, and not after a timeout.
    pub fn counts(&self, news: bool) -> bool {
        news && (self.in_recovery() || !self.after_timeout)
    }

    /// A duplicate ACK that counts: does an episode begin? `max` is the end of all that was sent.
    pub fn begins(&mut self, dupacks: u32, una: u64, max: u64, segment: u64) -> bool {
        // RFC 6675, section 5: "If DupAcks >= DupThresh, go to step (4)", and if "IsLost (HighACK + 1) returns true".
        let says_lost = dupacks >= DUPACK_THRESHOLD || self.is_lost(una, segment);
        if self.in_recovery() || !says_lost || una < self.opens_at {
            return false;
        }
        // RFC 6582, section 4: not before everything of this episode, and something beyond it, is acknowledged.
        self.opens_at = max + 1;
        self.episode = Some(Episode { end: max, resent_to: una + segment, rescued: false });
        true
    }

    /// Everything before this byte is acknowledged: does the episode end? `None`: there is none.
    #[inline]
    pub fn on_advance(&mut self, ack: u64) -> Option<bool> {
        self.after_timeout = false;
        let ends = ack >= self.episode.as_ref()?.end;
        if ends {
            self.episode = None;
            self.opens_at = 0;
        }
        Some(ends)
    }

    /// The timer has expired. RFC 6675, section 5.1: "RecoveryPoint MUST be set to HighData", and no episode begins before it is
    /// acknowledged; RFC 2018, section 8: "the sender SHOULD turn off all of the SACKed bits".
    pub fn on_timeout(&mut self, max: u64) {
        self.opens_at = max;
        self.episode = None;
        self.after_timeout = true;
        self.arrived = 0;
        self.scoreboard.clear();
    }

    /// Without SACK: a duplicate ACK that counts. One more segment has arrived.
    pub fn on_arrival(&mut self, una: u64, max: u64, segment: u64) {
        self.arrived = (self.arrived + segment).min((max - una).saturating_sub(segment));
        self.place_arrived(una, segment);
    }

    /// Without SACK: everything before `una` is acknowledged, of which one segment was sent again and the rest had arrived before.
    /// During recovery "the first unacknowledged segment" is sent again next (RFC 6582, section 3.2, step 3).
    pub fn on_partial_ack(&mut self, acked: u64, una: u64, segment: u64) {
        self.arrived = self.arrived.saturating_sub(acked.saturating_sub(segment));
        self.place_arrived(una, segment);
        self.on_resent(una + segment);
    }

    /// Without SACK: nothing is missing any more, as far as is known.
    pub fn on_full_ack(&mut self) {
        self.arrived = 0;
        self.scoreboard.clear();
    }

    fn place_arrived(&mut self, una: u64, segment: u64) {
        self.scoreboard.clear();
        self.scoreboard.add(una + segment, una + segment + self.arrived);
    }

    /// During recovery: has the network room for one more segment?
    pub fn has_room(&self, cwnd: u64, una: u64, max: u64, segment: u64) -> bool {
        self.episode.as_ref().is_some_and(|episode| self.pipe(episode, una, max, segment) + segment <= cwnd)
    }

    /// During recovery: the start of the first missing segment that was not resent and counts as lost (NextSeg, rule 1).
    pub fn next_lost(&self, una: u64, segment: u64) -> Option<u64> {
        self.next_unsure(una).filter(|&hole| self.is_lost(hole, segment))
    }

    /// During recovery: the same even if nothing says that it was lost (NextSeg, rule 3).
    pub fn next_unsure(&self, una: u64) -> Option<u64> {
        let episode = self.episode.as_ref()?;
        self.scoreboard.next_hole(episode.resent_to.max(una))
    }

    /// During recovery, once: the segment with the highest byte of all up to `end` that was not reported, unless it was
    /// resent already (NextSeg, rule 4).
    pub fn rescue(&self, una: u64, end: u64, segment: u64) -> Option<u64> {
        let episode = self.episode.as_ref().filter(|episode| !episode.rescued)?;
        let (from, to) = self.scoreboard.last_hole(una, end).filter(|hole| hole.1 > episode.resent_to)?;
        Some(to.saturating_sub(segment).max(from))
    }

    /// The rescue retransmission leaves; "HighRxt MUST NOT be updated".
    pub fn on_rescued(&mut self) {
        if let Some(episode) = &mut self.episode {
            episode.rescued = true;
        }
    }

    /// A segment that ends at `end` was resent during recovery.
    pub fn on_resent(&mut self, end: u64) {
        if let Some(episode) = &mut self.episode {
            episode.resent_to = episode.resent_to.max(end);
        }
    }

    /// IsLost: three ranges, or more than two segments' bytes, were reported above.
    fn is_lost(&self, at: u64, segment: u64) -> bool {
        let threshold = u64::from(DUPACK_THRESHOLD);
        self.scoreboard.ranges_above(at) as u64 >= threshold
            || self.scoreboard.bytes_above(at) > (threshold - 1) * segment
    }

    /// SetPipe, by holes instead of by bytes.
    fn pipe(&self, episode: &Episode, una: u64, max: u64, segment: u64) -> u64 {
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

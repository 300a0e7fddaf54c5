use crate::Scoreboard;
use crate::recovery::DUPACK_THRESHOLD;

/// Loss recovery with selective acknowledgement (RFC 6675): detects lost segments, estimates the data in the network and selects the next
/// segment.
///
/// Without SACK, duplicate ACKs show how many segments have arrived, but not which ones. These segments are assumed to directly follow the
/// first missing segment. With this assumption, the recovery is NewReno (RFC 6582): a duplicate ACK inflates the window in NewReno and
/// removes one segment from the pipe here, and either permits one more segment.
#[derive(Debug, Default)]
pub struct Sack {
    scoreboard: Scoreboard,
    episode: Option<Episode>,
    /// Byte that must be acknowledged before an episode can begin. After a timeout, it is the end of the data that was outstanding at the
    /// timeout (RFC 6675, section 5.1).
    blocked_until: u64,
    /// True from a timeout until new data is acknowledged. Duplicate ACKs are ignored during this time.
    after_timeout: bool,
    /// Number of bytes that have arrived after the first missing segment, for a peer without SACK.
    reno_sacked: u64,
}

#[derive(Debug)]
struct Episode {
    /// End of the data outstanding when the episode began, RecoveryPoint.
    recovery_point: u64,
    /// End of the retransmitted data, HighRxt.
    high_rxt: u64,
    /// True if the rescue retransmission was sent.
    rescue_sent: bool,
}

impl Sack {
    /// Returns the scoreboard of data SACKed beyond the cumulative ACK.
    pub fn scoreboard(&mut self) -> &mut Scoreboard {
        &mut self.scoreboard
    }

    /// Returns true during loss recovery.
    #[inline]
    pub fn in_recovery(&self) -> bool {
        self.episode.is_some()
    }

    /// Returns true if a duplicate ACK counts: `has_new_delivery` is true because it reports new data, and new data was acknowledged since
    /// the last timeout.
    pub fn counts_dupack(&self, has_new_delivery: bool) -> bool {
        has_new_delivery && (self.in_recovery() || !self.after_timeout)
    }

    /// Handles a duplicate ACK that counts. `snd_max` is the end of the data sent. Returns true if a recovery episode begins.
    pub fn try_enter_recovery(&mut self, dupacks: u32, snd_una: u64, snd_max: u64, segment: u64) -> bool {
        // RFC 6675, section 5: "If DupAcks >= DupThresh, go to step (4)", and if "IsLost (HighACK + 1) returns true".
        let is_loss_detected = dupacks >= DUPACK_THRESHOLD || self.is_lost(snd_una, segment);
        if self.in_recovery() || !is_loss_detected || snd_una < self.blocked_until {
            return false;
        }
        // RFC 6582, section 4: the next episode requires an ACK beyond all data of this episode.
        self.blocked_until = snd_max + 1;
        self.episode =
            Some(Episode { recovery_point: snd_max, high_rxt: snd_una + segment, rescue_sent: false });
        true
    }

    /// Handles a cumulative acknowledgement of all data before `ack`. Returns whether the episode ends, or `None` without an episode.
    #[inline]
    pub fn on_new_ack(&mut self, ack: u64) -> Option<bool> {
        self.after_timeout = false;
        let is_over = ack >= self.episode.as_ref()?.recovery_point;
        if is_over {
            self.episode = None;
            self.blocked_until = 0;
        }
        Some(is_over)
    }

    /// Handles an expiry of the retransmission timer. RFC 6675, section 5.1: "RecoveryPoint MUST be set to HighData", and no episode begins
    /// before that point is acknowledged. RFC 2018, section 8: "the sender SHOULD turn off all of the SACKed bits".
    pub fn on_timeout(&mut self, snd_max: u64) {
        self.blocked_until = snd_max;
        self.episode = None;
        self.after_timeout = true;
        self.reno_sacked = 0;
        self.scoreboard.clear();
    }

    /// Handles a duplicate ACK that counts from a peer without SACK: one more segment has arrived.
    pub fn add_reno_sack(&mut self, snd_una: u64, snd_max: u64, segment: u64) {
        self.reno_sacked = (self.reno_sacked + segment).min((snd_max - snd_una).saturating_sub(segment));
        self.set_reno_sack(snd_una, segment);
    }

    /// Handles a partial ACK from a peer without SACK. One of the acknowledged segments was retransmitted; the others had arrived before.
    /// "the first unacknowledged segment" is retransmitted next (RFC 6582, section 3.2, step 3).
    pub fn on_partial_ack(&mut self, acked: u64, snd_una: u64, segment: u64) {
        self.reno_sacked = self.reno_sacked.saturating_sub(acked.saturating_sub(segment));
        self.set_reno_sack(snd_una, segment);
        self.on_retransmitted(snd_una + segment);
    }

    /// Handles a full ACK from a peer without SACK: no more data is known to have arrived out of order.
    pub fn on_full_ack(&mut self) {
        self.reno_sacked = 0;
        self.scoreboard.clear();
    }

    fn set_reno_sack(&mut self, snd_una: u64, segment: u64) {
        self.scoreboard.clear();
        self.scoreboard.add(snd_una + segment, snd_una + segment + self.reno_sacked);
    }

    /// Returns true if a recovery is in progress and cwnd permits one more segment in the network.
    pub fn can_send(&self, cwnd: u64, snd_una: u64, snd_max: u64, segment: u64) -> bool {
        self.episode
            .as_ref()
            .is_some_and(|episode| self.pipe(episode, snd_una, snd_max, segment) + segment <= cwnd)
    }

    /// Returns the start of the first missing segment that counts as lost and was not retransmitted in this recovery (NextSeg, rule 1).
    pub fn next_lost(&self, snd_una: u64, segment: u64) -> Option<u64> {
        self.next_hole(snd_una).filter(|&hole| self.is_lost(hole, segment))
    }

    /// Returns the start of the first missing segment that was not retransmitted in this recovery, whether it counts as lost or not
    /// (NextSeg, rule 3).
    pub fn next_hole(&self, snd_una: u64) -> Option<u64> {
        let episode = self.episode.as_ref()?;
        self.scoreboard.next_hole(episode.high_rxt.max(snd_una))
    }

    /// Returns the start of the rescue retransmission, which is sent once per recovery. It is the last missing segment below `end`. Returns
    /// `None` if that segment was retransmitted already (NextSeg, rule 4).
    pub fn rescue_seq(&self, snd_una: u64, end: u64, segment: u64) -> Option<u64> {
        let episode = self.episode.as_ref().filter(|episode| !episode.rescue_sent)?;
        let (from, to) = self.scoreboard.last_hole(snd_una, end).filter(|hole| hole.1 > episode.high_rxt)?;
        Some(to.saturating_sub(segment).max(from))
    }

    /// Records the rescue retransmission: "HighRxt MUST NOT be updated".
    pub fn on_rescue_sent(&mut self) {
        if let Some(episode) = &mut self.episode {
            episode.rescue_sent = true;
        }
    }

    /// Records the retransmission of a segment that ends at `end` during recovery.
    pub fn on_retransmitted(&mut self, end: u64) {
        if let Some(episode) = &mut self.episode {
            episode.high_rxt = episode.high_rxt.max(end);
        }
    }

    /// Returns true if three ranges, or more bytes than in two segments, were reported above `at` (IsLost).
    fn is_lost(&self, at: u64, segment: u64) -> bool {
        let threshold = u64::from(DUPACK_THRESHOLD);
        self.scoreboard.ranges_above(at) as u64 >= threshold
            || self.scoreboard.bytes_above(at) > (threshold - 1) * segment
    }

    /// Returns the number of bytes in the network (SetPipe). The computation iterates over holes instead of bytes.
    fn pipe(&self, episode: &Episode, snd_una: u64, snd_max: u64, segment: u64) -> u64 {
        let mut pipe = 0;
        let mut from = snd_una;
        for &(start, end) in self.scoreboard.ranges() {
            let retransmitted = episode.high_rxt.min(start).saturating_sub(from);
            let lost = self.is_lost(from, segment);
            pipe += retransmitted + if lost { 0 } else { start.saturating_sub(from) };
            from = end;
        }
        pipe + snd_max.saturating_sub(from)
    }
}

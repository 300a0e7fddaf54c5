use crate::Stamps;
use catnip_base::Time;

/// Detection of spurious reductions. A reduction is spurious if every retransmission was reported as a duplicate (RFC 3708), or if the
/// acknowledged data was sent before the first retransmission (RFC 3522, by timestamps).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Undo {
    /// SND.UNA at the reduction (undo_marker); `None` if no reduction can be undone.
    since: Option<u64>,
    /// Number of retransmissions since the reduction that were not reported as duplicates (undo_retrans); `None` before the first
    /// retransmission.
    unexplained: Option<u32>,
    /// Time of the first of the retransmissions in flight (retrans_stamp); `None` if no retransmission is in flight.
    first_resent: Option<Time>,
}

impl Undo {
    /// Starts the detection at a reduction. `resent` is the number of retransmissions in flight.
    pub(super) fn begin(&mut self, snd_una: u64, resent: u32) {
        self.since = Some(snd_una);
        self.unexplained = Some(resent).filter(|&resent| resent > 0);
    }

    /// Makes the reduction final, so that it cannot be undone.
    pub(super) fn forget(&mut self) {
        self.since = None;
    }

    /// Returns true if the last reduction can be undone.
    pub(super) fn is_possible(&self) -> bool {
        self.since.is_some()
    }

    /// Records a retransmission.
    pub(super) fn on_resent(&mut self, now: Time) {
        self.first_resent = self.first_resent.or(Some(now));
        self.unexplained = Some(self.unexplained.unwrap_or(0) + 1);
    }

    /// Records the report of a duplicate of `segments` segments, the last of which ends at `end`.
    pub(super) fn on_duplicate(&mut self, end: u64, segments: u32) {
        if self.since.is_some_and(|since| end > since) {
            self.unexplained = self.unexplained.map(|count| count.saturating_sub(segments));
        }
    }

    /// Clears the time of the first retransmission when no retransmission is in flight any more.
    pub(super) fn on_all_arrived(&mut self) {
        self.first_resent = None;
    }

    /// Returns true if all retransmissions since the reduction were duplicates.
    pub(super) fn all_were_duplicates(&self) -> bool {
        self.since.is_some() && self.unexplained == Some(0)
    }

    /// Returns true if an ACK echoes a time before the first retransmission. Such an ACK answers an original transmission. Timestamps have
    /// a resolution of a millisecond.
    pub(super) fn is_delayed(&self, echo: u32) -> bool {
        self.since.is_some()
            && echo != 0
            && self.first_resent.is_some_and(|first| (echo.wrapping_sub(Stamps::tick(first)) as i32) < 0)
    }

    /// Returns true if the reduction was spurious. `echo` is the timestamp that the ACK echoes.
    pub(super) fn applies(&self, echo: u32) -> bool {
        self.all_were_duplicates() || self.is_delayed(echo)
    }
}

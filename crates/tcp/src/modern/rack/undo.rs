use crate::Timestamps;
use catnip_base::Time;

/// Detection of spurious reductions. A reduction is spurious if every retransmission was reported as a duplicate (RFC 3708), or if the
/// acknowledged data was sent before the first retransmission (RFC 3522, by timestamps).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Undo {
    /// SND.UNA at the reduction (undo_marker); `None` if no reduction can be undone.
    undo_marker: Option<u64>,
    /// Number of retransmissions since the reduction that were not reported as duplicates (undo_retrans); `None` before the first
    /// retransmission.
    undo_retrans: Option<u32>,
    /// Time of the first of the retransmissions in flight (retrans_stamp); `None` if no retransmission is in flight.
    retrans_stamp: Option<Time>,
}

impl Undo {
    /// Starts the detection at a reduction. `retrans_out` is the number of retransmissions in flight.
    pub(super) fn init(&mut self, snd_una: u64, retrans_out: u32) {
        self.undo_marker = Some(snd_una);
        self.undo_retrans = Some(retrans_out).filter(|&retrans_out| retrans_out > 0);
    }

    /// Makes the reduction final, so that it cannot be undone.
    pub(super) fn clear(&mut self) {
        self.undo_marker = None;
    }

    /// Returns true if the last reduction can be undone.
    pub(super) fn can_undo(&self) -> bool {
        self.undo_marker.is_some()
    }

    /// Records a retransmission.
    pub(super) fn on_retransmit(&mut self, now: Time) {
        self.retrans_stamp = self.retrans_stamp.or(Some(now));
        self.undo_retrans = Some(self.undo_retrans.unwrap_or(0) + 1);
    }

    /// Records the report of a duplicate of `segments` segments, the last of which ends at `end`.
    pub(super) fn on_dsack(&mut self, end: u64, segments: u32) {
        if self.undo_marker.is_some_and(|undo_marker| end > undo_marker) {
            self.undo_retrans = self.undo_retrans.map(|count| count.saturating_sub(segments));
        }
    }

    /// Clears the time of the first retransmission when no retransmission is in flight any more.
    pub(super) fn clear_retrans_stamp(&mut self) {
        self.retrans_stamp = None;
    }

    /// Returns true if all retransmissions since the reduction were duplicates.
    pub(super) fn all_dsacked(&self) -> bool {
        self.undo_marker.is_some() && self.undo_retrans == Some(0)
    }

    /// Returns true if an ACK echoes a time before the first retransmission. Such an ACK answers an original transmission. Timestamps have
    /// a resolution of a millisecond.
    pub(super) fn is_packet_delayed(&self, tsecr: u32) -> bool {
        self.undo_marker.is_some()
            && tsecr != 0
            && self
                .retrans_stamp
                .is_some_and(|first| (tsecr.wrapping_sub(Timestamps::tsval_at(first)) as i32) < 0)
    }

    /// Returns true if the reduction was spurious. `tsecr` is the timestamp that the ACK echoes.
    pub(super) fn may_undo(&self, tsecr: u32) -> bool {
        self.all_dsacked() || self.is_packet_delayed(tsecr)
    }
}

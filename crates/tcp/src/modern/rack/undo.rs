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
            && self.retrans_stamp.is_some_and(|first| Timestamps::is_echo_before(tsecr, first))
    }

    /// Returns true if the reduction was spurious. `tsecr` is the timestamp that the ACK echoes.
    pub(super) fn may_undo(&self, tsecr: u32) -> bool {
        self.all_dsacked() || self.is_packet_delayed(tsecr)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ms;

    /// Returns the state of a reduction at byte 1000 after retransmissions at the given times.
    fn reduced(retrans_out: u32, retransmitted_at_ms: &[u64]) -> Undo {
        let mut undo = Undo::default();
        undo.init(1000, retrans_out);
        retransmitted_at_ms.iter().for_each(|&at| undo.on_retransmit(ms(at)));
        undo
    }

    fn echoes(undo: &Undo, at: u64) -> bool {
        undo.is_packet_delayed(Timestamps::tsval_at(ms(at)))
    }

    #[test]
    fn an_echo_proves_an_original_only_if_it_is_smaller_than_the_first_retransmission_s_timestamp() {
        // RFC 3522, section 3.2, step 2: RetransmitTS is the timestamp of "the retransmit sent when loss recovery is initiated". Step 4:
        // "is smaller than the value of RetransmitTS".
        let undo = reduced(0, &[100, 150]);
        assert_eq!([99, 100, 101, 149].map(|at| echoes(&undo, at)), [true, false, false, false]);
        assert!(!undo.is_packet_delayed(0), "there is no timestamp");
        assert!(!echoes(&reduced(0, &[]), 0), "nothing was retransmitted");
        let mut undo = undo;
        undo.clear_retrans_stamp();
        undo.on_retransmit(ms(300));
        assert!(echoes(&undo, 299), "no earlier retransmission is in flight any more");
        undo.clear();
        assert!(!echoes(&undo, 0), "the reduction is final");
    }

    #[test]
    fn a_reduction_was_spurious_once_as_many_duplicates_as_retransmissions_of_it_are_reported() {
        // tcp_check_dsack: a DSACK counts if its end is "after" undo_marker; undo_retrans counts the retransmissions since then.
        let mut undo = reduced(0, &[100, 150]);
        let reports = |undo: &mut Undo, end: u64, segments: u32| {
            undo.on_dsack(end, segments);
            undo.all_dsacked()
        };
        assert!(!undo.all_dsacked());
        assert!(
            !reports(&mut undo, 500, 1) && !reports(&mut undo, 1000, 2),
            "data from before the reduction"
        );
        assert!(!reports(&mut undo, 2000, 1), "one of two");
        assert!(reports(&mut undo, 3000, 1));
        undo.on_retransmit(ms(200));
        assert!(!undo.all_dsacked());
        undo.clear();
        assert!(!reports(&mut undo, 3000, 1), "the reduction is final");
    }

    #[test]
    fn retransmissions_that_were_out_when_the_window_was_reduced_count_too() {
        // tcp_init_undo: "Retransmission still in flight may cause DSACKs later": undo_retrans is retrans_out, if that is not zero.
        let mut undo = reduced(2, &[100]);
        undo.on_dsack(2000, 1);
        undo.on_dsack(3000, 1);
        assert!(!undo.all_dsacked(), "two of three");
        undo.on_dsack(4000, 1);
        assert!(undo.all_dsacked());
        assert!(!reduced(0, &[]).all_dsacked(), "without retransmissions there are no duplicates of them");
    }
}

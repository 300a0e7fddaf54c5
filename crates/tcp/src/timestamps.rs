use crate::{Segment, Timestamps};
use catnip_base::Time;

/// Timestamp state of one end (RFC 7323), which determines the timestamp to echo.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TimestampState {
    /// TS.Recent.
    ts_recent: u32,
    /// Last.ACK.sent.
    last_ack_sent: u64,
}

impl TimestampState {
    /// Updates TS.Recent when a segment arrives. RFC 7323, section 4.3: "If: SEG.TSval >= TS.Recent and SEG.SEQ <= Last.ACK.sent then
    /// SEG.TSval is copied to TS.Recent". A delayed ACK therefore echoes the first segment that it acknowledges.
    pub(crate) fn on_segment(&mut self, segment: &Segment) {
        let tsval = segment.timestamps.tsval;
        let is_newer = self.ts_recent == 0 || (tsval.wrapping_sub(self.ts_recent) as i32) >= 0;
        if tsval != 0 && is_newer && segment.seq <= self.last_ack_sent {
            self.ts_recent = tsval;
        }
    }

    /// Returns the timestamps of a segment that is sent at `now` and acknowledges all data before `ack`.
    pub(crate) fn for_segment(&mut self, now: Time, ack: u64) -> Timestamps {
        self.last_ack_sent = ack;
        Timestamps { tsval: Timestamps::tsval_at(now), tsecr: self.ts_recent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catnip_base::Span;

    fn received(seq: u64, tsval: u32) -> Segment {
        Segment { seq, len: 10, timestamps: Timestamps { tsval, tsecr: 0 }, ..Segment::default() }
    }

    #[test]
    fn an_ack_echoes_the_first_segment_that_it_acknowledges_and_none_that_came_too_early() {
        // RFC 7323, section 4.3, (A) delayed ACKs: segments A, B and C are acknowledged together, and the ACK echoes A.
        let mut state = TimestampState::default();
        for (seq, tsval) in [(0, 1), (10, 2), (20, 3)] {
            state.on_segment(&received(seq, tsval));
        }
        assert_eq!(state.for_segment(Time::ZERO, 30).tsecr, 1);
        // (B): D is lost. "ACK(D), TSecr" is the timestamp of the last segment in order, even if segments above the hole arrive.
        for (seq, tsval) in [(40, 5), (50, 6)] {
            state.on_segment(&received(seq, tsval));
        }
        assert_eq!(state.for_segment(Time::ZERO, 30).tsecr, 1);
        // (C): the ACK echoes the segment that fills the hole.
        state.on_segment(&received(30, 7));
        assert_eq!(state.for_segment(Time::ZERO, 60).tsecr, 7);
        // An old duplicate is not echoed.
        state.on_segment(&received(0, 1));
        assert_eq!(state.for_segment(Time::ZERO, 60).tsecr, 7);
    }

    #[test]
    fn a_clock_of_milliseconds_never_shows_the_zero_that_means_none() {
        let at = |micros| Timestamps::tsval_at(Time::ZERO + Span::from_micros(micros));
        assert_eq!([0, 999, 1000, 2_500_000].map(at), [1, 1, 2, 2501]);
    }
}

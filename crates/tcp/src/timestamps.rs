use crate::{Segment, Timestamps};
use catnip_base::Time;

/// Timestamp state of one end (RFC 7323), which determines the timestamp to echo.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TimestampState {
    /// TS.Recent.
    ts_recent: u32,
    /// Last.ACK.sent.
    last_ack_sent: u64,
    /// Timestamp of the last ACK that answered a segment without data whose timestamp was old (last_oow_ack_time); zero before the first
    /// one.
    answered_at: u32,
}

/// Amount by which a timestamp may be smaller than TS.Recent, TCP_PAWS_WINDOW, milliseconds.
const PAWS_WINDOW: i32 = 1;
/// Minimum time between answers to segments without data whose timestamps are old, tcp_invalid_ratelimit, milliseconds.
const MIN_BETWEEN_ANSWERS: u32 = 500;

impl TimestampState {
    /// Updates TS.Recent when a segment arrives. RFC 7323, section 4.3: "If: SEG.TSval >= TS.Recent and SEG.SEQ <= Last.ACK.sent then
    /// SEG.TSval is copied to TS.Recent". A delayed ACK therefore echoes the first segment that it acknowledges. Segments before the window
    /// are rejected first (section 5.3, R2).
    pub(crate) fn on_segment(&mut self, segment: &Segment) {
        let tsval = segment.timestamps.tsval;
        let is_newer = self.ts_recent == 0 || (tsval.wrapping_sub(self.ts_recent) as i32) >= 0;
        let end = segment.seq + segment.seq_len();
        if tsval != 0 && is_newer && segment.seq <= self.last_ack_sent && end >= self.last_ack_sent {
            self.ts_recent = tsval;
        }
    }

    /// Returns by how many milliseconds the timestamp of a segment is older than it may be; `None` if it is not (PAWS; RFC 7323, section
    /// 5.3, R1).
    pub(crate) fn age(&self, segment: &Segment) -> Option<u32> {
        let tsval = segment.timestamps.tsval;
        let age = self.ts_recent.wrapping_sub(tsval) as i32;
        (tsval != 0 && self.ts_recent != 0 && age > PAWS_WINDOW).then_some(age as u32)
    }

    /// Returns true if a segment without data whose timestamp is old is answered at `now`: such answers must not follow each other in a
    /// loop (tcp_oow_rate_limited).
    pub(crate) fn may_answer(&mut self, now: Time) -> bool {
        let tsval = Timestamps::tsval_at(now);
        let may = self.answered_at == 0 || tsval.wrapping_sub(self.answered_at) >= MIN_BETWEEN_ANSWERS;
        if may {
            self.answered_at = tsval;
        }
        may
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
    fn a_repetition_from_before_the_last_ack_is_not_echoed_even_if_its_timestamp_is_new() {
        let mut state = TimestampState::default();
        state.on_segment(&received(0, 1));
        state.for_segment(Time::ZERO, 20);
        state.on_segment(&received(0, 5));
        assert_eq!(state.for_segment(Time::ZERO, 20).tsecr, 1, "it ends before byte 20");
        state.on_segment(&received(10, 6));
        assert_eq!(state.for_segment(Time::ZERO, 20).tsecr, 6, "it ends there");
    }

    #[test]
    fn a_timestamp_may_be_a_millisecond_older_than_the_last_one_and_answers_are_half_a_second_apart() {
        let mut state = TimestampState::default();
        assert_eq!(state.age(&received(0, 3)), None, "there is none to compare with");
        state.on_segment(&received(0, 100));
        assert_eq!([98, 99, 101].map(|tsval| state.age(&received(10, tsval))), [Some(2), None, None]);
        let at = |ms| Time::ZERO + Span::from_millis(ms);
        assert_eq!([10, 509, 510].map(|ms| state.may_answer(at(ms))), [true, false, true]);
    }

    #[test]
    fn a_clock_of_milliseconds_never_shows_the_zero_that_means_none() {
        let at = |micros| Timestamps::tsval_at(Time::ZERO + Span::from_micros(micros));
        assert_eq!([0, 999, 1000, 2_500_000].map(at), [1, 1, 2, 2501]);
    }
}

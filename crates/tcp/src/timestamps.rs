use crate::{Segment, Stamps};
use catnip_base::Time;

/// Timestamp state of one end (RFC 7323), which determines the timestamp to echo.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stamping {
    /// TS.Recent.
    recent: u32,
    /// Last.ACK.sent.
    last_ack: u64,
}

impl Stamping {
    /// Updates TS.Recent when a segment arrives. RFC 7323, section 4.3: "If: SEG.TSval >= TS.Recent and SEG.SEQ <= Last.ACK.sent then
    /// SEG.TSval is copied to TS.Recent". A delayed ACK therefore echoes the first segment that it acknowledges.
    pub(crate) fn on_segment(&mut self, segment: &Segment) {
        let value = segment.stamps.value;
        let is_newer = self.recent == 0 || (value.wrapping_sub(self.recent) as i32) >= 0;
        if value != 0 && is_newer && segment.seq <= self.last_ack {
            self.recent = value;
        }
    }

    /// Returns the timestamps of a segment that is sent at `now` and acknowledges all data before `ack`.
    pub(crate) fn of(&mut self, now: Time, ack: u64) -> Stamps {
        self.last_ack = ack;
        Stamps { value: Stamps::tick(now), echo: self.recent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catnip_base::Span;

    fn heard(seq: u64, value: u32) -> Segment {
        Segment { seq, len: 10, stamps: Stamps { value, echo: 0 }, ..Segment::default() }
    }

    #[test]
    fn an_ack_echoes_the_first_segment_that_it_acknowledges_and_none_that_came_too_early() {
        // RFC 7323, section 4.3, (A) delayed ACKs: segments A, B and C are acknowledged together, and the ACK echoes A.
        let mut stamping = Stamping::default();
        for (seq, value) in [(0, 1), (10, 2), (20, 3)] {
            stamping.on_segment(&heard(seq, value));
        }
        assert_eq!(stamping.of(Time::ZERO, 30).echo, 1);
        // (B): D is lost. "ACK(D), TSecr" is the timestamp of the last segment in order, even if segments above the hole arrive.
        for (seq, value) in [(40, 5), (50, 6)] {
            stamping.on_segment(&heard(seq, value));
        }
        assert_eq!(stamping.of(Time::ZERO, 30).echo, 1);
        // (C): the ACK echoes the segment that fills the hole.
        stamping.on_segment(&heard(30, 7));
        assert_eq!(stamping.of(Time::ZERO, 60).echo, 7);
        // An old duplicate is not echoed.
        stamping.on_segment(&heard(0, 1));
        assert_eq!(stamping.of(Time::ZERO, 60).echo, 7);
    }

    #[test]
    fn a_clock_of_milliseconds_never_shows_the_zero_that_means_none() {
        let at = |micros| Stamps::tick(Time::ZERO + Span::from_micros(micros));
        assert_eq!([0, 999, 1000, 2_500_000].map(at), [1, 1, 2, 2501]);
    }
}

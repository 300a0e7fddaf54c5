use super::PacedSegment;
use catnip_base::{Span, Time};

/// Pacing by rate: segments, including retransmissions, are sent at K windows per SRTT. After an idle period, one burst is sent at once and
/// the following segments at the pacing rate. A window that was kept over the idle period therefore causes no larger burst (RFC 7661,
/// section 4.4.2: "a rate-based pacing algorithm in which a sender paces out the cwnd over its estimate of the RTT").
#[derive(Clone, Debug)]
pub struct RatePacing {
    windows_per_rtt: f64,
    /// Burst size after an idle period, segments.
    burst: u32,
    next_at: Time,
}

impl RatePacing {
    /// Creates pacing at `windows_per_rtt` windows per SRTT, with bursts of `burst` segments.
    pub fn new(windows_per_rtt: f64, burst: u32) -> Self {
        Self { windows_per_rtt, burst, next_at: Time::ZERO }
    }

    pub(super) fn release_at(&self) -> Time {
        self.next_at
    }

    /// Handles the transmission of a segment. Pacing begins after the first RTT sample.
    pub(super) fn on_sent(&mut self, &PacedSegment { now, bytes, cwnd, srtt, .. }: &PacedSegment) {
        let Some(srtt) = srtt else { return };
        let share = bytes as f64 / (self.windows_per_rtt * cwnd.max(1) as f64);
        let interval = Span::from_secs_f64(srtt.as_secs() * share);
        // An idle period permits at most one burst.
        let burst_credit = interval * u64::from(self.burst - 1);
        let earliest = Time::ZERO + now.since(Time::ZERO).saturating_sub(burst_credit);
        self.next_at = self.next_at.max(earliest) + interval;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Time {
        Time::ZERO + Span::from_millis(n)
    }

    /// Returns the transmission at `at` milliseconds of a segment of `bytes` bytes, with a window of ten segments of 1000 bytes and an SRTT
    /// of 200 ms.
    fn paced(at: u64, bytes: u64) -> PacedSegment {
        let srtt = Some(Span::from_millis(200));
        PacedSegment {
            now: ms(at),
            is_new: true,
            bytes,
            cwnd: 10_000,
            in_slow_start: false,
            srtt,
            rate: None,
        }
    }

    #[test]
    fn a_window_takes_a_round_trip_or_the_kth_part_of_it() {
        for (k, gap) in [(1.0, 20), (2.0, 10), (0.5, 40)] {
            let mut pacing = RatePacing::new(k, 1);
            assert_eq!(pacing.release_at(), Time::ZERO);
            pacing.on_sent(&paced(1000, 1000));
            assert_eq!(pacing.release_at(), ms(1000 + gap));
            pacing.on_sent(&paced(1000 + gap, 500));
            assert_eq!(pacing.release_at(), ms(1000 + gap + gap / 2));
        }
    }

    #[test]
    fn a_silence_earns_nothing_and_a_segment_that_was_late_delays_the_next() {
        let mut pacing = RatePacing::new(1.0, 1);
        for at in [1000, 5000, 5003] {
            pacing.on_sent(&paced(at, 1000));
        }
        assert_eq!(pacing.release_at(), ms(5040));
    }

    #[test]
    fn a_silence_earns_a_burst_and_no_more() {
        let mut pacing = RatePacing::new(1.0, 4);
        pacing.on_sent(&paced(1000, 1000));
        for sent in 0..4 {
            assert!(pacing.release_at() <= ms(5000), "{sent} have left");
            pacing.on_sent(&paced(5000, 1000));
        }
        assert_eq!(pacing.release_at(), ms(5020));
    }

    #[test]
    fn without_a_round_trip_nothing_waits() {
        let mut pacing = RatePacing::new(1.0, 1);
        pacing.on_sent(&PacedSegment { srtt: None, ..paced(1000, 1000) });
        assert_eq!(pacing.release_at(), Time::ZERO);
    }
}

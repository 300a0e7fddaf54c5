use catnip_base::{Span, Time};

/// Pacing by rate: segments leave at K windows per smoothed round trip, retransmissions included. The first one after a silence
/// leaves at once and the others follow at that rate, so that a window that was kept over the silence makes no burst (RFC 7661,
/// section 4.4.2: "a rate-based pacing algorithm in which a sender paces out the cwnd over its estimate of the RTT").
#[derive(Clone, Debug)]
pub struct RatePacing {
    windows_per_rtt: f64,
    next_at: Time,
}

impl RatePacing {
    /// So many windows per smoothed round trip.
    pub fn new(windows_per_rtt: f64) -> Self {
        Self { windows_per_rtt, next_at: Time::ZERO }
    }

    pub(super) fn release_at(&self) -> Time {
        self.next_at
    }

    /// Without a round trip there is no rate.
    pub(super) fn on_sent(&mut self, now: Time, bytes: u64, cwnd: u64, srtt: Option<Span>) {
        let Some(srtt) = srtt else { return };
        let share = bytes as f64 / (self.windows_per_rtt * cwnd.max(1) as f64);
        self.next_at = self.next_at.max(now) + Span::from_secs_f64(srtt.as_secs() * share);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Time {
        Time::ZERO + Span::from_millis(n)
    }

    #[test]
    fn a_window_takes_a_round_trip_or_the_kth_part_of_it() {
        for (k, gap) in [(1.0, 20), (2.0, 10), (0.5, 40)] {
            let mut pacing = RatePacing::new(k);
            assert_eq!(pacing.release_at(), Time::ZERO);
            // Ten segments of 1000 bytes in 200 ms.
            pacing.on_sent(ms(1000), 1000, 10_000, Some(Span::from_millis(200)));
            assert_eq!(pacing.release_at(), ms(1000 + gap));
            pacing.on_sent(ms(1000 + gap), 500, 10_000, Some(Span::from_millis(200)));
            assert_eq!(pacing.release_at(), ms(1000 + gap + gap / 2));
        }
    }

    #[test]
    fn a_silence_earns_nothing_and_a_segment_that_was_late_delays_the_next() {
        let mut pacing = RatePacing::new(1.0);
        for at in [1000, 5000, 5003] {
            pacing.on_sent(ms(at), 1000, 10_000, Some(Span::from_millis(200)));
        }
        assert_eq!(pacing.release_at(), ms(5040));
    }

    #[test]
    fn without_a_round_trip_nothing_waits() {
        let mut pacing = RatePacing::new(1.0);
        pacing.on_sent(ms(1000), 1000, 10_000, None);
        assert_eq!(pacing.release_at(), Time::ZERO);
    }
}

use super::PacedSegment;
use super::kernel::pacing_interval;
use catnip_base::Time;

/// Pacing of draft-ietf-ccwg-bbr-05, section 5.6.2, at the rate that the controller sets: from the first segment on, each segment takes its
/// length divided by the rate, whenever it was sent.
#[derive(Clone, Debug, Default)]
pub struct DeparturePacing {
    /// BBR.next_departure_time.
    next_at: Time,
}

impl DeparturePacing {
    pub(super) fn release_at(&self) -> Time {
        self.next_at
    }

    pub(super) fn on_sent(&mut self, paced: &PacedSegment) {
        self.next_at = self.next_at.max(paced.now);
        if let Some(interval) = pacing_interval(paced) {
            self.next_at += interval;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catnip_base::Span;

    #[test]
    fn every_segment_takes_its_length_over_the_rate_from_the_first_one_on_and_after_a_pause() {
        let mut pacing = DeparturePacing::default();
        let mut next = |at_ms| {
            pacing.on_sent(&PacedSegment {
                now: Time::ZERO + Span::from_millis(at_ms),
                is_new: true,
                bytes: 1000,
                cwnd: 10_000,
                in_slow_start: true,
                srtt: None,
                rate: Some(100_000),
            });
            pacing.release_at().as_nanos() / 1_000_000
        };
        // "BBR.next_departure_time = max(Now(), BBR.next_departure_time)", then "pacing_delay = packet.size / BBR.pacing_rate" later.
        assert_eq!([5, 15, 25, 300, 305].map(&mut next), [15, 25, 35, 310, 320]);
    }
}

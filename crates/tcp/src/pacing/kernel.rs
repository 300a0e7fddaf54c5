use super::PacedSegment;
use catnip_base::{Span, Time};

/// Pacing of Linux without a pacing qdisc (tcp_internal_pacing). The rate is twice the window per SRTT in slow start and 1.2 times the
/// window per SRTT afterwards, or the rate that the controller sets. The first ten segments are not paced. If a segment is sent late, the
/// interval to the next segment is shorter by this delay, but by at most half.
#[derive(Clone, Debug, Default)]
pub struct KernelPacing {
    next_at: Time,
    sent: u32,
}

/// Number of segments sent before pacing begins.
const UNPACED_SEGMENTS: u32 = 10;
/// Pacing ratios (tcp_pacing_ss_ratio and tcp_pacing_ca_ratio), per cent.
const SLOW_START_PCT: u128 = 200;
const AVOIDANCE_PCT: u128 = 120;
const NANOS: u128 = 1_000_000_000;

impl KernelPacing {
    pub(super) fn release_at(&self) -> Time {
        self.next_at
    }

    pub(super) fn on_sent(&mut self, paced: &PacedSegment) {
        let planned = self.next_at;
        self.next_at = planned.max(paced.now);
        self.sent = self.sent.saturating_add(1);
        let Some(interval) = pacing_interval(paced).filter(|_| self.sent > UNPACED_SEGMENTS) else { return };
        let credit = paced.now.since(planned.min(paced.now));
        self.next_at += interval.saturating_sub(credit.min(interval / 2));
    }
}

/// Returns how long sending a segment takes at the pacing rate; `None` if neither a rate nor an SRTT is available.
pub(super) fn pacing_interval(paced: &PacedSegment) -> Option<Span> {
    let nanos = match paced.rate {
        Some(rate) => u128::from(paced.bytes) * NANOS / u128::from(rate.max(1)),
        None => {
            let percent = if paced.in_slow_start { SLOW_START_PCT } else { AVOIDANCE_PCT };
            let srtt = u128::from(paced.srtt?.as_nanos());
            u128::from(paced.bytes) * srtt * 100 / (percent * u128::from(paced.cwnd.max(1)))
        }
    };
    Some(Span::from_nanos(nanos as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Time {
        Time::ZERO + Span::from_millis(n)
    }

    fn paced(at: u64, in_slow_start: bool, rate: Option<u64>) -> PacedSegment {
        let srtt = Some(Span::from_millis(240));
        PacedSegment { now: ms(at), is_new: true, bytes: 1000, cwnd: 10_000, in_slow_start, srtt, rate }
    }

    /// Sends the unpaced segments and one paced segment at 1000 ms, and returns the release time of the next segment.
    fn next(in_slow_start: bool, rate: Option<u64>) -> Time {
        let mut pacing = KernelPacing::default();
        for _ in 0..UNPACED_SEGMENTS {
            pacing.on_sent(&paced(1000, in_slow_start, rate));
            assert_eq!(pacing.release_at(), ms(1000), "the first ten leave at once");
        }
        pacing.on_sent(&paced(1000, in_slow_start, rate));
        pacing.release_at()
    }

    #[test]
    fn a_window_takes_half_a_round_trip_in_slow_start_and_five_sixths_after_it() {
        assert_eq!(next(true, None), ms(1012));
        assert_eq!(next(false, None), ms(1020));
        assert_eq!(next(true, Some(100_000)), ms(1010), "a controller's own rate counts alone");
    }

    #[test]
    fn who_was_late_goes_on_the_sooner_by_half_of_a_segment_at_most() {
        let mut pacing = KernelPacing::default();
        (0..=UNPACED_SEGMENTS).for_each(|_| pacing.on_sent(&paced(1000, false, None)));
        assert_eq!(pacing.release_at(), ms(1020));
        pacing.on_sent(&paced(1024, false, None));
        assert_eq!(pacing.release_at(), ms(1024 + 16));
        pacing.on_sent(&paced(5000, false, None));
        assert_eq!(pacing.release_at(), ms(5010));
    }
}

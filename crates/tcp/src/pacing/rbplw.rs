use super::RoundStart;
use catnip_base::notation::Usage;
use catnip_base::{Span, Time};
use catnip_law::last_window;

pub(super) const USAGE: Usage =
    ("rbplw", "rate-based pacing of the last window, which is spread over one round-trip time");

/// Rate-based pacing of the last window (CATNIP paper, section III-B): applies its [law](last_window) to each round.
#[derive(Clone, Debug, Default)]
pub struct Rbplw {
    gap: Option<Span>,
    next_at: Time,
}

impl Rbplw {
    /// Resets the pacing, because each message has its own last window.
    pub(super) fn on_message(&mut self) {
        *self = Self::default();
    }

    pub(super) fn on_round(&mut self, round: &RoundStart) {
        let srtt = round.srtt.map_or(0, |srtt| srtt.as_nanos());
        let gap = last_window::gap_ns(round.unsent_segments, round.next_window_segments, srtt);
        if self.gap.is_none() && gap > 0 {
            self.gap = Some(Span::from_nanos(gap));
        }
    }

    pub(super) fn release_at(&self) -> Time {
        self.next_at
    }

    pub(super) fn on_sent(&mut self, now: Time) {
        if let Some(gap) = self.gap {
            self.next_at = now + gap;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Time {
        Time::ZERO + Span::from_millis(n)
    }

    fn round(unsent_segments: u64, next_window_segments: u64) -> RoundStart {
        RoundStart { unsent_segments, next_window_segments, srtt: Some(Span::from_millis(200)) }
    }

    /// Returns the release time of the next segment if `rounds` have started and then a segment was sent at 1000 ms.
    fn next_after(rounds: &[RoundStart]) -> Time {
        let mut pacing = Rbplw::default();
        rounds.iter().for_each(|round| pacing.on_round(round));
        pacing.on_sent(ms(1000));
        pacing.release_at()
    }

    #[test]
    fn the_last_window_takes_one_round_trip_and_windows_before_it_no_time() {
        let at_once = Time::ZERO;
        assert_eq!(next_after(&[]), at_once);
        assert_eq!(next_after(&[round(9, 8)]), at_once, "another window follows");
        assert_eq!(next_after(&[round(8, 8)]), ms(1025));
        assert_eq!(next_after(&[round(4, 8)]), ms(1050));
        assert_eq!(next_after(&[round(2, 8)]), ms(1100));
        assert_eq!(next_after(&[round(1, 8)]), at_once, "one segment needs no spreading");
        assert_eq!(next_after(&[round(0, 8)]), at_once);
    }

    #[test]
    fn the_first_round_that_can_be_the_last_one_decides() {
        assert_eq!(next_after(&[round(9, 8), round(4, 8), round(2, 8)]), ms(1050));
    }

    #[test]
    fn without_a_round_trip_nothing_is_paced() {
        assert_eq!(next_after(&[RoundStart { srtt: None, ..round(4, 8) }]), Time::ZERO);
    }
}

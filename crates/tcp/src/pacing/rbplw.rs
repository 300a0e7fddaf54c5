use super::RoundStart;
use catnip_base::notation::Usage;
use catnip_base::{Span, Time};

pub(super) const USAGE: Usage =
    ("rbplw", "rate-based pacing of the last window: it is spread over one round trip");

/// Rate-based pacing of the last window (CATNIP paper, section III-B).
///
/// The paper spreads the last few packets "over a short interval"; here it is one smoothed round trip. The whole
/// coming round decides, because a single ACK opens room for only one or two packets.
#[derive(Clone, Debug, Default)]
pub struct Rbplw {
    gap: Option<Span>,
    next_at: Time,
}

impl Rbplw {
    pub(super) fn on_round(&mut self, round: &RoundStart) {
        let last = 1 < round.unsent_segments && round.unsent_segments <= round.next_window_segments;
        if let (None, true, Some(srtt)) = (self.gap, last, round.srtt) {
            self.gap = Some(srtt / round.unsent_segments);
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

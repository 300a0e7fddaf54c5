use super::Growth;
use crate::control::Ack;
use catnip_base::Span;

/// HyStart++ (RFC 9406): the window grows at a quarter of its pace for five rounds once the least round trip of a round is longer
/// than that of the one before, and then linearly; if round trips get shorter again it was none of its making, and it doubles on.
#[derive(Clone, Debug, Default)]
pub struct HyStartPlus {
    /// The round ends once this is acknowledged.
    round_end: u64,
    last_round: Option<Span>,
    this_round: Option<Span>,
    /// Round trips measured in this round.
    samples: u32,
    /// Conservative slow start: the round trip it began with, and rounds begun since then.
    conservative: Option<(Span, u32)>,
}

/// Section 4.3, all of them.
const MIN_THRESHOLD: Span = Span::from_millis(4);
const MAX_THRESHOLD: Span = Span::from_millis(16);
const DIVISOR: u64 = 8;
const SAMPLES: u32 = 8;
const SLOWER_BY: f64 = 4.0;
const ROUNDS: u32 = 5;
/// L, for senders that do not pace.
const MOST_SEGMENTS: f64 = 8.0;

impl HyStartPlus {
    pub(super) fn on_ack(&mut self, ack: &Ack, acked: f64) -> Growth {
        let mut ends = false;
        if ack.una > self.round_end {
            self.round_end = ack.next;
            self.last_round = self.this_round.take();
            self.samples = 0;
            if let Some((_, rounds)) = &mut self.conservative {
                ends = *rounds >= ROUNDS;
                *rounds += 1;
            }
        }
        if let Some(rtt) = ack.rtt {
            self.this_round = Some(self.this_round.map_or(rtt, |least| least.min(rtt)));
            self.samples += 1;
        }
        let pace = if self.conservative.is_some() { SLOWER_BY } else { 1.0 };
        self.look();
        Growth { segments: acked.min(MOST_SEGMENTS) / pace, ends }
    }

    /// Have round trips become longer, or shorter again?
    fn look(&mut self) {
        let Some(this) = self.this_round.filter(|_| self.samples >= SAMPLES) else { return };
        match (self.conservative, self.last_round) {
            (None, Some(last)) => {
                let eighth = Span::from_nanos(last.as_nanos() / DIVISOR);
                if this >= last + eighth.clamp(MIN_THRESHOLD, MAX_THRESHOLD) {
                    // The rest of this round is the first of the five.
                    self.conservative = Some((this, 1));
                }
            }
            (Some((baseline, _)), _) if this < baseline => self.conservative = None,
            _ => {}
        }
    }
}

use super::Growth;
use crate::control::Ack;
use catnip_base::Span;

/// HyStart++ (RFC 9406). If the minimum RTT of a round exceeds that of the previous round by a threshold, conservative slow start begins:
/// the window grows at a quarter of the pace for five rounds, and then slow start ends. If the RTT falls again, the increase was spurious,
/// and standard slow start continues.
#[derive(Clone, Debug, Default)]
pub struct HyStartPlus {
    /// End of the round: the first ACK beyond this byte begins the next round.
    round_end: u64,
    last_round: Option<Span>,
    this_round: Option<Span>,
    /// Number of RTT samples in this round.
    samples: u32,
    /// State of conservative slow start: its baseline RTT and the number of rounds since its start; `None` in standard slow start.
    conservative: Option<(Span, u32)>,
}

/// Minimum RTT threshold. All constants are those of section 4.3.
const MIN_THRESHOLD: Span = Span::from_millis(4);
const MAX_THRESHOLD: Span = Span::from_millis(16);
const DIVISOR: u64 = 8;
const SAMPLES: u32 = 8;
const SLOWER_BY: f64 = 4.0;
const ROUNDS: u32 = 5;
/// Limit L, for senders without pacing.
const MOST_SEGMENTS: f64 = 8.0;

impl HyStartPlus {
    pub(super) fn on_ack(&mut self, ack: &Ack, acked: f64) -> Growth {
        let mut ends = false;
        if ack.snd_una > self.round_end {
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

    /// Enters or leaves conservative slow start, depending on the minimum RTT of this round.
    fn look(&mut self) {
        let Some(this) = self.this_round.filter(|_| self.samples >= SAMPLES) else { return };
        match (self.conservative, self.last_round) {
            (None, Some(last)) => {
                let eighth = Span::from_nanos(last.as_nanos() / DIVISOR);
                if this >= last + eighth.clamp(MIN_THRESHOLD, MAX_THRESHOLD) {
                    // The rest of this round is the first of the five rounds.
                    self.conservative = Some((this, 1));
                }
            }
            (Some((baseline, _)), _) if this < baseline => self.conservative = None,
            _ => {}
        }
    }
}

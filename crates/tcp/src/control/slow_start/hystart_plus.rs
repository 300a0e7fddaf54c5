use super::Growth;
use crate::control::Ack;
use catnip_base::Span;

/// HyStart++ (RFC 9406). If the minimum RTT of a round exceeds that of the previous round by a threshold, conservative slow start begins:
/// the window grows at a quarter of the pace for five rounds, and then slow start ends. If the RTT falls again, the increase was spurious,
/// and standard slow start continues.
#[derive(Clone, Debug, Default)]
pub struct HyStartPlus {
    /// End of the round: the first ACK beyond this byte begins the next round.
    window_end: u64,
    last_round_min_rtt: Option<Span>,
    current_round_min_rtt: Option<Span>,
    /// Number of RTT samples in this round.
    rtt_sample_count: u32,
    /// State of conservative slow start: its baseline RTT and the number of rounds since its start; `None` in standard slow start.
    css: Option<(Span, u32)>,
}

/// Minimum RTT threshold. All constants are those of section 4.3.
const MIN_RTT_THRESH: Span = Span::from_millis(4);
const MAX_RTT_THRESH: Span = Span::from_millis(16);
const MIN_RTT_DIVISOR: u64 = 8;
const N_RTT_SAMPLE: u32 = 8;
const CSS_GROWTH_DIVISOR: f64 = 4.0;
const CSS_ROUNDS: u32 = 5;
/// Limit L, for senders without pacing.
const MAX_SEGMENTS_PER_ACK: f64 = 8.0;

impl HyStartPlus {
    pub(super) fn on_ack(&mut self, ack: &Ack, acked: f64) -> Growth {
        let mut ends = false;
        if ack.snd_una > self.window_end {
            self.window_end = ack.snd_max;
            self.last_round_min_rtt = self.current_round_min_rtt.take();
            self.rtt_sample_count = 0;
            if let Some((_, css_rounds)) = &mut self.css {
                ends = *css_rounds >= CSS_ROUNDS;
                *css_rounds += 1;
            }
        }
        if let Some(rtt) = ack.rtt {
            self.current_round_min_rtt =
                Some(self.current_round_min_rtt.map_or(rtt, |min_rtt| min_rtt.min(rtt)));
            self.rtt_sample_count += 1;
        }
        let divisor = if self.css.is_some() { CSS_GROWTH_DIVISOR } else { 1.0 };
        self.update_css();
        Growth { segments: acked.min(MAX_SEGMENTS_PER_ACK) / divisor, ends }
    }

    /// Enters or leaves conservative slow start, depending on the minimum RTT of this round.
    fn update_css(&mut self) {
        let Some(current) = self.current_round_min_rtt.filter(|_| self.rtt_sample_count >= N_RTT_SAMPLE)
        else {
            return;
        };
        match (self.css, self.last_round_min_rtt) {
            (None, Some(last)) => {
                let eighth = Span::from_nanos(last.as_nanos() / MIN_RTT_DIVISOR);
                if current >= last + eighth.clamp(MIN_RTT_THRESH, MAX_RTT_THRESH) {
                    // The rest of this round is the first of the five rounds.
                    self.css = Some((current, 1));
                }
            }
            (Some((css_baseline_min_rtt, _)), _) if current < css_baseline_min_rtt => self.css = None,
            _ => {}
        }
    }
}

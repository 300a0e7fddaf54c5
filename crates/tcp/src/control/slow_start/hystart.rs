use super::Growth;
use crate::control::Ack;
use catnip_base::{Span, Time};

/// HyStart as in Linux (net/ipv4/tcp_cubic.c, 6.18). With a window of at least 16 segments, slow start ends in one of two cases. The first
/// is a minimum RTT of a round with at least eight samples that exceeds the minimum RTT of the connection by an eighth (limited to 4 to 16
/// ms). The second is a train of closely spaced ACKs that lasts for half of the minimum RTT of the connection.
#[derive(Clone, Debug, Default)]
pub struct HyStart {
    round: Option<Round>,
    /// Minimum RTT since the start of the connection or the last timeout.
    min_rtt: Option<Span>,
    /// True after HyStart has ended slow start. HyStart is then inactive until a timeout.
    found: bool,
}

#[derive(Clone, Copy, Debug)]
struct Round {
    /// End of the round: the first ACK beyond this byte begins the next round.
    end: u64,
    started: Time,
    /// Time of the last ACK of the train.
    last_ack: Time,
    min_rtt: Option<Span>,
    samples: u32,
}

/// Minimum window for HyStart (hystart_low_window), segments.
const LOW_WINDOW: f64 = 16.0;
/// Maximum gap between two ACKs of a train (hystart_ack_delta_us).
const ACK_DELTA: Span = Span::from_millis(2);
/// Number of RTT samples in a round before its minimum is used (HYSTART_MIN_SAMPLES).
const MIN_SAMPLES: u32 = 8;
/// Limits of the RTT threshold (HYSTART_DELAY_MIN, HYSTART_DELAY_MAX).
const MIN_THRESHOLD: Span = Span::from_millis(4);
const MAX_THRESHOLD: Span = Span::from_millis(16);
/// Maximum of hystart_ack_delay, which is the time to send four packets of 64 KB at the pacing rate.
const MAX_ACK_DELAY: Span = Span::from_millis(1);
const BURST_BYTES: f64 = 4.0 * 65536.0;

impl HyStart {
    /// Handles an ACK. The window grows by all data that the ACK acknowledges (tcp_slow_start).
    pub(super) fn on_ack(&mut self, ack: &Ack, acked: f64, cwnd: f64, segment: f64) -> Growth {
        let mut ends = false;
        if let Some(rtt) = ack.rtt {
            let min_rtt = self.min_rtt.map_or(rtt, |min_rtt| min_rtt.min(rtt));
            self.min_rtt = Some(min_rtt);
            ends = !self.found && self.update(ack, rtt, min_rtt, cwnd, segment);
            self.found |= ends;
        }
        Growth { segments: acked, ends }
    }

    fn update(&mut self, ack: &Ack, rtt: Span, min_rtt: Span, cwnd: f64, segment: f64) -> bool {
        let new_round =
            Round { end: ack.snd_max, started: ack.now, last_ack: ack.now, min_rtt: None, samples: 0 };
        let mut round = self.round.filter(|round| ack.snd_una <= round.end).unwrap_or(new_round);
        let mut found = false;
        if cwnd >= LOW_WINDOW {
            if ack.now - round.last_ack <= ACK_DELTA {
                round.last_ack = ack.now;
                let threshold = Span::from_nanos((min_rtt + ack_delay(ack, cwnd * segment)).as_nanos() / 2);
                found = ack.now - round.started > threshold;
            }
            let round_min_rtt = round.min_rtt.map_or(rtt, |min_rtt| min_rtt.min(rtt));
            round.min_rtt = Some(round_min_rtt);
            if round.samples < MIN_SAMPLES {
                round.samples += 1;
            } else {
                let eighth = Span::from_nanos(min_rtt.as_nanos() / 8).clamp(MIN_THRESHOLD, MAX_THRESHOLD);
                found |= round_min_rtt > min_rtt + eighth;
            }
        }
        self.round = Some(round);
        found
    }
}

/// hystart_ack_delay: returns the allowance for packets that are sent at once. The pacing rate of slow start is two windows per round trip.
fn ack_delay(ack: &Ack, cwnd_bytes: f64) -> Span {
    let Some(srtt) = ack.srtt else { return Span::ZERO };
    let rate = 2.0 * cwnd_bytes / srtt.as_secs();
    Span::from_secs_f64(BURST_BYTES / rate).min(MAX_ACK_DELAY)
}

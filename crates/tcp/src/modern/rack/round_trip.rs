use crate::RtoConfig;
use catnip_base::Span;

/// RTT estimate and retransmission timeout (RFC 6298) as in Linux: one sample per ACK, and an RTTVAR that rises immediately and falls once
/// per round trip. The minimum timeout is a minimum of RTTVAR: RTO = SRTT + max(minimum, RTTVAR).
#[derive(Clone, Debug)]
pub(super) struct RoundTrip {
    /// SRTT, nanoseconds, as are the following three values.
    srtt: Option<u64>,
    /// Mean deviation times four (mdev_us).
    deviation: u64,
    /// Maximum of the mean deviation in this round (mdev_max_us).
    most: u64,
    /// RTTVAR times four (rttvar_us).
    variation: u64,
    /// Byte whose acknowledgement ends the round (rtt_seq).
    round_end: u64,
    backoff: u32,
    /// Minimum RTT.
    least: Option<Span>,
    /// Sum and number of the RTT samples.
    samples: (Span, u32),
}

impl RoundTrip {
    pub(super) fn new() -> Self {
        Self {
            srtt: None,
            deviation: 0,
            most: 0,
            variation: 0,
            round_end: 0,
            backoff: 0,
            least: None,
            samples: (Span::ZERO, 0),
        }
    }

    /// Adds an RTT sample. All data before `snd_una` is acknowledged, and `next` is the end of the data sent.
    pub(super) fn sample(&mut self, config: &RtoConfig, rtt: Span, snd_una: u64, next: u64) {
        let (m, floor) = (rtt.as_nanos(), config.min.as_nanos());
        match self.srtt {
            // RFC 6298, rule 2.2: "SRTT <- R, RTTVAR <- R/2", here times four.
            None => {
                self.srtt = Some(m);
                self.deviation = 2 * m;
                self.most = self.deviation.max(floor);
                self.variation = self.most;
                self.round_end = next;
            }
            Some(srtt) => {
                self.srtt = Some((7 * srtt + m) / 8);
                let (error, is_shorter) = (m.abs_diff(srtt), m < srtt);
                let before = self.deviation;
                // Rule 2.3: 3/4 of the deviation and a quarter of four times the error. If the error is due to a shorter RTT, only an
                // eighth of an increase counts, as in Linux.
                self.deviation = match error.checked_sub(before / 4) {
                    Some(more) => before + if is_shorter { more / 8 } else { more },
                    None => before - (before / 4 - error),
                };
                self.most = self.most.max(self.deviation);
                self.variation = self.variation.max(self.most);
                if snd_una > self.round_end {
                    self.variation -= self.variation.saturating_sub(self.most) / 4;
                    self.round_end = next;
                    self.most = floor;
                }
            }
        }
        self.backoff = 0;
        self.samples = (self.samples.0 + rtt, self.samples.1 + 1);
    }

    /// Updates the minimum RTT with the RTT of the newest segment of an ACK.
    pub(super) fn observe(&mut self, rtt: Span) {
        self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
    }

    /// Returns the current RTO.
    pub(super) fn timeout(&self, config: &RtoConfig) -> Span {
        let base = self.srtt.map_or(config.first, |srtt| Span::from_nanos(srtt + self.variation));
        let doubled = base.as_nanos().saturating_mul(1 << self.backoff.min(32));
        Span::from_nanos(doubled.min(config.max.as_nanos()))
    }

    /// Doubles the RTO after an expiry of the timer.
    pub(super) fn back_off(&mut self) {
        self.backoff += 1;
    }

    /// Returns SRTT; `None` before the first RTT sample.
    pub(super) fn srtt(&self) -> Option<Span> {
        self.srtt.map(Span::from_nanos)
    }

    /// Returns the minimum RTT; `None` before the first RTT sample.
    pub(super) fn least(&self) -> Option<Span> {
        self.least
    }

    /// Returns the sum and the number of the RTT samples.
    pub(super) fn samples(&self) -> (Span, u32) {
        self.samples
    }
}

use crate::RtoConfig;
use catnip_base::Span;

/// Round trips, and the retransmission timeout (RFC 6298) as Linux has it: a sample per ACK, a variation that rises at once and falls
/// once per round trip, and a least timeout that is a floor of the variation: RTO = SRTT + max(least, RTTVAR).
#[derive(Clone, Debug)]
pub(super) struct RoundTrip {
    /// Nanoseconds, all of them.
    srtt: Option<u64>,
    /// The mean deviation times four, its maximum in this round, and the variation.
    deviation: u64,
    most: u64,
    variation: u64,
    /// The round ends once this is acknowledged.
    round_end: u64,
    backoff: u32,
    least: Option<Span>,
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

    /// What an ACK measures. `una` is acknowledged, `next` is the end of all that was sent.
    pub(super) fn sample(&mut self, config: &RtoConfig, rtt: Span, una: u64, next: u64) {
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
                // Rule 2.3: 3/4 of it and a quarter of four times the error. One that is larger because round trips get shorter
                // counts an eighth, as in Linux.
                self.deviation = match error.checked_sub(before / 4) {
                    Some(more) => before + if is_shorter { more / 8 } else { more },
                    None => before - (before / 4 - error),
                };
                self.most = self.most.max(self.deviation);
                self.variation = self.variation.max(self.most);
                if una > self.round_end {
                    self.variation -= self.variation.saturating_sub(self.most) / 4;
                    self.round_end = next;
                    self.most = floor;
                }
            }
        }
        self.backoff = 0;
        self.samples = (self.samples.0 + rtt, self.samples.1 + 1);
    }

    /// The round trip of the newest segment of an ACK, which the least one is of.
    pub(super) fn observe(&mut self, rtt: Span) {
        self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
    }

    /// The timeout as it stands.
    pub(super) fn timeout(&self, config: &RtoConfig) -> Span {
        let base = self.srtt.map_or(config.first, |srtt| Span::from_nanos(srtt + self.variation));
        let doubled = base.as_nanos().saturating_mul(1 << self.backoff.min(32));
        Span::from_nanos(doubled.min(config.max.as_nanos()))
    }

    /// The timer has expired.
    pub(super) fn back_off(&mut self) {
        self.backoff += 1;
    }

    /// Smoothed.
    pub(super) fn srtt(&self) -> Option<Span> {
        self.srtt.map(Span::from_nanos)
    }

    /// The least of all.
    pub(super) fn least(&self) -> Option<Span> {
        self.least
    }

    /// All samples added up, and how many there were.
    pub(super) fn samples(&self) -> (Span, u32) {
        self.samples
    }
}

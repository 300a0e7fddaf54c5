use crate::RtoConfig;
use catnip_base::Span;

/// RTT estimate and retransmission timeout (RFC 6298) as in Linux: one sample per ACK, and an RTTVAR that rises immediately and falls once
/// per round trip. The minimum timeout is a minimum of RTTVAR: RTO = SRTT + max(minimum, RTTVAR).
#[derive(Clone, Debug)]
pub(super) struct RttEstimator {
    /// SRTT, nanoseconds, as are the following three values.
    srtt: Option<u64>,
    /// Mean deviation times four (mdev_us).
    mdev: u64,
    /// Maximum of the mean deviation in this round (mdev_max_us).
    mdev_max: u64,
    /// RTTVAR times four (rttvar_us).
    rttvar: u64,
    /// Byte whose acknowledgement ends the round (rtt_seq).
    rtt_seq: u64,
    backoff: u32,
    /// Minimum RTT.
    min_rtt: Option<Span>,
    /// Sum and number of the RTT samples.
    samples: (Span, u32),
}

/// RTO after a handshake without an RTT sample, TCP_TIMEOUT_FALLBACK.
const FALLBACK_RTO: Span = Span::from_secs(3);

impl RttEstimator {
    pub(super) fn new() -> Self {
        Self {
            srtt: None,
            mdev: 0,
            mdev_max: 0,
            rttvar: 0,
            rtt_seq: 0,
            backoff: 0,
            min_rtt: None,
            samples: (Span::ZERO, 0),
        }
    }

    /// Adds an RTT sample. All data before `snd_una` is acknowledged, and `snd_nxt` is the end of the data sent.
    pub(super) fn sample(&mut self, config: &RtoConfig, rtt: Span, snd_una: u64, snd_nxt: u64) {
        let (rtt_ns, min_rto) = (rtt.as_nanos(), config.min.as_nanos());
        match self.srtt {
            // RFC 6298, rule 2.2: "SRTT <- R, RTTVAR <- R/2", here times four.
            None => {
                self.srtt = Some(rtt_ns);
                self.mdev = 2 * rtt_ns;
                self.mdev_max = self.mdev.max(min_rto);
                self.rttvar = self.mdev_max;
                self.rtt_seq = snd_nxt;
            }
            Some(srtt) => {
                self.srtt = Some((7 * srtt + rtt_ns) / 8);
                let (error, is_shorter) = (rtt_ns.abs_diff(srtt), rtt_ns < srtt);
                let before = self.mdev;
                // Rule 2.3: 3/4 of the deviation and a quarter of four times the error. If the error is due to a shorter RTT, only an
                // eighth of an increase counts, as in Linux.
                self.mdev = match error.checked_sub(before / 4) {
                    Some(excess) => before + if is_shorter { excess / 8 } else { excess },
                    None => before - (before / 4 - error),
                };
                self.mdev_max = self.mdev_max.max(self.mdev);
                self.rttvar = self.rttvar.max(self.mdev_max);
                if snd_una > self.rtt_seq {
                    self.rttvar -= self.rttvar.saturating_sub(self.mdev_max) / 4;
                    self.rtt_seq = snd_nxt;
                    self.mdev_max = min_rto;
                }
            }
        }
        self.backoff = 0;
        self.samples = (self.samples.0 + rtt, self.samples.1 + 1);
    }

    /// Handles a handshake without an RTT sample (RFC 6298, section 5.7: the RTO "MUST be re-initialized to 3 seconds").
    pub(super) fn on_untimed_handshake(&mut self) {
        self.rttvar = FALLBACK_RTO.as_nanos();
    }

    /// Updates the minimum RTT with the RTT of the newest segment of an ACK.
    pub(super) fn update_min_rtt(&mut self, rtt: Span) {
        self.min_rtt = Some(self.min_rtt.map_or(rtt, |min_rtt| min_rtt.min(rtt)));
    }

    /// Returns the current RTO.
    pub(super) fn timeout(&self, config: &RtoConfig) -> Span {
        let without_sample = config.first.max(Span::from_nanos(self.rttvar));
        let base = self.srtt.map_or(without_sample, |srtt| Span::from_nanos(srtt + self.rttvar));
        let backed_off = base.as_nanos().saturating_mul(1 << self.backoff.min(32));
        Span::from_nanos(backed_off.min(config.max.as_nanos()))
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
    pub(super) fn min_rtt(&self) -> Option<Span> {
        self.min_rtt
    }

    /// Returns the sum and the number of the RTT samples.
    pub(super) fn samples(&self) -> (Span, u32) {
        self.samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> RtoConfig {
        RtoConfig { min: Span::from_millis(200), ..crate::profile::rfc().rto }
    }

    /// Returns an estimator after samples of the given RTTs, ms, in one round.
    fn sampled(rtts_ms: &[u64]) -> RttEstimator {
        let mut rtt = RttEstimator::new();
        rtts_ms.iter().for_each(|&ms| rtt.sample(&config(), Span::from_millis(ms), 10, 20));
        rtt
    }

    fn rto_us(rtt: &RttEstimator) -> u64 {
        rtt.timeout(&config()).as_nanos() / 1000
    }

    #[test]
    fn the_first_sample_counts_three_times_or_once_with_the_minimum() {
        // RFC 6298, rule 2.2: SRTT + 4 * RTTVAR = R + 4 * R / 2. tcp_rtt_estimator: mdev_max is at least tcp_rto_min.
        assert_eq!([rto_us(&sampled(&[400])), rto_us(&sampled(&[50]))], [1_200_000, 250_000]);
    }

    #[test]
    fn a_longer_round_trip_counts_at_once_and_an_eighth_of_a_shorter_one() {
        // tcp_rtt_estimator, of 400 ms and a mean deviation of 800 ms (times four): the error of 320 ms exceeds a quarter of it by 120 ms.
        // SRTT is 7/8 * 400 + 720 / 8 = 440 ms, and the deviation is 800 + 120.
        assert_eq!(rto_us(&sampled(&[400, 720])), 440_000 + 920_000);
        // "if (m > 0) m >>= 3": SRTT is 360 ms, and the deviation is 800 + 120 / 8.
        assert_eq!(rto_us(&sampled(&[400, 80])), 360_000 + 815_000);
    }

    #[test]
    fn the_deviation_falls_by_a_quarter_of_the_way_once_per_round_down_to_the_minimum() {
        let mut rtt = sampled(&[400]);
        let mut sample = |snd_una: u64| {
            rtt.sample(&config(), Span::from_millis(400), snd_una, snd_una + 10);
            rto_us(&rtt) - 400_000
        };
        // The round ends when the byte behind SND.NXT = 20 is acknowledged. The deviation falls from 800 to 600 and 450 ms, but the maximum
        // of this round is that of its beginning.
        assert_eq!([sample(20), sample(21)], [800_000, 800_000]);
        // The maximum of the next round is 337.5 ms: 800 - (800 - 337.5) / 4.
        assert_eq!(sample(32), 684_375);
        let settled: Vec<u64> = (4..80).map(|round| sample(20 * round)).collect();
        assert!(settled.iter().all(|&deviation| deviation >= 200_000), "{settled:?}");
        assert!(settled[75] < 200_010, "{}", settled[75]);
    }

    #[test]
    fn each_expiry_doubles_the_timeout_until_the_next_sample() {
        let mut rtt = sampled(&[400]);
        rtt.back_off();
        rtt.back_off();
        assert_eq!(rto_us(&rtt), 4_800_000);
        rtt.sample(&config(), Span::from_millis(400), 10, 20);
        assert_eq!(rto_us(&rtt), 1_200_000);
    }
}

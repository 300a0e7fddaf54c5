use crate::RtoConfig;
use catnip_base::{Span, Time};

/// RTT estimate and retransmission timeout: RFC 6298 in the integer arithmetic of BSD, which counts clock ticks. A fine tick gives the
/// results of the formulas of the RFC, a coarse tick the results of a machine of 1988 or of ns-2.
#[derive(Clone, Debug)]
pub struct Rto {
    /// SRTT, in ticks times 8; 0 before the first sample.
    srtt_8: i64,
    /// RTTVAR, in ticks times 4.
    rttvar_4: i64,
    /// Timeout before back-off, minimum and maximum are applied.
    base: Span,
    backoff: u32,
    /// Phase of the clock tick of the host.
    phase: Span,
    /// SRTT measured with a fine-grained clock; `None` before the first sample.
    fine_srtt: Option<Span>,
    /// Sum and number of the RTT samples.
    samples: (Span, u32),
}

/// Back-off factor at which doubling stops. If the minimum applies before back-off, doubling instead continues up to the maximum timeout.
const MAX_BACKOFF: u32 = 64;
/// Maximum back-off factor with which the estimate is kept. Above it, the estimate is discarded.
const CLEAR_SRTT_BACKOFF: u32 = 8;

impl Rto {
    /// Creates an estimator without samples. `phase` is the time from the last tick of this host's clock before the start of the run to the
    /// start of the run.
    pub fn new(config: &RtoConfig, phase: Span) -> Self {
        Self {
            srtt_8: 0,
            rttvar_4: 0,
            base: config.first,
            backoff: 1,
            phase,
            fine_srtt: None,
            samples: (Span::ZERO, 0),
        }
    }

    /// Adds an RTT sample: data that was first sent at `sent` was acknowledged at `now`. The caller must apply Karn's rule.
    pub fn sample(&mut self, config: &RtoConfig, sent: Time, now: Time) {
        let ticks_at = |at: Time| (at + self.phase).since(Time::ZERO).in_units_of(config.tick);
        let ticks = (ticks_at(now) - ticks_at(sent)).max(1) as i64;
        // RFC 6298, rules 2.2 and 2.3: "SRTT <- R, RTTVAR <- R/2", then "RTTVAR <- (1 - beta) * RTTVAR + beta * |SRTT - R'|,
        // SRTT <- (1 - alpha) * SRTT + alpha * R'" with alpha = 1/8 and beta = 1/4.
        if self.srtt_8 == 0 {
            self.srtt_8 = ticks << 3;
            self.rttvar_4 = ticks << 1;
        } else {
            let error = ticks - (self.srtt_8 >> 3);
            self.srtt_8 = (self.srtt_8 + error).max(1);
            self.rttvar_4 = (self.rttvar_4 + error.abs() - (self.rttvar_4 >> 2)).max(1);
        }
        self.base = config.tick * (((self.rttvar_4 << 3) + self.srtt_8) >> 3) as u64;
        let rtt = now - sent;
        self.samples = (self.samples.0 + rtt, self.samples.1 + 1);
        self.fine_srtt = Some(match self.fine_srtt {
            None => rtt,
            Some(srtt) => Span::from_nanos((7 * srtt.as_nanos() + rtt.as_nanos()) / 8),
        });
    }

    /// Returns the current RTO.
    pub fn timeout(&self, config: &RtoConfig) -> Span {
        let backoff = u64::from(self.backoff);
        let timeout = if config.floor_before_backoff {
            self.base.max(config.min) * backoff
        } else {
            (self.base * backoff).max(config.min)
        };
        timeout.min(config.max).max(config.tick * 2)
    }

    /// Doubles the RTO after an expiry of the timer.
    pub fn back_off(&mut self, config: &RtoConfig) {
        if self.backoff < MAX_BACKOFF || (config.floor_before_backoff && self.timeout(config) < config.max) {
            self.backoff = self.backoff.saturating_mul(2);
        }
        // RFC 6298, section 5: "a TCP implementation MAY clear SRTT and RTTVAR after backing off the timer multiple times".
        if self.backoff > CLEAR_SRTT_BACKOFF {
            // The next sample starts a new estimate.
            self.srtt_8 = 0;
        }
    }

    /// Ends the back-off after an ACK of data that was sent only once.
    pub fn end_backoff(&mut self) {
        self.backoff = 1;
    }

    /// Returns the sum and the number of the RTT samples, which are measured with a fine-grained clock.
    pub fn samples(&self) -> (Span, u32) {
        self.samples
    }

    /// Returns SRTT measured with a fine-grained clock, for pacing; `None` before the first sample.
    pub fn srtt(&self) -> Option<Span> {
        self.fine_srtt
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile;

    fn timeouts(rto: &mut Rto, config: &RtoConfig, count: usize) -> Vec<f64> {
        let step = |_| {
            let timeout = rto.timeout(config).as_secs();
            rto.back_off(config);
            timeout
        };
        (0..count).map(step).collect()
    }

    #[test]
    fn before_a_sample_the_timeouts_are_6_12_24_seconds() {
        let config = profile::ns2_2002().rto;
        assert_eq!(timeouts(&mut Rto::new(&config, Span::ZERO), &config, 3), [6.0, 12.0, 24.0]);
    }

    #[test]
    fn a_short_path_settles_at_three_ticks_of_100_ms() {
        let config = profile::ns2_2002().rto;
        let mut rto = Rto::new(&config, Span::from_millis(30));
        for i in 0..50 {
            let sent = Time::ZERO + Span::from_millis(1000 * i);
            rto.sample(&config, sent, sent + Span::from_millis(35));
        }
        assert_eq!(rto.timeout(&config), Span::from_millis(300));
    }

    #[test]
    fn the_first_sample_gives_srtt_plus_four_times_half_of_it() {
        // RFC 6298, rule 2.2. The minimum is so low that it does not apply.
        let config = RtoConfig { min: Span::from_millis(1), ..profile::rfc().rto };
        let mut rto = Rto::new(&config, Span::ZERO);
        rto.sample(&config, Time::ZERO, Time::ZERO + Span::from_millis(100));
        assert_eq!(rto.timeout(&config), Span::from_millis(300));
    }

    #[test]
    fn the_rfc_floor_applies_before_back_off_and_the_ceiling_after() {
        let config = profile::rfc().rto;
        let mut rto = Rto::new(&config, Span::ZERO);
        rto.sample(&config, Time::ZERO, Time::ZERO + Span::from_millis(10));
        assert_eq!(timeouts(&mut rto, &config, 7), [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0]);
    }
    /// Parameters with a clock tick of a microsecond, and with a minimum and a maximum that do not apply in most tests.
    const FINE: RtoConfig = RtoConfig {
        tick: Span::from_micros(1),
        first: Span::from_secs(1),
        min: Span::from_millis(1),
        max: Span::from_secs(60),
        floor_before_backoff: true,
    };

    /// Returns an estimator with these RTT samples, in milliseconds.
    fn sampled(config: &RtoConfig, round_trips: &[u64]) -> Rto {
        let mut rto = Rto::new(config, Span::ZERO);
        sample(&mut rto, config, round_trips);
        rto
    }

    fn sample(rto: &mut Rto, config: &RtoConfig, round_trips: &[u64]) {
        for &round_trip in round_trips {
            rto.sample(config, Time::ZERO, Time::ZERO + Span::from_millis(round_trip));
        }
    }

    #[test]
    fn later_samples_weigh_one_eighth_and_their_deviations_one_quarter() {
        // RFC 6298, rule 2.3: "RTTVAR <- (1 - beta) * RTTVAR + beta * |SRTT - R'|", 3/4 * 50 + 1/4 * 80, then "SRTT <-
        // (1 - alpha) * SRTT + alpha * R'", 7/8 * 100 + 1/8 * 180; "RTO <- SRTT + max (G, K*RTTVAR)", K = 4.
        let rto = sampled(&FINE, &[100, 180]);
        assert_eq!(rto.timeout(&FINE), Span::from_micros(110_000 + 4 * 57_500));
        assert_eq!(rto.srtt(), Some(Span::from_millis(110)));
        // 3/4 * 50 + 1/4 * 80 again, and 7/8 * 100 + 1/8 * 20.
        let rto = sampled(&FINE, &[100, 20]);
        assert_eq!(rto.timeout(&FINE), Span::from_micros(90_000 + 4 * 57_500));
    }

    #[test]
    fn a_clock_that_ticks_counts_ticks_between_sending_and_hearing() {
        // Ticks are 100 ms. A first sample of n ticks gives a timeout of 3 n ticks.
        let config = RtoConfig { min: Span::ZERO, ..profile::ns2_2002().rto };
        for (phase, sent, heard, ticks) in [
            (0, 90, 110, 1),
            (0, 10, 90, 1),
            (0, 50, 249, 2),
            (0, 50, 250, 2),
            (0, 99, 300, 3),
            (60, 30, 250, 3),
            (40, 60, 259, 1),
        ] {
            let at = |ms| Time::ZERO + Span::from_millis(ms);
            let mut rto = Rto::new(&config, Span::from_millis(phase));
            rto.sample(&config, at(sent), at(heard));
            let expected = Span::from_millis(300 * ticks);
            assert_eq!(rto.timeout(&config), expected, "from {sent} to {heard} ms, phase {phase} ms");
            assert_eq!(rto.srtt(), Some(Span::from_millis(heard - sent)), "pacing has a fine clock");
        }
    }

    #[test]
    fn a_timeout_is_two_ticks_at_least() {
        // ns-2: "if (timeout < 2.0 * tcp_tick_) timeout = 2.0 * tcp_tick_", after the back-off.
        let config =
            RtoConfig { tick: Span::from_millis(100), first: Span::from_millis(50), min: Span::ZERO, ..FINE };
        assert_eq!(timeouts(&mut Rto::new(&config, Span::ZERO), &config, 4), [0.2, 0.2, 0.2, 0.4]);
    }

    #[test]
    fn ns_2_of_2002_stops_doubling_at_64_times_the_timeout() {
        // ns-2: "if (t_backoff_ < 64) t_backoff_ <<= 1;". The maximum timeout, 100 000 s, is not reached.
        let config = profile::ns2_2002().rto;
        let mut rto = Rto::new(&config, Span::ZERO);
        assert_eq!(timeouts(&mut rto, &config, 9), [6.0, 12.0, 24.0, 48.0, 96.0, 192.0, 384.0, 384.0, 384.0]);
    }

    #[test]
    fn where_the_floor_comes_before_the_back_off_only_the_greatest_timeout_ends_the_doubling() {
        // RFC 6298, rule 2.5: "A maximum value MAY be placed on RTO provided it is at least 60 seconds." ns-2 2.35 with
        // rfc2988_: "t_backoff_ < 64 || (rfc2988_ && t_rtxcur_ < maxrto_)".
        let config = RtoConfig { min: Span::from_millis(200), ..FINE };
        let mut rto = sampled(&config, &[10]);
        let all = timeouts(&mut rto, &config, 12);
        assert_eq!(all, [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 60.0, 60.0, 60.0]);
        // When the maximum is reached, the factor stays constant, so that it does not overflow.
        (0..1000).for_each(|_| rto.back_off(&config));
        assert_eq!(rto.timeout(&config), Span::from_secs(60));
    }

    #[test]
    fn a_floor_after_the_back_off_holds_for_the_product() {
        let config = RtoConfig { min: Span::from_secs(1), floor_before_backoff: false, ..FINE };
        // The RTO is 300 ms. The timeouts would be 0.3, 0.6, 1.2 and 2.4 s, but the first two are below the minimum.
        assert_eq!(timeouts(&mut sampled(&config, &[100]), &config, 4), [1.0, 1.0, 1.2, 2.4]);
    }

    #[test]
    fn the_first_sample_after_four_timeouts_in_a_row_starts_the_estimate_afresh() {
        let after_timeouts = |count| {
            let mut rto = sampled(&FINE, &[1000]);
            (0..count).for_each(|_| rto.back_off(&FINE));
            rto.end_backoff();
            sample(&mut rto, &FINE, &[200]);
            rto.timeout(&FINE)
        };
        // After three timeouts: 7/8 * 1000 + 1/8 * 200 = 900, 3/4 * 500 + 1/4 * 800 = 575.
        assert_eq!(after_timeouts(3), Span::from_millis(900 + 4 * 575));
        // After four timeouts: BSD and ns-2 discard an estimate that was backed off more than eightfold ("if (t_backoff_ > 8) ... t_srtt_ =
        // 0"). RFC 6298, section 5: "a TCP implementation MAY clear SRTT and RTTVAR after backing off the timer multiple times".
        assert_eq!(after_timeouts(4), Span::from_millis(200 + 4 * 100));
    }

    #[test]
    fn a_back_off_lasts_until_it_is_ended_and_a_sample_alone_does_not() {
        let mut rto = sampled(&FINE, &[100]);
        rto.back_off(&FINE);
        sample(&mut rto, &FINE, &[100]);
        // RTTVAR = 3/4 * 50.
        assert_eq!(rto.timeout(&FINE), Span::from_micros(2 * (100_000 + 4 * 37_500)));
        rto.end_backoff();
        assert_eq!(rto.timeout(&FINE), Span::from_micros(100_000 + 4 * 37_500));
    }
}

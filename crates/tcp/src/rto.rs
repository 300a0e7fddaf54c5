use crate::RtoConfig;
use catnip_base::{Span, Time};

/// Round-trip estimate and retransmission timeout: RFC 6298 in the integer arithmetic of BSD, which counts clock
/// ticks. A fine tick gives the RFC's formulas; a coarse one what a machine of 1988 or ns-2 computes.
#[derive(Clone, Debug)]
pub struct Rto {
    /// Smoothed round trip, ticks times 8; 0 before the first sample.
    srtt_8: i64,
    /// Mean deviation, ticks times 4.
    rttvar_4: i64,
    /// Timeout before back-off and bounds.
    base: Span,
    backoff: u32,
    /// Where in a tick the clock of this host began.
    phase: Span,
    /// Smoothed round trip by a fine clock.
    fine_srtt: Option<Span>,
}

/// Back-off stops doubling here unless the greatest timeout does it first.
const MAX_BACKOFF: u32 = 64;
/// Backed off further than this, the estimate is no longer believed.
const DISTRUST_BACKOFF: u32 = 8;

impl Rto {
    /// No sample yet. `phase` is the time from the start of the run back to a tick of this host's clock.
    pub fn new(config: &RtoConfig, phase: Span) -> Self {
        Self { srtt_8: 0, rttvar_4: 0, base: config.first, backoff: 1, phase, fine_srtt: None }
    }

    /// Data sent at `sent` for the first time was acknowledged at `now` (Karn's rule is the caller's).
    pub fn sample(&mut self, config: &RtoConfig, sent: Time, now: Time) {
        let tick_of = |at: Time| (at + self.phase).since(Time::ZERO).in_units_of(config.tick);
        let ticks = (tick_of(now) - tick_of(sent)).max(1) as i64;
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
        self.fine_srtt = Some(match self.fine_srtt {
            None => rtt,
            Some(srtt) => Span::from_nanos((7 * srtt.as_nanos() + rtt.as_nanos()) / 8),
        });
    }

    /// The timeout as it stands.
    pub fn timeout(&self, config: &RtoConfig) -> Span {
        let backoff = u64::from(self.backoff);
        let timeout = if config.floor_before_backoff {
            self.base.max(config.min) * backoff
        } else {
            (self.base * backoff).max(config.min)
        };
        timeout.min(config.max).max(config.tick * 2)
    }

    /// The timer has expired.
    pub fn back_off(&mut self, config: &RtoConfig) {
        if self.backoff < MAX_BACKOFF || (config.floor_before_backoff && self.timeout(config) < config.max) {
            self.backoff = self.backoff.saturating_mul(2);
        }
        if self.backoff > DISTRUST_BACKOFF {
            // The next sample starts afresh.
            self.srtt_8 = 0;
        }
    }

    /// Data that was sent once has been acknowledged.
    pub fn end_backoff(&mut self) {
        self.backoff = 1;
    }

    /// Smoothed round trip by a fine clock, for pacing.
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
        // RFC 6298, rule 2.2, with a floor low enough not to interfere.
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
}

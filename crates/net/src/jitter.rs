//! Propagation delays that vary from packet to packet.

use catnip_base::{Rng, Span, Time};

/// How much a delay varies, as configuration.
///
/// Only `Uniform` and `Normal` leave its mean as it is, and only for packets that are further apart than the jitter:
/// nobody overtakes, so that one who would do so arrives with the packet before it, later than it would have alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JitterSpec {
    /// The delay more or less something uniform up to a bound, which is not above the delay.
    Uniform {
        /// The bound.
        half_width: Span,
    },
    /// Normal around the delay; below zero it counts as zero.
    Normal {
        /// Standard deviation.
        deviation: Span,
    },
    /// The delay and something exponential on top.
    Exponential {
        /// Mean of what comes on top.
        mean: Span,
    },
}

impl JitterSpec {
    /// The jitter of one port; `rng` is the port's stream for it.
    pub fn build(self, rng: Rng) -> Jitter {
        Jitter { spec: self, rng, last: Time::ZERO }
    }

    /// The shortest delay around which this keeps its mean, but for one packet in a thousand: an even wider jitter would
    /// ask for delays below zero.
    pub fn least_delay(self) -> Span {
        match self {
            Self::Uniform { half_width } => half_width,
            Self::Normal { deviation } => deviation * 3,
            Self::Exponential { .. } => Span::ZERO,
        }
    }
}

/// Says when packets arrive at the other end.
#[derive(Clone, Debug)]
pub struct Jitter {
    spec: JitterSpec,
    rng: Rng,
    /// The arrival before.
    last: Time,
}

impl Jitter {
    /// When a packet arrives that has left at `departure`; never before the packet of the call before.
    pub fn arrival(&mut self, departure: Time, delay: Span) -> Time {
        let seconds = |span: Span| span.as_secs();
        let more = match self.spec {
            JitterSpec::Uniform { half_width } => seconds(half_width) * (2.0 * self.rng.uniform() - 1.0),
            JitterSpec::Normal { deviation } => seconds(deviation) * self.rng.normal(),
            JitterSpec::Exponential { mean } => self.rng.exponential(seconds(mean)),
        };
        // Negative spans do not exist: a delay below zero saturates.
        let own = departure + Span::from_secs_f64(delay.as_secs() + more);
        self.last = self.last.max(own);
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catnip_base::Stream;

    const DELAY: Span = Span::from_millis(20);

    /// Delays of packets that leave one second apart, seconds.
    fn delays(spec: JitterSpec) -> Vec<f64> {
        let mut jitter = spec.build(Rng::new(4, Stream::Jitter(0)));
        let leave = |n: u64| Time::ZERO + Span::from_secs(n);
        (0..100_000).map(|n| (jitter.arrival(leave(n), DELAY) - leave(n)).as_secs()).collect()
    }

    fn moments(sample: &[f64]) -> (f64, f64) {
        let n = sample.len() as f64;
        let mean = sample.iter().sum::<f64>() / n;
        (mean, (sample.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt())
    }

    #[test]
    fn lone_packets_see_the_mean_and_the_deviation_of_the_distribution() {
        let of = |ms| Span::from_millis(ms);
        for (spec, mean, deviation) in [
            (JitterSpec::Uniform { half_width: of(5) }, 0.020, 0.005 / 3f64.sqrt()),
            (JitterSpec::Normal { deviation: of(2) }, 0.020, 0.002),
            (JitterSpec::Exponential { mean: of(3) }, 0.023, 0.003),
        ] {
            let measured = moments(&delays(spec));
            assert!(
                (measured.0 - mean).abs() < 4.0 * deviation / 100_000f64.sqrt(),
                "{spec:?}: {measured:?}"
            );
            assert!((measured.1 / deviation - 1.0).abs() < 0.02, "{spec:?}: {measured:?}");
        }
        let uniform = delays(JitterSpec::Uniform { half_width: of(5) });
        assert!(uniform.iter().all(|delay| (0.015..=0.025).contains(delay)));
    }

    #[test]
    fn who_would_overtake_arrives_with_the_packet_before_and_nobody_before_leaving() {
        let mut jitter = JitterSpec::Normal { deviation: DELAY * 10 }.build(Rng::new(4, Stream::Jitter(1)));
        let mut before = Time::ZERO;
        let mut together = 0;
        for n in 0..1000 {
            let left = Time::from_nanos(n * 100_000);
            let arrived = jitter.arrival(left, DELAY);
            assert!(arrived >= before && arrived >= left);
            together += u32::from(arrived == before);
            before = arrived;
        }
        assert!(together > 500, "{together}");
    }
}

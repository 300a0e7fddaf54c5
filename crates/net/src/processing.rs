//! Processing time of hosts: the random time that a host takes for each packet that it receives.
//!
//! Without it, the packets of a few long flows arrive at a full queue in the same order for ever, so that one flow loses again and again:
//! phase effects (Floyd and Jacobson, Traffic phase effects in packet-switched gateways, Computer Communication Review 21, 1991).

use catnip_base::{Rng, Span, Stream, Time};

/// Random delays of the packets that a host receives from one port. A packet never overtakes an earlier one.
#[derive(Clone, Debug)]
pub struct Processing {
    /// Longest time that a packet takes, seconds.
    up_to_s: f64,
    rng: Rng,
}

impl Processing {
    /// Creates the processing times of a host that takes up to `up_to`, uniformly, for a packet from port `port`.
    pub fn new(up_to: Span, seed: u64, port: u32) -> Self {
        Self { up_to_s: up_to.as_secs(), rng: Rng::new(seed, Stream::Processing(port)) }
    }

    /// Returns the time at which the host has processed a packet that arrives at `at`, if it has nothing else to do.
    pub(crate) fn done(&mut self, at: Time) -> Time {
        at + Span::from_secs_f64(self.up_to_s * self.rng.uniform())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_takes_up_to_the_given_time_and_half_of_it_on_average() {
        let mut processing = Processing::new(Span::from_micros(20), 1, 0);
        let at = Time::ZERO + Span::from_millis(1);
        let took_s: Vec<f64> = (0..100_000).map(|_| (processing.done(at) - at).as_secs()).collect();
        assert!(took_s.iter().all(|&took_s| (0.0..=20e-6).contains(&took_s)));
        let mean_s = took_s.iter().sum::<f64>() / took_s.len() as f64;
        assert!((mean_s - 10e-6).abs() < 0.1e-6, "{mean_s}");
    }
}

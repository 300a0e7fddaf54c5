use crate::cardwell98::{Cardwell98, phases};
use crate::hysteresis::MAX_PACKETS;
use crate::{ModelError, Path, check};
use catnip_base::{Rng, math};

/// Chain of timeouts of WZK Fig. 5. Each packet is sent until it arrives, and each loss causes a timeout.
///
/// The first packet starts with the timeout `r0_s`. After each loss, the timeout doubles, up to `clamp_s`. A retransmitted packet yields no
/// RTT sample (Karn), so the next packet starts with the same timeout. A packet that arrives at the first attempt sets the timeout to
/// `it0_s`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chain {
    /// Number of packets, at least 1.
    pub packets: u32,
    /// Loss probability.
    pub p: f64,
    /// Timeout computed from an RTT sample, in seconds.
    pub it0_s: f64,
    /// First timeout in seconds.
    pub r0_s: f64,
    /// Largest timeout in seconds.
    pub clamp_s: f64,
}

impl Chain {
    /// Returns the chain, or an error for the first parameter that is out of range.
    pub fn check(self) -> Result<Self, ModelError> {
        check::packets_up_to("data", self.packets, MAX_PACKETS)?;
        check::probability("p", self.p)?;
        check::time("IT0_s", self.it0_s)?;
        check::time("r0_s", self.r0_s)?;
        check::time("clamp_s", self.clamp_s)?;
        Ok(self)
    }

    fn timeouts(&self, first: f64) -> Vec<f64> {
        let mut steps = vec![first];
        while steps[steps.len() - 1] != self.clamp_s {
            steps.push((2.0 * steps[steps.len() - 1]).min(self.clamp_s));
        }
        steps
    }

    /// Computes the exact expected time spent in timeouts, in seconds. The paper instead averages random samples, whose variance is large.
    pub fn exact(&self) -> Result<f64, ModelError> {
        let Self { packets, p, it0_s, r0_s, clamp_s } = self.check()?;
        // Each ladder has, for each of its timeouts, the expected time of the packets so far if the first packet starts with that timeout.
        // The ladder that begins with the RTT-based timeout comes first, because the other ladder depends on it.
        let mut chains = [self.timeouts(it0_s), self.timeouts(r0_s)].map(|steps| {
            let time = vec![0.0; steps.len()];
            (steps, time)
        });
        for _ in 0..packets {
            let after_sample = chains[0].1[0];
            for (steps, time) in &mut chains {
                let top = steps.len() - 1;
                // Expected time after a retransmission with the largest timeout.
                let mut resent = clamp_s * p / (1.0 - p) + time[top];
                for i in (0..=top).rev() {
                    let after = p * (steps[i] + resent);
                    resent = after + (1.0 - p) * time[i];
                    // `resent` of the next larger timeout is the expected time after a loss with this timeout.
                    time[i] = after + (1.0 - p) * after_sample;
                }
            }
        }
        Ok(chains[1].1[0])
    }

    /// Draws at random the time that one transfer spends in timeouts, in seconds.
    pub fn sample(&self, rng: &mut Rng) -> f64 {
        let (mut total, mut timeout) = (0.0, self.r0_s);
        for _ in 0..self.packets {
            // The number of losses before the packet arrives has a geometric distribution. One random number determines it, because a loop
            // would be slow for p near 1.
            let mut losses = (math::ln(1.0 - rng.uniform()) / math::ln(self.p)).floor();
            if losses < 1.0 {
                timeout = self.it0_s;
                continue;
            }
            while losses >= 1.0 && timeout != self.clamp_s {
                total += timeout;
                timeout = (2.0 * timeout).min(self.clamp_s);
                losses -= 1.0;
            }
            total += losses * timeout;
        }
        total
    }
}

/// Latency by the new model of WZK, with its intermediate quantities.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WzkNew {
    /// Effective loss probability: the probability that a packet or its ACK is lost.
    pub p: f64,
    /// Slow-start phases. Their latency excludes the connection set-up and the timeouts of the chain.
    pub phases: Cardwell98,
    /// Initial window, packets.
    pub w: f64,
    /// Timeout computed from the round trip time, in seconds.
    pub it0_s: f64,
    /// Expected time in timeouts of the data packets, in seconds.
    pub t_rto_s: f64,
    /// Expected time in timeouts of the SYN, in seconds.
    pub ths_rto1_s: f64,
    /// Expected time in timeouts of the request, in seconds.
    pub ths_rto2_s: f64,
    /// Duration of the connection set-up and the request, in seconds.
    pub t_handshk_s: f64,
    /// Duration of the whole download, in seconds.
    pub latency_s: f64,
}

/// Computes the new model of WZK: connection set-up, slow-start phases, and timeouts by [`Chain`].
///
/// `pl` is the loss probability of each direction, `delay_s` the one-way delay. As in the paper, every loss counts as a timeout in the time
/// spent in timeouts, but only with probability Q in the number of slow-start phases.
pub fn wzk_new(
    data: u32,
    pl: f64,
    delay_s: f64,
    b: f64,
    ts_s: f64,
    clamp_s: f64,
) -> Result<WzkNew, ModelError> {
    check::packets_up_to("data", data, MAX_PACKETS)?;
    check::probability("pl", pl)?;
    check::time("delay_s", delay_s)?;
    check::at_least_one("b", b)?;
    check::time("Ts_s", ts_s)?;
    check::time("clamp_s", clamp_s)?;
    let path = Path { rtt_s: 2.0 * delay_s, b, ..Path::default() };
    let p = round_trip_loss(pl);
    let it0_s = (6.0 * delay_s).max(0.2);
    let no_loss = (1.0 - p) * (1.0 - p);
    let w = 1.0 + no_loss;
    let phases = phases(data, p, &path, w, true);
    let chain = |packets, p| Chain { packets, p, it0_s, r0_s: ts_s, clamp_s }.exact();
    let (t_rto_s, ths_rto1_s, ths_rto2_s) = (chain(data, p)?, chain(1, p)?, chain(1, pl)?);
    let t_handshk_s = 1.5 * path.rtt_s + ths_rto1_s + pl * ths_rto2_s;
    let latency_s = t_handshk_s + t_rto_s + phases.t_xfer_s;
    Ok(WzkNew { p, phases, w, it0_s, t_rto_s, ths_rto1_s, ths_rto2_s, t_handshk_s, latency_s })
}

/// Returns the probability that a packet or its ACK is lost if each is lost with probability `pl`.
pub fn round_trip_loss(pl: f64) -> f64 {
    pl + pl * (1.0 - pl)
}

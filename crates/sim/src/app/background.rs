use super::{AppEvent, Application, Interest};
use crate::FlowId;
use crate::host::Host;
use catnip_base::{Distribution, Rate, Rng, Span, Stream, math};
use std::sync::Arc;

/// Configuration of sources of background traffic: bursts of packets at a peak rate, separated by idle periods.
///
/// Burst and idle periods have Pareto distributions, so that the aggregate of many sources is self-similar traffic (Willinger et al.,
/// "Self-similarity through high-variability", 1997). Periods are bounded by [`BackgroundConfig::MAX_PERIOD_RATIO`] times the shortest one,
/// so that means and variances exist and the load of a run of any length is near its expected value.
#[derive(Clone, Debug)]
pub struct BackgroundConfig {
    peak: Rate,
    burst_s: Distribution,
    /// Length of idle periods, seconds; `None` for a source that never sends, zero for a source that never pauses.
    idle_s: Option<Distribution>,
    packet_bytes: Distribution,
}

impl BackgroundConfig {
    /// Longest period, in multiples of the shortest one.
    pub const MAX_PERIOD_RATIO: f64 = 1000.0;

    /// Returns the configuration of sources that send packets with sizes from `packet_bytes`. Sources send at the rate `peak` during
    /// bursts, whose mean duration is `burst`. The mean duration of idle periods follows from the mean rate `mean` (bit/s, at most the
    /// peak). `shapes` are the tail indices of bursts and of idle periods.
    pub fn new(mean: f64, peak: Rate, burst: Span, shapes: [f64; 2], packet_bytes: Distribution) -> Self {
        let idle_s = burst.as_secs() * (peak.bits_per_second() as f64 / mean - 1.0);
        Self {
            peak,
            burst_s: pareto(burst.as_secs(), shapes[0]),
            idle_s: (mean > 0.0).then(|| pareto(idle_s.max(0.0), shapes[1])),
            packet_bytes,
        }
    }
}

/// Returns the bounded Pareto distribution with mean `mean` and tail index `shape`.
fn pareto(mean: f64, shape: f64) -> Distribution {
    let max_ratio = BackgroundConfig::MAX_PERIOD_RATIO;
    // The mean of min(X, longest) for a minimum of 1 is 1 plus the integral of the tail from 1 to `max_ratio`.
    let tail = if shape == 1.0 {
        math::ln(max_ratio)
    } else {
        (1.0 - math::pow(max_ratio, 1.0 - shape)) / (shape - 1.0)
    };
    let minimum = mean / (1.0 + tail);
    Distribution::Pareto { shape, minimum, maximum: max_ratio * minimum }
}

/// Source of bursts of datagrams, without feedback from the network.
#[derive(Debug)]
pub struct Background {
    config: Arc<BackgroundConfig>,
    flow: FlowId,
    rng: Rng,
    /// Remaining duration of the burst. A remainder too short for a packet is added to the next burst, so that no load is lost.
    burst: Span,
    /// Size of the next packet, bytes.
    bytes: u32,
}

impl Background {
    /// Creates the source of user `user`. Its packets depend only on the configuration, the seed of the run and `user`.
    pub fn new(config: Arc<BackgroundConfig>, flow: FlowId, seed: u64, user: u32) -> Self {
        let mut rng = Rng::new(seed, Stream::User(user));
        let bytes = draw_bytes(&config, &mut rng);
        Self { config, flow, rng, burst: Span::ZERO, bytes }
    }

    fn draw_burst(&mut self) {
        self.burst += Span::from_secs_f64(self.config.burst_s.draw(&mut self.rng));
    }

    /// Returns the next step of the source: the size of the packet to send, or `None` for no packet, and the pause until the following
    /// step. Returns `None` if the source never sends.
    fn next(&mut self) -> Option<(Option<u32>, Span)> {
        let idle_s = self.config.idle_s.as_ref()?;
        let transmission = self.config.peak.time_of(self.bytes.into());
        if self.burst < transmission {
            let idle = Span::from_secs_f64(idle_s.draw(&mut self.rng));
            self.draw_burst();
            return Some((None, idle));
        }
        self.burst = self.burst.saturating_sub(transmission);
        let bytes = std::mem::replace(&mut self.bytes, draw_bytes(&self.config, &mut self.rng));
        Some((Some(bytes), transmission))
    }

    /// Returns the first idle period, a random part of a full idle period, so that the sources do not start at the same time.
    fn first(&mut self) -> Option<Span> {
        let rest = self.config.idle_s.as_ref()?.draw(&mut self.rng) * self.rng.uniform();
        self.draw_burst();
        Some(Span::from_secs_f64(rest))
    }
}

/// Draws a packet size between one byte and the largest IP packet.
fn draw_bytes(config: &BackgroundConfig, rng: &mut Rng) -> u32 {
    config.packet_bytes.draw(rng).round().clamp(1.0, 65_535.0) as u32
}

impl Application for Background {
    fn interest(&self) -> Interest {
        Interest::MESSAGES
    }

    fn on_event(&mut self, event: AppEvent, host: &mut Host<'_>) {
        let pause = match event {
            AppEvent::Start => self.first(),
            AppEvent::Timer(_) => self.next().map(|(packet, pause)| {
                packet.into_iter().for_each(|bytes| host.datagram(self.flow, bytes));
                pause
            }),
            _ => None,
        };
        if let Some(pause) = pause {
            host.timer(host.now() + pause, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catnip_base::Time;

    const PEAK: Rate = Rate::from_bits_per_second(20_000_000).unwrap();
    const BURST: Span = Span::from_millis(1);

    fn source(mean: f64, seed: u64) -> Background {
        let packet_bytes = Distribution::Uniform { minimum: 40.0, maximum: 984.0 };
        let config = BackgroundConfig::new(mean, PEAK, BURST, [1.5, 1.5], packet_bytes);
        Background::new(Arc::new(config), FlowId(0), seed, 0)
    }

    /// Returns the times and sizes of the packets that a source sends by `end`.
    fn sent(source: Background, end: Time) -> Vec<(Time, u32)> {
        let mut packets = Vec::new();
        each_sent(source, end, |now, bytes| packets.push((now, bytes)));
        packets
    }

    fn each_sent(mut source: Background, end: Time, mut each: impl FnMut(Time, u32)) {
        let Some(first) = source.first() else { return };
        let mut now = Time::ZERO + first;
        while now <= end
            && let Some((packet, pause)) = source.next()
        {
            packet.into_iter().for_each(|bytes| each(now, bytes));
            now += pause;
        }
    }

    #[test]
    fn the_load_and_the_mean_packet_are_what_was_asked_for() {
        for (n, load) in [0.1, 0.5, 0.9, 1.0].into_iter().enumerate() {
            let mean = load * PEAK.bits_per_second() as f64;
            // With a million bursts, the standard error of the load is half a percent.
            let seconds = 1e6 * BURST.as_secs() / load;
            let (mut packets, mut bytes) = (0.0, 0.0);
            each_sent(source(mean, n as u64), Time::ZERO + Span::from_secs_f64(seconds), |_, len| {
                packets += 1.0;
                bytes += f64::from(len);
            });
            let measured = bytes * 8.0 / seconds / mean;
            assert!((measured - 1.0).abs() < 0.02, "{load}: {measured} of it");
            assert!((bytes / packets / 512.0 - 1.0).abs() < 0.005, "{}", bytes / packets);
        }
        assert!(sent(source(0.0, 1), Time::ZERO + Span::from_secs(2000)).is_empty());
    }

    #[test]
    fn a_burst_never_exceeds_its_peak_and_pareto_bursts_are_burstier_than_poisson() {
        let packets = sent(source(5e6, 3), Time::ZERO + Span::from_secs(500));
        assert!(packets.windows(2).all(|pair| pair[0].0 + PEAK.time_of(pair[0].1.into()) <= pair[1].0));
        // The index of dispersion of bytes in 100 ms is about the size of one packet for Poisson arrivals, and many times that here.
        let mut windows = vec![0.0; 5000];
        packets.iter().for_each(|&(at, bytes)| windows[(at.as_secs() * 10.0) as usize] += f64::from(bytes));
        let mean = windows.iter().sum::<f64>() / 5000.0;
        let variance = windows.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 4999.0;
        assert!(variance / mean > 10.0 * 512.0, "{}", variance / mean);
    }

    #[test]
    fn a_bounded_pareto_has_the_mean_that_was_asked_for() {
        let mut rng = Rng::new(1, Stream::Workload(3));
        for shape in [1.0, 1.2, 1.5, 2.5] {
            let distribution = pareto(7.0, shape);
            let mean = (0..2_000_000).map(|_| distribution.draw(&mut rng)).sum::<f64>() / 2e6;
            assert!((mean / 7.0 - 1.0).abs() < 0.02, "{shape}: {mean}");
        }
    }

    #[test]
    fn the_same_seed_sends_the_same_packets_and_another_seed_others() {
        let end = Time::ZERO + Span::from_secs(1);
        assert_eq!(sent(source(5e6, 3), end), sent(source(5e6, 3), end));
        assert_ne!(sent(source(5e6, 3), end), sent(source(5e6, 4), end));
    }
}

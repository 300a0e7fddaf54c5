//! Propagation delays that vary from packet to packet. Each kind of jitter has its own file and one entry in [`JitterSpec`].

mod empirical;
mod exponential;
mod normal;
mod uniform;

pub use empirical::Empirical;
pub use exponential::Exponential;
pub use normal::Normal;
pub use uniform::Uniform;

use crate::delay::VaryingDelay;
use crate::processing::Processing;
use catnip_base::notation::{Kind, Notation};
use catnip_base::{ParseError, Rng, Span, Time, kinds, variants};

/// Kind of jitter.
pub trait JitterKind: Kind {
    /// Draws the deviation from the configured delay, seconds. If the sum of delay and deviation is negative, the packet has no delay.
    fn draw_s(&self, rng: &mut Rng) -> f64;
    /// Returns the shortest configured delay for which at most one packet in a thousand draws a negative sum of delay and deviation. With a
    /// shorter delay, the mean delay would exceed the configured delay.
    fn min_delay(&self) -> Span;
}

macro_rules! jitters {
    ($d:tt $($Kind:ident),+ $(,)?) => {
        kinds! {
            /// Configuration of the variation of a delay.
            ///
            /// Only `Uniform` and `Normal` preserve the mean delay, and only if packets are further apart than the jitter. A packet that
            /// would overtake the previous packet is delayed until the arrival of the previous packet.
            pub enum JitterSpec { $($Kind($Kind)),+ }
        }

        variants!($d each: JitterSpec { $($Kind),+ });
    };
}

jitters! { $ Uniform, Normal, Exponential, Empirical }

impl JitterSpec {
    /// See [`JitterKind::min_delay`].
    pub fn min_delay(&self) -> Span {
        each!(self, kind => kind.min_delay())
    }

    /// Reads a jitter. `open` returns the text of a file, or the reason why the file cannot be read.
    pub fn read(text: &str, open: impl FnOnce(&str) -> Result<String, String>) -> Result<Self, ParseError> {
        match text.parse()? {
            Self::Empirical(kind) => kind.opened(open).map(Self::Empirical),
            kind => Ok(kind),
        }
    }

    /// Creates the jitter of one port, which draws from `rng`.
    pub fn build(&self, rng: Rng) -> Jitter {
        Jitter { varying: None, spec: Some(self.clone()), rng, processing: None, last: Time::ZERO }
    }
}

/// Arrival times of packets at the other end of one port's wire.
#[derive(Clone, Debug)]
pub struct Jitter {
    /// Delay from which the jitter deviates; `None` if it is constant.
    varying: Option<VaryingDelay>,
    spec: Option<JitterSpec>,
    rng: Rng,
    /// Processing times of the host at the other end.
    processing: Option<Box<Processing>>,
    /// Arrival time of the previous packet.
    last: Time,
}

impl Jitter {
    /// Creates the variation of the arrival times at the other end of a wire with a `varying` delay and `jitter`, if any, and at a host with
    /// a `processing` time; `None` without any of them.
    pub(crate) fn new(
        varying: Option<VaryingDelay>,
        jitter: Option<&JitterSpec>,
        rng: Rng,
        processing: Option<Processing>,
    ) -> Option<Self> {
        let processing = processing.map(Box::new);
        (varying.is_some() || jitter.is_some() || processing.is_some()).then(|| Self {
            varying,
            spec: jitter.cloned(),
            rng,
            processing,
            last: Time::ZERO,
        })
    }

    /// Returns the arrival time of a packet that has left at `departure` on a wire with the configured `delay`, unless that varies. The
    /// result is no earlier than the result of the previous call.
    pub fn arrival(&mut self, departure: Time, delay: Span) -> Time {
        let delay = self.varying.as_mut().map_or(delay, |varying| varying.at(departure));
        let delay = self.spec.as_ref().map_or(delay, |spec| {
            // A `Span` cannot be negative, so a delay below zero becomes zero.
            Span::from_secs_f64(delay.as_secs() + each!(spec, kind => kind.draw_s(&mut self.rng)))
        });
        let arrival = departure + delay;
        let done = self.processing.as_mut().map_or(arrival, |processing| processing.done(arrival));
        self.last = self.last.max(done);
        self.last
    }
}

/// Reads the only parameter of a jitter, a time above zero.
fn width(text: &mut Notation<'_>) -> Result<Span, ParseError> {
    let width = text.value("a time, as in uniform:5ms")?;
    if width == Span::ZERO { Err(text.error("a time above zero, or none")) } else { Ok(width) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catnip_base::Stream;

    const DELAY: Span = Span::from_millis(20);

    /// Returns the delays of packets that leave one second apart, seconds.
    fn delays(text: &str) -> Vec<f64> {
        let mut jitter = text.parse::<JitterSpec>().unwrap().build(Rng::new(4, Stream::Jitter(0)));
        let departure = |n: u64| Time::ZERO + Span::from_secs(n);
        (0..100_000).map(|n| (jitter.arrival(departure(n), DELAY) - departure(n)).as_secs()).collect()
    }

    fn moments(sample: &[f64]) -> (f64, f64) {
        let n = sample.len() as f64;
        let mean = sample.iter().sum::<f64>() / n;
        (mean, (sample.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt())
    }

    #[test]
    fn lone_packets_see_the_mean_and_the_deviation_of_the_distribution() {
        for (spec, mean, deviation) in [
            ("uniform:5ms", 0.020, 0.005 / 3f64.sqrt()),
            ("normal:2ms", 0.020, 0.002),
            ("exponential:3ms", 0.023, 0.003),
        ] {
            let measured = moments(&delays(spec));
            assert!(
                (measured.0 - mean).abs() < 4.0 * deviation / 100_000f64.sqrt(),
                "{spec:?}: {measured:?}"
            );
            assert!((measured.1 / deviation - 1.0).abs() < 0.02, "{spec:?}: {measured:?}");
        }
        let uniform = delays("uniform:5ms");
        assert!(uniform.iter().all(|delay| (0.015..=0.025).contains(delay)));
    }

    #[test]
    fn who_would_overtake_arrives_with_the_packet_before_and_nobody_before_leaving() {
        let mut jitter = "normal:200ms".parse::<JitterSpec>().unwrap().build(Rng::new(4, Stream::Jitter(1)));
        let mut before = Time::ZERO;
        let mut together = 0;
        for n in 0..1000 {
            let departure = Time::from_nanos(n * 100_000);
            let arrived = jitter.arrival(departure, DELAY);
            assert!(arrived >= before && arrived >= departure);
            together += u32::from(arrived == before);
            before = arrived;
        }
        assert!(together > 500, "{together}");
    }
}

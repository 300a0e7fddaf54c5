//! How long a packet occupies the wire.

mod pausing;
mod steps;
mod trace;

pub use pausing::Pausing;
pub use steps::{Stepped, Steps};
pub use trace::{Trace, TraceDriven, TraceError};

use catnip_base::notation::Usage;
use catnip_base::{ParseError, Rate, Time, WireTime};
use std::fmt::{self, Debug};
use std::sync::Arc;

/// When has the last bit left, if the first one leaves at `start`? Remainders are carried, so that rates stay
/// exact for hours.
pub trait Shaper: Debug + Send {
    /// The end of a transmission of `len` bytes that begins at `start`; starts never decrease.
    fn finish(&mut self, start: Time, len: u32) -> Time;
}

/// A wire of constant rate.
#[derive(Clone, Debug)]
pub struct Constant(WireTime);

impl Constant {
    /// An idle wire.
    pub fn new(rate: Rate) -> Self {
        Self(WireTime::new(rate))
    }
}

impl Shaper for Constant {
    #[inline]
    fn finish(&mut self, start: Time, len: u32) -> Time {
        self.0.finish(start, len)
    }
}

/// A line rate as configuration.
#[derive(Clone, Debug, PartialEq)]
pub enum RateSpec {
    /// The same at all times.
    Constant(Rate),
    /// Another one from given times on.
    Steps(Steps),
    /// Opportunities to send, as recorded.
    Trace {
        /// What the file is called.
        file: String,
        /// What it holds.
        trace: Arc<Trace>,
    },
    /// Transmission takes no time, so that nothing ever waits: a link of pure delay.
    Unlimited,
}

impl From<Rate> for RateSpec {
    fn from(rate: Rate) -> Self {
        Self::Constant(rate)
    }
}

impl fmt::Display for RateSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(rate) => write!(f, "{rate}"),
            Self::Steps(steps) => write!(f, "{steps}"),
            Self::Trace { file, .. } => write!(f, "trace:{file}"),
            Self::Unlimited => f.write_str("unlimited"),
        }
    }
}

impl RateSpec {
    /// The ways to write one, with what each does.
    pub const USAGE: &[Usage] = &[
        ("1.5Mbit", "constant; bit, kbit, Mbit or Gbit per second"),
        ("steps:10Mbit,10s=1Mbit,20s=5Mbit", "another rate from each of these times on"),
        ("trace:FILE", "recorded opportunities to send, as mahimahi writes them"),
        ("unlimited", "transmission takes no time"),
    ];

    /// Reads a rate. `open` gives the text of a file, or says why it cannot.
    pub fn read(text: &str, open: impl FnOnce(&str) -> Result<String, String>) -> Result<Self, ParseError> {
        match text.split_once(':') {
            Some(("trace", file)) if !file.trim().is_empty() => {
                let file = file.trim();
                let trace = open(file).and_then(|lines| Trace::parse(&lines).map_err(|error| error.to_string()));
                let trace = trace.map_err(|what| ParseError::new(text, format!("a trace: {what}")))?;
                Ok(Self::Trace { file: file.into(), trace: Arc::new(trace) })
            }
            Some(("steps", steps)) => Steps::parse(steps).map(Self::Steps),
            None if text == "unlimited" => Ok(Self::Unlimited),
            _ => text.parse().map(Self::Constant).map_err(|error: ParseError| {
                if error.is_too_large() {
                    return error;
                }
                let expected = "a rate such as 1.5Mbit (bit, kbit, Mbit, Gbit per second; positive), steps:…, trace:FILE or unlimited";
                ParseError::new(text, expected)
            }),
        }
    }

    /// An idle wire.
    pub fn build(&self) -> AnyShaper {
        match self {
            Self::Constant(rate) => AnyShaper::Constant(Constant::new(*rate)),
            Self::Steps(steps) => AnyShaper::Steps(Box::new(Stepped::new(steps.clone()))),
            Self::Trace { trace, .. } => AnyShaper::Trace(Box::new(TraceDriven::new(trace.clone()))),
            Self::Unlimited => AnyShaper::Unlimited,
        }
    }

    /// What the wire can carry from one time to another, bits; infinite without a bound.
    pub fn capacity_bits(&self, from: Time, to: Time) -> f64 {
        let steady = |rate: Rate| rate.bits_per_second() as f64 * to.since(from).as_secs();
        match self {
            Self::Steps(steps) => steps.capacity_bits(from, to),
            _ => self.mean().map_or(f64::INFINITY, steady),
        }
    }

    /// What the wire carries on average if it is always busy, in the long run; `None`: there is no bound.
    pub fn mean(&self) -> Option<Rate> {
        match self {
            Self::Constant(rate) => Some(*rate),
            Self::Steps(steps) => Some(steps.last()),
            Self::Trace { trace, .. } => Some(trace.mean_rate()),
            Self::Unlimited => None,
        }
    }
}

/// The shapers that a topology can name.
#[derive(Debug)]
pub enum AnyShaper {
    /// Constant rate.
    Constant(Constant),
    /// See [`Stepped`].
    Steps(Box<Stepped>),
    /// See [`TraceDriven`].
    Trace(Box<TraceDriven>),
    /// Transmission takes no time.
    Unlimited,
    /// See [`Pausing`].
    Pausing(Box<Pausing<AnyShaper>>),
}

impl AnyShaper {
    /// Out of line: almost all wires have a constant rate.
    #[inline(never)]
    fn finish_other(&mut self, start: Time, len: u32) -> Time {
        match self {
            Self::Constant(shaper) => shaper.finish(start, len),
            Self::Steps(shaper) => shaper.finish(start, len),
            Self::Trace(shaper) => shaper.finish(start, len),
            Self::Unlimited => start,
            Self::Pausing(shaper) => shaper.finish(start, len),
        }
    }
}

impl Shaper for AnyShaper {
    #[inline]
    fn finish(&mut self, start: Time, len: u32) -> Time {
        match self {
            Self::Constant(shaper) => shaper.finish(start, len),
            _ => self.finish_other(start, len),
        }
    }
}

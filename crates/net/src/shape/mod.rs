//! Shapers, which compute the transmission times of packets on a wire.

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

/// Computation of the transmission times on a wire. Fractions of a nanosecond are carried over, so that rates stay exact for hours.
pub trait Shaper: Debug + Send {
    /// Returns the end of a transmission of `len` bytes that begins at `start`: the time at which the last bit has left. Starts must not
    /// decrease.
    fn finish(&mut self, start: Time, len: u32) -> Time;
}

/// Wire of constant rate.
#[derive(Clone, Debug)]
pub struct Constant(WireTime);

impl Constant {
    /// Creates an idle wire.
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

/// Configuration of a line rate.
#[derive(Clone, Debug, PartialEq)]
pub enum RateSpec {
    /// Constant rate.
    Constant(Rate),
    /// Rate that changes at given times.
    Steps(Steps),
    /// Recorded transmission opportunities.
    Trace {
        /// Name of the file.
        file: String,
        /// Contents of the file.
        trace: Arc<Trace>,
    },
    /// Unlimited rate: a transmission takes no time, so that packets never wait and the link only delays them.
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
    /// Notations of a rate, each with its description.
    pub const USAGE: &[Usage] = &[
        ("1.5Mbit", "constant rate in bit, kbit, Mbit or Gbit per second"),
        ("steps:10Mbit,10s=1Mbit,20s=5Mbit", "rate that changes at the given times"),
        ("trace:FILE", "recorded transmission opportunities, in the format of Mahimahi"),
        ("unlimited", "unlimited rate: transmission takes no time"),
    ];

    /// Reads a rate. `open` returns the text of a file, or the reason why the file cannot be read.
    pub fn read(text: &str, open: impl FnOnce(&str) -> Result<String, String>) -> Result<Self, ParseError> {
        match text.split_once(':') {
            Some(("trace", file)) if !file.trim().is_empty() => {
                let file = file.trim();
                let trace = open(file).and_then(|lines| Trace::parse(&lines).map_err(|error| error.to_string()));
                let trace = trace.map_err(|error| ParseError::new(text, format!("a valid trace: {error}")))?;
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

    /// Creates an idle wire of this rate.
    pub fn build(&self) -> AnyShaper {
        match self {
            Self::Constant(rate) => AnyShaper::Constant(Constant::new(*rate)),
            Self::Steps(steps) => AnyShaper::Other(Box::new(Stepped::new(steps.clone()))),
            Self::Trace { trace, .. } => AnyShaper::Other(Box::new(TraceDriven::new(trace.clone()))),
            Self::Unlimited => AnyShaper::Other(Box::new(Unlimited)),
        }
    }

    /// Returns the capacity of the wire between two times, bits; infinite if the rate is unlimited.
    pub fn capacity_bits(&self, from: Time, to: Time) -> f64 {
        let steady = |rate: Rate| rate.bits_per_second() as f64 * to.since(from).as_secs();
        match self {
            Self::Steps(steps) => steps.capacity_bits(from, to),
            _ => self.mean().map_or(f64::INFINITY, steady),
        }
    }

    /// Returns the long-run rate of the wire if it is always busy; `None` if the rate is unlimited.
    pub fn mean(&self) -> Option<Rate> {
        match self {
            Self::Constant(rate) => Some(*rate),
            Self::Steps(steps) => Some(steps.last()),
            Self::Trace { trace, .. } => Some(trace.mean_rate()),
            Self::Unlimited => None,
        }
    }
}

/// Wire of unlimited rate.
#[derive(Debug)]
struct Unlimited;

impl Shaper for Unlimited {
    fn finish(&mut self, start: Time, _len: u32) -> Time {
        start
    }
}

/// Shaper that a topology can specify. Almost all wires have a constant rate.
#[derive(Debug)]
pub enum AnyShaper {
    /// Constant rate.
    Constant(Constant),
    /// Any other shaper.
    Other(Box<dyn Shaper>),
}

// Each port has a shaper, which fits into its three cache lines.
const _: () = assert!(size_of::<AnyShaper>() == 48);

impl Shaper for AnyShaper {
    #[inline]
    fn finish(&mut self, start: Time, len: u32) -> Time {
        match self {
            Self::Constant(shaper) => shaper.finish(start, len),
            Self::Other(shaper) => shaper.finish(start, len),
        }
    }
}

//! Shapers, which compute the transmission times of packets on a wire.

mod pausing;
mod steps;
mod trace;

pub use pausing::Pausing;
pub use steps::{Stepped, Steps};
pub use trace::{Trace, TraceDriven, TraceError};

use crate::schedule::{TraceName, data_lines, fields};
use crate::trains::{CellLink, CellTrains};
use catnip_base::notation::{Notation, Usage};
use catnip_base::{ParseError, Rate, Span, Time, WireTime};
use std::fmt::{self, Debug};
use std::sync::Arc;

/// Computation of the transmission times on a wire. Fractions of a nanosecond are carried over, so that rates stay exact for hours.
pub trait Shaper: Debug + Send {
    /// Returns the end of a transmission of `len` bytes that begins at `start`: the time at which the last bit has left, or
    /// [`Time::NEVER`]. Starts must not decrease.
    fn finish(&mut self, start: Time, len: u32) -> Time;
    /// Makes the wire idle: a packet that comes at the end of the last transmission does not share an opportunity with it.
    fn become_idle(&mut self) {}
    /// Returns true if nothing is ever transmitted after some time.
    fn ends(&self) -> bool {
        false
    }
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
    /// Rate that changes at given or recorded times.
    Steps(Steps),
    /// Recorded transmission opportunities.
    Trace {
        /// Name and parameters.
        name: TraceName,
        /// Contents of the file.
        trace: Arc<Trace>,
    },
    /// Recorded packet trains and transmission opportunities of a cellular link.
    Cell(CellLink),
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
            Self::Trace { name, .. } => write!(f, "{name}"),
            Self::Cell(cell) => f.write_str(&cell.text),
            Self::Unlimited => f.write_str("unlimited"),
        }
    }
}

impl RateSpec {
    /// Notations of a rate, each with its description.
    pub const USAGE: &[Usage] = &[
        ("1.5Mbit", "constant rate in bit, kbit, Mbit or Gbit per second"),
        ("steps:10Mbit,10s=1Mbit,20s=5Mbit", "rate that changes at the given times"),
        (
            "trace:FILE[,bytes=1504][,end=stop]",
            "recorded transmission opportunities, in the format of mahimahi, or lines with a time in s and a rate in Mbit/s",
        ),
        (
            "trace:FILE,step=100ms[,end=hold]",
            "recorded rates in Mbit/s, one per line; they repeat, hold the last one or stop",
        ),
        (
            "cell-trains:LIGHT,heavy=HEAVY[,idle=20ms][,size_offsets=FILE][,bytes=1400]",
            "recorded packet trains of a cellular link, in the format of CellReplay",
        ),
        ("unlimited", "unlimited rate: transmission takes no time"),
    ];

    /// Reads a rate. `open` returns the text of a file, or the reason why the file cannot be read.
    pub fn read(text: &str, open: impl Fn(&str) -> Result<String, String>) -> Result<Self, ParseError> {
        match text.split_once(':') {
            Some(("cell-trains", _)) => Self::read_cell(text, open),
            Some(("trace", name)) if !name.trim().is_empty() => Self::read_trace(text, name, open),
            Some(("steps", steps)) => match Steps::parse_steps(steps)? {
                steps if steps.is_zero() => Err(ParseError::new(text, "a rate above zero")),
                steps => Ok(Self::Steps(steps)),
            },
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

    fn read_trace(
        text: &str,
        name: &str,
        open: impl FnOnce(&str) -> Result<String, String>,
    ) -> Result<Self, ParseError> {
        let invalid = |error: String| ParseError::new(text, format!("a valid trace: {error}"));
        let name = TraceName::parse(name)?;
        let lines = open(&name.file).map_err(invalid)?;
        let has_times = data_lines(&lines).next().is_some_and(|(_, line)| !fields(line)[1].is_empty());
        if !has_times && name.step.is_none() {
            let trace = Trace::named(&name, &lines).map_err(|error| invalid(error.to_string()))?;
            return Ok(Self::Trace { name, trace: Arc::new(trace) });
        }
        if name.bytes.is_some() {
            return Err(invalid("bytes= belongs to transmission opportunities, not to rates".into()));
        }
        let steps = Steps::recorded(name, &lines).map_err(invalid)?;
        if steps.is_zero() {
            return Err(invalid("a rate above zero is needed".into()));
        }
        Ok(Self::Steps(steps))
    }

    fn read_cell(text: &str, open: impl Fn(&str) -> Result<String, String>) -> Result<Self, ParseError> {
        let mut notation = Notation::parse(text)?;
        let light: String = notation.value("cell-trains:LIGHT,heavy=HEAVY")?;
        let heavy: String = notation.key("heavy")?;
        let idle = notation.option("idle", Span::ZERO)?;
        let bytes = notation.option("bytes", CellTrains::OPPORTUNITY_BYTES)?;
        let size_offsets: Option<String> = notation.optional("size_offsets")?;
        if bytes == 0 {
            return Err(notation.error("a positive number of bytes"));
        }
        notation.finish()?;
        let invalid = |file: &str, problem: String| {
            ParseError::new(text, format!("valid recordings: {file}: {problem}"))
        };
        let opened = |file: &str| {
            open(file).map_err(|problem| ParseError::new(text, format!("valid recordings: {problem}")))
        };
        let mut trains =
            CellTrains::parse(&opened(&light)?, idle, bytes).map_err(|problem| invalid(&light, problem))?;
        if let Some(file) = size_offsets {
            trains = trains.with_size_offsets(&opened(&file)?).map_err(|problem| invalid(&file, problem))?;
        }
        let name = TraceName { bytes: Some(bytes), ..TraceName::default() };
        let saturated = Trace::named(&name, &opened(&heavy)?);
        let saturated = saturated.map_err(|problem| invalid(&heavy, problem.to_string()))?;
        Ok(Self::Cell(CellLink { text: text.into(), trains, saturated: Arc::new(saturated) }))
    }

    /// Returns the recorded trains that delay packets before the queue; `None` without any.
    pub fn trains(&self) -> Option<&CellTrains> {
        match self {
            Self::Cell(cell) => Some(&cell.trains),
            _ => None,
        }
    }

    /// Creates an idle wire of this rate.
    pub fn build(&self) -> AnyShaper {
        match self {
            Self::Constant(rate) => AnyShaper::Constant(Constant::new(*rate)),
            Self::Steps(steps) => AnyShaper::Other(Box::new(Stepped::new(steps.clone()))),
            Self::Trace { trace, .. } => AnyShaper::Other(Box::new(TraceDriven::new(trace.clone()))),
            Self::Cell(cell) => AnyShaper::Other(Box::new(TraceDriven::new(cell.saturated.clone()))),
            Self::Unlimited => AnyShaper::Other(Box::new(Unlimited)),
        }
    }

    /// Returns the capacity of the wire between two times, bits; infinite if the rate is unlimited.
    pub fn capacity_bits(&self, from: Time, to: Time) -> f64 {
        let steady = |rate: Rate| rate.bits_per_second() as f64 * to.since(from).as_secs();
        match self {
            Self::Steps(steps) => steps.capacity_bits(from, to),
            Self::Trace { trace, .. } => trace.capacity_bits(from, to),
            Self::Cell(cell) => cell.saturated.capacity_bits(from, to),
            _ => self.mean().map_or(f64::INFINITY, steady),
        }
    }

    /// Returns the long-run rate of the wire if it is always busy; `None` if the rate is unlimited.
    pub fn mean(&self) -> Option<Rate> {
        match self {
            Self::Constant(rate) => Some(*rate),
            Self::Steps(steps) => Some(steps.mean_rate()),
            Self::Trace { trace, .. } => Some(trace.mean_rate()),
            Self::Cell(cell) => Some(cell.saturated.mean_rate()),
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

    fn become_idle(&mut self) {
        match self {
            Self::Constant(_) => {}
            Self::Other(shaper) => shaper.become_idle(),
        }
    }

    fn ends(&self) -> bool {
        match self {
            Self::Constant(_) => false,
            Self::Other(shaper) => shaper.ends(),
        }
    }
}

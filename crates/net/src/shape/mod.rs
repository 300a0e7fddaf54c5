//! How long a packet occupies the wire.

mod trace;

pub use trace::{Trace, TraceDriven, TraceError};

use catnip_base::{Rate, Time, WireTime};
use std::fmt::Debug;
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
    /// Opportunities to send, as recorded.
    Trace(Arc<Trace>),
    /// Transmission takes no time, so that nothing ever waits: a link of pure delay.
    Unlimited,
}

impl From<Rate> for RateSpec {
    fn from(rate: Rate) -> Self {
        Self::Constant(rate)
    }
}

impl RateSpec {
    /// An idle wire.
    pub fn build(&self) -> AnyShaper {
        match self {
            Self::Constant(rate) => AnyShaper::Constant(Constant::new(*rate)),
            Self::Trace(trace) => AnyShaper::Trace(Box::new(TraceDriven::new(trace.clone()))),
            Self::Unlimited => AnyShaper::Unlimited,
        }
    }

    /// What the wire carries on average if it is always busy; `None`: there is no bound.
    pub fn mean(&self) -> Option<Rate> {
        match self {
            Self::Constant(rate) => Some(*rate),
            Self::Trace(trace) => Some(trace.mean_rate()),
            Self::Unlimited => None,
        }
    }
}

/// The shapers that a topology can name, and one of your own.
#[derive(Debug)]
pub enum AnyShaper {
    /// Constant rate.
    Constant(Constant),
    /// See [`TraceDriven`].
    Trace(Box<TraceDriven>),
    /// Transmission takes no time.
    Unlimited,
    /// Anything else.
    Custom(Box<dyn Shaper>),
}

impl AnyShaper {
    /// Out of line: almost all wires have a constant rate.
    #[inline(never)]
    fn finish_other(&mut self, start: Time, len: u32) -> Time {
        match self {
            Self::Constant(shaper) => shaper.finish(start, len),
            Self::Trace(shaper) => shaper.finish(start, len),
            Self::Unlimited => start,
            Self::Custom(shaper) => shaper.finish(start, len),
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

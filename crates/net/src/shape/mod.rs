//! How long a packet occupies the wire.

use catnip_base::{Rate, Time, WireTime};
use std::fmt::Debug;

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

/// The shapers that a topology can name, and one of your own.
#[derive(Debug)]
pub enum AnyShaper {
    /// Constant rate.
    Constant(Constant),
    /// Anything else.
    Custom(Box<dyn Shaper>),
}

impl Shaper for AnyShaper {
    #[inline]
    fn finish(&mut self, start: Time, len: u32) -> Time {
        match self {
            Self::Constant(shaper) => shaper.finish(start, len),
            Self::Custom(shaper) => shaper.finish(start, len),
        }
    }
}

//! Basic types of all parts of CATNIP: time, rates, random streams, distributions, the information that an application provides about its
//! data, and the text notation of configurable components. The crate reads no clock, allocates nothing per packet and depends on no other
//! crate of the project.

#![forbid(unsafe_code)]

mod context;
mod dispatch;
mod distribution;
mod equivalents;
mod histogram;
pub mod math;
pub mod notation;
mod rng;
mod slab;
mod time;
mod units;

pub use context::FlowContext;
pub use distribution::{Distribution, Measure};
pub use histogram::Histogram;
pub use rng::{Rng, Stream};
pub use slab::Slab;
pub use time::{Rate, Span, Time, WireTime};
pub use units::{Bytes, ParseError, Quantity, Share};

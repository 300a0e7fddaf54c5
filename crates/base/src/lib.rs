//! The vocabulary that every part of CATNIP shares: time, rates, random streams, distributions, what an application
//! knows about its data, and how kinds of things are written. Nothing here reads a clock, allocates per packet or depends on another crate of ours.

#![forbid(unsafe_code)]

mod context;
mod distribution;
pub mod notation;
mod rng;
mod slab;
mod time;
mod units;

pub use context::FlowContext;
pub use distribution::{Distribution, Measure};
pub use rng::{Rng, Stream};
pub use slab::Slab;
pub use time::{Rate, Span, Time, WireTime};
pub use units::{Bytes, ParseError, Quantity, Share};

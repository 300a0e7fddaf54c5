//! The simulator: a fabric with TCP endpoints at its edges, and applications that open connections between them.
//!
//! One [`Sim`] is one run: a value on one thread that depends on nothing but its configuration and its seed.

#![forbid(unsafe_code)]

pub mod app;
mod connection;
mod datagram;
pub mod record;
mod slab;
mod world;

pub use connection::{Opener, TcpId, Transfer};
pub use datagram::{DatagramCounters, FlowId, Moments};
pub use record::{Event, Recorder};
pub use world::{Memory, Sim};

//! The engine of hosts: a fabric with TCP endpoints at its edges, and applications that open connections between them. The
//! simulator is this engine over numbers; the emulator is the same one over real packets.
//!
//! One [`World`] is one run: a value on one thread that depends on nothing but its configuration and its seed.

#![forbid(unsafe_code)]

pub mod app;
mod connection;
mod datagram;
pub mod medium;
pub mod record;
mod transfer;
pub mod watch;
mod world;

pub use connection::Account;
pub use datagram::{DatagramCounters, FlowId, Moments};
pub use medium::{Medium, Numbers};
pub use record::Event;
pub use transfer::{CLIENT, Opener, SERVER, TcpId, Transfer, tick_phase};
pub use watch::Watch;
pub use world::{Handler, Memory, Sim, Tally, World};

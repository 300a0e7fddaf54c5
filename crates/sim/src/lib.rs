//! Engine of hosts: a network with TCP endpoints at its edges, and applications that open connections between them. The simulator runs this
//! engine over segments in memory, the emulator over IP packets.
//!
//! A [`World`] is one run: a value on one thread that depends only on its configuration and its seed.

#![forbid(unsafe_code)]

pub mod app;
mod connection;
mod connection_info;
mod connection_spec;
mod datagram;
mod host;
pub mod medium;
mod message_stream;
mod programs;
pub mod record;
pub mod session;
pub mod watch;
mod world;

pub use connection_info::ConnectionInfo;
pub use connection_spec::{CLIENT, ConnectionSpec, SERVER, TcpId, TcpOptions, tick_phase};
pub use datagram::{DatagramCounters, FlowId, Moments};
pub use host::{Conn, Host, ServiceOptions};
pub use medium::{Medium, SegmentMedium};
pub use message_stream::{Message, ReceivedMessage};
pub use record::Event;
pub use watch::Watch;
pub use world::{Handler, Memory, Sim, Tally, World};

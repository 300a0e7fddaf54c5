//! CATNIP on the wire: views over real packets, priorities in their headers, simulated segments as real ones, and
//! captures, written, read and verified.
//!
//! A packet is a slice of bytes that begins with its IP header, as a TUN device gives it. Bytes from outside may be
//! anything: what cannot be read is an error, never a panic. Reading and rewriting a packet allocates nothing.

#![forbid(unsafe_code)]

mod bytes;
pub mod checksum;
mod convert;
mod error;
mod flow;
pub mod http;
pub mod ip;
pub mod pcapng;
mod priority;
mod tcp;
mod transport;
pub mod udp;
pub mod verify;

pub use convert::{Announcement, Incoming, TIMESTAMPS_LEN, Translation, unwrap_near};
pub use error::WireError;
pub use flow::FlowKey;
pub use ip::{Fragment, Ip, Version};
pub use priority::{AfClass, PriorityCodec};
pub use tcp::{Addresses, Tcp, TcpFlags, TcpHeader, TcpOptions, TcpSackBlocks};
pub use transport::transport_is_right;
pub use udp::Udp;

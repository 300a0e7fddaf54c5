//! Wire formats of CATNIP: parsing and rewriting of real packets, priorities in packet headers, translation between
//! simulated and real segments, and writing, reading and verification of captures.
//!
//! A packet is a slice of bytes that begins with its IP header, as a TUN device delivers it. Received bytes are
//! untrusted: malformed input is an error, never a panic. Parsing and rewriting a packet allocate nothing.

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

pub use convert::{Announcement, Incoming, TIMESTAMPS_LEN, Translation, unwrap_sequence};
pub use error::WireError;
pub use flow::FlowKey;
pub use ip::{Fragment, Ip, Version};
pub use priority::{AfClass, PriorityCodec};
pub use tcp::{Addresses, Tcp, TcpFlags, TcpHeader, TcpOptions, TcpSackBlocks};
pub use transport::has_valid_transport_checksum;
pub use udp::Udp;

//! Options of TCP sockets by which an application describes its data to the marking agent of the host: the Rust version of
//! `crates/agent/include/catnip.h`.
//!
//! Without an agent, each function returns `ENOPROTOOPT`. An application may ignore this error:
//!
//! ```
//! # let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
//! let stream = std::net::TcpStream::connect(listener.local_addr()?)?;
//! let _ = catnip_context::set_document(&stream, 20_000);
//! # Ok::<(), std::io::Error>(())
//! ```

#![forbid(unsafe_code)]

use catnip_linux::socket_option;
use std::io;
use std::os::fd::AsFd;

/// Level of the socket options, for setsockopt(2).
pub const LEVEL: i32 = 0x4350;

/// Congestion window thresholds of the drop precedences HIGH and MED, segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Thresholds {
    /// Largest congestion window at which packets are HIGH.
    pub high: u32,
    /// Largest congestion window at which packets are at least MED.
    pub med: u32,
}

const DOCUMENT: i32 = 1;
const CLASS: i32 = 2;
const THRESHOLDS: i32 = 3;
const WEIGHT: i32 = 4;

/// Announces that the next `bytes` bytes written to the socket are one document.
pub fn set_document(socket: &impl AsFd, bytes: u64) -> io::Result<()> {
    set(socket, DOCUMENT, &bytes.to_ne_bytes())
}

/// Returns the size of the document announced last, bytes.
pub fn document(socket: &impl AsFd) -> io::Result<u64> {
    get(socket, DOCUMENT).map(u64::from_ne_bytes)
}

/// Sets the class of the connection: 1 if a user waits for each packet, 2 if a user waits for each document, 3 if no user waits, or 0 for
/// the default of the host's policy.
pub fn set_class(socket: &impl AsFd, class: u32) -> io::Result<()> {
    set(socket, CLASS, &class.to_ne_bytes())
}

/// Returns the class of the connection, or the default class if the application has set none.
pub fn class(socket: &impl AsFd) -> io::Result<u32> {
    get(socket, CLASS).map(u32::from_ne_bytes)
}

/// Sets the congestion window thresholds with which the agent marks packets by the state of TCP.
pub fn set_thresholds(socket: &impl AsFd, thresholds: Thresholds) -> io::Result<()> {
    let [a, b, c, d] = thresholds.high.to_ne_bytes();
    let [e, f, g, h] = thresholds.med.to_ne_bytes();
    set(socket, THRESHOLDS, &[a, b, c, d, e, f, g, h])
}

/// Returns the current congestion window thresholds.
pub fn thresholds(socket: &impl AsFd) -> io::Result<Thresholds> {
    let [a, b, c, d, e, f, g, h] = get(socket, THRESHOLDS)?;
    Ok(Thresholds { high: u32::from_ne_bytes([a, b, c, d]), med: u32::from_ne_bytes([e, f, g, h]) })
}

/// Sets the priority of the packets for the queue discipline (SO_PRIORITY).
pub fn set_weight(socket: &impl AsFd, weight: u32) -> io::Result<()> {
    set(socket, WEIGHT, &weight.to_ne_bytes())
}

/// Returns the priority of the packets for the queue discipline.
pub fn weight(socket: &impl AsFd) -> io::Result<u32> {
    get(socket, WEIGHT).map(u32::from_ne_bytes)
}

fn set(socket: &impl AsFd, option: i32, value: &[u8]) -> io::Result<()> {
    socket_option::set(socket.as_fd(), LEVEL, option, value)
}

fn get<const N: usize>(socket: &impl AsFd, option: i32) -> io::Result<[u8; N]> {
    socket_option::get(socket.as_fd(), LEVEL, option)
}

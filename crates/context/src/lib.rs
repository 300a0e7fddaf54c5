//! What an application tells its marking host of what it writes, as options of a TCP socket: the Rust side of
//! `crates/agent/include/catnip.h`.
//!
//! Without an agent each of these says `ENOPROTOOPT`, and an application that does not care goes on as before:
//!
//! ```
//! # let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
//! let stream = std::net::TcpStream::connect(listener.local_addr()?)?;
//! let _ = catnip_context::set_document(&stream, 20_000);
//! # Ok::<(), std::io::Error>(())
//! ```

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The level of all these options.
pub const LEVEL: i32 = 0x4350;

/// The largest windows whose packets are HIGH, and MED at least, segments.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Thresholds {
    /// Of HIGH.
    pub high: u32,
    /// Of MED.
    pub med: u32,
}

const DOCUMENT: i32 = 1;
const CLASS: i32 = 2;
const THRESHOLDS: i32 = 3;
const WEIGHT: i32 = 4;

/// The next `bytes` that are written are one document.
pub fn set_document(socket: &impl AsFd, bytes: u64) -> io::Result<()> {
    set(socket, DOCUMENT, &bytes)
}

/// Bytes of the document that was announced last.
pub fn document(socket: &impl AsFd) -> io::Result<u64> {
    get(socket, DOCUMENT)
}

/// Who waits: 1 somebody for each packet, 2 for each document, 3 nobody, 0 as the host's policy says.
pub fn set_class(socket: &impl AsFd, class: u32) -> io::Result<()> {
    set(socket, CLASS, &class)
}

/// The class in force.
pub fn class(socket: &impl AsFd) -> io::Result<u32> {
    get(socket, CLASS)
}

/// Marks by the state of TCP with these thresholds.
pub fn set_thresholds(socket: &impl AsFd, thresholds: Thresholds) -> io::Result<()> {
    set(socket, THRESHOLDS, &thresholds)
}

/// The thresholds in force.
pub fn thresholds(socket: &impl AsFd) -> io::Result<Thresholds> {
    get(socket, THRESHOLDS)
}

/// The priority that the queue discipline is told (SO_PRIORITY).
pub fn set_weight(socket: &impl AsFd, weight: u32) -> io::Result<()> {
    set(socket, WEIGHT, &weight)
}

/// The same as it is.
pub fn weight(socket: &impl AsFd) -> io::Result<u32> {
    get(socket, WEIGHT)
}

/// A value that is what its bytes say, whatever they are.
trait Plain: Default {}

impl Plain for u32 {}
impl Plain for u64 {}
impl Plain for Thresholds {}

fn set<T: Plain>(socket: &impl AsFd, option: i32, value: &T) -> io::Result<()> {
    let (socket, len) = (socket.as_fd().as_raw_fd(), size_of::<T>() as libc::socklen_t);
    // SAFETY: the kernel reads so many bytes of the value.
    let done = unsafe { libc::setsockopt(socket, LEVEL, option, (&raw const *value).cast(), len) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn get<T: Plain>(socket: &impl AsFd, option: i32) -> io::Result<T> {
    let (mut value, mut len) = (T::default(), size_of::<T>() as libc::socklen_t);
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel writes so many bytes of the value at most, and any bytes are one.
    let done = unsafe { libc::getsockopt(socket, LEVEL, option, (&raw mut value).cast(), &raw mut len) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

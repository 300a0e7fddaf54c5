//! Table of the windows of newCWV senders: cwnd, ssthresh, pipeACK and phase at each event (RFC 7661, CWV-S13).

use catnip_cli::failure::Failure;
use catnip_cli::out::write_failure;
use catnip_linux::sys;
use libbpf_rs::{MapCore, RingBuffer, RingBufferBuilder};
use std::cell::RefCell;
use std::fmt::{self, Display};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Columns of the table, with times since 1970. Unknown values are empty: `ssthresh_bytes` before the first loss, and `pipe_ack_bytes`
/// before the first sample, and after a recovery before the next one.
pub const COLUMNS: &str =
    "time_s,local_port,remote,event,kind,cwnd_bytes,ssthresh_bytes,pipe_ack_bytes,phase";

/// Kinds of events, by `enum window_event_kind` in `bpf/shared.h`.
const KINDS: [&str; 5] = ["ack", "start", "congestion", "timeout", "recovered"];
/// Bounds of the number of events that are written at once: milliseconds of work, and more than the ring buffer holds.
const AT_ONCE: usize = 4096;
const EVENTS: usize = 1 << 16;
const ADDRESS_FAMILY_V6: u32 = libc::AF_INET6 as u32;

/// Table to which the events of the kernel programs are written.
pub struct Table<'a> {
    events: RingBuffer<'a>,
    ready: OwnedFd,
    file: Rc<RefCell<Output>>,
}

#[derive(Debug)]
struct Output {
    path: PathBuf,
    file: BufWriter<File>,
    /// Seconds by which the times of events are ahead of those since 1970.
    ahead_s: u64,
    /// Error of the first failed write; nothing is written after it.
    failed: Option<String>,
}

impl<'a> Table<'a> {
    /// Creates the file of a table. A file that exists is an error.
    pub fn create(path: &Path) -> Result<File, Failure> {
        File::options().write(true).create_new(true).open(path).map_err(|error| write_failure(path, error))
    }

    /// Writes the events in the ring buffer `map` to `file`, which was created at `path`, as soon as `write` is called.
    pub fn new(map: &'a impl MapCore, path: &Path, file: File) -> Result<Self, Failure> {
        let cannot = |error| Failure::new("--windows", format!("cannot read the kernel's events: {error}"));
        let file = BufWriter::new(file);
        let mut output = Output { path: path.into(), file, ahead_s: sys::tai_offset_s(), failed: None };
        output.line(COLUMNS);
        let file = Rc::new(RefCell::new(output));
        let output = Rc::clone(&file);
        let mut builder = RingBufferBuilder::new();
        builder
            .add(map, move |event| {
                output.borrow_mut().write(event);
                0
            })
            .map_err(cannot)?;
        let events = builder.build().map_err(cannot)?;
        let ready = sys::duplicate(events.epoll_fd())
            .map_err(|error| Failure::new("--windows", format!("cannot wait for events: {error}")))?;
        Ok(Self { events, ready, file })
    }

    /// Returns a descriptor that is readable if there are events.
    pub fn ready(&self) -> &OwnedFd {
        &self.ready
    }

    /// Writes the next events, as many as take milliseconds. If this fails, marking goes on without the table.
    pub fn write(&self) {
        self.events.consume_raw_n(AT_ONCE);
    }

    /// Writes all events so far to the file. Returns the error of the first write that has failed.
    pub fn flush(&self) -> Option<String> {
        self.events.consume_raw_n(EVENTS);
        let mut output = self.file.borrow_mut();
        let flushed = output.file.flush();
        output.keep(flushed);
        output.failed.clone()
    }

    /// Writes the last events and closes the table.
    pub fn close(self) -> Result<(), Failure> {
        self.flush().map_or(Ok(()), |error| Err(Failure::new("--windows", error)))
    }
}

impl Output {
    fn write(&mut self, event: &[u8]) {
        if let Some(mut event) = Event::read(event) {
            event.time = event.time.saturating_sub(self.ahead_s * 1_000_000_000);
            self.line(event);
        }
    }

    fn line(&mut self, line: impl Display) {
        if self.failed.is_none() {
            let written = writeln!(self.file, "{line}");
            self.keep(written);
        }
    }

    fn keep(&mut self, written: io::Result<()>) {
        if let (None, Err(error)) = (&self.failed, written) {
            self.failed = Some(write_failure(&self.path, error).to_string());
        }
    }
}

/// Windows of a sender at an event.
#[derive(Debug, PartialEq)]
struct Event {
    /// Time of CLOCK_TAI as read, and since 1970 as written, ns.
    time: u64,
    local_port: u16,
    remote: SocketAddr,
    number: u32,
    kind: &'static str,
    cwnd: u64,
    ssthresh: Option<u64>,
    pipe_ack: Option<u64>,
    is_validated: bool,
}

impl Event {
    /// Reads `struct window_event` of `bpf/shared.h`.
    fn read(bytes: &[u8]) -> Option<Self> {
        let u16_at = |at: usize| Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
        let u32_at = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let u64_at = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let defined = |value: u64| (value != u64::MAX).then_some(value);
        let remote: [u8; 16] = bytes.get(52..68)?.try_into().ok()?;
        let address = if u32_at(48)? == ADDRESS_FAMILY_V6 {
            Ipv6Addr::from(remote).to_canonical()
        } else {
            IpAddr::from([remote[0], remote[1], remote[2], remote[3]])
        };
        Some(Self {
            time: u64_at(0)?,
            cwnd: u64_at(8)?,
            ssthresh: defined(u64_at(16)?),
            pipe_ack: defined(u64_at(24)?),
            number: u32_at(32)?,
            kind: KINDS.get(u32_at(36)? as usize)?,
            is_validated: u32_at(40)? == 1,
            local_port: u16_at(44)?,
            remote: SocketAddr::new(address, u16_at(46)?),
        })
    }
}

impl Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
        let phase = if self.is_validated { "validated" } else { "non-validated" };
        write!(
            f,
            "{}.{:09},{},{},{},{},{},{},{},{phase}",
            self.time / 1_000_000_000,
            self.time % 1_000_000_000,
            self.local_port,
            self.remote,
            self.number,
            self.kind,
            self.cwnd,
            text(self.ssthresh),
            text(self.pipe_ack),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(family: i32, remote: [u8; 16]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for value in [1_500_000_000_000_000_001u64, 14_480, u64::MAX, 2896] {
            bytes.extend(value.to_ne_bytes());
        }
        for value in [7u32, 1, 0] {
            bytes.extend(value.to_ne_bytes());
        }
        bytes.extend(80u16.to_ne_bytes());
        bytes.extend(40_000u16.to_ne_bytes());
        bytes.extend((family as u32).to_ne_bytes());
        bytes.extend(remote);
        bytes.extend([0; 4]);
        bytes
    }

    #[test]
    fn an_event_is_a_line_with_the_address_of_its_peer_and_without_unknown_values() {
        let v4 = event(libc::AF_INET, [192, 0, 2, 1, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9]);
        assert_eq!(
            Event::read(&v4).unwrap().to_string(),
            "1500000000.000000001,80,192.0.2.1:40000,7,start,14480,,2896,non-validated"
        );
        let v6 = event(libc::AF_INET6, [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(Event::read(&v6).unwrap().remote.to_string(), "[2001:db8::1]:40000");
        let mapped = event(libc::AF_INET6, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1]);
        assert_eq!(Event::read(&mapped).unwrap().remote.to_string(), "192.0.2.1:40000");
        assert_eq!(Event::read(&v4[..60]), None);
        assert_eq!(Event::read(&v4).unwrap().to_string().split(',').count(), COLUMNS.split(',').count());
    }
}

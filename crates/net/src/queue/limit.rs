use super::BufferBounds;
use crate::{Backlog, Packet};
use catnip_base::notation::{Notation, Written};
use catnip_base::{Bytes, ParseError};
use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};
use std::str::FromStr;

/// Buffer limit in packets or bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// Limit in packets.
    Packets(PacketLimit),
    /// Limit in bytes, including the packet in transmission until its last bit has left. A packet larger than the limit is always dropped.
    Bytes(NonZeroU64),
}

impl Capacity {
    /// Description of a valid limit, for errors.
    pub(super) const EXPECTED: &str =
        "a limit such as 10 (packets, at least 2 and at most 4294967296) or 15KB (above zero)";

    /// Reads the limit from the next value of a queue's text.
    pub(super) fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let limit = text.next().unwrap_or_default();
        limit.parse().map_err(|error| text.error_of(error, Self::EXPECTED))
    }

    /// Reads the limit from the next value of a queue's text, or returns the default if there is none.
    pub(super) fn read_or(text: &mut Notation<'_>, default: Self) -> Result<Self, ParseError> {
        let limit = text.next().map_or(Ok(default), str::parse);
        limit.map_err(|error| text.error_of(error, Self::EXPECTED))
    }

    /// Returns a limit in packets, the packet in transmission included. Panics if it is below 2.
    pub(super) const fn packets(total: u32) -> Self {
        Self::Packets(PacketLimit { waiting: NonZeroU32::new(total - 1).unwrap() })
    }

    /// Reads a limit. A limit in packets counts only waiting packets; a limit in bytes also includes the packet in transmission.
    pub(super) fn read_waiting(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let limit = text.next().unwrap_or_default();
        let expected = "a limit such as 10 (packets that may wait, at least 1) or 15KB (above zero)";
        let waiting = |limit| u32::try_from(limit).ok().and_then(NonZeroU32::new).map(Self::from);
        let read = match limit.ends_with(|last: char| last.is_ascii_alphabetic()) {
            true => limit.parse(),
            false => packets(limit, expected, u32::MAX.into(), waiting),
        };
        read.map_err(|error| text.error_of(error, expected))
    }

    /// Writes the limit as [`Self::read_waiting`] reads it.
    pub(super) fn write_waiting(self, to: &mut Written) -> &mut Written {
        match self {
            Self::Packets(limit) => to.value(limit.waiting()),
            Self::Bytes(_) => to.value(self),
        }
    }

    /// Returns true if the limit is in bytes.
    pub(super) fn is_in_bytes(self) -> bool {
        matches!(self, Self::Bytes(_))
    }

    /// Returns the limit as a number of waiting packets or of bytes.
    pub fn amount(self) -> f64 {
        match self {
            Self::Packets(limit) => f64::from(limit.waiting().get()),
            Self::Bytes(limit) => limit.get() as f64,
        }
    }

    /// Returns the bounds in packets. A limit in bytes does not determine them.
    pub(super) fn buffer_bounds(self) -> BufferBounds {
        match self {
            Self::Packets(limit) => BufferBounds { guaranteed: limit.total(), max: Some(limit.total()) },
            Self::Bytes(_) => BufferBounds::default(),
        }
    }
}

impl From<NonZeroU32> for Capacity {
    /// Creates a limit from the number of packets that may wait besides the one in transmission.
    fn from(waiting: NonZeroU32) -> Self {
        Self::Packets(PacketLimit { waiting })
    }
}

impl FromStr for Capacity {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let limit = match text.ends_with(|last: char| last.is_ascii_alphabetic()) {
            true => text.parse().map(|Bytes(limit)| NonZeroU64::new(limit).map(Self::Bytes)),
            false => text.parse().map(|limit| Some(Self::Packets(limit))),
        };
        match limit {
            Err(error) if error.is_too_large() => Err(error),
            limit => limit.ok().flatten().ok_or_else(|| ParseError::new(text, Self::EXPECTED)),
        }
    }
}

impl fmt::Display for Capacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packets(limit) => limit.fmt(f),
            Self::Bytes(limit) => Bytes(limit.get()).fmt(f),
        }
    }
}

/// Buffer limit of a queue, and the packet of the queue that is in transmission.
#[derive(Debug)]
pub(super) struct Buffer {
    capacity: Capacity,
    /// Bytes of the packet in transmission, which counts until its last bit has left.
    in_transmission: u32,
}

impl Buffer {
    pub(super) fn new(capacity: Capacity) -> Self {
        Self { capacity, in_transmission: 0 }
    }

    /// Returns true if this backlog is within the limit.
    #[inline]
    pub(super) fn holds(&self, backlog: Backlog) -> bool {
        match self.capacity {
            Capacity::Packets(limit) => backlog.packets <= limit.waiting().get(),
            Capacity::Bytes(limit) => backlog.bytes + u64::from(self.in_transmission) <= limit.get(),
        }
    }

    /// Returns true if there is space for one more packet.
    #[inline]
    pub(super) fn accepts(&self, mut backlog: Backlog, packet: &Packet) -> bool {
        backlog.add(packet);
        self.holds(backlog)
    }

    /// Returns the number of bytes by which this backlog exceeds a limit in bytes, and 0 for a limit in packets.
    pub(super) fn excess_bytes(&self, backlog: Backlog) -> u64 {
        match self.capacity {
            Capacity::Packets(_) => 0,
            Capacity::Bytes(limit) => {
                (backlog.bytes + u64::from(self.in_transmission)).saturating_sub(limit.get())
            }
        }
    }

    /// Returns true if the packet fits into the buffer when no packet is waiting or in transmission.
    pub(super) fn fits(&self, packet: &Packet) -> bool {
        match self.capacity {
            Capacity::Packets(_) => true,
            Capacity::Bytes(limit) => u64::from(packet.len) <= limit.get(),
        }
    }

    /// Records the packet that is in transmission from now on; `None` if no packet is.
    #[inline]
    pub(super) fn set_in_transmission(&mut self, packet: Option<&Packet>) {
        self.in_transmission = packet.map_or(0, |packet| packet.len);
    }
}

/// Buffer limit in packets, the packet in transmission included. The limit is at least 2, so that a packet can wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketLimit {
    waiting: NonZeroU32,
}

impl PacketLimit {
    const EXPECTED: &str = "a limit in packets, at least 2 packets";
    const MAX: u64 = u32::MAX as u64 + 1;

    /// Returns a limit of `limit` packets; `None` if it is below 2 or above 2^32.
    pub fn new(limit: u64) -> Option<Self> {
        let waiting = limit.checked_sub(1).and_then(|waiting| u32::try_from(waiting).ok());
        waiting.and_then(NonZeroU32::new).map(|waiting| Self { waiting })
    }

    /// Returns the number of packets that may wait besides the one in transmission.
    pub fn waiting(self) -> NonZeroU32 {
        self.waiting
    }

    /// Returns the limit including the packet in transmission, at most `u32::MAX`.
    pub fn total(self) -> u32 {
        self.waiting.get().saturating_add(1)
    }
}

impl FromStr for PacketLimit {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        packets(text, Self::EXPECTED, Self::MAX, Self::new)
    }
}

impl fmt::Display for PacketLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", u64::from(self.waiting.get()) + 1)
    }
}

/// Parses a number of packets and converts it with `of`. Numbers above `max` have an error of their own.
fn packets<T>(text: &str, expected: &str, max: u64, of: impl Fn(u64) -> Option<T>) -> Result<T, ParseError> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse().map_err(|_| is_number) {
        Err(false) => Err(ParseError::new(text, expected)),
        Ok(limit) if limit <= max => of(limit).ok_or_else(|| ParseError::new(text, expected)),
        _ => Err(ParseError::too_large(text, format!("{max} packets"))),
    }
}

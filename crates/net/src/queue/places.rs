use super::Holds;
use catnip_base::{Bytes, ParseError};
use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};
use std::str::FromStr;

/// What fits into a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// So many packets.
    Packets(Places),
    /// So many bytes, those of the packet in transmission included until its last bit has left. A packet larger than all of
    /// it never passes.
    Bytes(NonZeroU64),
}

impl Capacity {
    /// What is expected where one is read.
    pub(super) const EXPECTED: &str =
        "a limit such as 10 (packets, at least 2 and at most 4294967296) or 15KB (above zero)";

    /// How many packets that is, as far as it says so.
    pub(super) fn holds(self) -> Holds {
        match self {
            Self::Packets(places) => Holds { surely: places.all(), at_most: Some(places.all()) },
            Self::Bytes(_) => Holds::default(),
        }
    }
}

impl From<NonZeroU32> for Capacity {
    /// Room for so many packets beside the one in transmission.
    fn from(waiting: NonZeroU32) -> Self {
        Self::Packets(Places { waiting })
    }
}

impl FromStr for Capacity {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let limit = match text.ends_with(|last: char| last.is_ascii_alphabetic()) {
            true => text.parse().ok().and_then(|Bytes(limit)| NonZeroU64::new(limit)).map(Self::Bytes),
            false => text.parse().ok().map(Self::Packets),
        };
        limit.ok_or_else(|| ParseError::new(text, Self::EXPECTED))
    }
}

impl fmt::Display for Capacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packets(places) => places.fmt(f),
            Self::Bytes(limit) => Bytes(limit.get()).fmt(f),
        }
    }
}

/// Packets that fit into a buffer, the one in transmission included: at least 2, so that somebody can wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    waiting: NonZeroU32,
}

impl Places {
    /// What is expected where one is read.
    pub(super) const EXPECTED: &str =
        "a limit in packets, at least 2 and at most 4294967296 (RED counts no bytes and no time)";

    /// A buffer for `limit` packets.
    pub fn new(limit: u64) -> Option<Self> {
        let waiting = limit.checked_sub(1).and_then(|waiting| u32::try_from(waiting).ok());
        waiting.and_then(NonZeroU32::new).map(|waiting| Self { waiting })
    }

    /// Those beside the one in transmission.
    pub fn waiting(self) -> NonZeroU32 {
        self.waiting
    }

    /// All of them, as far as they can be counted.
    pub fn all(self) -> u32 {
        self.waiting.get().saturating_add(1)
    }
}

impl FromStr for Places {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        text.parse().ok().and_then(Self::new).ok_or_else(|| ParseError::new(text, Self::EXPECTED))
    }
}

impl fmt::Display for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", u64::from(self.waiting.get()) + 1)
    }
}

use catnip_base::ParseError;
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// Packets that fit into a buffer, the one in transmission included: at least 2, so that somebody can wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    waiting: NonZeroU32,
}

impl Places {
    /// What is expected where one is read.
    pub(super) const EXPECTED: &str =
        "a limit in packets, at least 2 packets (only drop-tail has one in bytes or time)";

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

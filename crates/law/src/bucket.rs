//! A token bucket: a packet conforms if there are as many tokens as it has bytes, and takes them. Tokens are counted in billionths of a
//! bit, of which a whole number comes each nanosecond, so that what has conformed in any interval never exceeds rate × time + depth, not
//! even by a bit.

/// A byte's tokens.
const BYTE: u64 = 8 * 1_000_000_000;
/// The deepest bucket, bytes.
pub const DEEPEST: u64 = u64::MAX / BYTE;
/// No time at all.
pub const NEVER: u64 = u64::MAX;

/// A bucket, and what was in it when somebody looked last.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    rate: u64,
    depth: u64,
    tokens: u64,
    since: u64,
}

impl Bucket {
    /// A bucket that is full at time zero, with tokens that come at a rate in bits per second, above zero. It holds so many bytes, at
    /// most [`DEEPEST`].
    pub fn new(rate: u64, depth: u64) -> Self {
        let depth = depth.min(DEEPEST) * BYTE;
        Self { rate, depth, tokens: depth, since: 0 }
    }

    /// Are there tokens for a packet of `len` bytes?
    #[inline]
    pub fn conforms(&self, now: u64, len: u32) -> bool {
        self.level(now) >= cost(len)
    }

    /// The packet takes its tokens, if they are there.
    #[inline]
    pub fn admits(&mut self, now: u64, len: u32) -> bool {
        let level = self.level(now);
        let conforms = level >= cost(len);
        if conforms {
            self.tokens = level - cost(len);
            self.since = self.since.max(now);
        }
        conforms
    }

    /// From when on a packet of `len` bytes conforms if no other one takes tokens before it; [`NEVER`] if the bucket is too small for it.
    pub fn ready_at(&self, len: u32) -> u64 {
        if cost(len) > self.depth {
            return NEVER;
        }
        let wait = cost(len).saturating_sub(self.tokens).div_ceil(self.rate);
        self.since.saturating_add(wait)
    }

    #[inline]
    fn level(&self, now: u64) -> u64 {
        let elapsed = now.saturating_sub(self.since);
        let missing = self.depth - self.tokens;
        // What comes in so many nanoseconds is no more than what is missing, so that nothing overflows.
        if elapsed > missing / self.rate { self.depth } else { self.tokens + elapsed * self.rate }
    }
}

#[inline]
fn cost(len: u32) -> u64 {
    (len as u64).saturating_mul(BYTE)
}

//! Token bucket. A packet conforms if the bucket holds at least as many tokens as the packet has bytes; a conforming packet removes this
//! number of tokens. The bucket counts tokens in billionths of a bit, because a rate in bits per second adds an integer number of these in
//! each nanosecond. The conforming data of any interval therefore never exceeds rate × time + depth, not even by a bit.

/// Tokens per byte.
const BYTE: u64 = 8 * 1_000_000_000;
/// Tokens for a hundredth of a byte, which are those that a byte brings at a share of one percent.
const PERCENT: u64 = BYTE / 100;
/// Maximum depth of a bucket, bytes.
pub const MAX_DEPTH: u64 = u64::MAX / BYTE;
/// Value for a time that is never reached.
pub const NEVER: u64 = u64::MAX;

/// Token bucket, with the number of tokens at its last update.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    rate: u64,
    depth: u64,
    tokens: u64,
    since: u64,
}

impl Bucket {
    /// Creates a bucket that is full at time zero. `rate` is in bits per second and must be above zero. `depth` is in bytes and is limited
    /// to [`MAX_DEPTH`].
    pub fn new(rate: u64, depth: u64) -> Self {
        let depth = depth.min(MAX_DEPTH) * BYTE;
        Self { rate, depth, tokens: depth, since: 0 }
    }

    /// Returns the bucket of a kernel program, whose fields are these words: the rate, the depth, the tokens and the time of their number.
    pub const fn from_words([rate, depth, tokens, since]: [u64; 4]) -> Self {
        Self { rate, depth, tokens, since }
    }

    /// Returns true if the bucket is full at a time.
    pub fn is_full(&self, now: u64) -> bool {
        self.level(now) == self.depth
    }

    /// Returns true if there are tokens for a packet of `len` bytes.
    #[inline]
    pub fn conforms(&self, now: u64, len: u32) -> bool {
        self.level(now) >= cost(len)
    }

    /// Removes the tokens of a packet of `len` bytes and returns true if there are enough; otherwise returns false.
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

    /// Adds tokens for `share_pct` percent of a packet of `len` bytes, whether this packet takes tokens itself or not. The conforming data
    /// of any interval then never exceeds rate × time + share × all data + depth.
    #[inline]
    pub fn earn(&mut self, len: u32, share_pct: u32) {
        let earned = (len as u64 * share_pct as u64).saturating_mul(PERCENT);
        self.tokens = self.tokens.saturating_add(earned).min(self.depth);
    }

    /// Returns the time from which a packet of `len` bytes conforms if no other packet removes tokens until then, or [`NEVER`] if the
    /// packet is larger than the depth of the bucket.
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
        // The product cannot overflow, because it is at most the number of missing tokens.
        if elapsed > missing / self.rate { self.depth } else { self.tokens + elapsed * self.rate }
    }
}

#[inline]
fn cost(len: u32) -> u64 {
    (len as u64).saturating_mul(BYTE)
}

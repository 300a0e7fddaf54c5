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

#[cfg(test)]
mod tests {
    use super::*;

    /// Nanoseconds in a millisecond.
    const MS: u64 = 1_000_000;

    #[test]
    fn tokens_of_a_part_of_a_byte_are_kept_from_packet_to_packet() {
        // 8 kbit/s are a byte per millisecond, and thus a third of a byte in each step. Packets without a byte take no tokens.
        let mut bucket = Bucket::new(8_000, 100);
        assert!(bucket.admits(0, 100));
        for step in 1..=30 {
            assert!(bucket.admits(step * MS / 3, 0));
            assert!(!bucket.conforms(step * MS / 3, step as u32 / 3 + 1), "step {step}");
        }
        assert!(bucket.admits(10 * MS, 10) && !bucket.conforms(10 * MS, 1));
    }

    #[test]
    fn a_clock_that_steps_back_brings_no_tokens_twice() {
        // The data of any interval never exceeds rate × time + depth. Two processors can read times in the wrong order, as the C header of
        // the law allows.
        let mut bucket = Bucket::new(8_000, 100);
        assert!(bucket.admits(0, 100));
        assert!(bucket.admits(50 * MS, 40), "10 of 50 bytes are left");
        assert!(bucket.admits(20 * MS, 10) && !bucket.conforms(20 * MS, 1));
        assert!(!bucket.conforms(50 * MS, 1), "the bytes of the first 50 ms are spent");
        assert!(bucket.conforms(51 * MS, 1) && !bucket.conforms(51 * MS, 2));
    }

    #[test]
    fn a_refused_packet_changes_nothing_and_a_full_bucket_overflows() {
        let mut bucket = Bucket::new(8_000, 100);
        assert!(bucket.admits(0, 60));
        let before = bucket;
        assert!(!bucket.admits(10 * MS, 51));
        assert_eq!(bucket, before);
        assert_eq!(
            (bucket.ready_at(51), bucket.ready_at(100), bucket.ready_at(101)),
            (11 * MS, 60 * MS, NEVER)
        );
        assert!(!bucket.is_full(60 * MS - 1) && bucket.is_full(60 * MS) && bucket.is_full(NEVER));
        assert!(bucket.admits(1_000 * MS, 100) && !bucket.conforms(1_000 * MS, 1));
    }

    #[test]
    fn a_share_is_earned_in_hundredths_of_a_byte_up_to_the_depth() {
        let mut bucket = Bucket::new(1, 100);
        assert!(bucket.admits(0, 100));
        bucket.earn(50, 1);
        assert!(!bucket.conforms(0, 1), "half a byte");
        bucket.earn(50, 1);
        assert!(bucket.conforms(0, 1) && !bucket.conforms(0, 2));
        bucket.earn(1_000, 100);
        assert!(bucket.is_full(0));
    }
}

//! Users with a limit. The kernel programs add a user with the first packet; the agent removes those whose buckets are full again, which
//! makes no difference to them, so that no user can take all of the places for ever.

use catnip_law::bucket::Bucket;
use libbpf_rs::{MapCore, MapFlags};

/// Number of 64-bit words before the buckets of a user, for the lock.
const LOCK_WORDS: usize = 1;
/// Number of 64-bit words of a bucket.
const BUCKET_WORDS: usize = size_of::<Bucket>() / 8;

/// Removes the users whose buckets are full at a time of the monotonic clock, nanoseconds.
pub fn forget_idle(users: &impl MapCore, now_ns: u64) -> libbpf_rs::Result<()> {
    let keys: Vec<Vec<u8>> = users.keys().collect();
    for key in keys {
        // Another user's first packet may change the map at the same time.
        if users.lookup(&key, MapFlags::ANY)?.is_some_and(|user| are_full(&user, now_ns)) {
            let _ = users.delete(&key);
        }
    }
    Ok(())
}

/// Returns true if both buckets of a user are full.
fn are_full(user: &[u8], now_ns: u64) -> bool {
    let words: Vec<u64> =
        user.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_ne_bytes)).collect();
    words[LOCK_WORDS.min(words.len())..].chunks_exact(BUCKET_WORDS).all(|bucket| {
        let words = [bucket[0], bucket[1], bucket[2], bucket[3]];
        Bucket::from_words(words).is_full(now_ns)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTE: u64 = 8_000_000_000;

    /// Returns a user whose buckets lack tokens of this many bytes since a time of 1 s, with 1 kbit/s and 2 kbit/s.
    fn user(missing: [u64; 2]) -> Vec<u8> {
        let bucket = |rate: u64, missing: u64| [rate, 1000 * BYTE, (1000 - missing) * BYTE, 1_000_000_000];
        let words = [[0].as_slice(), &bucket(1000, missing[0]), &bucket(2000, missing[1])].concat();
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn a_user_is_idle_as_soon_as_both_buckets_are_full() {
        // 125 bytes take a second at 1 kbit/s, 500 bytes two seconds at 2 kbit/s.
        let at = |seconds: u64| seconds * 1_000_000_000;
        assert!(are_full(&user([0, 0]), 0));
        assert!(!are_full(&user([125, 0]), at(2) - 1) && are_full(&user([125, 0]), at(2)));
        assert!(!are_full(&user([0, 500]), at(3) - 1) && are_full(&user([0, 500]), at(3)));
        assert!(!are_full(&user([125, 500]), at(2)) && are_full(&user([125, 500]), at(3)));
    }
}

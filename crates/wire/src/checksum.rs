//! Internet checksum: full computation (RFC 1071) and incremental update (RFC 1624).

use std::net::IpAddr;

/// Incremental sum of 16-bit words. All parts except the last part must have an even length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// Adds bytes as big-endian words. An odd last byte counts as if a zero byte followed it.
    #[inline]
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        let mut words = bytes.chunks_exact(2);
        for word in &mut words {
            self.0 += u64::from(u16::from_be_bytes([word[0], word[1]]));
        }
        if let [last] = words.remainder() {
            self.0 += u64::from(*last) << 8;
        }
        self
    }

    /// Adds the pseudo header of TCP and UDP (RFC 9293, section 3.1; RFC 8200, section 8.1).
    pub fn pseudo_header(self, source: IpAddr, destination: IpAddr, protocol: u8, len: usize) -> Self {
        let address = |sum: Self, address| match address {
            IpAddr::V4(v4) => sum.bytes(&v4.octets()),
            IpAddr::V6(v6) => sum.bytes(&v6.octets()),
        };
        let Self(sum) = address(address(self, source), destination);
        Self(sum + u64::from(protocol) + (len as u64 >> 16) + (len as u64 & 0xffff))
    }

    /// Returns the one's complement sum folded into 16 bits, not inverted.
    pub fn folded(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum >> 16) + (sum & 0xffff);
        }
        sum as u16
    }

    /// Returns the checksum: the inverted folded sum.
    pub fn checksum(self) -> u16 {
        !self.folded()
    }
}

/// Computes the checksum of `bytes`, whose checksum field must be zero. If the field already holds the correct checksum, the result is
/// zero.
pub fn checksum(bytes: &[u8]) -> u16 {
    Sum::default().bytes(bytes).checksum()
}

/// Updates a checksum after one of the words that it covers has changed (RFC 1624, equation 3).
///
/// A wrong checksum stays wrong, so that an update never makes a corrupted packet valid.
#[inline]
pub fn update(checksum: u16, old: u16, new: u16) -> u16 {
    let mut sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
    sum = (sum >> 16) + (sum & 0xffff);
    sum = (sum >> 16) + (sum & 0xffff);
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_example_of_rfc_1071_section_3() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::default().bytes(&bytes).folded(), 0xddf2);
        assert_eq!(checksum(&bytes), 0x220d);
    }

    #[test]
    fn the_example_of_rfc_1624_section_4() {
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn an_update_carries_as_often_as_the_sum_asks_for() {
        // RFC 1624, equation 3: ~(~HC + ~m + m') in one's complement arithmetic. The carry out of 16 bits is added back, and the carry of
        // that addition as well. A nonzero sum therefore folds to its remainder modulo 0xffff, or to 0xffff itself.
        let edges = [0, 1, 2, 0x7fff, 0x8000, 0xfffd, 0xfffe, 0xffff];
        for (checksum, old) in edges.iter().flat_map(|&checksum| edges.map(|old| (checksum, old))) {
            for new in 0..=0xffff {
                let sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
                let folded = if sum == 0 { 0 } else { (sum - 1) % 0xffff + 1 };
                assert_eq!(update(checksum, old, new), !(folded as u16), "{checksum:x} {old:x} {new:x}");
            }
        }
    }

    proptest! {
        #[test]
        fn an_updated_checksum_equals_a_new_one(
            mut bytes in prop::collection::vec(any::<u8>(), 1..200),
            at in any::<prop::sample::Index>(),
            new in any::<[u8; 2]>(),
        ) {
            // A nonzero word is needed: zeros alone do not distinguish the two zeros of one's complement.
            bytes.push(1);
            bytes.push(0);
            bytes.rotate_right(2);
            let at = 2 + at.index(bytes.len() - 2) / 2 * 2;
            let word = |bytes: &[u8]| u16::from_be_bytes([bytes[at], bytes.get(at + 1).copied().unwrap_or(0)]);
            let (before, old) = (checksum(&bytes), word(&bytes));
            bytes[at] = new[0];
            if let Some(byte) = bytes.get_mut(at + 1) {
                *byte = new[1];
            }
            prop_assert_eq!(update(before, old, word(&bytes)), checksum(&bytes));
        }

        #[test]
        fn a_sum_does_not_depend_on_where_it_is_cut(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            cut in 0usize..100,
        ) {
            let cut = (2 * cut).min(bytes.len() / 2 * 2);
            let parts = Sum::default().bytes(&bytes[..cut]).bytes(&bytes[cut..]);
            prop_assert_eq!(parts.checksum(), checksum(&bytes));
        }

        #[test]
        fn bytes_with_their_checksum_sum_to_zero(mut bytes in prop::collection::vec(any::<u8>(), 2..200)) {
            bytes[0] = 0;
            bytes[1] = 0;
            let sum = checksum(&bytes).to_be_bytes();
            bytes[..2].copy_from_slice(&sum);
            prop_assert_eq!(checksum(&bytes), 0);
        }
    }
}

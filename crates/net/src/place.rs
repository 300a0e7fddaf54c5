use crate::{Dscp, Priority};

/// Place of a packet in its document, "packet i of N" (CATNIP paper, section III-A), in a DSCP.
///
/// The DSCP is one of pool 2, xxxx11, for experiments and local use (RFC 2474, section 6). Two of its bits tell how many packets of the
/// document come before this one, and two how many come after it: none, one or two, three to seven, or more. The sender states the place,
/// and a router decides what it is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    before: u8,
    after: u8,
}

/// Largest number of packets of each level but the last.
const LEVELS: [u64; 3] = [0, 2, 7];

impl Place {
    /// Place of a SYN or SYN-ACK, before the document.
    pub const FIRST: Self = Self { before: 0, after: LEVELS.len() as u8 };

    /// Creates the place of a packet with `before` packets of its document before it and `after` after it; `None` if the end of the
    /// document is not known.
    #[inline]
    pub fn new(before: u64, after: Option<u64>) -> Self {
        Self { before: level(before), after: level(after.unwrap_or(u64::MAX)) }
    }

    /// Returns the place in a DSCP; `None` if the DSCP has none.
    #[inline]
    pub fn of(dscp: Dscp) -> Option<Self> {
        let codepoint = dscp.codepoint();
        (codepoint & POOL == POOL).then_some(Self { before: codepoint >> 4, after: codepoint >> 2 & 3 })
    }

    /// Returns the DSCP.
    pub const fn dscp(self) -> Dscp {
        Dscp::new(self.before << 4 | self.after << 2 | POOL)
    }

    /// Returns the priority of a router that drops packets in the middle first: HIGH for the first and last three packets of a document,
    /// MED for the five next to them, LOW for all others.
    #[inline]
    pub fn priority(self) -> Priority {
        match self.before.min(self.after) {
            0 | 1 => Priority::High,
            2 => Priority::Medium,
            _ => Priority::Low,
        }
    }
}

/// Low bits of the codepoints of pool 2.
const POOL: u8 = 0b11;

fn level(packets: u64) -> u8 {
    LEVELS.iter().take_while(|&&largest| packets > largest).count() as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_has_a_codepoint_of_its_own_in_pool_2() {
        let mut codepoints = Vec::new();
        for before in [0, 1, 3, 8] {
            for after in [0, 2, 7, 8] {
                let place = Place::new(before, Some(after));
                assert_eq!(Place::of(place.dscp()), Some(place));
                codepoints.push(place.dscp().codepoint());
            }
        }
        codepoints.sort_unstable();
        assert_eq!(codepoints, (0..16).map(|place| place << 2 | 0b11).collect::<Vec<u8>>());
        for priority in Priority::DROPPED_FIRST {
            assert_eq!(Place::of(Dscp::assured(1, priority)), None);
        }
        assert_eq!(Place::of(Dscp::DEFAULT), None);
        assert_eq!(Place::new(0, None), Place::FIRST);
    }

    #[test]
    fn the_first_and_last_three_packets_are_high_and_those_eight_from_both_ends_low() {
        let of = |packets: u64| {
            let priority = |i| Place::new(i, Some(packets - 1 - i)).priority();
            (0..packets).map(|i| &priority(i).name()[..1]).collect::<String>()
        };
        assert_eq!(of(1), "h");
        assert_eq!(of(8), "hhhmmhhh");
        assert_eq!(of(18), "hhhmmmmmllmmmmmhhh");
        assert_eq!(Place::new(40, None).priority(), Priority::Low);
    }
}

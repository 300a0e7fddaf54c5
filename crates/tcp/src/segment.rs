use catnip_base::{Span, Time};

/// Header fields of a segment, and the length of its data. Sequence numbers count bytes from the start of the data of a connection and
/// never wrap. A codec maps them to 32 bits for external hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Segment {
    /// First byte of the data; the next byte to be sent (SND.MAX) if there is none.
    pub seq: u64,
    /// Acknowledgement number: the next byte expected from the peer.
    pub ack: u64,
    /// Length of the data, bytes.
    pub len: u32,
    /// Receive window of the sender of this segment, bytes.
    pub window: u32,
    /// Control bits.
    pub flags: Flags,
    /// SACK blocks.
    pub sack: SackBlocks,
    /// ECN bits.
    pub ecn: EcnBits,
    /// Timestamps option.
    pub timestamps: Timestamps,
}

// Segments are copied for each packet, so their size determines memory use and cache misses in large networks. The size may shrink, but
// should not grow without a reason.
const _: () = assert!(size_of::<Segment>() <= 64);

impl Segment {
    /// Returns the number of sequence numbers that the segment occupies: one per byte of its data, and one for its FIN.
    pub fn seq_len(&self) -> u64 {
        u64::from(self.len) + u64::from(self.flags.fin)
    }
}

/// Control bits of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// SYN, which opens a connection.
    pub syn: bool,
    /// ACK: the acknowledgement number is valid.
    pub ack: bool,
    /// FIN, which ends the data.
    pub fin: bool,
}

/// ECN bits of a segment (RFC 3168, section 6.1), and the CE mark of its packet. They fit into one byte, because segments are copied for
/// each packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EcnBits(u8);

impl EcnBits {
    /// Empty set of bits.
    pub(crate) const NONE: Self = Self(0);
    const ECE: u8 = 1;
    const CWR: u8 = 2;
    const CE: u8 = 4;

    /// Creates the bits from ECE (ECN-Echo) and CWR (congestion window reduced).
    pub fn new(ece: bool, cwr: bool) -> Self {
        Self((u8::from(ece) * Self::ECE) | (u8::from(cwr) * Self::CWR))
    }

    /// Returns the bits with the CE mark of the arriving packet set or cleared.
    pub fn with_ce(self, ce: bool) -> Self {
        Self((self.0 & !Self::CE) | (u8::from(ce) * Self::CE))
    }

    /// Returns true if ECE (ECN-Echo) is set.
    pub fn ece(self) -> bool {
        self.0 & Self::ECE != 0
    }

    /// Returns true if CWR (congestion window reduced) is set.
    pub fn cwr(self) -> bool {
        self.0 & Self::CWR != 0
    }

    /// Returns true if the packet arrived with the CE codepoint.
    pub fn ce(self) -> bool {
        self.0 & Self::CE != 0
    }
}

/// Timestamps option (RFC 7323), in milliseconds as in Linux. Zero means no timestamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamps {
    /// TSval.
    pub tsval: u32,
    /// TSecr.
    pub tsecr: u32,
}

impl Timestamps {
    /// Returns the time since the timestamp `tsecr`, rounded down to milliseconds but at least one. Returns `None` if there is no timestamp
    /// or if it lies in the future.
    pub(crate) fn rtt(now: Time, tsecr: u32) -> Option<Span> {
        let elapsed = Self::tsval_at(now).wrapping_sub(tsecr);
        (tsecr != 0 && elapsed < u32::MAX / 2).then(|| Span::from_millis(elapsed.max(1).into()))
    }

    /// Returns true if the timestamp `tsecr` is one from before the time `at` (tcp_tsopt_ecr_before); false if there is no timestamp.
    pub(crate) fn is_echo_before(tsecr: u32, at: Time) -> bool {
        tsecr != 0 && (tsecr.wrapping_sub(Self::tsval_at(at)) as i32) < 0
    }

    /// Returns the value of the timestamp clock at the time `at`.
    pub fn tsval_at(at: Time) -> u32 {
        at.since(Time::ZERO).in_units_of(Span::from_millis(1)) as u32 + 1
    }
}

/// Up to three SACK blocks (RFC 2018), the most recent block first, as offsets from the acknowledgement number. The first block may be a
/// DSACK block, which reports a duplicate (RFC 2883).
///
/// Each block is one word, start before end, and zero if there is none: no block is empty. Words are copied with a segment by moves that
/// do not overlap, which the processor can forward from the stores before them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks([u64; Self::MAX]);

impl SackBlocks {
    /// Number of blocks that fit into a header with a timestamp option.
    pub const MAX: usize = 3;

    /// Creates the blocks from the first byte ranges of an iterator. The ranges lie above `ack`, except a DSACK block.
    pub fn new(ack: u64, ranges: impl Iterator<Item = (u64, u64)>) -> Self {
        let mut sack = Self::default();
        for (block, (start, end)) in sack.0.iter_mut().zip(ranges) {
            let [start, end] = [start, end].map(|at| u64::from(at.wrapping_sub(ack) as u32));
            *block = start << 32 | end;
        }
        sack
    }

    /// Returns the number of blocks.
    #[inline]
    pub fn len(&self) -> usize {
        if self.is_empty() { 0 } else { self.0.iter().take_while(|block| **block != 0).count() }
    }

    /// Returns true if there are no blocks.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0[0] == 0
    }

    /// Returns the blocks as byte ranges, for a segment with the acknowledgement number `ack`.
    pub fn ranges(&self, ack: u64) -> impl Iterator<Item = (u64, u64)> {
        let at = move |offset: u64| ack.wrapping_add_signed(i64::from(offset as u32 as i32));
        let blocks = self.0.into_iter().take_while(|block| *block != 0);
        blocks.map(move |block| (at(block >> 32), at(block)))
    }

    /// Returns true if the first block reports a duplicate. Such a block lies below the acknowledgement number `ack` or within the second
    /// block (RFC 2883, section 4).
    pub fn has_dsack(&self, ack: u64) -> bool {
        let mut ranges = self.ranges(ack);
        let Some((start, end)) = ranges.next() else { return false };
        start < ack || ranges.next().is_some_and(|second| second.0 <= start && end <= second.1)
    }
}

/// Returns the earlier of two times; `None` if both are absent.
pub(crate) fn earlier(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_uses_the_numbers_of_its_data_and_its_fin() {
        let fin = Flags { fin: true, ..Flags::default() };
        // RFC 9293, section 3.4: a FIN has its own sequence number. A SYN also has one in a real segment, but here data begins at 0.
        assert_eq!(Segment { len: 10, ..Segment::default() }.seq_len(), 10);
        assert_eq!(Segment { len: 10, flags: fin, ..Segment::default() }.seq_len(), 11);
        assert_eq!(Segment { flags: Flags { syn: true, ..fin }, ..Segment::default() }.seq_len(), 1);
    }

    #[test]
    fn blocks_are_what_was_put_in_and_three_at_most() {
        let ranges = [(1100, 1200), (1500, 1700), (1300, 1400), (1900, 2000)];
        for count in 0..=4 {
            let sack = SackBlocks::new(1000, ranges[..count].iter().copied());
            let held = count.min(3);
            assert_eq!((sack.len(), sack.is_empty()), (held, count == 0));
            assert_eq!(sack.ranges(1000).collect::<Vec<_>>(), ranges[..held]);
        }
    }

    #[test]
    fn the_earlier_of_two_points_is_the_one_that_is_there() {
        let [one, two] = [1, 2].map(Time::from_nanos);
        assert_eq!(earlier(Some(one), Some(two)), Some(one));
        assert_eq!(earlier(Some(two), Some(one)), Some(one));
        assert_eq!((earlier(Some(two), None), earlier(None, Some(two))), (Some(two), Some(two)));
        assert_eq!(earlier(None, None), None);
    }
}

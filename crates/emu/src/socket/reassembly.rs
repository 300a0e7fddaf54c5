use std::collections::BTreeMap;

/// Reassembly buffer of a stream. Its size is bounded: a segment for which there is no free space counts as lost.
#[derive(Debug, Default)]
pub(crate) struct ReassemblyBuffer {
    /// Offset in the stream of the next byte to deliver.
    next: u64,
    /// Pieces received out of order, by the offset of their first byte.
    pieces: BTreeMap<u64, Vec<u8>>,
    /// Total length of the pieces in `pieces`.
    bytes: usize,
}

impl ReassemblyBuffer {
    /// Largest number of buffered bytes.
    pub(crate) const CAPACITY: usize = 4 << 20;
    /// Largest number of buffered pieces.
    pub(crate) const MAX_PIECES: usize = 4096;

    /// Accepts `bytes`, which begin at offset `seq`, and passes all bytes that are then in order to `deliver`. Returns false if there is no
    /// free space.
    pub(crate) fn insert(&mut self, seq: u64, bytes: &[u8], mut deliver: impl FnMut(&[u8])) -> bool {
        let end = seq + bytes.len() as u64;
        if end <= self.next {
            return true;
        }
        if seq > self.next {
            return self.store(seq, bytes);
        }
        deliver(&bytes[(self.next - seq) as usize..]);
        self.next = end;
        while let Some(piece) = self.pieces.first_entry() {
            if *piece.key() > self.next {
                break;
            }
            let (seq, bytes) = piece.remove_entry();
            self.bytes -= bytes.len();
            let end = seq + bytes.len() as u64;
            if end > self.next {
                deliver(&bytes[(self.next - seq) as usize..]);
                self.next = end;
            }
        }
        true
    }

    /// Returns the number of buffered pieces and the number of their bytes.
    #[cfg(test)]
    pub(crate) fn buffered(&self) -> (usize, usize) {
        (self.pieces.len(), self.bytes)
    }

    fn store(&mut self, seq: u64, bytes: &[u8]) -> bool {
        let before = self.pieces.get(&seq).map_or(0, Vec::len);
        if bytes.len() <= before {
            return true;
        }
        if self.bytes + bytes.len() - before > Self::CAPACITY
            || self.pieces.len() == Self::MAX_PIECES && before == 0
        {
            return false;
        }
        self.bytes += bytes.len() - before;
        self.pieces.insert(seq, bytes.into());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Pieces in any order that cover the stream yield the stream.
        #[test]
        fn pieces_in_any_order_give_the_stream(cuts in prop::collection::vec((0usize..400, 1usize..90), 0..60), seed: u8) {
            let stream: Vec<u8> = (0..400u32).map(|n| (n * 7) as u8 ^ seed).collect();
            let mut reassembly = ReassemblyBuffer::default();
            let mut received = Vec::new();
            let whole = (0..400).step_by(50).map(|at| (at, 50)).rev();
            for (at, len) in cuts.into_iter().chain(whole) {
                let end = (at + len).min(400);
                prop_assert!(reassembly.insert(at as u64, &stream[at..end], |bytes| received.extend_from_slice(bytes)));
            }
            prop_assert_eq!(received, stream);
            prop_assert_eq!(reassembly.buffered(), (0, 0));
        }
    }

    #[test]
    fn there_is_an_end_of_what_is_kept() {
        let mut reassembly = ReassemblyBuffer::default();
        let inserted = (1..).take_while(|n| reassembly.insert(2 * n, &[1], |_| ())).count();
        assert_eq!(inserted, ReassemblyBuffer::MAX_PIECES);
        let mut reassembly = ReassemblyBuffer::default();
        let piece = vec![0; 1 << 16];
        let inserted = (1..).take_while(|n| reassembly.insert(n << 17, &piece, |_| ())).count();
        assert_eq!(inserted, ReassemblyBuffer::CAPACITY >> 16);
        // A piece that fills the gap is accepted although the buffer is full.
        assert!(reassembly.insert(0, &piece, |_| ()));
    }
}

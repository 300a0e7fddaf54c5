use std::collections::BTreeMap;

/// Reassembly buffer of a stream. Its size is bounded: a segment for which there is no free space counts as lost.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// Offset of the next byte to pass on.
    next: u64,
    /// Out-of-order pieces, by the offset of their first byte.
    kept: BTreeMap<u64, Vec<u8>>,
    /// Total length of the pieces in `kept`.
    bytes: usize,
}

impl Inbox {
    /// Largest number of buffered bytes.
    pub(crate) const ROOM: usize = 4 << 20;
    /// Largest number of buffered pieces.
    pub(crate) const PIECES: usize = 4096;

    /// Accepts `bytes`, which begin at offset `seq`, and passes all bytes that are then in order to `hear`. Returns false if there is no
    /// free space.
    pub(crate) fn take(&mut self, seq: u64, bytes: &[u8], mut hear: impl FnMut(&[u8])) -> bool {
        let end = seq + bytes.len() as u64;
        if end <= self.next {
            return true;
        }
        if seq > self.next {
            return self.keep(seq, bytes);
        }
        hear(&bytes[(self.next - seq) as usize..]);
        self.next = end;
        while let Some(piece) = self.kept.first_entry() {
            if *piece.key() > self.next {
                break;
            }
            let (seq, bytes) = piece.remove_entry();
            self.bytes -= bytes.len();
            let end = seq + bytes.len() as u64;
            if end > self.next {
                hear(&bytes[(self.next - seq) as usize..]);
                self.next = end;
            }
        }
        true
    }

    /// Returns the number of out-of-order pieces and the number of their bytes.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> (usize, usize) {
        (self.kept.len(), self.bytes)
    }

    fn keep(&mut self, seq: u64, bytes: &[u8]) -> bool {
        let before = self.kept.get(&seq).map_or(0, Vec::len);
        if bytes.len() <= before {
            return true;
        }
        if self.bytes + bytes.len() - before > Self::ROOM || self.kept.len() == Self::PIECES && before == 0 {
            return false;
        }
        self.bytes += bytes.len() - before;
        self.kept.insert(seq, bytes.into());
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
            let mut inbox = Inbox::default();
            let mut heard = Vec::new();
            let whole = (0..400).step_by(50).map(|at| (at, 50)).rev();
            for (at, len) in cuts.into_iter().chain(whole) {
                let end = (at + len).min(400);
                prop_assert!(inbox.take(at as u64, &stream[at..end], |bytes| heard.extend_from_slice(bytes)));
            }
            prop_assert_eq!(heard, stream);
            prop_assert_eq!(inbox.waiting(), (0, 0));
        }
    }

    #[test]
    fn there_is_an_end_of_what_is_kept() {
        let mut inbox = Inbox::default();
        let taken = (1..).take_while(|n| inbox.take(2 * n, &[1], |_| ())).count();
        assert_eq!(taken, Inbox::PIECES);
        let mut inbox = Inbox::default();
        let piece = vec![0; 1 << 16];
        let taken = (1..).take_while(|n| inbox.take(n << 17, &piece, |_| ())).count();
        assert_eq!(taken, Inbox::ROOM >> 16);
        // A piece that fills the gap is accepted although the buffer is full.
        assert!(inbox.take(0, &piece, |_| ()));
    }
}

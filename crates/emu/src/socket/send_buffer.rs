use std::borrow::Cow;
use std::collections::VecDeque;

/// Sent and unsent data of a socket, by offset in the stream: messages that consist of given bytes followed by padding.
#[derive(Debug, Default)]
pub(crate) struct SendBuffer {
    /// Messages that may be retransmitted, in order.
    pieces: VecDeque<Piece>,
    end: u64,
}

#[derive(Debug)]
struct Piece {
    start: u64,
    bytes: Vec<u8>,
    end: u64,
}

impl SendBuffer {
    /// Appends a message of `bytes` and `padding` bytes of padding. Releases the messages that are acknowledged as a whole by `snd_una`.
    pub(crate) fn push(&mut self, bytes: &[u8], padding: u64, snd_una: u64) {
        while self.pieces.front().is_some_and(|piece| piece.end <= snd_una) {
            self.pieces.pop_front();
        }
        let start = self.end;
        self.end = start + bytes.len() as u64 + padding;
        self.pieces.push_back(Piece { start, bytes: bytes.to_vec(), end: self.end });
    }

    /// Returns the offset in the stream after the last byte.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Returns `len` bytes of the stream, from the offset `seq` on.
    pub(crate) fn bytes(&self, seq: u64, len: usize) -> Cow<'_, [u8]> {
        if len == 0 {
            return Cow::Borrowed(&[]);
        }
        let first = self.pieces.partition_point(|piece| piece.end <= seq);
        if let Some(all) = self.pieces.get(first).and_then(|piece| piece.get(seq, len)) {
            return Cow::Borrowed(all);
        }
        let mut joined = Vec::with_capacity(len);
        for piece in self.pieces.range(first..) {
            while joined.len() < len {
                let at = seq + joined.len() as u64;
                let explicit =
                    piece.bytes.get((at - piece.start) as usize..).filter(|explicit| !explicit.is_empty());
                let rest = (piece.end - at).min((len - joined.len()) as u64) as usize;
                let rest = explicit.map_or(rest, |explicit| explicit.len().min(rest));
                match piece.get(at, rest) {
                    Some(bytes) if rest > 0 => joined.extend_from_slice(bytes),
                    _ => break,
                }
            }
        }
        Cow::Owned(joined)
    }
}

impl Piece {
    /// Returns `len` bytes of this message from the offset `seq` of the stream on; `None` if they are neither all given bytes nor all
    /// padding of the message.
    fn get(&self, seq: u64, len: usize) -> Option<&[u8]> {
        let at = usize::try_from(seq.checked_sub(self.start)?).ok()?;
        if at < self.bytes.len() {
            return self.bytes.get(at..at.checked_add(len)?);
        }
        // The letter of the padding depends on the offset from the end of the given bytes. In a message without given bytes, it depends on
        // the offset in the stream.
        let base = if self.bytes.is_empty() { 0 } else { self.start + self.bytes.len() as u64 };
        let padding = PADDING.get(((seq - base) % PERIOD) as usize..)?.get(..len);
        padding.filter(|_| seq + len as u64 <= self.end)
    }
}

/// Returns the letter that pads documents at the offset `at`.
pub fn padding(at: u64) -> u8 {
    b'a' + (at % PERIOD) as u8
}

const PERIOD: u64 = 26;
/// Letters from which the padding of any segment is copied, whatever letter it begins with.
static PADDING: [u8; (1 << 16) + PERIOD as usize] = {
    let mut bytes = [0; (1 << 16) + PERIOD as usize];
    let mut at = 0;
    while at < bytes.len() {
        bytes[at] = b'a' + (at % PERIOD as usize) as u8;
        at += 1;
    }
    bytes
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_piece_of_the_stream_is_what_was_written_there(
            messages in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..40), 0u64..70), 1..8),
            seq in 0usize..300, len in 0usize..200,
        ) {
            let (mut send_buffer, mut all) = (SendBuffer::default(), Vec::new());
            for (bytes, fill) in &messages {
                send_buffer.push(bytes, *fill, 0);
                all.extend_from_slice(bytes);
                let base = if bytes.is_empty() { 0 } else { all.len() as u64 };
                all.extend((all.len() as u64..all.len() as u64 + fill).map(|at| padding(at - base)));
            }
            prop_assert_eq!(send_buffer.end(), all.len() as u64);
            let (from, to) = (seq.min(all.len()), (seq + len).min(all.len()));
            prop_assert_eq!(send_buffer.bytes(from as u64, to - from).into_owned(), &all[from..to]);
        }
    }

    #[test]
    fn what_is_acknowledged_is_forgotten() {
        let mut send_buffer = SendBuffer::default();
        send_buffer.push(b"first", 10, 0);
        send_buffer.push(b"second", 0, 14);
        assert_eq!(send_buffer.pieces.len(), 2, "a byte of it may be sent again");
        send_buffer.push(b"third", 0, 15);
        assert_eq!(send_buffer.pieces.len(), 2);
        assert_eq!(*send_buffer.bytes(15, 8), *b"secondth");
    }
}

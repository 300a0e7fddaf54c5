use std::io::{self, Read, Seek, SeekFrom, Write};

/// Storage for many texts that grow at the same time. Most of their bytes are in one store, usually a temporary file, only a few in memory.
#[derive(Debug)]
pub(super) struct Spilled<S> {
    store: S,
    len: u64,
}

/// Text whose beginning is in the store of a [`Spilled`] and whose end is apart from it.
#[derive(Debug, Default)]
pub(super) struct Text {
    /// Offset and length of each piece of the text in the store.
    pieces: Vec<(u64, u32)>,
    /// Bytes after the last piece, in memory.
    end: Vec<u8>,
}

const SPILL_BYTES: usize = 1 << 12;

impl<S: Read + Write + Seek> Spilled<S> {
    /// Creates a storage over an empty store.
    pub(super) fn new(store: S) -> Self {
        Self { store, len: 0 }
    }

    /// Moves the part of a text that is in memory to the store, if it is at least `SPILL_BYTES` bytes long.
    pub(super) fn spill_if_full(&mut self, text: &mut Text) -> io::Result<()> {
        if text.end.len() < SPILL_BYTES { Ok(()) } else { self.spill(text) }
    }

    /// Moves the part of a text that is in memory to the store.
    pub(super) fn spill(&mut self, text: &mut Text) -> io::Result<()> {
        self.store.write_all(&text.end)?;
        text.pieces.push((self.len, text.end.len() as u32));
        self.len += text.end.len() as u64;
        text.end = Vec::new();
        Ok(())
    }

    /// Writes the whole text to `out`.
    pub(super) fn copy(&mut self, text: &Text, out: &mut impl Write) -> io::Result<()> {
        let mut piece = Vec::new();
        for &(at, len) in &text.pieces {
            piece.resize(len as usize, 0);
            self.store.seek(SeekFrom::Start(at))?;
            self.store.read_exact(&mut piece)?;
            out.write_all(&piece)?;
        }
        out.write_all(&text.end)
    }
}

impl Text {
    /// Returns true if the text is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.end.is_empty()
    }

    /// Returns the part of the text that is in memory, to which more can be appended.
    pub(super) fn end(&mut self) -> &mut Vec<u8> {
        &mut self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back_whole_whatever_was_written_between() {
        let mut spilled = Spilled::new(io::Cursor::new(Vec::new()));
        let mut texts = [Text::default(), Text::default(), Text::default()];
        let mut expected = [Vec::new(), Vec::new(), Vec::new()];
        for round in 0..3000_usize {
            let which = round * 7 % 2;
            let line = format!("{round} of {which};");
            texts[which].end().extend_from_slice(line.as_bytes());
            expected[which].extend_from_slice(line.as_bytes());
            spilled.spill_if_full(&mut texts[which]).unwrap();
            if round % 500 == 0 {
                spilled.spill(&mut texts[which]).unwrap();
            }
            assert!(texts[which].end.len() < SPILL_BYTES);
        }
        for (text, expected) in texts.iter().zip(&expected) {
            let mut out = Vec::new();
            spilled.copy(text, &mut out).unwrap();
            assert_eq!(out, *expected);
            assert_eq!(text.is_empty(), expected.is_empty());
        }
        assert!(texts[0].pieces.len() > 5 && texts[2].is_empty());
    }
}

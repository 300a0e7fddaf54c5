use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// Texts that grow side by side, of which little is in memory: the rest is in a file without a name.
#[derive(Debug)]
pub(super) struct Pages {
    file: File,
    len: u64,
}

/// One of the texts.
#[derive(Debug, Default)]
pub(super) struct Text {
    /// Where in the file its beginning is, piece by piece, and how long each piece is.
    pieces: Vec<(u64, u32)>,
    /// What comes behind that.
    end: Vec<u8>,
}

const PAGE: usize = 1 << 12;

impl Pages {
    /// Puts the file into this folder.
    pub(super) fn new(folder: &Path) -> io::Result<Self> {
        Ok(Self { file: tempfile::tempfile_in(folder)?, len: 0 })
    }

    /// Takes the end of a text out of memory if it is long.
    pub(super) fn turn(&mut self, text: &mut Text) -> io::Result<()> {
        if text.end.len() < PAGE { Ok(()) } else { self.put_away(text) }
    }

    /// Takes the end of a text out of memory.
    pub(super) fn put_away(&mut self, text: &mut Text) -> io::Result<()> {
        self.file.write_all(&text.end)?;
        text.pieces.push((self.len, text.end.len() as u32));
        self.len += text.end.len() as u64;
        text.end = Vec::new();
        Ok(())
    }

    /// Writes the whole text.
    pub(super) fn copy(&mut self, text: &Text, out: &mut impl Write) -> io::Result<()> {
        let mut page = Vec::new();
        for &(at, len) in &text.pieces {
            page.resize(len as usize, 0);
            self.file.seek(SeekFrom::Start(at))?;
            self.file.read_exact(&mut page)?;
            out.write_all(&page)?;
        }
        out.write_all(&text.end)
    }
}

impl Text {
    /// Nothing was ever written.
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.end.is_empty()
    }

    /// To write behind all that there is.
    pub(super) fn end(&mut self) -> &mut Vec<u8> {
        &mut self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back_whole_whatever_was_written_between() {
        let folder = tempfile::tempdir().unwrap();
        let mut pages = Pages::new(folder.path()).unwrap();
        let mut texts = [Text::default(), Text::default(), Text::default()];
        let mut expected = [Vec::new(), Vec::new(), Vec::new()];
        for round in 0..3000_usize {
            let which = round * 7 % 2;
            let line = format!("{round} of {which};");
            texts[which].end().extend_from_slice(line.as_bytes());
            expected[which].extend_from_slice(line.as_bytes());
            pages.turn(&mut texts[which]).unwrap();
            if round % 500 == 0 {
                pages.put_away(&mut texts[which]).unwrap();
            }
            assert!(texts[which].end.len() < PAGE);
        }
        for (text, expected) in texts.iter().zip(&expected) {
            let mut out = Vec::new();
            pages.copy(text, &mut out).unwrap();
            assert_eq!(out, *expected);
            assert_eq!(text.is_empty(), expected.is_empty());
        }
        assert!(texts[0].pieces.len() > 5 && texts[2].is_empty());
    }
}

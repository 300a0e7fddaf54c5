//! HTTP/1 framing (RFC 9112): where a response begins and ends.

/// How an HTTP/1 response begins.
pub const BEGIN: &[u8] = b"HTTP/1.";
/// The longest header that is read.
const LONGEST: u32 = 64 << 10;
/// Stands for a status that is no number.
const UNREADABLE: u16 = u16::MAX;
/// What is kept of a line. It holds the fields that matter, and a number of 20 digits.
const LINE: usize = 48;

/// The header of a response, read as it passes.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    line: [u8; LINE],
    /// Bytes of the line so far; those beyond the kept ones count.
    line_len: u32,
    /// Bytes of the header so far.
    len: u32,
    /// What the first line says; 0 before its end.
    status: u16,
    length: Option<u64>,
    /// The length is not said, or in a way that is not understood.
    vague: bool,
    open: bool,
}

/// How far the header is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It goes on.
    More,
    /// It ends after so many of the bytes, or is none; then there may be a body of known length.
    Complete {
        /// Bytes that belong to the header.
        used: usize,
        /// Bytes of the body, if known.
        body: Option<u64>,
    },
}

impl Default for Head {
    fn default() -> Self {
        Self { line: [0; LINE], line_len: 0, len: 0, status: 0, length: None, vague: false, open: true }
    }
}

impl Head {
    /// A part of it was not seen.
    pub const LOST: Self =
        Self { line: [0; LINE], line_len: 0, len: 0, status: 0, length: None, vague: true, open: false };

    /// Is the header still to end?
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// The status code; 0 before the end of the first line, and if there is none.
    pub fn status(&self) -> u16 {
        if self.status == UNREADABLE { 0 } else { self.status }
    }

    /// Could it be read, and does it say how long the body is, or nothing about it?
    pub fn is_clear(&self) -> bool {
        self.status() != 0 && !self.vague
    }

    /// The next bytes.
    pub fn read(&mut self, bytes: &[u8]) -> Progress {
        for (i, &byte) in bytes.iter().enumerate() {
            self.len += 1;
            if let Some(kept) = self.line.get_mut(self.line_len as usize) {
                *kept = byte;
            }
            self.line_len += 1;
            let known = self.line_len.min(BEGIN.len() as u32) as usize;
            let foreign = self.status == 0 && self.line[..known] != BEGIN[..known];
            if foreign || self.len > LONGEST {
                return self.complete(i + 1, None);
            }
            if byte == b'\n' {
                let end = self.read_line();
                self.line_len = 0;
                if end && (100..200).contains(&self.status) && self.status != 101 {
                    // An interim response: another one follows.
                    *self = Self::default();
                } else if end {
                    let body = match self.status {
                        101 => None,
                        204 | 304 => Some(0),
                        _ => self.length.filter(|_| !self.vague),
                    };
                    return self.complete(i + 1, body);
                }
            }
        }
        Progress::More
    }

    fn complete(&mut self, used: usize, body: Option<u64>) -> Progress {
        self.open = false;
        Progress::Complete { used, body }
    }

    /// True at the empty line.
    fn read_line(&mut self) -> bool {
        let whole = self.line_len as usize <= LINE;
        let line = self.line[..LINE.min(self.line_len as usize)].trim_ascii_end();
        if self.status == 0 {
            let digits = line.get(BEGIN.len() + 2..BEGIN.len() + 5).and_then(number);
            // A status that cannot be read promises nothing.
            self.vague = digits.is_none();
            self.status = digits.map_or(UNREADABLE, |status| status.clamp(1, 999) as u16);
            return false;
        }
        if whole && line.is_empty() {
            return true;
        }
        if let Some(value) = field(line, b"content-length:") {
            let length = number(value.trim_ascii()).filter(|_| whole);
            self.vague |= length.is_none() || self.length.is_some_and(|before| Some(before) != length);
            self.length = length;
        }
        self.vague |= field(line, b"transfer-encoding:").is_some();
        false
    }
}

/// The value, if the line is this field.
fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (start, value) = line.split_at_checked(name.len())?;
    start.eq_ignore_ascii_case(name).then_some(value)
}

fn number(digits: &[u8]) -> Option<u64> {
    let digit = |d: &u8| d.is_ascii_digit().then(|| u64::from(d - b'0'));
    let append = |number: u64, d: &u8| number.checked_mul(10)?.checked_add(digit(d)?);
    if digits.is_empty() { None } else { digits.iter().try_fold(0, append) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Progress {
        Head::default().read(text.as_bytes())
    }

    fn body(text: &str) -> Option<u64> {
        match read(text) {
            Progress::Complete { body, .. } => body,
            Progress::More => panic!("{text:?} has no end"),
        }
    }

    #[test]
    fn the_length_is_found_in_any_case_and_place() {
        let long = format!("X-Long: {}\r\n", "x".repeat(300));
        for text in [
            "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n",
            "HTTP/1.0 404 Not Found\r\nServer: x\r\ncontent-length:1234\r\nDate: y\r\n\r\n",
            "HTTP/1.1 200\r\nCONTENT-LENGTH:   1234 \r\nContent-Length: 1234\r\n\r\n",
            "HTTP/1.1 100 Continue\r\nContent-Length: 1\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n",
            &format!("HTTP/1.1 200 OK\r\n{long}Content-Length: 1234\r\n\r\n"),
        ] {
            assert_eq!(read(text), Progress::Complete { used: text.len(), body: Some(1234) }, "{text:?}");
        }
    }

    #[test]
    fn a_length_that_is_not_sure_is_none() {
        let spaces = " ".repeat(60);
        for fields in [
            "",
            "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
            "Content-Length: 5\r\nContent-Length: 6\r\n",
            "Content-Length: -5\r\n",
            "Content-Length: \r\n",
            "Content-Length: 5, 5\r\n",
            "Content-Length: 99999999999999999999999\r\n",
            &format!("Content-Length: {spaces}5\r\n"),
            "X-Content-Length: 5\r\n",
        ] {
            assert_eq!(body(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n")), None, "{fields:?}");
        }
        assert_eq!(body("HTTP/1.1 OK\r\nContent-Length: 5\r\n\r\n"), None);
        assert_eq!(body("HTTP/1.1 101 Switching\r\nContent-Length: 5\r\n\r\n"), None);
    }

    #[test]
    fn some_responses_have_no_body() {
        for status in [204, 304] {
            assert_eq!(body(&format!("HTTP/1.1 {status} x\r\nContent-Length: 5\r\n\r\n")), Some(0));
        }
    }

    #[test]
    fn what_is_no_header_is_left_at_once_and_an_endless_one_in_time() {
        assert_eq!(read("HTTP/2"), Progress::Complete { used: 6, body: None });
        assert_eq!(read("\x16\x03\x01"), Progress::Complete { used: 1, body: None });
        let endless = format!("HTTP/1.1 200 OK\r\n{}", "x".repeat(80 << 10));
        assert_eq!(read(&endless), Progress::Complete { used: LONGEST as usize + 1, body: None });
    }

    proptest! {
        #[test]
        fn it_does_not_matter_where_segments_end(
            length: u64,
            filler in "[a-zA-Z:;= ]{0,100}",
            cuts in prop::collection::vec(1usize..40, 0..20),
        ) {
            let text = format!("HTTP/1.1 200 OK\r\nX: {filler}\r\nContent-Length: {length}\r\n\r\nrest");
            let (mut head, mut at) = (Head::default(), 0);
            let lens = cuts.into_iter().chain(std::iter::repeat(50));
            for len in lens {
                let end = text.len().min(at + len);
                if let Progress::Complete { used, body } = head.read(&text.as_bytes()[at..end]) {
                    prop_assert_eq!((at + used, body), (text.len() - 4, Some(length)));
                    break;
                }
                at = end;
            }
        }
    }
}

//! HTTP/1 framing (RFC 9112): beginning and end of responses.

/// First bytes of an HTTP/1 response.
pub const PREFIX: &[u8] = b"HTTP/1.";
/// Largest length of a header that is parsed, bytes.
const MAX_HEADER_LEN: u32 = 64 << 10;
/// Status of a response whose status code is not a number.
const UNREADABLE: u16 = u16::MAX;
/// Number of bytes of a line that are stored: enough for the relevant fields with a number of 20 digits.
const MAX_LINE: usize = 48;

/// Incremental parser of a response header.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    line: [u8; MAX_LINE],
    /// Length of the current line so far, including bytes that are not stored.
    line_len: u32,
    /// Length of the header so far, bytes.
    len: u32,
    /// Status code of the first line; 0 before the end of that line.
    status: u16,
    length: Option<u64>,
    /// True if the header is unreadable or gives the body length in an unsupported way.
    is_ambiguous: bool,
    chunked: bool,
    /// True if the server closes the connection after the body.
    closes: bool,
    open: bool,
}

/// Progress of parsing a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Incomplete header.
    More,
    /// Complete header, or bytes that are no header.
    Complete {
        /// Number of bytes that belong to the header.
        used: usize,
        /// Length of the body, bytes, if known.
        body: Option<u64>,
    },
}

impl Default for Head {
    fn default() -> Self {
        Self {
            line: [0; MAX_LINE],
            line_len: 0,
            len: 0,
            status: 0,
            length: None,
            is_ambiguous: false,
            chunked: false,
            closes: false,
            open: true,
        }
    }
}

impl Head {
    /// Header of which a part is missing, so that the length of the body is unknown.
    pub const LOST: Self = Self {
        line: [0; MAX_LINE],
        line_len: 0,
        len: 0,
        status: 0,
        length: None,
        is_ambiguous: true,
        chunked: false,
        closes: false,
        open: false,
    };

    /// Returns true if the end of the header has not been reached.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Returns the status code, or 0 if the first line is incomplete or has no valid status code.
    pub fn status(&self) -> u16 {
        if self.status == UNREADABLE { 0 } else { self.status }
    }

    /// Returns true if the header is readable and does not specify the body length in an invalid or unsupported way.
    pub fn is_clear(&self) -> bool {
        self.status() != 0 && !self.is_ambiguous
    }

    /// Returns true if the body is chunked (RFC 9112, section 7.1), so that its length is not known at its beginning.
    pub fn is_chunked(&self) -> bool {
        self.chunked && self.status() != 0
    }

    /// Returns true if this is the last response of its connection (RFC 9112, section 9.3).
    pub fn closes(&self) -> bool {
        self.closes
    }

    /// Parses the next bytes.
    pub fn read(&mut self, bytes: &[u8]) -> Progress {
        for (i, &byte) in bytes.iter().enumerate() {
            self.len += 1;
            if let Some(stored) = self.line.get_mut(self.line_len as usize) {
                *stored = byte;
            }
            self.line_len += 1;
            let known = self.line_len.min(PREFIX.len() as u32) as usize;
            let is_not_http = self.status == 0 && self.line[..known] != PREFIX[..known];
            if is_not_http || self.len > MAX_HEADER_LEN {
                return self.complete(i + 1, None);
            }
            if byte == b'\n' {
                let end = self.read_line();
                self.line_len = 0;
                if end && (100..200).contains(&self.status) && self.status != 101 {
                    // Interim response: another response follows.
                    *self = Self::default();
                } else if end {
                    let body = match self.status {
                        101 => None,
                        204 | 304 => Some(0),
                        _ => self.length.filter(|_| !self.is_ambiguous),
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

    /// Parses a line. Returns true for the empty line that ends the header.
    fn read_line(&mut self) -> bool {
        let is_complete_line = self.line_len as usize <= MAX_LINE;
        let line = self.line[..MAX_LINE.min(self.line_len as usize)].trim_ascii_end();
        if self.status == 0 {
            let digits = line.get(PREFIX.len() + 2..PREFIX.len() + 5).and_then(number);
            // A response with an unreadable status has no reliable body length.
            self.is_ambiguous = digits.is_none();
            // RFC 9112, section 9.3: an HTTP/1.0 connection persists only if the header requests it.
            self.closes = line.get(PREFIX.len()) == Some(&b'0');
            self.status = digits.map_or(UNREADABLE, |status| status.clamp(1, 999) as u16);
            return false;
        }
        if is_complete_line && line.is_empty() {
            return true;
        }
        if let Some(value) = field(line, b"content-length:") {
            let length = number(value.trim_ascii()).filter(|_| is_complete_line);
            self.is_ambiguous |= length.is_none() || self.length.is_some_and(|before| Some(before) != length);
            self.length = length;
        }
        if let Some(coding) = field(line, b"transfer-encoding:") {
            self.is_ambiguous = true;
            self.chunked = coding.trim_ascii().eq_ignore_ascii_case(b"chunked");
        }
        if let Some(option) = field(line, b"connection:") {
            self.closes = option.trim_ascii().eq_ignore_ascii_case(b"close");
        }
        false
    }
}

/// Incremental parser of a chunked body (RFC 9112, section 7.1).
#[derive(Clone, Copy, Debug)]
pub struct Chunks(ChunkState);

#[derive(Clone, Copy, Debug, PartialEq)]
enum ChunkState {
    /// Line with the size of a chunk. `digits` is true if the line has a digit so far, `ended` if the digits have ended.
    Size {
        size: u64,
        digits: bool,
        ended: bool,
    },
    /// Chunk data, with the number of remaining bytes.
    Data(u64),
    /// Line end after the chunk data.
    LineEnd,
    /// Trailer, with the length of the current line so far, bytes.
    Trailer(u32),
    Done,
    Malformed,
}

impl Default for Chunks {
    fn default() -> Self {
        Self(ChunkState::SIZE)
    }
}

impl ChunkState {
    const SIZE: Self = Self::Size { size: 0, digits: false, ended: false };

    /// Returns the state after `byte`, which is not chunk data.
    fn next(self, byte: u8) -> Self {
        match (self, byte) {
            (Self::Size { digits: false, .. }, b'\n') => Self::Malformed,
            (Self::Size { size: 0, .. }, b'\n') => Self::Trailer(0),
            (Self::Size { size, .. }, b'\n') => Self::Data(size),
            (Self::Size { size, digits, ended: false }, _) => match char::from(byte).to_digit(16) {
                Some(digit) if size < 1 << 56 => {
                    Self::Size { size: size << 4 | u64::from(digit), digits: true, ended: false }
                }
                // Chunk extension or white space.
                None if digits => Self::Size { size, digits, ended: true },
                _ => Self::Malformed,
            },
            (Self::LineEnd, b'\n') => Self::SIZE,
            (Self::LineEnd, b'\r') | (Self::Size { .. }, _) => self,
            (Self::LineEnd, _) => Self::Malformed,
            (Self::Trailer(0), b'\n') => Self::Done,
            (Self::Trailer(_), b'\n') => Self::Trailer(0),
            (Self::Trailer(_), b'\r') => self,
            (Self::Trailer(len), _) if len < MAX_HEADER_LEN => Self::Trailer(len + 1),
            (Self::Trailer(_), _) => Self::Malformed,
            (Self::Data(_) | Self::Done | Self::Malformed, _) => self,
        }
    }
}

impl Chunks {
    /// Consumes bytes up to the end of the next chunk data or of the body. Returns the data, which may be empty, and the bytes that follow.
    pub fn read<'a>(&mut self, bytes: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        let mut at = 0;
        while at < bytes.len() {
            match self.0 {
                ChunkState::Data(remaining) => {
                    let end = bytes.len().min(at + usize::try_from(remaining).unwrap_or(usize::MAX - at));
                    let remaining = remaining - (end - at) as u64;
                    self.0 = if remaining > 0 { ChunkState::Data(remaining) } else { ChunkState::LineEnd };
                    return (&bytes[at..end], &bytes[end..]);
                }
                ChunkState::Done | ChunkState::Malformed => break,
                state => self.0 = state.next(bytes[at]),
            }
            at += 1;
        }
        (&[], &bytes[at..])
    }

    /// Returns true if the body has ended or is malformed.
    pub fn is_over(&self) -> bool {
        matches!(self.0, ChunkState::Done | ChunkState::Malformed)
    }

    /// Returns true if the whole body has arrived.
    pub fn is_complete(&self) -> bool {
        self.0 == ChunkState::Done
    }
}

/// Returns the value of the field `name`; `None` if the line has another field.
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
        assert_eq!(read(&endless), Progress::Complete { used: MAX_HEADER_LEN as usize + 1, body: None });
    }

    /// Reads a chunked body in pieces of `step` bytes. Returns the data, the bytes after the body, and true if the body was complete.
    fn unchunked(text: &[u8], step: usize) -> (Vec<u8>, Vec<u8>, bool) {
        let (mut chunks, mut data, mut remaining) = (Chunks::default(), Vec::new(), Vec::new());
        for mut piece in text.chunks(step) {
            while !piece.is_empty() && !chunks.is_over() {
                let (own, rest) = chunks.read(piece);
                data.extend_from_slice(own);
                piece = rest;
            }
            remaining.extend_from_slice(piece);
        }
        (data, remaining, chunks.is_complete())
    }

    #[test]
    fn chunks_are_put_together_in_pieces_of_any_size() {
        // RFC 9112, section 7.1: hexadecimal sizes, an extension and a trailer.
        let text =
            b"4\r\nWiki\r\n6;name=value\r\npedia \r\nE\r\nin \r\n\r\nchunks.\r\n0\r\nX: y\r\n\r\nHTTP/1.1";
        for step in 1..text.len() {
            let (data, remaining, complete) = unchunked(text, step);
            assert_eq!((data.as_slice(), complete), (&b"Wikipedia in \r\n\r\nchunks."[..], true), "{step}");
            assert_eq!(remaining, b"HTTP/1.1", "{step}");
        }
    }

    #[test]
    fn what_are_no_chunks_is_over_and_not_complete() {
        for text in [&b"\r\n"[..], b"x\r\n", b"4\r\nWikipedia", b"fffffffffffffffffffff\r\n"] {
            let (_, _, complete) = unchunked(text, 100);
            assert!(!complete, "{text:?}");
        }
    }

    #[test]
    fn a_response_says_whether_it_is_the_last_one() {
        let closes = |text: &str| {
            let mut head = Head::default();
            head.read(text.as_bytes());
            head.closes()
        };
        // RFC 9112, section 9.3.
        assert!(closes("HTTP/1.0 200 OK\r\n\r\n") && closes("HTTP/1.1 200 OK\r\nConnection: Close\r\n\r\n"));
        assert!(
            !closes("HTTP/1.1 200 OK\r\n\r\n")
                && !closes("HTTP/1.0 200 OK\r\nconnection: keep-alive\r\n\r\n")
        );
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

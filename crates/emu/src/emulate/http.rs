//! As much of HTTP as clients and servers in the emulator need (RFC 9112).

use catnip_wire::http::{Head, Progress};

/// The longest header of a request that is read.
const LONGEST_HEAD: usize = 64 << 10;

/// A response as it comes in.
#[derive(Clone, Debug)]
pub struct Response {
    state: State,
    /// The status code, or 0 before the header is complete.
    pub status: u16,
    /// Bytes of the body so far.
    pub body_bytes: u64,
    /// FNV-1a of the body so far.
    pub digest: u64,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Head(Head),
    /// Bytes of the body still to come, or until the other side closes.
    Body(Option<u64>),
    Complete,
    /// Not HTTP, or nothing that is understood here.
    Broken,
}

impl Default for Response {
    fn default() -> Self {
        Self { state: State::Head(Head::default()), status: 0, body_bytes: 0, digest: 0xcbf2_9ce4_8422_2325 }
    }
}

impl Response {
    /// Takes what has come and gives back what belongs to the next response.
    pub fn hear<'a>(&mut self, mut bytes: &'a [u8]) -> &'a [u8] {
        while !bytes.is_empty() {
            bytes = match &mut self.state {
                State::Head(head) => match head.read(bytes) {
                    Progress::More => &[],
                    Progress::Complete { used, body } => {
                        let clear = head.is_clear();
                        self.status = if clear { head.status() } else { 0 };
                        self.state = match body {
                            _ if !clear => State::Broken,
                            Some(0) => State::Complete,
                            length => State::Body(length),
                        };
                        &bytes[used..]
                    }
                },
                &mut State::Body(left) => {
                    let len = left.map_or(bytes.len(), |left| bytes.len().min(left as usize));
                    let (body, rest) = bytes.split_at(len);
                    self.body_bytes += len as u64;
                    for &byte in body {
                        self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
                    }
                    self.state = match left.map(|left| left - len as u64) {
                        Some(0) => State::Complete,
                        left => State::Body(left),
                    };
                    rest
                }
                State::Complete | State::Broken => return bytes,
            };
        }
        bytes
    }

    /// The other side has closed: that ends a body without a length.
    pub fn end(&mut self) {
        self.state = match self.state {
            State::Body(None) | State::Complete => State::Complete,
            _ => State::Broken,
        };
    }

    /// It is all there, or it never will be.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Complete | State::Broken)
    }

    /// It is all there.
    pub fn is_complete(&self) -> bool {
        matches!(self.state, State::Complete)
    }
}

/// Bytes of a header, up to and including its empty line.
fn head_len(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|end| end + 4)
}

/// A request for a path.
pub fn request(path: &str, host: &str, version: Version) -> Vec<u8> {
    let (version, connection) = match version {
        Version::V10 => ("1.0", "close"),
        Version::V11 => ("1.1", "keep-alive"),
    };
    format!(
        "GET {path} HTTP/{version}\r\nHost: {host}\r\nUser-Agent: catnip-emu\r\nConnection: {connection}\r\n\r\n"
    )
    .into_bytes()
}

/// Which HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// A connection per object.
    V10,
    /// Many objects over a connection.
    V11,
}

/// The path of a request, once its header is all there; `Err` if it is none.
pub fn read_request(bytes: &[u8]) -> Option<Result<&str, ()>> {
    let Some(len) = head_len(bytes) else {
        return (bytes.len() > LONGEST_HEAD).then_some(Err(()));
    };
    let line =
        bytes[..len].split(|&byte| byte == b'\r').next().and_then(|line| std::str::from_utf8(line).ok());
    let mut words = line.unwrap_or("").split(' ');
    Some(match (words.next(), words.next()) {
        (Some("GET"), Some(path)) if path.starts_with('/') => Ok(path),
        _ => Err(()),
    })
}

/// The header of a response with a body of this length, after which the server closes.
pub fn response_head(status: &str, bytes: u64) -> Vec<u8> {
    format!(
        "HTTP/1.0 {status}\r\nServer: catnip-emu\r\nContent-Type: application/octet-stream\r\n\
         Content-Length: {bytes}\r\nConnection: close\r\n\r\n"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(stream: &[u8], step: usize) -> Response {
        let mut response = Response::default();
        stream.chunks(step).for_each(|chunk| {
            response.hear(chunk);
        });
        response
    }

    #[test]
    fn a_response_is_read_in_pieces_of_any_size() {
        let stream = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-LENGTH: 5\r\n\r\nhelloREST";
        for step in 1..stream.len() {
            let response = read(stream, step);
            assert!(response.is_complete(), "{step}");
            assert_eq!((response.status, response.body_bytes), (200, 5));
            assert_eq!(response.digest, read(b"HTTP/1.0 200 OK\r\n\r\nhello", 7).digest);
        }
        let mut response = Response::default();
        assert_eq!(response.hear(stream), b"REST");
    }

    #[test]
    fn without_a_length_the_end_of_the_connection_ends_the_body() {
        let mut response = read(b"HTTP/1.0 200 OK\r\n\r\nsome text", 4);
        assert!(!response.is_over());
        response.end();
        assert!(response.is_complete());
        assert_eq!(response.body_bytes, 9);
        let mut cut = read(b"HTTP/1.0 200 OK\r\nContent-Length: 10\r\n\r\nsome text", 4);
        cut.end();
        assert!(cut.is_over() && !cut.is_complete());
    }

    #[test]
    fn what_cannot_be_read_is_over() {
        for stream in [
            &b"SSH-2.0-OpenSSH_9\r\n\r\n"[..],
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
            &[b'x'; LONGEST_HEAD + 10],
        ] {
            let response = read(stream, 1000);
            assert!(response.is_over() && !response.is_complete());
        }
        assert!(read(b"HTTP/1.0 304 Not Modified\r\nContent-Length: 7\r\n\r\n", 9).is_complete());
    }

    #[test]
    fn a_request_names_a_path() {
        let bytes = request("/3/0", "server", Version::V10);
        assert_eq!(read_request(&bytes), Some(Ok("/3/0")));
        assert_eq!(read_request(&bytes[..20]), None);
        assert_eq!(read_request(b"POST / HTTP/1.0\r\n\r\n"), Some(Err(())));
        let response = read(&[response_head("200 OK", 7), b"seventh".into()].concat(), 10);
        assert!(response.is_complete());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..20)) {
            let mut response = Response::default();
            for chunk in &chunks {
                response.hear(chunk);
                let _ = read_request(chunk);
            }
            response.end();
            prop_assert!(response.is_over());
        }
    }
}

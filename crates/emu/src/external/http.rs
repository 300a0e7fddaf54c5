//! Subset of HTTP/1 that clients and servers in the emulator need (RFC 9112).

use catnip_wire::http::{Chunks, Head, Progress};

/// Largest length of a request header that is parsed, bytes.
const MAX_HEAD: usize = 64 << 10;
/// Largest number of buffered bytes of requests.
const MAX_BUFFERED: usize = 1 << 17;

/// Incremental parser of an HTTP response.
#[derive(Clone, Debug)]
pub struct Response {
    state: State,
    /// Status code, or 0 before the header is complete.
    pub status: u16,
    /// Number of bytes of the body so far.
    pub body_bytes: u64,
    /// FNV-1a hash of the body so far.
    pub digest: u64,
    /// True if the server closes the connection after the response.
    pub closes: bool,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Head(Head),
    /// State within a body, with the number of bytes still to come; `None` if the close of the connection ends the body.
    Body(Option<u64>),
    Chunks(Chunks),
    Complete,
    /// State after an invalid or unsupported part of the response.
    Broken,
}

impl Default for Response {
    fn default() -> Self {
        Self {
            state: State::Head(Head::default()),
            status: 0,
            body_bytes: 0,
            digest: 0xcbf2_9ce4_8422_2325,
            closes: false,
        }
    }
}

impl Response {
    /// Parses the next bytes of the connection, and returns the bytes that follow the response.
    pub fn receive<'a>(&mut self, mut bytes: &'a [u8]) -> &'a [u8] {
        while !bytes.is_empty() {
            bytes = match &mut self.state {
                State::Head(head) => match head.read(bytes) {
                    Progress::More => &[],
                    Progress::Complete { used, body } => {
                        let clear = head.is_clear();
                        self.status = if clear { head.status() } else { 0 };
                        self.closes = head.closes();
                        self.state = match body {
                            _ if head.is_chunked() => {
                                self.status = head.status();
                                State::Chunks(Chunks::default())
                            }
                            _ if !clear => State::Broken,
                            Some(0) => State::Complete,
                            length => State::Body(length),
                        };
                        &bytes[used..]
                    }
                },
                &mut State::Body(remaining) => {
                    let len = remaining.map_or(bytes.len(), |remaining| bytes.len().min(remaining as usize));
                    let (body, rest) = bytes.split_at(len);
                    self.body_bytes += len as u64;
                    self.digest = fnv1a(self.digest, body);
                    self.state = match remaining.map(|remaining| remaining - len as u64) {
                        Some(0) => State::Complete,
                        remaining => State::Body(remaining),
                    };
                    rest
                }
                State::Chunks(chunks) => {
                    let (body, rest) = chunks.read(bytes);
                    self.body_bytes += body.len() as u64;
                    self.digest = fnv1a(self.digest, body);
                    if chunks.is_over() {
                        self.state = if chunks.is_complete() { State::Complete } else { State::Broken };
                    }
                    rest
                }
                State::Complete | State::Broken => return bytes,
            };
        }
        bytes
    }

    /// Records that the server has closed the connection, which ends a body without a length.
    pub fn end(&mut self) {
        self.state = match self.state {
            State::Body(None) | State::Complete => State::Complete,
            _ => State::Broken,
        };
    }

    /// Returns true if the response is complete, or can no longer become so.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Complete | State::Broken)
    }

    /// Returns true if the response is complete.
    pub fn is_complete(&self) -> bool {
        matches!(self.state, State::Complete)
    }
}

/// Continues an FNV-1a hash with more bytes.
fn fnv1a(before: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(before, |digest, &byte| (digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Returns the length of a header, including its empty line. RFC 9112, section 2.2: "a recipient MAY recognize a single LF as a line
/// terminator".
fn head_len(bytes: &[u8]) -> Option<usize> {
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    ends.map(|(at, _)| at + 1).find_map(|at| match &bytes[at..] {
        [b'\n', ..] => Some(at + 1),
        [b'\r', b'\n', ..] => Some(at + 2),
        _ => None,
    })
}

/// Returns a request for a path, over a connection that stays open after the response if `persistent`.
pub fn request(path: &str, host: &str, persistent: bool) -> Vec<u8> {
    let (version, connection) = if persistent { ("1.1", "keep-alive") } else { ("1.0", "close") };
    format!(
        "GET {path} HTTP/{version}\r\nHost: {host}\r\nUser-Agent: catnip-emu\r\nConnection: {connection}\r\n\r\n"
    )
    .into_bytes()
}

/// Incremental parser of the consecutive HTTP requests of a connection.
#[derive(Clone, Debug, Default)]
pub struct Requests(Vec<u8>);

/// HTTP request that was parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Requested path; `None` for a request that is not understood.
    pub path: Option<String>,
    /// True for a HEAD request, which the header of the response answers.
    pub is_head: bool,
    /// True if the client expects the connection to stay open (RFC 9112, section 9.3).
    pub persistent: bool,
    /// Length of the request, bytes.
    pub bytes: u64,
}

impl Requests {
    /// Buffers the next bytes of the connection. Bytes beyond the buffer's free space are lost.
    pub fn receive(&mut self, bytes: &[u8]) {
        let free_space = MAX_BUFFERED - self.0.len().min(MAX_BUFFERED);
        self.0.extend_from_slice(&bytes[..bytes.len().min(free_space)]);
    }

    /// Returns the next request once its header is complete. A request that is not understood has no path and is not persistent.
    pub fn read(&mut self) -> Option<Request> {
        let Some(len) = head_len(&self.0) else {
            let is_too_long = self.0.len() > MAX_HEAD;
            let invalid =
                Request { path: None, is_head: false, persistent: false, bytes: self.0.len() as u64 };
            return is_too_long.then(|| {
                self.0.clear();
                invalid
            });
        };
        let head = self.0.drain(..len).collect::<Vec<u8>>();
        let mut lines = head.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
        let line = lines.next().and_then(|line| std::str::from_utf8(line).ok()).unwrap_or("");
        let mut tokens = line.split(' ');
        let method = tokens.next();
        let path =
            tokens.next().filter(|path| path.starts_with('/') && matches!(method, Some("GET" | "HEAD")));
        let path = path.map(str::to_string);
        let option = lines.find_map(|line| {
            let (name, value) = line.split_at_checked(b"connection:".len())?;
            name.eq_ignore_ascii_case(b"connection:").then(|| value.trim_ascii().to_ascii_lowercase())
        });
        let persistent = match option.as_deref() {
            Some(b"close") => false,
            Some(b"keep-alive") => true,
            _ => tokens.next() == Some("HTTP/1.1"),
        };
        let is_head = method == Some("HEAD");
        Some(Request { persistent: persistent && path.is_some(), path, is_head, bytes: len as u64 })
    }
}

/// Returns the media type of a document with this path.
pub fn media_type(path: &str) -> &'static str {
    let file = path.split(['?', '#']).next().unwrap_or("");
    match file.rsplit('/').next().and_then(|name| name.rsplit_once('.')).map_or("", |(_, ending)| ending) {
        "html" | "htm" => "text/html",
        "css" => "text/css",
        "js" => "text/javascript",
        "json" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "woff2" => "font/woff2",
        "txt" => "text/plain",
        _ => OCTET_STREAM,
    }
}

/// Media type of a document of unknown type.
pub const OCTET_STREAM: &str = "application/octet-stream";

/// Returns the beginning of a page that embeds images with these paths. It ends with the start of a comment, so padding may follow.
pub fn page(images: &[String]) -> Vec<u8> {
    let images: String = images.iter().map(|path| format!("<img src=\"{path}\" alt=\"\">\n")).collect();
    format!("<!DOCTYPE html>\n<title>A page</title>\n{images}<!-- ").into_bytes()
}

/// Beginning of an image of a page: a complete GIF of one transparent pixel. Padding follows it up to the size of the document. A browser
/// loads this padding, too, but would stop loading a file that is no image.
pub const IMAGE: [u8; 43] = *b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff!\xf9\x04\x01\0\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;";

/// Returns the header of a response with a body of this type and length, over a connection that stays open after it if `persistent`.
pub fn response_head(status: &str, media_type: &str, bytes: u64, persistent: bool) -> Vec<u8> {
    let (version, connection) = if persistent { ("1.1", "keep-alive") } else { ("1.0", "close") };
    format!(
        "HTTP/{version} {status}\r\nServer: catnip-emu\r\nContent-Type: {media_type}\r\n\
         Content-Length: {bytes}\r\nConnection: {connection}\r\n\r\n"
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
            response.receive(chunk);
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
        assert_eq!(response.receive(stream), b"REST");
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
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
            &[b'x'; MAX_HEAD + 10],
        ] {
            let response = read(stream, 1000);
            assert!(response.is_over() && !response.is_complete());
        }
        assert!(read(b"HTTP/1.0 304 Not Modified\r\nContent-Length: 7\r\n\r\n", 9).is_complete());
    }

    fn requests(bytes: &[u8], step: usize) -> Vec<Request> {
        let mut requests = Requests::default();
        let pieces = bytes.chunks(step).flat_map(|piece| {
            requests.receive(piece);
            std::iter::from_fn(|| requests.read()).collect::<Vec<_>>()
        });
        pieces.collect()
    }

    #[test]
    fn a_page_names_its_images_and_what_follows_is_no_text() {
        let text = String::from_utf8(page(&["/1/1".into(), "/1/2".into()])).unwrap();
        assert_eq!(text.matches("<img src=").count(), 2);
        assert!(text.ends_with("<!-- "), "{text}");
        for (path, media) in [
            ("/a.css?v=1.png", "text/css"),
            ("/1/2", "application/octet-stream"),
            ("/b.JPG/c.html", "text/html"),
        ] {
            assert_eq!(media_type(path), media);
        }
    }

    #[test]
    fn requests_name_paths_one_behind_the_other() {
        let two = [request("/3/0", "server", true), request("/3/1", "server", false)];
        let expected = |path: &str, persistent, bytes: &[u8]| Request {
            is_head: false,
            path: Some(path.into()),
            persistent,
            bytes: bytes.len() as u64,
        };
        for step in [1, 7, 1000] {
            let read = requests(&two.concat(), step);
            assert_eq!(read, [expected("/3/0", true, &two[0]), expected("/3/1", false, &two[1])]);
        }
        assert_eq!(requests(&two[0][..20], 5), []);
        let [lone_feeds] = &requests(b"HEAD /3/0?a=b HTTP/1.1\nHost: server\n\n", 3)[..] else {
            panic!("one")
        };
        assert_eq!((lone_feeds.is_head, lone_feeds.path.as_deref()), (true, Some("/3/0?a=b")));
        assert_eq!(requests(b"POST / HTTP/1.0\r\n\r\n", 100)[0].path, None);
        assert_eq!(requests(&[b'x'; MAX_HEAD + 10], 1000)[0].path, None, "it has no end");
        let response =
            read(&[response_head("200 OK", "text/plain", 7, false), b"seventh".into()].concat(), 10);
        assert!(response.is_complete());
    }

    #[test]
    fn a_connection_persists_as_both_sides_say() {
        // RFC 9112, section 9.3: HTTP/1.1 persists unless the request has the close option, HTTP/1.0 only with the keep-alive option.
        let persists = |text: &str| requests(format!("GET / {text}\r\n\r\n").as_bytes(), 100)[0].persistent;
        assert!(persists("HTTP/1.1") && persists("HTTP/1.0\r\nConnection: Keep-Alive"));
        assert!(!persists("HTTP/1.0") && !persists("HTTP/1.1\r\nHost: x\r\nCONNECTION:close"));
        let closes = |persistent| read(&response_head("200 OK", "text/plain", 0, persistent), 1000).closes;
        assert!(closes(false) && !closes(true));
    }

    #[test]
    fn a_body_in_chunks_ends_with_the_last_one() {
        let text =
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\nREST";
        for step in 1..text.len() {
            let response = read(text, step);
            assert_eq!(
                (response.is_complete(), response.status, response.body_bytes),
                (true, 200, 5),
                "{step}"
            );
            assert_eq!(response.digest, read(b"HTTP/1.0 200 OK\r\n\r\nabcde", 9).digest);
        }
        assert_eq!(Response::default().receive(text), b"REST");
        let mut cut = read(&text[..text.len() - 10], 9);
        cut.end();
        assert!(cut.is_over() && !cut.is_complete());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..20)) {
            let mut response = Response::default();
            for chunk in &chunks {
                response.receive(chunk);
                let mut requests = Requests::default();
                requests.receive(chunk);
                while requests.read().is_some() {}
            }
            response.end();
            prop_assert!(response.is_over());
        }
    }
}

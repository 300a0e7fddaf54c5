//! Frames of HTTP/2 (RFC 9113): their sizes, and the order in which a server writes them (RFC 9218).

use super::{FetchPriority, tls};
use std::collections::VecDeque;

/// Writing of the responses of a connection by a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// Payload of a DATA frame, bytes; at least one.
    pub frame_bytes: u64,
    /// Number of unsent bytes below which the next frame is written; at least one.
    pub unsent_bytes: u64,
}

/// Size of the header of a frame (RFC 9113, section 4.1).
pub const FRAME_HEADER_BYTES: u64 = 9;
/// Size of what a client sends before its first request: the preface, SETTINGS with four values, and WINDOW_UPDATE, as Chromium 156 and
/// Firefox 153 send them.
pub const CLIENT_START_BYTES: u64 = 24 + (FRAME_HEADER_BYTES + 24) + (FRAME_HEADER_BYTES + 4);
/// Size of what a server sends before its first response: SETTINGS with three values, WINDOW_UPDATE, and the acknowledgement of the client's
/// SETTINGS, as nginx 1.22 sends them.
pub const SERVER_START_BYTES: u64 = (FRAME_HEADER_BYTES + 18) + (FRAME_HEADER_BYTES + 4) + FRAME_HEADER_BYTES;
/// Largest part of a response that counts as its header, which has a frame of its own.
const HEADER_BYTES: u64 = 200;

/// Responses of a connection that are not written completely, in the order of their turns.
#[derive(Debug, Default)]
pub(super) struct Streams(VecDeque<Stream>);

#[derive(Debug)]
struct Stream {
    tag: u64,
    priority: FetchPriority,
    /// Number of unwritten bytes.
    remaining: u64,
    /// True until the frame of the header is written.
    is_new: bool,
}

impl Streams {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a response of at least one byte.
    pub(super) fn push(&mut self, tag: u64, bytes: u64, priority: FetchPriority) {
        self.0.push_back(Stream { tag, priority, remaining: bytes, is_new: true });
    }

    /// Returns the tag of the next response to write, the bytes of it that are written, and true if they are its first: a frame of the first
    /// response of the smallest urgency. An incremental response then goes behind the others; another one keeps its turn until its end (RFC 9218, section 10). With
    /// TLS, a header shares a record with the first frame of data, as in nginx.
    pub(super) fn next(&mut self, framing: Framing, has_tls: bool) -> Option<(u64, u64, bool)> {
        let (turn, _) = self.0.iter().enumerate().min_by_key(|(_, stream)| stream.priority.urgency)?;
        let stream = &mut self.0[turn];
        let is_first = std::mem::take(&mut stream.is_new);
        let limit = if is_first && !has_tls { HEADER_BYTES } else { framing.frame_bytes };
        let bytes = stream.remaining.min(limit.min(framing.frame_bytes));
        stream.remaining -= bytes;
        let (tag, is_over, is_incremental) = (stream.tag, stream.remaining == 0, stream.priority.incremental);
        if let Some(stream) = (is_over || is_incremental).then(|| self.0.remove(turn)).flatten()
            && !is_over
        {
            self.0.push_back(stream);
        }
        Some((tag, bytes, is_first))
    }
}

/// Returns the size on the connection of what is written at once of a response or a request, bytes: with the headers of its frames, and
/// records of TLS.
pub(super) fn written(payload: u64, is_first: bool, has_tls: bool) -> u64 {
    let has_data = is_first && has_tls && payload > HEADER_BYTES;
    tls::wrapped(payload + FRAME_HEADER_BYTES * (1 + u64::from(has_data)), has_tls)
}

/// Returns the payload of what was written at once: the inverse of [`written`].
pub(super) fn payload_of(written: u64, is_first: bool, has_tls: bool) -> u64 {
    let frames = tls::unwrapped(written, has_tls);
    let has_data = is_first && has_tls && frames > HEADER_BYTES + FRAME_HEADER_BYTES;
    frames.saturating_sub(FRAME_HEADER_BYTES * (1 + u64::from(has_data)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMING: Framing = Framing { frame_bytes: 1000, unsent_bytes: 1000 };

    /// Returns the tags and payloads of all frames of these responses: urgency, turns, and bytes of each.
    fn writes(responses: &[(u8, bool, u64)]) -> Vec<(u64, u64)> {
        let mut streams = Streams::default();
        for (&(urgency, incremental, bytes), tag) in responses.iter().zip(0..) {
            streams.push(tag, bytes, FetchPriority { urgency, incremental });
        }
        std::iter::from_fn(|| streams.next(FRAMING, false)).map(|(tag, bytes, _)| (tag, bytes)).collect()
    }

    #[test]
    fn a_response_of_smaller_urgency_comes_first_and_those_that_are_not_incremental_follow_each_other() {
        let frames = writes(&[(3, false, 1500), (1, false, 300), (3, false, 250)]);
        assert_eq!(frames, [(1, 200), (1, 100), (0, 200), (0, 1000), (0, 300), (2, 200), (2, 50)]);
    }

    #[test]
    fn incremental_responses_take_turns() {
        let frames = writes(&[(3, true, 1500), (3, true, 1300), (3, true, 10)]);
        assert_eq!(frames, [(0, 200), (1, 200), (2, 10), (0, 1000), (1, 1000), (0, 300), (1, 100)]);
    }

    #[test]
    fn a_response_that_is_not_incremental_keeps_its_turn_among_those_that_are() {
        let frames = writes(&[(3, true, 300), (3, false, 300), (3, true, 10)]);
        assert_eq!(frames, [(0, 200), (1, 200), (1, 100), (2, 10), (0, 100)]);
    }

    #[test]
    fn the_payload_of_what_is_written_follows_from_its_size() {
        for payload in (1..300).chain(16_300..16_500).chain(32_700..32_800) {
            for (is_first, has_tls) in [(false, false), (true, false), (false, true), (true, true)] {
                assert_eq!(payload_of(written(payload, is_first, has_tls), is_first, has_tls), payload);
            }
        }
    }

    #[test]
    fn with_tls_a_header_shares_a_record_with_the_first_data() {
        let mut streams = Streams::default();
        streams.push(0, 1500, FetchPriority::DEFAULT);
        let writes: Vec<_> = std::iter::from_fn(|| streams.next(FRAMING, true)).collect();
        assert_eq!(writes, [(0, 1000, true), (0, 500, false)]);
        // Two frames and a record of TLS; then one of each.
        assert_eq!([written(1000, true, true), written(500, false, true)], [1000 + 18 + 22, 500 + 9 + 22]);
    }
}

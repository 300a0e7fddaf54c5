//! HTTP requests of simulated clients to external servers.

use super::http::{self, Response};
use catnip_sim::Message;
use std::collections::VecDeque;

/// HTTP requests of a simulated client to an external server over one connection, and the responses to them.
#[derive(Debug)]
pub(crate) struct Fetch {
    host: String,
    persistent: bool,
    /// Requests without a complete response, in the order in which responses arrive.
    pending: VecDeque<Message>,
    response: Response,
    /// Responses that have ended, but were not returned by `next_response` yet.
    completed: VecDeque<CompletedResponse>,
    /// Number of bytes of the current response's body at which the application is notified; `None` if no notification is requested.
    notify_at: Option<u64>,
    /// Number of responses that have ended, and number of bytes of their bodies.
    response_count: u32,
    total_bytes: u64,
}

/// Response that has ended, complete or not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CompletedResponse {
    /// Request that the response answers.
    pub(crate) request: Message,
    pub(crate) status: u16,
    pub(crate) body_bytes: u64,
    pub(crate) digest: u64,
    /// True if the response is complete and its status is 200.
    pub(crate) complete: bool,
}

impl Fetch {
    /// Creates the state of a connection to the server `host`. The connection stays open after a response if `persistent` is true.
    pub(crate) fn new(host: String, persistent: bool) -> Self {
        Self {
            host,
            persistent,
            pending: VecDeque::new(),
            response: Response::default(),
            completed: VecDeque::new(),
            notify_at: None,
            response_count: 0,
            total_bytes: 0,
        }
    }

    /// Records a request, and returns the bytes of an HTTP request for `path` to send.
    pub(crate) fn add_request(&mut self, request: Message, path: &str) -> Vec<u8> {
        self.pending.push_back(request);
        http::request(path, &self.host, self.persistent)
    }

    pub(crate) fn notify(&mut self, bytes: u64) {
        self.notify_at = Some(bytes);
    }

    /// Processes bytes from the server. Bytes after the last response are ignored.
    pub(crate) fn receive(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.pending.is_empty() {
            bytes = self.response.receive(bytes);
            if self.response.is_over() {
                self.finish();
            }
        }
    }

    /// Records that the server sends no more data. Returns false if requests remain that the server has not begun to answer and that may be
    /// repeated over another connection. If the server has not answered any request, the first one counts as answered with an incomplete
    /// response, since another connection would not do better.
    pub(crate) fn on_close(&mut self) -> bool {
        let has_begun = self.response.status > 0 || self.response.body_bytes > 0;
        if !self.pending.is_empty() && (has_begun || self.response_count == 0) {
            self.response.end();
            self.finish();
        }
        self.pending.is_empty()
    }

    fn finish(&mut self) {
        let response = std::mem::take(&mut self.response);
        self.notify_at = None;
        let Some(request) = self.pending.pop_front() else { return };
        let Response { status, body_bytes, digest, .. } = response;
        let complete = response.is_complete() && status == 200;
        self.response_count += 1;
        self.total_bytes += body_bytes;
        self.completed.push_back(CompletedResponse { request, status, body_bytes, digest, complete });
    }

    /// Returns the next response that has ended.
    pub(crate) fn next_response(&mut self) -> Option<CompletedResponse> {
        self.completed.pop_front()
    }

    /// Returns the tag of the request whose response has reached the size of the requested notification. Each requested notification is
    /// returned once.
    pub(crate) fn progress(&mut self) -> Option<u64> {
        let request = self.pending.front()?;
        let reached = self.notify_at.is_some_and(|at| at <= self.response.body_bytes);
        reached.then(|| {
            self.notify_at = None;
            request.tag
        })
    }

    /// Returns the number of body bytes that have arrived of the current response, and of all responses.
    pub(crate) fn arrived(&self) -> [u64; 2] {
        let current = self.response.body_bytes;
        [current, self.total_bytes + current]
    }

    /// Discards the unanswered requests and returns their number.
    pub(crate) fn abandon(&mut self) -> usize {
        self.pending.drain(..).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fetch(requests: u64) -> Fetch {
        let mut fetch = Fetch::new("server".into(), true);
        for tag in 0..requests {
            fetch.add_request(Message { tag, ..Message::default() }, "/");
        }
        fetch
    }

    const FIVE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

    fn tags(fetch: &mut Fetch) -> Vec<(u64, bool)> {
        std::iter::from_fn(|| fetch.next_response())
            .map(|response| (response.request.tag, response.complete))
            .collect()
    }

    #[test]
    fn answers_belong_to_requests_in_their_order() {
        let mut fetch = fetch(3);
        let missing = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
        [FIVE, missing, FIVE].concat().chunks(11).for_each(|bytes| fetch.receive(bytes));
        assert_eq!(tags(&mut fetch), [(0, true), (1, false), (2, true)]);
        fetch.receive(FIVE);
        assert_eq!(tags(&mut fetch), [], "a response without a request");
    }

    #[test]
    fn progress_is_told_once_per_wish() {
        let mut fetch = fetch(2);
        fetch.notify(3);
        fetch.receive(&FIVE[..FIVE.len() - 3]);
        assert_eq!(fetch.progress(), None);
        fetch.receive(&FIVE[FIVE.len() - 3..FIVE.len() - 2]);
        assert_eq!((fetch.progress(), fetch.progress()), (Some(0), None));
    }

    #[test]
    fn a_server_that_closes_has_answered_in_part_or_leaves_the_rest_to_another_connection() {
        let mut cut = fetch(1);
        cut.receive(&FIVE[..FIVE.len() - 1]);
        assert!(cut.on_close());
        assert_eq!(tags(&mut cut), [(0, false)]);
        let mut mute = fetch(2);
        assert!(!mute.on_close());
        assert_eq!(tags(&mut mute), [(0, false)], "it has never said anything");
        let mut limited = fetch(3);
        limited.receive(FIVE);
        assert!(!limited.on_close());
        assert_eq!((tags(&mut limited), limited.abandon()), (vec![(0, true)], 2));
    }
}

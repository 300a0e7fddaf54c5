use super::http::{self, Response, Version};
use catnip_wire::{Tcp, TcpFlags, unwrap_near};
use std::collections::VecDeque;

/// What a simulated client wants from a real server, over one connection.
#[derive(Debug)]
pub(crate) struct Fetch {
    response: Response,
    version: Version,
    host: String,
    /// Paths still to be asked for.
    paths: VecDeque<String>,
    /// All bodies so far.
    pub(crate) body_bytes: u64,
    /// The status of the first object that did not come, or of the last one.
    pub(crate) status: u16,
    pub(crate) digest: u64,
    /// Something was wrong with a response, or it ended early.
    pub(crate) broken: bool,
    pub(crate) server: Observed,
}

/// What comes next for a [`Fetch`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// More bytes are to come.
    Wait,
    /// Another request goes out.
    Ask(Vec<u8>),
    /// There is nothing more to come.
    Over,
}

impl Fetch {
    pub(crate) fn new(paths: impl IntoIterator<Item = String>, host: String, version: Version) -> Self {
        Self {
            response: Response::default(),
            version,
            host,
            paths: paths.into_iter().collect(),
            body_bytes: 0,
            status: 0,
            digest: 0,
            broken: false,
            server: Observed::default(),
        }
    }

    /// The next request, if there is one.
    pub(crate) fn ask(&mut self) -> Option<Vec<u8>> {
        let path = self.paths.pop_front()?;
        Some(http::request(&path, &self.host, self.version))
    }

    pub(crate) fn hear(&mut self, bytes: &[u8]) {
        let before = self.response.body_bytes;
        // Nothing was asked for beyond this response, so that what follows it is noise.
        self.response.hear(bytes);
        self.body_bytes += self.response.body_bytes - before;
    }

    /// Looks at what has come; `closed` if the server will send no more.
    pub(crate) fn next(&mut self, closed: bool) -> Next {
        if closed && !self.response.is_over() {
            self.response.end();
        }
        if !self.response.is_over() {
            return Next::Wait;
        }
        let failed = !self.response.is_complete() || self.response.status != 200;
        if !self.broken {
            self.status = self.response.status;
            self.digest = self.response.digest;
        }
        self.broken |= failed;
        if !self.response.is_complete() || (closed && !self.paths.is_empty()) {
            self.broken = true;
            return Next::Over;
        }
        match self.ask() {
            Some(request) => {
                self.response = Response::default();
                Next::Ask(request)
            }
            None => Next::Over,
        }
    }
}

/// What can be seen of a real server's side of a connection where its packets enter the network.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Observed {
    initial: Option<u32>,
    /// End of what it has sent, counted from the first byte.
    end: u64,
    /// Data segments.
    pub(crate) sent: u32,
    pub(crate) retransmitted: u32,
}

impl Observed {
    /// A packet of the server.
    pub(crate) fn see(&mut self, tcp: &Tcp<'_>) {
        if tcp.flags().contains(TcpFlags::SYN) {
            self.initial = Some(tcp.sequence());
        }
        let len = tcp.payload().len() as u64;
        let Some(initial) = self.initial.filter(|_| len > 0) else { return };
        let number = tcp.sequence().wrapping_sub(initial).wrapping_sub(1);
        let Some(offset) = unwrap_near(self.end, number) else { return };
        self.sent += 1;
        self.retransmitted += u32::from(offset < self.end);
        self.end = self.end.max(offset + len);
    }
}

use super::http::{self, Response, Version};
use catnip_base::{FlowContext, Time};
use catnip_net::mark::{AnyMarker, PacketMarker, Sending};
use catnip_net::{Packet, Priority};
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
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    initial: Option<u32>,
    /// End of what it has sent, counted from the first byte.
    end: u64,
    /// What our ACKs that have reached it say.
    acknowledged: u64,
    /// Where the current response begins, and its length with its header, if it says.
    response: (u64, Option<u64>),
    /// Data segments.
    pub(crate) sent: u32,
    pub(crate) retransmitted: u32,
}

impl Observed {
    /// A packet of the server: where its data begins, and whether it was sent before.
    pub(crate) fn see(&mut self, tcp: &Tcp<'_>) -> Option<(u64, bool)> {
        if tcp.flags().contains(TcpFlags::SYN) {
            self.initial = Some(tcp.sequence());
            return None;
        }
        let offset = unwrap_near(self.end, tcp.sequence().wrapping_sub(self.initial?).wrapping_sub(1))?;
        let len = tcp.payload().len() as u64;
        if len == 0 && !tcp.flags().contains(TcpFlags::FIN) {
            return None;
        }
        let again = offset < self.end;
        if len > 0 {
            self.sent += 1;
            self.retransmitted += u32::from(again);
            let (start, total) = self.response;
            let start = match total {
                Some(total) if offset >= start + total => start + total,
                _ => start,
            };
            if start != self.response.0 || offset == start {
                self.response = (start, http::announced(tcp.payload()).map(|(_, total)| total));
            }
        }
        self.end = self.end.max(offset + len);
        Some((offset, again))
    }

    /// An ACK of ours has reached the server.
    pub(crate) fn acknowledge(&mut self, tcp: &Tcp<'_>) {
        let Some(initial) = self.initial.filter(|_| tcp.flags().contains(TcpFlags::ACK)) else { return };
        let number = tcp.acknowledgement().wrapping_sub(initial).wrapping_sub(1);
        if let Some(ack) = unwrap_near(self.acknowledged, number).filter(|ack| *ack <= self.end) {
            self.acknowledged = self.acknowledged.max(ack);
        }
    }

    /// Marks a packet of the server as its own marker would, as far as it can be known from outside: what is in flight
    /// stands for the window, and a SYN is sent while that is small.
    pub(crate) fn mark(
        &mut self,
        now: Time,
        tcp: &Tcp<'_>,
        segment_bytes: u32,
        marker: &mut AnyMarker,
        packet: &mut Packet,
    ) {
        let Some((offset, again)) = self.see(tcp) else {
            if tcp.flags().contains(TcpFlags::SYN) && !matches!(marker, AnyMarker::None) {
                packet.priority = Priority::High;
            }
            return;
        };
        let (start, total) = self.response;
        let sending = Sending {
            context: total.map(FlowContext::document),
            offset: offset.saturating_sub(start),
            segment: segment_bytes,
            window: self.end - self.acknowledged.min(self.end),
            slow_start: false,
            retransmission: again,
            acknowledges: None,
        };
        marker.mark(now, Some(&sending), packet);
    }
}

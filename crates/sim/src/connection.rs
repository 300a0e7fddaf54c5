use catnip_base::{Span, Time};
use catnip_net::mark::AnyMarker;
use catnip_net::{NodeId, Route};

/// Parameters that connections share, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TcpId(pub u32);

/// A document that a client fetches from a server over a connection of its own.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// Where the data comes from.
    pub server: NodeId,
    /// Where it goes.
    pub client: NodeId,
    /// Bytes that the client sends before the server answers; 0: the server knows what to send.
    pub request_bytes: u64,
    /// Bytes of the document.
    pub bytes: u64,
    /// The server tells TCP how long the document is.
    pub tells_size: bool,
    /// Who sends the SYN, if there is a handshake.
    pub opener: Opener,
    /// Parameters of both ends.
    pub tcp: TcpId,
    /// The application hears when so many bytes have arrived in order (besides the end).
    pub notify_at: Option<u64>,
    /// Comes back with each event.
    pub tag: u32,
}

/// Who opens a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opener {
    /// The client: HTTP.
    Client,
    /// The server, which here means the sender of the data.
    Server,
}

/// Index of the client's end.
pub const CLIENT: usize = 0;
/// Index of the server's end.
pub const SERVER: usize = 1;

/// Both ends of a connection between two hosts of the engine.
#[derive(Debug)]
pub(crate) struct Connection<E> {
    pub(crate) ends: [E; 2],
    /// The way of what each end sends.
    pub(crate) routes: [Route; 2],
    /// Of each end's entries in the calendar of timers, only the one with this time is valid.
    pub(crate) planned: [Time; 2],
    /// Packets of this connection inside the network; its number is used again only when there are none.
    pub(crate) in_network: u32,
    pub(crate) transfer: Transfer,
    pub(crate) responded: bool,
    pub(crate) done_at_client: Option<Time>,
    /// When the server heard that the client has everything.
    pub(crate) closed: Option<Time>,
    pub(crate) dropped: u32,
    pub(crate) sent_high: u32,
    pub(crate) marker: AnyMarker,
    pub(crate) app: u32,
    pub(crate) number: u64,
    pub(crate) opened: Time,
}

impl Transfer {
    /// The node of each end.
    pub fn node(&self, end: usize) -> NodeId {
        if end == CLIENT { self.client } else { self.server }
    }
}

/// The phase of a clock tick that a connection's host has, from a uniform number in [0, 1).
pub fn tick_phase(tick: Span, uniform: f64) -> Span {
    Span::from_nanos((tick.as_nanos() as f64 * uniform) as u64)
}

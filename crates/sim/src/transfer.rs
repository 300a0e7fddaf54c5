use catnip_base::Span;
use catnip_net::NodeId;
use catnip_tcp::Role;

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

impl Transfer {
    /// The node of each end.
    pub fn node(&self, end: usize) -> NodeId {
        if end == CLIENT { self.client } else { self.server }
    }

    /// The part of each end in the handshake, the client's first.
    pub fn roles(&self) -> [Role; 2] {
        match self.opener {
            Opener::Client => [Role::Active, Role::Passive],
            Opener::Server => [Role::Passive, Role::Active],
        }
    }
}

/// The phase of a clock tick that a connection's host has, from a uniform number in [0, 1).
pub fn tick_phase(tick: Span, uniform: f64) -> Span {
    Span::from_nanos((tick.as_nanos() as f64 * uniform) as u64)
}

//! Who talks to whom, and by which parameters.

use catnip_base::Span;
use catnip_net::NodeId;
use catnip_net::mark::{MarkerSpec, Service};
use catnip_tcp::{Role, TcpConfig};

/// Parameters that connections share, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TcpId(pub u32);

/// Parameters that connections share.
#[derive(Clone, Debug, PartialEq)]
pub struct TcpOptions {
    /// Of both ends.
    pub config: TcpConfig,
    /// How their packets are marked, if at all.
    pub marker: Option<MarkerSpec>,
    /// What kind of application it is, from which a marker has what it is not told.
    pub service: Service,
    /// Of each connection at an output scheduler; see [`ServiceOptions::weight`](crate::ServiceOptions::weight).
    pub weight: u32,
}

impl From<TcpConfig> for TcpOptions {
    /// Nothing is marked.
    fn from(config: TcpConfig) -> Self {
        Self { config, marker: None, service: Service::default(), weight: 1 }
    }
}

/// Index of the client's end.
pub const CLIENT: usize = 0;
/// Index of the server's end.
pub const SERVER: usize = 1;

/// Who is at the ends of a connection. Either may open it, and either may send; results count what the server sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parties {
    /// Where documents go.
    pub client: NodeId,
    /// Where they come from.
    pub server: NodeId,
    /// Who opens the connection: [`CLIENT`] or [`SERVER`].
    pub opener: usize,
    /// Parameters of both ends.
    pub tcp: TcpId,
}

impl Parties {
    /// The node of each end.
    pub fn node(&self, end: usize) -> NodeId {
        if end == CLIENT { self.client } else { self.server }
    }

    /// The part of each end in the handshake, the client's first.
    pub fn roles(&self) -> [Role; 2] {
        if self.opener == CLIENT { [Role::Active, Role::Passive] } else { [Role::Passive, Role::Active] }
    }
}

/// The phase of a clock tick that a connection's host has, from a uniform number in [0, 1).
pub fn tick_phase(tick: Span, uniform: f64) -> Span {
    Span::from_nanos((tick.as_nanos() as f64 * uniform) as u64)
}

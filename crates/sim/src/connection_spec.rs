//! Client, server and parameters of a connection.

use catnip_base::Span;
use catnip_net::NodeId;
use catnip_net::mark::{MarkerSpec, Service};
use catnip_tcp::{Role, TcpConfig};

/// Identifier of a set of parameters that connections share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TcpId(pub u32);

/// Parameters that connections share.
#[derive(Clone, Debug, PartialEq)]
pub struct TcpOptions {
    /// TCP configuration of both ends.
    pub config: TcpConfig,
    /// Marker of the packets of both ends; `None` leaves packets unmarked.
    pub marker: Option<MarkerSpec>,
    /// Kind of application, from which a marker derives the settings that its specification leaves out.
    pub service: Service,
    /// Weight of each connection at an output scheduler; see [`ServiceOptions::weight`](crate::ServiceOptions::weight).
    pub weight: u32,
}

impl From<TcpConfig> for TcpOptions {
    /// Returns options with this configuration and without a marker.
    fn from(config: TcpConfig) -> Self {
        Self { config, marker: None, service: Service::default(), weight: 1 }
    }
}

/// Index of the client's end.
pub const CLIENT: usize = 0;
/// Index of the server's end.
pub const SERVER: usize = 1;

/// Client and server of a connection. Either end may open the connection, and both ends may send. Results count the data of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionSpec {
    /// Node that receives documents.
    pub client: NodeId,
    /// Node that sends documents.
    pub server: NodeId,
    /// End that opens the connection: [`CLIENT`] or [`SERVER`].
    pub opener: usize,
    /// Parameters of both ends.
    pub tcp: TcpId,
}

impl ConnectionSpec {
    /// Returns the node of an end.
    pub fn node(&self, end: usize) -> NodeId {
        if end == CLIENT { self.client } else { self.server }
    }

    /// Returns the role of each end in the handshake, the client's first.
    pub fn roles(&self) -> [Role; 2] {
        if self.opener == CLIENT { [Role::Active, Role::Passive] } else { [Role::Passive, Role::Active] }
    }
}

/// Returns the phase of a host's clock with ticks of length `tick` for a connection. `uniform` is a uniform random number in [0, 1).
pub fn tick_phase(tick: Span, uniform: f64) -> Span {
    Span::from_nanos((tick.as_nanos() as f64 * uniform) as u64)
}

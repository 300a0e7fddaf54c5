use crate::ip::{Ip, TCP, UDP};
use crate::{Tcp, Udp, WireError};
use std::fmt;
use std::net::SocketAddr;

/// Flow: one direction of a connection, identified by protocol, addresses and ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    /// Protocol number.
    pub protocol: u8,
    /// Source address and port.
    pub source: SocketAddr,
    /// Destination address and port.
    pub destination: SocketAddr,
}

impl FlowKey {
    /// Returns the flow of a TCP or UDP packet. A fragment other than the first one has no ports and results in an error.
    #[inline]
    pub fn of(ip: &Ip<'_>) -> Result<Self, WireError> {
        if ip.protocol() == UDP {
            let udp = Udp::parse(ip.transport(UDP)?)?;
            return Ok(Self::between(ip, udp.source_port(), udp.destination_port()));
        }
        Ok(Self::of_tcp(ip, &Tcp::parse(ip.transport(TCP)?)?))
    }

    /// Returns the flow of a packet whose TCP header is already parsed.
    #[inline]
    pub fn of_tcp(ip: &Ip<'_>, tcp: &Tcp<'_>) -> Self {
        Self::between(ip, tcp.source_port(), tcp.destination_port())
    }

    #[inline]
    fn between(ip: &Ip<'_>, source: u16, destination: u16) -> Self {
        Self {
            protocol: ip.protocol(),
            source: SocketAddr::new(ip.source(), source),
            destination: SocketAddr::new(ip.destination(), destination),
        }
    }

    /// Returns the flow of the opposite direction.
    pub fn reversed(self) -> Self {
        Self { source: self.destination, destination: self.source, ..self }
    }
}

impl fmt::Display for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {}", self.source, self.destination)
    }
}

use crate::ip::{Ip, TCP, UDP};
use crate::{Tcp, Udp, WireError};
use std::fmt;
use std::net::SocketAddr;

/// One direction of a conversation: all that a middlebox needs to tell packets apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    /// Protocol number.
    pub protocol: u8,
    /// Who sends.
    pub source: SocketAddr,
    /// Who is to receive.
    pub destination: SocketAddr,
}

impl FlowKey {
    /// The flow of a packet of TCP or UDP. A later fragment does not say.
    #[inline]
    pub fn of(ip: &Ip<'_>) -> Result<Self, WireError> {
        if ip.protocol() == UDP {
            let udp = Udp::parse(ip.transport(UDP)?)?;
            return Ok(Self::between(ip, udp.source_port(), udp.destination_port()));
        }
        Ok(Self::of_tcp(ip, &Tcp::parse(ip.transport(TCP)?)?))
    }

    /// The same for who has read the TCP header of the packet already.
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

    /// The other direction.
    pub fn reversed(self) -> Self {
        Self { source: self.destination, destination: self.source, ..self }
    }
}

impl fmt::Display for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {}", self.source, self.destination)
    }
}

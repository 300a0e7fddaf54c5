//! Ends of TCP connections in a network that carries real packets.

use crate::external::observed_sender::ObservedSender;
use crate::external::session::SocketSession;
use crate::socket::{Ends, Socket};
use catnip_base::{FlowContext, Time};
use catnip_net::mark::{Position, SenderState};
use catnip_sim::medium::End;
use catnip_sim::session::Session;
use catnip_tcp::{Outgoing, Sender, SenderStats, TcpConfig};

/// End of a TCP connection in a network that carries real packets.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all ends are sockets, and a box would cost a miss per packet"
)]
pub enum FrameEnd {
    /// End of a connection between two simulated hosts.
    Socket(Socket),
    /// Simulated end of a connection with an external peer.
    Session(Box<SocketSession>),
    /// End at an external host, represented by counts of the packets that the host has sent.
    External(ObservedSender),
}

impl FrameEnd {
    /// Returns the socket of a simulated end; `None` for an end at an external host.
    pub(crate) fn socket(&self) -> Option<&Socket> {
        match self {
            Self::Socket(socket) => Some(socket),
            Self::Session(session) => Some(session.socket()),
            Self::External(_) => None,
        }
    }

    /// Returns the socket of a simulated end. Must not be called for an end at an external host.
    fn simulated(&self) -> &Socket {
        self.socket().expect("an external host sends its packets itself")
    }

    /// Returns the addresses and ports of a session, first those of the simulated end; `None` if this end is no session.
    pub(crate) fn ends(&self) -> Option<Ends> {
        match self {
            Self::Session(session) => Some(session.socket().ends()),
            Self::Socket(_) | Self::External(_) => None,
        }
    }
}

impl End for FrameEnd {
    fn is_external(&self) -> bool {
        matches!(self, Self::External(_))
    }
    fn session(&self) -> Option<&dyn Session> {
        match self {
            Self::Session(session) => Some(&**session),
            Self::Socket(_) | Self::External(_) => None,
        }
    }
    fn session_mut(&mut self) -> Option<&mut dyn Session> {
        match self {
            Self::Session(session) => Some(&mut **session),
            Self::Socket(_) | Self::External(_) => None,
        }
    }
    fn stats(&self) -> SenderStats {
        match self {
            Self::External(observed) => observed.stats(),
            Self::Socket(_) | Self::Session(_) => self.sender().map(Sender::stats).unwrap_or_default(),
        }
    }
    fn write(
        &mut self,
        now: Time,
        bytes: u64,
        context: Option<FlowContext>,
        last: bool,
        _config: &TcpConfig,
    ) {
        if let Self::Socket(socket) = self {
            socket.write_padding(now, bytes, context, last);
        }
    }
    fn on_timer(&mut self, now: Time, _config: &TcpConfig) -> bool {
        match self {
            Self::Socket(socket) => socket.on_timer(now),
            Self::Session(session) => session.on_timer(now),
            Self::External(_) => false,
        }
    }
    fn deadline(&self) -> Option<Time> {
        match self {
            Self::Socket(socket) => socket.deadline(),
            Self::Session(session) => session.deadline(),
            Self::External(_) => None,
        }
    }
    fn received(&self) -> u64 {
        self.socket().map_or(0, Socket::received)
    }
    fn sender(&self) -> Option<&Sender> {
        self.socket()?.sender()
    }
    fn sender_state(&self, out: &Outgoing, _config: &TcpConfig) -> SenderState {
        self.simulated().sender_state(out)
    }
    fn position(&self, seq: u64) -> Position {
        self.simulated().position(seq)
    }
    fn is_open(&self) -> bool {
        self.socket().is_none_or(Socket::is_open)
    }
    fn peer_closed(&self) -> bool {
        self.socket().is_some_and(Socket::peer_closed)
    }
    fn syn_timeouts(&self) -> u32 {
        self.socket().map_or(0, Socket::syn_timeouts)
    }
}

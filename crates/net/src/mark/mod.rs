//! Markers, which set the priority of packets. Each kind of marker has its own file and one entry in [`MarkerSpec`].

mod application;
mod service;
mod spm;
mod tcp_state;

pub use application::{Application, ApplicationSpec};
pub use service::Service;
pub use spm::{Place, Spm, SpmParameters};
pub use tcp_state::{TcpState, TcpStateSpec, Threshold};

use crate::{Colour, Packet};
use catnip_base::{FlowContext, Rng, Time, kinds};
use std::fmt::Debug;

/// State of the sender when it sends a packet. A marker inside the network does not have this state and can only use the packet itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sending {
    /// Kind of the packet.
    pub carries: Carries,
    /// Context of the message, if the application has given one.
    pub context: Option<FlowContext>,
    /// Offset of the packet's data in the message, bytes.
    pub offset: u64,
    /// Size of a full segment, bytes.
    pub segment: u32,
    /// Congestion window, bytes.
    pub window: u64,
    /// Peer's receive window, bytes.
    pub receive_window: u64,
    /// True if the data was sent before.
    pub retransmission: bool,
    /// True if the sender is in a recovery from a loss that duplicate ACKs have shown.
    pub recovering: bool,
}

/// Kind of a packet of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Carries {
    /// Data or a FIN.
    #[default]
    Data,
    /// Pure ACK, with the priority of the data that it acknowledges, if any has arrived.
    Ack(Option<Colour>),
    /// SYN or SYN-ACK.
    Opening,
}

/// Marker, which sets the priority of packets as they leave a host or enter a network.
pub trait PacketMarker: Debug + Send {
    /// Marks a packet by its fields and, where available, the state of its sender.
    fn mark(&mut self, now: Time, sending: Option<&Sending>, packet: &mut Packet);
}

kinds! {
    /// Configuration of a marker.
    #[derive(Copy)]
    pub enum MarkerSpec {
        Spm(SpmParameters),
        Application(ApplicationSpec),
        TcpState(TcpStateSpec)
    }
}

impl MarkerSpec {
    /// Creates the marker of one connection of an application with these requirements; `rng` provides the random stream of a randomized
    /// marker.
    pub fn build(&self, service: Service, rng: impl FnOnce() -> Rng) -> AnyMarker {
        match *self {
            Self::Spm(parameters) => AnyMarker::Spm(Spm::new(parameters)),
            Self::Application(spec) => AnyMarker::Application(Application::new(spec, service)),
            Self::TcpState(spec) => AnyMarker::TcpState(Box::new(TcpState::new(spec, service, rng))),
        }
    }

    /// Returns the parameters of selective packet marking, the only marker that also works without the sender's window, where packets enter
    /// a network.
    pub fn spm(&self) -> Option<SpmParameters> {
        if let Self::Spm(parameters) = self { Some(*parameters) } else { None }
    }
}

/// Marker of a sender.
#[derive(Debug, Default)]
pub enum AnyMarker {
    /// No marker: packets are not changed.
    #[default]
    None,
    /// Selective packet marking.
    Spm(Spm),
    /// Marking by application.
    Application(Application),
    /// Marking by the state of TCP.
    TcpState(Box<TcpState>),
}

impl PacketMarker for AnyMarker {
    #[inline]
    fn mark(&mut self, now: Time, sending: Option<&Sending>, packet: &mut Packet) {
        match self {
            Self::None => {}
            Self::Spm(marker) => marker.mark(now, sending, packet),
            Self::Application(marker) => marker.mark(now, sending, packet),
            Self::TcpState(marker) => marker.mark(now, sending, packet),
        }
    }
}

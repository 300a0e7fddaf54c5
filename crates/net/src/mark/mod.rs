//! Markers: which packets are crucial. A kind of marker is one file, and one line of [`MarkerSpec`].

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

/// What the sender knows when it emits a packet. Inside the network there is none of it, and a marker there can
/// only look at the packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sending {
    /// What it is.
    pub carries: Carries,
    /// What the application said about the message, if it did.
    pub context: Option<FlowContext>,
    /// Where in the message the packet's data begins, bytes.
    pub offset: u64,
    /// Bytes in a full segment.
    pub segment: u32,
    /// cwnd, bytes.
    pub window: u64,
    /// What the other side can take in, bytes.
    pub receive_window: u64,
    /// Was this data sent before?
    pub retransmission: bool,
    /// Does it repair a loss that duplicate ACKs have shown?
    pub recovering: bool,
}

/// What a packet of a connection is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Carries {
    /// Data or a FIN.
    #[default]
    Data,
    /// Nothing but an acknowledgement of data that had this priority, if any has come.
    Ack(Option<Colour>),
    /// A SYN.
    Opening,
}

/// Sets the priority of packets as they leave a host or enter a network.
pub trait PacketMarker: Debug + Send {
    /// Looks at the packet and what its sender knows, and marks it.
    fn mark(&mut self, now: Time, sending: Option<&Sending>, packet: &mut Packet);
}

kinds! {
    /// What a sender marks by, as configuration.
    #[derive(Copy)]
    pub enum MarkerSpec {
        Spm(SpmParameters),
        Application(ApplicationSpec),
        TcpState(TcpStateSpec)
    }
}

impl MarkerSpec {
    /// The marker of one connection of such an application; `rng` is for those that draw.
    pub fn build(&self, service: Service, rng: impl FnOnce() -> Rng) -> AnyMarker {
        match *self {
            Self::Spm(parameters) => AnyMarker::Spm(Spm::new(parameters)),
            Self::Application(spec) => AnyMarker::Application(Application::new(spec, service)),
            Self::TcpState(spec) => AnyMarker::TcpState(Box::new(TcpState::new(spec, service, rng))),
        }
    }

    /// What can be said of packets without their sender's window: where they enter a network.
    pub fn spm(&self) -> Option<SpmParameters> {
        if let Self::Spm(parameters) = self { Some(*parameters) } else { None }
    }
}

/// What a sender marks by.
#[derive(Debug, Default)]
pub enum AnyMarker {
    /// Leaves every packet as it is.
    #[default]
    None,
    /// Selective packet marking.
    Spm(Spm),
    /// By application.
    Application(Application),
    /// By the state of TCP.
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

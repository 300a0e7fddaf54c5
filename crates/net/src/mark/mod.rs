//! Markers: which packets are crucial.

mod spm;

pub use spm::{Spm, SpmParameters};

use crate::{Colour, Packet};
use catnip_base::{FlowContext, Time};
use std::fmt::Debug;

/// What the sender knows when it emits a packet. Inside the network there is none of it, and a marker there can
/// only look at the packet.
#[derive(Clone, Copy, Debug)]
pub struct Sending {
    /// What the application said about the document, if it did.
    pub context: Option<FlowContext>,
    /// Where in the document the packet's data begins, bytes.
    pub offset: u64,
    /// Bytes in a full segment.
    pub segment: u32,
    /// cwnd, bytes.
    pub window: u64,
    /// Is cwnd below ssthresh?
    pub slow_start: bool,
    /// Was this data sent before?
    pub retransmission: bool,
    /// For an ACK: the priority of the data that it answers.
    pub acknowledges: Option<Colour>,
}

/// Sets the priority of packets as they leave a host or enter a network.
pub trait PacketMarker: Debug + Send {
    /// Looks at the packet and what its sender knows, and marks it.
    fn mark(&mut self, now: Time, sending: Option<&Sending>, packet: &mut Packet);
}

/// What a sender marks by.
#[derive(Debug, Default)]
pub enum AnyMarker {
    /// Leaves every packet as it is.
    #[default]
    None,
    /// Selective packet marking.
    Spm(Spm),
}

/// Marks by these parameters, or not at all.
impl From<Option<SpmParameters>> for AnyMarker {
    fn from(parameters: Option<SpmParameters>) -> Self {
        parameters.map_or(Self::None, |parameters| Self::Spm(Spm::new(parameters)))
    }
}

impl PacketMarker for AnyMarker {
    #[inline]
    fn mark(&mut self, now: Time, sending: Option<&Sending>, packet: &mut Packet) {
        match self {
            Self::None => {}
            Self::Spm(marker) => marker.mark(now, sending, packet),
        }
    }
}

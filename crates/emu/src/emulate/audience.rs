//! Who hears what happens in a world, and where packets for real hosts go.

use crate::buffers::Entry;
use crate::classify::Refusal;
use catnip_base::{Span, Time};
use catnip_net::{DropReason, NodeId, Packet, PortId};
use catnip_sim::{Recorder, TcpId};

/// Hears what happens in a [`World`].
pub trait Audience: Recorder {
    /// A packet has entered the network.
    fn entered(&mut self, _entry: &Entry, _packet: &Packet, _bytes: &[u8]) {}
    /// It was dropped at a port.
    fn dropped(&mut self, _at: Time, _entry: &Entry, _packet: &Packet, _port: PortId, _why: DropReason) {}
    /// It has come out at a host. For a real one: when, and whether its device took it.
    fn delivered(&mut self, _ideal: Time, _entry: &Entry, _packet: &Packet, _real: Option<Delivery>) {}
    /// It comes to a port.
    fn came_to(&mut self, _at: Time, _entry: &Entry, _packet: &Packet, _port: PortId) {}
    /// It has come from a port to the other end of its link.
    fn passed(&mut self, _at: Time, _entry: &Entry, _packet: &Packet, _port: PortId) {}
    /// What a real server has answered, or what a real client has been given, before the connection's own record.
    fn replied(&mut self, _reply: &Reply) {}
    /// A packet of a real host was not let in.
    fn refused(&mut self, _at: Time, _from: NodeId, _why: Refusal) {}
}

impl Audience for () {}

/// What came back over a connection with a real host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Number of the connection.
    pub connection: u64,
    /// The application, or [`NOBODY`].
    pub app: u32,
    /// What it called the transfer.
    pub tag: u32,
    /// The traffic group, by its TCP parameters.
    pub tcp: TcpId,
    /// HTTP status; 0 without a response.
    pub status: u16,
    /// Bytes of the body or bodies.
    pub body_bytes: u64,
    /// FNV-1a of the (last) body.
    pub digest: u64,
    /// All of it came.
    pub whole: bool,
}

/// How a packet got to a real host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// When it was written to its device.
    pub actual: Time,
    /// The device took it.
    pub written: bool,
}

/// Where packets go that leave the network at a real host.
pub trait Outside {
    /// A packet arrives there at this ideal time.
    fn deliver(&mut self, ideal: Time, node: NodeId, packet: &[u8]) -> Delivery;
}

/// No host is real.
impl Outside for () {
    fn deliver(&mut self, ideal: Time, _node: NodeId, _packet: &[u8]) -> Delivery {
        Delivery { actual: ideal, written: false }
    }
}

/// What has become of the packets of a source of background traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Datagrams {
    /// How many the source has sent.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// How many have arrived.
    pub received: u64,
    /// How many the network has dropped.
    pub dropped: u64,
    /// Mean delay, and the sum of squared distances from it, in seconds.
    delay: (f64, f64),
}

impl Datagrams {
    /// Mean and variance of the delay, seconds; NaN without packets.
    pub fn delay_s(&self) -> (f64, f64) {
        let (mean, squares) = self.delay;
        match self.received {
            0 => (f64::NAN, f64::NAN),
            1 => (mean, f64::NAN),
            n => (mean, squares / (n - 1) as f64),
        }
    }

    pub(super) fn receive(&mut self, delay: Span) {
        self.received += 1;
        let off = delay.as_secs() - self.delay.0;
        self.delay.0 += off / self.received as f64;
        self.delay.1 += off * (delay.as_secs() - self.delay.0);
    }
}

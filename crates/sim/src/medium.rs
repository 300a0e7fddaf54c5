//! Media that carry segments from host to host: values in memory in the simulator, IP packets in the emulator.

mod numbers;

pub use numbers::Numbers;

use crate::watch::{Origin, Watch};
use crate::{Conn, ConnectionSpec, Event, FlowId};
use catnip_base::{FlowContext, Rng, Span, Time};
use catnip_net::mark::{Place, SenderState};
use catnip_net::{DropReason, NodeId, Packet, PortId};
use catnip_tcp::{Outgoing, Segment, Sender, TcpConfig};
use std::fmt::Debug;

/// Sender of the body of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// End of a connection between two hosts of the engine.
    End {
        /// Slot of the connection in the engine.
        connection: u32,
        /// End of the connection: [`CLIENT`](crate::CLIENT) or [`SERVER`](crate::SERVER).
        end: usize,
    },
    /// Source of a datagram, and the time of transmission.
    Datagram(FlowId, Time),
    /// Sender outside the engine: an external host, or the medium itself.
    Other,
}

/// End of a connection, as used by the engine.
pub trait End: Debug {
    /// Accepts data of the application: see [`catnip_tcp::Sender::write`].
    fn write(&mut self, now: Time, bytes: u64, context: Option<FlowContext>, last: bool, config: &TcpConfig);
    /// Processes the timers due at `now`. Returns true if a retransmission timer expired.
    fn on_time(&mut self, now: Time, config: &TcpConfig) -> bool;
    /// Returns the time at which the end must run again if no segment arrives.
    fn deadline(&self) -> Option<Time>;
    /// Returns the number of data bytes received in order.
    fn received(&self) -> u64;
    /// Returns the sending half, if any data was ever written.
    fn sender(&self) -> Option<&Sender>;
    /// Returns the state of the sender, on which the mark of a segment to send depends.
    fn sending(&self, out: &Outgoing, config: &TcpConfig) -> SenderState;
    /// Returns the position and the window of data to send, on which selective packet marking depends.
    fn place(&self, seq: u64) -> Place;
    /// Returns true if the handshake is complete.
    fn is_open(&self) -> bool;
    /// Returns true if the peer's FIN and all data before it have arrived.
    fn peer_closed(&self) -> bool;
    /// Returns the number of retransmissions of handshake segments.
    fn syn_timeouts(&self) -> u32;
}

/// Carrier of the contents of packets. A body is a handle of the medium, allocated with a packet and released when the packet is delivered
/// or dropped.
pub trait Medium: Debug + Sized {
    /// End of a connection.
    type End: End;

    /// Creates both ends of a connection, the client's first.
    fn connect(
        &mut self,
        now: Time,
        spec: &ConnectionSpec,
        config: &TcpConfig,
        phases: [Span; 2],
        rng: &mut Rng,
    ) -> [Self::End; 2];

    /// Returns the next segment that this end sends, and its body; `None` if the end has nothing to send or no memory is left.
    fn pack(
        &mut self,
        now: Time,
        end: &mut Self::End,
        owner: Owner,
        config: &TcpConfig,
    ) -> Option<(Outgoing, u32)>;

    /// Allocates a body of `bytes` bytes of padding; `None` if no memory is left.
    fn fill(&mut self, now: Time, from: NodeId, to: NodeId, owner: Owner, bytes: u32) -> Option<u32>;

    /// Returns the sender of a body.
    fn owner(&self, body: u32) -> Owner;

    /// Returns the offset of a segment's data in its stream and the length of the data, bytes.
    fn data(&self, body: u32) -> (u64, u32);

    /// Delivers the segment in a packet to its destination end. Returns the segment as received; `None` if the end has rejected it.
    fn receive(
        &mut self,
        now: Time,
        packet: &Packet,
        end: &mut Self::End,
        config: &TcpConfig,
    ) -> Option<Segment>;

    /// Copies a body for a copy of its packet; `None` if no memory is left.
    fn copy(&mut self, body: u32) -> Option<u32>;

    /// Releases the body.
    fn release(&mut self, body: u32);

    /// Returns the number of bodies in use.
    fn in_use(&self) -> usize;

    /// Writes the mark of a packet into its bytes.
    fn stamp(&mut self, _packet: &Packet) {}

    /// Records the node and the time at which a packet enters the network.
    fn enter(&mut self, _packet: &Packet, _from: NodeId) {}

    /// Returns the origin recorded by [`Medium::enter`].
    #[inline(always)]
    fn origin(&self, _body: u32) -> Origin {
        Origin::default()
    }

    /// Returns the bytes of a body; empty in [`Numbers`].
    #[inline(always)]
    fn bytes(&self, _body: u32) -> &[u8] {
        &[]
    }

    /// Returns true if the node is an external host.
    #[inline(always)]
    fn is_external(&self, _node: NodeId) -> bool {
        false
    }

    /// Returns the number of connections with external hosts that still have state.
    fn connections(&self) -> usize {
        0
    }

    /// Reports the connections with external hosts that are not over, as [`World::unfinished_connections`](crate::World::unfinished_connections) does.
    fn unfinished_connections(&self, _visit: &mut dyn FnMut(Event, u64)) {}

    /// Returns the number of bytes of the next message that have arrived over a connection with an external host.
    fn arrived(&self, _conn: Conn) -> u64 {
        0
    }

    /// Records that the network has copied a packet of [`Owner::Other`]; `copy` is the body returned by [`Medium::copy`].
    fn copied(&mut self, _copy: u32) {}

    /// Inverts a bit of a packet of [`Owner::Other`].
    fn corrupt(&mut self, _body: u32, _bit: u32) {}

    /// Records the drop of a packet of [`Owner::Other`] at a port, before its body is released. Returns true if the packet carried data of
    /// a server.
    fn dropped<W: Watch>(
        &mut self,
        _now: Time,
        _at: PortId,
        _packet: &Packet,
        _why: DropReason,
        _watch: &mut W,
    ) -> bool {
        false
    }
}

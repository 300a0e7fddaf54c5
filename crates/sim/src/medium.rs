//! Media that carry segments from host to host: values in memory in the simulator, IP packets in the emulator.

mod segments;

pub use segments::SegmentMedium;

use crate::session::Session;
use crate::watch::Origin;
use crate::{ConnectionSpec, FlowId};
use catnip_base::{FlowContext, Rng, Span, Time};
use catnip_net::mark::{Position, SenderState};
use catnip_net::{NodeId, Packet, Route};
use catnip_tcp::{Outgoing, Segment, Sender, SenderStats, TcpConfig};
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
    /// External host at an end of a connection of the engine.
    External {
        /// Slot of the connection in the engine.
        connection: u32,
        /// End of the connection: [`CLIENT`](crate::CLIENT) or [`SERVER`](crate::SERVER).
        end: usize,
    },
    /// Sender without a connection of the engine: an external host, or the medium itself.
    Other,
}

/// End of a connection, as used by the engine.
pub trait End: Debug {
    /// Returns true if the end is at an external host: the engine has no state of it and sends nothing for it.
    #[inline(always)]
    fn is_external(&self) -> bool {
        false
    }
    /// Returns the application protocol with the peer; `None` if the peer is simulated.
    #[inline(always)]
    fn session(&self) -> Option<&dyn Session> {
        None
    }
    /// Returns the application protocol with the peer mutably; `None` if the peer is simulated.
    #[inline(always)]
    fn session_mut(&mut self) -> Option<&mut dyn Session> {
        None
    }
    /// Returns the statistics of the sending half.
    fn stats(&self) -> SenderStats {
        self.sender().map(Sender::stats).unwrap_or_default()
    }
    /// Accepts data of the application: see [`catnip_tcp::Sender::write`].
    fn write(&mut self, now: Time, bytes: u64, context: Option<FlowContext>, last: bool, config: &TcpConfig);
    /// Processes the timers due at `now`. Returns true if a retransmission timer expired.
    fn on_timer(&mut self, now: Time, config: &TcpConfig) -> bool;
    /// Returns the time at which the end must be called if no segment arrives before, or `None` if it need not be called.
    fn deadline(&self) -> Option<Time>;
    /// Returns the number of data bytes received in order.
    fn received(&self) -> u64;
    /// Returns the sending half, or `None` if no data was written yet.
    fn sender(&self) -> Option<&Sender>;
    /// Returns the state of the sender, on which the mark of a segment to send depends.
    fn sender_state(&self, out: &Outgoing, config: &TcpConfig) -> SenderState;
    /// Returns the position and the window of data to send, on which selective packet marking depends.
    fn position(&self, seq: u64) -> Position;
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

    /// Creates both ends of a connection, the client's first. The end of an external host has phase zero.
    fn connect(
        &mut self,
        now: Time,
        spec: &ConnectionSpec,
        config: &TcpConfig,
        phases: [Span; 2],
        rng: &mut Rng,
    ) -> [Self::End; 2];

    /// Returns the next segment that this end sends, and the body of the segment. Returns `None` if the end has nothing to send or no
    /// memory is left.
    fn pack(
        &mut self,
        now: Time,
        end: &mut Self::End,
        owner: Owner,
        config: &TcpConfig,
    ) -> Option<(Outgoing, u32)>;

    /// Returns the packet of a segment from [`Medium::pack`], without a mark.
    #[inline(always)]
    fn packet(
        &self,
        now: Time,
        connection: u32,
        route: Route,
        _end: &Self::End,
        (out, body): (&Outgoing, u32),
        config: &TcpConfig,
    ) -> Packet {
        let wire_bytes = config.wire_bytes(out.segment.seq, out.segment.len, out.segment.sack.len());
        Packet { flow: connection as u16, ecn: out.ecn, ..Packet::new(now, route, wire_bytes, body) }
    }

    /// Allocates a body of `bytes` bytes of padding; `None` if no memory is left.
    fn fill(&mut self, now: Time, from: NodeId, to: NodeId, owner: Owner, bytes: u32) -> Option<u32>;

    /// Returns the sender of a body.
    fn owner(&self, body: u32) -> Owner;

    /// Returns the sequence number of a segment and the length of its data, bytes.
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

    /// Releases a body whose packet has been delivered or dropped.
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

    /// Returns the bytes of a body; empty in [`SegmentMedium`].
    #[inline(always)]
    fn bytes(&self, _body: u32) -> &[u8] {
        &[]
    }

    /// Returns true if the node is an external host.
    #[inline(always)]
    fn is_external(&self, _node: NodeId) -> bool {
        false
    }

    /// Records a new connection and its slot in the engine.
    #[inline(always)]
    fn opened(&mut self, _connection: u32, _ends: &[Self::End; 2]) {}

    /// Records the end of a connection with an external peer that is kept to answer retransmissions.
    fn ended(&mut self, _connection: u32, _number: u64) {}

    /// Releases the addresses of a connection whose slot is to be reused.
    fn released(&mut self, _connection: u32, _ends: &mut [Self::End; 2]) {}

    /// Counts a packet that an external host has sent from its end of a connection.
    fn observe(&self, _body: u32, _end: &mut Self::End) {}

    /// Inverts a bit of a packet from or to an external host.
    fn corrupt(&mut self, _body: u32, _bit: u32) {}
}

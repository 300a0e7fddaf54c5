//! What carries segments from host to host: numbers in the simulator, real packets in the emulator.

mod numbers;

pub use numbers::Numbers;

use crate::watch::{Origin, Watch};
use crate::{Conn, Event, FlowId, Parties};
use catnip_base::{FlowContext, Rng, Span, Time};
use catnip_net::mark::{Place, Sending};
use catnip_net::{DropReason, NodeId, Packet, PortId};
use catnip_tcp::{Outgoing, Segment, Sender, TcpConfig};
use std::fmt::Debug;

/// Who has sent the body of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// An end of a connection between two hosts of the engine.
    End {
        /// The number under which the engine knows the connection.
        connection: u32,
        /// [`CLIENT`](crate::CLIENT) or [`SERVER`](crate::SERVER).
        end: usize,
    },
    /// A source of datagrams, at this time.
    Datagram(FlowId, Time),
    /// Nobody of whom the engine knows: a real host, or the medium itself.
    Other,
}

/// One end of a connection as an engine of hosts needs it.
pub trait End: Debug {
    /// The application hands over data: see [`catnip_tcp::Sender::write`].
    fn write(&mut self, now: Time, bytes: u64, context: Option<FlowContext>, last: bool, config: &TcpConfig);
    /// Time has passed; true if a retransmission timer expired.
    fn on_time(&mut self, now: Time, config: &TcpConfig) -> bool;
    /// When to be asked again if nothing arrives.
    fn deadline(&self) -> Option<Time>;
    /// Data bytes received in order.
    fn received(&self) -> u64;
    /// The sending half, if anything was ever written.
    fn sender(&self) -> Option<&Sender>;
    /// What a marker may know about a segment that leaves.
    fn sending(&self, out: &Outgoing, config: &TcpConfig) -> Sending;
    /// What selective packet marking may know about data that leaves.
    fn place(&self, seq: u64) -> Place;
    /// Is the handshake over?
    fn is_open(&self) -> bool;
    /// Has the other side said that it will send no more, and has everything before that arrived?
    fn peer_closed(&self) -> bool;
    /// How often a segment of the handshake was sent again for want of an answer.
    fn syn_timeouts(&self) -> u32;
}

/// What packets are made of. A body is a handle of the medium; it is given out with a packet and taken back when the packet
/// is delivered or dropped.
pub trait Medium: Debug + Sized {
    /// One end of a connection.
    type End: End;

    /// Both ends of a connection, the client's first.
    fn connect(
        &mut self,
        now: Time,
        parties: &Parties,
        config: &TcpConfig,
        phases: [Span; 2],
        rng: &mut Rng,
    ) -> [Self::End; 2];

    /// The next segment that this end sends, in a body; `None`: it has nothing to send, or there is no memory.
    fn pack(
        &mut self,
        now: Time,
        end: &mut Self::End,
        owner: Owner,
        config: &TcpConfig,
    ) -> Option<(Outgoing, u32)>;

    /// A body for so many bytes that mean nothing; `None`: there is no memory.
    fn fill(&mut self, now: Time, from: NodeId, to: NodeId, owner: Owner, bytes: u32) -> Option<u32>;

    /// Who has sent this body.
    fn owner(&self, body: u32) -> Owner;

    /// Where in its stream the data of this segment begins, and its length in bytes.
    fn data(&self, body: u32) -> (u64, u32);

    /// Hands the segment in a packet to the end for which it is; gives what that end has made of it.
    fn hear(
        &mut self,
        now: Time,
        packet: &Packet,
        end: &mut Self::End,
        config: &TcpConfig,
    ) -> Option<Segment>;

    /// A body like this one, for a copy of its packet; `None`: there is no memory.
    fn copy(&mut self, body: u32) -> Option<u32>;

    /// The body is needed no more.
    fn release(&mut self, body: u32);

    /// How many bodies are in use.
    fn in_use(&self) -> usize;

    /// The packet was marked: says so in its bytes.
    fn stamp(&mut self, _packet: &Packet) {}

    /// Notes where and when a packet enters the network.
    fn enter(&mut self, _packet: &Packet, _from: NodeId) {}

    /// What was noted then.
    #[inline(always)]
    fn origin(&self, _body: u32) -> Origin {
        Origin::default()
    }

    /// The bytes of a body; a medium of numbers has none.
    #[inline(always)]
    fn bytes(&self, _body: u32) -> &[u8] {
        &[]
    }

    /// Is this host outside of the engine?
    #[inline(always)]
    fn is_outside(&self, _node: NodeId) -> bool {
        false
    }

    /// Connections with hosts outside that are remembered.
    fn connections(&self) -> usize {
        0
    }

    /// Tells of the connections with hosts outside that are not over, as [`World::unfinished`](crate::World::unfinished) does.
    fn unfinished(&self, _tell: &mut dyn FnMut(Event, u64)) {}

    /// How many bytes of the next message have arrived over a connection with a host outside.
    fn arrived(&self, _conn: Conn) -> u64 {
        0
    }

    /// A packet that no end of the engine has sent was copied in the network, as which body [`Medium::copy`] has said.
    fn copied(&mut self, _copy: u32) {}

    /// This bit of a packet that no end of the engine has sent is wrong from now on.
    fn corrupt(&mut self, _body: u32, _bit: u32) {}

    /// A packet that no end of the engine has sent was dropped at a port; its body is still in use. Was it data of a server?
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

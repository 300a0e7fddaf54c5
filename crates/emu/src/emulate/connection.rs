use super::fetch::Fetch;
use super::socket::Socket;
use catnip_base::{Span, Time};
use catnip_net::mark::{AnyMarker, PacketMarker};
use catnip_net::{Packet, Priority};
use catnip_sim::record::SenderView;
use catnip_sim::{FlowId, Transfer};
use catnip_tcp::{Outgoing, Sender};
use catnip_wire::ip::{self, Ip};
use catnip_wire::{PriorityCodec, Tcp};
use std::net::{IpAddr, SocketAddrV4};

/// The two addresses of a connection, ours first.
pub(super) type Ends = (SocketAddrV4, SocketAddrV4);

/// What is known of the packet in a buffer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Parcel {
    pub(super) owner: Owner,
    pub(super) seq: u64,
    pub(super) data_bytes: u32,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Owner {
    /// It comes from a real host, or answers a packet that belongs nowhere.
    #[default]
    Nobody,
    /// An end of a connection sent it.
    End(u32, usize),
    Datagram(FlowId, Time),
}

pub(super) const CLIENT: usize = 0;

pub(super) const SERVER: usize = 1;

/// A connection of which at least one end is simulated.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) ends: [Option<Socket>; 2],
    pub(super) planned: [Time; 2],
    pub(super) in_network: u32,
    pub(super) transfer: Transfer,
    pub(super) responded: bool,
    pub(super) done_at_client: Option<Time>,
    pub(super) closed: Option<Time>,
    pub(super) recorded: bool,
    /// Kept so long after the end, to answer what comes again.
    pub(super) linger_until: Time,
    pub(super) dropped: u32,
    pub(super) sent_high: u32,
    pub(super) marker: AnyMarker,
    pub(super) app: u32,
    pub(super) number: u64,
    pub(super) opened: Time,
    pub(super) kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    /// Both ends are simulated: the simulator's connection.
    Simulated,
    /// The server is real.
    Fetch(Box<Fetch>),
    /// The client is real: what it has asked so far, and the status of the answer.
    Serve { request: Vec<u8>, status: u16 },
}

/// Applications of real clients have no number.
pub const NOBODY: u32 = u32::MAX;

/// As long as the kernel keeps connections in TIME-WAIT.
pub(super) const LINGER: Span = Span::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    End { connection: u32, end: usize },
    App(u32),
}

impl Timer {
    const APP: u32 = 1 << 31;

    pub(super) fn pack(self) -> u32 {
        match self {
            Self::End { connection, end } => connection << 1 | end as u32,
            Self::App(app) => app | Self::APP,
        }
    }

    pub(super) fn unpack(bits: u32) -> Self {
        if bits & Self::APP != 0 {
            Self::App(bits & !Self::APP)
        } else {
            Self::End { connection: bits >> 1, end: (bits & 1) as usize }
        }
    }
}

/// The addresses in a TCP packet, the receiver's first.
pub(super) fn parse(bytes: &[u8]) -> Option<(Ends, Tcp<'_>)> {
    let ip = Ip::parse(bytes).ok()?;
    let tcp = Tcp::parse(ip.transport(ip::TCP).ok()?).ok()?;
    let (IpAddr::V4(source), IpAddr::V4(destination)) = (ip.source(), ip.destination()) else { return None };
    // A piece of a packet is not the packet.
    if ip.fragment().is_some() {
        return None;
    }
    let to = SocketAddrV4::new(destination, tcp.destination_port());
    Some(((to, SocketAddrV4::new(source, tcp.source_port())), tcp))
}

/// Has a packet of a simulated host marked, if its connection is.
pub(super) fn mark(
    connection: &mut Connection,
    end: usize,
    now: Time,
    out: &Outgoing,
    packet: &mut Packet,
    bytes: &mut [u8],
) {
    if matches!(connection.marker, AnyMarker::None) || out.segment.span() == 0 {
        return;
    }
    let sending = connection.ends[end].as_ref().and_then(|socket| socket.sending(out));
    connection.marker.mark(now, sending.as_ref(), packet);
    // It was just written as an IP packet.
    let _ = PriorityCodec::default().write(bytes, packet.priority);
}

/// The phase of a clock tick that a connection's host has, from a uniform number in [0, 1).
pub(super) fn tick_phase(tick: Span, uniform: f64) -> Span {
    Span::from_nanos((tick.as_nanos() as f64 * uniform) as u64)
}

pub(super) fn sender_view(
    connection: u64,
    sender: &Sender,
    seq: u64,
    wire_bytes: u32,
    retransmission: bool,
    priority: Priority,
) -> SenderView {
    let control = sender.control();
    SenderView {
        connection,
        seq,
        wire_bytes,
        priority,
        retransmission,
        cwnd: control.cwnd,
        ssthresh: control.ssthresh,
        dupacks: sender.dupacks(),
    }
}

//! What a run tells about itself.

use crate::{FlowId, TcpId};
use catnip_base::{Span, Time};
use catnip_net::{Colour, DropReason, PortId};
use catnip_tcp::Sender;
use catnip_tcp::control::Phase;
use catnip_tcp::control::validated::Validity;
use std::hash::{Hash, Hasher};

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A data segment left its sender.
    Sent(SenderView),
    /// An ACK arrived at a sender, which has acted on it but sent nothing yet.
    Acked(SenderView),
    /// A retransmission timer expired.
    Timeout(SenderView),
    /// A packet is gone.
    Dropped {
        /// Its connection.
        connection: u64,
        /// First byte of its data.
        seq: u64,
        /// Its wire size.
        wire_bytes: u32,
        /// Where.
        port: PortId,
        /// What it was marked with.
        colour: Colour,
        /// Why.
        why: DropReason,
    },
    /// A connection is over: everything is acknowledged, and its last packet has left the network.
    Connection(ConnectionRecord),
    /// An object of a page is complete.
    Object(ObjectRecord),
    /// A page is complete.
    Page(PageRecord),
    /// A packet without a connection was sent, has arrived or is gone.
    Datagram {
        /// Its flow.
        flow: FlowId,
        /// Its size.
        wire_bytes: u32,
        /// What happened to it.
        what: DatagramStep,
    },
    /// What came over a connection with a real host; its own record follows.
    Reply(Reply),
    /// What was typed has come back.
    Echo(EchoRecord),
}

/// A station in the life of a packet without a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DatagramStep {
    /// Its source has sent it.
    Sent,
    /// It has arrived, so long after it was sent.
    Received(Span),
    /// It was dropped.
    Dropped(PortId, DropReason),
}

/// A sender at the time of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderView {
    /// Its connection.
    pub connection: u64,
    /// At which end of it: [`CLIENT`](crate::CLIENT) or [`SERVER`](crate::SERVER).
    pub end: usize,
    /// First byte of the segment sent, or next byte that the ACK asks for.
    pub seq: u64,
    /// Wire size of the segment sent or of the ACK.
    pub wire_bytes: u32,
    /// Bytes of data in the segment sent; an ACK and a FIN alone have none.
    pub data_bytes: u32,
    /// It carries a FIN.
    pub fin: bool,
    /// Colour of the segment sent.
    pub colour: Colour,
    /// The data was sent before.
    pub retransmission: bool,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Slow-start threshold, bytes, once one was set.
    pub ssthresh: Option<u64>,
    /// Duplicate ACKs in a row.
    pub dupacks: u32,
    /// What congestion window validation has found out, if the connection has a rule that looks for it.
    pub validity: Option<Validity>,
    /// It repairs a loss that duplicate ACKs or SACK have shown.
    pub in_recovery: bool,
    /// How the next ACK would open the window.
    pub phase: Phase,
}

impl SenderView {
    /// What a sender looks like now, with nothing sent or heard.
    pub fn new(connection: u64, end: usize, sender: &Sender) -> Self {
        let control = sender.control();
        Self {
            connection,
            end,
            seq: sender.una(),
            wire_bytes: 0,
            data_bytes: 0,
            fin: false,
            colour: Colour::Red,
            retransmission: false,
            cwnd: control.cwnd,
            ssthresh: control.ssthresh,
            dupacks: sender.dupacks(),
            validity: sender.validity(),
            in_recovery: sender.in_recovery(),
            phase: sender.phase(),
        }
    }
}

/// Without what follows from all that happened before: a fingerprint hears of that anyway.
impl Hash for SenderView {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (self.connection, self.seq, self.wire_bytes, self.colour, self.retransmission).hash(to);
        (self.cwnd, self.ssthresh, self.dupacks).hash(to);
    }
}

/// A step in the life of what the server of a connection sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Its connection, in order of opening, from 0.
    pub connection: u64,
    /// The program that opened it, or [`NOBODY`].
    pub app: u32,
    /// The traffic group, by its TCP parameters.
    pub tcp: TcpId,
    /// When it was opened.
    pub opened: Time,
    /// Bytes that the server's program has handed over so far.
    pub written: u64,
    /// What happened.
    pub step: ServedStep,
}

/// What can happen to what a server sends. Bytes count from the first that it ever sends over the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServedStep {
    /// A data segment left.
    Sent {
        /// Its first byte.
        seq: u64,
        /// How many there are.
        bytes: u32,
        /// They were sent before.
        retransmission: bool,
    },
    /// An ACK arrived, alone or with data.
    Acked {
        /// First byte not acknowledged now; a FIN counts like one.
        una: u64,
    },
    /// The retransmission timer expired.
    Timeout,
    /// A data segment is gone.
    Dropped {
        /// Its first byte.
        seq: u64,
    },
}

/// One connection from its opening to its last ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionRecord {
    /// In order of opening, from 0.
    pub connection: u64,
    /// The application that opened it.
    pub app: u32,
    /// Bytes of its document.
    pub bytes: u64,
    /// When it was opened.
    pub opened: Time,
    /// When the last byte reached the client; [`Time::NEVER`] before.
    pub received: Time,
    /// When the server heard of it; [`Time::NEVER`] before.
    pub acked: Time,
    /// Data segments that the server sent.
    pub sent: u32,
    /// Of these, with HIGH priority.
    pub sent_high: u32,
    /// Of these, retransmissions.
    pub retransmitted: u32,
    /// Expired timers.
    pub timeouts: u32,
    /// Fast retransmits.
    pub fast_retransmits: u32,
    /// Tail loss probes.
    pub probes: u32,
    /// Data segments that the network dropped.
    pub dropped: u32,
    /// Segments of the handshake that had to be sent again.
    pub syn_timeouts: u32,
    /// Round trips that the server has measured.
    pub rtt_samples: u32,
    /// All of these, added up.
    pub rtt_sum: Span,
}

impl ConnectionRecord {
    /// Of a connection of which nothing has been seen yet.
    pub fn none() -> Self {
        Self {
            connection: 0,
            app: NOBODY,
            bytes: 0,
            opened: Time::NEVER,
            received: Time::NEVER,
            acked: Time::NEVER,
            sent: 0,
            sent_high: 0,
            retransmitted: 0,
            timeouts: 0,
            fast_retransmits: 0,
            probes: 0,
            dropped: 0,
            syn_timeouts: 0,
            rtt_samples: 0,
            rtt_sum: Span::ZERO,
        }
    }
}

/// Without the timeouts of the handshake and the round trips, which show in when things happened.
impl Hash for ConnectionRecord {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (self.connection, self.app, self.bytes).hash(to);
        (self.opened, self.received, self.acked).hash(to);
        (self.sent, self.sent_high, self.retransmitted, self.timeouts).hash(to);
        (self.fast_retransmits, self.dropped).hash(to);
    }
}

/// What a person has typed and seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EchoRecord {
    /// The application.
    pub app: u32,
    /// Counted from 0.
    pub number: u64,
    /// When it was typed.
    pub start: Time,
}

/// One object of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ObjectRecord {
    /// The application.
    pub app: u32,
    /// Which page, from 0.
    pub page: u32,
    /// Which object, from 0 (the HTML).
    pub object: u32,
    /// Its size.
    pub bytes: u64,
    /// When it was asked for.
    pub start: Time,
}

/// One page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageRecord {
    /// The application.
    pub app: u32,
    /// Which page, from 0.
    pub page: u32,
    /// Its size.
    pub bytes: u64,
    /// Connections used.
    pub connections: u32,
    /// When its HTML was asked for.
    pub start: Time,
}

/// What came back over a connection with a real host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reply {
    /// Number of the connection.
    pub connection: u64,
    /// The application, or [`NOBODY`].
    pub app: u32,
    /// What it called the request.
    pub tag: u64,
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

/// The application of real clients, which have none.
pub const NOBODY: u32 = u32::MAX;

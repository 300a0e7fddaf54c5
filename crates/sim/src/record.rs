//! Events and records of a run.

use crate::{FlowId, TcpId};
use catnip_base::{Span, Time};
use catnip_net::{DropReason, PortId, Priority};
use catnip_tcp::Sender;
use catnip_tcp::control::Phase;
use catnip_tcp::control::validated::Validity;
use std::any::Any;
use std::fmt::Debug;
use std::hash::{Hash, Hasher};

/// Event of a run. The discriminants are part of fingerprints; the missing discriminants belong to activities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(isize)]
pub enum Event {
    /// Transmission of a segment with data or a FIN.
    Sent(SenderView),
    /// Arrival of an ACK at a sender. The sender has processed the ACK, but has not sent segments in response yet.
    Acked(SenderView),
    /// Expiry of a retransmission timer.
    Timeout(SenderView),
    /// Drop of a packet of a connection.
    Dropped {
        /// Number of the connection.
        connection: u64,
        /// First byte of the data; the next byte to be sent if there is none.
        seq: u64,
        /// Size on the wire, bytes.
        wire_bytes: u32,
        /// Port that dropped the packet.
        port: PortId,
        /// Priority of the packet.
        priority: Priority,
        /// Reason of the drop.
        reason: DropReason,
    },
    /// End of a connection: everything is acknowledged, and the last packet has left the network.
    Connection(ConnectionRecord),
    /// Step of a datagram through the network.
    Datagram {
        /// Flow of the datagram.
        flow: FlowId,
        /// Size on the wire, bytes.
        wire_bytes: u32,
        /// Step of the datagram.
        step: DatagramStep,
    } = 7,
    /// Response over a connection with an external host; the record of the object or the connection follows.
    Reply(Reply) = 8,
}

/// Step of a datagram through the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DatagramStep {
    /// Transmission by the source.
    Sent,
    /// Arrival at the sink, with the delay since transmission.
    Received(Span),
    /// Drop at this port for this reason.
    Dropped(PortId, DropReason),
}

/// State of a sender at an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderView {
    /// Number of the connection.
    pub connection: u64,
    /// End of the connection: [`CLIENT`](crate::CLIENT) or [`SERVER`](crate::SERVER).
    pub end: usize,
    /// First byte of the segment sent, acknowledgement number of the ACK, or SND.UNA at a timeout.
    pub seq: u64,
    /// Size of the segment sent or of the ACK on the wire, bytes.
    pub wire_bytes: u32,
    /// Bytes of data in the segment sent; 0 for an ACK or a FIN alone.
    pub data_bytes: u32,
    /// True if the segment sent carries a FIN.
    pub fin: bool,
    /// Priority of the segment sent.
    pub priority: Priority,
    /// True if the data was sent before; always true at a timeout.
    pub retransmission: bool,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Slow-start threshold, bytes; `None` until a threshold is set.
    pub ssthresh: Option<u64>,
    /// Number of consecutive duplicate ACKs.
    pub dupacks: u32,
    /// State of congestion window validation; `None` if the rule of the connection maintains no state.
    pub validity: Option<Validity>,
    /// True during loss recovery that duplicate ACKs or SACK have started.
    pub in_recovery: bool,
    /// Phase of congestion control by which the next ACK would increase cwnd.
    pub phase: Phase,
}

impl SenderView {
    /// Returns the current state of a sender, without a segment or an ACK.
    pub fn new(connection: u64, end: usize, sender: &Sender) -> Self {
        let control = sender.control();
        Self {
            connection,
            end,
            seq: sender.snd_una(),
            wire_bytes: 0,
            data_bytes: 0,
            fin: false,
            priority: Priority::Low,
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

/// Hashes only the fields that do not follow from earlier events, since a fingerprint covers all events.
impl Hash for SenderView {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (self.connection, self.seq, self.wire_bytes, self.priority, self.retransmission).hash(to);
        (self.cwnd, self.ssthresh, self.dupacks).hash(to);
    }
}

/// Step in the transmission of a server's data over a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Number of the connection in order of opening, from 0.
    pub connection: u64,
    /// Application that opened the connection, or [`NO_APP`].
    pub app: u32,
    /// TCP parameters, which identify the traffic group.
    pub tcp: TcpId,
    /// Time at which the connection was opened.
    pub opened: Time,
    /// Bytes written by the server's application so far.
    pub written: u64,
    /// Kind of the step.
    pub step: ServedStep,
}

/// Kind of step in the transmission of a server's data. Bytes count from the first byte that the server sends over the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServedStep {
    /// Transmission of a data segment.
    Sent {
        /// First byte of the segment.
        seq: u64,
        /// Length of the data, bytes.
        bytes: u32,
        /// True if the data was sent before.
        retransmission: bool,
    },
    /// Arrival of an ACK, alone or with data.
    Acked {
        /// SND.UNA after the ACK; a FIN counts as one byte.
        snd_una: u64,
    },
    /// Expiry of the retransmission timer.
    Timeout,
    /// Drop of a data segment.
    Dropped {
        /// Sequence number of the first byte of the segment.
        seq: u64,
    },
}

/// Record of a connection from its opening to its last ACK, for results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionRecord {
    /// Number of the connection in order of opening, from 0.
    pub connection: u64,
    /// Application that opened the connection, or [`NO_APP`].
    pub app: u32,
    /// Bytes of the documents of the server.
    pub bytes: u64,
    /// Time at which the connection was opened.
    pub opened: Time,
    /// Time at which the last byte of the documents reached the client, or [`Time::NEVER`] if it has not arrived.
    pub received: Time,
    /// Time at which both ends had closed and everything was acknowledged, or [`Time::NEVER`] if this has not happened.
    pub acked: Time,
    /// Data segments sent by the server, retransmissions included.
    pub sent: u32,
    /// Packets of the server marked HIGH.
    pub sent_high: u32,
    /// Data segments retransmitted by the server.
    pub retransmitted: u32,
    /// Expiries of the server's retransmission timer.
    pub timeouts: u32,
    /// Fast retransmits of the server.
    pub fast_retransmits: u32,
    /// Tail loss probes of the server.
    pub probes: u32,
    /// Data segments of the server dropped by the network.
    pub dropped: u32,
    /// Retransmissions of handshake segments.
    pub syn_timeouts: u32,
    /// Round-trip times measured by the server.
    pub rtt_samples: u32,
    /// Sum of the round-trip times measured by the server.
    pub rtt_sum: Span,
}

impl ConnectionRecord {
    /// Returns the record of a connection without any event.
    pub fn none() -> Self {
        Self {
            connection: 0,
            app: NO_APP,
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

/// Statistics of a connection that is not over, as in `TCP_INFO` of Linux: the counters of the server's sender, and its windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionStats {
    /// Record of the connection so far.
    pub record: ConnectionRecord,
    /// Bytes of the server that have arrived at the client in order.
    pub delivered: u64,
    /// Congestion window of the server, bytes; `None` if the server has not written any data.
    pub cwnd: Option<u64>,
    /// Slow-start threshold of the server, bytes; `None` if none is set.
    pub ssthresh: Option<u64>,
    /// Data of the server that is sent and not acknowledged (SND.MAX - SND.UNA), bytes.
    pub in_flight: u64,
    /// Smoothed round-trip time of the server; `None` before the first sample.
    pub srtt: Option<Span>,
}

/// Omits the data in flight and the smoothed round-trip time, which follow from earlier events.
impl Hash for ConnectionStats {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (self.record, self.delivered, self.cwnd, self.ssthresh).hash(to);
    }
}

/// Omits the fields whose effects show in other fields or in the times of events: probes, retransmissions of the handshake, and round-trip
/// times.
impl Hash for ConnectionRecord {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (self.connection, self.app, self.bytes).hash(to);
        (self.opened, self.received, self.acked).hash(to);
        (self.sent, self.sent_high, self.retransmitted, self.timeouts).hash(to);
        (self.fast_retransmits, self.dropped).hash(to);
    }
}

/// Activity of an application, such as a page load or a keystroke and its echo. Each kind of activity has its own type of record, which
/// declares the table of results.
pub trait Activity: Any + Debug + HashInto {
    /// Returns the number of the application.
    fn app(&self) -> u32;
    /// Returns the number of bytes that the application requested.
    fn bytes(&self) -> u64 {
        0
    }
    /// Returns the tag of the request if the activity ends with the response to a single request, otherwise `None`.
    fn tag(&self) -> Option<u64> {
        None
    }
}

impl dyn Activity {
    /// Returns the record, or `None` if it is not of type `T`.
    pub fn downcast<T: Activity + Copy>(&self) -> Option<T> {
        (self as &dyn Any).downcast_ref().copied()
    }
}

/// Hashing of a value behind a pointer. All types that implement [`Hash`] implement this trait.
pub trait HashInto {
    /// Adds the value to a hash.
    fn hash_into(&self, to: &mut dyn Hasher);
}

impl<T: Hash> HashInto for T {
    fn hash_into(&self, mut to: &mut dyn Hasher) {
        self.hash(&mut to);
    }
}

/// Response over a connection with an external host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reply {
    /// Number of the connection.
    pub connection: u64,
    /// Number of the application, or [`NO_APP`].
    pub app: u32,
    /// Tag of the request.
    pub tag: u64,
    /// TCP parameters, which identify the traffic group.
    pub tcp: TcpId,
    /// HTTP status code; 0 if there was no response.
    pub status: u16,
    /// Bytes of the response body or bodies.
    pub body_bytes: u64,
    /// FNV-1a hash of the response body, or of the last body if there are several.
    pub digest: u64,
    /// True if the response is complete.
    pub complete: bool,
}

/// Number that means no application, for external clients and for ends without a listener.
pub const NO_APP: u32 = u32::MAX;

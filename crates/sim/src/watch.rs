//! Observers of a world.

use crate::connection_spec::ConnectionSpec;
use crate::record::{Activity, Event, Served};
use catnip_base::{Span, Time};
use catnip_net::{DropReason, NodeId, Packet, PortId};
use catnip_tcp::Segment;

/// Observer of a world. The unit type ignores all events at no cost.
pub trait Watch {
    /// True if the watch needs the events of individual segments. If false, these events are not created.
    const PACKETS: bool;
    /// Records an event of a host or of a segment.
    fn record(&mut self, now: Time, event: &Event);
    /// Records an activity of an application that ends now.
    fn activity(&mut self, _now: Time, _activity: &dyn Activity) {}
    /// Records a step in the transmission of a server's data, if [`Watch::PACKETS`] is true.
    #[inline(always)]
    fn served(&mut self, _now: Time, _step: &Served) {}
    /// Records a packet that a host of the engine has created, before it is recorded as sent and enters the network. No other packet has
    /// the same body until this packet is delivered or dropped.
    #[inline(always)]
    fn created(&mut self, _now: Time, _packet: &Packet, _contents: Created<'_>) {}
    /// Records a step of a packet through the network.
    #[inline(always)]
    fn packet(&mut self, _now: Time, _packet: &Packet, _origin: Origin, _step: Step<'_>) {}
    /// Records data that reached a gateway, but did not become a packet of the network.
    fn gateway(&mut self, _now: Time, _at: NodeId, _event: GatewayEvent<'_>) {}
}

/// Contents of a packet that a host of the engine has created.
#[derive(Clone, Copy, Debug)]
pub enum Created<'a> {
    /// Segment of a connection between two hosts of the engine.
    Segment {
        /// Number of the connection, in order of opening.
        connection: u64,
        /// Sending end: [`CLIENT`](crate::CLIENT) or [`SERVER`](crate::SERVER).
        end: usize,
        /// Client and server.
        spec: &'a ConnectionSpec,
        /// Segment in the packet.
        segment: &'a Segment,
    },
    /// Datagram of padding.
    Datagram {
        /// Source node.
        from: NodeId,
        /// Destination node.
        to: NodeId,
    },
}

/// Step of a packet through the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// Entry into the network, with the bytes of the packet; empty in the simulator.
    Sent(&'a [u8]),
    /// Arrival at this port, which may drop the packet.
    Entered(PortId),
    /// Arrival at the far end of this port's link.
    Passed(PortId),
    /// Creation, at this port, as a copy of the packet with this body. The copy then passes the remaining stages after the wire.
    Copied(PortId, u32),
    /// Corruption of a bit at this port.
    Corrupted(PortId),
    /// Drop at this port for this reason.
    Dropped(PortId, DropReason),
    /// Delivery to this host.
    Delivered(NodeId),
    /// Write by a gateway to its device.
    Egress {
        /// Node of the gateway.
        at: NodeId,
        /// Actual time of the write; the time of the event is the scheduled time.
        actual: Time,
        /// True if the device accepted the packet.
        written: bool,
    },
}

/// Point and time at which a packet entered the network. All origins are equal in the simulator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Number of the packet in order of entry, from 0.
    pub number: u64,
    /// Time of entry.
    pub at: Time,
    /// Host or gateway of entry.
    pub from: NodeId,
    /// Upper bound on the time that the packet waited in a device before it was read.
    pub waited: Span,
}

/// Data that reached a gateway, but did not become a packet of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatewayEvent<'a> {
    /// Refused packet: length in bytes, and reason.
    Refused(u32, Refusal),
    /// Data that a bridge forwarded at once.
    Bridged {
        /// Bytes of the data.
        bytes: &'a [u8],
        /// True if the device accepted the data.
        written: bool,
    },
}

/// Reason for which a packet from a device never enters the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Refusal {
    /// Neither IPv4 nor IPv6.
    NotIp,
    /// Truncated packet, or inconsistent headers.
    Malformed,
    /// Longer than the MTU.
    TooLong,
    /// Multicast, broadcast or link-local destination, which no router forwards.
    LinkScope,
    /// No route, or a route back to the node of arrival.
    NoRoute,
    /// No memory left for packets.
    NoBuffer,
    /// Use of ECN, which makes the historical flag bit meaningless.
    EcnInUse,
    /// Source address that is not behind the device of arrival.
    WrongSource,
}

impl Refusal {
    /// Number of reasons.
    pub const COUNT: usize = 8;
    /// Reasons with their names in results.
    pub const NAMES: [(Self, &'static str); Self::COUNT] = [
        (Self::NotIp, "not_ip"),
        (Self::Malformed, "malformed"),
        (Self::TooLong, "too_long"),
        (Self::LinkScope, "link_scope"),
        (Self::NoRoute, "no_route"),
        (Self::NoBuffer, "no_buffer"),
        (Self::EcnInUse, "ecn_in_use"),
        (Self::WrongSource, "wrong_source"),
    ];
}

impl Watch for () {
    const PACKETS: bool = false;
    #[inline]
    fn record(&mut self, _now: Time, _event: &Event) {}
}

/// Pair of watches, both of which receive every event.
impl<A: Watch, B: Watch> Watch for (A, B) {
    const PACKETS: bool = A::PACKETS || B::PACKETS;
    fn record(&mut self, now: Time, event: &Event) {
        self.0.record(now, event);
        self.1.record(now, event);
    }
    fn activity(&mut self, now: Time, activity: &dyn Activity) {
        self.0.activity(now, activity);
        self.1.activity(now, activity);
    }
    #[inline]
    fn served(&mut self, now: Time, step: &Served) {
        self.0.served(now, step);
        self.1.served(now, step);
    }
    #[inline]
    fn created(&mut self, now: Time, packet: &Packet, contents: Created<'_>) {
        self.0.created(now, packet, contents);
        self.1.created(now, packet, contents);
    }
    #[inline]
    fn packet(&mut self, now: Time, packet: &Packet, origin: Origin, step: Step<'_>) {
        self.0.packet(now, packet, origin, step);
        self.1.packet(now, packet, origin, step);
    }
    fn gateway(&mut self, now: Time, at: NodeId, event: GatewayEvent<'_>) {
        self.0.gateway(now, at, event);
        self.1.gateway(now, at, event);
    }
}

/// Optional watch, which receives every event if present.
impl<W: Watch> Watch for Option<W> {
    const PACKETS: bool = W::PACKETS;
    fn record(&mut self, now: Time, event: &Event) {
        self.iter_mut().for_each(|watch| watch.record(now, event));
    }
    fn activity(&mut self, now: Time, activity: &dyn Activity) {
        self.iter_mut().for_each(|watch| watch.activity(now, activity));
    }
    #[inline]
    fn served(&mut self, now: Time, step: &Served) {
        self.iter_mut().for_each(|watch| watch.served(now, step));
    }
    #[inline]
    fn created(&mut self, now: Time, packet: &Packet, contents: Created<'_>) {
        self.iter_mut().for_each(|watch| watch.created(now, packet, contents));
    }
    #[inline]
    fn packet(&mut self, now: Time, packet: &Packet, origin: Origin, step: Step<'_>) {
        self.iter_mut().for_each(|watch| watch.packet(now, packet, origin, step));
    }
    fn gateway(&mut self, now: Time, at: NodeId, event: GatewayEvent<'_>) {
        self.iter_mut().for_each(|watch| watch.gateway(now, at, event));
    }
}

//! Who hears what happens in a world.

use crate::parties::Parties;
use crate::record::{Event, Served};
use catnip_base::{Span, Time};
use catnip_net::{DropReason, NodeId, Packet, PortId};
use catnip_tcp::Segment;

/// Hears what happens. The unit type hears nothing and costs nothing.
pub trait Watch {
    /// Does it want to hear of each segment? If not, those events are not even made.
    const PACKETS: bool;
    /// Something happened at a host, or to a segment.
    fn record(&mut self, now: Time, event: &Event);
    /// What a server sends has come so far, if it wants to hear of segments.
    #[inline(always)]
    fn served(&mut self, _now: Time, _what: &Served) {}
    /// A host of the engine has made this packet, which is recorded and enters the network next. Until it is delivered or
    /// dropped, no other packet has the same body.
    #[inline(always)]
    fn made(&mut self, _now: Time, _packet: &Packet, _what: Made<'_>) {}
    /// A packet has come so far on its way.
    #[inline(always)]
    fn packet(&mut self, _now: Time, _packet: &Packet, _origin: Origin, _step: Step<'_>) {}
    /// Something that never became a packet of the network came to a gateway.
    fn gate(&mut self, _now: Time, _at: NodeId, _what: Gate<'_>) {}
}

/// What a host has made a packet of.
#[derive(Clone, Copy, Debug)]
pub enum Made<'a> {
    /// A segment of a connection between two hosts of the engine.
    Segment {
        /// Its number, in order of opening.
        connection: u64,
        /// The end that sends: [`CLIENT`](crate::CLIENT) or [`SERVER`](crate::SERVER).
        end: usize,
        /// Who is at both ends.
        parties: &'a Parties,
        /// What the packet carries.
        segment: &'a Segment,
    },
    /// Bytes that mean nothing.
    Datagram {
        /// The source.
        from: NodeId,
        /// The sink.
        to: NodeId,
    },
}

/// A step on the way of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// It enters the network; a medium of numbers shows no bytes.
    Sent(&'a [u8]),
    /// It comes to this port, which may drop it.
    Entered(PortId),
    /// It has come from this port to the other end of its link.
    Passed(PortId),
    /// It has come out of this port as a copy of the packet with this body, and passes what is left behind the wire.
    Copied(PortId, u32),
    /// It has come out of this port with a bit that is wrong.
    Corrupted(PortId),
    /// It is gone.
    Dropped(PortId, DropReason),
    /// A host has it.
    Delivered(NodeId),
    /// A gateway has written it to its device.
    Left {
        /// The gateway.
        at: NodeId,
        /// When it was written; it should have been at the time of the event.
        actual: Time,
        /// The device took it.
        written: bool,
    },
}

/// Where and when a packet entered the network. In a medium of numbers all of them are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Counted from 0 in order of entering.
    pub number: u64,
    /// When.
    pub at: Time,
    /// At this host or gateway.
    pub from: NodeId,
    /// How long it had waited in a device before it was read, at most.
    pub waited: Span,
}

/// What became of something that came to a gateway and never was a packet of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate<'a> {
    /// A packet of this length was not let in.
    Refused(u32, Refusal),
    /// A bridge has handed these bytes over at once; the device may have refused them.
    Bridged {
        /// All of them.
        bytes: &'a [u8],
        /// The device took them.
        written: bool,
    },
}

/// Why a packet from a device never enters the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Refusal {
    /// Neither IPv4 nor IPv6.
    NotIp,
    /// Cut, or its headers contradict it or themselves.
    Malformed,
    /// Longer than the MTU.
    TooLong,
    /// Multicast, broadcast or link-local: what no router forwards.
    LinkScope,
    /// It leads nowhere, or back where it came from.
    NoRoute,
    /// There is no memory left for packets.
    NoBuffer,
    /// It uses ECN, so the historical flag bit says nothing.
    EcnInUse,
    /// Its source address is not behind the device from which it came.
    WrongSource,
}

impl Refusal {
    /// How many reasons there are.
    pub const COUNT: usize = 8;
    /// Every reason with its name in results.
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

/// Both of them hear everything.
impl<A: Watch, B: Watch> Watch for (A, B) {
    const PACKETS: bool = A::PACKETS || B::PACKETS;
    fn record(&mut self, now: Time, event: &Event) {
        self.0.record(now, event);
        self.1.record(now, event);
    }
    #[inline]
    fn served(&mut self, now: Time, what: &Served) {
        self.0.served(now, what);
        self.1.served(now, what);
    }
    #[inline]
    fn made(&mut self, now: Time, packet: &Packet, what: Made<'_>) {
        self.0.made(now, packet, what);
        self.1.made(now, packet, what);
    }
    #[inline]
    fn packet(&mut self, now: Time, packet: &Packet, origin: Origin, step: Step<'_>) {
        self.0.packet(now, packet, origin, step);
        self.1.packet(now, packet, origin, step);
    }
    fn gate(&mut self, now: Time, at: NodeId, what: Gate<'_>) {
        self.0.gate(now, at, what);
        self.1.gate(now, at, what);
    }
}

/// Hears everything, if it is there.
impl<W: Watch> Watch for Option<W> {
    const PACKETS: bool = W::PACKETS;
    fn record(&mut self, now: Time, event: &Event) {
        self.iter_mut().for_each(|watch| watch.record(now, event));
    }
    #[inline]
    fn served(&mut self, now: Time, what: &Served) {
        self.iter_mut().for_each(|watch| watch.served(now, what));
    }
    #[inline]
    fn made(&mut self, now: Time, packet: &Packet, what: Made<'_>) {
        self.iter_mut().for_each(|watch| watch.made(now, packet, what));
    }
    #[inline]
    fn packet(&mut self, now: Time, packet: &Packet, origin: Origin, step: Step<'_>) {
        self.iter_mut().for_each(|watch| watch.packet(now, packet, origin, step));
    }
    fn gate(&mut self, now: Time, at: NodeId, what: Gate<'_>) {
        self.iter_mut().for_each(|watch| watch.gate(now, at, what));
    }
}

use super::{BufferBounds, Capacity, PortContext};
use crate::shape::RateSpec;
use crate::{Meter, Packet, Priority, Sla};
use catnip_base::notation::{Notation, Written};
use catnip_base::{ParseError, Span, Time, WireTime};

/// Configuration of a buffer from which packets leave through token buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gated {
    /// Buffer limit for all priorities and connections together, the packet in transmission included.
    pub limit: Capacity,
    /// SLA with the token buckets of HIGH and MED packets.
    pub sla: Sla,
}

impl Gated {
    pub(super) fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        Ok(Self { limit: Capacity::read(text)?, sla: Sla::read(text)? })
    }

    pub(super) fn write(&self, name: &str, to: &mut Written) {
        self.sla.write(to.name(name).value(self.limit));
    }

    /// Returns the buffer bounds. No packet is guaranteed to fit, because a packet larger than the token bucket of its priority is always
    /// dropped.
    pub(super) fn buffer_bounds(&self) -> BufferBounds {
        BufferBounds { guaranteed: 0, ..self.limit.buffer_bounds() }
    }
}

/// Priorities in order of service, the highest first.
pub(super) const SERVED_FIRST: [Priority; Priority::COUNT] =
    [Priority::High, Priority::Medium, Priority::Low];

/// Token buckets in front of a wire. A packet takes its tokens at the time at which its last bit leaves the wire. A policer at the other
/// end with the same SLA then never drops or remarks the packet. On a wire without a constant rate a packet takes its tokens at the start
/// of its transmission.
#[derive(Debug)]
pub(super) struct Gate {
    meter: Meter,
    sla: Sla,
    /// Copy of the wire; `None` if the rate of the wire is not constant.
    wire: Option<WireTime>,
}

impl Gate {
    pub(super) fn new(sla: &Sla, context: &PortContext<'_>) -> Self {
        let wire =
            if let RateSpec::Constant(rate) = context.rate { Some(WireTime::new(*rate)) } else { None };
        Self { meter: Meter::new(sla), sla: *sla, wire }
    }

    /// Returns true if the packet can ever conform.
    pub(super) fn fits(&self, packet: &Packet) -> bool {
        self.sla.fits(packet.dscp.priority(), packet.len)
    }

    /// Returns true if a packet whose transmission would begin at `start` conforms. If it conforms, takes its tokens.
    pub(super) fn admits(&mut self, start: Time, packet: &Packet) -> bool {
        let mut wire = self.wire.clone();
        let end = wire.as_mut().map_or(start, |wire| wire.finish(start, packet.len));
        let admits = self.meter.admits(end, packet.dscp.priority(), packet.len);
        if admits {
            self.wire = wire;
        }
        admits
    }

    /// Returns the earliest time at which the transmission of the packet can start if no other packet starts before it.
    pub(super) fn ready_at(&self, packet: &Packet) -> Time {
        let ready = self.meter.ready_at(packet.dscp.priority(), packet.len);
        // Transmission time on an idle wire. On a busy wire, the last bit leaves at the same time or later.
        let transmission_time =
            self.wire.as_ref().map_or(Span::ZERO, |wire| wire.rate().time_of(packet.len.into()));
        Time::ZERO + ready.since(Time::ZERO + transmission_time)
    }
}

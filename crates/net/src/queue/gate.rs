use super::{Capacity, Holds, Site};
use crate::shape::RateSpec;
use crate::{Colour, Meter, Packet, Sla};
use catnip_base::notation::{Notation, Written};
use catnip_base::{ParseError, Span, Time, WireTime};

/// A buffer behind token buckets, as configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gated {
    /// What fits of all priorities and connections together, the packet in transmission included.
    pub limit: Capacity,
    /// What it lets through.
    pub sla: Sla,
}

impl Gated {
    pub(super) fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        Ok(Self { limit: Capacity::read(text)?, sla: Sla::read(text)? })
    }

    pub(super) fn write(&self, name: &str, to: &mut Written) {
        self.sla.write(to.name(name).value(self.limit));
    }

    /// A packet beyond the depth of its bucket never passes, whatever the room.
    pub(super) fn holds(&self) -> Holds {
        Holds { surely: 0, ..self.limit.holds() }
    }
}

/// The order in which priorities are served, the highest first.
pub(super) const SERVED_FIRST: [Colour; Colour::COUNT] = [Colour::Green, Colour::Yellow, Colour::Red];

/// Token buckets through which a wire is entered. A packet counts when its last bit leaves the wire: that is when a policer at
/// the other end sees it, which with the same contract then lets all of it pass. On a wire of recorded rate it counts
/// when its first bit leaves.
#[derive(Debug)]
pub(super) struct Gate {
    meter: Meter,
    sla: Sla,
    /// A copy of the wire, if it takes time.
    wire: Option<WireTime>,
}

impl Gate {
    pub(super) fn new(sla: &Sla, site: &Site<'_>) -> Self {
        let wire = if let RateSpec::Constant(rate) = site.rate { Some(WireTime::new(*rate)) } else { None };
        Self { meter: Meter::new(sla), sla: *sla, wire }
    }

    /// Can such a packet ever pass?
    pub(super) fn fits(&self, packet: &Packet) -> bool {
        self.sla.fits(packet.dscp.colour(), packet.len)
    }

    /// Lets a packet pass that would start now, if it conforms.
    pub(super) fn admits(&mut self, start: Time, packet: &Packet) -> bool {
        let mut wire = self.wire.clone();
        let end = wire.as_mut().map_or(start, |wire| wire.finish(start, packet.len));
        let admits = self.meter.admits(end, packet.dscp.colour(), packet.len);
        if admits {
            self.wire = wire;
        }
        admits
    }

    /// When the packet can start if no other one does so before.
    pub(super) fn ready_at(&self, packet: &Packet) -> Time {
        let ready = self.meter.ready_at(packet.dscp.colour(), packet.len);
        // On a wire that was idle; if it was not, the last bit leaves no earlier.
        let takes = self.wire.as_ref().map_or(Span::ZERO, |wire| wire.rate().time_of(packet.len.into()));
        Time::ZERO + ready.since(Time::ZERO + takes)
    }
}

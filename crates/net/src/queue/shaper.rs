use super::{Holds, Places, QueueDiscipline, QueueKind, Site};
use crate::shape::RateSpec;
use crate::{Backlog, Colour, DropReason, Fate, Meter, Packet, Sla};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Span, Time, WireTime};
use std::collections::VecDeque;

/// The shaper of a source (DiffServ paper, application-based marking; RFC 2475, section 2.3.3.3), as configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShaperSpec {
    /// Packets of all priorities together, the one in transmission included.
    pub limit: Places,
    /// What it lets through.
    pub sla: Sla,
}

/// What is expected of the limit of a buffer behind token buckets.
pub(super) const EXPECTED_LIMIT: &str = "a limit in packets, at least 2 packets";

impl Kind for ShaperSpec {
    const USAGE: &'static [Usage] = &[(
        "shaper:LIMIT,high=RATE/DEPTH[,med=RATE/DEPTH]",
        "a FIFO for each priority; HIGH and MED wait for the tokens of their bucket; LIMIT as that of drop-tail",
    )];
    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        Ok(Self { limit: text.value(EXPECTED_LIMIT)?, sla: Sla::read(text)? })
    }
    fn write(&self, to: &mut Written) {
        self.sla.write(to.name("shaper").value(self.limit));
    }
}

impl QueueKind for ShaperSpec {
    type Queue = Box<ShaperQueue>;
    fn build(&self, site: &Site<'_>) -> Box<ShaperQueue> {
        Box::new(ShaperQueue {
            fifos: Default::default(),
            backlog: Backlog::default(),
            waiting: self.limit.waiting().get(),
            gate: Gate::new(&self.sla, site),
            wake_at: None,
        })
    }
    /// A packet beyond the depth of its bucket never passes, whatever the room.
    fn holds(&self) -> Holds {
        Holds { surely: 0, at_most: Some(self.limit.all()) }
    }
    fn conserves_work(&self) -> bool {
        false
    }
}

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

/// The order in which priorities are served, the highest first.
pub(super) const SERVED_FIRST: [Colour; Colour::COUNT] = [Colour::Green, Colour::Yellow, Colour::Red];

/// Three FIFOs in one buffer: the highest priority whose first packet conforms goes first, and LOW always conforms.
#[derive(Debug)]
pub struct ShaperQueue {
    /// By colour.
    fifos: [VecDeque<Packet>; Colour::COUNT],
    backlog: Backlog,
    waiting: u32,
    gate: Gate,
    /// When the first of those that wait will conform, as far as nobody could go when it was asked last.
    wake_at: Option<Time>,
}

impl QueueDiscipline for ShaperQueue {
    fn enqueue(&mut self, now: Time, packet: Packet, fate: &mut dyn Fate) {
        if !self.gate.fits(&packet) {
            return fate.dropped(now, packet, DropReason::Policed);
        }
        if self.backlog.packets >= self.waiting {
            return fate.dropped(now, packet, DropReason::Overflow);
        }
        self.backlog.add(&packet);
        self.fifos[packet.dscp.colour() as usize].push_back(packet);
    }

    fn dequeue(&mut self, now: Time, _fate: &mut dyn Fate) -> Option<Packet> {
        self.wake_at = None;
        for colour in SERVED_FIRST {
            let fifo = &mut self.fifos[colour as usize];
            let Some(first) = fifo.front() else { continue };
            if self.gate.admits(now, first) {
                let packet = fifo.pop_front()?;
                self.backlog.remove(&packet);
                return Some(packet);
            }
            let ready = self.gate.ready_at(first);
            self.wake_at = Some(self.wake_at.map_or(ready, |other| other.min(ready)));
        }
        None
    }

    fn wake_at(&self) -> Option<Time> {
        self.wake_at
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }
}

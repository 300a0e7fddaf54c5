use super::policer::highest_conforming;
use super::{Stage, StageKind};
use crate::{DropReason, Meter, Packet, Priority, Sla};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Rng, Time};

/// Configuration of a token bucket marker at an edge router, which has no state of connections (ER-TBM of the DiffServ paper).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TbMarkerSpec {
    /// SLA with the token buckets of HIGH and MED packets.
    pub sla: Sla,
}

impl Kind for TbMarkerSpec {
    const USAGE: &'static [Usage] = &[(
        "tb-marker:high=RATE/DEPTH[,med=RATE/DEPTH,share=PERCENT]",
        "marks packets within the token bucket of HIGH as HIGH, packets within that of MED as MED, others as LOW",
    )];
    const EXAMPLES: &'static [&'static str] = &["tb-marker:high=250kbit/6000B,med=500kbit/6000B"];
    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        Ok(Self { sla: Sla::read_with_share(text)? })
    }
    fn write(&self, to: &mut Written) {
        self.sla.write(to.name("tb-marker"));
    }
}

impl StageKind for TbMarkerSpec {
    type Stage = Box<TbMarker>;
    fn build(&self, _rng: Rng) -> Box<TbMarker> {
        Box::new(TbMarker(Meter::new(&self.sla)))
    }
    fn sla(&self) -> Option<Sla> {
        Some(self.sla)
    }
}

/// Marker that replaces the priority of packets and keeps their class.
#[derive(Debug)]
pub struct TbMarker(Meter);

impl Stage for TbMarker {
    fn pass(&mut self, now: Time, packet: &mut Packet) -> Result<(), DropReason> {
        self.0.earn(packet.len);
        let priority = highest_conforming(&mut self.0, now, packet.len, Priority::High);
        packet.dscp = packet.dscp.with_priority(priority);
        Ok(())
    }
}

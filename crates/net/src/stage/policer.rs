use super::{Stage, StageKind};
use crate::{DropReason, Meter, Packet, Priority, Sla};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Rng, Time, keywords};

/// Configuration of a policer (RFC 2475, section 2.3.3.4) at the edge of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicerSpec {
    /// SLA with the profiles of HIGH and MED packets.
    pub sla: Sla,
    /// Action on packets beyond their profile.
    pub action: PolicerAction,
}

keywords! {
    /// Action of a policer on a packet beyond its profile.
    #[derive(Default)]
    pub enum PolicerAction {
        /// Remarking to the next lower priority, followed by a check against the profile of that priority.
        #[default]
        Remark = ("remark", "marks the packet one priority lower"),
        /// Drop of the packet.
        Drop = ("drop", "drops the packet"),
    }
}

impl Kind for PolicerSpec {
    const USAGE: &'static [Usage] = &[(
        "policer:high=RATE/DEPTH[,med=RATE/DEPTH,share=PERCENT,action=remark|drop]",
        "marks HIGH and MED packets beyond their token bucket one priority lower, or drops them; each may have a share of all packets, too",
    )];
    const EXAMPLES: &'static [&'static str] = &[
        "policer:high=250kbit/6000B",
        "policer:high=250kbit/6000B,med=500kbit/6000B,action=drop",
        "policer:high=8kbit/30000B,share=50%",
    ];
    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let sla = Sla::read_with_share(text)?;
        let action = text.take("action").map_or(Ok(PolicerAction::default()), str::parse);
        Ok(Self { sla, action: action.map_err(|_| text.error("action=remark or drop"))? })
    }
    fn write(&self, to: &mut Written) {
        self.sla.write(to.name("policer")).option("action", self.action, PolicerAction::default());
    }
}

impl StageKind for PolicerSpec {
    type Stage = Box<Policer>;
    fn build(&self, _rng: Rng) -> Box<Policer> {
        Box::new(Policer { meter: Meter::new(&self.sla), action: self.action })
    }
    fn sla(&self) -> Option<Sla> {
        Some(self.sla)
    }
    fn reads_priority(&self) -> bool {
        true
    }
}

/// Policer that checks packets against an SLA; LOW packets are not limited.
#[derive(Debug)]
pub struct Policer {
    meter: Meter,
    action: PolicerAction,
}

impl Stage for Policer {
    fn pass(&mut self, now: Time, packet: &mut Packet) -> Result<(), DropReason> {
        let current = packet.dscp.priority();
        self.meter.earn(packet.len);
        match self.action {
            PolicerAction::Drop if self.meter.admits(now, current, packet.len) => Ok(()),
            PolicerAction::Drop => Err(DropReason::Policed),
            PolicerAction::Remark => {
                let priority = highest_conforming(&mut self.meter, now, packet.len, current);
                if priority != current {
                    packet.dscp = packet.dscp.with_priority(priority);
                }
                Ok(())
            }
        }
    }
}

/// Returns the highest priority at or below `from` to whose profile a packet conforms, and takes the tokens of the packet.
pub(super) fn highest_conforming(meter: &mut Meter, now: Time, len: u32, from: Priority) -> Priority {
    let descending = Priority::DROPPED_FIRST.into_iter().rev().skip_while(|&priority| priority != from);
    descending.into_iter().find(|&priority| meter.admits(now, priority, len)).unwrap_or(Priority::Low)
}

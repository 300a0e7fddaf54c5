use super::red::{Red, RedSpec};
use super::victim::VictimRule;
use super::{Holds, QueueKind, Site};
use catnip_base::ParseError;
use catnip_base::notation::{Kind, Notation, Usage, Written};

/// Configuration of CATNIP-RED: RED decides when a packet is dropped, CATNIP which one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CatnipRedSpec {
    /// Buffer limit and parameters of RED.
    pub red: RedSpec,
    /// Rule that selects the LOW packet to push out.
    pub victim: VictimRule,
}

impl Kind for CatnipRedSpec {
    const USAGE: &'static [Usage] =
        &[("catnip-red:LIMIT[,…]", "RED decides when a packet goes, a LOW one goes first")];
    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        Ok(Self { red: RedSpec::read(text)?, victim: VictimRule::read(text)? })
    }
    fn write(&self, to: &mut Written) {
        self.red.write_numbers(to.name("catnip-red")).option("victim", self.victim, VictimRule::default());
    }
}

impl QueueKind for CatnipRedSpec {
    type Queue = Box<Red>;
    fn build(&self, site: &Site<'_>) -> Box<Red> {
        Box::new(self.red.build(site).with_victims(self.victim, site.victims()))
    }
    fn holds(&self) -> Holds {
        self.red.holds()
    }
    fn counts_packets(&self) -> bool {
        self.red.counts_packets()
    }
}

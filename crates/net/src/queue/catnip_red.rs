use super::red::{Red, RedSpec};
use super::victim::VictimRule;
use super::{BufferBounds, PortContext, QueueKind, QueueTraits};
use catnip_base::ParseError;
use catnip_base::notation::{Kind, Notation, Usage, Written};

/// Configuration of CATNIP-RED: RED decides when a packet is dropped, and the rule of CATNIP selects the packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CatnipRedSpec {
    /// Buffer limit and parameters of RED.
    pub red: RedSpec,
    /// Rule that selects the LOW packet to push out.
    pub victim: VictimRule,
}

impl Kind for CatnipRedSpec {
    const USAGE: &'static [Usage] = &[(
        "catnip-red:LIMIT[,…]",
        "RED that drops a queued LOW packet, if there is one, instead of an arriving HIGH packet; parameters of red and catnip-good",
    )];
    const EXAMPLES: &'static [&'static str] = &[
        "catnip-red:6,min=1,max=4,weight=0.2,max_p=0.3",
        "catnip-red:4000B,min=500B,max=2000B,weight=0.3,victim=oldest",
    ];
    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        Ok(Self { red: RedSpec::read(text)?, victim: VictimRule::read(text)? })
    }
    fn write(&self, to: &mut Written) {
        self.red.write_numbers(to.name("catnip-red")).option("victim", self.victim, VictimRule::default());
    }
}

impl QueueKind for CatnipRedSpec {
    type Queue = Red;
    fn build(&self, context: &PortContext<'_>) -> Red {
        self.red.build(context).with_victims(self.victim, context.victim_rng())
    }
    fn buffer_bounds(&self) -> BufferBounds {
        self.red.buffer_bounds()
    }
    fn counts_packets(&self) -> bool {
        self.red.counts_packets()
    }
    fn traits(&self) -> QueueTraits {
        QueueTraits { reads_priority: true, ..self.red.traits() }
    }
}

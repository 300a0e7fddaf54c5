use super::{Stage, StageKind, lost_if};
use crate::{DropReason, OutageSpec, Outages, Packet};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Rng, Time};

/// Configuration of the loss of all packets that arrive while the link is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutageLossSpec(pub OutageSpec);

impl Kind for OutageLossSpec {
    const USAGE: &'static [Usage] = &[
        (
            "outage:every=30s,for=2s[,first=10s]",
            "loses all packets during periodic outages: 2 s every 30 s, the first one after 10 s",
        ),
        (
            "outage:mean_up=30s,mean_down=2s",
            "loses all packets during random outages: exponentially distributed times up and down with these means",
        ),
    ];
    const EXAMPLES: &'static [&'static str] =
        &["outage:every=2s,for=100ms", "outage:mean_up=1s,mean_down=50ms"];
    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        OutageSpec::read(text).map(Self)
    }
    fn write(&self, to: &mut Written) {
        self.0.write(to.name("outage"));
    }
}

impl StageKind for OutageLossSpec {
    type Stage = Box<OutageLoss>;
    fn build(&self, rng: Rng) -> Box<OutageLoss> {
        Box::new(OutageLoss(Outages::new(self.0, rng)))
    }
}

/// Stage that drops all packets that arrive while a link is down.
#[derive(Debug)]
pub struct OutageLoss(Outages);

impl Stage for OutageLoss {
    fn pass(&mut self, now: Time, _packet: &mut Packet) -> Result<(), DropReason> {
        lost_if(self.0.is_down(now))
    }
}

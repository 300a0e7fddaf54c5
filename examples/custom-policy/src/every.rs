use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Rng, Time};
use catnip_net::stage::{Stage, StageKind};
use catnip_net::{DropReason, Packet};
use std::num::NonZeroU64;

/// Configuration of [`Every`], `every:N` in a scenario.
#[derive(Debug)]
pub(crate) struct EverySpec(NonZeroU64);

impl Kind for EverySpec {
    const USAGE: &'static [Usage] = &[("every:N", "loses each N-th packet")];
    const EXAMPLES: &'static [&'static str] = &["every:3"];
    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        text.value("a number above zero, as in every:500").map(Self)
    }
    fn write(&self, to: &mut Written) {
        to.name("every").value(self.0);
    }
}

impl StageKind for EverySpec {
    type Stage = Box<dyn Stage>;
    fn build(&self, _rng: Rng) -> Self::Stage {
        Box::new(Every { each: self.0, passed: 0 })
    }
}

/// Loss model that drops every N-th packet.
#[derive(Debug)]
pub(crate) struct Every {
    each: NonZeroU64,
    passed: u64,
}

impl Stage for Every {
    fn pass(&mut self, _now: Time, _packet: &mut Packet) -> Result<(), DropReason> {
        self.passed += 1;
        if self.passed.is_multiple_of(self.each.get()) { Err(DropReason::Loss) } else { Ok(()) }
    }
}

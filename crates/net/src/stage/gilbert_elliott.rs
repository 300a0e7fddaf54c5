use super::{Stage, StageKind, lost_if};
use crate::{DropReason, Packet};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Rng, Time};

/// Two states with a loss probability each (Gilbert 1960, Elliott 1963); it begins in the good one. A probability of 1
/// is of use: Gilbert's channel loses everything while it is bad.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GilbertElliottSpec {
    /// Good to bad, per packet.
    pub to_bad: f64,
    /// Bad to good, per packet.
    pub to_good: f64,
    /// Loss while good.
    pub loss_good: f64,
    /// Loss while bad.
    pub loss_bad: f64,
}

impl Default for GilbertElliottSpec {
    fn default() -> Self {
        Self { to_bad: 0.01, to_good: 0.3, loss_good: 0.0, loss_bad: 0.5 }
    }
}

impl Kind for GilbertElliottSpec {
    const USAGE: &'static [Usage] = &[(
        "gilbert-elliott[:to_bad=0.01,to_good=0.3,loss_good=0,loss_bad=0.5]",
        "loses packets in bursts: two states with a loss probability each",
    )];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let usual = Self::default();
        let mut probability = |key, usual| {
            let value = text.option(key, usual)?;
            if (0.0..=1.0).contains(&value) { Ok(value) } else { Err(text.error("probabilities in [0, 1]")) }
        };
        Ok(Self {
            to_bad: probability("to_bad", usual.to_bad)?,
            to_good: probability("to_good", usual.to_good)?,
            loss_good: probability("loss_good", usual.loss_good)?,
            loss_bad: probability("loss_bad", usual.loss_bad)?,
        })
    }

    fn write(&self, to: &mut Written) {
        let usual = Self::default();
        to.name("gilbert-elliott")
            .option("to_bad", self.to_bad, usual.to_bad)
            .option("to_good", self.to_good, usual.to_good)
            .option("loss_good", self.loss_good, usual.loss_good)
            .option("loss_bad", self.loss_bad, usual.loss_bad);
    }
}

impl StageKind for GilbertElliottSpec {
    type Stage = GilbertElliott;
    fn build(&self, rng: Rng) -> GilbertElliott {
        GilbertElliott {
            change: [self.to_bad, self.to_good],
            loss: [self.loss_good, self.loss_bad],
            bad: false,
            rng,
        }
    }
}

/// Losses in bursts.
#[derive(Debug)]
pub struct GilbertElliott {
    change: [f64; 2],
    loss: [f64; 2],
    bad: bool,
    rng: Rng,
}

impl Stage for GilbertElliott {
    fn pass(&mut self, _now: Time, _packet: &mut Packet) -> Result<(), DropReason> {
        if self.rng.chance(self.change[usize::from(self.bad)]) {
            self.bad = !self.bad;
        }
        lost_if(self.rng.chance(self.loss[usize::from(self.bad)]))
    }
}

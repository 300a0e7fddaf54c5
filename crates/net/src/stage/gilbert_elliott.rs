use super::{Stage, StageKind, lost_if};
use crate::{DropReason, Packet};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Rng, Share, Time};

/// Configuration of a loss channel with two states and a loss probability for each (Gilbert 1960, Elliott 1963). The channel begins in the
/// good state. A loss probability may be 1: Gilbert's channel loses all packets in the bad state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GilbertElliottSpec {
    /// Transition probability from good to bad, per packet.
    pub to_bad: f64,
    /// Transition probability from bad to good, per packet.
    pub to_good: f64,
    /// Loss probability in the good state.
    pub loss_good: f64,
    /// Loss probability in the bad state.
    pub loss_bad: f64,
}

impl Kind for GilbertElliottSpec {
    const USAGE: &'static [Usage] = &[(
        "gilbert-elliott:to_bad=P,to_good=P,loss_bad=P[,loss_good=0]",
        "loses packets in bursts: a good and a bad state, each with a loss probability; to_bad and to_good are the transition \
         probabilities, per packet",
    )];
    const EXAMPLES: &'static [&'static str] =
        &["gilbert-elliott:to_bad=0.02,to_good=0.3,loss_good=0.01,loss_bad=0.5"];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let mut probability = |key| match text.optional(key)? {
            Some(Share(value)) if !(0.0..=1.0).contains(&value) => Err(text.error("probabilities in [0, 1]")),
            value => Ok(value.map(|Share(value)| value)),
        };
        let values = [probability("to_bad")?, probability("to_good")?, probability("loss_bad")?];
        let loss_good = probability("loss_good")?.unwrap_or(0.0);
        let [Some(to_bad), Some(to_good), Some(loss_bad)] = values else {
            return Err(text.error("to_bad=, to_good= and loss_bad=, and loss_good= if it is not 0"));
        };
        Ok(Self { to_bad, to_good, loss_good, loss_bad })
    }

    fn write(&self, to: &mut Written) {
        to.name("gilbert-elliott")
            .key("to_bad", self.to_bad)
            .key("to_good", self.to_good)
            .option("loss_good", self.loss_good, 0.0)
            .key("loss_bad", self.loss_bad);
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

/// Loss model with bursts, by a channel with a good and a bad state.
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

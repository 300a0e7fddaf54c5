use super::{Stage, StageKind, lost_if};
use crate::{DropReason, Packet};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Rng, Share, Time};

/// Configuration of the general loss model of netem (`loss state`; Salsano, Ludovici, Ordine and Giannuzzi, "Definition
/// of a general and intuitive loss model for packet networks", 2009): a Markov chain that takes a step per packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FourStateSpec {
    /// Transition probability from good reception to loss in a burst.
    pub p13: f64,
    /// Transition probability from loss in a burst to good reception.
    pub p31: f64,
    /// Transition probability from loss in a burst to reception within it.
    pub p32: f64,
    /// Transition probability from reception within a burst back to loss.
    pub p23: f64,
    /// Transition probability from good reception to an isolated loss, which is always followed by good reception.
    pub p14: f64,
}

const DEFAULT: [(&str, f64); 3] = [("p32", 0.0), ("p23", 1.0), ("p14", 0.0)];

impl Kind for FourStateSpec {
    const USAGE: &'static [Usage] = &[(
        "four-state:p13=P[,p31=1-p13,p32=0,p23=1,p14=0]",
        "loss state of netem: a Markov chain of good reception (1), reception within a burst of losses (2), loss in a burst (3) and \
         isolated loss (4); pNM is the transition probability from N to M, per packet",
    )];
    const EXAMPLES: &'static [&'static str] = &["four-state:p13=0.1,p31=0.5,p32=0.25,p23=0.3"];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let p13 = text.optional("p13")?.map(|Share(value)| value);
        let Some(p13) = p13 else {
            return Err(text.error("p13=, the probability that a burst of losses begins"));
        };
        let Share(p31) = text.option("p31", Share(1.0 - p13))?;
        let mut others = [0.0; DEFAULT.len()];
        for (value, (key, default)) in others.iter_mut().zip(DEFAULT) {
            Share(*value) = text.option(key, Share(default))?;
        }
        let [p32, p23, p14] = others;
        let all = [p13, p31, p32, p23, p14, p13 + p14, p31 + p32];
        if !all.iter().all(|value| (0.0..=1.0).contains(value)) {
            return Err(text.error("probabilities in [0, 1], and p13 + p14 and p31 + p32 in [0, 1]"));
        }
        Ok(Self { p13, p31, p32, p23, p14 })
    }

    fn write(&self, to: &mut Written) {
        to.name("four-state").key("p13", self.p13).option("p31", self.p31, 1.0 - self.p13);
        for ((key, default), value) in DEFAULT.into_iter().zip([self.p32, self.p23, self.p14]) {
            to.option(key, value, default);
        }
    }
}

impl StageKind for FourStateSpec {
    type Stage = Box<FourState>;
    fn build(&self, rng: Rng) -> Box<FourState> {
        Box::new(FourState { spec: *self, state: State::Good, rng })
    }
}

/// Loss model that drops packets in the loss states of a Markov chain.
#[derive(Debug)]
pub struct FourState {
    spec: FourStateSpec,
    state: State,
    rng: Rng,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Good,
    GoodInBurst,
    LostInBurst,
    LostAlone,
}

impl Stage for FourState {
    fn pass(&mut self, _now: Time, _packet: &mut Packet) -> Result<(), DropReason> {
        let (p, drawn) = (&self.spec, self.rng.uniform());
        self.state = match self.state {
            State::Good if drawn < p.p14 => State::LostAlone,
            State::Good if drawn < p.p14 + p.p13 => State::LostInBurst,
            State::GoodInBurst if drawn >= p.p23 => State::GoodInBurst,
            State::GoodInBurst => State::LostInBurst,
            State::LostInBurst if drawn < p.p32 => State::GoodInBurst,
            State::LostInBurst if drawn >= p.p32 + p.p31 => State::LostInBurst,
            State::Good | State::LostInBurst | State::LostAlone => State::Good,
        };
        lost_if(matches!(self.state, State::LostInBurst | State::LostAlone))
    }
}

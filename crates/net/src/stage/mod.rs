//! What happens to packets on their way to a queue, or behind it. A kind of stage is one file, and one line of
//! [`StageSpec`].

mod bernoulli;
mod by_priority;
mod corrupt;
mod duplicate;
mod four_state;
mod gilbert_elliott;
mod late;
mod mark_list;
mod numbers;
mod outage;
mod packet_list;
mod policer;
mod reorder;
mod tb_marker;
#[cfg(test)]
mod tests;

pub use bernoulli::BernoulliSpec;
pub use by_priority::{ByPriority, ByPrioritySpec};
pub use corrupt::{Corrupt, CorruptSpec};
pub use duplicate::{Duplicate, DuplicateSpec};
pub use four_state::{FourState, FourStateSpec};
pub use gilbert_elliott::{GilbertElliott, GilbertElliottSpec};
pub use late::{Late, LateSpec};
pub use mark_list::{MarkList, MarkListSpec};
pub use outage::{OutageLoss, OutageLossSpec};
pub use packet_list::{PacketList, PacketListSpec};
pub use policer::{Policer, PolicerAction, PolicerSpec};
pub use reorder::{Reorder, ReorderSpec};
pub use tb_marker::{TbMarker, TbMarkerSpec};

use crate::{Colour, DropReason, Onward, Packet, Sla};
use catnip_base::notation::{Custom, Notation, Registry};
use catnip_base::{ParseError, Rng, Time, kinds};
use std::fmt::Debug;

/// A loss model, a marker, a policer: it may change a packet or take it.
///
/// A loss model that takes each third packet:
///
/// ```
/// use catnip_base::Time;
/// use catnip_net::stage::Stage;
/// use catnip_net::{DropReason, Packet, Route};
///
/// #[derive(Debug, Default)]
/// struct EachThird(u64);
///
/// impl Stage for EachThird {
///     fn pass(&mut self, _now: Time, _packet: &mut Packet) -> Result<(), DropReason> {
///         self.0 += 1;
///         if self.0 % 3 == 0 { Err(DropReason::Loss) } else { Ok(()) }
///     }
/// }
///
/// let (mut stage, mut packet) = (EachThird::default(), Packet::new(Time::ZERO, Route::default(), 1500, 0));
/// let passed = [(); 6].map(|()| stage.pass(Time::ZERO, &mut packet).is_ok());
/// assert_eq!(passed, [true, true, false, true, true, false]);
/// ```
pub trait Stage: Debug + Send {
    /// Looks at a packet that passes; an error says why it does not go on.
    fn pass(&mut self, now: Time, packet: &mut Packet) -> Result<(), DropReason>;
    /// What becomes of a packet that it has let pass. Only stages behind a wire are asked.
    fn onward(&mut self, _packet: &Packet) -> Onward {
        Onward::AtOnce
    }
}

/// A kind of stage: plain data from which a port builds its stages.
pub trait StageKind: Send + Sync {
    /// What looks at the packets.
    type Stage;
    /// The stage of one port, with random numbers of its own.
    fn build(&self, rng: Rng) -> Self::Stage;
    /// The probability that it takes a packet, by priority, if it takes each one independently of all others.
    fn loss(&self) -> Option<[f64; Colour::COUNT]> {
        None
    }
    /// The contract against which it holds packets, if there is one.
    fn contract(&self) -> Option<Sla> {
        None
    }
    /// Does it hold packets back, copy or damage them, and so stand behind a wire only?
    fn needs_wire(&self) -> bool {
        false
    }
}

macro_rules! stages {
    (known { $($Kind:ident($Spec:ty) => $Stage:ty),+ $(,)? } others { $($Other:ident($OtherSpec:ty)),+ $(,)? }) => {
        kinds! {
            /// A stage as configuration.
            pub enum StageSpec { $($Kind($Spec),)+ $($Other($OtherSpec)),+ }
        }

        /// A stage of a port. Those behind a pointer cost the others nothing.
        #[derive(Debug)]
        pub enum AnyStage {
            $(#[doc = concat!("See [`", stringify!($Spec), "`].")] $Kind($Stage),)+
            /// Any other.
            Other(Box<dyn Stage>),
        }

        impl StageKind for StageSpec {
            type Stage = AnyStage;
            fn build(&self, rng: Rng) -> AnyStage {
                match self {
                    $(Self::$Kind(kind) => AnyStage::$Kind(kind.build(rng)),)+
                    $(Self::$Other(kind) => AnyStage::Other(kind.build(rng))),+
                }
            }
            fn loss(&self) -> Option<[f64; Colour::COUNT]> {
                match self { $(Self::$Kind(kind) => kind.loss(),)+ $(Self::$Other(kind) => kind.loss()),+ }
            }
            fn contract(&self) -> Option<Sla> {
                match self {
                    $(Self::$Kind(kind) => kind.contract(),)+
                    $(Self::$Other(kind) => kind.contract()),+
                }
            }
            fn needs_wire(&self) -> bool {
                match self {
                    $(Self::$Kind(kind) => kind.needs_wire(),)+
                    $(Self::$Other(kind) => kind.needs_wire()),+
                }
            }
        }

        impl Stage for AnyStage {
            fn pass(&mut self, now: Time, packet: &mut Packet) -> Result<(), DropReason> {
                match self {
                    $(Self::$Kind(stage) => stage.pass(now, packet),)+
                    Self::Other(stage) => stage.pass(now, packet),
                }
            }
            fn onward(&mut self, packet: &Packet) -> Onward {
                match self {
                    $(Self::$Kind(stage) => stage.onward(packet),)+
                    Self::Other(stage) => stage.onward(packet),
                }
            }
        }
    };
}

stages! {
    known {
        Bernoulli(BernoulliSpec) => ByPriority,
        ByPriority(ByPrioritySpec) => ByPriority,
        GilbertElliott(GilbertElliottSpec) => GilbertElliott,
        PacketList(PacketListSpec) => PacketList,
    }
    others {
        Policer(PolicerSpec),
        TbMarker(TbMarkerSpec),
        Outage(OutageLossSpec),
        Reorder(ReorderSpec),
        Late(LateSpec),
        MarkList(MarkListSpec),
        Duplicate(DuplicateSpec),
        Corrupt(CorruptSpec),
        FourState(FourStateSpec),
        Custom(Custom<CustomStage>),
    }
}

/// Stages from outside, by name: `stages.add(|stage: MyStage| Arc::new(stage))`.
pub type CustomStages = Registry<CustomStage>;

/// A kind from outside, of which only the trait is known.
pub type CustomStage = dyn StageKind<Stage = Box<dyn Stage>>;

/// Reads stages that packets pass one after the other, with `|` in between.
pub fn read(text: &str, outside: &CustomStages) -> Result<Vec<StageSpec>, ParseError> {
    if text == "none" {
        return Ok(Vec::new());
    }
    text.split('|').map(|stage| outside.read(stage.trim(), StageSpec::Custom)).collect()
}

/// Writes what is read as the same.
pub fn write(stages: &[StageSpec]) -> String {
    if stages.is_empty() {
        return "none".into();
    }
    stages.iter().map(StageSpec::to_string).collect::<Vec<_>>().join(" | ")
}

/// The probability that one of these takes a packet, by colour, if they take each one independently of all others.
pub fn loss_of(stages: &[StageSpec]) -> Option<[f64; Colour::COUNT]> {
    stages.iter().try_fold([0.0; Colour::COUNT], |sum, stage| {
        let own = stage.loss()?;
        Some(std::array::from_fn(|of| sum[of] + own[of] - sum[of] * own[of]))
    })
}

/// What a loss model says of a packet.
fn lost_if(lost: bool) -> Result<(), DropReason> {
    if lost { Err(DropReason::Loss) } else { Ok(()) }
}

/// A probability that is not 1: something has to arrive.
pub(crate) fn probability(text: &Notation<'_>, value: f64) -> Result<f64, ParseError> {
    if (0.0..1.0).contains(&value) { Ok(value) } else { Err(text.error("probabilities in [0, 1)")) }
}

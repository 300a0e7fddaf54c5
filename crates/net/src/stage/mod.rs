//! Stages that packets pass before a queue or behind a wire: loss models, markers, policers and other impairments. A
//! kind of stage is one file and one entry of [`StageSpec`].

mod bernoulli;
mod by_priority;
mod corrupt;
mod delay_list;
mod duplicate;
mod four_state;
mod gilbert_elliott;
mod mark;
mod mark_list;
mod numbers;
mod outage;
mod over_time;
mod packet_list;
mod policer;
mod reorder;
mod tb_marker;
#[cfg(test)]
mod tests;

pub use bernoulli::BernoulliSpec;
pub use by_priority::{ByPriority, ByPrioritySpec};
pub use corrupt::{Corrupt, CorruptSpec};
pub use delay_list::{DelayList, DelayListSpec};
pub use duplicate::{Duplicate, DuplicateSpec};
pub use four_state::{FourState, FourStateSpec};
pub use gilbert_elliott::{GilbertElliott, GilbertElliottSpec};
pub use mark::{Mark, MarkSpec};
pub use mark_list::{MarkList, MarkListSpec};
pub use outage::{OutageLoss, OutageLossSpec};
pub use over_time::LossOverTimeSpec;
pub use packet_list::{PacketList, PacketListSpec};
pub use policer::{Policer, PolicerAction, PolicerSpec};
pub use reorder::{Reorder, ReorderSpec};
pub use tb_marker::{TbMarker, TbMarkerSpec};

use crate::{DropReason, Forwarding, Packet, Priority, Sla};
use catnip_base::notation::{Custom, Notation, Registry};
use catnip_base::{ParseError, Rng, Time, dispatch, kinds, variants};
use std::fmt::Debug;

/// Interface of every stage, such as a loss model, marker or policer. A stage may change or drop a packet.
///
/// Example: a loss model that drops every third packet.
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
    /// Processes a packet. An error is the reason why the packet is dropped.
    fn pass(&mut self, now: Time, packet: &mut Packet) -> Result<(), DropReason>;
    /// Returns the forwarding decision for a packet that the stage has not dropped. Called only for stages behind a wire.
    fn forwarding(&mut self, _packet: &Packet) -> Forwarding {
        Forwarding::Immediate
    }
}

/// Configuration of a stage, from which a port builds its stages.
pub trait StageKind: Send + Sync {
    /// Type of the stage.
    type Stage;
    /// Builds the stage of one port, with random numbers of its own.
    fn build(&self, rng: Rng) -> Self::Stage;
    /// Returns the loss probability by priority if the stage drops each packet independently of all other packets; `None` otherwise.
    fn loss(&self) -> Option<[f64; Priority::COUNT]> {
        None
    }
    /// Returns the SLA against which the stage checks packets; `None` if the stage has no SLA.
    fn sla(&self) -> Option<Sla> {
        None
    }
    /// Returns true if the treatment of packets depends on their priority, which markers set.
    fn reads_priority(&self) -> bool {
        false
    }
    /// Returns true if the stage marks ECN-capable packets.
    fn marks_ecn(&self) -> bool {
        false
    }
    /// Returns true if the stage holds packets back, copies or damages them, and is therefore allowed only behind a wire.
    fn needs_wire(&self) -> bool {
        false
    }
}

macro_rules! stages {
    ($d:tt known { $($Kind:ident($Spec:ty) => $Stage:ty),+ $(,)? } others { $($Other:ident($OtherSpec:ty)),+ $(,)? }) => {
        kinds! {
            /// Configuration of a stage.
            pub enum StageSpec { $($Kind($Spec),)+ $($Other($OtherSpec)),+ }
        }

        /// Stage of a port. Rare stages are boxed, so that they do not increase the cost of the others.
        #[derive(Debug)]
        pub enum AnyStage {
            $(#[doc = concat!("See [`", stringify!($Spec), "`].")] $Kind($Stage),)+
            /// Any other stage.
            Other(Box<dyn Stage>),
        }

        variants!($d each_kind: StageSpec { $($Kind,)+ $($Other),+ });
        variants!($d each_stage: AnyStage { $($Kind,)+ Other });

        impl StageKind for StageSpec {
            type Stage = AnyStage;
            fn build(&self, rng: Rng) -> AnyStage {
                match self {
                    $(Self::$Kind(kind) => AnyStage::$Kind(kind.build(rng)),)+
                    $(Self::$Other(kind) => AnyStage::Other(kind.build(rng))),+
                }
            }
            dispatch! { each_kind:
                fn loss(&self) -> Option<[f64; Priority::COUNT]>;
                fn sla(&self) -> Option<Sla>;
                fn needs_wire(&self) -> bool;
                fn reads_priority(&self) -> bool;
                fn marks_ecn(&self) -> bool;
            }
        }
    };
}

stages! { $
    known {
        Bernoulli(BernoulliSpec) => ByPriority,
        ByPriority(ByPrioritySpec) => ByPriority,
        GilbertElliott(GilbertElliottSpec) => GilbertElliott,
        PacketList(PacketListSpec) => PacketList,
    }
    others {
        Policer(PolicerSpec),
        TbMarker(TbMarkerSpec),
        Mark(MarkSpec),
        Outage(OutageLossSpec),
        OverTime(LossOverTimeSpec),
        Reorder(ReorderSpec),
        DelayList(DelayListSpec),
        MarkList(MarkListSpec),
        Duplicate(DuplicateSpec),
        Corrupt(CorruptSpec),
        FourState(FourStateSpec),
        Custom(Custom<CustomStage>),
    }
}

impl Stage for AnyStage {
    dispatch! { each_stage:
        fn pass(&mut self, now: Time, packet: &mut Packet) -> Result<(), DropReason>;
        fn forwarding(&mut self, packet: &Packet) -> Forwarding;
    }
}

/// Registry of custom stages by name: `stages.add(|stage: MyStage| Arc::new(stage))`.
pub type CustomStages = Registry<CustomStage>;

/// Configuration of a custom stage, as a trait object.
pub type CustomStage = dyn StageKind<Stage = Box<dyn Stage>>;

/// Reads stages, separated by `|`, in the order in which packets pass them. `open` returns the text of a file, or the reason why the file
/// cannot be read.
pub fn read(
    text: &str,
    custom: &CustomStages,
    open: &dyn Fn(&str) -> Result<String, String>,
) -> Result<Vec<StageSpec>, ParseError> {
    if text == "none" {
        return Ok(Vec::new());
    }
    let stages = text.split('|').map(|stage| match custom.read(stage.trim(), StageSpec::Custom)? {
        StageSpec::OverTime(loss) => loss.opened(open).map(StageSpec::OverTime),
        stage => Ok(stage),
    });
    stages.collect()
}

/// Writes stages as [`read`] reads them.
pub fn write(stages: &[StageSpec]) -> String {
    if stages.is_empty() {
        return "none".into();
    }
    stages.iter().map(StageSpec::to_string).collect::<Vec<_>>().join(" | ")
}

/// Returns the probability that one of these stages drops a packet, by priority; `None` if a stage does not drop each packet independently
/// of all other packets.
pub fn loss_of(stages: &[StageSpec]) -> Option<[f64; Priority::COUNT]> {
    stages.iter().try_fold([0.0; Priority::COUNT], |sum, stage| {
        let own = stage.loss()?;
        Some(std::array::from_fn(|of| sum[of] + own[of] - sum[of] * own[of]))
    })
}

/// Returns the result of [`Stage::pass`] for a packet that a loss model loses if `lost` is true.
fn lost_if(lost: bool) -> Result<(), DropReason> {
    if lost { Err(DropReason::Loss) } else { Ok(()) }
}

/// Checks that a probability is in [0, 1), so that some packets arrive.
pub(crate) fn probability(text: &Notation<'_>, value: f64) -> Result<f64, ParseError> {
    if (0.0..1.0).contains(&value) { Ok(value) } else { Err(text.error("probabilities in [0, 1)")) }
}

//! Queue disciplines: which packet waits, which one leaves next, which one is given up. A queue is one file, and one
//! line of [`QueueSpec`].

mod cake;
mod catnip;
mod catnip_red;
mod codel;
mod drop_head;
mod drop_tail;
mod dual_pi2;
mod fifo;
mod fq_codel;
mod gate;
mod pie;
mod places;
mod pool;
mod red;
mod rio;
mod scheduler;
mod shaper;
#[cfg(test)]
mod tests;
mod victim;
mod wrr;

pub use cake::{Cake, CakeSpec, Cobalt, CobaltParameters, Isolation, Sentence, Tins};
pub use catnip::{CatnipQueue, CatnipSpec};
pub use catnip_red::CatnipRedSpec;
pub use codel::{Codel, CodelLaw, CodelParameters, CodelSpec};
pub use drop_head::{DropHead, DropHeadSpec};
pub use drop_tail::{DropTail, DropTailSpec};
pub use dual_pi2::{DualPi2, DualPi2Law, DualPi2Parameters, DualPi2Spec, Signal};
pub use fq_codel::{FqCodel, FqCodelSpec};
pub use gate::Gated;
pub use pie::{PROBABLE, Pie, PieLaw, PieParameters, PieSpec};
pub use places::{Capacity, Places};
pub use red::{Red, RedLaw, RedParameters, RedSpec, Verdict};
pub use rio::{Band, Rio, RioLaw, RioParameters, RioSpec};
pub use scheduler::{Scheduler, SchedulerSpec};
pub use shaper::{ShaperQueue, ShaperSpec};
pub use victim::VictimRule;
pub use wrr::{Wrr, WrrSpec};

use crate::shape::{AnyShaper, Pausing, RateSpec};
use crate::{Backlog, Ecn, Fate, OutageSpec, Outages, Packet, Route, Sla};
use catnip_base::notation::{Custom, Registry};
use catnip_base::{Rng, Stream, Time, kinds};
use std::fmt::Debug;

/// The contract of every queue.
///
/// A port calls `dequeue` each time its wire becomes ready, until the answer is `None`; so a `None` tells the
/// queue that the wire is idle from then on. After that the port asks again only after an `enqueue` or at
/// `wake_at`.
///
/// A queue that holds a single packet:
///
/// ```
/// use catnip_base::Time;
/// use catnip_net::queue::QueueDiscipline;
/// use catnip_net::{Backlog, DropReason, Fate, Packet, Route};
///
/// #[derive(Debug, Default)]
/// struct One(Option<Packet>);
///
/// impl QueueDiscipline for One {
///     fn enqueue(&mut self, now: Time, packet: Packet, fate: &mut dyn Fate) {
///         if self.0.is_some() {
///             fate.dropped(now, packet, DropReason::Overflow);
///         } else {
///             self.0 = Some(packet);
///         }
///     }
///     fn dequeue(&mut self, _now: Time, _fate: &mut dyn Fate) -> Option<Packet> {
///         self.0.take()
///     }
///     fn backlog(&self) -> Backlog {
///         Backlog { packets: self.0.is_some() as u32, bytes: self.0.map_or(0, |packet| packet.len.into()) }
///     }
/// }
///
/// struct Dropped(Vec<u32>);
///
/// impl Fate for Dropped {
///     fn dropped(&mut self, _now: Time, packet: Packet, _why: DropReason) {
///         self.0.push(packet.body);
///     }
/// }
///
/// let (mut queue, mut dropped) = (One::default(), Dropped(Vec::new()));
/// for body in [1, 2] {
///     queue.enqueue(Time::ZERO, Packet::new(Time::ZERO, Route::default(), 1500, body), &mut dropped);
/// }
/// assert_eq!((queue.backlog().bytes, dropped.0.as_slice()), (1500, [2].as_slice()));
/// assert_eq!(queue.dequeue(Time::ZERO, &mut dropped).unwrap().body, 1);
/// ```
pub trait QueueDiscipline: Debug + Send {
    /// Takes `packet` in, or tells `fate` which packet is given up instead.
    fn enqueue(&mut self, now: Time, packet: Packet, fate: &mut dyn Fate);
    /// The packet that goes on the wire at `now`.
    fn dequeue(&mut self, now: Time, fate: &mut dyn Fate) -> Option<Packet>;
    /// For a plain FIFO, which drops nothing but arrivals, and that only for want of room: how many packets may wait.
    /// Departures are then known at arrival, and a port counts by itself and never calls `enqueue`.
    fn room(&self) -> Option<u32> {
        None
    }
    /// When a queue that holds packets back wants to be asked again.
    fn wake_at(&self) -> Option<Time> {
        None
    }
    /// What waits.
    fn backlog(&self) -> Backlog;
    /// What a connection weighs against others from now on, if its queue makes them take turns.
    fn set_weight(&mut self, _flow: u16, _weight: u32) {}
    /// By number, who sends the packets of this connection that go this way, and who receives them.
    fn set_hosts(&mut self, _flow: u16, _route: Route, _hosts: [u32; 2]) {}
    /// The packet that it gave last has left the wire, which goes on with one of another queue.
    fn released(&mut self) {}
}

/// A kind of queue: plain data from which a port builds its queue.
pub trait QueueKind: Send + Sync {
    /// What holds the packets. A large one is boxed, so that ports stay small.
    type Queue;
    /// The queue of one port.
    fn build(&self, site: &Site<'_>) -> Self::Queue;
    /// What it says of its buffer.
    fn holds(&self) -> Holds {
        Holds::default()
    }
    /// Is its limit a time, so that it must know how long packets will wait?
    fn counts_time(&self) -> bool {
        false
    }
    /// Does it matter to it how many packets its bytes are cut into?
    fn counts_packets(&self) -> bool {
        true
    }
    /// Does the wire never idle while something waits?
    fn conserves_work(&self) -> bool {
        true
    }
    /// Does it matter to it between which hosts a packet goes?
    fn isolates_hosts(&self) -> bool {
        false
    }
    /// The contract by which it holds packets back, if there is one; of several, the one with the smallest bucket.
    fn contract(&self) -> Option<Sla> {
        None
    }
}

/// How many packets a queue has room for, the one in transmission included, as far as its configuration says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holds {
    /// It drops nothing while there are no more than these.
    pub surely: u32,
    /// There are never more.
    pub at_most: Option<u32>,
}

/// Where a queue is built.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// The line rate.
    pub rate: &'a RateSpec,
    /// Of the run.
    pub seed: u64,
    /// Number of the port.
    pub port: u32,
    /// Which of several queues of the port.
    part: Option<u32>,
    outage: Option<OutageSpec>,
}

impl<'a> Site<'a> {
    /// At this port of the run with this seed.
    pub fn new(rate: &'a RateSpec, seed: u64, port: u32) -> Self {
        Self { rate, seed, port, part: None, outage: None }
    }

    /// The same with a wire that stops at such times.
    pub fn with_outages(self, outage: Option<OutageSpec>) -> Self {
        Self { outage, ..self }
    }

    /// The wire, which is idle.
    pub fn wire(&self) -> AnyShaper {
        let wire = self.rate.build();
        let Some(outage) = self.outage else { return wire };
        let outages = Outages::new(outage, Rng::new(self.seed, Stream::Outage(self.port)));
        AnyShaper::Pausing(Box::new(Pausing::new(wire, outages)))
    }

    /// One of several queues there, which has random numbers of its own.
    fn part(self, part: u32) -> Self {
        Self { part: Some(part), ..self }
    }

    /// Random numbers for the decision whether to drop.
    pub fn drops(&self) -> Rng {
        let whole = Stream::Queue(self.port);
        Rng::new(self.seed, self.part.map_or(whole, |part| Stream::PartOfQueue(self.port, part)))
    }

    /// Random numbers for the decision whom to drop.
    pub fn victims(&self) -> Rng {
        let whole = Stream::Victim(self.port);
        Rng::new(self.seed, self.part.map_or(whole, |part| Stream::PartOfVictim(self.port, part)))
    }
}

macro_rules! queues {
    (known { $($Kind:ident($Spec:ty) => $Queue:ty),+ $(,)? } others { $($Other:ident($OtherSpec:ty)),+ $(,)? }) => {
        kinds! {
            /// A queue discipline as configuration.
            pub enum QueueSpec { $($Kind($Spec),)+ $($Other($OtherSpec)),+ }
        }

        /// The queue of a port. Those that large networks are made of are known to the compiler; others, those from outside among
        /// them, are behind a pointer, so that they cost the first ones nothing.
        #[derive(Debug)]
        pub enum AnyQueue {
            $(#[doc = concat!("See [`", stringify!($Spec), "`].")] $Kind($Queue),)+
            /// Any other.
            Other(Box<dyn QueueDiscipline>),
        }

        impl QueueKind for QueueSpec {
            type Queue = AnyQueue;
            fn build(&self, site: &Site<'_>) -> AnyQueue {
                match self {
                    $(Self::$Kind(kind) => AnyQueue::$Kind(kind.build(site)),)+
                    $(Self::$Other(kind) => AnyQueue::Other(kind.build(site)),)+
                }
            }
            fn holds(&self) -> Holds {
                match self { $(Self::$Kind(kind) => kind.holds(),)+ $(Self::$Other(kind) => kind.holds()),+ }
            }
            fn counts_time(&self) -> bool {
                match self {
                    $(Self::$Kind(kind) => kind.counts_time(),)+
                    $(Self::$Other(kind) => kind.counts_time()),+
                }
            }
            fn counts_packets(&self) -> bool {
                match self {
                    $(Self::$Kind(kind) => kind.counts_packets(),)+
                    $(Self::$Other(kind) => kind.counts_packets()),+
                }
            }
            fn conserves_work(&self) -> bool {
                match self {
                    $(Self::$Kind(kind) => kind.conserves_work(),)+
                    $(Self::$Other(kind) => kind.conserves_work()),+
                }
            }
            fn isolates_hosts(&self) -> bool {
                match self {
                    $(Self::$Kind(kind) => kind.isolates_hosts(),)+
                    $(Self::$Other(kind) => kind.isolates_hosts()),+
                }
            }
            fn contract(&self) -> Option<Sla> {
                match self {
                    $(Self::$Kind(kind) => kind.contract(),)+
                    $(Self::$Other(kind) => kind.contract()),+
                }
            }
        }

        impl QueueDiscipline for AnyQueue {
            #[inline]
            fn enqueue(&mut self, now: Time, packet: Packet, fate: &mut dyn Fate) {
                match self {
                    $(Self::$Kind(queue) => queue.enqueue(now, packet, fate),)+
                    Self::Other(queue) => queue.enqueue(now, packet, fate),
                }
            }
            #[inline]
            fn dequeue(&mut self, now: Time, fate: &mut dyn Fate) -> Option<Packet> {
                match self {
                    $(Self::$Kind(queue) => queue.dequeue(now, fate),)+
                    Self::Other(queue) => queue.dequeue(now, fate),
                }
            }
            fn room(&self) -> Option<u32> {
                match self { $(Self::$Kind(queue) => queue.room(),)+ Self::Other(queue) => queue.room() }
            }
            #[inline(always)]
            fn wake_at(&self) -> Option<Time> {
                match self { $(Self::$Kind(queue) => queue.wake_at(),)+ Self::Other(queue) => queue.wake_at() }
            }
            fn backlog(&self) -> Backlog {
                match self { $(Self::$Kind(queue) => queue.backlog(),)+ Self::Other(queue) => queue.backlog() }
            }
            fn set_weight(&mut self, flow: u16, weight: u32) {
                match self {
                    $(Self::$Kind(queue) => queue.set_weight(flow, weight),)+
                    Self::Other(queue) => queue.set_weight(flow, weight),
                }
            }
            fn set_hosts(&mut self, flow: u16, route: Route, hosts: [u32; 2]) {
                match self {
                    $(Self::$Kind(queue) => queue.set_hosts(flow, route, hosts),)+
                    Self::Other(queue) => queue.set_hosts(flow, route, hosts),
                }
            }
            fn released(&mut self) {
                match self { $(Self::$Kind(queue) => queue.released(),)+ Self::Other(queue) => queue.released() }
            }
        }
    };
}

queues! {
    known {
        DropTail(DropTailSpec) => DropTail,
        Red(RedSpec) => Box<Red>,
        Catnip(CatnipSpec) => Box<CatnipQueue>,
        CatnipRed(CatnipRedSpec) => Box<Red>,
    }
    others {
        DropHead(DropHeadSpec),
        Rio(RioSpec),
        Shaper(ShaperSpec),
        Scheduler(SchedulerSpec),
        Wrr(WrrSpec<QueueSpec>),
        Codel(CodelSpec),
        FqCodel(FqCodelSpec),
        Pie(PieSpec),
        DualPi2(DualPi2Spec),
        Cake(CakeSpec),
        Custom(Custom<CustomQueue>),
    }
}

/// Queues from outside, by name: `queues.add(|queue: MyQueue| Arc::new(queue))`, and then
/// `queues.read(text, QueueSpec::Custom)`.
pub type CustomQueues = Registry<CustomQueue>;

/// A kind from outside, of which only the trait is known.
pub type CustomQueue = dyn QueueKind<Queue = Box<dyn QueueDiscipline>>;

/// Gives a packet that is ECN-capable the CE codepoint.
fn ce(now: Time, packet: &mut Packet, fate: &mut dyn Fate) {
    if packet.ecn != Ecn::CE {
        packet.ecn = Ecn::CE;
        fate.marked(now, packet);
    }
}

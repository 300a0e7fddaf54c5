//! Queue disciplines. A queue discipline decides in which order packets leave a port, and which packets are dropped. Each discipline is one
//! file and one entry of [`QueueSpec`].

mod ared;
mod cake;
mod catnip;
mod catnip_middle;
mod catnip_red;
mod codel;
mod drop_head;
mod drop_tail;
mod drr;
mod dual_pi2;
mod fifo;
mod flow_table;
mod fq_codel;
mod fq_pie;
mod gate;
mod limit;
mod linux_pie;
mod linux_red;
mod pie;
mod pool;
mod red;
mod rio;
mod scheduler;
mod shaper;
#[cfg(test)]
mod tests;
mod victim;
mod wrr;

pub use ared::AredSpec;
pub use cake::{Cake, CakeSpec, Cobalt, CobaltParameters, Isolation, Tins};
pub use catnip::{CatnipQueue, CatnipSpec};
pub use catnip_middle::CatnipMiddleSpec;
pub use catnip_red::CatnipRedSpec;
pub use codel::{
    Behind, Codel, CodelLaw, CodelParameters, CodelSpec, ControlLaw, Decision, LinuxControl, RfcControl,
};
pub use drop_head::{DropHead, DropHeadSpec};
pub use drop_tail::{DropTail, DropTailSpec};
pub use dual_pi2::{DualPi2, DualPi2Law, DualPi2Parameters, DualPi2Spec, Signal};
pub use fq_codel::{FairControl, FqCodel, FqCodelSpec};
pub use fq_pie::FqPieSpec;
pub use gate::Gated;
pub use limit::{Capacity, PacketLimit};
pub use linux_pie::LinuxPieLaw;
pub use linux_red::{LinuxRedLaw, LinuxRedParameters, LinuxRedSpec};
pub use pie::{MAX_PROB, Pie, PieControl, PieLaw, PieParameters, PieSpec};
pub use red::{Red, RedControl, RedLaw, RedParameters, RedSpec, Verdict};
pub use rio::{Band, Rio, RioLaw, RioParameters, RioSpec};
pub use scheduler::{Scheduler, SchedulerSpec};
pub use shaper::{ShaperQueue, ShaperSpec};
pub use victim::VictimRule;
pub use wrr::{Wrr, WrrSpec};

use crate::shape::{AnyShaper, Pausing, RateSpec};
use crate::{Backlog, Ecn, OutageSpec, Outages, Packet, PacketEvents, Route, Sla};
use catnip_base::notation::{Custom, Registry};
use catnip_base::{Rate, Rng, Stream, Time, dispatch, kinds, variants};
use std::fmt::Debug;

/// Interface of every queue.
///
/// A port calls `dequeue` each time its link becomes free, until the result is `None`. The link is idle from then on, and
/// the port calls `dequeue` again only after an `enqueue` or at `wake_at`.
///
/// Example: a queue that holds a single packet.
///
/// ```
/// use catnip_base::Time;
/// use catnip_net::queue::QueueDiscipline;
/// use catnip_net::{Backlog, DropReason, PacketEvents, Packet, Route};
///
/// #[derive(Debug, Default)]
/// struct One(Option<Packet>);
///
/// impl QueueDiscipline for One {
///     fn enqueue(&mut self, now: Time, packet: Packet, events: &mut dyn PacketEvents) {
///         if self.0.is_some() {
///             events.dropped(now, packet, DropReason::Overflow);
///         } else {
///             self.0 = Some(packet);
///         }
///     }
///     fn dequeue(&mut self, _now: Time, _events: &mut dyn PacketEvents) -> Option<Packet> {
///         self.0.take()
///     }
///     fn backlog(&self) -> Backlog {
///         Backlog { packets: self.0.is_some() as u32, bytes: self.0.map_or(0, |packet| packet.len.into()) }
///     }
/// }
///
/// struct Dropped(Vec<u32>);
///
/// impl PacketEvents for Dropped {
///     fn dropped(&mut self, _now: Time, packet: Packet, _reason: DropReason) {
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
    /// Enqueues `packet`. Packets that are dropped because of the arrival, possibly `packet` itself, are reported to `events`.
    fn enqueue(&mut self, now: Time, packet: Packet, events: &mut dyn PacketEvents);
    /// Removes and returns the packet whose transmission starts at `now`; `None` if no packet can be sent.
    fn dequeue(&mut self, now: Time, events: &mut dyn PacketEvents) -> Option<Packet>;
    /// Processes a packet that arrives while the wire is free and no packet waits: a shorter form of [`Self::dequeue`], which finds no packet,
    /// [`Self::enqueue`], and [`Self::dequeue`], which returns the packet. Returns false without any effect if the packet must be enqueued,
    /// because it may be dropped, or if the discipline has no short form.
    fn pass(&mut self, _now: Time, _packet: &Packet) -> bool {
        false
    }
    /// Returns the limit on waiting packets if the queue is a plain FIFO that drops only arriving packets and only on overflow; `None` for
    /// any other queue. The departures of a plain FIFO are known at arrival, so that the port counts the packets itself and never calls
    /// `enqueue`.
    fn fifo_limit(&self) -> Option<u32> {
        None
    }
    /// Returns the time at which the port must call `dequeue` next if the queue holds packets back; `None` otherwise.
    fn wake_at(&self) -> Option<Time> {
        None
    }
    /// Returns the packets and bytes that wait.
    fn backlog(&self) -> Backlog;
    /// Sets the weight of a connection. Used only by disciplines in which connections take turns.
    fn set_weight(&mut self, _flow: u16, _weight: u32) {}
    /// Sets the ids of the source and the destination host of a connection's packets on a route. Used only by disciplines that share the
    /// link among hosts.
    fn set_hosts(&mut self, _flow: u16, _route: Route, _hosts: [u32; 2]) {}
    /// Notifies the queue that the packet it returned last has left the link. Called only if the next packet on the link is not from this
    /// queue.
    fn released(&mut self) {}
}

/// Configuration of a queue discipline, from which a port builds its queue.
pub trait QueueKind: Send + Sync {
    /// Type of the queue.
    type Queue;
    /// Builds the queue of one port.
    fn build(&self, context: &PortContext<'_>) -> Self::Queue;
    /// Returns the bounds of the buffer in packets.
    fn buffer_bounds(&self) -> BufferBounds {
        BufferBounds::default()
    }
    /// Returns true if the buffer limit is a time, so that the queue must compute waiting times in advance.
    fn has_time_limit(&self) -> bool {
        false
    }
    /// Returns true if the behaviour depends on numbers of packets, and not only on numbers of bytes.
    fn counts_packets(&self) -> bool {
        true
    }
    /// Returns true if the discipline is work-conserving: the link never idles while packets wait.
    fn is_work_conserving(&self) -> bool {
        true
    }
    /// Returns true if the behaviour depends on the source and destination hosts of packets.
    fn isolates_hosts(&self) -> bool {
        false
    }
    /// Returns which other keys of a scenario the discipline gives an effect.
    fn traits(&self) -> QueueTraits {
        QueueTraits::default()
    }
    /// Returns the SLA to which the queue shapes packets; `None` if the queue shapes no packets. Of several SLAs, returns the one with the
    /// smallest bucket.
    fn sla(&self) -> Option<Sla> {
        None
    }
}

/// Properties of a queue discipline that give other keys of a scenario an effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueTraits {
    /// True if the treatment of packets depends on their priority, which markers set.
    pub reads_priority: bool,
    /// True if the discipline marks ECN-capable packets.
    pub marks_ecn: bool,
    /// True if drops or marks are random.
    pub is_random: bool,
}

/// Bounds on the number of packets in a buffer, the packet in transmission included, that follow from the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferBounds {
    /// Number of packets that are certain to fit into the buffer without a drop.
    pub guaranteed: u32,
    /// Maximum number of packets in the buffer; `None` if the configuration does not limit it.
    pub max: Option<u32>,
}

/// Properties of the port for which a queue is built.
#[derive(Clone, Copy, Debug)]
pub struct PortContext<'a> {
    /// Line rate.
    pub rate: &'a RateSpec,
    /// Seed of the run.
    pub seed: u64,
    /// Index of the port, as in [`crate::PortId`].
    pub port: u32,
    /// Index of the queue among the queues of the port; `None` if the port has only one.
    part: Option<u32>,
    outage: Option<OutageSpec>,
}

impl<'a> PortContext<'a> {
    /// Creates the context of port `port` in the run with seed `seed`.
    pub fn new(rate: &'a RateSpec, seed: u64, port: u32) -> Self {
        Self { rate, seed, port, part: None, outage: None }
    }

    /// Returns the context with these outages of the wire.
    pub fn with_outages(self, outage: Option<OutageSpec>) -> Self {
        Self { outage, ..self }
    }

    /// Returns the long-run line rate, or the maximum value of [`Rate`] if the rate is unlimited.
    pub fn line_rate(&self) -> Rate {
        const MAX_RATE: Rate = Rate::from_bits_per_second(u64::MAX).unwrap();
        self.rate.mean().unwrap_or(MAX_RATE)
    }

    /// Builds an idle wire.
    pub fn wire(&self) -> AnyShaper {
        let wire = self.rate.build();
        let Some(outage) = self.outage else { return wire };
        let outages = Outages::new(outage, Rng::new(self.seed, Stream::Outage(self.port)));
        AnyShaper::Other(Box::new(Pausing::new(wire, outages)))
    }

    /// Returns the context of queue `part` of a port with several queues. Each queue has its own random streams.
    fn part(self, part: u32) -> Self {
        Self { part: Some(part), ..self }
    }

    /// Returns the random stream for drop decisions.
    pub fn drop_rng(&self) -> Rng {
        let single = Stream::Queue(self.port);
        Rng::new(self.seed, self.part.map_or(single, |part| Stream::PartOfQueue(self.port, part)))
    }

    /// Returns the random stream for the choice of the packet to push out.
    pub fn victim_rng(&self) -> Rng {
        let single = Stream::Victim(self.port);
        Rng::new(self.seed, self.part.map_or(single, |part| Stream::PartOfVictim(self.port, part)))
    }
}

macro_rules! queues {
    ($d:tt known { $($Kind:ident($Spec:ty) => $Queue:ty),+ $(,)? } others { $($Other:ident($OtherSpec:ty)),+ $(,)? }) => {
        kinds! {
            /// Configuration of a queue discipline.
            pub enum QueueSpec { $($Kind($Spec),)+ $($Other($OtherSpec)),+ }
        }

        /// Queue of a port. Disciplines used in large networks are dispatched statically. All others, including custom ones, are boxed, so
        /// that they do not increase the cost of static dispatch.
        #[derive(Debug)]
        #[allow(clippy::large_enum_variant, reason = "a port holds its queue on the heap, and a second pointer would cost a cache miss")]
        pub enum AnyQueue {
            $(#[doc = concat!("See [`", stringify!($Spec), "`].")] $Kind($Queue),)+
            /// Any other discipline.
            Other(Box<dyn QueueDiscipline>),
        }

        variants!($d each_kind: QueueSpec { $($Kind,)+ $($Other),+ });
        variants!($d each_queue: AnyQueue { $($Kind,)+ Other });

        impl QueueKind for QueueSpec {
            type Queue = AnyQueue;
            fn build(&self, context: &PortContext<'_>) -> AnyQueue {
                match self {
                    $(Self::$Kind(kind) => AnyQueue::$Kind(kind.build(context)),)+
                    $(Self::$Other(kind) => AnyQueue::Other(kind.build(context)),)+
                }
            }
            dispatch! { each_kind:
                fn buffer_bounds(&self) -> BufferBounds;
                fn has_time_limit(&self) -> bool;
                fn counts_packets(&self) -> bool;
                fn is_work_conserving(&self) -> bool;
                fn isolates_hosts(&self) -> bool;
                fn traits(&self) -> QueueTraits;
                fn sla(&self) -> Option<Sla>;
            }
        }
    };
}

queues! { $
    known {
        DropTail(DropTailSpec) => DropTail,
        Red(RedSpec) => Red,
        Catnip(CatnipSpec) => CatnipQueue,
        CatnipRed(CatnipRedSpec) => Red,
        FqCodel(FqCodelSpec) => FqCodel,
        LinuxFqCodel(FqCodelSpec<LinuxControl>) => FqCodel<LinuxControl>,
    }
    others {
        CatnipMiddle(CatnipMiddleSpec),
        DropHead(DropHeadSpec),
        Ared(AredSpec),
        Rio(RioSpec),
        Shaper(ShaperSpec),
        Scheduler(SchedulerSpec),
        Wrr(WrrSpec<QueueSpec>),
        Codel(CodelSpec),
        LinuxCodel(CodelSpec<LinuxControl>),
        Pie(PieSpec),
        LinuxPie(PieSpec<LinuxPieLaw>),
        LinuxRed(LinuxRedSpec),
        FqPie(FqPieSpec),
        DualPi2(DualPi2Spec),
        Cake(CakeSpec),
        Custom(Custom<CustomQueue>),
    }
}

impl QueueDiscipline for AnyQueue {
    dispatch! { each_queue:
        #[inline(always)]
        fn enqueue(&mut self, now: Time, packet: Packet, events: &mut dyn PacketEvents);
        #[inline]
        fn dequeue(&mut self, now: Time, events: &mut dyn PacketEvents) -> Option<Packet>;
        #[inline]
        fn pass(&mut self, now: Time, packet: &Packet) -> bool;
        fn fifo_limit(&self) -> Option<u32>;
        #[inline(always)]
        fn wake_at(&self) -> Option<Time>;
        fn backlog(&self) -> Backlog;
        fn set_weight(&mut self, flow: u16, weight: u32);
        fn set_hosts(&mut self, flow: u16, route: Route, hosts: [u32; 2]);
        fn released(&mut self);
    }
}

/// Registry of custom queue disciplines by name. `queues.add(|queue: MyQueue| Arc::new(queue))` registers a discipline; `queues.read(text,
/// QueueSpec::Custom)` parses the configuration of a queue.
pub type CustomQueues = Registry<CustomQueue>;

/// Configuration of a custom queue discipline, as a trait object.
pub type CustomQueue = dyn QueueKind<Queue = Box<dyn QueueDiscipline>>;

/// Sets the CE codepoint of an ECN-capable packet and reports the mark. No effect if the packet is already marked.
fn set_ce(now: Time, packet: &mut Packet, events: &mut dyn PacketEvents) {
    if packet.ecn != Ecn::CE {
        packet.ecn = Ecn::CE;
        events.marked(now, packet);
    }
}

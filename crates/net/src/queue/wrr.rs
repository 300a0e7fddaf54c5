use super::{BufferBounds, PortContext, QueueDiscipline, QueueKind, QueueTraits};
use crate::{Backlog, Packet, PacketEvents, Route, Sla};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Time};
use std::fmt::Display;
use std::str::FromStr;

/// Configuration of weighted round robin: one queue for each class of packets. The queues share the link by weight (as the separate queue
/// for Telnet in the DiffServ paper). Each queue has its own limit. A limit in packets always includes one packet in transmission, even if
/// that packet is from another queue. A limit in bytes includes the packet in transmission only if it is from this queue.
#[derive(Clone, Debug, PartialEq)]
pub struct WrrSpec<S> {
    /// Queues in the order of [`CLASSES`]. The queue for the rest is always present.
    classes: Vec<ClassSpec<S>>,
}

#[derive(Clone, Debug, PartialEq)]
struct ClassSpec<S> {
    /// Index in [`CLASSES`].
    class: usize,
    weight: u32,
    queue: S,
}

const NAME: &str = "wrr";
/// Names of the assured forwarding classes (RFC 2597), and of the rest: packets that have no class, or whose class has no queue.
const CLASSES: [&str; 5] = ["af1", "af2", "af3", "af4", "rest"];
const REST: usize = CLASSES.len() - 1;

/// Maximum weight: large enough for shares of six digits, small enough that no sum overflows.
const MAX_WEIGHT: u32 = 1_000_000;

impl<S: FromStr<Err = ParseError> + Display + QueueKind> Kind for WrrSpec<S> {
    const USAGE: &'static [Usage] = &[(
        "wrr:[af1=WEIGHT(QUEUE),…,]rest=WEIGHT(QUEUE)",
        "weighted round robin: a queue for each given AF class, and one for the rest, which share the link by weight",
    )];
    const EXAMPLES: &'static [&'static str] = &[
        "wrr:af1=3(shaper:4,high=300kbit/2000B,med=1Mbit/1499B),af3=1(drop-tail:3000B),rest=2(catnip-good:4)",
    ];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let mut classes = Vec::new();
        for (class, key) in CLASSES.into_iter().enumerate() {
            if let Some(value) = text.take(key) {
                classes.push(read_class(text, class, value)?);
            }
            if text.take(key).is_some() {
                return Err(text.error(format!("{key} at most once")));
            }
        }
        if classes.last().is_none_or(|last| last.class != REST) {
            return Err(text.error("rest=WEIGHT(QUEUE), the queue of all other packets"));
        }
        Ok(Self { classes })
    }

    fn write(&self, to: &mut Written) {
        to.name(NAME);
        for ClassSpec { class, weight, queue } in &self.classes {
            to.key(CLASSES[*class], format_args!("{weight}({queue})"));
        }
    }
}

fn read_class<S: FromStr<Err = ParseError> + QueueKind>(
    text: &Notation<'_>,
    class: usize,
    value: &str,
) -> Result<ClassSpec<S>, ParseError> {
    let key = CLASSES[class];
    let parts = value.strip_suffix(')').and_then(|parts| parts.split_once('('));
    let parts = parts.and_then(|(weight, queue)| Some((weight.trim().parse::<u32>().ok()?, queue.trim())));
    let (weight, queue) = parts
        .filter(|(weight, _)| (1..=MAX_WEIGHT).contains(weight))
        .ok_or_else(|| text.error(format!("{key}=WEIGHT(QUEUE), with a weight from 1 to {MAX_WEIGHT}")))?;
    if queue.split(':').next() == Some(NAME) {
        return Err(text.error(format!("a queue for {key} other than wrr")));
    }
    match queue.parse::<S>() {
        Ok(queue) if queue.has_time_limit() => Err(text.error(format!(
            "a limit in packets or bytes for {key}, since the queueing delay of a queue that shares a link is unknown"
        ))),
        Ok(queue) => Ok(ClassSpec { class, weight, queue }),
        Err(error) => Err(text.error(format!("a queue for {key}; {error}"))),
    }
}

impl<S: QueueKind<Queue: QueueDiscipline>> QueueKind for WrrSpec<S> {
    type Queue = Box<Wrr<S::Queue>>;

    fn build(&self, context: &PortContext<'_>) -> Box<Wrr<S::Queue>> {
        let class = |spec: &ClassSpec<S>| ClassQueue {
            queue: spec.queue.build(&context.part(spec.class as u32)),
            weight: spec.weight.into(),
            credit: 0,
        };
        let index_of = |class| self.classes.iter().position(|spec| spec.class == class);
        let rest = self.classes.len() - 1;
        Box::new(Wrr {
            queue_of: std::array::from_fn(|class| index_of(class).unwrap_or(rest)),
            classes: self.classes.iter().map(class).collect(),
            weights: self.classes.iter().map(|spec| i64::from(spec.weight)).sum(),
            current: 0,
            in_transmission: None,
        })
    }

    fn buffer_bounds(&self) -> BufferBounds {
        let of_each = || self.classes.iter().map(|spec| spec.queue.buffer_bounds());
        // The buffer holds the fewest packets without a drop if all packets are of the class with the smallest queue. It holds the most
        // packets if each queue is full of waiting packets and one packet is in transmission.
        let waiting = |holds: BufferBounds| holds.max.map(|all| all.saturating_sub(1));
        let max = of_each().try_fold(1, |sum: u32, holds| Some(sum.saturating_add(waiting(holds)?)));
        BufferBounds { guaranteed: of_each().map(|holds| holds.guaranteed).min().unwrap_or(0), max }
    }

    fn counts_packets(&self) -> bool {
        self.classes.iter().any(|spec| spec.queue.counts_packets())
    }

    fn isolates_hosts(&self) -> bool {
        self.classes.iter().any(|class| class.queue.isolates_hosts())
    }

    fn is_work_conserving(&self) -> bool {
        self.classes.iter().all(|spec| spec.queue.is_work_conserving())
    }

    fn traits(&self) -> QueueTraits {
        let of_any = |has: fn(QueueTraits) -> bool| self.classes.iter().any(|spec| has(spec.queue.traits()));
        QueueTraits {
            reads_priority: of_any(|queue| queue.reads_priority),
            marks_ecn: of_any(|queue| queue.marks_ecn),
            is_random: of_any(|queue| queue.is_random),
        }
    }

    fn sla(&self) -> Option<Sla> {
        self.classes.iter().filter_map(|spec| spec.queue.sla()).min_by_key(Sla::min_depth)
    }
}

/// Deficit round robin (Shreedhar and Varghese, SIGCOMM 1995) over queues of any discipline.
///
/// The length of the next packet of a queue is not known in advance. A queue may therefore send while its credit is positive. It keeps a
/// negative credit while it is empty, so that a queue that sends occasionally gets no more than its share. The bytes of a round equal one
/// large packet, so that no queue waits for long bursts of other queues.
#[derive(Debug)]
pub struct Wrr<Q> {
    classes: Vec<ClassQueue<Q>>,
    /// Index of the queue for packets of each class; the last entry is for packets without a class.
    queue_of: [usize; CLASSES.len()],
    /// Sum of all weights.
    weights: i64,
    /// Index of the queue that is being served and has received its credit for this round.
    current: usize,
    /// Index of the queue whose packet is in transmission; `None` if no packet is in transmission.
    in_transmission: Option<usize>,
}

#[derive(Debug)]
struct ClassQueue<Q> {
    queue: Q,
    weight: i64,
    /// Bytes that the queue may send, multiplied by the sum of all weights to keep the credit an integer.
    credit: i64,
}

/// Bytes that all queues together may send in a round.
const ROUND: i64 = 1500;

impl<Q: QueueDiscipline> ClassQueue<Q> {
    fn is_backlogged(&self) -> bool {
        self.queue.backlog().packets > 0
    }

    /// Adds the credit of `rounds` rounds. If `is_backlogged` is false, because the queue has no packets to send, the credit does not
    /// become positive.
    fn add_credit(&mut self, rounds: i64, is_backlogged: bool) {
        self.credit += rounds * self.weight * ROUND;
        if !is_backlogged {
            self.credit = self.credit.min(0);
        }
    }

    /// Returns the number of rounds until the credit is positive.
    fn rounds_to_credit(&self) -> i64 {
        let round = self.weight * ROUND;
        (round - self.credit).div_euclid(round).max(0)
    }
}

impl<Q: QueueDiscipline> Wrr<Q> {
    /// Notifies the queue whose packet was in transmission that the packet has left the link.
    fn release_sent(&mut self, now: Time, events: &mut dyn PacketEvents) {
        let Some(in_transmission) = self.in_transmission.take() else { return };
        let class = &mut self.classes[in_transmission];
        if class.is_backlogged() {
            class.queue.released();
        } else {
            // The empty result makes the queue regard the link as idle.
            class.queue.dequeue(now, events);
        }
    }
}

impl<Q: QueueDiscipline> QueueDiscipline for Wrr<Q> {
    fn enqueue(&mut self, now: Time, packet: Packet, events: &mut dyn PacketEvents) {
        let class = self.queue_of[packet.dscp.class().map_or(REST, |class| usize::from(class) - 1)];
        self.classes[class].queue.enqueue(now, packet, events);
    }

    fn dequeue(&mut self, now: Time, events: &mut dyn PacketEvents) -> Option<Packet> {
        self.release_sent(now, events);
        // True for queues with packets to send. Set to false for queues that turn out to hold their packets back.
        let mut backlogged = [false; CLASSES.len()];
        for (backlogged, class) in backlogged.iter_mut().zip(&self.classes) {
            *backlogged = class.is_backlogged();
        }
        loop {
            for _ in 0..self.classes.len() {
                let class = &mut self.classes[self.current];
                if backlogged[self.current] && class.credit > 0 {
                    if let Some(packet) = class.queue.dequeue(now, events) {
                        class.credit -= i64::from(packet.len) * self.weights;
                        self.in_transmission = Some(self.current);
                        return Some(packet);
                    }
                    backlogged[self.current] = false;
                }
                if backlogged == [false; CLASSES.len()] {
                    return None;
                }
                self.current = (self.current + 1) % self.classes.len();
                self.classes[self.current].add_credit(1, backlogged[self.current]);
            }
            // No queue had credit. Rounds are skipped until a queue has credit; the last of these rounds is served in order of turns.
            let in_contention = || self.classes.iter().zip(backlogged).filter(|(_, backlogged)| *backlogged);
            let rounds = in_contention().map(|(class, _)| class.rounds_to_credit()).min().unwrap_or(0);
            if rounds > 1 {
                for (class, backlogged) in self.classes.iter_mut().zip(backlogged) {
                    class.add_credit(rounds - 1, backlogged);
                }
            }
        }
    }

    fn wake_at(&self) -> Option<Time> {
        self.classes.iter().filter_map(|class| class.queue.wake_at()).min()
    }

    fn backlog(&self) -> Backlog {
        self.classes.iter().map(|class| class.queue.backlog()).fold(Backlog::default(), |sum, of| Backlog {
            packets: sum.packets + of.packets,
            bytes: sum.bytes + of.bytes,
        })
    }

    fn set_hosts(&mut self, flow: u16, route: Route, hosts: [u32; 2]) {
        self.classes.iter_mut().for_each(|class| class.queue.set_hosts(flow, route, hosts));
    }

    fn set_weight(&mut self, flow: u16, weight: u32) {
        self.classes.iter_mut().for_each(|class| class.queue.set_weight(flow, weight));
    }
}

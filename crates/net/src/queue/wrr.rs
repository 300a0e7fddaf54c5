use super::{BufferBounds, PortContext, QueueDiscipline, QueueKind};
use crate::{Backlog, Fate, Packet, Route, Sla};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Time};
use std::fmt::Display;
use std::str::FromStr;

/// Configuration of weighted round robin: one queue for each class of packets. The queues share the link by weight (as the separate queue
/// for Telnet in the DiffServ paper). Each queue has its own limit. A limit in packets always includes one packet in transmission, even if
/// that packet is from another queue. A limit in bytes includes the packet in transmission only if it is from this queue.
#[derive(Clone, Debug, PartialEq)]
pub struct WrrSpec<S> {
    /// Queues in the order of [`LINES`]. The queue for the rest is always present.
    lines: Vec<LineSpec<S>>,
}

#[derive(Clone, Debug, PartialEq)]
struct LineSpec<S> {
    /// Index in [`LINES`].
    line: usize,
    weight: u32,
    queue: S,
}

const NAME: &str = "wrr";
/// Names of the assured forwarding classes (RFC 2597), and of the rest: packets that have no class, or whose class has no queue.
const LINES: [&str; 5] = ["af1", "af2", "af3", "af4", "rest"];
const REST: usize = LINES.len() - 1;

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
        let mut lines = Vec::new();
        for (line, key) in LINES.into_iter().enumerate() {
            if let Some(said) = text.take(key) {
                lines.push(read_line(text, line, said)?);
            }
            if text.take(key).is_some() {
                return Err(text.error(format!("{key} at most once")));
            }
        }
        if lines.last().is_none_or(|last| last.line != REST) {
            return Err(text.error("rest=WEIGHT(QUEUE), the queue of all other packets"));
        }
        Ok(Self { lines })
    }

    fn write(&self, to: &mut Written) {
        to.name(NAME);
        for LineSpec { line, weight, queue } in &self.lines {
            to.key(LINES[*line], format_args!("{weight}({queue})"));
        }
    }
}

fn read_line<S: FromStr<Err = ParseError> + QueueKind>(
    text: &Notation<'_>,
    line: usize,
    said: &str,
) -> Result<LineSpec<S>, ParseError> {
    let key = LINES[line];
    let parts = said.strip_suffix(')').and_then(|parts| parts.split_once('('));
    let parts = parts.and_then(|(weight, queue)| Some((weight.trim().parse::<u32>().ok()?, queue.trim())));
    let (weight, queue) = parts
        .filter(|(weight, _)| (1..=MAX_WEIGHT).contains(weight))
        .ok_or_else(|| text.error(format!("{key}=WEIGHT(QUEUE), with a weight from 1 to {MAX_WEIGHT}")))?;
    if queue.split(':').next() == Some(NAME) {
        return Err(text.error(format!("a queue for {key} other than wrr")));
    }
    match queue.parse::<S>() {
        Ok(queue) if queue.counts_time() => Err(text.error(format!(
            "a limit in packets or bytes for {key}, since the queueing delay of a queue that shares a link is unknown"
        ))),
        Ok(queue) => Ok(LineSpec { line, weight, queue }),
        Err(error) => Err(text.error(format!("a queue for {key}; {error}"))),
    }
}

impl<S: QueueKind<Queue: QueueDiscipline>> QueueKind for WrrSpec<S> {
    type Queue = Box<Wrr<S::Queue>>;

    fn build(&self, site: &PortContext<'_>) -> Box<Wrr<S::Queue>> {
        let line = |spec: &LineSpec<S>| Line {
            queue: spec.queue.build(&site.part(spec.line as u32)),
            weight: spec.weight.into(),
            credit: 0,
        };
        let place = |line| self.lines.iter().position(|spec| spec.line == line);
        let rest = self.lines.len() - 1;
        Box::new(Wrr {
            line_of: std::array::from_fn(|line| place(line).unwrap_or(rest)),
            lines: self.lines.iter().map(line).collect(),
            weights: self.lines.iter().map(|spec| i64::from(spec.weight)).sum(),
            turn: 0,
            sent: None,
        })
    }

    fn buffer_bounds(&self) -> BufferBounds {
        let of_each = || self.lines.iter().map(|spec| spec.queue.buffer_bounds());
        // The buffer holds the fewest packets without a drop if all packets are of the class with the smallest queue. It holds the most
        // packets if each queue is full of waiting packets and one packet is in transmission.
        let waiting = |holds: BufferBounds| holds.at_most.map(|all| all.saturating_sub(1));
        let at_most = of_each().try_fold(1, |sum: u32, holds| Some(sum.saturating_add(waiting(holds)?)));
        BufferBounds { surely: of_each().map(|holds| holds.surely).min().unwrap_or(0), at_most }
    }

    fn counts_packets(&self) -> bool {
        self.lines.iter().any(|spec| spec.queue.counts_packets())
    }

    fn isolates_hosts(&self) -> bool {
        self.lines.iter().any(|line| line.queue.isolates_hosts())
    }

    fn conserves_work(&self) -> bool {
        self.lines.iter().all(|spec| spec.queue.conserves_work())
    }

    fn sla(&self) -> Option<Sla> {
        self.lines.iter().filter_map(|spec| spec.queue.sla()).min_by_key(Sla::least_depth)
    }
}

/// Deficit round robin (Shreedhar and Varghese, SIGCOMM 1995) over queues of any discipline.
///
/// The length of the next packet of a queue is not known in advance. A queue may therefore send while its credit is positive. It keeps a
/// negative credit while it is empty, so that a queue that sends occasionally gets no more than its share. The bytes of a round equal one
/// large packet, so that no queue waits for long bursts of other queues.
#[derive(Debug)]
pub struct Wrr<Q> {
    lines: Vec<Line<Q>>,
    /// Index of the queue for packets of each class; the last entry is for packets without a class.
    line_of: [usize; LINES.len()],
    /// Sum of all weights.
    weights: i64,
    /// Index of the queue that is being served and has received its credit for this round.
    turn: usize,
    /// Index of the queue whose packet is in transmission; `None` if no packet is in transmission.
    sent: Option<usize>,
}

#[derive(Debug)]
struct Line<Q> {
    queue: Q,
    weight: i64,
    /// Bytes that the queue may send, multiplied by the sum of all weights to keep the credit an integer.
    credit: i64,
}

/// Bytes that all queues together may send in a round.
const ROUND: i64 = 1500;

impl<Q: QueueDiscipline> Line<Q> {
    fn waits(&self) -> bool {
        self.queue.backlog().packets > 0
    }

    /// Adds the credit of `rounds` rounds. If `saves` is false, because the queue has no packets to send, the credit does not become
    /// positive.
    fn begin(&mut self, rounds: i64, saves: bool) {
        self.credit += rounds * self.weight * ROUND;
        if !saves {
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
    fn has_sent(&mut self, now: Time, fate: &mut dyn Fate) {
        let Some(sent) = self.sent.take() else { return };
        let line = &mut self.lines[sent];
        if line.waits() {
            line.queue.released();
        } else {
            // The empty result makes the queue regard the link as idle.
            line.queue.dequeue(now, fate);
        }
    }
}

impl<Q: QueueDiscipline> QueueDiscipline for Wrr<Q> {
    fn enqueue(&mut self, now: Time, packet: Packet, fate: &mut dyn Fate) {
        let line = self.line_of[packet.dscp.class().map_or(REST, |class| usize::from(class) - 1)];
        self.lines[line].queue.enqueue(now, packet, fate);
    }

    fn dequeue(&mut self, now: Time, fate: &mut dyn Fate) -> Option<Packet> {
        self.has_sent(now, fate);
        // True for queues with packets to send. Set to false for queues that turn out to hold their packets back.
        let mut wants = [false; LINES.len()];
        for (wants, line) in wants.iter_mut().zip(&self.lines) {
            *wants = line.waits();
        }
        loop {
            for _ in 0..self.lines.len() {
                let line = &mut self.lines[self.turn];
                if wants[self.turn] && line.credit > 0 {
                    if let Some(packet) = line.queue.dequeue(now, fate) {
                        line.credit -= i64::from(packet.len) * self.weights;
                        self.sent = Some(self.turn);
                        return Some(packet);
                    }
                    wants[self.turn] = false;
                }
                if wants == [false; LINES.len()] {
                    return None;
                }
                self.turn = (self.turn + 1) % self.lines.len();
                self.lines[self.turn].begin(1, wants[self.turn]);
            }
            // No queue had credit. Rounds are skipped until a queue has credit; the last of these rounds is served in order of turns.
            let who_wants = || self.lines.iter().zip(wants).filter(|(_, wants)| *wants);
            let rounds = who_wants().map(|(line, _)| line.rounds_to_credit()).min().unwrap_or(0);
            if rounds > 1 {
                for (line, wants) in self.lines.iter_mut().zip(wants) {
                    line.begin(rounds - 1, wants);
                }
            }
        }
    }

    fn wake_at(&self) -> Option<Time> {
        self.lines.iter().filter_map(|line| line.queue.wake_at()).min()
    }

    fn backlog(&self) -> Backlog {
        self.lines.iter().map(|line| line.queue.backlog()).fold(Backlog::default(), |sum, of| Backlog {
            packets: sum.packets + of.packets,
            bytes: sum.bytes + of.bytes,
        })
    }

    fn set_hosts(&mut self, flow: u16, route: Route, hosts: [u32; 2]) {
        self.lines.iter_mut().for_each(|line| line.queue.set_hosts(flow, route, hosts));
    }

    fn set_weight(&mut self, flow: u16, weight: u32) {
        self.lines.iter_mut().for_each(|line| line.queue.set_weight(flow, weight));
    }
}

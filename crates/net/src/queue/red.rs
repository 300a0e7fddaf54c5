use super::fifo::Fifo;
use super::limit::Buffer;
use super::victim::{VictimRule, Victims};
use super::{BufferBounds, Capacity, PortContext, QueueDiscipline, QueueKind, QueueTraits, set_ce};
use crate::{Backlog, DropReason, Ecn, Packet, PacketEvents, Priority};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{Bytes, ParseError, Rate, Rng, Share, Span, Time, math};
use std::fmt::Debug;

/// Configuration of random early detection (RED).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedSpec {
    /// Buffer limit: packets that may wait besides the one in transmission, or bytes including the packet in transmission.
    pub limit: Capacity,
    /// Parameters of the algorithm.
    pub parameters: RedParameters,
}

impl RedSpec {
    pub(super) fn write_numbers<'a>(&self, to: &'a mut Written) -> &'a mut Written {
        let (p, defaults) = (&self.parameters, RedParameters::of_the_paper(self.limit));
        let to = self.limit.write_waiting(to);
        if self.limit.is_in_bytes() {
            let bytes = |threshold| Bytes(threshold as u64);
            to.option("min", bytes(p.min_threshold), bytes(defaults.min_threshold)).option(
                "max",
                bytes(p.max_threshold),
                bytes(defaults.max_threshold),
            );
        } else {
            to.option("min", p.min_threshold, defaults.min_threshold).option(
                "max",
                p.max_threshold,
                defaults.max_threshold,
            );
        }
        to.option("weight", p.weight, defaults.weight)
            .option("max_p", p.max_probability, defaults.max_probability)
            .option("gentle", p.gentle, defaults.gentle)
            .option("wait", p.wait, defaults.wait)
            .option("mean_packet", p.mean_packet_bytes, defaults.mean_packet_bytes)
            .option("ecn", p.ecn, defaults.ecn)
            .option("hard", p.hard, defaults.hard)
    }
}

impl Kind for RedSpec {
    const USAGE: &'static [Usage] = &[(
        "red:LIMIT[,min=,max=,weight=0.01,max_p=0.1,gentle=false,wait=true,mean_packet=512,ecn=false,hard=true]",
        "random early detection (RED); LIMIT in packets, excluding the packet in transmission, or in bytes, including it; min and max: \
         thresholds of the average queue length in the unit of LIMIT, by default 20 % and 60 % of it; weight: weight of a sample in the \
         average; max_p: drop probability at max, above which it rises gradually with gentle=true; wait: minimum spacing of drops; \
         mean_packet: packet size in bytes by which the average ages while the link is idle; with LIMIT in bytes, the drop probability \
         is proportional to the size of a packet divided by mean_packet; ecn: marks ECN-capable packets instead of dropping them early, \
         with hard=false also above max, as in Linux",
    )];
    const EXAMPLES: &'static [&'static str] = &[
        "red:6,min=1,max=4,weight=0.2,max_p=0.3",
        "red:4000B,min=500B,max=2000B,weight=0.3,max_p=0.5,gentle=true,mean_packet=500",
    ];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let limit = Capacity::read_waiting(text)?;
        let defaults = RedParameters::of_the_paper(limit);
        let mut threshold = |key, defaults: f64| match limit {
            Capacity::Packets(_) => text.option(key, defaults),
            Capacity::Bytes(_) => text.option(key, Bytes(defaults as u64)).map(|Bytes(bytes)| bytes as f64),
        };
        let (min_threshold, max_threshold) =
            (threshold("min", defaults.min_threshold)?, threshold("max", defaults.max_threshold)?);
        let parameters = RedParameters {
            min_threshold,
            max_threshold,
            weight: text.option("weight", Share(defaults.weight))?.0,
            max_probability: text.option("max_p", Share(defaults.max_probability))?.0,
            gentle: text.option("gentle", defaults.gentle)?,
            wait: text.option("wait", defaults.wait)?,
            mean_packet_bytes: text.option("mean_packet", defaults.mean_packet_bytes)?,
            ecn: text.option("ecn", defaults.ecn)?,
            hard: text.option("hard", defaults.hard)?,
        };
        let p = &parameters;
        let ordered = 0.0 <= p.min_threshold && p.min_threshold < p.max_threshold;
        let fraction = |value: f64| value > 0.0 && value <= 1.0;
        if !(ordered && fraction(p.weight) && fraction(p.max_probability) && p.mean_packet_bytes > 0) {
            return Err(text.error("0 <= min < max, weight and max_p in (0, 1], and mean_packet positive"));
        }
        Ok(Self { limit, parameters })
    }

    fn write(&self, to: &mut Written) {
        self.write_numbers(to.name("red"));
    }
}

impl QueueKind for RedSpec {
    type Queue = Red;

    fn build(&self, context: &PortContext<'_>) -> Red {
        Red::new(self.limit, RedLaw::new(self.parameters, context.line_rate(), context.drop_rng()))
    }

    /// Returns bounds with a lower bound of 0: packets may be dropped long before the buffer is full.
    fn buffer_bounds(&self) -> BufferBounds {
        BufferBounds { guaranteed: 0, ..self.limit.buffer_bounds() }
    }

    fn counts_packets(&self) -> bool {
        !self.limit.is_in_bytes()
    }

    fn traits(&self) -> QueueTraits {
        QueueTraits { marks_ecn: self.parameters.ecn, is_random: true, ..QueueTraits::default() }
    }
}

/// Parameters of RED (Floyd and Jacobson, "Random early detection gateways", 1993). Queue lengths are in packets or in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedParameters {
    /// Average queue length below which no packet is dropped early, min_th.
    pub min_threshold: f64,
    /// Average queue length at and above which every arriving packet is dropped (with `gentle`, only at and above twice this length),
    /// max_th.
    pub max_threshold: f64,
    /// Weight of the current queue length in the average at each arrival, w_q.
    pub weight: f64,
    /// Drop probability when the average reaches `max_threshold`, max_p.
    pub max_probability: f64,
    /// True if the drop probability rises from `max_probability` to 1 between `max_threshold` and twice `max_threshold`.
    pub gentle: bool,
    /// True if at least 1/p_b packets are accepted between two early drops (ns-2's `wait_`).
    pub wait: bool,
    /// Mean packet size, bytes. Determines the decay of the average on an idle link and, with queue lengths in bytes, the weight of an
    /// arriving packet.
    pub mean_packet_bytes: u32,
    /// True if ECN-capable packets are marked instead of dropped early (RFC 3168, section 7; ns-2's `setbit_`).
    pub ecn: bool,
    /// True if ECN-capable packets are dropped rather than marked while the average is so high that every arriving packet is dropped (ns-2;
    /// Linux's `harddrop`).
    pub hard: bool,
}

impl RedParameters {
    /// Returns the parameters of the CATNIP paper, section V-D: thresholds of 20 % and 60 % of the buffer, weight 0.01
    /// (catp28 to catp30). Thresholds of a buffer in bytes are whole bytes.
    pub fn of_the_paper(limit: Capacity) -> Self {
        let of_limit = |share: f64| match limit {
            Capacity::Packets(_) => share * limit.amount(),
            Capacity::Bytes(_) => (share * limit.amount()).round(),
        };
        Self {
            min_threshold: of_limit(0.2),
            max_threshold: of_limit(0.6),
            weight: 0.01,
            max_probability: 0.1,
            gentle: false,
            wait: true,
            mean_packet_bytes: 512,
            ecn: false,
            hard: true,
        }
    }
}

/// Decision of RED about an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Acceptance of the arriving packet.
    Accept,
    /// Random drop of a packet.
    Early,
    /// Drop of a packet because the average is too high.
    Forced,
}

/// Algorithm of RED, separate from the packet buffer.
///
/// Where the 1993 paper gives no details, the algorithm follows ns-2's `RED`: a packet that finds at most one packet waiting is never
/// dropped, and the first packet that arrives after the average has crossed `min_threshold` is accepted and starts the count of packets
/// since the last drop. With queue lengths in bytes, the algorithm is ns-2's with `queue_in_bytes_` and `bytes_`.
#[derive(Debug)]
pub struct RedLaw {
    parameters: RedParameters,
    packet_time: Span,
    average: f64,
    /// Number of packets that have arrived since the last drop. With queue lengths in bytes, their total size divided by the mean packet
    /// size.
    count: f64,
    above_min: bool,
    idle_since: Option<Time>,
    rng: Rng,
}

impl RedLaw {
    /// Creates the state for an empty queue on a link of this rate.
    pub fn new(parameters: RedParameters, rate: Rate, rng: Rng) -> Self {
        Self {
            parameters,
            packet_time: rate.time_of(u64::from(parameters.mean_packet_bytes)).max(Span::from_nanos(1)),
            average: 0.0,
            count: 0.0,
            above_min: false,
            idle_since: Some(Time::ZERO),
            rng,
        }
    }

    /// Returns the parameters, which a discipline that adapts RED may change.
    pub(super) fn parameters_mut(&mut self) -> &mut RedParameters {
        &mut self.parameters
    }

    /// Returns the average queue length.
    pub fn average(&self) -> f64 {
        self.average
    }

    /// Records that the link had nothing to send at `now`. No effect if the link was idle already.
    pub fn on_idle(&mut self, now: Time) {
        self.idle_since.get_or_insert(now);
    }

    /// Records that a packet was dropped because the buffer was full, regardless of the average queue length.
    pub fn on_overflow(&mut self) {
        self.count = 0.0;
    }

    /// Returns the decision about a packet that arrives at `now` and finds `waiting` packets in the queue.
    pub fn on_arrival(&mut self, now: Time, waiting: u32) -> Verdict {
        self.evaluate(now, waiting.into(), 1.0)
    }

    /// Returns the decision about a packet of `len` bytes that arrives at `now` and finds `waiting_bytes` bytes in the queue. The spacing
    /// of drops and the drop probability depend on packet sizes (1993, section VI: "a large packet is more likely to be marked than is a
    /// small packet").
    pub fn on_arrival_in_bytes(&mut self, now: Time, waiting_bytes: u64, len: u32) -> Verdict {
        let share = f64::from(len) / f64::from(self.parameters.mean_packet_bytes);
        self.evaluate(now, waiting_bytes as f64, share)
    }

    /// Returns the decision about an arriving packet. `waiting` has the unit of the thresholds. `share` is the size of the packet divided
    /// by the mean packet size, or 1 with queue lengths in packets.
    fn evaluate(&mut self, now: Time, waiting: f64, share: f64) -> Verdict {
        self.update_average(now, waiting);
        self.count += share;
        let p = &self.parameters;
        if self.average < p.min_threshold || waiting <= 1.0 {
            self.above_min = false;
            return Verdict::Accept;
        }
        let ceiling = if p.gentle { 2.0 * p.max_threshold } else { p.max_threshold };
        if self.average >= ceiling {
            self.count = 0.0;
            return Verdict::Forced;
        }
        if !self.above_min {
            self.above_min = true;
            self.count = share;
            return Verdict::Accept;
        }
        let probability = spaced(base_probability(p, self.average), self.count, p.wait);
        // A certain drop does not depend on the size of the packet.
        let probability = if probability < 1.0 { probability * share } else { probability };
        if self.rng.uniform() <= probability {
            self.count = 0.0;
            return Verdict::Early;
        }
        Verdict::Accept
    }

    fn update_average(&mut self, now: Time, waiting: f64) {
        let keep = 1.0 - self.parameters.weight;
        if let Some(since) = self.idle_since.take() {
            // Each packet that the idle link could have sent counts as an arrival at an empty queue.
            let missed = (now - since).in_units_of(self.packet_time);
            self.average *= math::powi(keep, missed.min(i32::MAX as u64) as u32);
        }
        self.average = keep * self.average + self.parameters.weight * waiting;
    }
}

/// Returns p_b, the drop probability at this average queue length without the spacing of drops.
pub(super) fn base_probability(p: &RedParameters, average: f64) -> f64 {
    if average < p.max_threshold {
        p.max_probability * (average - p.min_threshold) / (p.max_threshold - p.min_threshold)
    } else if p.gentle {
        p.max_probability + (1.0 - p.max_probability) * (average - p.max_threshold) / p.max_threshold
    } else {
        1.0
    }
}

/// Returns p_a, the drop probability that makes the gaps between drops uniformly instead of geometrically distributed.
pub(super) fn spaced(p_b: f64, count: f64, wait: bool) -> f64 {
    let expected = count * p_b;
    let reach = if wait { 2.0 } else { 1.0 };
    if wait && expected < 1.0 {
        0.0
    } else if expected < reach {
        (p_b / (reach - expected)).min(1.0)
    } else {
        1.0
    }
}

/// Algorithm of RED, separate from the packet buffer.
pub trait RedControl: Debug + Send {
    /// Returns the decision about a packet that arrives at `now` and finds `waiting` in the queue. `in_bytes` is true if the buffer limit is in
    /// bytes.
    fn verdict(&mut self, now: Time, waiting: Backlog, packet: &Packet, in_bytes: bool) -> Verdict;
    /// Returns true if ECN-capable packets are marked instead of dropped by this verdict.
    fn is_marking(&self, verdict: Verdict) -> bool;
    /// Records that a packet was dropped because the buffer was full.
    fn on_overflow(&mut self);
    /// Records that the link had nothing to send at `now`. No effect if the link was idle already.
    fn on_idle(&mut self, now: Time);
}

impl RedControl for RedLaw {
    fn verdict(&mut self, now: Time, waiting: Backlog, packet: &Packet, in_bytes: bool) -> Verdict {
        if in_bytes {
            self.on_arrival_in_bytes(now, waiting.bytes, packet.len)
        } else {
            self.on_arrival(now, waiting.packets)
        }
    }
    fn is_marking(&self, verdict: Verdict) -> bool {
        let p = &self.parameters;
        match verdict {
            Verdict::Accept => false,
            Verdict::Early => p.ecn,
            Verdict::Forced => p.ecn && !p.hard,
        }
    }
    fn on_overflow(&mut self) {
        self.on_overflow();
    }
    fn on_idle(&mut self, now: Time) {
        self.on_idle(now);
    }
}

/// FIFO managed by RED. The arriving packet is dropped, or in CATNIP-RED another packet may be pushed out instead.
#[derive(Debug)]
pub struct Red<L = RedLaw> {
    queue: Fifo,
    buffer: Buffer,
    in_bytes: bool,
    law: L,
    victims: Option<Victims>,
}

impl<L: RedControl> Red<L> {
    /// Creates a queue with this limit. A `NonZeroU32` is the number of packets that may wait besides the one in transmission.
    pub fn new(limit: impl Into<Capacity>, law: L) -> Self {
        let limit = limit.into();
        let (buffer, in_bytes) = (Buffer::new(limit), limit.is_in_bytes());
        Self { queue: Fifo::default(), buffer, in_bytes, law, victims: None }
    }

    /// Returns the algorithm.
    pub(super) fn law_mut(&mut self) -> &mut L {
        &mut self.law
    }

    /// Converts the queue to CATNIP-RED (CATNIP paper, section III-C): RED decides when a packet is dropped. A queued packet of lower
    /// priority than the arriving packet, selected by `rule`, is then pushed out. If the queue has no such packet, the arriving packet is
    /// dropped.
    pub fn with_victims(self, rule: VictimRule, rng: Rng) -> Self {
        Self { victims: Some(Victims::new(rule, Priority::DROPPED_FIRST, rng)), ..self }
    }

    /// Returns the reason for which RED or the buffer limit requires a drop at the arrival of `packet`, and true if a mark is enough; `None`
    /// if neither requires a drop.
    fn drop_reason(&mut self, now: Time, packet: &Packet) -> Option<(DropReason, bool)> {
        let backlog = self.queue.backlog();
        let verdict = self.law.verdict(now, backlog, packet, self.in_bytes);
        if !self.buffer.accepts(backlog, packet) {
            self.law.on_overflow();
            return Some((DropReason::Overflow, false));
        }
        let can_mark = self.law.is_marking(verdict) && packet.ecn != Ecn::NOT_ECT;
        match verdict {
            Verdict::Accept => None,
            Verdict::Early => Some((DropReason::Early, can_mark)),
            Verdict::Forced => Some((DropReason::Forced, can_mark)),
        }
    }
}

impl<L: RedControl> QueueDiscipline for Red<L> {
    fn enqueue(&mut self, now: Time, mut packet: Packet, events: &mut dyn PacketEvents) {
        let reason = self.drop_reason(now, &packet);
        if let Some((_, true)) = reason {
            // RFC 3168, section 5: "the CE codepoint of an ECN-Capable packet SHOULD only be set if the router would
            // otherwise have dropped the packet as an indication of congestion to the end nodes".
            set_ce(now, &mut packet, events);
        } else if let Some((reason, _)) = reason {
            let Self { queue, buffer, victims, .. } = self;
            let push_out_victim = |victims: &mut Victims| {
                // A limit in bytes may require several packets to be pushed out.
                if reason == DropReason::Overflow {
                    return victims.push_out(now, &packet, (queue, buffer), events);
                }
                let victim = victims.choose(queue, packet.dscp.priority());
                victim.map(|index| events.dropped(now, queue.remove(index), DropReason::PushedOut)).is_some()
            };
            if !victims.as_mut().is_some_and(push_out_victim) {
                return events.dropped(now, packet, reason);
            }
        }
        self.queue.push(packet);
    }

    fn dequeue(&mut self, now: Time, _events: &mut dyn PacketEvents) -> Option<Packet> {
        let packet = self.queue.pop();
        self.buffer.set_in_transmission(packet.as_ref());
        if packet.is_none() {
            self.law.on_idle(now);
        }
        packet
    }

    fn released(&mut self) {
        self.buffer.set_in_transmission(None);
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }
}

use super::fifo::Fifo;
use super::places;
use super::victim::VictimRule;
use super::{Holds, QueueDiscipline, QueueKind, Site};
use crate::{Backlog, Colour, DropReason, Ecn, Fate, Packet};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Rate, Rng, Share, Span, Time};
use std::num::NonZeroU32;

/// Random early detection as configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedSpec {
    /// Packets that may wait beside the one in transmission.
    pub waiting: NonZeroU32,
    /// The law's numbers.
    pub parameters: RedParameters,
}

/// Stands for a wire without a bound.
const FASTEST: Rate = Rate::from_bits_per_second(u64::MAX).unwrap();

impl RedSpec {
    pub(super) fn write_numbers<'a>(&self, to: &'a mut Written) -> &'a mut Written {
        let (p, usual) = (&self.parameters, RedParameters::of_the_paper(self.waiting));
        to.value(self.waiting)
            .option("min", p.min_threshold, usual.min_threshold)
            .option("max", p.max_threshold, usual.max_threshold)
            .option("weight", p.weight, usual.weight)
            .option("max_p", p.max_probability, usual.max_probability)
            .option("gentle", p.gentle, usual.gentle)
            .option("wait", p.wait, usual.wait)
            .option("mean_packet", p.mean_packet_bytes, usual.mean_packet_bytes)
            .option("ecn", p.ecn, usual.ecn)
    }
}

impl Kind for RedSpec {
    const USAGE: &'static [Usage] = &[(
        "red:LIMIT[,min=,max=,weight=0.01,max_p=0.1,gentle=false,wait=true,mean_packet=512,ecn=false]",
        "random early detection; LIMIT packets may wait; min and max, thresholds of the average in packets, are 20 % and 60 % of it \
         unless said; weight is that of a sample in the average, max_p the probability of a drop at max, from which gentle lets it rise; \
         wait keeps drops apart; mean_packet bytes age the average while the wire is idle; ecn marks packets that can be marked where \
         it would drop them early",
    )];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let waiting = places::waiting_of_red(text)?;
        let usual = RedParameters::of_the_paper(waiting);
        let parameters = RedParameters {
            min_threshold: text.option("min", usual.min_threshold)?,
            max_threshold: text.option("max", usual.max_threshold)?,
            weight: text.option("weight", Share(usual.weight))?.0,
            max_probability: text.option("max_p", Share(usual.max_probability))?.0,
            gentle: text.option("gentle", usual.gentle)?,
            wait: text.option("wait", usual.wait)?,
            mean_packet_bytes: text.option("mean_packet", usual.mean_packet_bytes)?,
            ecn: text.option("ecn", usual.ecn)?,
        };
        let p = &parameters;
        let ordered = 0.0 <= p.min_threshold && p.min_threshold < p.max_threshold;
        let fraction = |value: f64| value > 0.0 && value <= 1.0;
        if !(ordered && fraction(p.weight) && fraction(p.max_probability) && p.mean_packet_bytes > 0) {
            return Err(text.error("0 <= min < max, weight and max_p in (0, 1], and mean_packet positive"));
        }
        Ok(Self { waiting, parameters })
    }

    fn write(&self, to: &mut Written) {
        self.write_numbers(to.name("red"));
    }
}

impl QueueKind for RedSpec {
    type Queue = Box<Red>;

    fn build(&self, site: &Site<'_>) -> Box<Red> {
        let rate = site.rate.mean().unwrap_or(FASTEST);
        Box::new(Red::new(self.waiting, RedLaw::new(self.parameters, rate, site.drops())))
    }

    /// It may drop long before it is full.
    fn holds(&self) -> Holds {
        Holds { surely: 0, at_most: Some(self.waiting.get().saturating_add(1)) }
    }
}

/// RED's numbers (Floyd and Jacobson, "Random early detection gateways", 1993); the queue is measured in packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedParameters {
    /// Below this average nothing is dropped early, packets.
    pub min_threshold: f64,
    /// At or above this average everything is dropped (unless `gentle`), packets.
    pub max_threshold: f64,
    /// Weight of one arrival in the average, w_q.
    pub weight: f64,
    /// Drop probability as the average reaches `max_threshold`, max_p.
    pub max_probability: f64,
    /// Between `max_threshold` and twice that the probability rises from `max_probability` to 1.
    pub gentle: bool,
    /// Keep at least 1/p_b packets between two early drops (ns-2's `wait_`).
    pub wait: bool,
    /// The packet size for which an idle wire's missed arrivals are counted, bytes.
    pub mean_packet_bytes: u32,
    /// Mark arrivals instead of dropping early, if their ends can hear of it (RFC 3168, section 7; ns-2's `setbit_`).
    pub ecn: bool,
}

impl RedParameters {
    /// The CATNIP paper, section V-D: thresholds of 20 % and 60 % of the buffer, weight 0.01 (catp28 to catp30).
    pub fn of_the_paper(waiting: NonZeroU32) -> Self {
        let limit = f64::from(waiting.get());
        Self {
            min_threshold: 0.2 * limit,
            max_threshold: 0.6 * limit,
            weight: 0.01,
            max_probability: 0.1,
            gentle: false,
            wait: true,
            mean_packet_bytes: 512,
            ecn: false,
        }
    }
}

/// What RED wants done with an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Let it in.
    Accept,
    /// Drop a packet: the random experiment said so.
    Early,
    /// Drop a packet: the average is too high.
    Forced,
}

/// The law of RED: it holds numbers, never packets.
///
/// It follows ns-2's `RED` where the 1993 paper is silent: an arrival that finds at most one packet waiting is
/// never dropped, and the first arrival after the average crosses `min_threshold` starts the count of packets
/// since the last drop instead of being exposed to the experiment.
#[derive(Debug)]
pub struct RedLaw {
    parameters: RedParameters,
    packet_time: Span,
    average: f64,
    /// Arrivals since the last drop.
    count: f64,
    above_min: bool,
    idle_since: Option<Time>,
    rng: Rng,
}

impl RedLaw {
    /// A law for a wire of this rate that has been idle from the beginning.
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

    /// The average queue, packets.
    pub fn average(&self) -> f64 {
        self.average
    }

    /// The wire found nothing to send at `now`; if it was idle already, nothing changes.
    pub fn on_idle(&mut self, now: Time) {
        self.idle_since.get_or_insert(now);
    }

    /// The queue was full, so that a packet goes whatever the average says.
    pub fn on_overflow(&mut self) {
        self.count = 0.0;
    }

    /// An arrival finds `waiting` packets.
    pub fn on_arrival(&mut self, now: Time, waiting: u32) -> Verdict {
        self.update_average(now, waiting);
        self.count += 1.0;
        let p = &self.parameters;
        if self.average < p.min_threshold || waiting <= 1 {
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
            self.count = 1.0;
            return Verdict::Accept;
        }
        let probability = spaced(base_probability(p, self.average), self.count, p.wait);
        if self.rng.uniform() <= probability {
            self.count = 0.0;
            return Verdict::Early;
        }
        Verdict::Accept
    }

    fn update_average(&mut self, now: Time, waiting: u32) {
        let keep = 1.0 - self.parameters.weight;
        if let Some(since) = self.idle_since.take() {
            // The arrivals that an idle wire could have served each found an empty queue.
            let missed = (now - since).in_units_of(self.packet_time);
            self.average *= keep.powi(missed.min(i32::MAX as u64) as i32);
        }
        self.average = keep * self.average + self.parameters.weight * f64::from(waiting);
    }
}

/// p_b: the probability that belongs to an average, before drops are spaced.
pub(super) fn base_probability(p: &RedParameters, average: f64) -> f64 {
    if average < p.max_threshold {
        p.max_probability * (average - p.min_threshold) / (p.max_threshold - p.min_threshold)
    } else if p.gentle {
        p.max_probability + (1.0 - p.max_probability) * (average - p.max_threshold) / p.max_threshold
    } else {
        1.0
    }
}

/// p_a: p_b spread so that the gaps between drops are uniform instead of geometric.
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

/// FIFO governed by [`RedLaw`]; the arriving packet is the one dropped, unless another one gives it its place.
#[derive(Debug)]
pub struct Red {
    queue: Fifo,
    waiting: NonZeroU32,
    law: RedLaw,
    victims: Option<(VictimRule, Rng)>,
}

impl Red {
    /// A queue in which at most `waiting` packets wait.
    pub fn new(waiting: NonZeroU32, law: RedLaw) -> Self {
        Self { queue: Fifo::default(), waiting, law, victims: None }
    }

    /// CATNIP-RED (CATNIP paper, section III-C): RED decides when a packet must go; then a LOW packet goes if there is one,
    /// the arrival itself first.
    pub fn with_victims(self, rule: VictimRule, rng: Rng) -> Self {
        Self { victims: Some((rule, rng)), ..self }
    }

    /// Why RED or the end of the buffer wants a packet dropped at this arrival, if so.
    fn drops(&mut self, now: Time) -> Option<DropReason> {
        let verdict = self.law.on_arrival(now, self.queue.len());
        if self.queue.len() >= self.waiting.get() {
            self.law.on_overflow();
            return Some(DropReason::Overflow);
        }
        match verdict {
            Verdict::Accept => None,
            Verdict::Early => Some(DropReason::Early),
            Verdict::Forced => Some(DropReason::Forced),
        }
    }
}

impl QueueDiscipline for Red {
    fn enqueue(&mut self, now: Time, mut packet: Packet, fate: &mut dyn Fate) {
        let why = self.drops(now);
        if why == Some(DropReason::Early) && self.law.parameters.ecn && packet.ecn != Ecn::NotEct {
            // RFC 3168, section 5: "the CE codepoint of an ECN-Capable packet SHOULD only be set if the router would otherwise have
            // dropped the packet as an indication of congestion to the end nodes".
            if packet.ecn != Ecn::Ce {
                packet.ecn = Ecn::Ce;
                fate.marked(now, &packet);
            }
        } else if let Some(why) = why {
            let (order, arrival) = (Colour::DROPPED_FIRST, packet.dscp.colour());
            let victims = self.victims.as_mut();
            match victims.and_then(|(rule, rng)| rule.choose(&self.queue, order, arrival, rng)) {
                None => return fate.dropped(now, packet, why),
                Some(index) => fate.dropped(now, self.queue.remove(index), DropReason::PushedOut),
            }
        }
        self.queue.push(packet);
    }

    fn dequeue(&mut self, now: Time, _fate: &mut dyn Fate) -> Option<Packet> {
        let packet = self.queue.pop();
        if packet.is_none() {
            self.law.on_idle(now);
        }
        packet
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }
}

use super::fifo::Fifo;
use super::places::Room;
use super::victim::{VictimRule, Victims};
use super::{Capacity, Holds, QueueDiscipline, QueueKind, Site, ce};
use crate::{Backlog, Colour, DropReason, Ecn, Fate, Packet};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{Bytes, ParseError, Rate, Rng, Share, Span, Time};

/// Random early detection as configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedSpec {
    /// Packets that may wait beside the one in transmission, or bytes with it.
    pub limit: Capacity,
    /// The law's numbers.
    pub parameters: RedParameters,
}

/// Stands for a wire without a bound.
const FASTEST: Rate = Rate::from_bits_per_second(u64::MAX).unwrap();

impl RedSpec {
    pub(super) fn write_numbers<'a>(&self, to: &'a mut Written) -> &'a mut Written {
        let (p, usual) = (&self.parameters, RedParameters::of_the_paper(self.limit));
        let to = self.limit.write_waiting(to);
        if self.limit.is_in_bytes() {
            let bytes = |threshold| Bytes(threshold as u64);
            to.option("min", bytes(p.min_threshold), bytes(usual.min_threshold)).option(
                "max",
                bytes(p.max_threshold),
                bytes(usual.max_threshold),
            );
        } else {
            to.option("min", p.min_threshold, usual.min_threshold).option(
                "max",
                p.max_threshold,
                usual.max_threshold,
            );
        }
        to.option("weight", p.weight, usual.weight)
            .option("max_p", p.max_probability, usual.max_probability)
            .option("gentle", p.gentle, usual.gentle)
            .option("wait", p.wait, usual.wait)
            .option("mean_packet", p.mean_packet_bytes, usual.mean_packet_bytes)
            .option("ecn", p.ecn, usual.ecn)
            .option("hard", p.hard, usual.hard)
    }
}

impl Kind for RedSpec {
    const USAGE: &'static [Usage] = &[(
        "red:LIMIT[,min=,max=,weight=0.01,max_p=0.1,gentle=false,wait=true,mean_packet=512,ecn=false,hard=true]",
        "random early detection; LIMIT packets may wait, or LIMIT as that of drop-tail in bytes; min and max, thresholds of the average \
         in the same unit, are 20 % and 60 % of it unless said; weight is that of a sample in the average, max_p the probability of a \
         drop at max, from which gentle lets it rise; wait keeps drops apart; mean_packet bytes age the average while the wire is idle, \
         and in bytes a packet of twice as many is dropped twice as often; ecn marks packets that can be marked where it would drop \
         them early, and with hard=false also from max on, as Linux does",
    )];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let limit = Capacity::read_waiting(text)?;
        let usual = RedParameters::of_the_paper(limit);
        let mut threshold = |key, usual: f64| match limit {
            Capacity::Packets(_) => text.option(key, usual),
            Capacity::Bytes(_) => text.option(key, Bytes(usual as u64)).map(|Bytes(bytes)| bytes as f64),
        };
        let (min_threshold, max_threshold) =
            (threshold("min", usual.min_threshold)?, threshold("max", usual.max_threshold)?);
        let parameters = RedParameters {
            min_threshold,
            max_threshold,
            weight: text.option("weight", Share(usual.weight))?.0,
            max_probability: text.option("max_p", Share(usual.max_probability))?.0,
            gentle: text.option("gentle", usual.gentle)?,
            wait: text.option("wait", usual.wait)?,
            mean_packet_bytes: text.option("mean_packet", usual.mean_packet_bytes)?,
            ecn: text.option("ecn", usual.ecn)?,
            hard: text.option("hard", usual.hard)?,
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
    type Queue = Box<Red>;

    fn build(&self, site: &Site<'_>) -> Box<Red> {
        let rate = site.rate.mean().unwrap_or(FASTEST);
        Box::new(Red::new(self.limit, RedLaw::new(self.parameters, rate, site.drops())))
    }

    /// It may drop long before it is full.
    fn holds(&self) -> Holds {
        Holds { surely: 0, ..self.limit.holds() }
    }

    fn counts_packets(&self) -> bool {
        !self.limit.is_in_bytes()
    }
}

/// RED's numbers (Floyd and Jacobson, "Random early detection gateways", 1993); the queue is measured in packets or bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedParameters {
    /// Below this average nothing is dropped early.
    pub min_threshold: f64,
    /// At or above this average everything is dropped (unless `gentle`).
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
    /// Drop them where the average is too high, whoever can hear (ns-2; Linux's `harddrop`).
    pub hard: bool,
}

impl RedParameters {
    /// The CATNIP paper, section V-D: thresholds of 20 % and 60 % of the buffer, weight 0.01 (catp28 to catp30).
    /// Those of a buffer in bytes are whole bytes.
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
/// since the last drop instead of being exposed to the experiment. In bytes it is ns-2's with `queue_in_bytes_` and `bytes_`.
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

    /// The average queue.
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
        self.judge(now, waiting.into(), 1.0)
    }

    /// An arrival of `len` bytes finds so many others. Drops are spaced, and packets exposed to them, by their bytes (1993, section
    /// VI: "a large packet is more likely to be marked than is a small packet").
    pub fn on_arrival_in_bytes(&mut self, now: Time, waiting_bytes: u64, len: u32) -> Verdict {
        let share = f64::from(len) / f64::from(self.parameters.mean_packet_bytes);
        self.judge(now, waiting_bytes as f64, share)
    }

    /// `waiting` in the unit of the thresholds, and what the arrival is of a packet.
    fn judge(&mut self, now: Time, waiting: f64, share: f64) -> Verdict {
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
        // Where a drop is due it is due for packets of any length.
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
            // The arrivals that an idle wire could have served each found an empty queue.
            let missed = (now - since).in_units_of(self.packet_time);
            self.average *= keep.powi(missed.min(i32::MAX as u64) as i32);
        }
        self.average = keep * self.average + self.parameters.weight * waiting;
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
    room: Room,
    in_bytes: bool,
    law: RedLaw,
    victims: Option<Victims>,
}

impl Red {
    /// A queue of this room; a number is that of packets that wait beside the one in transmission.
    pub fn new(limit: impl Into<Capacity>, law: RedLaw) -> Self {
        let limit = limit.into();
        let (room, in_bytes) = (Room::new(limit), limit.is_in_bytes());
        Self { queue: Fifo::default(), room, in_bytes, law, victims: None }
    }

    /// CATNIP-RED (CATNIP paper, section III-C): RED decides when a packet must go; then a LOW packet goes if there is one,
    /// the arrival itself first.
    pub fn with_victims(self, rule: VictimRule, rng: Rng) -> Self {
        Self { victims: Some(Victims::new(rule, Colour::DROPPED_FIRST, rng)), ..self }
    }

    /// Why RED or the end of the buffer wants a packet dropped at this arrival, if so.
    fn drops(&mut self, now: Time, packet: &Packet) -> Option<DropReason> {
        let backlog = self.queue.backlog();
        let verdict = if self.in_bytes {
            self.law.on_arrival_in_bytes(now, backlog.bytes, packet.len)
        } else {
            self.law.on_arrival(now, backlog.packets)
        };
        if !self.room.takes(backlog, packet) {
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
        let why = self.drops(now, &packet);
        let p = &self.law.parameters;
        let marks = match why {
            Some(DropReason::Early) => p.ecn,
            Some(DropReason::Forced) => p.ecn && !p.hard,
            _ => false,
        };
        if marks && packet.ecn != Ecn::NOT_ECT {
            // RFC 3168, section 5: "the CE codepoint of an ECN-Capable packet SHOULD only be set if the router would otherwise have
            // dropped the packet as an indication of congestion to the end nodes".
            ce(now, &mut packet, fate);
        } else if let Some(why) = why {
            let Self { queue, room, victims, .. } = self;
            let gives = |victims: &mut Victims| {
                // In bytes it may take several.
                if why == DropReason::Overflow {
                    return victims.make_room(now, &packet, (queue, room), fate);
                }
                let victim = victims.choose(queue, packet.dscp.colour());
                victim.map(|index| fate.dropped(now, queue.remove(index), DropReason::PushedOut)).is_some()
            };
            if !victims.as_mut().is_some_and(gives) {
                return fate.dropped(now, packet, why);
            }
        }
        self.queue.push(packet);
    }

    fn dequeue(&mut self, now: Time, _fate: &mut dyn Fate) -> Option<Packet> {
        let packet = self.queue.pop();
        self.room.gives(packet.as_ref());
        if packet.is_none() {
            self.law.on_idle(now);
        }
        packet
    }

    fn released(&mut self) {
        self.room.gives(None);
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }
}

use super::fifo::Fifo;
use super::limit::Buffer;
use super::{BufferBounds, Capacity, PortContext, QueueDiscipline, QueueKind, QueueTraits, Verdict};
use crate::{Backlog, DropReason, Packet, PacketEvents, Priority};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Rng, Share, Time};
use std::fmt;
use std::str::FromStr;

/// Configuration of three-level RED (DiffServ paper). As in RED, the queue length and the thresholds exclude the packet in transmission,
/// while a buffer limit in bytes includes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RioSpec {
    /// Buffer limit: packets that may wait besides the one in transmission, or bytes including the packet in transmission.
    pub limit: Capacity,
    /// Parameters of the algorithm.
    pub parameters: RioParameters,
}

/// Names of the levels in the order of their keys in text, from the level that is dropped first.
const LEVELS: [(&str, Priority); Priority::COUNT] =
    [("low", Priority::Low), ("med", Priority::Medium), ("high", Priority::High)];

impl Kind for RioSpec {
    const USAGE: &'static [Usage] = &[(
        "rio:LIMIT[,low=10%-25%,med=40%-60%,high=60%-95%,weight=0.5,max_p=0.1]",
        "RED with an average and thresholds for each priority, the thresholds in percent of LIMIT; LIMIT as in red",
    )];
    const EXAMPLES: &'static [&'static str] = &["rio:5", "rio:4000B,low=10%-40%,max_p=0.3"];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let limit = Capacity::read_waiting(text)?;
        let mut p = RioParameters::default();
        for (key, priority) in LEVELS {
            let band = &mut p.bands[priority as usize];
            *band = text.take(key).map_or(Ok(*band), |band| {
                let expected = || text.error(format!("{key}=MIN%-MAX%, 0 <= MIN < MAX <= 100"));
                band.parse().map_err(|_| expected())
            })?;
        }
        Share(p.weight) = text.option("weight", Share(p.weight))?;
        Share(p.max_probability) = text.option("max_p", Share(p.max_probability))?;
        let fraction = |value: f64| value > 0.0 && value <= 1.0;
        if !(fraction(p.weight) && fraction(p.max_probability)) {
            return Err(text.error("weight and max_p in (0, 1]"));
        }
        let falls =
            |by: fn(Band) -> f64| !LEVELS.map(|(_, priority)| by(p.bands[priority as usize])).is_sorted();
        if falls(|band| band.min) || falls(|band| band.max) {
            return Err(text.error("thresholds that do not decrease from low to med to high"));
        }
        Ok(Self { limit, parameters: p })
    }

    fn write(&self, to: &mut Written) {
        let (p, defaults) = (&self.parameters, RioParameters::default());
        self.limit.write_waiting(to.name("rio"));
        for (key, priority) in LEVELS {
            to.option(key, p.bands[priority as usize], defaults.bands[priority as usize]);
        }
        to.option("weight", p.weight, defaults.weight).option(
            "max_p",
            p.max_probability,
            defaults.max_probability,
        );
    }
}

impl QueueKind for RioSpec {
    type Queue = Box<Rio>;

    fn build(&self, context: &PortContext<'_>) -> Box<Rio> {
        let law = RioLaw::new(&self.parameters, self.limit, context.drop_rng());
        let (buffer, in_bytes) = (Buffer::new(self.limit), self.limit.is_in_bytes());
        Box::new(Rio { queue: Fifo::default(), buffer, bytes: in_bytes.then_some([0; Priority::COUNT]), law })
    }

    /// Returns bounds with a lower bound of 0: packets may be dropped long before the buffer is full.
    fn buffer_bounds(&self) -> BufferBounds {
        BufferBounds { guaranteed: 0, ..self.limit.buffer_bounds() }
    }

    fn counts_packets(&self) -> bool {
        !self.limit.is_in_bytes()
    }

    fn traits(&self) -> QueueTraits {
        QueueTraits { reads_priority: true, is_random: true, ..QueueTraits::default() }
    }
}

/// Parameters of three-level RED.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RioParameters {
    /// Thresholds between which packets are dropped at random, indexed by [`Priority`].
    pub bands: [Band; Priority::COUNT],
    /// Weight of the current counts in the averages at each arrival.
    pub weight: f64,
    /// Drop probability when the average of a level reaches the upper threshold of the level.
    pub max_probability: f64,
}

/// Defaults of the DiffServ paper, whose figure has thresholds of 10, 25, 40, 60 and 95 percent.
impl Default for RioParameters {
    fn default() -> Self {
        let mut bands = [Band { min: 10.0, max: 25.0 }; Priority::COUNT];
        bands[Priority::Medium as usize] = Band { min: 40.0, max: 60.0 };
        bands[Priority::High as usize] = Band { min: 60.0, max: 95.0 };
        Self { bands, weight: 0.5, max_probability: 0.1 }
    }
}

/// Thresholds for the average queue length of a level, percent of the buffer limit, written `10%-25%`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    /// Average queue length below which no packet of the level is dropped early.
    pub min: f64,
    /// Average queue length at and above which every arriving packet of the level is dropped.
    pub max: f64,
}

impl FromStr for Band {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let ends = text.strip_suffix('%').and_then(|ends| ends.split_once("%-"));
        let band = ends.and_then(|(min, max)| Some(Self { min: min.parse().ok()?, max: max.parse().ok()? }));
        band.filter(|band| 0.0 <= band.min && band.min < band.max && band.max <= 100.0)
            .ok_or_else(|| ParseError::new(text, "MIN%-MAX%, 0 <= MIN < MAX <= 100"))
    }
}

impl fmt::Display for Band {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%-{}%", self.min, self.max)
    }
}

/// Algorithm of three-level RED, separate from the packet buffer.
///
/// The counts of the levels are nested: the count of HIGH includes HIGH packets, the count of MED also MED packets, and the count of LOW
/// all packets. An arriving packet updates the averages of all counts that include it, and the average of its own level determines its drop
/// probability. Drops are not spaced, and the averages do not decay on an idle link: the paper has a weight of one half and gives no
/// further details.
#[derive(Debug)]
pub struct RioLaw {
    /// Lower and upper thresholds in packets or bytes, by drop precedence.
    bands: [(f64, f64); Priority::COUNT],
    averages: [f64; Priority::COUNT],
    weight: f64,
    max_probability: f64,
    rng: Rng,
}

impl RioLaw {
    /// Creates the state for an empty buffer with this limit. A `NonZeroU32` is the number of packets that may wait besides the one in
    /// transmission.
    pub fn new(parameters: &RioParameters, limit: impl Into<Capacity>, rng: Rng) -> Self {
        let limit = limit.into();
        let of_buffer = |percent: f64| percent / 100.0 * limit.amount();
        Self {
            bands: parameters.bands.map(|band| (of_buffer(band.min), of_buffer(band.max))),
            averages: [0.0; Priority::COUNT],
            weight: parameters.weight,
            max_probability: parameters.max_probability,
            rng,
        }
    }

    /// Returns the average count of a level.
    pub fn average(&self, level: Priority) -> f64 {
        self.averages[level as usize]
    }

    /// Returns the drop probability of an arriving packet of this drop precedence if the average count of its level is `average`.
    pub fn probability(&self, priority: Priority, average: f64) -> f64 {
        let (min, max) = self.bands[priority as usize];
        match average {
            average if average < min => 0.0,
            average if average < max => self.max_probability * (average - min) / (max - min),
            _ => 1.0,
        }
    }

    /// Returns the decision about an arriving packet of this drop precedence that finds `waiting` packets or bytes of each drop precedence.
    pub fn on_arrival(&mut self, priority: Priority, waiting: [u64; Priority::COUNT]) -> Verdict {
        let mut count: u64 = waiting.iter().sum();
        for level in Priority::DROPPED_FIRST {
            let average = &mut self.averages[level as usize];
            *average = (1.0 - self.weight) * *average + self.weight * count as f64;
            if level == priority {
                break;
            }
            count -= waiting[level as usize];
        }
        let (average, (min, max)) = (self.average(priority), self.bands[priority as usize]);
        if average < min {
            Verdict::Accept
        } else if average >= max {
            Verdict::Forced
        } else if self.rng.chance(self.probability(priority, average)) {
            Verdict::Early
        } else {
            Verdict::Accept
        }
    }
}

/// FIFO managed by [`RioLaw`], which drops only arriving packets.
#[derive(Debug)]
pub struct Rio {
    queue: Fifo,
    buffer: Buffer,
    /// Waiting bytes by drop precedence; `None` if the limit is in packets.
    bytes: Option<[u64; Priority::COUNT]>,
    law: RioLaw,
}

impl QueueDiscipline for Rio {
    fn enqueue(&mut self, now: Time, packet: Packet, events: &mut dyn PacketEvents) {
        let priority = packet.dscp.priority();
        let waiting = self.bytes.unwrap_or_else(|| self.queue.by_priority().map(u64::from));
        let verdict = self.law.on_arrival(priority, waiting);
        let reason = match verdict {
            _ if !self.buffer.accepts(self.queue.backlog(), &packet) => DropReason::Overflow,
            Verdict::Early => DropReason::Early,
            Verdict::Forced => DropReason::Forced,
            Verdict::Accept => {
                if let Some(bytes) = &mut self.bytes {
                    bytes[priority as usize] += u64::from(packet.len);
                }
                return self.queue.push(packet);
            }
        };
        events.dropped(now, packet, reason);
    }

    fn dequeue(&mut self, _now: Time, _events: &mut dyn PacketEvents) -> Option<Packet> {
        let packet = self.queue.pop();
        self.buffer.set_in_transmission(packet.as_ref());
        if let (Some(bytes), Some(packet)) = (&mut self.bytes, &packet) {
            bytes[packet.dscp.priority() as usize] -= u64::from(packet.len);
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

use super::fifo::Fifo;
use super::places::Room;
use super::{Capacity, Holds, QueueDiscipline, QueueKind, Site, ce};
use crate::{Backlog, DropReason, Ecn, Fate, Packet};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Rng, Span, Time};

/// PIE (RFC 8033) as configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PieSpec {
    /// What fits, the packet in transmission included.
    pub limit: Capacity,
    /// The law's numbers.
    pub parameters: PieParameters,
}

impl Kind for PieSpec {
    const USAGE: &'static [Usage] = &[(
        "pie:LIMIT[,target=15ms,update=15ms,burst=150ms,alpha=0.125,beta=1.25,even=true,ecn=true]",
        "drops or marks arrivals with a probability that each update moves by alpha times how far the delay is from target and beta times \
         how much it has grown, in Hz; bursts shorter than burst pass; even keeps drops apart; LIMIT as that of drop-tail",
    )];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let (limit, usual) = (Capacity::read(text)?, PieParameters::default());
        let parameters = PieParameters {
            target: text.option("target", usual.target)?,
            update: text.option("update", usual.update)?,
            burst: text.option("burst", usual.burst)?,
            alpha_hz: text.option("alpha", usual.alpha_hz)?,
            beta_hz: text.option("beta", usual.beta_hz)?,
            even: text.option("even", usual.even)?,
            ecn: text.option("ecn", usual.ecn)?,
        };
        let is_gain = |hz: f64| (0.0..=MAX_GAIN_HZ).contains(&hz);
        let (is_timed, is_governed) = (
            parameters.target.min(parameters.update),
            is_gain(parameters.alpha_hz) && is_gain(parameters.beta_hz),
        );
        if is_timed == Span::ZERO || !is_governed {
            return Err(
                text.error(format!("target and update above zero, alpha and beta from 0 to {MAX_GAIN_HZ}"))
            );
        }
        Ok(Self { limit, parameters })
    }

    fn write(&self, to: &mut Written) {
        let (p, usual) = (&self.parameters, PieParameters::default());
        to.name("pie")
            .value(self.limit)
            .option("target", p.target, usual.target)
            .option("update", p.update, usual.update)
            .option("burst", p.burst, usual.burst)
            .option("alpha", p.alpha_hz, usual.alpha_hz)
            .option("beta", p.beta_hz, usual.beta_hz)
            .option("even", p.even, usual.even)
            .option("ecn", p.ecn, usual.ecn);
    }
}

const MAX_GAIN_HZ: f64 = 1000.0;

impl QueueKind for PieSpec {
    type Queue = Box<Pie>;

    fn build(&self, site: &Site<'_>) -> Box<Pie> {
        Box::new(Pie {
            queue: Fifo::default(),
            room: Room::new(self.limit),
            law: PieLaw::new(&self.parameters),
            largest: 0,
            parameters: self.parameters,
            rng: site.drops(),
        })
    }

    /// It may drop long before it is full.
    fn holds(&self) -> Holds {
        Holds { surely: 0, ..self.limit.holds() }
    }

    fn counts_packets(&self) -> bool {
        !self.limit.is_in_bytes()
    }
}

/// PIE's numbers, and whether it marks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PieParameters {
    /// How long packets may wait, QDELAY_REF.
    pub target: Span,
    /// How often the probability is set, T_UPDATE.
    pub update: Span,
    /// A burst of so long passes, MAX_BURST.
    pub burst: Span,
    /// What a distance of one second from the target adds to the probability.
    pub alpha_hz: f64,
    /// What a delay that has grown by one second adds to it.
    pub beta_hz: f64,
    /// Drops are kept apart (section 5.4).
    pub even: bool,
    /// Packets that are ECN-capable are marked instead of dropped, up to a probability of 10 % (section 5.1).
    pub ecn: bool,
}

/// RFC 8033, section 4; spaced drops as the Linux kernel has them.
impl Default for PieParameters {
    fn default() -> Self {
        Self {
            target: Span::from_millis(15),
            update: Span::from_millis(15),
            burst: Span::from_millis(150),
            alpha_hz: 0.125,
            beta_hz: 1.25,
            even: true,
            ecn: true,
        }
    }
}

/// The law of PIE (RFC 8033, section 4 and appendix A, with the cap of section 5.5): it holds numbers, never packets.
///
/// The delay is that of the packet that left last, as section 4.3 allows it, and that of an empty queue is zero.
#[derive(Clone, Debug)]
pub struct PieLaw {
    /// When the probability is set next.
    update_at: Time,
    /// In [`PROBABLE`]ths.
    probability: u64,
    delay: Span,
    /// What it was when the probability was set last.
    delay_before: Span,
    /// What is left of the burst that may pass.
    burst: Span,
    /// Probabilities since the last drop, added up, in [`PROBABLE`]ths.
    accumulated: u64,
}

/// A probability of one. Random numbers of 32 bits are compared with its upper ones.
pub const PROBABLE: u64 = 1 << 56;

/// From below so many millionths of a probability, changes are divided by so much (section 4.2).
const SCALES: [(u64, i128); 6] = [(1, 2048), (10, 512), (100, 128), (1_000, 32), (10_000, 8), (100_000, 2)];

impl PieLaw {
    /// Of a queue that is empty when a run begins.
    pub fn new(p: &PieParameters) -> Self {
        Self {
            update_at: Time::ZERO + p.update,
            probability: 0,
            delay: Span::ZERO,
            delay_before: Span::ZERO,
            burst: p.burst,
            accumulated: 0,
        }
    }

    /// The probability with which an arrival goes, in [`PROBABLE`]ths.
    pub fn probability(&self) -> u64 {
        self.probability
    }

    /// Sets the probability as often as it was due until `now`.
    pub fn advance(&mut self, p: &PieParameters, now: Time) {
        while self.update_at <= now {
            if self.probability == 0 && self.delay.max(self.delay_before) == Span::ZERO {
                // Until something arrives nothing changes but the burst, and the first arrival sets that.
                let missed = (now - self.update_at).in_units_of(p.update);
                self.update_at += p.update * missed + p.update;
                return;
            }
            self.update(p);
            self.update_at += p.update;
        }
    }

    /// An arrival finds so many bytes, in packets of at most so many: must it go? The random number decides.
    pub fn drops(&mut self, p: &PieParameters, waiting: u64, largest: u32, random: u32) -> bool {
        let half = |delay: Span| delay < Span::from_nanos(p.target.as_nanos() / 2);
        if self.probability == 0 && half(self.delay) && half(self.delay_before) {
            self.burst = p.burst;
        }
        if self.burst > Span::ZERO {
            return false;
        }
        // Work is conserved: while little waits, nothing goes.
        if half(self.delay_before) && self.probability < PROBABLE / 5 || waiting <= 2 * u64::from(largest) {
            return false;
        }
        if p.even {
            // Not before the probabilities add up to 0.85, surely once they add up to 8.5.
            self.accumulated = if self.probability == 0 { 0 } else { self.accumulated + self.probability };
            if self.accumulated < PROBABLE / 100 * 85 {
                return false;
            }
        }
        let drops =
            u64::from(random) << 24 < self.probability || p.even && self.accumulated >= PROBABLE / 2 * 17;
        if drops {
            self.accumulated = 0;
        }
        drops
    }

    /// May one that would go be marked instead?
    pub fn marks(&self, p: &PieParameters) -> bool {
        p.ecn && self.probability < PROBABLE / 10
    }

    /// One has gone for want of room.
    pub fn on_overflow(&mut self) {
        self.accumulated = 0;
    }

    /// A packet that has waited for so long leaves; is nothing behind it?
    pub fn on_departure(&mut self, waited: Span, was_last: bool) {
        self.delay = if was_last { Span::ZERO } else { waited };
    }

    fn update(&mut self, p: &PieParameters) {
        let change =
            change(p.alpha_hz, self.delay, p.target) + change(p.beta_hz, self.delay, self.delay_before);
        let below = |millionths: u64| {
            u128::from(self.probability) * 1_000_000 < u128::from(PROBABLE) * u128::from(millionths)
        };
        let scale = SCALES.iter().find(|(millionths, _)| below(*millionths));
        let mut change = scale.map_or(change, |(_, scale)| change / scale);
        if !below(100_000) {
            // Section 5.5: not by more than two percent at a time.
            change = change.min(i128::from(PROBABLE / 50));
        }
        let mut probability = i128::from(self.probability) + change;
        if self.delay.max(self.delay_before) == Span::ZERO {
            probability -= probability / 50;
        }
        self.probability = probability.clamp(0, i128::from(PROBABLE)) as u64;
        self.delay_before = self.delay;
        self.burst = Span::from_nanos(self.burst.as_nanos().saturating_sub(p.update.as_nanos()));
    }
}

/// By how many [`PROBABLE`]ths a delay beyond another one moves a probability, at this gain.
pub(super) fn change(hz: f64, delay: Span, other: Span) -> i128 {
    // With twenty more bits on the way.
    let per_nanosecond = (hz * 2f64.powi(20) * PROBABLE as f64 / 1e9).round() as i128;
    (per_nanosecond * (i128::from(delay.as_nanos()) - i128::from(other.as_nanos()))) >> 20
}

/// FIFO governed by [`PieLaw`].
#[derive(Debug)]
pub struct Pie {
    queue: Fifo,
    room: Room,
    law: PieLaw,
    /// The largest packet so far, bytes.
    largest: u32,
    parameters: PieParameters,
    rng: Rng,
}

impl QueueDiscipline for Pie {
    fn enqueue(&mut self, now: Time, mut packet: Packet, fate: &mut dyn Fate) {
        let p = &self.parameters;
        self.law.advance(p, now);
        if !self.room.takes(self.queue.backlog(), &packet) {
            self.law.on_overflow();
            return fate.dropped(now, packet, DropReason::Overflow);
        }
        self.largest = self.largest.max(packet.len);
        let waiting = self.queue.backlog().bytes;
        if self.law.drops(p, waiting, self.largest, self.rng.next_u32()) {
            if !self.law.marks(p) || packet.ecn == Ecn::NOT_ECT {
                return fate.dropped(now, packet, DropReason::Early);
            }
            ce(now, &mut packet, fate);
        }
        self.queue.push(Packet { arrived: now, ..packet });
    }

    fn dequeue(&mut self, now: Time, _fate: &mut dyn Fate) -> Option<Packet> {
        self.law.advance(&self.parameters, now);
        let packet = self.queue.pop();
        if let Some(packet) = &packet {
            self.law.on_departure(now.since(packet.arrived), self.queue.len() == 0);
        }
        self.room.gives(packet.as_ref());
        packet
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    fn released(&mut self) {
        self.room.gives(None);
    }
}

use super::fifo::Fifo;
use super::limit::Buffer;
use super::{BufferBounds, Capacity, PortContext, QueueDiscipline, QueueKind, QueueTraits, set_ce};
use crate::{Backlog, DropReason, Ecn, Packet, PacketEvents};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Rng, Span, Time};
use std::fmt::Debug;
use std::marker::PhantomData;

/// Configuration of PIE: of RFC 8033 or of Linux (net/sched/sch_pie.c), by the algorithm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PieSpec<L = PieLaw> {
    /// Buffer limit, the packet in transmission included.
    pub limit: Capacity,
    /// Parameters of the algorithm.
    pub parameters: PieParameters,
    /// Algorithm.
    pub control: PhantomData<L>,
}

impl Kind for PieSpec {
    const USAGE: &'static [Usage] = &[(
        "pie:LIMIT[,target=15ms,update=15ms,burst=150ms,alpha=0.125,beta=1.25,even=true,ecn=true]",
        "PIE (RFC 8033): drops or marks arrivals with a probability that each update changes by alpha, in Hz, times the difference of the \
         queueing delay and target, and by beta, in Hz, times the growth of the delay; bursts shorter than burst pass; even spaces drops \
         apart; LIMIT in packets or bytes, including the packet in transmission",
    )];
    const EXAMPLES: &'static [&'static str] = &["pie:9000B,target=1ms,update=2ms,burst=0s,alpha=5,beta=50"];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let limit = Capacity::read(text)?;
        let shared = PieParameters::read(text, PieParameters::default())?;
        let parameters = PieParameters {
            burst: text.option("burst", shared.burst)?,
            even: text.option("even", shared.even)?,
            ..shared
        };
        Ok(Self { limit, parameters, control: PhantomData })
    }

    fn write(&self, to: &mut Written) {
        self.write_parameters(to.name("pie"), PieParameters::default());
    }
}

impl<L> PieSpec<L> {
    /// Writes the limit and the parameters that are not the defaults, without a name.
    pub(super) fn write_parameters<'a>(
        &self,
        to: &'a mut Written,
        defaults: PieParameters,
    ) -> &'a mut Written {
        let p = &self.parameters;
        to.value(self.limit)
            .option("target", p.target, defaults.target)
            .option("update", p.update, defaults.update)
            .option("burst", p.burst, defaults.burst)
            .option("alpha", p.alpha_hz, defaults.alpha_hz)
            .option("beta", p.beta_hz, defaults.beta_hz)
            .option("even", p.even, defaults.even)
            .option("ecn", p.ecn, defaults.ecn)
    }
}

const MAX_GAIN_HZ: f64 = 1000.0;

impl<L: PieControl> QueueKind for PieSpec<L> {
    type Queue = Box<Pie<L>>;

    fn build(&self, context: &PortContext<'_>) -> Box<Pie<L>> {
        Box::new(Pie {
            queue: Fifo::default(),
            buffer: Buffer::new(self.limit),
            law: L::new(&self.parameters),
            max_packet: 0,
            parameters: self.parameters,
            rng: context.drop_rng(),
        })
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

/// Parameters of PIE.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PieParameters {
    /// Target queueing delay, QDELAY_REF.
    pub target: Span,
    /// Interval between updates of the probability, T_UPDATE.
    pub update: Span,
    /// Duration of a burst that passes without drops, MAX_BURST.
    pub burst: Span,
    /// Increase of the drop probability at each update, per second of queueing delay above the target.
    pub alpha_hz: f64,
    /// Increase of the drop probability at each update, per second of growth of the queueing delay since the last update.
    pub beta_hz: f64,
    /// True if drops are spaced (section 5.4).
    pub even: bool,
    /// True if ECN-capable packets are marked instead of dropped, up to a probability of 10 % (section 5.1).
    pub ecn: bool,
}

impl Default for PieParameters {
    fn default() -> Self {
        Self::OF_THE_RFC
    }
}

impl PieParameters {
    /// Defaults of RFC 8033, section 4; spaced drops as in the Linux kernel.
    pub(super) const OF_THE_RFC: Self = Self {
        target: Span::from_millis(15),
        update: Span::from_millis(15),
        burst: Span::from_millis(150),
        alpha_hz: 0.125,
        beta_hz: 1.25,
        even: true,
        ecn: true,
    };

    /// Reads the parameters that all algorithms have.
    pub(super) fn read(text: &mut Notation<'_>, defaults: Self) -> Result<Self, ParseError> {
        let read = Self {
            target: text.option("target", defaults.target)?,
            update: text.option("update", defaults.update)?,
            alpha_hz: text.option("alpha", defaults.alpha_hz)?,
            beta_hz: text.option("beta", defaults.beta_hz)?,
            ecn: text.option("ecn", defaults.ecn)?,
            ..defaults
        };
        let is_gain = |hz: f64| (0.0..=MAX_GAIN_HZ).contains(&hz);
        let has_valid_gains = is_gain(read.alpha_hz) && is_gain(read.beta_hz);
        if read.target.min(read.update) == Span::ZERO || !has_valid_gains {
            return Err(
                text.error(format!("target and update above zero, alpha and beta from 0 to {MAX_GAIN_HZ}"))
            );
        }
        Ok(read)
    }
}

/// Algorithm of PIE, separate from the packet buffer.
pub trait PieControl: Debug + Send + Sync {
    /// Creates the state of a queue that is empty at the beginning of a run.
    fn new(p: &PieParameters) -> Self;
    /// Performs all updates of the probability that are due by `now`, while `waiting` bytes have been in the queue.
    fn advance(&mut self, p: &PieParameters, now: Time, waiting: u64);
    /// Returns true if an arriving packet that finds `waiting` bytes in the queue must be dropped or marked. `max_packet` is the size of the
    /// largest packet, bytes.
    fn should_drop(&mut self, p: &PieParameters, waiting: u64, max_packet: u32, rng: &mut Rng) -> bool;
    /// Returns true if ECN-capable packets are currently marked instead of dropped.
    fn is_marking(&self, p: &PieParameters) -> bool;
    /// Records that an arriving packet was dropped.
    fn on_drop(&mut self);
    /// Records the departure of a packet. `was_last` is true if the queue is empty after the packet.
    fn on_departure(&mut self, now: Time, packet: &Packet, was_last: bool);
}

/// Algorithm of PIE (RFC 8033, section 4 and appendix A, with the cap of section 5.5), separate from the packet buffer.
///
/// The current queueing delay is that of the last departed packet, as section 4.3 allows, or zero if the queue is empty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PieLaw {
    /// Time of the next update of the probability.
    update_at: Time,
    /// Drop probability, in units of 1 / [`MAX_PROB`].
    probability: u64,
    delay: Span,
    /// Queueing delay at the last update of the probability.
    delay_before: Span,
    /// Remaining burst allowance.
    burst: Span,
    /// Sum of the drop probabilities of the packets since the last drop, in units of 1 / [`MAX_PROB`].
    accumulated: u64,
}

/// Fixed-point value of a probability of one. Random numbers of 32 bits are compared with the upper 32 of its 56 bits.
pub const MAX_PROB: u64 = 1 << 56;

/// Upper limits of the probability in millionths, each with the divisor for changes of the probability below this limit (section 4.2).
const SCALES: [(u64, i128); 6] = [(1, 2048), (10, 512), (100, 128), (1_000, 32), (10_000, 8), (100_000, 2)];

impl PieLaw {
    /// Creates the state of a queue that is empty at the beginning of a run.
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

    /// Returns the drop probability of an arriving packet, in units of 1 / [`MAX_PROB`].
    pub fn probability(&self) -> u64 {
        self.probability
    }

    /// Performs all updates of the probability that are due by `now`.
    pub fn advance(&mut self, p: &PieParameters, now: Time) {
        while self.update_at <= now {
            if self.probability == 0 && self.delay.max(self.delay_before) == Span::ZERO {
                // Only the burst allowance would change before the next arrival, and that arrival resets it.
                let missed = (now - self.update_at).in_units_of(p.update);
                self.update_at += p.update * missed + p.update;
                return;
            }
            self.update(p);
            self.update_at += p.update;
        }
    }

    /// Returns true if an arriving packet that finds `waiting` bytes in the queue must be dropped. `max_packet` is the size of the largest
    /// packet, bytes, and `random` is a 32-bit random number.
    pub fn should_drop(&mut self, p: &PieParameters, waiting: u64, max_packet: u32, random: u32) -> bool {
        let half = |delay: Span| delay < Span::from_nanos(p.target.as_nanos() / 2);
        if self.probability == 0 && half(self.delay) && half(self.delay_before) {
            self.burst = p.burst;
        }
        if self.burst > Span::ZERO {
            return false;
        }
        // Work conservation: no packet is dropped while the queue is short.
        if half(self.delay_before) && self.probability < MAX_PROB / 5 || waiting <= 2 * u64::from(max_packet)
        {
            return false;
        }
        if p.even {
            // No drop occurs before the sum of the probabilities is 0.85, and a drop is certain once the sum is 8.5.
            self.accumulated = if self.probability == 0 { 0 } else { self.accumulated + self.probability };
            if self.accumulated < MAX_PROB / 100 * 85 {
                return false;
            }
        }
        let drops =
            u64::from(random) << 24 < self.probability || p.even && self.accumulated >= MAX_PROB / 2 * 17;
        if drops {
            self.accumulated = 0;
        }
        drops
    }

    /// Returns true if ECN-capable packets are currently marked instead of dropped.
    pub fn is_marking(&self, p: &PieParameters) -> bool {
        p.ecn && self.probability < MAX_PROB / 10
    }

    /// Records that a packet was dropped because the buffer was full.
    pub fn on_overflow(&mut self) {
        self.accumulated = 0;
    }

    /// Records the departure of a packet that has waited for `waited`. `was_last` is true if the queue is empty after the packet.
    pub fn on_departure(&mut self, waited: Span, was_last: bool) {
        self.delay = if was_last { Span::ZERO } else { waited };
    }

    fn update(&mut self, p: &PieParameters) {
        let change =
            change(p.alpha_hz, self.delay, p.target) + change(p.beta_hz, self.delay, self.delay_before);
        let below = |millionths: u64| {
            u128::from(self.probability) * 1_000_000 < u128::from(MAX_PROB) * u128::from(millionths)
        };
        let scale = SCALES.iter().find(|(millionths, _)| below(*millionths));
        let mut change = scale.map_or(change, |(_, scale)| change / scale);
        if !below(100_000) {
            // Section 5.5: an increase of at most two percent at a time.
            change = change.min(i128::from(MAX_PROB / 50));
        }
        let mut probability = i128::from(self.probability) + change;
        if self.delay.max(self.delay_before) == Span::ZERO {
            probability -= probability / 50;
        }
        self.probability = probability.clamp(0, i128::from(MAX_PROB)) as u64;
        self.delay_before = self.delay;
        self.burst = Span::from_nanos(self.burst.as_nanos().saturating_sub(p.update.as_nanos()));
    }
}

impl PieControl for PieLaw {
    fn new(p: &PieParameters) -> Self {
        Self::new(p)
    }
    fn advance(&mut self, p: &PieParameters, now: Time, _waiting: u64) {
        self.advance(p, now);
    }
    fn should_drop(&mut self, p: &PieParameters, waiting: u64, max_packet: u32, rng: &mut Rng) -> bool {
        self.should_drop(p, waiting, max_packet, rng.next_u32())
    }
    fn is_marking(&self, p: &PieParameters) -> bool {
        self.is_marking(p)
    }
    fn on_drop(&mut self) {
        self.on_overflow();
    }
    fn on_departure(&mut self, now: Time, packet: &Packet, was_last: bool) {
        self.on_departure(now.since(packet.arrived), was_last);
    }
}

/// Returns the change of the probability, in units of 1 / [`MAX_PROB`]: `hz` times the difference `delay` - `other` in seconds.
pub(super) fn change(hz: f64, delay: Span, other: Span) -> i128 {
    // The gain per nanosecond has twenty fractional bits more than a probability.
    let per_nanosecond = (hz * 2f64.powi(20) * MAX_PROB as f64 / 1e9).round() as i128;
    (per_nanosecond * (i128::from(delay.as_nanos()) - i128::from(other.as_nanos()))) >> 20
}

/// FIFO managed by PIE.
#[derive(Debug)]
pub struct Pie<L = PieLaw> {
    queue: Fifo,
    buffer: Buffer,
    law: L,
    /// Largest packet so far, bytes.
    max_packet: u32,
    parameters: PieParameters,
    rng: Rng,
}

impl<L: PieControl> QueueDiscipline for Pie<L> {
    fn enqueue(&mut self, now: Time, mut packet: Packet, events: &mut dyn PacketEvents) {
        let (p, backlog) = (&self.parameters, self.queue.backlog());
        self.law.advance(p, now, backlog.bytes);
        if !self.buffer.accepts(backlog, &packet) {
            self.law.on_drop();
            return events.dropped(now, packet, DropReason::Overflow);
        }
        self.max_packet = self.max_packet.max(packet.len);
        if self.law.should_drop(p, backlog.bytes, self.max_packet, &mut self.rng) {
            if !self.law.is_marking(p) || packet.ecn == Ecn::NOT_ECT {
                self.law.on_drop();
                return events.dropped(now, packet, DropReason::Early);
            }
            set_ce(now, &mut packet, events);
        }
        self.queue.push(Packet { arrived: now, ..packet });
    }

    fn dequeue(&mut self, now: Time, _events: &mut dyn PacketEvents) -> Option<Packet> {
        self.law.advance(&self.parameters, now, self.queue.backlog().bytes);
        let packet = self.queue.pop();
        if let Some(packet) = &packet {
            self.law.on_departure(now, packet, self.queue.len() == 0);
        }
        self.buffer.set_in_transmission(packet.as_ref());
        packet
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    fn released(&mut self) {
        self.buffer.set_in_transmission(None);
    }
}

use super::fifo::Fifo;
use super::limit::Buffer;
use super::pie::{MAX_PROB, change};
use super::{BufferBounds, Capacity, PortContext, QueueDiscipline, QueueKind, QueueTraits, set_ce};
use crate::{Backlog, DropReason, Ecn, Packet, PacketEvents};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Share, Span, Time};

/// Configuration of DualPI2 (RFC 9332, appendix A).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DualPi2Spec {
    /// Buffer limit of both queues together, the packet in transmission included.
    pub limit: Capacity,
    /// Parameters of the algorithm.
    pub parameters: DualPi2Parameters,
    /// Share of the classic queue in the link while both queues hold packets, percent.
    pub classic_percent: u32,
}

const CLASSIC: Share = Share(0.1);

impl Kind for DualPi2Spec {
    const USAGE: &'static [Usage] = &[(
        "dual-pi2:LIMIT[,target=15ms,update=16ms,alpha=0.16,beta=3.2,coupling=2,min=800us,range=400us,classic=10%]",
        "DualPI2 (RFC 9332): an L4S queue for ECT(1) and CE packets, and a classic queue for the others; classic packets are dropped or \
         marked with a probability that depends on target, update, alpha and beta as in pie; L4S packets are marked with coupling times \
         the square root of this probability, and with a probability that rises from 0 at a queueing delay of min to 1 at min + range; \
         classic is the share of the rate for the classic queue while both queues hold packets; LIMIT in packets or bytes, including the \
         packet in transmission",
    )];
    const EXAMPLES: &'static [&'static str] = &["dual-pi2:9,target=1ms,update=2ms,alpha=5,beta=50"];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let (limit, defaults) = (Capacity::read(text)?, DualPi2Parameters::default());
        let parameters = DualPi2Parameters {
            target: text.option("target", defaults.target)?,
            update: text.option("update", defaults.update)?,
            alpha_hz: text.option("alpha", defaults.alpha_hz)?,
            beta_hz: text.option("beta", defaults.beta_hz)?,
            coupling: text.option("coupling", defaults.coupling)?,
            ramp_from: text.option("min", defaults.ramp_from)?,
            ramp: text.option("range", defaults.ramp)?,
        };
        let Share(classic) = text.option("classic", CLASSIC)?;
        let is_gain = |hz: f64| (0.0..=1000.0).contains(&hz);
        if parameters.target.min(parameters.update) == Span::ZERO
            || !is_gain(parameters.alpha_hz)
            || !is_gain(parameters.beta_hz)
        {
            return Err(text.error("target and update above zero, alpha and beta from 0 to 1000"));
        }
        let percent = (classic * 100.0).round();
        if !(1..=16).contains(&parameters.coupling) || !(1.0..=99.0).contains(&percent) {
            return Err(text.error("a coupling from 1 to 16, and for classic whole percents from 1% to 99%"));
        }
        Ok(Self { limit, parameters, classic_percent: percent as u32 })
    }

    fn write(&self, to: &mut Written) {
        let (p, defaults) = (&self.parameters, DualPi2Parameters::default());
        to.name("dual-pi2")
            .value(self.limit)
            .option("target", p.target, defaults.target)
            .option("update", p.update, defaults.update)
            .option("alpha", p.alpha_hz, defaults.alpha_hz)
            .option("beta", p.beta_hz, defaults.beta_hz)
            .option("coupling", p.coupling, defaults.coupling)
            .option("min", p.ramp_from, defaults.ramp_from)
            .option("range", p.ramp, defaults.ramp)
            .option("classic", Share(f64::from(self.classic_percent) / 100.0), CLASSIC);
    }
}

impl QueueKind for DualPi2Spec {
    type Queue = Box<DualPi2>;

    fn build(&self, _context: &PortContext<'_>) -> Box<DualPi2> {
        Box::new(DualPi2 {
            l4s: Fifo::default(),
            classic: Fifo::default(),
            buffer: Buffer::new(self.limit),
            law: DualPi2Law::new(&self.parameters),
            turns: Turns::new(self.classic_percent),
            parameters: self.parameters,
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
        QueueTraits { marks_ecn: true, ..QueueTraits::default() }
    }
}

/// Parameters of DualPI2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DualPi2Parameters {
    /// Target queueing delay of classic packets.
    pub target: Span,
    /// Interval between updates of the probability, Tupdate.
    pub update: Span,
    /// Increase of the base probability at each update, per second of queueing delay above the target.
    pub alpha_hz: f64,
    /// Increase of the base probability at each update, per second of growth of the queueing delay since the last update.
    pub beta_hz: f64,
    /// Coupling factor k: ratio of the coupled probability to the base probability.
    pub coupling: u32,
    /// Queueing delay up to which the L4S queue's own AQM marks no packet, minTh.
    pub ramp_from: Span,
    /// Width of the ramp: all L4S packets with a queueing delay of at least `ramp_from` + `ramp` are marked.
    pub ramp: Span,
}

/// Defaults of RFC 9332, appendix A.1, with the rounded gains of the text.
impl Default for DualPi2Parameters {
    fn default() -> Self {
        Self {
            target: Span::from_millis(15),
            update: Span::from_millis(16),
            alpha_hz: 0.16,
            beta_hz: 3.2,
            coupling: 2,
            ramp_from: Span::from_micros(800),
            ramp: Span::from_micros(400),
        }
    }
}

/// Congestion signal for a packet that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// No signal.
    Pass,
    /// CE mark.
    Mark,
    /// Drop.
    Drop,
}

/// Algorithm of DualPI2 (RFC 9332, appendix A.2), separate from the packet buffer.
///
/// Probabilities are in units of 1 / [`MAX_PROB`]. Signals are not random: each queue adds up the probabilities of its packets and gives a
/// signal whenever the sum exceeds one.
#[derive(Clone, Debug)]
pub struct DualPi2Law {
    update_at: Time,
    /// Base probability p'.
    base: u64,
    delay_before: Span,
    l4s_sum: u64,
    classic_sum: u64,
}

impl DualPi2Law {
    /// Creates the state of queues that are empty at the beginning of a run.
    pub fn new(p: &DualPi2Parameters) -> Self {
        Self {
            update_at: Time::ZERO + p.update,
            base: 0,
            delay_before: Span::ZERO,
            l4s_sum: 0,
            classic_sum: 0,
        }
    }

    /// Returns the base probability p', whose square is the probability of a signal for classic packets.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Performs all updates of the probability that are due by `now`. Must be called before each change of the queues. `since` is the
    /// arrival time of the oldest packet in the queues; `None` if both queues are empty.
    pub fn advance(&mut self, p: &DualPi2Parameters, now: Time, since: Option<Time>) {
        while self.update_at <= now {
            let delay = since.map_or(Span::ZERO, |since| self.update_at.since(since));
            if self.base == 0 && since.is_none() && self.delay_before == Span::ZERO {
                let missed = (now - self.update_at).in_units_of(p.update);
                self.update_at += p.update * missed + p.update;
                return;
            }
            let change = change(p.alpha_hz, delay, p.target) + change(p.beta_hz, delay, self.delay_before);
            self.base = (i128::from(self.base) + change).clamp(0, MAX_PROB.into()) as u64;
            self.delay_before = delay;
            self.update_at += p.update;
        }
    }

    /// Returns the signal for an L4S packet that leaves after `waited`. `was_last` is true if the L4S queue is empty after the packet.
    pub fn of_l4s(&mut self, p: &DualPi2Parameters, waited: Span, was_last: bool) -> Signal {
        let coupled = self.coupled(p);
        if coupled < MAX_PROB {
            let own = if was_last { 0 } else { ramp(p, waited) };
            return if recurs(&mut self.l4s_sum, own.max(coupled)) { Signal::Mark } else { Signal::Pass };
        }
        let squared = self.squared();
        if recurs(&mut self.l4s_sum, squared) {
            return Signal::Drop;
        }
        if recurs(&mut self.l4s_sum, coupled) { Signal::Mark } else { Signal::Pass }
    }

    /// Returns the signal for a classic packet that leaves.
    pub fn of_classic(&mut self, p: &DualPi2Parameters, can_be_marked: bool) -> Signal {
        let probability = self.squared();
        if !recurs(&mut self.classic_sum, probability) {
            return Signal::Pass;
        }
        // Overload begins at a probability of 1 / coupling², at which the coupled probability is one, for both queues at once.
        let overload = self.coupled(p) == MAX_PROB;
        if can_be_marked && !overload { Signal::Mark } else { Signal::Drop }
    }

    fn coupled(&self, p: &DualPi2Parameters) -> u64 {
        (self.base * u64::from(p.coupling)).min(MAX_PROB)
    }

    fn squared(&self) -> u64 {
        (u128::from(self.base).pow(2) / u128::from(MAX_PROB)) as u64
    }
}

/// Returns the marking probability of the L4S queue's own AQM.
fn ramp(p: &DualPi2Parameters, waited: Span) -> u64 {
    if waited >= p.ramp_from + p.ramp {
        return MAX_PROB;
    }
    let beyond = u128::from(waited.as_nanos().saturating_sub(p.ramp_from.as_nanos()));
    (beyond * u128::from(MAX_PROB) / u128::from(p.ramp.as_nanos().max(1))) as u64
}

fn recurs(sum: &mut u64, probability: u64) -> bool {
    *sum += probability;
    let exceeds = *sum > MAX_PROB;
    if exceeds {
        *sum -= MAX_PROB;
    }
    exceeds
}

/// Scheduler of the two queues while both hold packets: weighted round robin by bytes (RFC 9332, section 4.2.2). The credit changes only
/// while both queues hold packets, so packets sent while the other queue is empty cost no credit.
#[derive(Clone, Copy, Debug)]
struct Turns {
    /// Credit of the classic queue, bytes times percent. The classic queue is served while its credit is above zero.
    credit: i64,
    classic_percent: i64,
}

/// Largest packet on most paths, bytes.
const MTU: i64 = 1500;

impl Turns {
    fn new(classic_percent: u32) -> Self {
        let mut turns = Self { credit: 0, classic_percent: classic_percent.into() };
        turns.restart();
        turns
    }

    /// Resets the credit when both queues are empty. The queue with the larger share is served first again.
    fn restart(&mut self) {
        self.credit = MTU * (2 * self.classic_percent - 100);
    }

    fn is_classic(&self) -> bool {
        self.credit > 0
    }

    fn on_sent(&mut self, is_classic: bool, bytes: u32) {
        let percent = if is_classic { self.classic_percent - 100 } else { self.classic_percent };
        self.credit += percent * i64::from(bytes);
    }
}

/// Two FIFOs managed by [`DualPi2Law`].
#[derive(Debug)]
pub struct DualPi2 {
    l4s: Fifo,
    classic: Fifo,
    buffer: Buffer,
    law: DualPi2Law,
    turns: Turns,
    parameters: DualPi2Parameters,
}

impl DualPi2 {
    /// Returns the arrival time of the packet that has waited longest.
    fn since(&self) -> Option<Time> {
        let arrived = |queue: &Fifo| queue.head().map(|packet| packet.arrived);
        match (arrived(&self.l4s), arrived(&self.classic)) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// Returns the next packet to send. A dropped packet does not change the credit.
    fn next(&mut self, now: Time, events: &mut dyn PacketEvents) -> Option<Packet> {
        loop {
            let competing = self.l4s.len() > 0 && self.classic.len() > 0;
            let is_classic = if competing { self.turns.is_classic() } else { self.l4s.len() == 0 };
            let (mut packet, signal);
            if is_classic {
                packet = self.classic.pop()?;
                signal = self.law.of_classic(&self.parameters, packet.ecn != Ecn::NOT_ECT);
            } else {
                packet = self.l4s.pop()?;
                let waited = now.since(packet.arrived);
                signal = self.law.of_l4s(&self.parameters, waited, self.l4s.len() == 0);
            }
            match signal {
                Signal::Pass => {}
                Signal::Mark => set_ce(now, &mut packet, events),
                Signal::Drop => {
                    events.dropped(now, packet, DropReason::Delay);
                    continue;
                }
            }
            if competing {
                self.turns.on_sent(is_classic, packet.len);
            }
            return Some(packet);
        }
    }
}

impl QueueDiscipline for DualPi2 {
    fn enqueue(&mut self, now: Time, packet: Packet, events: &mut dyn PacketEvents) {
        let since = self.since();
        self.law.advance(&self.parameters, now, since);
        if !self.buffer.accepts(self.backlog(), &packet) {
            return events.dropped(now, packet, DropReason::Overflow);
        }
        let is_l4s = matches!(packet.ecn, Ecn::ECT_1 | Ecn::CE);
        let queue = if is_l4s { &mut self.l4s } else { &mut self.classic };
        queue.push(Packet { arrived: now, ..packet });
    }

    fn dequeue(&mut self, now: Time, events: &mut dyn PacketEvents) -> Option<Packet> {
        let since = self.since();
        self.law.advance(&self.parameters, now, since);
        let packet = self.next(now, events);
        if packet.is_none() {
            self.turns.restart();
        }
        self.buffer.set_in_transmission(packet.as_ref());
        packet
    }

    fn backlog(&self) -> Backlog {
        let (l4s, classic) = (self.l4s.backlog(), self.classic.backlog());
        Backlog { packets: l4s.packets + classic.packets, bytes: l4s.bytes + classic.bytes }
    }

    fn released(&mut self) {
        self.buffer.set_in_transmission(None);
    }
}

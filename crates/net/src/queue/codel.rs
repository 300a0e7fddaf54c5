use super::fifo::Fifo;
use super::limit::Buffer;
use super::{BufferBounds, Capacity, PortContext, QueueDiscipline, QueueKind, QueueTraits, set_ce};
use crate::{Backlog, DropReason, Ecn, Packet, PacketEvents};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Span, Time};
use std::fmt::Debug;
use std::marker::PhantomData;

/// Configuration of CoDel: of RFC 8289 or of Linux (net/sched/sch_codel.c), by the control law.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodelSpec<L = RfcControl> {
    /// Buffer limit, the packet in transmission included.
    pub limit: Capacity,
    /// Parameters of the control law.
    pub parameters: CodelParameters,
    /// Control law.
    pub control: PhantomData<L>,
}

impl Kind for CodelSpec<RfcControl> {
    const USAGE: &'static [Usage] = &[(
        "codel:LIMIT[,target=5ms,interval=100ms,ecn=true]",
        "CoDel: a FIFO that drops or marks packets at its head once their queueing delay has exceeded target for interval; LIMIT in \
         packets or bytes, including the packet in transmission",
    )];
    const EXAMPLES: &'static [&'static str] = &["codel:9,target=1ms,interval=4ms"];
    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let limit = Capacity::read(text)?;
        Ok(Self::new(limit, CodelParameters::read(text, CodelParameters::default())?))
    }
    fn write(&self, to: &mut Written) {
        self.parameters.write(to.name("codel").value(self.limit), CodelParameters::default());
    }
}

impl CodelParameters {
    /// Defaults of Linux's CoDel, which drops ECN-capable packets unless it is told to mark them (codel_params_init).
    const OF_LINUX: Self = Self { ecn: false, ..Self::OF_THE_RFC };
}

impl Kind for CodelSpec<LinuxControl> {
    const USAGE: &'static [Usage] = &[(
        "linux-codel[:LIMIT,target=5ms,interval=100ms,ecn=false]",
        "CoDel of Linux: codel with times in units of 1024 ns, 1/sqrt(count) by a step of Newton's method per drop, and no drop while at \
         most 1514 bytes wait; LIMIT as in codel, by default 1000",
    )];
    const EXAMPLES: &'static [&'static str] = &["linux-codel:9,target=1ms,interval=4ms,ecn=true"];
    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let limit = Capacity::read_or(text, Capacity::packets(1000))?;
        Ok(Self::new(limit, CodelParameters::read(text, CodelParameters::OF_LINUX)?))
    }
    fn write(&self, to: &mut Written) {
        self.parameters.write(to.name("linux-codel").value(self.limit), CodelParameters::OF_LINUX);
    }
}

impl<L> CodelSpec<L> {
    fn new(limit: Capacity, parameters: CodelParameters) -> Self {
        Self { limit, parameters, control: PhantomData }
    }
}

impl<L: ControlLaw> QueueKind for CodelSpec<L> {
    type Queue = Box<Codel<L>>;
    fn build(&self, _context: &PortContext<'_>) -> Box<Codel<L>> {
        Box::new(Codel {
            queue: Fifo::default(),
            buffer: Buffer::new(self.limit),
            max_packet: 0,
            law: CodelLaw::default(),
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
        QueueTraits { marks_ecn: self.parameters.ecn, ..QueueTraits::default() }
    }
}

/// Parameters of CoDel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodelParameters {
    /// Target queueing delay, TARGET.
    pub target: Span,
    /// Time for which the queueing delay may exceed the target before the first drop, INTERVAL; about a round-trip time.
    pub interval: Span,
    /// True if ECN-capable packets are marked instead of dropped.
    pub ecn: bool,
}

impl Default for CodelParameters {
    fn default() -> Self {
        Self::OF_THE_RFC
    }
}

impl CodelParameters {
    /// Defaults of RFC 8289, sections 4.3 and 4.4.
    const OF_THE_RFC: Self =
        Self { target: Span::from_millis(5), interval: Span::from_millis(100), ecn: true };

    pub(super) fn read(text: &mut Notation<'_>, defaults: Self) -> Result<Self, ParseError> {
        let read = Self {
            target: text.option("target", defaults.target)?,
            interval: text.option("interval", defaults.interval)?,
            ecn: text.option("ecn", defaults.ecn)?,
        };
        if read.target == Span::ZERO || read.interval < read.target {
            return Err(text.error("0 < target <= interval"));
        }
        Ok(read)
    }

    pub(super) fn write<'a>(&self, to: &'a mut Written, defaults: Self) -> &'a mut Written {
        to.option("target", self.target, defaults.target)
            .option("interval", self.interval, defaults.interval)
            .option("ecn", self.ecn, defaults.ecn)
    }
}

/// State machine of CoDel (RFC 8289, section 5), separate from the packet buffer. Its arithmetic is that of `L`.
///
/// A queue calls [`CodelLaw::decide`] for each packet at its head, until a packet may leave or the queue is empty.
#[derive(Clone, Debug, Default)]
pub struct CodelLaw<L = RfcControl> {
    /// Time at which the queueing delay will have been at or above the target for an interval (first_above_time); `None` while the queueing
    /// delay is below the target.
    first_above_time: Option<Time>,
    dropping: bool,
    after: After,
    control: L,
    /// Time of the next drop while dropping (drop_next).
    drop_next: Time,
    /// Number of drops, which determines the drop rate (count).
    count: u32,
    /// Value of `count` at the last start of dropping (lastcount).
    last_count: u32,
}

/// Last signal, if its effect on the state depends on the next packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum After {
    #[default]
    Nothing,
    /// Drop that began dropping. The next packet leaves.
    FirstDrop,
    /// Any other signal. The time of the next signal is set only if the next packet has also waited too long.
    Signal,
}

/// Decision about the packet at the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// No signal.
    Pass,
    /// CE mark.
    Mark,
    /// Drop.
    Drop,
}

/// Packets that wait behind the packet at the head of a queue.
#[derive(Clone, Copy, Debug)]
pub struct Behind {
    /// Bytes in the same queue.
    pub queue_bytes: u64,
    /// Bytes in all queues of the port.
    pub port_bytes: u64,
    /// Size of the largest packet of the port so far, bytes.
    pub max_packet: u32,
}

/// Time after the last drop, in intervals, up to which dropping begins anew at the last rate.
const RECENT_INTERVALS: u64 = 16;

impl<L: ControlLaw> CodelLaw<L> {
    /// Returns the decision about the packet at the head.
    pub fn decide(&mut self, p: &CodelParameters, now: Time, head: &Packet, behind: Behind) -> Decision {
        let now = L::instant(now);
        let is_above_target = self.is_above_target(p, now, head, behind);
        match std::mem::take(&mut self.after) {
            After::FirstDrop => return Decision::Pass,
            After::Signal if is_above_target => self.advance(p),
            _ => {}
        }
        if !is_above_target {
            self.dropping = false;
            return Decision::Pass;
        }
        let can_mark = p.ecn && head.ecn != Ecn::NOT_ECT;
        if !self.dropping {
            self.start_dropping(p, now);
            self.after = if can_mark { After::Nothing } else { After::FirstDrop };
        } else if now < self.drop_next {
            return Decision::Pass;
        } else {
            self.count = self.count.saturating_add(1);
            self.control.step(self.count);
            if can_mark && L::ADVANCES_AT_MARK {
                self.advance(p);
            } else {
                self.after = After::Signal;
            }
        }
        if can_mark { Decision::Mark } else { Decision::Drop }
    }

    /// Records that the queue is empty.
    pub fn on_empty(&mut self) {
        self.dropping = false;
        if std::mem::take(&mut self.after) != After::Nothing || L::ENDS_WHEN_EMPTY {
            self.first_above_time = None;
        }
    }

    /// Records that a packet leaves an empty queue as it arrives.
    #[inline]
    pub fn on_pass(&mut self) {
        // The law of an empty queue has no other state that a packet without a queueing delay ends.
        if !L::ENDS_WHEN_EMPTY {
            self.first_above_time = None;
        }
    }

    /// Records that `packets` packets of the queue were dropped because the buffer was full.
    pub fn on_overflow(&mut self, packets: u32) {
        self.count = L::count_after_overflow(self.count, packets);
    }

    /// Returns true if the law of an empty queue has the same effect as a new one: it has never dropped, or so long ago that the next drops do
    /// not begin at the last rate.
    #[inline]
    pub(super) fn is_at_rest(&self, p: &CodelParameters, now: Time) -> bool {
        self.first_above_time.is_none() && !self.has_dropped_recently(p, L::instant(now))
    }

    fn has_dropped_recently(&self, p: &CodelParameters, now: Time) -> bool {
        self.last_count > 0 && now.since(self.drop_next) < L::span(p.interval) * RECENT_INTERVALS
    }

    /// Returns true if the queueing delay has been at or above the target for an interval. A short backlog does not count as above the
    /// target.
    fn is_above_target(&mut self, p: &CodelParameters, now: Time, head: &Packet, behind: Behind) -> bool {
        if now.since(L::instant(head.arrived)) < L::span(p.target) || L::is_short(behind) {
            self.first_above_time = None;
            return false;
        }
        let Some(first_above_time) = self.first_above_time else {
            self.first_above_time = Some(now + L::span(p.interval));
            return false;
        };
        L::has_come(now, first_above_time)
    }

    /// Begins dropping with the packet at the head. If dropping has ended only recently, the last drop rate is a good initial rate.
    fn start_dropping(&mut self, p: &CodelParameters, now: Time) {
        let delta = self.count.wrapping_sub(self.last_count);
        if delta > 1 && self.has_dropped_recently(p, now) {
            self.count = delta;
            self.control.step(delta);
        } else {
            self.count = 1;
            self.control = L::of_first_drop();
        }
        self.last_count = self.count;
        self.drop_next = now;
        self.advance(p);
        self.dropping = true;
    }

    fn advance(&mut self, p: &CodelParameters) {
        self.drop_next += self.control.gap(L::span(p.interval), self.count);
    }
}

/// Arithmetic of CoDel, in which implementations differ.
pub trait ControlLaw: Copy + Debug + Default + PartialEq + Send + Sync + 'static {
    /// True if an empty queue is below the target. Otherwise only a packet that leaves soon, or a drop of the last packet, ends the time above
    /// the target.
    const ENDS_WHEN_EMPTY: bool;
    /// True if a mark sets the time of the next signal. Otherwise the next packet does, as after a drop, if it has also waited too long.
    const ADVANCES_AT_MARK: bool;
    /// Returns the time as the law's clock shows it.
    fn instant(time: Time) -> Time;
    /// Returns the span in whole units of the law's clock.
    fn span(span: Span) -> Span;
    /// Returns true if at `now` the queueing delay has been above the target for an interval, which ends at `first_above_time`.
    fn has_come(now: Time, first_above_time: Time) -> bool;
    /// Returns true if the backlog is so short that the packet at the head does not count as late.
    fn is_short(behind: Behind) -> bool;
    /// Returns the state at the first drop, with a count of 1.
    fn of_first_drop() -> Self;
    /// Records a change of the count.
    fn step(&mut self, count: u32);
    /// Returns the time from a drop to the next one: about interval / √count.
    fn gap(&self, interval: Span, count: u32) -> Span;
    /// Returns the count after the drop of `packets` packets from a full buffer.
    fn count_after_overflow(count: u32, packets: u32) -> u32;
}

/// Arithmetic of RFC 8289, exact to the nanosecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RfcControl;

impl ControlLaw for RfcControl {
    const ENDS_WHEN_EMPTY: bool = true;
    const ADVANCES_AT_MARK: bool = false;
    #[inline]
    fn instant(time: Time) -> Time {
        time
    }
    #[inline]
    fn span(span: Span) -> Span {
        span
    }
    #[inline]
    fn has_come(now: Time, first_above_time: Time) -> bool {
        now >= first_above_time
    }
    #[inline]
    fn is_short(behind: Behind) -> bool {
        behind.queue_bytes <= u64::from(behind.max_packet)
    }
    fn of_first_drop() -> Self {
        Self
    }
    fn step(&mut self, _count: u32) {}
    /// Returns interval / √count, rounded down. The integer square root of interval² / count is exact to the nanosecond and needs no
    /// fractions.
    fn gap(&self, interval: Span, count: u32) -> Span {
        let squared = u128::from(interval.as_nanos()).pow(2);
        Span::from_nanos((squared / u128::from(count.max(1))).isqrt() as u64)
    }
    fn count_after_overflow(count: u32, _packets: u32) -> u32 {
        count
    }
}

/// Arithmetic of Linux (include/net/codel_impl.h). Times are whole units of 1024 ns; Linux's clock wraps after 73 minutes, this one does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinuxControl {
    /// Reciprocal root 1 / √count, in units of 2^-16 (rec_inv_sqrt).
    inverse_root: u16,
}

/// Largest packet of an Ethernet device, bytes (psched_mtu): an IP packet of 1500 bytes and the Ethernet header.
pub(super) const LINUX_MTU_BYTES: u32 = 1514;
/// Length of a unit of Linux's CoDel clock, as a power of two of nanoseconds (CODEL_SHIFT).
const TICK_SHIFT: u32 = 10;

impl ControlLaw for LinuxControl {
    const ENDS_WHEN_EMPTY: bool = false;
    const ADVANCES_AT_MARK: bool = true;
    #[inline]
    fn instant(time: Time) -> Time {
        Time::from_nanos(time.as_nanos() >> TICK_SHIFT << TICK_SHIFT)
    }
    #[inline]
    fn span(span: Span) -> Span {
        Span::from_nanos(span.as_nanos() >> TICK_SHIFT << TICK_SHIFT)
    }
    #[inline]
    fn has_come(now: Time, first_above_time: Time) -> bool {
        now > first_above_time
    }
    /// Returns true if all queues together hold at most one packet of the largest size.
    #[inline]
    fn is_short(behind: Behind) -> bool {
        behind.port_bytes <= u64::from(LINUX_MTU_BYTES)
    }
    fn of_first_drop() -> Self {
        Self { inverse_root: u16::MAX }
    }
    /// Performs a step of Newton's method: root ← root / 2 · (3 − count · root²), in units of 2^-32 and modulo 2^64 (codel_Newton_step). The
    /// step does not converge after a count that has grown by more than a few, as after an overflow.
    fn step(&mut self, count: u32) {
        let root = u64::from(self.inverse_root) << 16;
        let term = (3u64 << 32).wrapping_sub(u64::from(count) * ((root * root) >> 32));
        self.inverse_root = ((term >> 2).wrapping_mul(root) >> 31 >> 16) as u16;
    }
    /// Returns the product of the interval and the reciprocal root, rounded down to a unit of the clock (codel_control_law).
    fn gap(&self, interval: Span, _count: u32) -> Span {
        let ticks = u128::from(interval.as_nanos() >> TICK_SHIFT);
        let ticks = (ticks * u128::from(self.inverse_root)) >> 16;
        Span::from_nanos((ticks as u64) << TICK_SHIFT)
    }
    /// Returns the count plus the dropped packets (fq_codel_drop).
    fn count_after_overflow(count: u32, packets: u32) -> u32 {
        count.wrapping_add(packets)
    }
}

/// FIFO managed by [`CodelLaw`].
#[derive(Debug)]
pub struct Codel<L = RfcControl> {
    queue: Fifo,
    buffer: Buffer,
    /// Largest packet so far, bytes.
    max_packet: u32,
    law: CodelLaw<L>,
    parameters: CodelParameters,
}

impl<L: ControlLaw> QueueDiscipline for Codel<L> {
    fn enqueue(&mut self, now: Time, packet: Packet, events: &mut dyn PacketEvents) {
        if !self.buffer.accepts(self.queue.backlog(), &packet) {
            return events.dropped(now, packet, DropReason::Overflow);
        }
        self.max_packet = self.max_packet.max(packet.len);
        self.queue.push(Packet { arrived: now, ..packet });
    }

    fn dequeue(&mut self, now: Time, events: &mut dyn PacketEvents) -> Option<Packet> {
        let packet = loop {
            let Some(mut packet) = self.queue.pop() else {
                self.law.on_empty();
                break None;
            };
            let queue_bytes = self.queue.backlog().bytes;
            let behind = Behind { queue_bytes, port_bytes: queue_bytes, max_packet: self.max_packet };
            match self.law.decide(&self.parameters, now, &packet, behind) {
                Decision::Pass => break Some(packet),
                Decision::Mark => {
                    set_ce(now, &mut packet, events);
                    break Some(packet);
                }
                Decision::Drop => events.dropped(now, packet, DropReason::Delay),
            }
        };
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

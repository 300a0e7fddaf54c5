use super::fifo::Fifo;
use super::limit::Buffer;
use super::{BufferBounds, Capacity, PortContext, QueueDiscipline, QueueKind, QueueTraits, set_ce};
use crate::{Backlog, DropReason, Ecn, Packet, PacketEvents};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Span, Time};

/// Configuration of CoDel (RFC 8289).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodelSpec {
    /// Buffer limit, the packet in transmission included.
    pub limit: Capacity,
    /// Parameters of the control law.
    pub parameters: CodelParameters,
}

impl Kind for CodelSpec {
    const USAGE: &'static [Usage] = &[(
        "codel:LIMIT[,target=5ms,interval=100ms,ecn=true]",
        "CoDel: a FIFO that drops or marks packets at its head once their queueing delay has exceeded target for interval; LIMIT in \
         packets or bytes, including the packet in transmission",
    )];
    const EXAMPLES: &'static [&'static str] = &["codel:9,target=1ms,interval=4ms"];
    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        Ok(Self { limit: Capacity::read(text)?, parameters: CodelParameters::read(text)? })
    }
    fn write(&self, to: &mut Written) {
        self.parameters.write(to.name("codel").value(self.limit));
    }
}

impl QueueKind for CodelSpec {
    type Queue = Box<Codel>;
    fn build(&self, _context: &PortContext<'_>) -> Box<Codel> {
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

/// Defaults of RFC 8289, sections 4.3 and 4.4.
impl Default for CodelParameters {
    fn default() -> Self {
        Self { target: Span::from_millis(5), interval: Span::from_millis(100), ecn: true }
    }
}

impl CodelParameters {
    pub(super) fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let defaults = Self::default();
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

    pub(super) fn write<'a>(&self, to: &'a mut Written) -> &'a mut Written {
        let defaults = Self::default();
        to.option("target", self.target, defaults.target)
            .option("interval", self.interval, defaults.interval)
            .option("ecn", self.ecn, defaults.ecn)
    }
}

/// Control law of CoDel (RFC 8289, section 5), separate from the packet buffer.
///
/// A queue calls [`CodelLaw::should_drop`] for each packet at its head, until a packet may leave or the queue is empty.
#[derive(Clone, Debug, Default)]
pub struct CodelLaw {
    /// Time at which the queueing delay will have been at or above the target for an interval (first_above_time); `None` while the queueing
    /// delay is below the target.
    first_above_time: Option<Time>,
    dropping: bool,
    /// Time of the next drop while dropping (drop_next).
    drop_next: Time,
    /// Number of drops, which determines the drop rate (count).
    count: u32,
    /// Value of `count` at the last start of dropping (lastcount).
    last_count: u32,
    /// True directly after a drop. The time of the next drop is set only if the next packet has also waited too long.
    just_dropped: bool,
}

/// Time after the last drop, in intervals, up to which dropping begins anew at the last rate.
const RECENT_INTERVALS: u64 = 16;

impl CodelLaw {
    /// Returns true if the packet at the head must be dropped. The packet has waited for `waited`, `backlog_bytes` bytes are
    /// queued behind it, and the largest packet has `max_packet` bytes.
    pub fn should_drop(
        &mut self,
        p: &CodelParameters,
        now: Time,
        waited: Span,
        backlog_bytes: u64,
        max_packet: u32,
    ) -> bool {
        let is_above_target = self.is_above_target(p, now, waited, backlog_bytes, max_packet);
        if !self.dropping {
            if is_above_target {
                self.start_dropping(p, now);
            }
            return is_above_target;
        }
        let after_drop = std::mem::take(&mut self.just_dropped);
        if !is_above_target {
            self.dropping = false;
            return false;
        }
        if after_drop {
            self.drop_next += drop_interval(p.interval, self.count);
        }
        let due = now >= self.drop_next;
        if due {
            self.count = self.count.saturating_add(1);
            self.just_dropped = true;
        }
        due
    }

    /// Records that the queue is empty.
    pub fn on_empty(&mut self) {
        (self.first_above_time, self.dropping, self.just_dropped) = (None, false, false);
    }

    /// Returns true if the law of an empty queue has the same effect as a new one: it has never dropped, or so long ago that the next drops do
    /// not begin at the last rate.
    #[inline]
    pub(super) fn is_at_rest(&self, p: &CodelParameters, now: Time) -> bool {
        self.count == 0 || now.since(self.drop_next) >= p.interval * RECENT_INTERVALS
    }

    /// Returns true if the queueing delay has been at or above the target for an interval. A backlog of at most one packet does not count
    /// as above the target.
    fn is_above_target(
        &mut self,
        p: &CodelParameters,
        now: Time,
        waited: Span,
        backlog_bytes: u64,
        max_packet: u32,
    ) -> bool {
        if waited < p.target || backlog_bytes <= u64::from(max_packet) {
            self.first_above_time = None;
            return false;
        }
        now >= *self.first_above_time.get_or_insert(now + p.interval)
    }

    /// Begins dropping with the packet at the head. If dropping has ended only recently, the last drop rate is a good initial rate.
    fn start_dropping(&mut self, p: &CodelParameters, now: Time) {
        let delta = self.count.wrapping_sub(self.last_count);
        let recently = now.since(self.drop_next) < p.interval * RECENT_INTERVALS;
        self.count = if delta > 1 && recently { delta } else { 1 };
        self.last_count = self.count;
        self.drop_next = now + drop_interval(p.interval, self.count);
        self.dropping = true;
    }
}

/// Returns the time from a drop to the next one: interval / √count, rounded down. The integer square root of interval²
/// / count is exact to the nanosecond and needs no fractions.
fn drop_interval(interval: Span, count: u32) -> Span {
    let squared = u128::from(interval.as_nanos()).pow(2);
    Span::from_nanos((squared / u128::from(count.max(1))).isqrt() as u64)
}

/// Marks a packet that would otherwise be dropped, if ECN is on and the packet is ECN-capable. Returns true if the packet is marked.
pub(super) fn mark_instead(
    p: &CodelParameters,
    now: Time,
    packet: &mut Packet,
    events: &mut dyn PacketEvents,
) -> bool {
    let can_mark = p.ecn && packet.ecn != Ecn::NOT_ECT;
    if can_mark {
        set_ce(now, packet, events);
    }
    can_mark
}

/// FIFO managed by [`CodelLaw`].
#[derive(Debug)]
pub struct Codel {
    queue: Fifo,
    buffer: Buffer,
    /// Largest packet so far, bytes.
    max_packet: u32,
    law: CodelLaw,
    parameters: CodelParameters,
}

impl QueueDiscipline for Codel {
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
            let (waited, backlog_bytes) = (now.since(packet.arrived), self.queue.backlog().bytes);
            if !self.law.should_drop(&self.parameters, now, waited, backlog_bytes, self.max_packet)
                || mark_instead(&self.parameters, now, &mut packet, events)
            {
                break Some(packet);
            }
            events.dropped(now, packet, DropReason::Delay);
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

use super::fifo::Fifo;
use super::limit::Room;
use super::{BufferBounds, Capacity, PortContext, QueueDiscipline, QueueKind, ce};
use crate::{Backlog, DropReason, Ecn, Fate, Packet};
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
    fn build(&self, _site: &PortContext<'_>) -> Box<Codel> {
        Box::new(Codel {
            queue: Fifo::default(),
            room: Room::new(self.limit),
            largest: 0,
            law: CodelLaw::default(),
            parameters: self.parameters,
        })
    }
    /// Returns bounds with a lower bound of 0: packets may be dropped long before the buffer is full.
    fn buffer_bounds(&self) -> BufferBounds {
        BufferBounds { surely: 0, ..self.limit.buffer_bounds() }
    }
    fn counts_packets(&self) -> bool {
        !self.limit.is_in_bytes()
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
        let usual = Self::default();
        let read = Self {
            target: text.option("target", usual.target)?,
            interval: text.option("interval", usual.interval)?,
            ecn: text.option("ecn", usual.ecn)?,
        };
        if read.target == Span::ZERO || read.interval < read.target {
            return Err(text.error("0 < target <= interval"));
        }
        Ok(read)
    }

    pub(super) fn write<'a>(&self, to: &'a mut Written) -> &'a mut Written {
        let usual = Self::default();
        to.option("target", self.target, usual.target)
            .option("interval", self.interval, usual.interval)
            .option("ecn", self.ecn, usual.ecn)
    }
}

/// Control law of CoDel (RFC 8289, section 5), separate from the packet buffer.
///
/// A queue calls [`CodelLaw::drops`] for each packet at its head, until a packet may leave or the queue is empty.
#[derive(Clone, Debug, Default)]
pub struct CodelLaw {
    /// Time at which the queueing delay will have been at or above the target for an interval (first_above_time); `None` while the queueing
    /// delay is below the target.
    too_long_at: Option<Time>,
    dropping: bool,
    /// Time of the next drop while dropping (drop_next).
    next_drop: Time,
    /// Number of drops, which determines the drop rate (count).
    count: u32,
    /// Value of `count` at the last start of dropping (lastcount).
    first_count: u32,
    /// True directly after a drop. The time of the next drop is set only if the next packet has also waited too long.
    follows: bool,
}

impl CodelLaw {
    /// Returns true if the packet at the head must be dropped. The packet has waited for `waited`, `behind` bytes are
    /// queued behind it, and the largest packet has `largest` bytes.
    pub fn drops(&mut self, p: &CodelParameters, now: Time, waited: Span, behind: u64, largest: u32) -> bool {
        let too_long = self.too_long(p, now, waited, behind, largest);
        if !self.dropping {
            if too_long {
                self.begin(p, now);
            }
            return too_long;
        }
        let followed = std::mem::take(&mut self.follows);
        if !too_long {
            self.dropping = false;
            return false;
        }
        if followed {
            self.next_drop += gap(p.interval, self.count);
        }
        let due = now >= self.next_drop;
        if due {
            self.count = self.count.saturating_add(1);
            self.follows = true;
        }
        due
    }

    /// Records that the queue is empty.
    pub fn on_empty(&mut self) {
        (self.too_long_at, self.dropping, self.follows) = (None, false, false);
    }

    /// Returns true if the queueing delay has been at or above the target for an interval. A backlog of at most one packet does not count
    /// as above the target.
    fn too_long(&mut self, p: &CodelParameters, now: Time, waited: Span, behind: u64, largest: u32) -> bool {
        if waited < p.target || behind <= u64::from(largest) {
            self.too_long_at = None;
            return false;
        }
        now >= *self.too_long_at.get_or_insert(now + p.interval)
    }

    /// Begins dropping with the packet at the head. If dropping has ended only recently, the last drop rate is a good initial rate.
    fn begin(&mut self, p: &CodelParameters, now: Time) {
        let more = self.count.wrapping_sub(self.first_count);
        let lately = now.since(self.next_drop) < p.interval * 16;
        self.count = if more > 1 && lately { more } else { 1 };
        self.first_count = self.count;
        self.next_drop = now + gap(p.interval, self.count);
        self.dropping = true;
    }
}

/// Returns the time from a drop to the next one: interval / √count, rounded down. The integer square root of interval²
/// / count is exact to the nanosecond and needs no fractions.
fn gap(interval: Span, count: u32) -> Span {
    let squared = u128::from(interval.as_nanos()).pow(2);
    Span::from_nanos((squared / u128::from(count.max(1))).isqrt() as u64)
}

/// Marks a packet that would otherwise be dropped, if ECN is on and the packet is ECN-capable. Returns true if the packet is marked.
pub(super) fn marks(p: &CodelParameters, now: Time, packet: &mut Packet, fate: &mut dyn Fate) -> bool {
    let marks = p.ecn && packet.ecn != Ecn::NOT_ECT;
    if marks {
        ce(now, packet, fate);
    }
    marks
}

/// FIFO managed by [`CodelLaw`].
#[derive(Debug)]
pub struct Codel {
    queue: Fifo,
    room: Room,
    /// Largest packet so far, bytes.
    largest: u32,
    law: CodelLaw,
    parameters: CodelParameters,
}

impl QueueDiscipline for Codel {
    fn enqueue(&mut self, now: Time, packet: Packet, fate: &mut dyn Fate) {
        if !self.room.takes(self.queue.backlog(), &packet) {
            return fate.dropped(now, packet, DropReason::Overflow);
        }
        self.largest = self.largest.max(packet.len);
        self.queue.push(Packet { arrived: now, ..packet });
    }

    fn dequeue(&mut self, now: Time, fate: &mut dyn Fate) -> Option<Packet> {
        let packet = loop {
            let Some(mut packet) = self.queue.pop() else {
                self.law.on_empty();
                break None;
            };
            let (waited, behind) = (now.since(packet.arrived), self.queue.backlog().bytes);
            if !self.law.drops(&self.parameters, now, waited, behind, self.largest)
                || marks(&self.parameters, now, &mut packet, fate)
            {
                break Some(packet);
            }
            fate.dropped(now, packet, DropReason::Delay);
        };
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

use super::{BufferBounds, Capacity, PacketLimit, PortContext, QueueDiscipline, QueueKind};
use crate::shape::{AnyShaper, Shaper};
use crate::{Backlog, DropReason, Packet, PacketEvents};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Span, Time};
use std::collections::VecDeque;
use std::num::{NonZeroU32, NonZeroU64};

/// Configuration of drop-tail: a FIFO that drops arriving packets if the buffer is full (CATNIP paper, section III-C).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropTailSpec(Limit);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    Capacity(Capacity),
    /// Maximum waiting time, above zero.
    Wait(Span),
}

impl DropTailSpec {
    /// Creates drop-tail with a limit in packets, including the one in transmission; `None` if the limit is below 2.
    pub fn packets(limit: u32) -> Option<Self> {
        PacketLimit::new(limit.into()).map(|limit| Self(Limit::Capacity(Capacity::Packets(limit))))
    }

    /// Creates drop-tail with a limit in bytes, including the packet in transmission until its last bit has left; `None` if the limit is
    /// zero. A packet larger than the limit is always dropped.
    pub fn bytes(limit: u64) -> Option<Self> {
        NonZeroU64::new(limit).map(|limit| Self(Limit::Capacity(Capacity::Bytes(limit))))
    }

    /// Returns true if the limit is a time.
    pub(super) fn is_in_time(&self) -> bool {
        matches!(self.0, Limit::Wait(_))
    }

    /// Creates drop-tail with a limit in time; `None` if the limit is zero. An arriving packet is dropped if it would wait longer than the
    /// limit until the start of its transmission. This time includes the rest of the transmission in progress.
    pub fn wait(limit: Span) -> Option<Self> {
        (limit > Span::ZERO).then_some(Self(Limit::Wait(limit)))
    }
}

impl Kind for DropTailSpec {
    const USAGE: &'static [Usage] = &[
        (
            "drop-tail:LIMIT",
            "FIFO that drops arrivals when it is full; LIMIT in packets, including the packet in transmission",
        ),
        (
            "drop-tail:15KB, drop-tail:200ms",
            "drop-tail with a limit in bytes, or with a maximum queueing delay: an arrival that would wait longer is dropped",
        ),
    ];
    const EXAMPLES: &'static [&'static str] = &["drop-tail:5", "drop-tail:4000B", "drop-tail:7ms"];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let limit = text.next().unwrap_or_default();
        let buffer = limit.parse().map(|buffer| Some(Self(Limit::Capacity(buffer))));
        let read = buffer.or_else(|error: ParseError| match limit.parse().map(Self::wait) {
            Err(_) if error.is_too_large() => Err(error),
            wait => wait,
        });
        let expected = "a limit such as drop-tail:10 (packets; at least 2), drop-tail:15KB or drop-tail:200ms (above zero)";
        read.map_err(|error| text.error_of(error, expected))?.ok_or_else(|| text.error(expected))
    }

    fn write(&self, to: &mut Written) {
        to.name("drop-tail");
        match self.0 {
            Limit::Capacity(buffer) => to.value(buffer),
            Limit::Wait(limit) => to.value(limit),
        };
    }
}

impl QueueKind for DropTailSpec {
    type Queue = DropTail;

    fn build(&self, context: &PortContext<'_>) -> DropTail {
        match self.0 {
            Limit::Capacity(Capacity::Packets(limit)) => DropTail::new(limit.waiting()),
            Limit::Capacity(Capacity::Bytes(limit)) => {
                DropTail::with(Buffer::Bytes { limit: limit.get(), in_transmission: 0 })
            }
            Limit::Wait(limit) => {
                let wire = context.wire();
                DropTail::with(Buffer::Wait(Box::new(Waiting { limit, wire, free_at: Time::ZERO })))
            }
        }
    }

    fn buffer_bounds(&self) -> BufferBounds {
        match self.0 {
            Limit::Capacity(buffer) => buffer.buffer_bounds(),
            Limit::Wait(_) => BufferBounds::default(),
        }
    }

    fn has_time_limit(&self) -> bool {
        self.is_in_time()
    }

    fn counts_packets(&self) -> bool {
        matches!(self.0, Limit::Capacity(Capacity::Packets(_)))
    }
}

/// FIFO that drops arriving packets if the buffer is full.
#[derive(Debug)]
pub struct DropTail {
    packets: VecDeque<Packet>,
    bytes: u64,
    buffer: Buffer,
}

#[derive(Debug)]
enum Buffer {
    /// Maximum number of waiting packets.
    Packets(NonZeroU32),
    Bytes {
        limit: u64,
        /// Bytes of the packet in transmission, which counts until its last bit has left.
        in_transmission: u32,
    },
    Wait(Box<Waiting>),
}

#[derive(Debug)]
struct Waiting {
    limit: Span,
    /// Copy of the wire, which computes the end of transmission of all accepted packets.
    wire: AnyShaper,
    free_at: Time,
}

impl DropTail {
    /// Creates a queue in which at most `waiting` packets wait besides the one in transmission.
    pub fn new(waiting: NonZeroU32) -> Self {
        Self::with(Buffer::Packets(waiting))
    }

    fn with(buffer: Buffer) -> Self {
        Self { packets: VecDeque::new(), bytes: 0, buffer }
    }

    /// Returns true if an arriving packet of `len` bytes is accepted. With a limit in time, adds the transmission of an accepted packet to
    /// the copy of the wire.
    fn accepts(&mut self, now: Time, len: u32) -> bool {
        match &mut self.buffer {
            Buffer::Packets(waiting) => (self.packets.len() as u32) < waiting.get(),
            Buffer::Bytes { limit, in_transmission } => {
                self.bytes + u64::from(*in_transmission) + u64::from(len) <= *limit
            }
            Buffer::Wait(wait) => {
                let accepts = wait.free_at.since(now) <= wait.limit;
                if accepts {
                    wait.free_at = wait.wire.finish(now.max(wait.free_at), len);
                }
                accepts
            }
        }
    }
}

impl QueueDiscipline for DropTail {
    #[inline]
    fn enqueue(&mut self, now: Time, packet: Packet, events: &mut dyn PacketEvents) {
        if !self.accepts(now, packet.len) {
            return events.dropped(now, packet, DropReason::Overflow);
        }
        self.bytes += u64::from(packet.len);
        self.packets.push_back(packet);
    }

    #[inline]
    fn dequeue(&mut self, _now: Time, _events: &mut dyn PacketEvents) -> Option<Packet> {
        let packet = self.packets.pop_front();
        let len = packet.map_or(0, |packet| packet.len);
        self.bytes -= u64::from(len);
        if let Buffer::Bytes { in_transmission, .. } = &mut self.buffer {
            *in_transmission = len;
        }
        packet
    }

    fn released(&mut self) {
        if let Buffer::Bytes { in_transmission, .. } = &mut self.buffer {
            *in_transmission = 0;
        }
    }

    fn fifo_limit(&self) -> Option<u32> {
        match self.buffer {
            Buffer::Packets(waiting) => Some(waiting.get()),
            Buffer::Bytes { .. } | Buffer::Wait(_) => None,
        }
    }

    fn backlog(&self) -> Backlog {
        Backlog { packets: self.packets.len() as u32, bytes: self.bytes }
    }
}

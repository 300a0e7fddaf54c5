use super::codel::{CodelLaw, CodelParameters, mark_instead};
use super::drr::{Drr, TakesTurns, Turn};
use super::flow_table::FlowTable;
use super::limit::Buffer;
use super::pool::{Chain, Pool};
use super::{BufferBounds, Capacity, PortContext, QueueDiscipline, QueueKind, QueueTraits};
use crate::{Backlog, DropReason, Packet, PacketEvents};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{Bytes, ParseError, Time};
use std::num::NonZeroU32;

/// Configuration of FQ-CoDel (RFC 8290).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FqCodelSpec {
    /// Buffer limit, the packet in transmission included.
    pub limit: Capacity,
    /// Parameters of CoDel in each queue.
    pub parameters: CodelParameters,
    /// Number of queues. Connections whose flow identifiers are equal modulo this number share a queue.
    pub flows: NonZeroU32,
    /// Bytes that a queue may send in its turn.
    pub quantum: NonZeroU32,
}

/// Maximum number of queues: flow identifiers have 16 bits.
const MAX_FLOWS: u32 = 1 << 16;
const FLOWS: NonZeroU32 = NonZeroU32::new(1024).unwrap();
const QUANTUM: NonZeroU32 = NonZeroU32::new(1514).unwrap();

impl Kind for FqCodelSpec {
    const USAGE: &'static [Usage] = &[(
        "fq-codel:LIMIT[,target=5ms,interval=100ms,ecn=true,flows=1024,quantum=1514B]",
        "FQ-CoDel: flows queues, one for each connection, each governed by CoDel and served by deficit round robin with quantum, \
         connections that send little first; LIMIT in packets or bytes, including the packet in transmission",
    )];
    const EXAMPLES: &'static [&'static str] =
        &["fq-codel:9000B,target=1ms,interval=4ms,flows=4,quantum=500B"];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let (limit, parameters) = (Capacity::read(text)?, CodelParameters::read(text)?);
        let flows = text.option("flows", FLOWS)?;
        let Bytes(quantum) = text.option("quantum", Bytes(QUANTUM.get().into()))?;
        let quantum = u32::try_from(quantum).ok().and_then(NonZeroU32::new);
        let quantum = quantum.filter(|quantum| quantum.get() <= MAX_QUANTUM);
        match (quantum, flows.get() <= MAX_FLOWS) {
            (Some(quantum), true) => Ok(Self { limit, parameters, flows, quantum }),
            (None, _) => Err(text.error("a quantum from 1B to 1MB")),
            _ => Err(text.error(format!("1 to {MAX_FLOWS} flows"))),
        }
    }

    fn write(&self, to: &mut Written) {
        let bytes = |quantum: NonZeroU32| Bytes(quantum.get().into());
        let written = self.parameters.write(to.name("fq-codel").value(self.limit));
        written.option("flows", self.flows, FLOWS).option("quantum", bytes(self.quantum), bytes(QUANTUM));
    }
}

const MAX_QUANTUM: u32 = 1 << 20;

impl QueueKind for FqCodelSpec {
    type Queue = FqCodel;

    fn build(&self, _context: &PortContext<'_>) -> FqCodel {
        FqCodel {
            pool: Pool::default(),
            flows: FlowTable::new(),
            flow_count: self.flows,
            turns: Drr::new(self.quantum.get()),
            backlog: Backlog::default(),
            buffer: Buffer::new(self.limit),
            max_packet: 0,
            parameters: self.parameters,
        }
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

/// Queues of connections, each managed by [`CodelLaw`] and served by deficit round robin. A queue that was empty for a while is served
/// first (RFC 8290, section 4).
#[derive(Debug)]
#[repr(C)] // What a packet that does not wait needs comes first.
pub struct FqCodel {
    backlog: Backlog,
    buffer: Buffer,
    /// Largest packet so far, bytes.
    max_packet: u32,
    flow_count: NonZeroU32,
    flows: FlowTable<Flow>,
    turns: Drr,
    pool: Pool,
    parameters: CodelParameters,
}

#[derive(Debug)]
struct Flow {
    number: u32,
    packets: Chain,
    law: CodelLaw,
    turn: Turn,
}

impl TakesTurns for Flow {
    #[inline(always)]
    fn turn(&mut self) -> &mut Turn {
        &mut self.turn
    }
}

impl Flow {
    fn new(number: u32) -> Self {
        Self { number, packets: Chain::default(), law: CodelLaw::default(), turn: Turn::default() }
    }

    /// Returns the number of the flow if its state is that of a new flow.
    #[inline]
    fn number_at_rest(&self, parameters: &CodelParameters, now: Time) -> Option<u32> {
        self.law.is_at_rest(parameters, now).then_some(self.number)
    }
}

/// Maximum number of packets dropped at once from a full buffer (RFC 8290, section 4.1.3). Most of the cost is the search for the longest
/// queue, so several packets are dropped per search.
const BATCH: u32 = 64;

impl FqCodel {
    /// Drops half of the packets of the queue with the most bytes, from its head. Out of line, because a buffer managed by CoDel is rarely
    /// full.
    #[inline(never)]
    fn drop_from_longest(&mut self, now: Time, events: &mut dyn PacketEvents) {
        // Of equal queues, the one with the highest number.
        let length = |&position: &u32| {
            let flow = &self.flows[position];
            let backlog = flow.packets.backlog();
            (backlog.bytes, backlog.packets, flow.number)
        };
        let Some(longest) = self.flows.positions().max_by_key(length) else { return };
        let flow = &mut self.flows[longest];
        for _ in 0..flow.packets.backlog().packets.div_ceil(2).min(BATCH) {
            let Some(packet) = self.pool.pop(&mut flow.packets) else { return };
            self.backlog.remove(&packet);
            events.dropped(now, packet, DropReason::Overflow);
        }
    }
}

impl QueueDiscipline for FqCodel {
    fn enqueue(&mut self, now: Time, packet: Packet, events: &mut dyn PacketEvents) {
        if !self.buffer.fits(&packet) {
            return events.dropped(now, packet, DropReason::Overflow);
        }
        self.max_packet = self.max_packet.max(packet.len);
        self.backlog.add(&packet);
        let number = u32::from(packet.flow) % self.flow_count;
        let position = self.flows.position(number, || Flow::new(number));
        let flow = &mut self.flows[position];
        self.pool.push(&mut flow.packets, Packet { arrived: now, ..packet });
        self.turns.activate(&mut self.flows, position);
        while !self.buffer.holds(self.backlog) && self.backlog.packets > 0 {
            self.drop_from_longest(now, events);
        }
    }

    fn pass(&mut self, now: Time, packet: &Packet) -> bool {
        if !self.buffer.fits(packet) {
            return false;
        }
        self.max_packet = self.max_packet.max(packet.len);
        let number = u32::from(packet.flow) % self.flow_count;
        let position = self.flows.position(number, || Flow::new(number));
        let parameters = &self.parameters;
        self.turns.clear(&mut self.flows, |flow| {
            flow.law.on_empty();
            flow.number_at_rest(parameters, now).filter(|&other| other != number)
        });
        self.turns.activate(&mut self.flows, position);
        // A packet that has not waited does not change the control law of an empty queue.
        self.flows[position].turn.spend(packet);
        self.buffer.set_in_transmission(Some(packet));
        true
    }

    fn dequeue(&mut self, now: Time, events: &mut dyn PacketEvents) -> Option<Packet> {
        let Self { pool, flows, turns, backlog, max_packet, parameters, .. } = self;
        if backlog.packets == 0 {
            turns.clear(flows, |flow| {
                flow.law.on_empty();
                flow.number_at_rest(parameters, now)
            });
            self.buffer.set_in_transmission(None);
            return None;
        }
        // Drops packets of a queue as its control law decides, and returns the first packet that is not dropped.
        let next = |flow: &mut Flow| {
            loop {
                let Some(mut packet) = pool.pop(&mut flow.packets) else {
                    flow.law.on_empty();
                    return None;
                };
                backlog.remove(&packet);
                let (waited, backlog_bytes) = (now.since(packet.arrived), flow.packets.backlog().bytes);
                if !flow.law.should_drop(parameters, now, waited, backlog_bytes, *max_packet)
                    || mark_instead(parameters, now, &mut packet, events)
                {
                    return Some(packet);
                }
                events.dropped(now, packet, DropReason::Delay);
            }
        };
        let packet = turns.next(flows, next, |flow| flow.number_at_rest(parameters, now));
        self.buffer.set_in_transmission(packet.as_ref());
        packet
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn released(&mut self) {
        self.buffer.set_in_transmission(None);
    }
}

use super::codel::{
    Behind, CodelLaw, CodelParameters, ControlLaw, Decision, LINUX_MTU_BYTES, LinuxControl, RfcControl,
};
use super::drr::{Drr, TakesTurns, Turn};
use super::flow_table::FlowTable;
use super::limit::Buffer;
use super::pool::{Chain, Pool};
use super::{BufferBounds, Capacity, PortContext, QueueDiscipline, QueueKind, QueueTraits, set_ce};
use crate::{Backlog, DropReason, Packet, PacketEvents};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{Bytes, ParseError, Time};
use std::marker::PhantomData;
use std::num::NonZeroU32;

/// Configuration of FQ-CoDel: of RFC 8290 or of Linux (net/sched/sch_fq_codel.c), by the control law.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FqCodelSpec<L = RfcControl> {
    /// Buffer limit, the packet in transmission included.
    pub limit: Capacity,
    /// Parameters of CoDel in each queue.
    pub parameters: CodelParameters,
    /// Number of queues. Connections whose flow identifiers are equal modulo this number share a queue.
    pub flows: NonZeroU32,
    /// Bytes that a queue may send in its turn.
    pub quantum: NonZeroU32,
    /// Control law.
    pub control: PhantomData<L>,
}

/// Maximum number of queues: flow identifiers have 16 bits.
const MAX_FLOWS: u32 = 1 << 16;
const FLOWS: NonZeroU32 = NonZeroU32::new(1024).unwrap();
const QUANTUM: NonZeroU32 = NonZeroU32::new(LINUX_MTU_BYTES).unwrap();

impl Kind for FqCodelSpec<RfcControl> {
    const USAGE: &'static [Usage] = &[(
        "fq-codel:LIMIT[,target=5ms,interval=100ms,ecn=true,flows=1024,quantum=1514B]",
        "FQ-CoDel: flows queues, one for each connection, each governed by CoDel and served by deficit round robin with quantum, \
         connections that send little first; LIMIT in packets or bytes, including the packet in transmission",
    )];
    const EXAMPLES: &'static [&'static str] =
        &["fq-codel:9000B,target=1ms,interval=4ms,flows=4,quantum=500B"];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let limit = Capacity::read(text)?;
        Self::read_numbers(limit, text)
    }

    fn write(&self, to: &mut Written) {
        self.write_numbers(to.name("fq-codel"));
    }
}

impl Kind for FqCodelSpec<LinuxControl> {
    const USAGE: &'static [Usage] = &[(
        "linux-fq-codel[:LIMIT,target=5ms,interval=100ms,ecn=true,flows=1024,quantum=1514B]",
        "FQ-CoDel of Linux: fq-codel with the arithmetic of linux-codel, in which all queues together decide whether more than 1514 bytes \
         wait, a full buffer drops half of the bytes of the longest queue, up to 64 packets, and counts them as CoDel's drops, and an \
         emptied queue may be new again at once if no other queue waits for its turn; LIMIT as in fq-codel, by default 10240",
    )];
    const EXAMPLES: &'static [&'static str] =
        &["linux-fq-codel:9000B,target=1ms,interval=4ms,flows=4,quantum=500B"];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let limit = Capacity::read_or(text, Capacity::packets(10 * 1024))?;
        Self::read_numbers(limit, text)
    }

    fn write(&self, to: &mut Written) {
        self.write_numbers(to.name("linux-fq-codel"));
    }
}

impl<L> FqCodelSpec<L> {
    fn read_numbers(limit: Capacity, text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let parameters = CodelParameters::read(text, CodelParameters::default())?;
        let flows = text.option("flows", FLOWS)?;
        let Bytes(quantum) = text.option("quantum", Bytes(QUANTUM.get().into()))?;
        let quantum = u32::try_from(quantum).ok().and_then(NonZeroU32::new);
        let quantum = quantum.filter(|quantum| quantum.get() <= MAX_QUANTUM);
        match (quantum, flows.get() <= MAX_FLOWS) {
            (Some(quantum), true) => Ok(Self { limit, parameters, flows, quantum, control: PhantomData }),
            (None, _) => Err(text.error("a quantum from 1B to 1MB")),
            _ => Err(text.error(format!("1 to {MAX_FLOWS} flows"))),
        }
    }

    fn write_numbers(&self, to: &mut Written) {
        let bytes = |quantum: NonZeroU32| Bytes(quantum.get().into());
        let written = self.parameters.write(to.value(self.limit), CodelParameters::default());
        written.option("flows", self.flows, FLOWS).option("quantum", bytes(self.quantum), bytes(QUANTUM));
    }
}

const MAX_QUANTUM: u32 = 1 << 20;

impl<L: FairControl> QueueKind for FqCodelSpec<L> {
    type Queue = FqCodel<L>;

    fn build(&self, _context: &PortContext<'_>) -> FqCodel<L> {
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
pub struct FqCodel<L = RfcControl> {
    backlog: Backlog,
    buffer: Buffer,
    /// Largest packet so far, bytes.
    max_packet: u32,
    flow_count: NonZeroU32,
    flows: FlowTable<Flow<L>>,
    turns: Drr,
    pool: Pool,
    parameters: CodelParameters,
}

#[derive(Debug)]
struct Flow<L> {
    number: u32,
    packets: Chain,
    law: CodelLaw<L>,
    turn: Turn,
}

impl<L: FairControl> TakesTurns for Flow<L> {
    const KEEPS_TURN_ALONE: bool = L::KEEPS_TURN_ALONE;
    #[inline(always)]
    fn turn(&mut self) -> &mut Turn {
        &mut self.turn
    }
}

impl<L: FairControl> Flow<L> {
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

/// Control law for queues that share a port.
pub trait FairControl: ControlLaw {
    /// True if an emptied new queue becomes an old queue even if there is no other old queue.
    const KEEPS_TURN_ALONE: bool;
    /// Returns the rank of a queue of this number among those from which a full buffer may drop; the highest one loses packets.
    fn rank(backlog: Backlog, number: u32) -> (u64, u32, u32);
    /// Returns how much of a queue a full buffer drops from its head: packets until one of both numbers is reached, and at least one.
    fn batch(backlog: Backlog) -> Backlog;
}

impl FairControl for RfcControl {
    const KEEPS_TURN_ALONE: bool = true;
    /// Returns the rank by bytes, then by packets. Of equal queues, the one with the highest number loses packets.
    fn rank(backlog: Backlog, number: u32) -> (u64, u32, u32) {
        (backlog.bytes, backlog.packets, number)
    }
    /// Returns half of the packets.
    fn batch(backlog: Backlog) -> Backlog {
        Backlog { packets: backlog.packets.div_ceil(2).min(BATCH), bytes: u64::MAX }
    }
}

impl FairControl for LinuxControl {
    const KEEPS_TURN_ALONE: bool = false;
    /// Returns the rank by bytes. Of equal queues, the one with the lowest number loses packets (fq_codel_drop).
    fn rank(backlog: Backlog, number: u32) -> (u64, u32, u32) {
        (backlog.bytes, backlog.packets.min(1), !number)
    }
    /// Returns half of the bytes (fq_codel_drop).
    fn batch(backlog: Backlog) -> Backlog {
        Backlog { packets: BATCH, bytes: backlog.bytes / 2 }
    }
}

impl<L: FairControl> FqCodel<L> {
    /// Drops about half of the queue with the most bytes, from its head. Out of line, because a buffer managed by CoDel is rarely full.
    #[inline(never)]
    fn drop_from_longest(&mut self, now: Time, events: &mut dyn PacketEvents) {
        let rank = |&position: &u32| {
            let flow = &self.flows[position];
            L::rank(flow.packets.backlog(), flow.number)
        };
        // Removed flows are empty, and at least one flow is not.
        let Some(longest) = self.flows.positions().max_by_key(rank) else { return };
        let flow = &mut self.flows[longest];
        let (batch, mut dropped) = (L::batch(flow.packets.backlog()), Backlog::default());
        while dropped.packets == 0 || dropped.packets < batch.packets && dropped.bytes < batch.bytes {
            let Some(packet) = self.pool.pop(&mut flow.packets) else { break };
            self.backlog.remove(&packet);
            dropped.add(&packet);
            events.dropped(now, packet, DropReason::Overflow);
        }
        flow.law.on_overflow(dropped.packets);
    }
}

// `enqueue` and `dequeue` are out of line, so that the code of a port does not contain them for each control law.
impl<L: FairControl> QueueDiscipline for FqCodel<L> {
    #[inline(never)]
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
        let flow = &mut self.flows[position];
        flow.law.on_pass();
        flow.turn.spend(packet);
        self.buffer.set_in_transmission(Some(packet));
        true
    }

    #[inline(never)]
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
        let next = |flow: &mut Flow<L>| {
            loop {
                let Some(mut packet) = pool.pop(&mut flow.packets) else {
                    flow.law.on_empty();
                    return None;
                };
                backlog.remove(&packet);
                let (queue_bytes, port_bytes) = (flow.packets.backlog().bytes, backlog.bytes);
                let behind = Behind { queue_bytes, port_bytes, max_packet: *max_packet };
                match flow.law.decide(parameters, now, &packet, behind) {
                    Decision::Pass => return Some(packet),
                    Decision::Mark => {
                        set_ce(now, &mut packet, events);
                        return Some(packet);
                    }
                    Decision::Drop => events.dropped(now, packet, DropReason::Delay),
                }
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

use super::drr::{Drr, TakesTurns, Turn};
use super::flow_table::FlowTable;
use super::limit::Buffer;
use super::pie::{PieLaw, PieParameters, PieSpec};
use super::pool::{Chain, Pool};
use super::{BufferBounds, PortContext, QueueDiscipline, QueueKind, QueueTraits, set_ce};
use crate::{Backlog, DropReason, Ecn, Packet, PacketEvents};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{Bytes, ParseError, Rng, Time};
use std::num::NonZeroU32;

/// Configuration of FQ-PIE, as in Linux (net/sched/sch_fq_pie.c) and FreeBSD (dummynet): queues of flows, each managed by PIE (RFC 8033)
/// and served by deficit round robin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FqPieSpec {
    /// Buffer limit and parameters of PIE in each queue.
    pub pie: PieSpec,
    /// Number of queues. Connections whose flow identifiers are equal modulo this number share a queue.
    pub flows: NonZeroU32,
    /// Bytes that a queue may send in its turn.
    pub quantum: NonZeroU32,
}

const FLOWS: NonZeroU32 = NonZeroU32::new(1024).unwrap();
const QUANTUM: NonZeroU32 = NonZeroU32::new(1514).unwrap();
/// Maximum number of queues: flow identifiers have 16 bits.
const MAX_FLOWS: u32 = 1 << 16;
const MAX_QUANTUM: u64 = 1 << 20;

impl Kind for FqPieSpec {
    const USAGE: &'static [Usage] = &[(
        "fq-pie:LIMIT[,target=15ms,update=15ms,burst=150ms,alpha=0.125,beta=1.25,even=true,ecn=true,flows=1024,quantum=1514B]",
        "FQ-PIE (Linux): flows queues, one for each connection, each governed by PIE and served by deficit round robin with quantum, connections that send little first; LIMIT in packets or bytes, including the packet in transmission",
    )];
    const EXAMPLES: &'static [&'static str] =
        &["fq-pie:9000B,target=1ms,update=2ms,burst=0s,alpha=5,beta=50,flows=4,quantum=500B"];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let pie = PieSpec::read(text)?;
        let (flows, Bytes(quantum)) =
            (text.option("flows", FLOWS)?, text.option("quantum", Bytes(QUANTUM.get().into()))?);
        let within = flows.get() <= MAX_FLOWS && (1..=MAX_QUANTUM).contains(&quantum);
        match NonZeroU32::new(quantum as u32).filter(|_| within) {
            Some(quantum) => Ok(Self { pie, flows, quantum }),
            None => Err(text.error(format!("1 to {MAX_FLOWS} flows, and a quantum from 1B to 1MB"))),
        }
    }

    fn write(&self, to: &mut Written) {
        let bytes = |quantum: NonZeroU32| Bytes(quantum.get().into());
        self.pie
            .write_parameters(to.name("fq-pie"), PieParameters::default())
            .option("flows", self.flows, FLOWS)
            .option("quantum", bytes(self.quantum), bytes(QUANTUM));
    }
}

impl QueueKind for FqPieSpec {
    type Queue = Box<dyn QueueDiscipline>;

    fn build(&self, context: &PortContext<'_>) -> Box<dyn QueueDiscipline> {
        Box::new(FqPie {
            pool: Pool::default(),
            flows: FlowTable::new(),
            flow_count: self.flows,
            turns: Drr::new(self.quantum.get()),
            backlog: Backlog::default(),
            buffer: Buffer::new(self.pie.limit),
            max_packet: 0,
            parameters: self.pie.parameters,
            rng: context.drop_rng(),
        })
    }

    fn buffer_bounds(&self) -> BufferBounds {
        self.pie.buffer_bounds()
    }

    fn counts_packets(&self) -> bool {
        self.pie.counts_packets()
    }

    fn traits(&self) -> QueueTraits {
        self.pie.traits()
    }
}

/// Queues of flows, each managed by [`PieLaw`].
#[derive(Debug)]
struct FqPie {
    pool: Pool,
    flows: FlowTable<Flow>,
    flow_count: NonZeroU32,
    turns: Drr,
    backlog: Backlog,
    buffer: Buffer,
    /// Largest packet so far, bytes.
    max_packet: u32,
    parameters: PieParameters,
    rng: Rng,
}

#[derive(Debug)]
struct Flow {
    packets: Chain,
    law: PieLaw,
    turn: Turn,
}

impl TakesTurns for Flow {
    #[inline(always)]
    fn turn(&mut self) -> &mut Turn {
        &mut self.turn
    }
}

impl Flow {
    fn new(parameters: &PieParameters) -> Self {
        Self { packets: Chain::default(), law: PieLaw::new(parameters), turn: Turn::default() }
    }
}

impl QueueDiscipline for FqPie {
    fn enqueue(&mut self, now: Time, mut packet: Packet, events: &mut dyn PacketEvents) {
        let number = u32::from(packet.flow) % self.flow_count;
        let position = self.flows.position(number, || Flow::new(&self.parameters));
        let Flow { packets, law, .. } = &mut self.flows[position];
        law.advance(&self.parameters, now);
        // fq_pie_qdisc_enqueue drops the arriving packet if the buffer is full, regardless of the length of its queue.
        if !self.buffer.accepts(self.backlog, &packet) {
            law.on_overflow();
            return events.dropped(now, packet, DropReason::Overflow);
        }
        self.max_packet = self.max_packet.max(packet.len);
        if law.should_drop(&self.parameters, packets.backlog().bytes, self.max_packet, self.rng.next_u32()) {
            if !law.is_marking(&self.parameters) || packet.ecn == Ecn::NOT_ECT {
                return events.dropped(now, packet, DropReason::Early);
            }
            set_ce(now, &mut packet, events);
        }
        self.backlog.add(&packet);
        self.pool.push(packets, Packet { arrived: now, ..packet });
        self.turns.activate(&mut self.flows, position);
    }

    fn dequeue(&mut self, now: Time, _events: &mut dyn PacketEvents) -> Option<Packet> {
        let Self { pool, flows, turns, parameters, .. } = self;
        let next = |flow: &mut Flow| {
            let packet = pool.pop(&mut flow.packets)?;
            flow.law.advance(parameters, now);
            flow.law.on_departure(now.since(packet.arrived), flow.packets.backlog().packets == 0);
            Some(packet)
        };
        let packet = turns.next(flows, next, |_| None);
        packet.iter().for_each(|packet| self.backlog.remove(packet));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Route;
    use crate::queue::QueueSpec;
    use catnip_base::{Rate, Span};

    #[derive(Default)]
    struct Dropped([u32; 2]);

    impl PacketEvents for Dropped {
        fn dropped(&mut self, _now: Time, packet: Packet, _reason: DropReason) {
            self.0[usize::from(packet.flow)] += 1;
        }
    }

    /// Returns the number of dropped packets of an aggressive and of a modest flow, and the longest queueing delay of the modest flow. Each
    /// packet takes a millisecond on the line.
    fn shared(queue: &str) -> ([u32; 2], Span) {
        let rate = Rate::from_bits_per_second(8_000_000).unwrap().into();
        let mut queue = queue.parse::<QueueSpec>().unwrap().build(&PortContext::new(&rate, 1, 0));
        let (mut dropped, mut longest) = (Dropped::default(), Span::ZERO);
        for ms in 0..10_000u64 {
            let now = Time::ZERO + Span::from_millis(ms);
            let packet = |flow| Packet { flow, ..Packet::new(now, Route::default(), 1000, 0) };
            (0..2).for_each(|_| queue.enqueue(now, packet(0), &mut dropped));
            if ms % 4 == 0 {
                queue.enqueue(now, packet(1), &mut dropped);
            }
            if let Some(packet) = queue.dequeue(now, &mut dropped)
                && packet.flow == 1
            {
                longest = longest.max(now.since(packet.arrived));
            }
        }
        (dropped.0, longest)
    }

    #[test]
    fn a_modest_flow_neither_waits_nor_loses_beside_an_aggressive_one() {
        let (dropped, longest) = shared("fq-pie:1000");
        assert!(dropped[0] > 8_000 && dropped[1] == 0, "{dropped:?}");
        assert!(longest <= Span::from_millis(2), "{longest:?}");
        let (together, longest) = shared("pie:1000");
        assert!(together[1] > 500 && longest > Span::from_millis(10), "{together:?} {longest:?}");
    }

    #[test]
    fn a_flow_alone_is_treated_as_by_pie() {
        let one = |queue: &str| {
            let rate = Rate::from_bits_per_second(8_000_000).unwrap().into();
            let mut queue = queue.parse::<QueueSpec>().unwrap().build(&PortContext::new(&rate, 1, 0));
            let (mut dropped, mut out) = (Dropped::default(), Vec::new());
            for ms in 0..5_000u64 {
                let now = Time::ZERO + Span::from_millis(ms);
                for body in 0..1 + u32::from(ms % 3 == 0) {
                    queue.enqueue(
                        now,
                        Packet::new(now, Route::default(), 1000, 2 * ms as u32 + body),
                        &mut dropped,
                    );
                }
                out.extend(queue.dequeue(now, &mut dropped).map(|packet| packet.body));
            }
            (dropped.0[0], out)
        };
        assert_eq!(one("fq-pie:200"), one("pie:200"));
    }
}

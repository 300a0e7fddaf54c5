use super::gate::{Gate, Gated, SERVED_FIRST};
use super::limit::Buffer;
use super::pool::{Chain, Pool};
use super::{BufferBounds, PortContext, QueueDiscipline, QueueKind, QueueTraits};
use crate::{Backlog, DropReason, Dscp, Packet, PacketEvents, Priority, Sla};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Slab, Time};
use std::collections::VecDeque;

/// Configuration of the scheduler of a source's link (the output scheduler of the DiffServ paper).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerSpec(pub Gated);

impl Kind for SchedulerSpec {
    const USAGE: &'static [Usage] = &[(
        "scheduler:LIMIT,high=RATE/DEPTH[,med=RATE/DEPTH]",
        "a queue for each connection, served by class (AF1, AF2, others), then by priority; HIGH and MED packets wait for tokens of their \
         bucket; LIMIT in packets or bytes, including the packet in transmission",
    )];
    const EXAMPLES: &'static [&'static str] = &["scheduler:5,high=300kbit/2000B,med=1Mbit/1499B"];
    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        Gated::read(text).map(Self)
    }
    fn write(&self, to: &mut Written) {
        self.0.write("scheduler", to);
    }
}

impl QueueKind for SchedulerSpec {
    type Queue = Box<Scheduler>;
    fn build(&self, context: &PortContext<'_>) -> Box<Scheduler> {
        Box::new(Scheduler {
            pool: Pool::default(),
            connections: Slab::default(),
            by_flow: Vec::new(),
            rings: Default::default(),
            weights: Vec::new(),
            backlog: Backlog::default(),
            buffer: Buffer::new(self.0.limit),
            gate: Gate::new(&self.0.sla, context),
            wake_at: None,
        })
    }
    fn buffer_bounds(&self) -> BufferBounds {
        self.0.buffer_bounds()
    }
    fn counts_packets(&self) -> bool {
        !self.0.limit.is_in_bytes()
    }
    fn is_work_conserving(&self) -> bool {
        false
    }
    fn sla(&self) -> Option<Sla> {
        Some(self.0.sla)
    }
    fn traits(&self) -> QueueTraits {
        QueueTraits { reads_priority: true, ..QueueTraits::default() }
    }
}

/// Number of classes: highly interactive, interactive and others.
const CLASSES: usize = 3;

/// Returns the class of a codepoint. The first class of assured forwarding is highly interactive, the second one interactive.
fn class_of(dscp: Dscp) -> usize {
    match dscp.class() {
        Some(1) => 0,
        Some(2) => 1,
        _ => 2,
    }
}

/// Scheduler with a queue per connection. Only the first packet of a connection may leave, so that packets of the same connection are not
/// reordered.
///
/// Classes are served in order, and within a class HIGH before MED before LOW. A HIGH or MED packet needs the tokens of its priority, which
/// all connections share. While a packet waits for tokens, lower classes may not send packets of the same priority; otherwise the packet
/// could wait forever. Within a class, connections take turns: a connection of weight `w` sends up to `w` packets, and then moves behind
/// the other connections.
#[derive(Debug)]
pub struct Scheduler {
    pool: Pool,
    /// Connections with waiting packets.
    connections: Slab<Connection>,
    /// Pairs of flow identifier and connection index, in order of flow identifiers.
    by_flow: Vec<(u16, u32)>,
    /// Indices of the connections in the order of their turns, by the class of the first packet of the connection.
    rings: [VecDeque<u32>; CLASSES],
    /// Pairs of flow identifier and weight, for weights other than 1, in order of flow identifiers.
    weights: Vec<(u16, u32)>,
    backlog: Backlog,
    buffer: Buffer,
    gate: Gate,
    /// Earliest time at which a packet that had to wait for tokens at the last `dequeue` conforms; `None` if no packet had to wait.
    wake_at: Option<Time>,
}

#[derive(Debug)]
struct Connection {
    flow: u16,
    packets: Chain,
    weight: u32,
    /// Number of packets that the connection may still send before it moves behind the other connections.
    turns: u32,
}

impl Scheduler {
    /// Returns the index of a connection with packets to send, and adds the connection if it is new.
    fn connection(&mut self, flow: u16, class: usize) -> u32 {
        let index = self.by_flow.binary_search_by_key(&flow, |(flow, _)| *flow);
        index.map(|index| self.by_flow[index].1).unwrap_or_else(|index| {
            let weight = find(&self.weights, flow).map_or(1, |index| self.weights[index].1);
            let packets = Chain::default();
            let id = self.connections.insert(Connection { flow, packets, weight, turns: weight });
            self.by_flow.insert(index, (flow, id));
            self.rings[class].push_back(id);
            id
        })
    }

    /// Returns the position of the packet to send: its class, and the position of its connection in the ring of the class. Returns `None`
    /// if no packet conforms.
    fn next(&mut self, now: Time) -> Option<(usize, usize)> {
        self.wake_at = None;
        let mut blocked = [false; Priority::COUNT];
        for (class, ring) in self.rings.iter().enumerate() {
            for priority in SERVED_FIRST {
                if blocked[priority as usize] {
                    continue;
                }
                for (index, &id) in ring.iter().enumerate() {
                    let first = self.pool.first(&self.connections[id].packets);
                    let Some(first) = first.filter(|packet| packet.dscp.priority() == priority) else {
                        continue;
                    };
                    if self.gate.admits(now, first) {
                        return Some((class, index));
                    }
                    blocked[priority as usize] = true;
                    let ready = self.gate.ready_at(first);
                    self.wake_at = Some(self.wake_at.map_or(ready, |other| other.min(ready)));
                }
            }
        }
        None
    }

    /// Removes and returns the first packet of the connection at `index` in the ring of `class`, and moves the connection to its next
    /// position.
    fn send(&mut self, class: usize, index: usize) -> Option<Packet> {
        let id = self.rings[class][index];
        let connection = &mut self.connections[id];
        let packet = self.pool.pop(&mut connection.packets)?;
        self.backlog.remove(&packet);
        connection.turns -= 1;
        let next = self.pool.first(&connection.packets).map(|packet| class_of(packet.dscp));
        if next == Some(class) && connection.turns > 0 {
            return Some(packet);
        }
        self.rings[class].remove(index);
        connection.turns = connection.weight;
        if let Some(class) = next {
            self.rings[class].push_back(id);
        } else {
            let index = find(&self.by_flow, connection.flow);
            index.map(|index| self.by_flow.remove(index));
            self.connections.release(id);
        }
        Some(packet)
    }
}

#[cfg(test)]
impl Scheduler {
    /// Returns the number of packets, connections and ring entries in use.
    pub(super) fn memory(&self) -> [usize; 3] {
        let in_rings = self.rings.iter().map(VecDeque::len).sum();
        [self.pool.in_use(), self.connections.in_use().max(self.by_flow.len()), in_rings]
    }
}

/// Returns the position of the entry of a flow.
fn find(by_flow: &[(u16, u32)], flow: u16) -> Option<usize> {
    by_flow.binary_search_by_key(&flow, |(flow, _)| *flow).ok()
}

impl QueueDiscipline for Scheduler {
    fn enqueue(&mut self, now: Time, packet: Packet, events: &mut dyn PacketEvents) {
        if !self.gate.fits(&packet) {
            return events.dropped(now, packet, DropReason::Policed);
        }
        if !self.buffer.accepts(self.backlog, &packet) {
            return events.dropped(now, packet, DropReason::Overflow);
        }
        self.backlog.add(&packet);
        let id = self.connection(packet.flow, class_of(packet.dscp));
        self.pool.push(&mut self.connections[id].packets, packet);
    }

    fn dequeue(&mut self, now: Time, _events: &mut dyn PacketEvents) -> Option<Packet> {
        let packet = self.next(now).and_then(|(class, index)| self.send(class, index));
        self.buffer.set_in_transmission(packet.as_ref());
        packet
    }

    fn released(&mut self) {
        self.buffer.set_in_transmission(None);
    }

    fn wake_at(&self) -> Option<Time> {
        self.wake_at
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn set_weight(&mut self, flow: u16, weight: u32) {
        let weight = weight.max(1);
        match self.weights.binary_search_by_key(&flow, |(flow, _)| *flow) {
            Ok(index) if weight == 1 => _ = self.weights.remove(index),
            Ok(index) => self.weights[index].1 = weight,
            Err(_) if weight == 1 => {}
            Err(index) => self.weights.insert(index, (flow, weight)),
        }
        if let Some(index) = find(&self.by_flow, flow) {
            let connection = &mut self.connections[self.by_flow[index].1];
            (connection.weight, connection.turns) = (weight, connection.turns.min(weight));
        }
    }
}

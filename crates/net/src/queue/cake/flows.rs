use super::cobalt::{Cobalt, CobaltParameters};
use super::flow_list::{FlowList, Linked, Links};
use super::hosts::{Hosts, Isolation, Loads, Positions};
use crate::Packet;
use crate::queue::flow_table::FlowTable;
use crate::queue::pool::{Chain, Pool};
use catnip_base::{Rng, Span, Time};

/// Connections of a tin, served by deficit round robin. Sparse connections are served first, and the connections of a host share the
/// quantum of the host (DRR++; Linux, net/sched/sch_cake.c).
#[derive(Debug)]
pub(super) struct Tin {
    flows: FlowTable<Flow>,
    /// Entries of the flow table in use, by set.
    sets: Box<[WaySet; SETS]>,
    /// Sparse connections, in order of service.
    sparse: FlowList,
    /// Bulk connections, in order of service.
    bulk: FlowList,
    /// Empty connections whose AQM state is still in use.
    decaying: FlowList,
    /// Number of connections in [`Set::Sparse`] or [`Set::SparseWait`].
    sparse_count: u32,
    /// Number of connections in [`Set::Bulk`].
    bulk_count: u32,
    loads: Loads,
    isolation: Isolation,
    /// Quantum, bytes.
    quantum: u32,
    pub(super) parameters: CobaltParameters,
    pub(super) packets: u32,
    /// Time at which the next packet may leave by the tin's share of the rate.
    pub(super) next_at: Time,
    /// Transmission time of a byte at the tin's share of the rate, in units of 2^-32 ns; 0 without a rate.
    pub(super) byte_time: u64,
    /// Bytes that the tin may still send in its turn among the tins. Used only without a rate.
    pub(super) deficit: i64,
    pub(super) share: i64,
}

#[derive(Debug)]
struct Flow {
    packets: Chain,
    law: Cobalt,
    /// Number of the entry of the flow table.
    number: u16,
    hosts: Positions,
    deficit: i64,
    set: Set,
    links: Links,
}

impl Flow {
    fn new(number: u16, law: Cobalt) -> Self {
        let (packets, set) = (Chain::default(), Set::None);
        Self { packets, law, number, hosts: [0; 2], deficit: 0, set, links: Links::NONE }
    }
}

impl Linked for Flow {
    #[inline]
    fn links(&self) -> &Links {
        &self.links
    }
    #[inline]
    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// Flow identifiers of the connections of one set of the flow table: one cache line is searched instead of eight entries.
#[derive(Clone, Copy, Debug, Default)]
struct WaySet {
    tags: [u16; WAYS as usize],
    /// Bit for each entry in use.
    used: u8,
}

/// State of a connection in the round robin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Set {
    None,
    /// Sparse connection, served first.
    Sparse,
    /// Formerly sparse connection that was served and is empty; it is in the list of bulk connections.
    SparseWait,
    Bulk,
    Decaying,
}

/// Number of entries of the flow table.
const FLOWS: u16 = 1024;
/// Number of entries per set of the flow table. The entry of a connection is searched within one set.
const WAYS: u16 = 8;
/// Number of sets of the flow table.
const SETS: usize = (FLOWS / WAYS) as usize;
/// Quantum without a rate, and largest quantum with a rate, bytes.
const QUANTUM: u32 = 1514;
/// Smallest quantum with a rate, bytes.
const MIN_QUANTUM: u32 = 300;

impl Tin {
    pub(super) fn new(
        bytes_per_second: Option<u64>,
        isolation: Isolation,
        parameters: CobaltParameters,
    ) -> Self {
        let turn = |rate: u64| ((rate >> 12) as u32).clamp(MIN_QUANTUM, QUANTUM);
        Self {
            flows: FlowTable::new(),
            sets: Box::new([WaySet::default(); SETS]),
            sparse: FlowList::EMPTY,
            bulk: FlowList::EMPTY,
            decaying: FlowList::EMPTY,
            sparse_count: 0,
            bulk_count: 0,
            loads: Loads::default(),
            isolation,
            quantum: bytes_per_second.map_or(QUANTUM, turn),
            parameters,
            packets: 0,
            next_at: Time::ZERO,
            byte_time: bytes_per_second.map_or(0, byte_time),
            deficit: 0,
            share: 0,
        }
    }

    /// Returns true if the tin has sparse or bulk connections.
    pub(super) fn is_active(&self) -> bool {
        self.sparse_count + self.bulk_count > 0
    }

    pub(super) fn push(&mut self, pool: &mut Pool, packet: Packet, hosts: &Hosts, rng: &mut Rng) {
        let number = self.entry_of(packet.flow);
        let id = self.flows.position(number.into(), || Flow::new(number, Cobalt::new(&self.parameters)));
        let flow = &mut self.flows[id];
        let before = flow.set;
        if matches!(before, Set::None | Set::Decaying) {
            let set = &mut self.sets[usize::from(number / WAYS)];
            set.tags[usize::from(number % WAYS)] = packet.flow;
            set.used |= 1 << (number % WAYS);
            flow.hosts = self.loads.positions(hosts.of(packet.flow, packet.route));
        }
        pool.push(&mut flow.packets, packet);
        self.packets += 1;
        match before {
            Set::None | Set::Decaying => {
                flow.set = Set::Sparse;
                self.sparse_count += 1;
                if before == Set::Decaying {
                    self.decaying.remove(&mut self.flows, id);
                }
                self.sparse.push_back(&mut self.flows, id);
                self.flows[id].deficit = self.quantum_of(id, rng);
            }
            Set::SparseWait => {
                flow.set = Set::Bulk;
                self.sparse_count -= 1;
                self.bulk_count += 1;
                self.loads.add(flow.hosts);
            }
            Set::Sparse | Set::Bulk => {}
        }
    }

    /// Returns the number of the connection's entry: its existing entry, or else an unused entry of its set, or else the entry that its
    /// flow identifier selects.
    fn entry_of(&self, tag: u16) -> u16 {
        let direct = tag % FLOWS;
        let (first, offset) = (direct - direct % WAYS, direct % WAYS);
        let set = &self.sets[usize::from(direct / WAYS)];
        let ways = || (0..WAYS).map(|way| (offset + way) % WAYS);
        let is_used = |way: u16| set.used & 1 << way != 0;
        let own = ways().find(|&way| is_used(way) && set.tags[usize::from(way)] == tag);
        own.or_else(|| ways().find(|&way| !is_used(way))).map_or(direct, |way| first + way)
    }

    /// Returns the number of bytes that a connection may send in a turn. The host's share is rounded at random, so that rounding favours no
    /// connection.
    fn quantum_of(&self, id: u32, rng: &mut Rng) -> i64 {
        let sharing = self.loads.of(self.isolation, self.flows[id].hosts);
        let share = u64::from(u16::MAX) / u64::from(sharing);
        ((share * u64::from(self.quantum) + u64::from(rng.below(1 << 16))) >> 16) as i64
    }

    /// Returns the index of the connection to serve; `None` if the tin has no listed connections. If `is_first` is true, resets it and
    /// checks a decaying connection.
    pub(super) fn next_flow(&mut self, is_first: &mut bool, rng: &mut Rng) -> Option<u32> {
        loop {
            let decays = std::mem::take(is_first) && !self.decaying.is_empty();
            let list = match (decays, self.sparse.is_empty(), self.bulk.is_empty()) {
                (false, false, _) => &mut self.sparse,
                (false, true, false) => &mut self.bulk,
                _ => &mut self.decaying,
            };
            let id = list.front()?;
            if self.flows[id].deficit > 0 {
                return Some(id);
            }
            list.remove(&mut self.flows, id);
            self.bulk.push_back(&mut self.flows, id);
            let flow = &mut self.flows[id];
            if flow.set == Set::Sparse && flow.packets.is_empty() {
                flow.set = Set::SparseWait;
            } else if flow.set == Set::Sparse {
                flow.set = Set::Bulk;
                self.sparse_count -= 1;
                self.bulk_count += 1;
                self.loads.add(flow.hosts);
            }
            let turn = self.quantum_of(id, rng);
            self.flows[id].deficit += turn;
        }
    }

    /// Removes and returns the packet at the head of a connection, with the connection's AQM state and true if the connection is now empty.
    pub(super) fn pop(&mut self, pool: &mut Pool, id: u32) -> Option<(Packet, &mut Cobalt, bool)> {
        let flow = &mut self.flows[id];
        let packet = pool.pop(&mut flow.packets)?;
        self.packets -= 1;
        Some((packet, &mut flow.law, flow.packets.is_empty()))
    }

    /// Handles the turn of an empty connection, which is at the front of its list.
    pub(super) fn on_empty(&mut self, now: Time, id: u32) {
        let lists = [&mut self.sparse, &mut self.bulk, &mut self.decaying];
        if let Some(list) = lists.into_iter().find(|list| list.front() == Some(id)) {
            list.remove(&mut self.flows, id);
        }
        let flow = &mut self.flows[id];
        flow.law.on_empty(&self.parameters, now);
        match flow.set {
            Set::Bulk => {
                self.bulk_count -= 1;
                self.loads.remove(flow.hosts);
            }
            Set::Sparse | Set::SparseWait => self.sparse_count -= 1,
            Set::None | Set::Decaying => {}
        }
        if flow.law.is_at_rest(now) {
            flow.set = Set::None;
            self.sets[usize::from(flow.number / WAYS)].used &= !(1 << (flow.number % WAYS));
        } else {
            flow.set = Set::Decaying;
            self.decaying.push_back(&mut self.flows, id);
        }
    }

    /// Records that `bytes` bytes of a connection have left.
    pub(super) fn on_sent(&mut self, now: Time, id: u32, bytes: u32) {
        self.flows[id].deficit -= i64::from(bytes);
        self.deficit -= i64::from(bytes);
        let transmission_time = transmission_time(self.byte_time, bytes);
        if self.next_at < now {
            self.next_at += transmission_time;
        } else if self.next_at < now + transmission_time {
            self.next_at = now + transmission_time;
        }
    }

    /// Returns the connection with the most bytes: its bytes, and the number and the position of its entry. Of equal connections, the one
    /// with the highest number.
    pub(super) fn longest(&self) -> Option<(u64, u16, u32)> {
        let active = self.sparse.iter(&self.flows).chain(self.bulk.iter(&self.flows));
        active.map(|id| (self.flows[id].packets.backlog().bytes, self.flows[id].number, id)).max()
    }

    /// Removes the first packet of a connection because the buffer is full.
    pub(super) fn drop_head(&mut self, pool: &mut Pool, now: Time, id: u32) -> Option<Packet> {
        let flow = &mut self.flows[id];
        flow.law.on_overflow(&self.parameters, now);
        let packet = pool.pop(&mut flow.packets)?;
        self.packets -= 1;
        Some(packet)
    }
}

/// Returns the transmission time of a byte, in units of 2^-32 ns.
pub(super) fn byte_time(bytes_per_second: u64) -> u64 {
    ((1_000_000_000u128 << 32) / u128::from(bytes_per_second.max(1))) as u64
}

/// Returns the transmission time of `bytes` bytes.
pub(super) fn transmission_time(byte_time: u64, bytes: u32) -> Span {
    Span::from_nanos(((u128::from(byte_time) * u128::from(bytes)) >> 32) as u64)
}

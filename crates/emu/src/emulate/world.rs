use super::audience::{Audience, Datagrams, Outside};
use super::connection::Kind;
use super::hosts::Hosts;
use super::slab::Slab;
use crate::buffers::Buffers;
use crate::classify::{Refusal, classify};
use crate::mark::Marker;
use catnip_base::{Span, Time};
use catnip_lab::{Plan, Stage};
use catnip_net::mark::SpmParameters;
use catnip_net::{Calendar, Fabric, NodeId, Out, Packet};
use catnip_sim::app::{AnyApp, AppEvent};
use catnip_sim::{FlowId, TcpId};
use catnip_tcp::TcpConfig;
use catnip_wire::PriorityCodec;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// A network with simulated hosts at some of its edges and real ones at others: the simulator's event loop, whose
/// packets are real.
///
/// It has no clock: it is told up to when to go on, and of packets that come from real hosts. All that happens
/// between simulated hosts happens at its ideal time, however late that is.
#[derive(Debug)]
pub struct World<A> {
    fabric: Fabric,
    hosts: Hosts<A>,
    /// The time of the last event.
    now: Time,
    /// All events up to here have happened.
    told: Time,
}

/// A server that has not closed so long after its response never will.
const LAST_WORDS: Span = Span::from_secs(5);
const MOST_PACKETS: u32 = 1 << 18;

impl<A: Audience> World<A> {
    /// The world of a plan at time zero, with all applications started. Packets of real hosts have `mtu` bytes at most.
    pub fn new(plan: &Plan, seed: u64, mtu: u32, audience: A) -> Self {
        let topology = plan.topology().clone();
        let count = topology.node_count();
        let addresses = assign(count, plan.addresses());
        // Nobody is at home at other hosts, and no packet is for a router.
        let ends = plan.groups().flat_map(|group| group.pairs).flat_map(|&(server, client)| [server, client]);
        let inhabited = plan.real_nodes().iter().map(|real| real.node).chain(ends);
        let nodes = inhabited.map(|node| (addresses[node.0 as usize], node)).collect();
        let mut is_real = vec![false; count];
        plan.real_nodes().iter().for_each(|real| is_real[real.node.0 as usize] = true);
        let mut markers = vec![None; count];
        plan.markers().for_each(|(node, parameters)| markers[node.0 as usize] = Some(parameters));
        let fabric = Fabric::new(&topology, seed);
        let mut hosts = Hosts {
            topology,
            pair_flows: BTreeMap::new(),
            tcp: Vec::new(),
            services: plan.groups().map(|group| group.service.clone()).collect(),
            listeners: BTreeMap::new(),
            documents: BTreeMap::new(),
            ports: vec![0; count],
            by_ends: BTreeMap::new(),
            apps: Vec::new(),
            connections: Slab::default(),
            users_waiting: 0,
            users_live: 0,
            last_done: Time::ZERO,
            buffers: Buffers::new(slot_bytes(plan, mtu), MOST_PACKETS),
            parcels: Vec::new(),
            entered: 0,
            flows: Vec::new(),
            timers: Calendar::default(),
            opened: 0,
            completed: 0,
            data_sent: 0,
            data_dropped: 0,
            seed,
            sources: 0,
            source_timers: 0,
            app_timers: 0,
            stray: 0,
            audience,
            actions: Vec::new(),
            addresses,
            nodes,
            is_real,
            is_marked: markers.iter().map(Option::is_some).collect(),
            marker: Marker::new(markers, true),
        };
        hosts.listen(plan);
        let mut world = Self { fabric, hosts, now: Time::ZERO, told: Time::ZERO };
        plan.start(seed, &mut world);
        world
    }

    /// Lets everything happen that is due by `until`; gives the time of the next event.
    pub fn advance(&mut self, until: Time, outside: &mut impl Outside) -> Time {
        self.told = self.told.max(until);
        loop {
            let timer = self.hosts.timers.peek().map_or(Time::NEVER, |(at, _)| at);
            match self.fabric.poll(timer.min(until), &mut self.hosts) {
                Out::Deliver(at, node, packet) => {
                    self.now = at;
                    self.hosts.on_delivery(&mut self.fabric, at, node, packet, outside);
                }
                Out::Wait(_) | Out::Idle if timer <= until && timer < Time::NEVER => {
                    self.now = timer;
                    self.hosts.on_timer(&mut self.fabric, timer);
                }
                Out::Wait(next) => return next.min(timer),
                Out::Idle => return timer,
            }
        }
    }

    /// Takes a packet of a real host into the network. `read` puts it into the buffer and says when it came, or that there
    /// is none; the buffer has room for one byte more than the MTU. All that is due by then happens first. False if
    /// there was none.
    pub fn take_in<E>(
        &mut self,
        from: NodeId,
        mtu: u32,
        outside: &mut impl Outside,
        read: impl FnOnce(&mut [u8]) -> Result<Option<(Time, usize)>, E>,
    ) -> Result<bool, E> {
        let Some(slot) = self.hosts.buffers.take() else {
            let Some((at, _)) = read(&mut [0; 64])? else { return Ok(false) };
            self.hosts.audience.refused(at, from, Refusal::NoBuffer);
            return Ok(true);
        };
        let bytes = &mut self.hosts.buffers.bytes_mut(slot)[..mtu as usize + 1];
        let (at, len) = match read(bytes) {
            Ok(Some(packet)) => packet,
            nothing => {
                self.hosts.buffers.release(slot);
                return nothing.map(|_| false);
            }
        };
        let at = at.max(self.told);
        self.advance(at, outside);
        if let Err(why) = self.admit(at, from, slot, len, mtu) {
            self.hosts.buffers.release(slot);
            self.hosts.audience.refused(at, from, why);
        }
        Ok(true)
    }

    fn admit(&mut self, at: Time, from: NodeId, slot: u32, len: usize, mtu: u32) -> Result<(), Refusal> {
        if len > mtu as usize {
            return Err(Refusal::TooLong);
        }
        let class = classify(&self.hosts.buffers.bytes_mut(slot)[..len], PriorityCodec::default())?;
        let IpAddr::V4(destination) = class.destination else { return Err(Refusal::NoRoute) };
        let &to = self.hosts.nodes.get(&destination).ok_or(Refusal::NoRoute)?;
        let flow = self.hosts.pair_flow(&mut self.fabric, from, to).ok_or(Refusal::NoRoute)?;
        let packet = Packet {
            arrived: at,
            flow,
            len: len as u32,
            body: slot,
            ecn: class.ecn,
            priority: class.priority,
            class: 0,
        };
        self.now = at;
        self.hosts.forward(&mut self.fabric, from, packet);
        Ok(())
    }

    /// Are all simulated users done, and is nothing of theirs on its way? Background traffic does not count, and never if
    /// there were no users.
    pub fn is_done(&self) -> bool {
        let hosts = &self.hosts;
        let quiet = hosts.users_live == 0 || self.told >= hosts.last_done + LAST_WORDS;
        hosts.sources < hosts.apps.len() && hosts.app_timers == 0 && hosts.users_waiting == 0 && quiet
    }

    /// Ends the run: records connections whose documents have arrived, though the last word is missing.
    pub fn finish(&mut self) {
        let open: Vec<u32> = self.hosts.connections.iter().map(|(id, _)| id).collect();
        for id in open {
            let connection = &mut self.hosts.connections[id];
            if !matches!(connection.kind, Kind::Simulated) && connection.done_at_client.is_some() {
                connection.closed.get_or_insert(self.told);
                self.hosts.record(self.told, id);
            }
        }
    }

    /// The time of the last event.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Up to when everything has happened.
    pub fn told(&self) -> Time {
        self.told
    }

    /// The network.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// Who has heard everything.
    pub fn audience(&self) -> &A {
        &self.hosts.audience
    }

    /// The same, at the end.
    pub fn into_audience(self) -> A {
        self.hosts.audience
    }

    /// The address of a node.
    pub fn address(&self, node: NodeId) -> Ipv4Addr {
        self.hosts.addresses[node.0 as usize]
    }

    /// Connections opened so far, and transfers whose last byte has arrived.
    pub fn connections(&self) -> (u64, u64) {
        (self.hosts.opened, self.hosts.completed)
    }

    /// Data segments that servers have sent, and how many of them were dropped.
    pub fn data_segments(&self) -> (u64, u64) {
        (self.hosts.data_sent, self.hosts.data_dropped)
    }

    /// Packets for connections and services that do not exist.
    pub fn stray_packets(&self) -> u64 {
        self.hosts.stray
    }

    /// What has become of the packets of a flow.
    pub fn datagrams(&self, flow: FlowId) -> Datagrams {
        self.hosts.flows[flow.0 as usize].2
    }

    /// Packets inside, counted by their memory. The fabric counts by itself; if the two differ, a packet was lost
    /// silently.
    pub fn packets_inside(&self) -> usize {
        self.hosts.buffers.in_use()
    }

    /// Connections that are remembered.
    pub fn connections_in_memory(&self) -> usize {
        self.hosts.connections.in_use()
    }
}

/// One address per node: those that were given, and others from 10.0.0.0/8.
pub(crate) fn assign(count: usize, given: &[(NodeId, Ipv4Addr)]) -> Vec<Ipv4Addr> {
    let is_given = |address: &Ipv4Addr| given.iter().any(|(_, other)| other == address);
    let mut free = (1..1 << 24).map(|n: u32| Ipv4Addr::from_bits(10 << 24 | n)).filter(|address| {
        // Old software takes these for the network itself and for everybody.
        !matches!(address.octets()[3], 0 | 255) && !is_given(address)
    });
    let mut addresses: Vec<Ipv4Addr> =
        (0..count).map(|_| free.next().unwrap_or(Ipv4Addr::UNSPECIFIED)).collect();
    given.iter().for_each(|(node, address)| addresses[node.0 as usize] = *address);
    addresses
}

/// Room for the longest packet of the plan.
fn slot_bytes(plan: &Plan, mtu: u32) -> usize {
    let longest = plan.longest_segment() + 80;
    (longest.max(mtu) as usize + 1).next_multiple_of(64)
}

impl<A: Audience> Stage for World<A> {
    fn add_tcp(&mut self, config: TcpConfig, marker: Option<SpmParameters>) -> TcpId {
        self.hosts.tcp.push((Arc::new(config), marker));
        TcpId(self.hosts.tcp.len() as u32 - 1)
    }

    fn add_flow(&mut self, from: NodeId, to: NodeId) -> FlowId {
        let flow = FlowId(self.hosts.flows.len() as u32);
        self.hosts.flows.push((from, to, Datagrams::default()));
        self.fabric.set_destination(Fabric::SECOND_FLOWS | flow.0, to);
        flow
    }

    fn add_app(&mut self, app: AnyApp) -> u32 {
        let id = self.hosts.apps.len() as u32;
        self.hosts.sources += usize::from(matches!(app, AnyApp::Background(_)));
        self.hosts.apps.push(app);
        self.hosts.tell(&mut self.fabric, self.now, id, AppEvent::Start);
        id
    }
}

use crate::port::{Change, Extras};
use crate::queue::{AnyQueue, QueueKind, Site};
use crate::shape::AnyShaper;
use crate::stage::{AnyStage, StageKind, StageSpec};
use crate::topology::Routes;
use crate::{
    Calendar, DropReason, Fate, NodeId, Packet, Port, PortCounters, PortId, Route, Topology, WireSpec,
};
use catnip_base::{Rng, Stream, Time};
use std::collections::VecDeque;

/// A network of ports under one calendar, with the same contract as one port: it is told of arrivals at its edges
/// and asked for deliveries there.
///
/// One event moves one packet over one link: when the first packet on a port's wire reaches the other end it is
/// handed to the next port, which puts it on its own wire or into its queue at once.
#[derive(Debug)]
pub struct Fabric {
    ports: Vec<Station>,
    routes: Routes,
    /// For each router: the port on which each route leaves it, once it has been looked up.
    next: Vec<Vec<PortId>>,
    calendar: Calendar,
    /// What reached an edge while an arrival was being told.
    early: VecDeque<(Time, NodeId, Packet)>,
    /// The ports to which it matters between which hosts a packet goes.
    isolating: Vec<u32>,
}

#[derive(Debug)]
#[repr(C)] // The port's first fields and its entry share cache lines.
struct Station {
    to: End,
    /// Of this port's calendar entries only the one with this time is valid.
    planned: Time,
    port: Port<AnyQueue, AnyShaper>,
}

// Each byte of it is one per port: memory and cache misses of large networks follow. It may shrink; growing needs a reason.
const _: () = assert!(size_of::<Station>() <= 312);

/// Where a port leads.
#[derive(Clone, Copy, Debug)]
enum End {
    Host(NodeId),
    /// Its index in [`Fabric::next`].
    Router(u32),
    /// To this node, behind stages of the port.
    Behind(NodeId),
}

const UNKNOWN: PortId = PortId(u32::MAX);

/// What a network has to do next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Out {
    /// This packet arrives at this host at this time.
    Deliver(Time, NodeId, Packet),
    /// Nothing before then.
    Wait(Time),
    /// Nothing until something arrives.
    Idle,
}

/// [`Fate`] for a network: it also hears where.
pub trait NetworkFate {
    /// `packet` is gone.
    fn dropped(&mut self, now: Time, at: PortId, packet: Packet, why: DropReason);
    /// `packet` was given the CE codepoint.
    fn marked(&mut self, _now: Time, _at: PortId, _packet: &Packet) {}
    /// `packet` comes out of this port twice: see [`Fate::copied`].
    fn copied(&mut self, _now: Time, _at: PortId, _packet: &Packet) -> Option<u32> {
        None
    }
    /// A bit of `packet` is wrong as it comes out of this port: see [`Fate::corrupted`].
    fn corrupted(&mut self, _now: Time, _at: PortId, _packet: &Packet, _bit: u32) -> bool {
        false
    }
    /// `packet` comes to this port, which may drop it.
    #[inline(always)]
    fn entered(&mut self, _now: Time, _at: PortId, _packet: &Packet) {}
    /// `packet` has come from this port to the other end of its link.
    #[inline(always)]
    fn passed(&mut self, _now: Time, _at: PortId, _packet: &Packet) {}
}

struct AtPort<'a, F> {
    port: PortId,
    fate: &'a mut F,
}

impl<F: NetworkFate> Fate for AtPort<'_, F> {
    fn dropped(&mut self, now: Time, packet: Packet, why: DropReason) {
        self.fate.dropped(now, self.port, packet, why);
    }
    fn marked(&mut self, now: Time, packet: &Packet) {
        self.fate.marked(now, self.port, packet);
    }
    fn copied(&mut self, now: Time, packet: &Packet) -> Option<u32> {
        self.fate.copied(now, self.port, packet)
    }
    fn corrupted(&mut self, now: Time, packet: &Packet, bit: u32) -> bool {
        self.fate.corrupted(now, self.port, packet, bit)
    }
}

impl Fabric {
    /// The network of this topology at time zero; `seed` gives each port its own random streams.
    pub fn new(topology: &Topology, seed: u64) -> Self {
        let routes = Routes::new(topology);
        let ports = topology.ports().iter().enumerate().map(|(id, spec)| {
            let port = build_port(&spec.wire, seed, id as u32);
            let to = if port.has_stages_behind() { End::Behind(spec.to) } else { end_of(&routes, spec.to) };
            Station { to, planned: Time::NEVER, port }
        });
        Self {
            ports: ports.collect(),
            next: vec![Vec::new(); routes.routers().len()],
            routes,
            calendar: Calendar::default(),
            early: VecDeque::new(),
            isolating: (0..)
                .zip(topology.ports())
                .filter(|(_, spec)| spec.wire.queue.isolates_hosts())
                .map(|(id, _)| id)
                .collect(),
        }
    }

    /// Lets the wire of this port change later. To be said before any packet is on its way.
    pub fn let_change(&mut self, topology: &Topology, port: PortId) {
        let station = &mut self.ports[port.0 as usize];
        station.port.let_change();
        station.to = End::Behind(topology.ports()[port.0 as usize].to);
    }

    /// The wire of this port, which was let change, becomes another one, which [`WireSpec::may_become`] allows; the network must have
    /// caught up. `seed` is that of all that begins anew.
    pub fn change(&mut self, port: PortId, from: &WireSpec, to: &WireSpec, seed: u64) {
        let id = port.0;
        let stages = |stages: &[StageSpec], stream| build_stages(stages, seed, id, stream);
        let behind = (&from.behind, &from.conditioner) != (&to.behind, &to.conditioner);
        let change = Change {
            shaper: (from.rate != to.rate)
                .then(|| Site::new(&to.rate, seed, id).with_outages(to.outage).wire()),
            delay: to.delay,
            before: (from.before != to.before).then(|| stages(&to.before, Stream::Before)),
            jitter: (from.jitter != to.jitter)
                .then(|| to.jitter.as_ref().map(|jitter| jitter.build(Rng::new(seed, Stream::Jitter(id))))),
            behind: behind.then(|| {
                let mut behind = stages(&to.behind, Stream::Behind);
                behind.extend(stages(&to.conditioner, Stream::Conditioner));
                behind
            }),
        };
        self.ports[id as usize].port.change(change);
    }

    /// The way of packets from one host to another: the fewest hops, then the lowest port number. `None`: there is none.
    pub fn route(&self, from: NodeId, to: NodeId) -> Option<Route> {
        let mut at = from;
        // No path passes a router twice.
        for _ in 0..=self.routes.routers().len() {
            let port = self.routes.next(at, to)?;
            match self.ports[port.0 as usize].to {
                End::Router(router) => at = self.routes.routers()[router as usize],
                End::Host(node) | End::Behind(node) if node == to => return Some(Route(to.0)),
                End::Behind(node) if self.routes.router_index(node).is_some() => at = node,
                End::Host(_) | End::Behind(_) => return None,
            }
        }
        None
    }

    /// The same for two hosts of which [`crate::Topology::check_routes`] has said that there is a way.
    #[inline]
    pub fn checked_route(&self, from: NodeId, to: NodeId) -> Route {
        debug_assert!(self.route(from, to).is_some(), "no way from {from:?} to {to:?}");
        Route(to.0)
    }

    /// A host sends a packet. All that is due by then happens first.
    #[inline(always)]
    pub fn arrive<F: NetworkFate>(&mut self, at: Time, from: NodeId, packet: Packet, fate: &mut F) {
        while self.calendar.peek().is_some_and(|(due, _)| due <= at) {
            if let Some(delivery) = self.step(fate) {
                self.early.push_back(delivery);
            }
        }
        let id = self.routes.uplink(from).expect("a host with a route has an uplink");
        self.enter(at, id, packet, fate);
    }

    /// Delivers what reaches an edge by `now`, one packet a call, in order of (time, serial), or says when to ask
    /// again.
    #[inline]
    pub fn poll<F: NetworkFate>(&mut self, now: Time, fate: &mut F) -> Out {
        if let Some((at, node, packet)) = self.early.pop_front() {
            return Out::Deliver(at, node, packet);
        }
        loop {
            match self.calendar.peek() {
                None => return Out::Idle,
                Some((at, _)) if at > now => return Out::Wait(at),
                Some(_) => {
                    if let Some((at, node, packet)) = self.step(fate) {
                        return Out::Deliver(at, node, packet);
                    }
                }
            }
        }
    }

    /// Lets every port serve up to `now`: all that arrives by then must have been taken. A port does so by itself when something
    /// comes or goes; who looks at it in between wants it done.
    pub fn catch_up<F: NetworkFate>(&mut self, now: Time, fate: &mut F) {
        for (station, id) in self.ports.iter_mut().zip(0..) {
            station.port.advance(now, &mut AtPort { port: PortId(id), fate });
            if let Some(next) = station.port.next_at().filter(|&next| next < station.planned) {
                station.planned = next;
                self.calendar.push(next, id);
            }
        }
    }

    /// What a connection of this host weighs against its others in the queue of the host's uplink, if that matters there.
    pub fn set_weight(&mut self, from: NodeId, flow: u16, weight: u32) {
        if let Some(PortId(port)) = self.routes.uplink(from) {
            self.ports[port as usize].port.set_weight(flow, weight);
        }
    }

    /// Does it matter anywhere between which hosts a packet goes?
    #[inline]
    pub fn isolates_hosts(&self) -> bool {
        !self.isolating.is_empty()
    }

    /// Between which hosts, by number, packets of this connection go that go this way.
    #[inline(never)]
    pub fn set_hosts(&mut self, flow: u16, route: Route, hosts: [u32; 2]) {
        for &port in &self.isolating {
            self.ports[port as usize].port.set_hosts(flow, route, hosts);
        }
    }

    /// What has happened at a port.
    pub fn counters(&self, port: PortId) -> PortCounters {
        self.ports[port.0 as usize].port.counters()
    }

    /// How many ports there are.
    pub fn ports(&self) -> usize {
        self.ports.len()
    }

    /// The port itself, to look at.
    pub fn port(&self, port: PortId) -> &Port<AnyQueue, AnyShaper> {
        &self.ports[port.0 as usize].port
    }

    /// Packets inside: waiting, on a wire, or delivered to nobody yet.
    pub fn packets_inside(&self) -> u64 {
        let in_port = |station: &Station| u64::from(station.port.backlog().packets);
        self.ports.iter().map(in_port).sum::<u64>() + self.early.len() as u64
    }

    /// The earliest event: a packet reaches the other end of its link, or a held-back packet's turn comes.
    #[inline]
    fn step<F: NetworkFate>(&mut self, fate: &mut F) -> Option<(Time, NodeId, Packet)> {
        let (at, id) = self.calendar.peek().expect("the caller saw an event");
        let station = &mut self.ports[id as usize];
        if station.planned != at {
            self.calendar.pop();
            return None;
        }
        let mut local = AtPort { port: PortId(id), fate };
        let packet = station.port.take(at, &mut local);
        match station.port.next_at() {
            Some(next) => {
                station.planned = next;
                self.calendar.replace_first(next, id);
            }
            None => {
                station.planned = Time::NEVER;
                self.calendar.pop();
            }
        }
        let packet = packet?;
        match station.to {
            End::Behind(node) => self.step_behind(at, id, node, packet, fate),
            to => self.hand_on(at, id, to, packet, fate),
        }
    }

    /// The packet has reached the other end of its wire, behind which there are stages.
    #[inline(never)]
    fn step_behind<F: NetworkFate>(
        &mut self,
        at: Time,
        id: u32,
        node: NodeId,
        packet: Packet,
        fate: &mut F,
    ) -> Option<(Time, NodeId, Packet)> {
        let station = &mut self.ports[id as usize];
        let packet = station.port.passes(packet, &mut AtPort { port: PortId(id), fate });
        // A stage may have held it back, or copied it.
        Self::plan(station, &mut self.calendar, id);
        self.hand_on(at, id, end_of(&self.routes, node), packet?, fate)
    }

    /// The packet comes out of this port and goes on, if it has not arrived.
    #[inline(always)]
    fn hand_on<F: NetworkFate>(
        &mut self,
        at: Time,
        id: u32,
        to: End,
        packet: Packet,
        fate: &mut F,
    ) -> Option<(Time, NodeId, Packet)> {
        fate.passed(at, PortId(id), &packet);
        match to {
            End::Behind(_) => unreachable!("no node is an end"),
            End::Host(node) => {
                debug_assert_eq!(packet.route.0, node.0, "hosts forward nothing");
                Some((at, node, packet))
            }
            End::Router(router) => {
                let id = self.next_port(router, packet.route);
                self.enter(at, id, packet, fate);
                None
            }
        }
    }

    /// The port on which a route leaves a router.
    #[inline]
    fn next_port(&mut self, router: u32, route: Route) -> PortId {
        match self.next[router as usize].get(route.0 as usize) {
            Some(&port) if port != UNKNOWN => port,
            _ => self.look_up(router, route),
        }
    }

    #[cold]
    fn look_up(&mut self, router: u32, route: Route) -> PortId {
        let at = self.routes.routers()[router as usize];
        let port = self.routes.next(at, NodeId(route.0)).expect("the route was given out by this fabric");
        let ports = &mut self.next[router as usize];
        if ports.len() <= route.0 as usize {
            ports.resize(route.0 as usize + 1, UNKNOWN);
        }
        ports[route.0 as usize] = port;
        port
    }

    #[inline]
    fn enter<F: NetworkFate>(&mut self, at: Time, id: PortId, packet: Packet, fate: &mut F) {
        let station = &mut self.ports[id.0 as usize];
        fate.entered(at, id, &packet);
        station.port.arrive(at, packet, &mut AtPort { port: id, fate });
        Self::plan(station, &mut self.calendar, id.0);
    }

    /// Something may happen at a port before what is planned.
    #[inline(always)]
    fn plan(station: &mut Station, calendar: &mut Calendar, id: u32) {
        if let Some(next) = station.port.next_at().filter(|&next| next < station.planned) {
            station.planned = next;
            calendar.push(next, id);
        }
    }
}

fn end_of(routes: &Routes, node: NodeId) -> End {
    routes.router_index(node).map_or(End::Host(node), End::Router)
}

fn build_port(spec: &WireSpec, seed: u64, id: u32) -> Port<AnyQueue, AnyShaper> {
    let site = Site::new(&spec.rate, seed, id).with_outages(spec.outage);
    let queue = spec.queue.build(&site);
    let stages = |stages: &[StageSpec], stream| build_stages(stages, seed, id, stream);
    let mut behind = stages(&spec.behind, Stream::Behind);
    if !spec.conditioner.is_empty() {
        behind.extend(stages(&spec.conditioner, Stream::Conditioner));
    }
    let extras = Extras {
        before: stages(&spec.before, Stream::Before),
        jitter: spec.jitter.as_ref().map(|jitter| jitter.build(Rng::new(seed, Stream::Jitter(id)))),
        arq: spec.link_layer.map(|arq| arq.build(Rng::new(seed, Stream::Arq(id)))),
        behind,
    };
    Port::new(queue, site.wire(), spec.delay).with(extras)
}

fn build_stages(stages: &[StageSpec], seed: u64, id: u32, stream: fn(u32, u32) -> Stream) -> Vec<AnyStage> {
    let build = |(number, stage): (u32, &StageSpec)| stage.build(Rng::new(seed, stream(id, number)));
    (0..).zip(stages).map(build).collect()
}

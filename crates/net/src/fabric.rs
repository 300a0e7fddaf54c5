use crate::delay::VaryingDelay;
use crate::jitter::Jitter;
use crate::port::{Change, PortExtensions};
use crate::processing::Processing;
use crate::queue::{AnyQueue, PortContext, QueueKind};
use crate::shape::AnyShaper;
use crate::stage::{AnyStage, StageKind, StageSpec};
use crate::topology::Routes;
use crate::{
    Approach, Calendar, DropReason, NodeId, Packet, PacketEvents, Port, PortCounters, PortId, Route,
    Topology, WireSpec,
};
use catnip_base::{Rng, Span, Stream, Time};
use std::collections::VecDeque;

/// Network of ports with a common calendar. Like a single port, the network takes packets at its edges and delivers them there.
///
/// One event moves one packet over one link: when the first packet on the wire of a port reaches the other end, the next port receives it
/// and puts it on its own wire or into its queue at once.
#[derive(Debug)]
pub struct Fabric {
    ports: Vec<PortSlot>,
    routes: Routes,
    /// Output ports, by router and route. [`UNKNOWN`] until the first packet of the route has reached the router.
    next: Vec<Vec<PortId>>,
    calendar: Calendar,
    /// Packets that reached an edge during [`Fabric::arrive`], for delivery by the next calls of [`Fabric::poll`].
    early_deliveries: VecDeque<Packet>,
    /// Ports whose queues depend on the source and destination hosts of packets.
    host_isolating: Vec<u32>,
}

#[derive(Debug)]
#[repr(C, align(64))] // The first fields of the port share a cache line with its calendar time.
struct PortSlot {
    to: NextHop,
    /// Time of the only valid calendar entry of this port. Entries with other times are obsolete.
    planned: Time,
    port: Port<AnyQueue, AnyShaper>,
}

// A large network has many ports: each takes three cache lines. The size may shrink; growth needs a reason.
const _: () = assert!(size_of::<PortSlot>() == 192);

/// Destination of the packets that leave a port.
#[derive(Clone, Copy, Debug)]
enum NextHop {
    Host(NodeId),
    /// Router, as its index in [`Fabric::next`].
    Router(u32),
    /// Node at the other end of a port with stages behind its wire, which packets pass first.
    After(NodeId),
}

const UNKNOWN: PortId = PortId(u32::MAX);

/// Next event of a network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Out {
    /// Arrival of a packet at its destination, at the time [`Packet::arrived`].
    Deliver(Packet),
    /// Time before which no event is due.
    Wait(Time),
    /// No event until a packet arrives at an edge.
    Idle,
}

/// Variant of [`PacketEvents`] for a network, whose methods also receive the port.
pub trait NetworkEvents {
    /// Handles the drop of `packet`.
    fn dropped(&mut self, now: Time, at: PortId, packet: Packet, reason: DropReason);
    /// Handles the setting of the CE codepoint in `packet`.
    fn marked(&mut self, _now: Time, _at: PortId, _packet: &Packet) {}
    /// Returns the body for a copy of `packet` that leaves this port; see [`PacketEvents::copied`].
    fn copied(&mut self, _now: Time, _at: PortId, _packet: &Packet) -> Option<u32> {
        None
    }
    /// Handles the corruption of a bit of `packet`, which leaves this port; see [`PacketEvents::corrupted`].
    fn corrupted(&mut self, _now: Time, _at: PortId, _packet: &Packet, _bit: u32) -> bool {
        false
    }
    /// Handles the arrival of `packet` at this port, which may drop it.
    #[inline(always)]
    fn entered(&mut self, _now: Time, _at: PortId, _packet: &Packet) {}
    /// Handles the arrival of `packet` at the other end of this port's link.
    #[inline(always)]
    fn passed(&mut self, _now: Time, _at: PortId, _packet: &Packet) {}
}

struct AtPort<'a, F> {
    port: PortId,
    events: &'a mut F,
}

impl<F: NetworkEvents> PacketEvents for AtPort<'_, F> {
    fn dropped(&mut self, now: Time, packet: Packet, reason: DropReason) {
        self.events.dropped(now, self.port, packet, reason);
    }
    fn marked(&mut self, now: Time, packet: &Packet) {
        self.events.marked(now, self.port, packet);
    }
    fn copied(&mut self, now: Time, packet: &Packet) -> Option<u32> {
        self.events.copied(now, self.port, packet)
    }
    fn corrupted(&mut self, now: Time, packet: &Packet, bit: u32) -> bool {
        self.events.corrupted(now, self.port, packet, bit)
    }
}

impl Fabric {
    /// Creates the network of a topology at time zero; `seed` gives each port its own random streams.
    pub fn new(topology: &Topology, seed: u64) -> Self {
        let routes = Routes::new(topology);
        let ports = topology.ports().iter().enumerate().map(|(id, spec)| {
            let processing = topology.processing(spec.to);
            let port = build_port(&spec.wire, processing, seed, id as u32, Port::with_extensions);
            let to = if port.has_stages_after_wire() {
                NextHop::After(spec.to)
            } else {
                next_hop(&routes, spec.to)
            };
            PortSlot { to, planned: Time::NEVER, port }
        });
        Self {
            ports: ports.collect(),
            next: vec![Vec::new(); routes.routers().len()],
            routes,
            calendar: Calendar::default(),
            early_deliveries: VecDeque::new(),
            host_isolating: (0..)
                .zip(topology.ports())
                .filter(|(_, spec)| spec.wire.queue.isolates_hosts())
                .map(|(id, _)| id)
                .collect(),
        }
    }

    /// Allows later changes of the wire of a port. Must be called before any packet is sent. `seed` is the seed of the network.
    pub fn allow_changes(&mut self, topology: &Topology, port: PortId, seed: u64) {
        let spec = &topology.ports()[port.0 as usize];
        let slot = &mut self.ports[port.0 as usize];
        slot.port = build_port(&spec.wire, topology.processing(spec.to), seed, port.0, Port::changeable);
        slot.to = NextHop::After(spec.to);
    }

    /// Changes the wire of a port for which [`Fabric::allow_changes`] was called. [`WireSpec::check_change_to`] must allow the change, and
    /// [`Fabric::catch_up`] must have been called. `seed` is the seed of the random streams of all parts that are replaced.
    pub fn change(&mut self, port: PortId, from: &WireSpec, to: &WireSpec, seed: u64) {
        let id = port.0;
        let stages = |stages: &[StageSpec], stream| build_stages(stages, seed, id, stream);
        let after = (&from.after, &from.conditioner) != (&to.after, &to.conditioner);
        let change = Change {
            shaper: (from.rate != to.rate)
                .then(|| PortContext::new(&to.rate, seed, id).with_outages(to.outage).wire()),
            delay: to.delay.min(),
            before: (from.before != to.before).then(|| stages(&to.before, Stream::Before)),
            jitter: ((&from.delay, &from.jitter) != (&to.delay, &to.jitter))
                .then(|| build_jitter(to, Span::ZERO, seed, id)),
            after: after.then(|| {
                let mut after = stages(&to.after, Stream::After);
                after.extend(stages(&to.conditioner, Stream::Conditioner));
                after
            }),
        };
        self.ports[id as usize].port.change(change);
    }

    /// Returns the route of packets from one host to another, with the fewest hops and then the lowest port number; `None` if there is no
    /// route.
    pub fn route(&self, from: NodeId, to: NodeId) -> Option<Route> {
        let mut at = from;
        // The loop ends because no path visits a router twice.
        for _ in 0..=self.routes.routers().len() {
            let port = self.routes.next(at, to)?;
            match self.ports[port.0 as usize].to {
                NextHop::Router(router) => at = self.routes.routers()[router as usize],
                NextHop::Host(node) | NextHop::After(node) if node == to => return Some(Route(to.0)),
                NextHop::After(node) if self.routes.router_index(node).is_some() => at = node,
                NextHop::Host(_) | NextHop::After(_) => return None,
            }
        }
        None
    }

    /// Returns the route between two hosts for which [`crate::Topology::check_routes`] has found a path.
    #[inline]
    pub fn checked_route(&self, from: NodeId, to: NodeId) -> Route {
        debug_assert!(self.route(from, to).is_some(), "no route from {from:?} to {to:?}");
        Route(to.0)
    }

    /// Handles a packet that host `from` sends at time `at`, after all events that are due by `at`.
    #[inline(always)]
    pub fn arrive<F: NetworkEvents>(&mut self, at: Time, from: NodeId, packet: Packet, events: &mut F) {
        if self.calendar.peek().is_some_and(|(due, _)| due <= at) {
            self.step_until(at, events);
        }
        let id = self.routes.uplink(from).expect("a host with a route has an uplink");
        self.enter(at, id, packet, events);
    }

    /// Delivers the packets that reach an edge by `now`, one per call, in order of time and then serial number. Without such a packet,
    /// returns the time of the next poll.
    #[inline]
    pub fn poll<F: NetworkEvents>(&mut self, now: Time, events: &mut F) -> Out {
        if let Some(packet) = self.early_deliveries.pop_front() {
            return Out::Deliver(packet);
        }
        loop {
            match self.calendar.peek() {
                None => return Out::Idle,
                Some((at, _)) if at > now => return Out::Wait(at),
                Some(_) => {
                    if let Some(packet) = self.step(events) {
                        return Out::Deliver(packet);
                    }
                }
            }
        }
    }

    /// Serves every port up to `now`. All packets that arrive by `now` must have been taken with [`Fabric::poll`]. A caller that inspects a
    /// port must call this method first, because a port is otherwise served only when a packet arrives or leaves.
    pub fn catch_up<F: NetworkEvents>(&mut self, now: Time, events: &mut F) {
        for (slot, id) in self.ports.iter_mut().zip(0..) {
            slot.port.advance(now, &mut AtPort { port: PortId(id), events });
            if let Some(next) = slot.port.next_at().filter(|&next| next < slot.planned) {
                slot.planned = next;
                self.calendar.push(next, id);
            }
        }
    }

    /// Sets the weight of a connection relative to the other connections of host `from` in the queue of the host's uplink. No effect if the
    /// queue does not use weights.
    pub fn set_weight(&mut self, from: NodeId, flow: u16, weight: u32) {
        if let Some(PortId(port)) = self.routes.uplink(from) {
            self.ports[port as usize].port.set_weight(flow, weight);
        }
    }

    /// Returns true if a queue of the network depends on the source and destination hosts of packets.
    #[inline]
    pub fn isolates_hosts(&self) -> bool {
        !self.host_isolating.is_empty()
    }

    /// Sets the ids of the source and destination hosts of a connection's packets on a route, for queues that isolate hosts.
    #[inline(never)]
    pub fn set_hosts(&mut self, flow: u16, route: Route, hosts: [u32; 2]) {
        for &port in &self.host_isolating {
            self.ports[port as usize].port.set_hosts(flow, route, hosts);
        }
    }

    /// Returns the counters of a port.
    pub fn counters(&self, port: PortId) -> PortCounters {
        self.ports[port.0 as usize].port.counters()
    }

    /// Returns the number of ports.
    pub fn ports(&self) -> usize {
        self.ports.len()
    }

    /// Returns a port for inspection.
    pub fn port(&self, port: PortId) -> &Port<AnyQueue, AnyShaper> {
        &self.ports[port.0 as usize].port
    }

    /// Returns the number of packets inside the network: waiting, on a wire, or not yet delivered to a host.
    pub fn packets_inside(&self) -> u64 {
        let in_port = |slot: &PortSlot| u64::from(slot.port.backlog().packets);
        self.ports.iter().map(in_port).sum::<u64>() + self.early_deliveries.len() as u64
    }

    /// Handles all events that are due by `at`, and keeps the packets that reach an edge.
    #[inline(never)]
    fn step_until<F: NetworkEvents>(&mut self, at: Time, events: &mut F) {
        while self.calendar.peek().is_some_and(|(due, _)| due <= at) {
            if let Some(delivery) = self.step(events) {
                self.early_deliveries.push_back(delivery);
            }
        }
    }

    /// Handles the earliest event: a packet reaches the other end of its link, or a held-back packet is transmitted. Returns the packet if
    /// it has reached a host.
    #[inline(always)]
    fn step<F: NetworkEvents>(&mut self, events: &mut F) -> Option<Packet> {
        let (at, id) = self.calendar.peek().expect("the caller saw an event");
        let slot = &mut self.ports[id as usize];
        if slot.planned != at {
            self.calendar.pop();
            return None;
        }
        // Two paths, because an optional packet would be copied once more.
        if !slot.port.is_drained() {
            return self.step_queued(at, id, events);
        }
        let packet = slot.port.take_departed();
        slot.planned = slot.port.next_arrival();
        Self::plan_again(slot, &mut self.calendar, id);
        let to = slot.to;
        self.forward(at, id, to, packet, events)
    }

    /// Variant of [`Fabric::step`] for ports in whose queues packets wait, and for ports with extensions.
    #[inline(never)]
    fn step_queued<F: NetworkEvents>(&mut self, at: Time, id: u32, events: &mut F) -> Option<Packet> {
        let slot = &mut self.ports[id as usize];
        let packet = slot.port.take(at, &mut AtPort { port: PortId(id), events });
        slot.planned = slot.port.next_event();
        Self::plan_again(slot, &mut self.calendar, id);
        let packet = packet?;
        match slot.to {
            NextHop::After(node) => self.pass_stages(at, id, node, packet, events),
            to => self.forward(at, id, to, packet, events),
        }
    }

    /// Passes a packet that has reached the other end of its wire through the stages behind the wire.
    #[inline(never)]
    fn pass_stages<F: NetworkEvents>(
        &mut self,
        at: Time,
        id: u32,
        node: NodeId,
        packet: Packet,
        events: &mut F,
    ) -> Option<Packet> {
        let slot = &mut self.ports[id as usize];
        let packet = slot.port.pass_remaining(packet, &mut AtPort { port: PortId(id), events });
        // A stage may have held the packet back or copied it.
        Self::plan(slot, &mut self.calendar, id);
        self.forward(at, id, next_hop(&self.routes, node), packet?, events)
    }

    /// Passes a packet that leaves port `id` to the next port, or returns the packet if it has reached its host.
    #[inline(always)]
    fn forward<F: NetworkEvents>(
        &mut self,
        at: Time,
        id: u32,
        to: NextHop,
        packet: Packet,
        events: &mut F,
    ) -> Option<Packet> {
        events.passed(at, PortId(id), &packet);
        match to {
            NextHop::After(_) => unreachable!("no node is an end"),
            NextHop::Host(node) => {
                debug_assert_eq!(packet.route.0, node.0, "hosts forward nothing");
                Some(Packet { arrived: at, ..packet })
            }
            NextHop::Router(router) => {
                let id = self.next_port(router, packet.route);
                self.enter(at, id, packet, events);
                None
            }
        }
    }

    /// Returns the port on which packets of a route leave a router.
    #[inline]
    fn next_port(&mut self, router: u32, route: Route) -> PortId {
        match self.next[router as usize].get(route.0 as usize) {
            Some(&port) if port != UNKNOWN => port,
            _ => self.look_up_port(router, route),
        }
    }

    #[cold]
    fn look_up_port(&mut self, router: u32, route: Route) -> PortId {
        let at = self.routes.routers()[router as usize];
        let port = self.routes.next(at, NodeId(route.0)).expect("the route was given out by this fabric");
        let ports = &mut self.next[router as usize];
        if ports.len() <= route.0 as usize {
            ports.resize(route.0 as usize + 1, UNKNOWN);
        }
        ports[route.0 as usize] = port;
        port
    }

    #[inline(always)]
    fn enter<F: NetworkEvents>(&mut self, at: Time, id: PortId, packet: Packet, events: &mut F) {
        let slot = &mut self.ports[id.0 as usize];
        events.entered(at, id, &packet);
        slot.port.arrive(at, packet, &mut AtPort { port: id, events });
        Self::plan(slot, &mut self.calendar, id.0);
    }

    /// Replaces the earliest calendar entry, that of a port, with the port's next event.
    #[inline(always)]
    fn plan_again(slot: &PortSlot, calendar: &mut Calendar, id: u32) {
        if slot.planned < Time::NEVER {
            calendar.replace_first(slot.planned, id);
        } else {
            calendar.pop();
        }
    }

    /// Enters the next event of a port into the calendar if the event is earlier than the port's planned event.
    #[inline(always)]
    fn plan(slot: &mut PortSlot, calendar: &mut Calendar, id: u32) {
        let next = slot.port.next_event();
        if next < slot.planned {
            slot.planned = next;
            calendar.push(next, id);
        }
    }
}

fn next_hop(routes: &Routes, node: NodeId) -> NextHop {
    routes.router_index(node).map_or(NextHop::Host(node), NextHop::Router)
}

/// Builds the port of a wire by one of the constructors of [`Port`].
fn build_port(
    spec: &WireSpec,
    processing: Span,
    seed: u64,
    id: u32,
    construct: fn(AnyQueue, AnyShaper, Span, PortExtensions) -> Port<AnyQueue, AnyShaper>,
) -> Port<AnyQueue, AnyShaper> {
    let context = PortContext::new(&spec.rate, seed, id).with_outages(spec.outage);
    let queue = spec.queue.build(&context);
    let stages = |stages: &[StageSpec], stream| build_stages(stages, seed, id, stream);
    let mut after = stages(&spec.after, Stream::After);
    if !spec.conditioner.is_empty() {
        after.extend(stages(&spec.conditioner, Stream::Conditioner));
    }
    let extensions = PortExtensions {
        before: stages(&spec.before, Stream::Before),
        jitter: build_jitter(spec, processing, seed, id),
        approach: spec.rate.trains().map(|trains| Approach::new(trains.clone())),
        arq: spec.link_layer.map(|arq| arq.build(Rng::new(seed, Stream::Arq(id)))),
        after,
    };
    construct(queue, context.wire(), spec.delay.min(), extensions)
}

fn build_jitter(spec: &WireSpec, processing: Span, seed: u64, id: u32) -> Option<Jitter> {
    let processing = (processing > Span::ZERO).then(|| Processing::new(processing, seed, id));
    let varying = VaryingDelay::new(&spec.delay);
    Jitter::new(varying, spec.jitter.as_ref(), Rng::new(seed, Stream::Jitter(id)), processing)
}

fn build_stages(stages: &[StageSpec], seed: u64, id: u32, stream: fn(u32, u32) -> Stream) -> Vec<AnyStage> {
    let build = |(number, stage): (u32, &StageSpec)| stage.build(Rng::new(seed, stream(id, number)));
    (0..).zip(stages).map(build).collect()
}

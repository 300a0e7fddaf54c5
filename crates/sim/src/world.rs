mod connections;
mod engine;
mod external;
mod hosts;

use self::hosts::Hosts;
use crate::app::{AnyApp, AppEvent, Application, Busy, Unfinished};
use crate::connection::Connection;
use crate::connection_spec::{SERVER, TcpId, TcpOptions};
use crate::datagram::{DatagramCounters, Datagrams, FlowId};
use crate::host::Host;
use crate::medium::{End, Medium, Owner, SegmentMedium};
use crate::programs::{Program, Programs, SERVERS};
use crate::record::{Activity, ConnectionStats, DatagramStep, Event, NO_APP, ServedStep};
use crate::watch::{Created, Step, Watch};
use catnip_base::{Slab, Span, Time};
use catnip_net::{Calendar, Fabric, NodeId, Out, Packet, PortId, Route, Topology, WireSpec};
use catnip_tcp::Endpoint;
use std::collections::VecDeque;

/// Run of a network with the hosts at its edges: executes all events in order of time.
///
/// The world has no clock of its own: [`World::advance`] executes all events up to a given time, each at its scheduled time, even if the
/// call comes late.
#[derive(Debug)]
pub struct World<M: Medium, W> {
    fabric: Fabric,
    hosts: Hosts<M, W>,
    programs: Programs,
    /// Pending events of applications.
    pending_events: VecDeque<(u32, AppEvent)>,
    /// True while pending events are being delivered.
    is_delivering: bool,
    /// Ends of connections that may have something to send after the application has handled its event.
    dirty_ends: Vec<(u32, usize)>,
    /// Time of the last event.
    now: Time,
    /// Time up to which all events have been executed.
    advanced_to: Time,
    seed: u64,
    tick_phase: Option<Span>,
    tally: Tally,
}

/// Medium that may connect external hosts, and processes packets that cross their borders with access to the whole world.
pub trait Handler: Medium {
    /// Processes a packet that reaches an external host, or that an external host has sent to a simulated one, and releases its body.
    fn delivered<W: Watch>(_world: &mut World<Self, W>, _now: Time, _node: NodeId, _packet: Packet) {
        unreachable!("this medium has no external hosts")
    }
}

impl Handler for SegmentMedium {}

/// Number of deliveries and timers between two calls of the callback of [`World::run_while`]: some milliseconds of computing time.
const STEPS_PER_CALLBACK: u32 = 1 << 14;

/// World of the simulator, with segments as values in memory.
pub type Sim<W> = World<SegmentMedium, W>;

/// Totals of the transfers of all hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Connections opened so far.
    pub opened: u64,
    /// Documents whose last byte has arrived.
    pub completed: u64,
    /// Messages of applications that have neither arrived nor failed.
    pub waiting: usize,
    /// Connections that applications have opened and that are not closed.
    pub open: usize,
    /// Time at which the last message arrived.
    pub last_end: Time,
    /// Data segments that servers have sent, retransmissions included.
    pub data_sent: u64,
    /// Data segments of servers that were dropped.
    pub data_dropped: u64,
}

/// Memory allocated by a run, for reuse by the next run.
#[derive(Debug, Default)]
pub struct Memory {
    programs: Programs,
    connections: Slab<Connection<Endpoint>>,
    segments: SegmentMedium,
    datagrams: Datagrams,
    timers: Calendar,
}

/// Owner of a timer, packed into the 32 bits of a calendar entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    End { connection: u32, end: usize },
    App(u32),
}

impl Timer {
    const APP: u32 = 1 << 31;

    fn pack(self) -> u32 {
        match self {
            Self::End { connection, end } => connection << 1 | end as u32,
            Self::App(app) => app | Self::APP,
        }
    }

    fn unpack(bits: u32) -> Self {
        if bits & Self::APP != 0 {
            Self::App(bits & !Self::APP)
        } else {
            Self::End { connection: bits >> 1, end: (bits & 1) as usize }
        }
    }
}

impl<W: Watch> World<SegmentMedium, W> {
    /// Creates a world at time zero without applications.
    pub fn new(topology: &Topology, seed: u64, watch: W) -> Self {
        Self::with_memory(topology, seed, watch, Memory::default())
    }

    /// Creates a world at time zero, reusing the memory of an earlier run. No state of that run is left.
    pub fn with_memory(topology: &Topology, seed: u64, watch: W, memory: Memory) -> Self {
        let Memory { mut programs, mut connections, mut segments, mut datagrams, mut timers } = memory;
        programs.clear();
        connections.clear();
        segments.clear();
        datagrams.clear();
        timers.clear();
        let world = World::over(topology, seed, segments, watch);
        let hosts = Hosts { connections, datagrams, timers, ..world.hosts };
        Self { hosts, programs, ..world }
    }

    /// Consumes the world and returns its memory for another run.
    pub fn into_memory(self) -> Memory {
        let Self { programs, hosts, .. } = self;
        let Hosts { connections, medium: segments, datagrams, timers, .. } = hosts;
        Memory { programs, connections, segments, datagrams, timers }
    }

    /// Runs until no event is left or the next event is later than `end`. Sources of background traffic stop when all other applications
    /// have finished, unless the world has no other applications.
    pub fn run(&mut self, end: Time) {
        self.advance(end);
    }

    /// Runs as [`World::run`] does, but calls `keep_running` every few milliseconds and stops if `keep_running` returns false. Returns the
    /// time of the next event, or `None` if `keep_running` has returned false.
    pub fn run_while(&mut self, end: Time, keep_running: &mut dyn FnMut() -> bool) -> Option<Time> {
        self.advanced_to = self.advanced_to.max(end);
        while keep_running() {
            for _ in 0..STEPS_PER_CALLBACK {
                if let Some(next) = self.step(end) {
                    return Some(next);
                }
            }
        }
        None
    }
}

impl<M: Handler, W: Watch> World<M, W> {
    /// Creates a world at time zero without applications. `medium` carries the packets.
    pub fn over(topology: &Topology, seed: u64, medium: M, watch: W) -> Self {
        let hosts = Hosts {
            tcp: Vec::new(),
            connections: Slab::default(),
            medium,
            timers: Calendar::default(),
            datagrams: Datagrams::default(),
            data_dropped: 0,
            watch,
        };
        Self {
            fabric: Fabric::new(topology, seed),
            hosts,
            programs: Programs::default(),
            pending_events: VecDeque::new(),
            is_delivering: false,
            dirty_ends: Vec::new(),
            now: Time::ZERO,
            advanced_to: Time::ZERO,
            seed,
            tick_phase: None,
            tally: Tally::default(),
        }
    }

    /// Adds parameters for later connections.
    pub fn add_tcp(&mut self, options: TcpOptions) -> TcpId {
        self.hosts.tcp.push(options);
        TcpId(self.hosts.tcp.len() as u32 - 1)
    }

    /// Adds a flow of datagrams from one host to another. The topology must have a route.
    pub fn add_flow(&mut self, from: NodeId, to: NodeId) -> FlowId {
        let route = self.fabric.checked_route(from, to);
        self.hosts.datagrams.add_flow(from, to, route)
    }

    /// Adds an application that acts on its own and receives [`AppEvent::Start`] at once. Returns its number, as used in records.
    pub fn add_app(&mut self, app: AnyApp) -> u32 {
        let id = self.programs.users.len() as u32;
        let program = Program::new(app);
        self.programs.sources += usize::from(program.is_source);
        self.programs.users.push(program);
        self.deliver(self.now, id, AppEvent::Start);
        id
    }

    /// Adds a listener: the application at the accepting end of connections to a node with these parameters. Without a listener, the
    /// received data is ignored, and a connection is closed when its peer closes it.
    pub fn add_server(&mut self, node: NodeId, tcp: TcpId, app: AnyApp) -> u32 {
        let id = SERVERS + self.programs.servers.len() as u32;
        self.programs.servers.push(Program::new(app));
        self.programs.services.insert((node, tcp), id);
        self.deliver(self.now, id, AppEvent::Start);
        id
    }

    /// Returns the listener at a node for connections with these parameters, or [`NO_APP`].
    pub fn service(&self, node: NodeId, tcp: TcpId) -> u32 {
        self.programs.services.get(&(node, tcp)).copied().unwrap_or(NO_APP)
    }

    /// Sets the phase of the clock ticks of all later connections; `None` draws a random phase for each end.
    pub fn set_tick_phase(&mut self, phase: Option<Span>) {
        self.tick_phase = phase;
    }

    /// Executes all events due by `until` and returns the time of the next event. At equal times deliveries precede timers, so that an ACK
    /// that arrives when the retransmission timer expires stops the timer.
    pub fn advance(&mut self, until: Time) -> Time {
        self.advanced_to = self.advanced_to.max(until);
        loop {
            if let Some(next) = self.step(until) {
                return next;
            }
        }
    }

    /// Executes the next delivery or timer if it is due by `until`, and returns `None`. Otherwise, returns the time of the next delivery or
    /// timer.
    #[inline(always)]
    fn step(&mut self, until: Time) -> Option<Time> {
        let timer = self.hosts.timers.peek().map_or(Time::NEVER, |(at, _)| at);
        match self.fabric.poll(timer.min(until), &mut self.hosts) {
            Out::Deliver(packet) => {
                self.now = packet.arrived;
                self.on_delivery(packet);
                None
            }
            Out::Wait(_) | Out::Idle if timer <= until && timer < Time::NEVER => {
                self.on_timer(timer);
                None
            }
            Out::Wait(next) => Some(next.min(timer)),
            Out::Idle => Some(timer),
        }
    }

    /// Returns the time of the last event. The expiry time of a stopped timer does not count as an event.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns the time up to which all events have been executed.
    pub fn advanced_to(&self) -> Time {
        self.advanced_to
    }

    /// Returns the network.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// Sets the ids of the source and destination hosts of external packets with this flow hash on this route.
    pub fn set_hosts(&mut self, flow: u16, route: Route, hosts: [u32; 2]) {
        self.fabric.set_hosts(flow, route, hosts);
    }

    /// Returns the medium.
    pub fn medium(&self) -> &M {
        &self.hosts.medium
    }

    /// Returns the medium mutably.
    pub fn medium_mut(&mut self) -> &mut M {
        &mut self.hosts.medium
    }

    /// Returns the medium and the watch mutably.
    pub fn parts_mut(&mut self) -> (&mut M, &mut W) {
        (&mut self.hosts.medium, &mut self.hosts.watch)
    }

    /// Returns the watch.
    pub fn watch(&self) -> &W {
        &self.hosts.watch
    }

    /// Returns the watch mutably.
    pub fn watch_mut(&mut self) -> &mut W {
        &mut self.hosts.watch
    }

    /// Consumes the world and returns the watch.
    pub fn into_watch(self) -> W {
        self.hosts.watch
    }

    /// Returns the counters of a flow of datagrams.
    pub fn datagrams(&self, flow: FlowId) -> DatagramCounters {
        self.hosts.datagrams.counters(flow)
    }

    /// Returns the totals of the transfers.
    pub fn tally(&self) -> Tally {
        Tally { data_dropped: self.hosts.data_dropped, ..self.tally }
    }

    /// Reports all unfinished activities of applications: the record of each, and the number of its bytes that have arrived.
    pub fn unfinished_activities(&self, visit: &mut dyn FnMut(&dyn Activity, u64)) {
        for (program, number) in self.programs.users.iter().zip(0..) {
            let arrived = &|conn| self.arrived(conn, number);
            program.app.unfinished(number, &mut Unfinished { visit, arrived });
        }
    }

    /// Reports all connections that are not over: for each the event that its end would record, and the number of its bytes that have
    /// arrived; before it, the response of a simulated server to an external client.
    pub fn unfinished_connections(&self, visit: &mut dyn FnMut(Event, u64)) {
        for connection in self.open_connections() {
            let it = connection.stats();
            if let Some(reply) = connection.session().and_then(|session| session.reply(&connection.info)) {
                visit(Event::Reply(reply), it.delivered);
            }
            visit(Event::Connection(it.record), it.delivered);
        }
    }

    /// Reports the statistics of the connections that are not over, in order of opening.
    pub fn for_each_open(&self, visit: &mut dyn FnMut(ConnectionStats)) {
        self.open_connections().into_iter().for_each(|connection| visit(connection.stats()));
    }

    fn open_connections(&self) -> Vec<&Connection<M::End>> {
        let all = self.hosts.connections.iter().map(|(_, connection)| connection);
        let mut open: Vec<_> = all.filter(|connection| !connection.info.is_recorded).collect();
        open.sort_unstable_by_key(|connection| connection.info.number);
        open
    }

    /// Brings the state of every port up to [`World::advanced_to`], for inspection.
    pub fn catch_up(&mut self) {
        self.fabric.catch_up(self.advanced_to, &mut self.hosts);
    }

    /// Permits changes of the wires of these ports. Must be called before any packet is sent.
    pub fn allow_changes(&mut self, topology: &Topology, ports: impl IntoIterator<Item = PortId>) {
        ports.into_iter().for_each(|port| self.fabric.allow_changes(topology, port, self.seed));
    }

    /// Changes the wire of a port at `now`: see [`Fabric::change`].
    pub fn change(&mut self, now: Time, port: PortId, from: &WireSpec, to: &WireSpec, seed: u64) {
        self.advance(now.max(self.advanced_to));
        self.catch_up();
        self.fabric.change(port, from, to, seed);
    }

    /// Returns the number of packets that hosts have sent and that were neither delivered nor dropped, as counted by the hosts. The number
    /// of packets inside the fabric differs only if a packet was lost without a notification.
    pub fn packets_out(&self) -> usize {
        self.hosts.medium.in_use()
    }

    /// Returns true if all applications except background sources have finished. Returns false if there are no other applications.
    pub fn is_idle(&self) -> bool {
        let programs = &self.programs;
        programs.sources < programs.users.len() && programs.timers == 0 && self.tally.waiting == 0
    }

    /// Returns the TCP parameters with this identifier.
    pub fn tcp(&self, tcp: TcpId) -> &TcpOptions {
        &self.hosts.tcp[tcp.0 as usize]
    }

    /// Returns the seed of all random choices.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Delivers an event to an application: at once, or after the current event if one is being delivered. Events for [`NO_APP`] are
    /// ignored.
    fn deliver(&mut self, now: Time, program: u32, event: AppEvent) {
        if program != NO_APP {
            self.pending_events.push_back((program, event));
            self.deliver_pending(now);
        }
    }

    /// Delivers all pending events and sends what applications have written, unless a delivery is already in progress. Packets leave after
    /// all pending events have been delivered.
    fn deliver_pending(&mut self, now: Time) {
        if self.is_delivering {
            return;
        }
        self.is_delivering = true;
        loop {
            while let Some((number, event)) = self.pending_events.pop_front() {
                let mut app = std::mem::replace(&mut self.programs.get_mut(number).app, AnyApp::Busy(Busy));
                app.on_event(event, &mut Host { engine: self, now, program: number });
                self.programs.get_mut(number).app = app;
            }
            let mut dirty_ends = std::mem::take(&mut self.dirty_ends);
            for (id, end) in dirty_ends.drain(..) {
                if self.hosts.connections[id].info.closed.is_none() {
                    self.transmit_pending(now, id, end);
                    self.close_if_done(now, id);
                }
            }
            self.dirty_ends = dirty_ends;
            if self.pending_events.is_empty() {
                break;
            }
        }
        self.is_delivering = false;
    }

    /// Marks an end that may have something to send.
    fn mark_dirty(&mut self, id: u32, end: usize) {
        // Applications often perform several operations on a connection in a row.
        if self.dirty_ends.last() != Some(&(id, end)) {
            self.dirty_ends.push((id, end));
        }
    }

    /// Sends a packet into the network at its host.
    #[inline(always)]
    pub fn inject(&mut self, now: Time, from: NodeId, packet: Packet) {
        let hosts = &mut self.hosts;
        hosts.medium.enter(&packet, from);
        let (origin, bytes) = (hosts.medium.origin(packet.body), hosts.medium.bytes(packet.body));
        hosts.watch.packet(now, &packet, origin, Step::Sent(bytes));
        self.fabric.arrive(now, from, packet, hosts);
    }

    /// Returns true if only background traffic is left in a world that has other applications.
    fn only_sources_remain(&self) -> bool {
        self.programs.sources < self.programs.users.len()
            && self.hosts.connections.in_use() == 0
            && self.hosts.timers.len() == self.programs.source_timers
    }

    #[inline(never)]
    fn send_datagram(&mut self, now: Time, flow: FlowId, bytes: u32) {
        let hosts = &mut self.hosts;
        let (from, to, route) = hosts.datagrams.ends(flow);
        let Some(body) = hosts.medium.fill(now, from, to, Owner::Datagram(flow, now), bytes) else { return };
        hosts.datagrams.sent(flow, bytes);
        let packet = Packet { flow: flow.hash(), ..Packet::new(now, route, bytes, body) };
        hosts.watch.created(now, &packet, Created::Datagram { from, to });
        hosts.record_datagram(now, flow, bytes, DatagramStep::Sent);
        self.inject(now, from, packet);
    }

    #[inline]
    fn on_delivery(&mut self, packet: Packet) {
        let hosts = &mut self.hosts;
        let (now, node) = (packet.arrived, packet.route.destination());
        let owner = hosts.medium.owner(packet.body);
        if hosts.medium.is_external(node) {
            M::delivered(self, now, node, packet);
            return self.hosts.on_left_network(now, owner);
        }
        hosts.watch.packet(now, &packet, hosts.medium.origin(packet.body), Step::Delivered(node));
        match owner {
            Owner::End { connection, end } => self.on_segment(now, packet, connection, 1 - end),
            Owner::Datagram(flow, sent) => {
                hosts.medium.release(packet.body);
                hosts.datagrams.received(flow, now - sent);
                hosts.record_datagram(now, flow, packet.len, DatagramStep::Received(now - sent));
                if let Some(receiver) = hosts.datagrams.receiver(flow) {
                    self.deliver(now, receiver, AppEvent::Datagram(flow));
                }
            }
            Owner::External { .. } | Owner::Other => {
                M::delivered(self, now, node, packet);
                self.hosts.on_left_network(now, owner);
            }
        }
    }

    fn on_timer(&mut self, now: Time) {
        let (_, bits) = self.hosts.timers.pop().expect("the caller saw a timer");
        match Timer::unpack(bits) {
            Timer::App(app) => self.on_app_timer(now, app),
            Timer::End { connection: id, end } => {
                let hosts = &mut self.hosts;
                let connection = &mut hosts.connections[id];
                if connection.planned[end] != now {
                    return;
                }
                if connection.info.closed.is_some() {
                    return self.end_lingering(now, id, end);
                }
                self.now = now;
                connection.planned[end] = Time::NEVER;
                let config = &hosts.tcp[connection.info.spec.tcp.0 as usize].config;
                let expired = connection.ends[end].on_timer(now, config);
                let sender = connection.ends[end].sender().filter(|_| W::PACKETS && expired);
                if let Some(event) = connection.info.timed_out(end, sender) {
                    hosts.watch.record(now, &event);
                    if end == SERVER {
                        let written = connection.written();
                        hosts.watch.served(now, &connection.info.served(written, ServedStep::Timeout));
                    }
                }
                self.transmit_pending(now, id, end);
                if self.hosts.connections[id].session().is_some() {
                    self.close_if_done(now, id);
                }
            }
        }
    }

    fn on_app_timer(&mut self, now: Time, number: u32) {
        let program = self.programs.get_mut(number);
        let is_source = program.is_source;
        // A timer that was moved leaves a stale entry in the calendar.
        let Some(key) = program.timers.take(|(_, at)| *at == now) else { return };
        self.now = now;
        *self.programs.running(is_source) -= 1;
        if !(is_source && self.only_sources_remain()) {
            self.deliver(now, number, AppEvent::Timer(key));
        }
    }
}

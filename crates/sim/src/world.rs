mod connections;
mod engine;
mod hosts;

use self::hosts::Hosts;
use crate::app::{AnyApp, AppEvent, Application, Unfinished};
use crate::connection::Connection;
use crate::datagram::{DatagramCounters, Datagrams, FlowId};
use crate::dialogue::Message;
use crate::host::{Conn, Host, ServiceOptions};
use crate::medium::{End, Medium, Numbers, Owner};
use crate::parties::{CLIENT, Parties, SERVER, TcpId, TcpOptions};
use crate::programs::{Program, Programs, SERVERS};
use crate::record::{ConnectionRecord, DatagramStep, Event, NOBODY, ServedStep};
use crate::watch::{Made, Step, Watch};
use catnip_base::{self as base, Rng, Slab, Span, Time};
use catnip_net::{Calendar, Fabric, NodeId, Out, Packet, PortId, Route, Topology, WireSpec};
use catnip_tcp::{Endpoint, Sender};
use std::collections::VecDeque;

/// One run: a network, the hosts at its edges, and the order in which everything happens.
///
/// It has no clock of its own: [`World::advance`] lets everything happen up to a time, each event at its own, however late
/// that call is.
#[derive(Debug)]
pub struct World<M: Medium, W> {
    fabric: Fabric,
    hosts: Hosts<M, W>,
    programs: Programs,
    /// What programs have yet to hear.
    news: VecDeque<(u32, AppEvent)>,
    /// One of them is hearing something.
    telling: bool,
    /// Ends of connections that may have something to send once the program has returned.
    touched: Vec<(u32, usize)>,
    /// The time of the last event.
    now: Time,
    /// All events up to here have happened.
    told: Time,
    seed: u64,
    tick_phase: Option<Span>,
    tally: Tally,
}

/// A medium may have hosts of its own, outside of the engine. What happens to them it handles itself, with the whole world at
/// hand.
pub trait Handler: Medium {
    /// A program opens a connection with a host that is outside.
    fn open<W: Watch>(_world: &mut World<Self, W>, _now: Time, _program: u32, _parties: Parties) -> Conn {
        unreachable!("nobody is outside of this medium")
    }

    /// A program does something with its end of such a connection, of which the medium knows by this number; what leaves by it
    /// leaves when the medium is asked to send.
    fn act<W: Watch>(_world: &mut World<Self, W>, _now: Time, _conn: Conn, _what: Act) {
        unreachable!("nobody is outside of this medium")
    }

    /// Programs have done something: what they have to send may leave.
    fn flush<W: Watch>(_world: &mut World<Self, W>, _now: Time) {}

    /// A packet that no end of the engine has sent, or that is for a host outside, is delivered; its body is still in use.
    fn delivered<W: Watch>(_world: &mut World<Self, W>, _now: Time, _node: NodeId, _packet: Packet) {
        unreachable!("nobody is outside of this medium")
    }

    /// A timer of the medium has come: see [`World::plan`].
    fn on_timer<W: Watch>(_world: &mut World<Self, W>, _now: Time, _key: u32) {
        unreachable!("this medium plans nothing")
    }
}

impl Handler for Numbers {}

/// What a program does with its end of a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Act {
    /// It sends a message.
    Send(Message),
    /// It will send no more.
    Close,
    /// It wants to hear when so many bytes of the next message have arrived.
    Notify(u64),
    /// It wants its packets to be treated so.
    Serve(ServiceOptions),
}

/// Deliveries and timers: some milliseconds.
const STEPS_BETWEEN_QUESTIONS: u32 = 1 << 14;

/// A world whose packets are numbers: the simulator.
pub type Sim<W> = World<Numbers, W>;

/// What has become of the transfers of all hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Connections opened so far.
    pub opened: u64,
    /// Documents whose last byte has arrived.
    pub completed: u64,
    /// Messages of programs that have neither arrived nor failed.
    pub waiting: usize,
    /// Connections of programs that are not closed.
    pub open: usize,
    /// When the last message arrived.
    pub last_end: Time,
    /// Data segments that servers have sent, retransmissions included.
    pub data_sent: u64,
    /// How many of them were dropped.
    pub data_dropped: u64,
}

/// What a run grows while it lasts: handed from one run to the next, so that only the first one grows it.
#[derive(Debug, Default)]
pub struct Memory {
    programs: Programs,
    connections: Slab<Connection<Endpoint>>,
    numbers: Numbers,
    datagrams: Datagrams,
    timers: Calendar,
}

/// What a timer belongs to, packed into the 32 bits of a calendar entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    End { connection: u32, end: usize },
    App(u32),
    Medium(u32),
}

impl Timer {
    const APP: u32 = 1 << 31;
    const MEDIUM: u32 = 1 << 30;

    fn pack(self) -> u32 {
        match self {
            Self::End { connection, end } => connection << 1 | end as u32,
            Self::App(app) => app | Self::APP,
            Self::Medium(key) => key | Self::MEDIUM,
        }
    }

    fn unpack(bits: u32) -> Self {
        if bits & Self::APP != 0 {
            Self::App(bits & !Self::APP)
        } else if bits & Self::MEDIUM != 0 {
            Self::Medium(bits & !Self::MEDIUM)
        } else {
            Self::End { connection: bits >> 1, end: (bits & 1) as usize }
        }
    }
}

impl<W: Watch> World<Numbers, W> {
    /// A network at time zero with nobody at its edges.
    pub fn new(topology: &Topology, seed: u64, watch: W) -> Self {
        Self::with_memory(topology, seed, watch, Memory::default())
    }

    /// The same in the memory of a run that is over; nothing of that run is left in it.
    pub fn with_memory(topology: &Topology, seed: u64, watch: W, memory: Memory) -> Self {
        let Memory { mut programs, mut connections, mut numbers, mut datagrams, mut timers } = memory;
        programs.clear();
        connections.clear();
        numbers.clear();
        datagrams.clear();
        timers.clear();
        let world = World::over(topology, seed, numbers, watch);
        let hosts = Hosts { connections, datagrams, timers, ..world.hosts };
        Self { hosts, programs, ..world }
    }

    /// The memory, at the end, for another run.
    pub fn into_memory(self) -> Memory {
        let Self { programs, hosts, .. } = self;
        let Hosts { connections, medium: numbers, datagrams, timers, .. } = hosts;
        Memory { programs, connections, numbers, datagrams, timers }
    }

    /// Runs until nothing is left to do or the clock would pass `end`. Background traffic does not count, unless there is
    /// nothing else: it falls silent when everybody else is done.
    pub fn run(&mut self, end: Time) {
        self.advance(end);
    }

    /// The same, as long as `goes_on` agrees, which is asked every few milliseconds. The time of the next event; `None`: it did not
    /// agree.
    pub fn run_while(&mut self, end: Time, goes_on: &mut dyn FnMut() -> bool) -> Option<Time> {
        self.told = self.told.max(end);
        while goes_on() {
            for _ in 0..STEPS_BETWEEN_QUESTIONS {
                if let Some(next) = self.step(end) {
                    return Some(next);
                }
            }
        }
        None
    }
}

impl<M: Handler, W: Watch> World<M, W> {
    /// A network at time zero with nobody at its edges, whose packets this medium carries.
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
            news: VecDeque::new(),
            telling: false,
            touched: Vec::new(),
            now: Time::ZERO,
            told: Time::ZERO,
            seed,
            tick_phase: None,
            tally: Tally::default(),
        }
    }

    /// Parameters for connections to come.
    pub fn add_tcp(&mut self, options: TcpOptions) -> TcpId {
        self.hosts.tcp.push(options);
        TcpId(self.hosts.tcp.len() as u32 - 1)
    }

    /// Packets without a connection, from one host to another; the topology must have a way.
    pub fn add_flow(&mut self, from: NodeId, to: NodeId) -> FlowId {
        let route = self.fabric.checked_route(from, to);
        self.hosts.datagrams.add_flow(from, to, route)
    }

    /// Adds a program that begins something by itself; it hears [`AppEvent::Start`] at once. Its number is what records call it.
    pub fn add_app(&mut self, app: AnyApp) -> u32 {
        let id = self.programs.users.len() as u32;
        let program = Program::new(app);
        self.programs.sources += usize::from(program.is_source);
        self.programs.users.push(program);
        self.tell(self.now, id, AppEvent::Start);
        id
    }

    /// Adds a program that answers those who connect to a node with these parameters. Where there is none, what arrives is
    /// heard by nobody, and a connection is closed when its peer closes it.
    pub fn add_server(&mut self, node: NodeId, tcp: TcpId, app: AnyApp) -> u32 {
        let id = SERVERS + self.programs.servers.len() as u32;
        self.programs.servers.push(Program::new(app));
        self.programs.services.insert((node, tcp), id);
        self.tell(self.now, id, AppEvent::Start);
        id
    }

    /// Who answers at a node those who connect with these parameters, or [`NOBODY`].
    pub fn service(&self, node: NodeId, tcp: TcpId) -> u32 {
        self.programs.services.get(&(node, tcp)).copied().unwrap_or(NOBODY)
    }

    /// Gives the clocks of all hosts this phase instead of a random one each.
    pub fn set_tick_phase(&mut self, phase: Option<Span>) {
        self.tick_phase = phase;
    }

    /// Lets everything happen that is due by `until`; gives the time of the next event. At equal times deliveries come
    /// before timers, so that an ACK that arrives as its timer expires stops it.
    pub fn advance(&mut self, until: Time) -> Time {
        self.told = self.told.max(until);
        loop {
            if let Some(next) = self.step(until) {
                return next;
            }
        }
    }

    /// The next delivery or timer, if it is due by `until`; else when it is.
    #[inline(always)]
    fn step(&mut self, until: Time) -> Option<Time> {
        let timer = self.hosts.timers.peek().map_or(Time::NEVER, |(at, _)| at);
        match self.fabric.poll(timer.min(until), &mut self.hosts) {
            Out::Deliver(at, node, packet) => {
                self.now = at;
                self.on_delivery(at, node, packet);
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

    /// The time of the last event; a timer that has been stopped is none.
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

    /// Between which hosts, by number, packets from outside go that have this hash of a flow and go this way.
    pub fn set_hosts(&mut self, flow: u16, route: Route, hosts: [u32; 2]) {
        self.fabric.set_hosts(flow, route, hosts);
    }

    /// What carries the packets.
    pub fn medium(&self) -> &M {
        &self.hosts.medium
    }

    /// The same, to change it.
    pub fn medium_mut(&mut self) -> &mut M {
        &mut self.hosts.medium
    }

    /// What carries the packets, and who hears of them.
    pub fn parts_mut(&mut self) -> (&mut M, &mut W) {
        (&mut self.hosts.medium, &mut self.hosts.watch)
    }

    /// Who has heard everything.
    pub fn watch(&self) -> &W {
        &self.hosts.watch
    }

    /// The same, to tell it more.
    pub fn watch_mut(&mut self) -> &mut W {
        &mut self.hosts.watch
    }

    /// The same, at the end.
    pub fn into_watch(self) -> W {
        self.hosts.watch
    }

    /// What has become of the packets of a flow.
    pub fn datagrams(&self, flow: FlowId) -> DatagramCounters {
        self.hosts.datagrams.counters(flow)
    }

    /// What has become of transfers.
    pub fn tally(&self) -> Tally {
        Tally { data_dropped: self.hosts.data_dropped, ..self.tally }
    }

    /// The same, for a medium that counts its own.
    pub fn tally_mut(&mut self) -> &mut Tally {
        &mut self.tally
    }

    /// Tells of all that has been begun and is not over, in the order of programs and then of connections: what would be said of
    /// it at its end, and how many bytes of it have arrived.
    pub fn unfinished(&self, tell: &mut dyn FnMut(Event, u64)) {
        for (program, number) in self.programs.users.iter().zip(0..) {
            let arrived = &|conn| self.arrived(conn, number);
            program.app.unfinished(number, &mut Unfinished { tell, arrived });
        }
        self.each_open(&mut |record, delivered, _| tell(Event::Connection(record), delivered));
        self.hosts.medium.unfinished(tell);
    }

    /// Tells of the connections between hosts of the engine that are not over, in order of opening: what would be said of each at
    /// its end, how many bytes of the server have arrived, and the server's sender.
    pub fn each_open(&self, tell: &mut dyn FnMut(ConnectionRecord, u64, Option<&Sender>)) {
        let mut open: Vec<_> = self.hosts.connections.iter().map(|(_, connection)| connection).collect();
        open.sort_unstable_by_key(|connection| connection.account.number);
        for connection in open {
            let delivered = connection.ends[CLIENT].received();
            let record = connection.record();
            let received = if delivered < record.bytes { Time::NEVER } else { record.received };
            tell(ConnectionRecord { received, ..record }, delivered, connection.ends[SERVER].sender());
        }
    }

    /// Lets every port serve up to the time until which everything has happened, for who looks at it there.
    pub fn catch_up(&mut self) {
        self.fabric.catch_up(self.told, &mut self.hosts);
    }

    /// Lets the wires of these ports change. To be said before anything is sent.
    pub fn let_change(&mut self, topology: &Topology, ports: impl IntoIterator<Item = PortId>) {
        ports.into_iter().for_each(|port| self.fabric.let_change(topology, port));
    }

    /// At `now` the wire of this port becomes another one: see [`Fabric::change`].
    pub fn change(&mut self, now: Time, port: PortId, from: &WireSpec, to: &WireSpec, seed: u64) {
        self.advance(now.max(self.told));
        self.catch_up();
        self.fabric.change(port, from, to, seed);
    }

    /// Packets that hosts have sent and of which they have heard no end, neither a delivery nor a drop. Counted by the hosts,
    /// this is the same number as inside the fabric, or a packet was lost silently.
    pub fn packets_out(&self) -> usize {
        self.hosts.medium.in_use()
    }

    /// Have all users that are no background traffic done what they came for? Not if there is none.
    pub fn is_idle(&self) -> bool {
        let programs = &self.programs;
        programs.sources < programs.users.len() && programs.timers == 0 && self.tally.waiting == 0
    }

    /// The parameters of connections.
    pub fn tcp(&self, tcp: TcpId) -> &TcpOptions {
        &self.hosts.tcp[tcp.0 as usize]
    }

    /// The seed of all random choices.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The number and the random stream of a connection that is opened now.
    pub fn number(&mut self) -> (u64, Rng) {
        let number = self.tally.opened;
        self.tally.opened += 1;
        (number, Rng::new(self.seed, base::Stream::Connection(number as u32)))
    }

    /// Calls the medium's [`Handler::on_timer`] with this key, below 2^30, at that time.
    pub fn plan(&mut self, at: Time, key: u32) {
        self.hosts.timers.push(at, Timer::Medium(key).pack());
    }

    /// Tells a program of an event, now or when it has heard what it is hearing.
    pub fn tell(&mut self, now: Time, program: u32, event: AppEvent) {
        if program != NOBODY {
            self.news.push_back((program, event));
            self.tell_news(now);
        }
    }

    /// Tells programs what they have yet to hear, unless that is just being done, and sends what they have to say: packets leave
    /// when all have heard what there is to hear now.
    fn tell_news(&mut self, now: Time) {
        if self.telling {
            return;
        }
        self.telling = true;
        loop {
            while let Some((number, event)) = self.news.pop_front() {
                let mut app = std::mem::replace(&mut self.programs.get_mut(number).app, AnyApp::Busy);
                app.on_event(event, &mut Host { engine: self, now, program: number });
                self.programs.get_mut(number).app = app;
            }
            let mut touched = std::mem::take(&mut self.touched);
            for (id, end) in touched.drain(..) {
                if self.hosts.connections[id].account.closed.is_none() {
                    self.pump(now, id, end);
                    self.close_if_done(now, id);
                }
            }
            self.touched = touched;
            M::flush(self, now);
            if self.news.is_empty() {
                break;
            }
        }
        self.telling = false;
    }

    /// This end may have something to send.
    fn touch(&mut self, id: u32, end: usize) {
        // A program often does several things with a connection.
        if self.touched.last() != Some(&(id, end)) {
            self.touched.push((id, end));
        }
    }

    /// A packet enters the network at its host.
    #[inline(always)]
    pub fn launch(&mut self, now: Time, from: NodeId, packet: Packet) {
        let hosts = &mut self.hosts;
        hosts.medium.enter(&packet, from);
        let (origin, bytes) = (hosts.medium.origin(packet.body), hosts.medium.bytes(packet.body));
        hosts.watch.packet(now, &packet, origin, Step::Sent(bytes));
        self.fabric.arrive(now, from, packet, hosts);
    }

    /// Is there nothing else than background traffic any more, though there was?
    fn only_sources_are_left(&self) -> bool {
        self.programs.sources < self.programs.users.len()
            && self.hosts.connections.in_use() == 0
            && self.hosts.medium.connections() == 0
            && self.hosts.timers.len() == self.programs.source_timers
    }

    #[inline(never)]
    fn send_datagram(&mut self, now: Time, flow: FlowId, bytes: u32) {
        let hosts = &mut self.hosts;
        let (from, to, route) = hosts.datagrams.ends(flow);
        let Some(body) = hosts.medium.fill(now, from, to, Owner::Datagram(flow, now), bytes) else { return };
        hosts.datagrams.sent(flow, bytes);
        let packet = Packet { flow: flow.hash(), ..Packet::new(now, route, bytes, body) };
        hosts.watch.made(now, &packet, Made::Datagram { from, to });
        hosts.record_datagram(now, flow, bytes, DatagramStep::Sent);
        self.launch(now, from, packet);
    }

    #[inline]
    fn on_delivery(&mut self, now: Time, node: NodeId, packet: Packet) {
        let hosts = &mut self.hosts;
        if hosts.medium.is_outside(node) {
            return M::delivered(self, now, node, packet);
        }
        hosts.watch.packet(now, &packet, hosts.medium.origin(packet.body), Step::Delivered(node));
        match hosts.medium.owner(packet.body) {
            Owner::End { connection, end } => self.on_segment(now, packet, connection, 1 - end),
            Owner::Datagram(flow, sent) => {
                hosts.medium.release(packet.body);
                hosts.datagrams.received(flow, now - sent);
                hosts.record_datagram(now, flow, packet.len, DatagramStep::Received(now - sent));
            }
            Owner::Other => M::delivered(self, now, node, packet),
        }
    }

    fn on_timer(&mut self, now: Time) {
        let (_, bits) = self.hosts.timers.pop().expect("the caller saw a timer");
        match Timer::unpack(bits) {
            Timer::App(app) => self.on_app_timer(now, app),
            Timer::End { connection: id, end } => {
                let hosts = &mut self.hosts;
                let connection = &mut hosts.connections[id];
                if connection.account.closed.is_some() || connection.planned[end] != now {
                    return;
                }
                self.now = now;
                connection.planned[end] = Time::NEVER;
                let config = &hosts.tcp[connection.account.parties.tcp.0 as usize].config;
                let expired = connection.ends[end].on_time(now, config);
                let sender = connection.ends[end].sender().filter(|_| W::PACKETS && expired);
                if let Some(event) = connection.account.timed_out(end, sender) {
                    hosts.watch.record(now, &event);
                    if end == SERVER {
                        let written = connection.account.bytes;
                        hosts.watch.served(now, &connection.account.served(written, ServedStep::Timeout));
                    }
                }
                self.pump(now, id, end);
            }
            Timer::Medium(key) => {
                self.now = now;
                M::on_timer(self, now, key);
            }
        }
    }

    fn on_app_timer(&mut self, now: Time, number: u32) {
        let program = self.programs.get_mut(number);
        let is_source = program.is_source;
        // Of one that was moved the calendar has an entry too many.
        let Some(key) = program.timers.take(|(_, at)| *at == now) else { return };
        self.now = now;
        *self.programs.running(is_source) -= 1;
        if !(is_source && self.only_sources_are_left()) {
            self.tell(now, number, AppEvent::Timer(key));
        }
    }
}

mod engine;
mod hosts;

use self::hosts::Hosts;
use crate::app::{AnyApp, AppEvent, Application, Unfinished};
use crate::connection::{Account, Connection};
use crate::datagram::{DatagramCounters, Datagrams, FlowId};
use crate::dialogue::{Message, News, Stream};
use crate::host::{Conn, Host, ServiceOptions};
use crate::medium::{End, Medium, Numbers, Owner};
use crate::parties::{CLIENT, Parties, SERVER, TcpId, TcpOptions, tick_phase};
use crate::programs::{Program, Programs, SERVERS};
use crate::record::{ConnectionRecord, DatagramStep, Event, NOBODY, ServedStep};
use crate::watch::{Made, Step, Watch};
use catnip_base::{self as base, Rng, Slab, Span, Time};
use catnip_net::mark::AnyMarker;
use catnip_net::{Calendar, Fabric, NodeId, Out, Packet, Topology};
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
            let timer = self.hosts.timers.peek().map_or(Time::NEVER, |(at, _)| at);
            match self.fabric.poll(timer.min(until), &mut self.hosts) {
                Out::Deliver(at, node, packet) => {
                    self.now = at;
                    self.on_delivery(at, node, packet);
                }
                Out::Wait(_) | Out::Idle if timer <= until && timer < Time::NEVER => {
                    self.on_timer(timer);
                }
                Out::Wait(next) => return next.min(timer),
                Out::Idle => return timer,
            }
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
        let mut open: Vec<_> = self.hosts.connections.iter().map(|(_, connection)| connection).collect();
        open.sort_unstable_by_key(|connection| connection.account.number);
        for connection in open {
            let delivered = connection.ends[CLIENT].received();
            let record = connection.record();
            let received = if delivered < record.bytes { Time::NEVER } else { record.received };
            tell(Event::Connection(ConnectionRecord { received, ..record }), delivered);
        }
        self.hosts.medium.unfinished(tell);
    }

    /// How many bytes of the next message have arrived at the end of a connection that a program has.
    fn arrived(&self, conn: Conn, program: u32) -> u64 {
        if conn.as_foreign().is_some() {
            return self.hosts.medium.arrived(conn);
        }
        let Some(end) = self.end_of(conn, program) else { return 0 };
        let connection = &self.hosts.connections[conn.id];
        connection.streams[1 - end].arrived(connection.ends[end].received())
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

    fn connect(&mut self, now: Time, program: u32, parties: Parties) -> Conn {
        self.tally.open += 1;
        let Parties { client, server, opener, tcp } = parties;
        let peer = 1 - opener;
        if self.hosts.medium.is_outside(parties.node(peer)) {
            return M::open(self, now, program, parties);
        }
        let routes = [self.fabric.checked_route(client, server), self.fabric.checked_route(server, client)];
        let (number, mut rng) = self.number();
        let (clock, fixed) = (self.tcp(tcp).config.slowest_clock(), self.tick_phase);
        let mut phase = || {
            let drawn = tick_phase(clock, rng.uniform());
            fixed.unwrap_or(drawn)
        };
        let (server_phase, client_phase) = (phase(), phase());
        let answers = self.service(parties.node(peer), tcp);
        let hosts = &mut self.hosts;
        let options = &hosts.tcp[tcp.0 as usize];
        let ends =
            hosts.medium.connect(now, &parties, &options.config, [client_phase, server_phase], &mut rng);
        let mut programs = [program; 2];
        programs[peer] = answers;
        // What the client sends, the server hears.
        let streams = [SERVER, CLIENT].map(|end| Stream::new(self.programs.wants(programs[end]).opened));
        let account = Account::new(number, program, parties, now, options, &rng);
        let id = hosts.connections.insert(Connection {
            ends,
            routes,
            planned: [Time::NEVER; 2],
            news_at: [streams[SERVER].news_at(), streams[CLIENT].news_at()],
            account,
            programs,
            streams,
        });
        let weight = self.tcp(tcp).weight;
        if weight != 1 {
            [CLIENT, SERVER].into_iter().for_each(|end| self.weigh(id, end, weight));
        }
        self.touch(id, opener);
        for end in [opener, peer] {
            if self.hosts.connections[id].news_at[end] == 0 {
                self.note_news(now, id, end);
            }
        }
        Conn { id, number: number as u32 }
    }

    /// Gives a connection a weight where what this end sends leaves its host.
    fn weigh(&mut self, id: u32, end: usize, weight: u32) {
        let account = &mut self.hosts.connections[id].account;
        account.is_weighted |= weight != 1;
        self.fabric.set_weight(account.parties.node(end), id as u16, weight);
    }

    /// Which end of a connection this program has, if there still is such a connection.
    fn end_of(&self, conn: Conn, program: u32) -> Option<usize> {
        let connection = &self.hosts.connections[conn.id];
        let is_it = connection.account.number as u32 == conn.number && connection.account.closed.is_none();
        let end = || connection.programs.iter().position(|&it| it == program);
        is_it.then(end).flatten()
    }

    /// Notes what there is to tell the program at an end of a connection.
    fn note_news(&mut self, now: Time, id: u32, end: usize) {
        loop {
            let connection = &mut self.hosts.connections[id];
            let config = &self.hosts.tcp[connection.account.parties.tcp.0 as usize].config;
            let Some(news) = connection.news(end, config) else { break };
            let conn = Conn { id, number: connection.account.number as u32 };
            let event = match news {
                News::Open if end == connection.account.parties.opener => AppEvent::Opened(conn),
                News::Open => AppEvent::Accepted(conn),
                News::Message(message) => {
                    self.tally.waiting -= 1;
                    if end == CLIENT {
                        self.tally.completed += 1;
                        connection.account.received = Some(now);
                    }
                    self.tally.last_end = now;
                    AppEvent::Message { conn, message, whole: true }
                }
                News::Progress(tag) => AppEvent::Progress { conn, tag },
                News::PeerClosed => AppEvent::PeerClosed(conn),
            };
            let program = connection.programs[end];
            if program == NOBODY {
                connection.streams[end].closed |= news == News::PeerClosed;
            } else if news != News::PeerClosed || self.programs.wants(program).peer_closed {
                self.news.push_back((program, event));
            }
        }
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

    /// A segment comes to this end of a connection. If its program hears of that, what it has to say to it at once carries the
    /// ACK; what it has to say to others leaves behind the ACK.
    fn on_segment(&mut self, now: Time, packet: Packet, id: u32, end: usize) {
        let hosts = &mut self.hosts;
        let connection = &mut hosts.connections[id];
        connection.account.in_network -= 1;
        if connection.account.closed.is_some() {
            hosts.medium.release(packet.body);
            return hosts.retire_if_over(now, id);
        }
        let config = &hosts.tcp[connection.account.parties.tcp.0 as usize].config;
        let heard = hosts.medium.hear(now, packet.body, &mut connection.ends[end], config);
        hosts.medium.release(packet.body);
        let Some(segment) = heard else { return };
        let is_closing = connection.streams[CLIENT].closed && connection.streams[SERVER].closed;
        let news_at = connection.news_at[end];
        let mut has_news = news_at == 0;
        if segment.span() > 0 {
            connection.account.hears(end, packet.dscp);
            has_news |= segment.flags.fin || connection.ends[end].received() >= news_at;
        }
        let sender = connection.ends[end].sender();
        if W::PACKETS
            && let Some(event) = connection.account.acked(end, sender, &segment, packet.len)
        {
            hosts.watch.record(now, &event);
        }
        if W::PACKETS
            && end == SERVER
            && segment.flags.ack
            && let Some(una) = connection.ends[end].sender().map(Sender::una)
        {
            let step = ServedStep::Acked { una };
            hosts.watch.served(now, &connection.account.served(connection.account.bytes, step));
        }
        if has_news {
            self.note_news(now, id, end);
            if !self.news.is_empty() {
                self.touch(id, end);
                return self.tell_news(now);
            }
        }
        self.pump(now, id, end);
        if is_closing || has_news {
            self.close_if_done(now, id);
        }
    }

    /// A connection is over once both programs have closed it and all is acknowledged. Asked seldom: inside of the loop that hears
    /// segments this would take registers from it.
    #[inline(never)]
    fn close_if_done(&mut self, now: Time, id: u32) {
        let connection = &self.hosts.connections[id];
        if connection.account.closed.is_none() && connection.is_done() {
            self.end_connection(now, id);
        }
    }

    #[inline(never)]
    fn end_connection(&mut self, now: Time, id: u32) {
        let connection = &mut self.hosts.connections[id];
        let &mut Connection { ref mut account, programs, .. } = connection;
        account.closed = Some(now);
        let conn = Conn { id, number: account.number as u32 };
        if account.is_weighted {
            // The number goes to another connection.
            for end in [CLIENT, SERVER] {
                self.fabric.set_weight(account.parties.node(end), id as u16, 1);
            }
        }
        self.tally.open -= 1;
        self.hosts.retire_if_over(now, id);
        for program in programs {
            if self.programs.wants(program).closed {
                self.news.push_back((program, AppEvent::Closed(conn)));
            }
        }
        if !self.news.is_empty() {
            self.tell_news(now);
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

    /// Sends what this end has to send, and plans its timer.
    fn pump(&mut self, now: Time, id: u32, end: usize) {
        loop {
            let hosts = &mut self.hosts;
            let connection = &mut hosts.connections[id];
            let config = &hosts.tcp[connection.account.parties.tcp.0 as usize].config;
            let owner = Owner::End { connection: id, end };
            let packed = hosts.medium.pack(now, &mut connection.ends[end], owner, config);
            let Some((out, body)) = packed else { break };
            let segment = &out.segment;
            let wire_bytes = config.wire_bytes(segment.seq, segment.len, segment.sack.len());
            let route = connection.routes[end];
            let mut packet = Packet { flow: id as u16, ..Packet::new(now, route, wire_bytes, body) };
            match &connection.account.markers[end] {
                AnyMarker::None => {}
                AnyMarker::Spm(marker) => {
                    if segment.span() > 0 {
                        let place = connection.ends[end].place(segment.seq);
                        packet.dscp = marker.mark_of(&place, config.segment_bytes);
                        connection.account.counts(end, packet.dscp);
                        hosts.medium.stamp(&packet);
                    }
                }
                _ => {
                    packet.dscp = connection.mark(now, end, out, packet, config);
                    hosts.medium.stamp(&packet);
                }
            }
            connection.account.enters();
            self.tally.data_sent += u64::from(segment.len > 0 && end == SERVER);
            let &Account { number, ref parties, .. } = &connection.account;
            hosts.watch.made(now, &packet, Made::Segment { connection: number, end, parties, segment });
            let sender = connection.ends[end].sender();
            if W::PACKETS
                && let Some(event) = connection.account.sent(end, sender, &out, &packet)
            {
                hosts.watch.record(now, &event);
            }
            if W::PACKETS && end == SERVER && segment.len > 0 {
                let (seq, bytes, retransmission) = (segment.seq, segment.len, out.retransmission);
                let step = ServedStep::Sent { seq, bytes, retransmission };
                hosts.watch.served(now, &connection.account.served(connection.account.bytes, step));
            }
            let from = connection.account.parties.node(end);
            self.launch(now, from, packet);
        }
        let connection = &mut self.hosts.connections[id];
        if let Some(deadline) = connection.ends[end].deadline()
            && deadline < connection.planned[end]
        {
            connection.planned[end] = deadline;
            self.hosts.timers.push(deadline, Timer::End { connection: id, end }.pack());
        }
        if connection.streams[end].awaits_drain() {
            self.note_drained(now, id, end);
        }
    }

    /// Tells the program at an end if little of what it has written has yet to be sent.
    #[inline(never)]
    fn note_drained(&mut self, now: Time, id: u32, end: usize) {
        let connection = &mut self.hosts.connections[id];
        let sent = connection.ends[end].sender().map_or(0, Sender::sent_to);
        if connection.streams[end].is_drained(sent) {
            let conn = Conn { id, number: connection.account.number as u32 };
            let program = connection.programs[end];
            self.tell(now, program, AppEvent::Drained(conn));
        }
    }
}

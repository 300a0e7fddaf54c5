use crate::app::{AnyApp, AppAction, AppEvent, Application};
use crate::connection::{Account, Connection};
use crate::datagram::{DatagramCounters, Datagrams, FlowId};
use crate::medium::{End, Medium, Numbers, Owner};
use crate::record::{DatagramStep, Event};
use crate::transfer::{CLIENT, SERVER, tick_phase};
use crate::watch::{Step, Watch};
use crate::{TcpId, Transfer};
use catnip_base::{FlowContext, Rng, Slab, Span, Stream, Time};
use catnip_net::mark::SpmParameters;
use catnip_net::{Calendar, DropReason, Fabric, NetworkFate, NodeId, Out, Packet, PortId, Topology};
use catnip_tcp::{Endpoint, Sender, TcpConfig};

/// One run: a network, the hosts at its edges, and the order in which everything happens.
///
/// It has no clock of its own: [`World::advance`] lets everything happen up to a time, each event at its own, however late
/// that call is.
#[derive(Debug)]
pub struct World<M: Medium, W> {
    fabric: Fabric,
    hosts: Hosts<M, W>,
    apps: Vec<AnyApp>,
    /// Kept to reuse its memory.
    actions: Vec<AppAction>,
    /// The time of the last event.
    now: Time,
    /// All events up to here have happened.
    told: Time,
    seed: u64,
    tick_phase: Option<Span>,
    /// Sources of background traffic.
    sources: usize,
    /// Timers of theirs and of all other applications that run.
    source_timers: usize,
    app_timers: usize,
    tally: Tally,
}

/// A medium may have hosts of its own, outside of the engine. What happens to them it handles itself, with the whole world at
/// hand.
pub trait Handler: Medium {
    /// An application opens a transfer from a server that is outside.
    fn fetch<W: Watch>(_world: &mut World<Self, W>, _now: Time, _app: u32, _transfer: Transfer) {
        unreachable!("nobody is outside of this medium")
    }

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

/// A world whose packets are numbers: the simulator.
pub type Sim<W> = World<Numbers, W>;

/// What has become of the transfers of all hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Connections opened so far.
    pub opened: u64,
    /// Transfers whose last byte has arrived.
    pub completed: u64,
    /// Transfers of applications that have neither arrived nor failed.
    pub waiting: usize,
    /// Connections of applications that are not closed.
    pub open: usize,
    /// When the last transfer of an application ended.
    pub last_end: Time,
    /// Data segments that servers have sent, retransmissions included.
    pub data_sent: u64,
    /// How many of them were dropped.
    pub data_dropped: u64,
}

/// What a run grows while it lasts: handed from one run to the next, so that only the first one grows it.
#[derive(Debug, Default)]
pub struct Memory {
    apps: Vec<AnyApp>,
    connections: Slab<Connection<Endpoint>>,
    numbers: Numbers,
    datagrams: Datagrams,
    timers: Calendar,
    actions: Vec<AppAction>,
}

/// Everything at the edges of the network that hears of the fate of packets.
#[derive(Debug)]
struct Hosts<M: Medium, W> {
    tcp: Vec<(TcpConfig, Option<SpmParameters>)>,
    connections: Slab<Connection<M::End>>,
    medium: M,
    timers: Calendar,
    datagrams: Datagrams,
    data_dropped: u64,
    watch: W,
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
        let Memory { mut apps, mut connections, mut numbers, mut datagrams, mut timers, mut actions } =
            memory;
        apps.clear();
        connections.clear();
        numbers.clear();
        datagrams.clear();
        timers.clear();
        actions.clear();
        let world = World::over(topology, seed, numbers, watch);
        let hosts = Hosts { connections, datagrams, timers, ..world.hosts };
        Self { hosts, apps, actions, ..world }
    }

    /// The memory, at the end, for another run.
    pub fn into_memory(self) -> Memory {
        let Self { apps, actions, hosts, .. } = self;
        let Hosts { connections, medium: numbers, datagrams, timers, .. } = hosts;
        Memory { apps, connections, numbers, datagrams, timers, actions }
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
            apps: Vec::new(),
            actions: Vec::new(),
            now: Time::ZERO,
            told: Time::ZERO,
            seed,
            tick_phase: None,
            sources: 0,
            source_timers: 0,
            app_timers: 0,
            tally: Tally::default(),
        }
    }

    /// Parameters for connections to come, and how their data is marked.
    pub fn add_tcp(&mut self, config: TcpConfig, marker: Option<SpmParameters>) -> TcpId {
        self.hosts.tcp.push((config, marker));
        TcpId(self.hosts.tcp.len() as u32 - 1)
    }

    /// Packets without a connection, from one host to another; the topology must have a way.
    pub fn add_flow(&mut self, from: NodeId, to: NodeId) -> FlowId {
        let route = self.fabric.checked_route(from, to);
        self.hosts.datagrams.add_flow(from, to, route)
    }

    /// Adds an application; it hears [`AppEvent::Start`] at once. Its number is what records call it.
    pub fn add_app(&mut self, app: AnyApp) -> u32 {
        let id = self.apps.len() as u32;
        self.sources += usize::from(matches!(app, AnyApp::Background(_)));
        self.apps.push(app);
        self.tell(self.now, id, AppEvent::Start);
        id
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
                    self.now = timer;
                    self.on_timer(timer);
                }
                Out::Wait(next) => return next.min(timer),
                Out::Idle => return timer,
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

    /// Packets that hosts have sent and of which they have heard no end, neither a delivery nor a drop. Counted by the hosts,
    /// this is the same number as inside the fabric, or a packet was lost silently.
    pub fn packets_out(&self) -> usize {
        self.hosts.medium.in_use()
    }

    /// Have all applications that are no background traffic done what they came for? Not if there is none.
    pub fn is_idle(&self) -> bool {
        self.sources < self.apps.len() && self.app_timers == 0 && self.tally.waiting == 0
    }

    /// An application.
    pub fn app(&self, app: u32) -> &AnyApp {
        &self.apps[app as usize]
    }

    /// The parameters of connections, and how their data is marked.
    pub fn tcp(&self, tcp: TcpId) -> &(TcpConfig, Option<SpmParameters>) {
        &self.hosts.tcp[tcp.0 as usize]
    }

    /// The number and the random stream of a connection that is opened now.
    pub fn number(&mut self) -> (u64, Rng) {
        let number = self.tally.opened;
        self.tally.opened += 1;
        (number, Rng::new(self.seed, Stream::Connection(number as u32)))
    }

    /// Calls the medium's [`Handler::on_timer`] with this key, below 2^30, at that time.
    pub fn plan(&mut self, at: Time, key: u32) {
        self.hosts.timers.push(at, Timer::Medium(key).pack());
    }

    /// Tells an application of an event and does what it wants.
    pub fn tell(&mut self, now: Time, app: u32, event: AppEvent) {
        let mut actions = std::mem::take(&mut self.actions);
        self.apps[app as usize].on_event(now, app, event, &mut actions);
        for action in actions.drain(..) {
            match action {
                AppAction::Open(transfer) => self.open(now, app, transfer),
                AppAction::Send { flow, bytes } => self.send(now, flow, bytes),
                AppAction::TimerAt(at) => {
                    *self.timers_of(app) += 1;
                    self.hosts.timers.push(at.max(now), Timer::App(app).pack());
                }
                AppAction::Object(record) => self.hosts.watch.record(now, &Event::Object(record)),
                AppAction::Page(record) => self.hosts.watch.record(now, &Event::Page(record)),
            }
        }
        self.actions = actions;
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

    /// Of an application's kind: how many of its timers run.
    fn timers_of(&mut self, app: u32) -> &mut usize {
        let is_source = matches!(self.apps[app as usize], AnyApp::Background(_));
        if is_source { &mut self.source_timers } else { &mut self.app_timers }
    }

    /// Is there nothing else than background traffic any more, though there was?
    fn only_sources_are_left(&self) -> bool {
        self.sources < self.apps.len()
            && self.hosts.connections.in_use() == 0
            && self.hosts.medium.connections() == 0
            && self.hosts.timers.len() == self.source_timers
    }

    #[inline(never)]
    fn send(&mut self, now: Time, flow: FlowId, bytes: u32) {
        let hosts = &mut self.hosts;
        let (from, to, route) = hosts.datagrams.ends(flow);
        let Some(body) = hosts.medium.fill(now, from, to, Owner::Datagram(flow, now), bytes) else { return };
        hosts.datagrams.sent(flow, bytes);
        hosts.record_datagram(now, flow, bytes, DatagramStep::Sent);
        let packet = Packet { flow: flow.hash(), ..Packet::new(now, route, bytes, body) };
        self.launch(now, from, packet);
    }

    fn open(&mut self, now: Time, app: u32, transfer: Transfer) {
        self.tally.waiting += 1;
        self.tally.open += 1;
        if self.hosts.medium.is_outside(transfer.server) {
            return M::fetch(self, now, app, transfer);
        }
        let Transfer { client, server, .. } = transfer;
        let routes = [self.fabric.checked_route(client, server), self.fabric.checked_route(server, client)];
        let (number, mut rng) = self.number();
        let (clock, fixed) = (self.tcp(transfer.tcp).0.slowest_clock(), self.tick_phase);
        let mut phase = || {
            let drawn = tick_phase(clock, rng.uniform());
            fixed.unwrap_or(drawn)
        };
        let (server, client) = (phase(), phase());
        let hosts = &mut self.hosts;
        let (config, marker) = &hosts.tcp[transfer.tcp.0 as usize];
        let mut ends = hosts.medium.connect(now, &transfer, config, [client, server], &mut rng);
        if transfer.request_bytes > 0 {
            ends[CLIENT].write(now, transfer.request_bytes, None, false, config);
        }
        let id = hosts.connections.insert(Connection {
            ends,
            routes,
            planned: [Time::NEVER; 2],
            account: Account { app, ..Account::new(number, transfer, now, *marker) },
        });
        hosts.respond_if_asked(now, id);
        self.pump(now, id, CLIENT);
        self.pump(now, id, SERVER);
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

    /// A segment comes to this end of a connection.
    fn on_segment(&mut self, now: Time, packet: Packet, id: u32, end: usize) {
        let hosts = &mut self.hosts;
        let connection = &mut hosts.connections[id];
        connection.account.in_network -= 1;
        if connection.account.closed.is_some() {
            hosts.medium.release(packet.body);
            return hosts.retire_if_over(now, id);
        }
        let config = &hosts.tcp[connection.account.transfer.tcp.0 as usize].0;
        let received_before = connection.ends[end].received();
        let heard = hosts.medium.hear(now, packet.body, &mut connection.ends[end], config);
        hosts.medium.release(packet.body);
        let Some(segment) = heard else { return };
        let sender = connection.ends[end].sender();
        if W::PACKETS
            && let Some(event) = connection.account.acked(sender, &segment, packet.len)
        {
            hosts.watch.record(now, &event);
        }
        if segment.len > 0 {
            if end == CLIENT {
                self.on_client_data(now, id, received_before);
            } else {
                hosts.respond_if_asked(now, id);
            }
        }
        self.pump(now, id, end);
        if end == SERVER {
            self.close_if_done(now, id);
        }
    }

    /// Tells the application how far its document has come.
    fn on_client_data(&mut self, now: Time, id: u32, received_before: u64) {
        let connection = &mut self.hosts.connections[id];
        let transfer = connection.account.transfer;
        let received = connection.ends[CLIENT].received();
        let (app, tag) = (connection.account.app, transfer.tag);
        if received == transfer.bytes && connection.account.done_at_client.is_none() {
            connection.account.done_at_client = Some(now);
            self.tally.completed += 1;
            self.tally.waiting -= 1;
            self.tally.last_end = now;
            // The ACK leaves before the application reacts.
            self.pump(now, id, CLIENT);
            self.tell(now, app, AppEvent::Complete { tag });
        } else if transfer.notify_at.is_some_and(|at| received_before < at && at <= received) {
            self.pump(now, id, CLIENT);
            self.tell(now, app, AppEvent::Reached { tag });
        }
    }

    /// A connection is closed once the client has the document and the server knows it.
    fn close_if_done(&mut self, now: Time, id: u32) {
        let connection = &mut self.hosts.connections[id];
        let acknowledged = connection.ends[SERVER].sender().is_some_and(Sender::is_done);
        if connection.account.done_at_client.is_some() && acknowledged && connection.account.closed.is_none()
        {
            connection.account.closed = Some(now);
            self.tally.open -= 1;
            self.hosts.retire_if_over(now, id);
        }
    }

    fn on_timer(&mut self, now: Time) {
        let (_, bits) = self.hosts.timers.pop().expect("the caller saw a timer");
        match Timer::unpack(bits) {
            Timer::App(app) => {
                *self.timers_of(app) -= 1;
                if matches!(self.apps[app as usize], AnyApp::Background(_)) && self.only_sources_are_left() {
                    return;
                }
                self.tell(now, app, AppEvent::Timer);
            }
            Timer::End { connection: id, end } => {
                let hosts = &mut self.hosts;
                let connection = &mut hosts.connections[id];
                if connection.account.closed.is_some() || connection.planned[end] != now {
                    return;
                }
                connection.planned[end] = Time::NEVER;
                let config = &hosts.tcp[connection.account.transfer.tcp.0 as usize].0;
                let expired = connection.ends[end].on_time(now, config);
                let sender = connection.ends[end].sender().filter(|_| W::PACKETS && expired);
                if let Some(event) = connection.account.timed_out(sender) {
                    hosts.watch.record(now, &event);
                }
                self.pump(now, id, end);
            }
            Timer::Medium(key) => M::on_timer(self, now, key),
        }
    }

    /// Sends what this end has to send, and plans its timer.
    fn pump(&mut self, now: Time, id: u32, end: usize) {
        loop {
            let hosts = &mut self.hosts;
            let connection = &mut hosts.connections[id];
            let config = &hosts.tcp[connection.account.transfer.tcp.0 as usize].0;
            let owner = Owner::End { connection: id, end };
            let packed = hosts.medium.pack(now, &mut connection.ends[end], owner, config);
            let Some((out, body)) = packed else { break };
            let segment = &out.segment;
            let wire_bytes = config.wire_bytes(segment.seq, segment.len, segment.sack.len());
            let route = connection.routes[end];
            let mut packet = Packet { flow: id as u16, ..Packet::new(now, route, wire_bytes, body) };
            let sender = &connection.ends[end];
            let sending = || sender.sending(&out, config);
            if connection.account.sends(now, end, segment, &mut packet, sending) {
                hosts.medium.stamp(&packet);
            }
            self.tally.data_sent += u64::from(segment.len > 0 && end == SERVER);
            let sender = connection.ends[end].sender();
            if W::PACKETS
                && let Some(event) = connection.account.sent(sender, &out, &packet)
            {
                hosts.watch.record(now, &event);
            }
            let from = connection.account.transfer.node(end);
            self.launch(now, from, packet);
        }
        let connection = &mut self.hosts.connections[id];
        if let Some(deadline) = connection.ends[end].deadline()
            && deadline < connection.planned[end]
        {
            connection.planned[end] = deadline;
            self.hosts.timers.push(deadline, Timer::End { connection: id, end }.pack());
        }
    }
}

impl<M: Medium, W: Watch> NetworkFate for Hosts<M, W> {
    #[inline(always)]
    fn entered(&mut self, now: Time, at: PortId, packet: &Packet) {
        self.watch.packet(now, packet, self.medium.origin(packet.body), Step::Entered(at));
    }

    #[inline(always)]
    fn passed(&mut self, now: Time, at: PortId, packet: &Packet) {
        self.watch.packet(now, packet, self.medium.origin(packet.body), Step::Passed(at));
    }

    fn dropped(&mut self, now: Time, at: PortId, packet: Packet, why: DropReason) {
        self.watch.packet(now, &packet, self.medium.origin(packet.body), Step::Dropped(at, why));
        let (id, end) = match self.medium.owner(packet.body) {
            Owner::End { connection, end } => (connection, end),
            Owner::Datagram(flow, _) => {
                self.medium.release(packet.body);
                self.datagrams.dropped(flow);
                return self.record_datagram(now, flow, packet.len, DatagramStep::Dropped(at, why));
            }
            Owner::Other => {
                let data = self.medium.dropped(now, at, &packet, why, &mut self.watch);
                self.data_dropped += u64::from(data);
                return self.medium.release(packet.body);
            }
        };
        let (seq, len) = self.medium.data(packet.body);
        self.medium.release(packet.body);
        let connection = &mut self.connections[id];
        let data_of_server = len > 0 && end == SERVER;
        connection.account.loses(data_of_server);
        self.data_dropped += u64::from(data_of_server);
        if W::PACKETS {
            self.watch.record(now, &connection.account.lost(seq, at, &packet, why));
        }
        self.retire_if_over(now, id);
    }
}

impl<M: Medium, W: Watch> Hosts<M, W> {
    fn record_datagram(&mut self, now: Time, flow: FlowId, wire_bytes: u32, what: DatagramStep) {
        if W::PACKETS {
            self.watch.record(now, &Event::Datagram { flow, wire_bytes, what });
        }
    }

    /// The server hands over the document once the request is there.
    fn respond_if_asked(&mut self, now: Time, id: u32) {
        let connection = &mut self.connections[id];
        let transfer = connection.account.transfer;
        let server = &mut connection.ends[SERVER];
        if !connection.account.responded && server.received() >= transfer.request_bytes {
            connection.account.responded = true;
            let context = transfer.tells_size.then(|| FlowContext::document(transfer.bytes));
            server.write(now, transfer.bytes, context, true, &self.tcp[transfer.tcp.0 as usize].0);
        }
    }

    /// Records a closed connection when its last packet has left the network, and gives its number away.
    fn retire_if_over(&mut self, now: Time, id: u32) {
        let connection = &self.connections[id];
        if !connection.account.is_over() {
            return;
        }
        let stats = connection.ends[SERVER].sender().map(Sender::stats).unwrap_or_default();
        if let Some(record) = connection.account.record(stats) {
            self.watch.record(now, &Event::Connection(record));
        }
        self.connections.release(id);
    }
}

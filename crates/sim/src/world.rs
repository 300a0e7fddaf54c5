use crate::app::{AnyApp, AppAction, AppEvent, Application};
use crate::connection::{CLIENT, Connection, SERVER, tick_phase};
use crate::datagram::{DatagramCounters, Datagrams, FlowId};
use crate::record::{ConnectionRecord, DatagramStep, Event, Recorder, SenderView};
use crate::slab::Slab;
use crate::{Opener, TcpId, Transfer};
use catnip_base::{FlowContext, Rng, Span, Stream, Time};
use catnip_net::mark::{AnyMarker, PacketMarker, Spm, SpmParameters};
use catnip_net::{
    Calendar, DropReason, Ecn, Fabric, NetworkFate, NodeId, Out, Packet, PortId, Priority, Topology,
};
use catnip_tcp::{Endpoint, Outgoing, Role, Segment, Sender, TcpConfig};

/// One run: a network, the hosts at its edges, and a clock.
#[derive(Debug)]
pub struct Sim<R> {
    fabric: Fabric,
    hosts: Hosts<R>,
    now: Time,
}

/// What a run grows while it lasts: handed from one run to the next, so that only the first one grows it.
#[derive(Debug, Default)]
pub struct Memory {
    apps: Vec<AnyApp>,
    connections: Slab<Connection>,
    segments: Slab<Segment>,
    datagrams: Datagrams,
    timers: Calendar,
    actions: Vec<AppAction>,
}

/// Everything at the edges of the network.
#[derive(Debug)]
struct Hosts<R> {
    tcp: Vec<(TcpConfig, Option<SpmParameters>)>,
    apps: Vec<AnyApp>,
    connections: Slab<Connection>,
    segments: Slab<Segment>,
    timers: Calendar,
    /// Connections opened so far.
    opened: u64,
    /// Transfers whose last byte has arrived.
    completed: u64,
    /// Data segments of servers, sent and dropped.
    data_sent: u64,
    data_dropped: u64,
    seed: u64,
    tick_phase: Option<Span>,
    datagrams: Datagrams,
    /// Sources of background traffic, and how many of their timers run.
    sources: usize,
    source_timers: usize,
    recorder: R,
    /// Kept to reuse its memory.
    actions: Vec<AppAction>,
}

/// What a timer belongs to, packed into the 32 bits of a calendar entry.
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

impl<R: Recorder> Sim<R> {
    /// A network at time zero with nobody at its edges.
    pub fn new(topology: &Topology, seed: u64, recorder: R) -> Self {
        Self::with_memory(topology, seed, recorder, Memory::default())
    }

    /// The same in the memory of a run that is over; nothing of that run is left in it.
    pub fn with_memory(topology: &Topology, seed: u64, recorder: R, memory: Memory) -> Self {
        let Memory { mut apps, mut connections, mut segments, mut datagrams, mut timers, mut actions } =
            memory;
        apps.clear();
        connections.clear();
        segments.clear();
        datagrams.clear();
        timers.clear();
        actions.clear();
        let hosts = Hosts {
            tcp: Vec::new(),
            apps,
            connections,
            segments,
            timers,
            opened: 0,
            completed: 0,
            data_sent: 0,
            data_dropped: 0,
            seed,
            tick_phase: None,
            datagrams,
            sources: 0,
            source_timers: 0,
            recorder,
            actions,
        };
        Self { fabric: Fabric::new(topology, seed), hosts, now: Time::ZERO }
    }

    /// Parameters for connections to come, and how their data is marked.
    pub fn add_tcp(&mut self, config: TcpConfig, marker: Option<SpmParameters>) -> TcpId {
        self.hosts.tcp.push((config, marker));
        TcpId(self.hosts.tcp.len() as u32 - 1)
    }

    /// Packets without a connection, from one host to another.
    pub fn add_flow(&mut self, from: NodeId, to: NodeId) -> FlowId {
        self.hosts.datagrams.add_flow(&mut self.fabric, from, to)
    }

    /// What has become of the packets of a flow.
    pub fn datagrams(&self, flow: FlowId) -> DatagramCounters {
        self.hosts.datagrams.counters(flow)
    }

    /// Gives the clocks of all hosts this phase instead of a random one each.
    pub fn set_tick_phase(&mut self, phase: Option<Span>) {
        self.hosts.tick_phase = phase;
    }

    /// Adds an application; it hears [`AppEvent::Start`] at once. Its number is what records call it.
    pub fn add_app(&mut self, app: AnyApp) -> u32 {
        let id = self.hosts.apps.len() as u32;
        self.hosts.sources += usize::from(matches!(app, AnyApp::Background(_)));
        self.hosts.apps.push(app);
        self.hosts.tell(&mut self.fabric, self.now, id, AppEvent::Start);
        id
    }

    /// Runs until nothing is left to do or the clock would pass `end`. Background traffic does not count, unless there is
    /// nothing else: it falls silent when everybody else is done.
    pub fn run(&mut self, end: Time) {
        loop {
            let timer = self.hosts.timers.peek().map_or(Time::NEVER, |(at, _)| at);
            match self.fabric.poll(timer.min(end), &mut self.hosts) {
                Out::Deliver(at, _, packet) => {
                    self.now = at;
                    self.hosts.on_delivery(&mut self.fabric, at, packet);
                }
                Out::Wait(_) | Out::Idle if timer <= end && timer < Time::NEVER => {
                    self.now = timer;
                    self.hosts.on_timer(&mut self.fabric, timer);
                }
                Out::Wait(_) | Out::Idle => break,
            }
        }
    }

    /// The time of the last event.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The network.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// The recorder.
    pub fn recorder(&self) -> &R {
        &self.hosts.recorder
    }

    /// The recorder, at the end.
    pub fn into_recorder(self) -> R {
        self.hosts.recorder
    }

    /// The memory, at the end, for another run.
    pub fn into_memory(self) -> Memory {
        let Hosts { apps, connections, segments, datagrams, timers, actions, .. } = self.hosts;
        Memory { apps, connections, segments, datagrams, timers, actions }
    }

    /// Connections opened so far.
    pub fn connections_opened(&self) -> u64 {
        self.hosts.opened
    }

    /// Documents that have arrived whole.
    pub fn transfers_completed(&self) -> u64 {
        self.hosts.completed
    }

    /// Data segments that servers have sent, retransmissions included, and how many of them were dropped.
    pub fn data_segments(&self) -> (u64, u64) {
        (self.hosts.data_sent, self.hosts.data_dropped)
    }

    /// Packets that hosts have sent and of which they have heard no end, neither a delivery nor a drop. Counted by the hosts,
    /// this is the same number as inside the fabric, or a packet was lost silently.
    pub fn packets_out(&self) -> usize {
        self.hosts.segments.in_use() + self.hosts.datagrams.in_network()
    }
}

impl<R: Recorder> NetworkFate for Hosts<R> {
    fn dropped(&mut self, now: Time, at: PortId, packet: Packet, why: DropReason) {
        if Datagrams::has(&packet) {
            let flow = self.datagrams.dropped(now, &packet);
            return self.record_datagram(now, flow, packet.len, DatagramStep::Dropped(at, why));
        }
        let segment = self.segments[packet.body];
        self.segments.release(packet.body);
        let connection = &mut self.connections[packet.flow >> 1];
        connection.in_network -= 1;
        if segment.len > 0 && (packet.flow & 1) as usize == SERVER {
            connection.dropped += 1;
            self.data_dropped += 1;
        }
        if R::PACKETS {
            let event = Event::Dropped {
                connection: connection.number,
                seq: segment.seq,
                wire_bytes: packet.len,
                port: at,
                priority: packet.priority,
                why,
            };
            self.recorder.record(now, &event);
        }
        self.retire_if_over(now, packet.flow >> 1);
    }
}

impl<R: Recorder> Hosts<R> {
    fn tell(&mut self, fabric: &mut Fabric, now: Time, app: u32, event: AppEvent) {
        let mut actions = std::mem::take(&mut self.actions);
        self.apps[app as usize].on_event(now, app, event, &mut actions);
        for action in actions.drain(..) {
            match action {
                AppAction::Open(transfer) => self.open(fabric, now, app, transfer),
                AppAction::Send { flow, bytes } => self.send(fabric, now, flow, bytes),
                AppAction::TimerAt(at) => {
                    self.source_timers += usize::from(self.is_source(app));
                    self.timers.push(at.max(now), Timer::App(app).pack());
                }
                AppAction::Object(record) => self.recorder.record(now, &Event::Object(record)),
                AppAction::Page(record) => self.recorder.record(now, &Event::Page(record)),
            }
        }
        self.actions = actions;
    }

    #[inline(never)]
    fn send(&mut self, fabric: &mut Fabric, now: Time, flow: FlowId, bytes: u32) {
        let (from, packet) = self.datagrams.send(now, flow, bytes);
        self.record_datagram(now, flow, bytes, DatagramStep::Sent);
        fabric.arrive(now, from, packet, self);
    }

    fn record_datagram(&mut self, now: Time, flow: FlowId, wire_bytes: u32, what: DatagramStep) {
        if R::PACKETS {
            self.recorder.record(now, &Event::Datagram { flow, wire_bytes, what });
        }
    }

    fn is_source(&self, app: u32) -> bool {
        matches!(self.apps[app as usize], AnyApp::Background(_))
    }

    /// Is there nothing else than background traffic any more, though there was?
    fn only_sources_are_left(&self) -> bool {
        self.sources < self.apps.len()
            && self.connections.in_use() == 0
            && self.timers.len() == self.source_timers
    }

    fn open(&mut self, fabric: &mut Fabric, now: Time, app: u32, transfer: Transfer) {
        let number = self.opened;
        self.opened += 1;
        let (config, marker) = &self.tcp[transfer.tcp.0 as usize];
        let mut rng = Rng::new(self.seed, Stream::Connection(number as u32));
        let (clock, fixed) = (config.slowest_clock(), self.tick_phase);
        let mut end =
            |role| Endpoint::new(now, role, config, fixed.unwrap_or(tick_phase(clock, rng.uniform())));
        let (server, client) = match transfer.opener {
            Opener::Server => (end(Role::Active), end(Role::Passive)),
            Opener::Client => (end(Role::Passive), end(Role::Active)),
        };
        let mut connection = Connection {
            ends: [client, server],
            planned: [Time::NEVER; 2],
            in_network: 0,
            transfer,
            responded: false,
            done_at_client: None,
            closed: None,
            dropped: 0,
            sent_high: 0,
            marker: marker.map_or(AnyMarker::None, |parameters| AnyMarker::Spm(Spm::new(parameters))),
            app,
            number,
            opened: now,
        };
        if transfer.request_bytes > 0 {
            connection.ends[CLIENT].write(now, transfer.request_bytes, None, false, config);
        }
        let id = self.connections.insert(connection);
        fabric.set_destination(id << 1 | SERVER as u32, transfer.client);
        fabric.set_destination(id << 1 | CLIENT as u32, transfer.server);
        self.respond_if_asked(now, id);
        self.pump(fabric, now, id, CLIENT);
        self.pump(fabric, now, id, SERVER);
    }

    /// The server hands over the document once the request is there.
    fn respond_if_asked(&mut self, now: Time, id: u32) {
        let connection = &mut self.connections[id];
        let transfer = connection.transfer;
        let server = &mut connection.ends[SERVER];
        if !connection.responded && server.received() >= transfer.request_bytes {
            connection.responded = true;
            let context = transfer.tells_size.then(|| FlowContext::document(transfer.bytes));
            server.write(now, transfer.bytes, context, true, &self.tcp[transfer.tcp.0 as usize].0);
        }
    }

    fn on_delivery(&mut self, fabric: &mut Fabric, now: Time, packet: Packet) {
        if Datagrams::has(&packet) {
            let (flow, delay) = self.datagrams.received(now, &packet);
            return self.record_datagram(now, flow, packet.len, DatagramStep::Received(delay));
        }
        let (id, end) = (packet.flow >> 1, 1 - (packet.flow & 1) as usize);
        let segment = self.segments[packet.body];
        self.segments.release(packet.body);
        let connection = &mut self.connections[id];
        connection.in_network -= 1;
        if connection.closed.is_some() {
            return self.retire_if_over(now, id);
        }
        let config = &self.tcp[connection.transfer.tcp.0 as usize].0;
        let endpoint = &mut connection.ends[end];
        let received_before = endpoint.received();
        endpoint.on_segment(now, &segment, config);
        if R::PACKETS
            && segment.flags.ack
            && !segment.flags.syn
            && segment.span() == 0
            && let Some(sender) = connection.ends[end].sender()
        {
            let view = sender_view(connection.number, sender, segment.ack, packet.len, false, Priority::Low);
            self.recorder.record(now, &Event::Acked(view));
        }
        if segment.len > 0 {
            if end == CLIENT {
                self.on_client_data(fabric, now, id, received_before);
            } else {
                self.respond_if_asked(now, id);
            }
        }
        self.pump(fabric, now, id, end);
        if end == SERVER {
            self.close_if_done(now, id);
        }
    }

    /// Tells the application how far its document has come.
    fn on_client_data(&mut self, fabric: &mut Fabric, now: Time, id: u32, received_before: u64) {
        let connection = &mut self.connections[id];
        let transfer = connection.transfer;
        let received = connection.ends[CLIENT].received();
        let (app, tag) = (connection.app, transfer.tag);
        if received == transfer.bytes && connection.done_at_client.is_none() {
            connection.done_at_client = Some(now);
            self.completed += 1;
            // The ACK leaves before the application reacts.
            self.pump(fabric, now, id, CLIENT);
            self.tell(fabric, now, app, AppEvent::Complete { tag });
        } else if transfer.notify_at.is_some_and(|at| received_before < at && at <= received) {
            self.pump(fabric, now, id, CLIENT);
            self.tell(fabric, now, app, AppEvent::Reached { tag });
        }
    }

    /// A connection is closed once the client has the document and the server knows it.
    fn close_if_done(&mut self, now: Time, id: u32) {
        let connection = &mut self.connections[id];
        let acknowledged = connection.ends[SERVER].sender().is_some_and(|sender| sender.is_done());
        if connection.done_at_client.is_some() && acknowledged {
            connection.closed = Some(now);
            self.retire_if_over(now, id);
        }
    }

    /// Records a closed connection when its last packet has left the network, and gives its number away.
    fn retire_if_over(&mut self, now: Time, id: u32) {
        let connection = &self.connections[id];
        let (Some(acked), Some(received), 0) =
            (connection.closed, connection.done_at_client, connection.in_network)
        else {
            return;
        };
        let stats = connection.ends[SERVER].sender().map(|sender| sender.stats()).unwrap_or_default();
        let record = ConnectionRecord {
            connection: connection.number,
            app: connection.app,
            bytes: connection.transfer.bytes,
            opened: connection.opened,
            received,
            acked,
            sent: stats.sent,
            sent_high: connection.sent_high,
            retransmitted: stats.retransmitted,
            timeouts: stats.timeouts,
            fast_retransmits: stats.fast_retransmits,
            dropped: connection.dropped,
        };
        self.recorder.record(now, &Event::Connection(record));
        self.connections.release(id);
    }

    fn on_timer(&mut self, fabric: &mut Fabric, now: Time) {
        let (_, bits) = self.timers.pop().expect("the caller saw a timer");
        match Timer::unpack(bits) {
            Timer::App(app) => {
                if self.is_source(app) {
                    self.source_timers -= 1;
                    if self.only_sources_are_left() {
                        return;
                    }
                }
                self.tell(fabric, now, app, AppEvent::Timer);
            }
            Timer::End { connection: id, end } => {
                let connection = &mut self.connections[id];
                if connection.closed.is_some() || connection.planned[end] != now {
                    return;
                }
                connection.planned[end] = Time::NEVER;
                let config = &self.tcp[connection.transfer.tcp.0 as usize].0;
                let expired = connection.ends[end].on_time(now, config);
                if R::PACKETS
                    && expired
                    && let Some(sender) = connection.ends[end].sender()
                {
                    let view = sender_view(connection.number, sender, sender.una(), 0, true, Priority::Low);
                    self.recorder.record(now, &Event::Timeout(view));
                }
                self.pump(fabric, now, id, end);
            }
        }
    }

    /// Sends what this end has to send, and plans its timer.
    fn pump(&mut self, fabric: &mut Fabric, now: Time, id: u32, end: usize) {
        loop {
            let connection = &mut self.connections[id];
            let config = &self.tcp[connection.transfer.tcp.0 as usize].0;
            let Some(out) = connection.ends[end].transmit(now, config) else { break };
            let packet = packet_of(&out, connection, id, end, now, config, &mut self.segments);
            connection.in_network += 1;
            connection.sent_high += u32::from(packet.priority == Priority::High && end == SERVER);
            self.data_sent += u64::from(out.segment.len > 0 && end == SERVER);
            if R::PACKETS
                && out.segment.span() > 0
                && let Some(sender) = connection.ends[end].sender()
            {
                let (seq, again) = (out.segment.seq, out.retransmission);
                let view = sender_view(connection.number, sender, seq, packet.len, again, packet.priority);
                self.recorder.record(now, &Event::Sent(view));
            }
            let from = connection.transfer.node(end);
            fabric.arrive(now, from, packet, self);
        }
        let connection = &mut self.connections[id];
        if let Some(deadline) = connection.ends[end].deadline()
            && deadline < connection.planned[end]
        {
            connection.planned[end] = deadline;
            self.timers.push(deadline, Timer::End { connection: id, end }.pack());
        }
    }
}

/// Puts a segment into a packet and has it marked.
#[inline]
fn packet_of(
    out: &Outgoing,
    connection: &mut Connection,
    id: u32,
    end: usize,
    now: Time,
    config: &TcpConfig,
    segments: &mut Slab<Segment>,
) -> Packet {
    let segment = &out.segment;
    let mut packet = Packet {
        arrived: now,
        flow: id << 1 | end as u32,
        len: config.wire_bytes(segment.seq, segment.len, segment.sack.len()),
        body: segments.insert(*segment),
        ecn: Ecn::NotEct,
        priority: Priority::Low,
        class: 0,
    };
    if !matches!(connection.marker, AnyMarker::None) && segment.span() > 0 {
        let sending = connection.ends[end].sending(out, config);
        connection.marker.mark(now, sending.as_ref(), &mut packet);
    }
    packet
}

fn sender_view(
    connection: u64,
    sender: &Sender,
    seq: u64,
    wire_bytes: u32,
    retransmission: bool,
    priority: Priority,
) -> SenderView {
    let control = sender.control();
    SenderView {
        connection,
        seq,
        wire_bytes,
        priority,
        retransmission,
        cwnd: control.cwnd,
        ssthresh: control.ssthresh,
        dupacks: sender.dupacks(),
    }
}

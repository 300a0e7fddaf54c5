use super::fetch::{Fetch, Next};
use super::http::{self, Version};
use super::slab::Slab;
use super::socket::{Heard, Identity, Socket, refuse};
use crate::buffers::{Buffers, Entry};
use crate::classify::{Refusal, classify};
use crate::mark::Marker;
use catnip_base::{FlowContext, Rng, Span, Stream, Time};
use catnip_lab::{ObjectName, Plan, Service, Stage};
use catnip_net::mark::{AnyMarker, PacketMarker, Spm, SpmParameters};
use catnip_net::{
    Calendar, DropReason, Ecn, Fabric, NetworkFate, NodeId, Out, Packet, PortId, Priority, Topology,
};
use catnip_sim::app::{AnyApp, AppAction, AppEvent, Application, Http};
use catnip_sim::record::{ConnectionRecord, DatagramStep, Event, SenderView};
use catnip_sim::{FlowId, Opener, Recorder, TcpId, Transfer};
use catnip_tcp::{Outgoing, Role, Segment, Sender, TcpConfig};
use catnip_wire::checksum;
use catnip_wire::ip::{self, Ip};
use catnip_wire::{Addresses, PriorityCodec, Tcp, TcpFlags};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
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

/// Hears what happens in a [`World`].
pub trait Audience: Recorder {
    /// A packet has entered the network.
    fn entered(&mut self, _entry: &Entry, _packet: &Packet, _bytes: &[u8]) {}
    /// It was dropped at a port.
    fn dropped(&mut self, _at: Time, _entry: &Entry, _packet: &Packet, _port: PortId, _why: DropReason) {}
    /// It has come out at a host. For a real one: when, and whether its device took it.
    fn delivered(&mut self, _ideal: Time, _entry: &Entry, _packet: &Packet, _real: Option<Delivery>) {}
    /// It comes to a port.
    fn came_to(&mut self, _at: Time, _entry: &Entry, _packet: &Packet, _port: PortId) {}
    /// It has come from a port to the other end of its link.
    fn passed(&mut self, _at: Time, _entry: &Entry, _packet: &Packet, _port: PortId) {}
    /// What a real server has answered, or what a real client has been given, before the connection's own record.
    fn replied(&mut self, _reply: &Reply) {}
    /// A packet of a real host was not let in.
    fn refused(&mut self, _at: Time, _from: NodeId, _why: Refusal) {}
}

impl Audience for () {}

/// What came back over a connection with a real host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Number of the connection.
    pub connection: u64,
    /// The application, or [`NOBODY`].
    pub app: u32,
    /// What it called the transfer.
    pub tag: u32,
    /// The traffic group, by its TCP parameters.
    pub tcp: TcpId,
    /// HTTP status; 0 without a response.
    pub status: u16,
    /// Bytes of the body or bodies.
    pub body_bytes: u64,
    /// FNV-1a of the (last) body.
    pub digest: u64,
    /// All of it came.
    pub whole: bool,
}

/// How a packet got to a real host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// When it was written to its device.
    pub actual: Time,
    /// The device took it.
    pub written: bool,
}

/// Where packets go that leave the network at a real host.
pub trait Outside {
    /// A packet arrives there at this ideal time.
    fn deliver(&mut self, ideal: Time, node: NodeId, packet: &[u8]) -> Delivery;
}

/// No host is real.
impl Outside for () {
    fn deliver(&mut self, ideal: Time, _node: NodeId, _packet: &[u8]) -> Delivery {
        Delivery { actual: ideal, written: false }
    }
}

/// What has become of the packets of a source of background traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Datagrams {
    /// How many the source has sent.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// How many have arrived.
    pub received: u64,
    /// How many the network has dropped.
    pub dropped: u64,
    /// Mean delay, and the sum of squared distances from it, in seconds.
    delay: (f64, f64),
}

impl Datagrams {
    /// Mean and variance of the delay, seconds; NaN without packets.
    pub fn delay_s(&self) -> (f64, f64) {
        let (mean, squares) = self.delay;
        match self.received {
            0 => (f64::NAN, f64::NAN),
            1 => (mean, f64::NAN),
            n => (mean, squares / (n - 1) as f64),
        }
    }

    fn receive(&mut self, delay: Span) {
        self.received += 1;
        let off = delay.as_secs() - self.delay.0;
        self.delay.0 += off / self.received as f64;
        self.delay.1 += off * (delay.as_secs() - self.delay.0);
    }
}

/// The two addresses of a connection, ours first.
type Ends = (SocketAddrV4, SocketAddrV4);

#[derive(Debug)]
struct Hosts<A> {
    topology: Topology,
    /// Flows of packets that belong to no connection of ours, by their two ends; none if there is no route.
    pair_flows: BTreeMap<(NodeId, NodeId), Option<u32>>,
    tcp: Vec<(Arc<TcpConfig>, Option<SpmParameters>)>,
    services: Vec<Service>,
    /// Traffic groups by where their simulated servers wait for real clients.
    listeners: BTreeMap<SocketAddrV4, TcpId>,
    /// What these servers have.
    documents: BTreeMap<(SocketAddrV4, String), u64>,
    addresses: Vec<Ipv4Addr>,
    nodes: BTreeMap<Ipv4Addr, NodeId>,
    is_real: Vec<bool>,
    /// Real hosts whose packets are marked for them as they come.
    is_marked: Vec<bool>,
    marker: Marker,
    /// Ports given to clients, per node.
    ports: Vec<u16>,
    by_ends: BTreeMap<Ends, (u32, usize)>,
    apps: Vec<AnyApp>,
    connections: Slab<Connection>,
    /// Transfers of users that have not arrived, their connections that are not closed, and when the last one arrived.
    users_waiting: usize,
    users_live: usize,
    last_done: Time,
    buffers: Buffers,
    parcels: Vec<Parcel>,
    entered: u64,
    flows: Vec<(NodeId, NodeId, Datagrams)>,
    timers: Calendar,
    opened: u64,
    completed: u64,
    data_sent: u64,
    data_dropped: u64,
    seed: u64,
    sources: usize,
    source_timers: usize,
    app_timers: usize,
    stray: u64,
    audience: A,
    actions: Vec<AppAction>,
}

/// What is known of the packet in a buffer.
#[derive(Clone, Copy, Debug, Default)]
struct Parcel {
    owner: Owner,
    seq: u64,
    data_bytes: u32,
}

#[derive(Clone, Copy, Debug, Default)]
enum Owner {
    /// It comes from a real host, or answers a packet that belongs nowhere.
    #[default]
    Nobody,
    /// An end of a connection sent it.
    End(u32, usize),
    Datagram(FlowId, Time),
}

const CLIENT: usize = 0;
const SERVER: usize = 1;

/// A connection of which at least one end is simulated.
#[derive(Debug)]
struct Connection {
    ends: [Option<Socket>; 2],
    planned: [Time; 2],
    in_network: u32,
    transfer: Transfer,
    responded: bool,
    done_at_client: Option<Time>,
    closed: Option<Time>,
    recorded: bool,
    /// Kept so long after the end, to answer what comes again.
    linger_until: Time,
    dropped: u32,
    sent_high: u32,
    marker: AnyMarker,
    app: u32,
    number: u64,
    opened: Time,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Both ends are simulated: the simulator's connection.
    Simulated,
    /// The server is real.
    Fetch(Box<Fetch>),
    /// The client is real: what it has asked so far, and the status of the answer.
    Serve { request: Vec<u8>, status: u16 },
}

/// Applications of real clients have no number.
pub const NOBODY: u32 = u32::MAX;

/// As long as the kernel keeps connections in TIME-WAIT.
const LINGER: Span = Span::from_secs(60);
/// A server that has not closed so long after its response never will.
const LAST_WORDS: Span = Span::from_secs(5);
const FIRST_PORT: u16 = 32768;
const MOST_PACKETS: u32 = 1 << 18;
const MOST_CONNECTIONS: usize = 1 << 16;
const UDP_HEADERS: usize = 28;

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

impl<A: Audience> NetworkFate for Hosts<A> {
    fn entered(&mut self, now: Time, at: PortId, packet: &Packet) {
        self.audience.came_to(now, &self.buffers.entry(packet.body), packet, at);
    }

    fn passed(&mut self, now: Time, at: PortId, packet: &Packet) {
        self.audience.passed(now, &self.buffers.entry(packet.body), packet, at);
    }

    fn dropped(&mut self, now: Time, at: PortId, packet: Packet, why: DropReason) {
        let parcel = self.parcels[packet.body as usize];
        self.audience.dropped(now, &self.buffers.entry(packet.body), &packet, at, why);
        self.buffers.release(packet.body);
        match parcel.owner {
            Owner::Nobody => {}
            Owner::Datagram(flow, _) => {
                self.flows[flow.0 as usize].2.dropped += 1;
                self.record_datagram(now, flow, packet.len, DatagramStep::Dropped(at, why));
            }
            Owner::End(id, end) => {
                let connection = &mut self.connections[id];
                connection.in_network -= 1;
                if parcel.data_bytes > 0 && end == SERVER {
                    connection.dropped += 1;
                    self.data_dropped += 1;
                }
                if A::PACKETS {
                    let event = Event::Dropped {
                        connection: connection.number,
                        seq: parcel.seq,
                        wire_bytes: packet.len,
                        port: at,
                        priority: packet.priority,
                        why,
                    };
                    self.audience.record(now, &event);
                }
                self.retire_if_over(now, id);
            }
        }
    }
}

impl<A: Audience> Hosts<A> {
    /// Prepares simulated servers for the real clients of their groups.
    fn listen(&mut self, plan: &Plan) {
        for (group, index) in plan.groups().zip(0..) {
            for &(server, client) in group.pairs {
                if !self.is_real[client.0 as usize] {
                    continue;
                }
                let at = SocketAddrV4::new(self.addresses[server.0 as usize], group.service.port);
                self.listeners.entry(at).or_insert(TcpId(index));
                let documents = plan.documents(server).into_iter().map(|(path, bytes)| ((at, path), bytes));
                self.documents.extend(documents);
            }
        }
    }

    /// Sends what is in the packet's buffer.
    fn launch(&mut self, fabric: &mut Fabric, from: NodeId, packet: Packet, len: usize, parcel: Parcel) {
        let slot = packet.body as usize;
        if self.parcels.len() <= slot {
            self.parcels.resize(slot + 1, Parcel::default());
        }
        self.parcels[slot] = parcel;
        let entry = Entry {
            number: self.entered,
            arrived: packet.arrived,
            len: len as u32,
            from: from.0,
            ..Entry::default()
        };
        self.entered += 1;
        self.buffers.set_entry(packet.body, entry);
        self.audience.entered(&entry, &packet, self.buffers.packet_mut(packet.body));
        fabric.arrive(packet.arrived, from, packet, self);
    }

    /// A packet of a real host goes on its way.
    fn forward(&mut self, fabric: &mut Fabric, from: NodeId, mut packet: Packet) {
        let bytes = &mut self.buffers.bytes_mut(packet.body)[..packet.len as usize];
        if self.is_marked[from.0 as usize]
            && let Some(priority) = self.marker.mark(from.0 as usize, bytes)
        {
            packet.priority = priority;
            // It was read as an IP packet when it came.
            let _ = PriorityCodec::default().write(bytes, priority);
        }
        let mut parcel = Parcel::default();
        if let Some((ends, tcp)) = parse(bytes)
            && let Some(&(id, end)) = self.by_ends.get(&ends)
        {
            let connection = &mut self.connections[id];
            parcel =
                Parcel { owner: Owner::End(id, 1 - end), seq: 0, data_bytes: tcp.payload().len() as u32 };
            connection.in_network += 1;
            if let Kind::Fetch(fetch) = &mut connection.kind {
                fetch.server.see(&tcp);
                connection.sent_high += u32::from(packet.priority == Priority::High);
                self.data_sent += u64::from(parcel.data_bytes > 0);
            }
        }
        let len = packet.len as usize;
        self.launch(fabric, from, packet, len, parcel);
    }

    fn tell(&mut self, fabric: &mut Fabric, now: Time, app: u32, event: AppEvent) {
        let mut actions = std::mem::take(&mut self.actions);
        self.apps[app as usize].on_event(now, app, event, &mut actions);
        for action in actions.drain(..) {
            match action {
                AppAction::Open(transfer) => self.open(fabric, now, app, transfer),
                AppAction::Send { flow, bytes } => self.send(fabric, now, flow, bytes),
                AppAction::TimerAt(at) => {
                    match self.is_source(app) {
                        true => self.source_timers += 1,
                        false => self.app_timers += 1,
                    }
                    self.timers.push(at.max(now), Timer::App(app).pack());
                }
                AppAction::Object(record) => self.audience.record(now, &Event::Object(record)),
                AppAction::Page(record) => self.audience.record(now, &Event::Page(record)),
            }
        }
        self.actions = actions;
    }

    /// A datagram: a UDP packet, as far as the buffer holds it.
    fn send(&mut self, fabric: &mut Fabric, now: Time, flow: FlowId, bytes: u32) {
        let Some(slot) = self.buffers.take() else { return };
        let (from, to, counters) = &mut self.flows[flow.0 as usize];
        counters.sent += 1;
        counters.sent_bytes += u64::from(bytes);
        let from = *from;
        let ends = [self.addresses[from.0 as usize], self.addresses[to.0 as usize]];
        let buffer = self.buffers.bytes_mut(slot);
        let len = (bytes as usize).clamp(UDP_HEADERS, buffer.len());
        write_datagram(ends, &mut buffer[..len]);
        self.record_datagram(now, flow, bytes, DatagramStep::Sent);
        let packet = Packet {
            arrived: now,
            flow: Fabric::SECOND_FLOWS | flow.0,
            len: bytes,
            body: slot,
            ecn: Ecn::NotEct,
            priority: Priority::Low,
            class: 0,
        };
        let parcel = Parcel { owner: Owner::Datagram(flow, now), ..Parcel::default() };
        self.launch(fabric, from, packet, len, parcel);
    }

    fn record_datagram(&mut self, now: Time, flow: FlowId, wire_bytes: u32, what: DatagramStep) {
        if A::PACKETS {
            self.audience.record(now, &Event::Datagram { flow, wire_bytes, what });
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

    /// A port of a client that no connection to this server uses.
    fn client_port(&mut self, client: NodeId, server: SocketAddrV4) -> u16 {
        let address = self.addresses[client.0 as usize];
        let used = &mut self.ports[client.0 as usize];
        loop {
            let port = FIRST_PORT + *used;
            *used = (*used + 1) % (u16::MAX - FIRST_PORT);
            if !self.by_ends.contains_key(&(SocketAddrV4::new(address, port), server)) {
                return port;
            }
        }
    }

    fn open(&mut self, fabric: &mut Fabric, now: Time, app: u32, transfer: Transfer) {
        let number = self.opened;
        self.opened += 1;
        let (config, marker) = self.tcp[transfer.tcp.0 as usize].clone();
        let mut rng = Rng::new(self.seed, Stream::Connection(number as u32));
        let clock = config.slowest_clock();
        let mut phase = || tick_phase(clock, rng.uniform());
        let phases = [phase(), phase()];
        let service = &self.services[transfer.tcp.0 as usize];
        let server = SocketAddrV4::new(self.addresses[transfer.server.0 as usize], service.port);
        let port = self.client_port(transfer.client, server);
        let client = SocketAddrV4::new(self.addresses[transfer.client.0 as usize], port);
        let stranger = self.is_real[transfer.server.0 as usize];
        let mut end = |local, remote, role, phase| {
            let identity = Identity { local, remote, initial_sequence: rng.next_u32(), stranger };
            Socket::new(now, role, &config, phase, identity)
        };
        let (server_role, client_role) = match transfer.opener {
            Opener::Server => (Role::Active, Role::Passive),
            Opener::Client => (Role::Passive, Role::Active),
        };
        let mut server_end = end(server, client, server_role, phases[0]);
        let mut client_end = end(client, server, client_role, phases[1]);
        let kind = if stranger {
            let mut fetch = self.fetch(app, &transfer, server);
            if let Some(request) = fetch.ask() {
                client_end.write(now, &request);
            }
            Kind::Fetch(Box::new(fetch))
        } else {
            if !config.handshake {
                Socket::introduce(&mut client_end, &mut server_end);
            }
            if transfer.request_bytes > 0 {
                client_end.fill(now, transfer.request_bytes, None, false);
            }
            Kind::Simulated
        };
        let marker = marker.map_or(AnyMarker::None, |parameters| AnyMarker::Spm(Spm::new(parameters)));
        let ends = [Some(client_end), (!stranger).then_some(server_end)];
        let id = self.insert(Connection {
            ends,
            planned: [Time::NEVER; 2],
            in_network: 0,
            transfer,
            responded: false,
            done_at_client: None,
            closed: None,
            recorded: false,
            linger_until: Time::ZERO,
            dropped: 0,
            sent_high: 0,
            marker,
            app,
            number,
            opened: now,
            kind,
        });
        fabric.set_destination(id << 1 | SERVER as u32, transfer.client);
        fabric.set_destination(id << 1 | CLIENT as u32, transfer.server);
        self.respond_if_asked(now, id);
        self.pump(fabric, now, id, CLIENT);
        self.pump(fabric, now, id, SERVER);
    }

    fn insert(&mut self, connection: Connection) -> u32 {
        let users = usize::from(connection.app != NOBODY);
        self.users_waiting += users;
        self.users_live += users;
        let id = self.connections.insert(connection);
        for (end, socket) in self.connections[id].ends.iter().enumerate() {
            if let Some(socket) = socket {
                self.by_ends.insert(socket.ends(), (id, end));
            }
        }
        id
    }

    /// What an application wants when it opens a connection to a real server.
    fn fetch(&self, app: u32, transfer: &Transfer, server: SocketAddrV4) -> Fetch {
        let paths = &self.services[transfer.tcp.0 as usize].paths;
        let host = match server.port() {
            80 => server.ip().to_string(),
            _ => server.to_string(),
        };
        let name = ObjectName { object: transfer.tag, bytes: transfer.bytes, user: app, page: 0 };
        match &self.apps[app as usize] {
            AnyApp::Web(client) if client.http() == Http::V11 => {
                let objects = (0..).zip(client.objects());
                let all = objects.map(|(object, &bytes)| {
                    paths.of(ObjectName { object, bytes, page: client.page(), ..name })
                });
                Fetch::new(all, host, Version::V11)
            }
            AnyApp::Web(client) => {
                let path = paths.of(ObjectName { page: client.page(), ..name });
                Fetch::new([path], host, Version::V10)
            }
            _ => Fetch::new([paths.of(name)], host, Version::V10),
        }
    }

    /// A simulated server hands over the document once the request is there.
    fn respond_if_asked(&mut self, now: Time, id: u32) {
        let connection = &mut self.connections[id];
        let transfer = connection.transfer;
        if connection.responded || !matches!(connection.kind, Kind::Simulated) {
            return;
        }
        let Some(server) = &mut connection.ends[SERVER] else { return };
        if server.received() >= transfer.request_bytes {
            connection.responded = true;
            let context = transfer.tells_size.then(|| FlowContext::document(transfer.bytes));
            server.fill(now, transfer.bytes, context, true);
        }
    }

    fn on_delivery(
        &mut self,
        fabric: &mut Fabric,
        now: Time,
        node: NodeId,
        packet: Packet,
        outside: &mut impl Outside,
    ) {
        if packet.ecn == Ecn::Ce {
            // It was read or written as an IP packet when it came.
            let _ = ip::set_ecn(self.buffers.packet_mut(packet.body), Ecn::Ce);
        }
        let parcel = self.parcels[packet.body as usize];
        let (mut seen, mut real) = (None, None);
        if self.is_real[node.0 as usize] {
            let bytes = self.buffers.packet_mut(packet.body);
            if self.is_marked[node.0 as usize] {
                // What the marker of a server knows, it knows when the server does.
                self.marker.mark(usize::MAX, bytes);
            }
            real = Some(outside.deliver(now, node, bytes));
        } else if !matches!(parcel.owner, Owner::Datagram(..)) {
            seen = self.hear(now, &packet);
        }
        self.audience.delivered(now, &self.buffers.entry(packet.body), &packet, real);
        self.buffers.release(packet.body);
        match parcel.owner {
            Owner::Datagram(flow, sent) => {
                let delay = now - sent;
                self.flows[flow.0 as usize].2.receive(delay);
                self.record_datagram(now, flow, packet.len, DatagramStep::Received(delay));
                return;
            }
            Owner::End(id, _) => self.connections[id].in_network -= 1,
            Owner::Nobody => {}
        }
        match seen {
            Some(Seen { id, end, heard, before }) => {
                self.on_heard(fabric, now, id, end, &packet, heard, before);
            }
            None => {
                if let Owner::End(id, _) = parcel.owner {
                    self.retire_if_over(now, id);
                }
                if !self.is_real[node.0 as usize] {
                    self.on_stray(fabric, now, node, &packet);
                }
            }
        }
    }

    /// Gives a packet to the socket that it is for, if there is one that still listens.
    fn hear(&mut self, now: Time, packet: &Packet) -> Option<Seen> {
        let bytes = self.buffers.packet_mut(packet.body);
        let (ends, tcp) = parse(bytes)?;
        let &(id, end) = self.by_ends.get(&ends)?;
        let connection = &mut self.connections[id];
        if connection.closed.is_some() && matches!(connection.kind, Kind::Simulated) {
            return Some(Seen { id, end, heard: Heard::Nothing, before: 0 });
        }
        let socket = connection.ends[end].as_mut()?;
        let (heard, before);
        match &mut connection.kind {
            Kind::Simulated => {
                before = socket.received();
                heard = socket.receive(now, &tcp, |_| ());
            }
            Kind::Fetch(fetch) => {
                before = fetch.body_bytes;
                heard = socket.receive(now, &tcp, |bytes| fetch.hear(bytes));
            }
            Kind::Serve { request, .. } => {
                before = 0;
                let room = 1 << 17;
                heard = socket.receive(now, &tcp, |bytes| {
                    request.extend_from_slice(&bytes[..bytes.len().min(room - request.len().min(room))]);
                });
            }
        }
        Some(Seen { id, end, heard, before })
    }

    #[expect(clippy::too_many_arguments, reason = "what is known of a delivery")]
    fn on_heard(
        &mut self,
        fabric: &mut Fabric,
        now: Time,
        id: u32,
        end: usize,
        packet: &Packet,
        heard: Heard,
        before: u64,
    ) {
        let connection = &mut self.connections[id];
        match connection.kind {
            Kind::Simulated => match heard {
                Heard::Segment(segment) => self.on_segment(fabric, now, id, end, packet, segment, before),
                _ => self.retire_if_over(now, id),
            },
            Kind::Fetch(_) => self.on_response(fabric, now, id, heard, before),
            Kind::Serve { .. } => self.on_request(fabric, now, id, heard),
        }
    }

    /// The simulator's reaction to a segment between simulated hosts.
    #[expect(clippy::too_many_arguments, reason = "what is known of a delivery")]
    fn on_segment(
        &mut self,
        fabric: &mut Fabric,
        now: Time,
        id: u32,
        end: usize,
        packet: &Packet,
        segment: Segment,
        received_before: u64,
    ) {
        let connection = &mut self.connections[id];
        if A::PACKETS
            && segment.flags.ack
            && !segment.flags.syn
            && segment.span() == 0
            && let Some(sender) = connection.ends[end].as_ref().and_then(Socket::sender)
        {
            let view = sender_view(connection.number, sender, segment.ack, packet.len, false, Priority::Low);
            self.audience.record(now, &Event::Acked(view));
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

    fn on_client_data(&mut self, fabric: &mut Fabric, now: Time, id: u32, received_before: u64) {
        let connection = &mut self.connections[id];
        let transfer = connection.transfer;
        let received = connection.ends[CLIENT].as_ref().map_or(0, Socket::received);
        let (app, tag) = (connection.app, transfer.tag);
        if received == transfer.bytes && connection.done_at_client.is_none() {
            connection.done_at_client = Some(now);
            self.completed += 1;
            self.users_waiting -= 1;
            self.last_done = now;
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
        let server = connection.ends[SERVER].as_ref().and_then(Socket::sender);
        if connection.done_at_client.is_some() && server.is_some_and(Sender::is_done) {
            self.close(now, id);
            self.retire_if_over(now, id);
        }
    }

    fn close(&mut self, now: Time, id: u32) {
        let connection = &mut self.connections[id];
        if connection.closed.is_none() {
            connection.closed = Some(now);
            self.users_live -= usize::from(connection.app != NOBODY);
        }
    }

    /// A client has heard from a real server.
    fn on_response(&mut self, fabric: &mut Fabric, now: Time, id: u32, heard: Heard, before: u64) {
        let connection = &mut self.connections[id];
        let Kind::Fetch(fetch) = &mut connection.kind else { return };
        let Some(socket) = &mut connection.ends[CLIENT] else { return };
        let transfer = connection.transfer;
        let mut event = None;
        if connection.done_at_client.is_none() {
            let next = if heard == Heard::Reset { Next::Over } else { fetch.next(socket.peer_closed()) };
            match next {
                Next::Over => {
                    fetch.broken |= heard == Heard::Reset;
                    connection.done_at_client = Some(now);
                    socket.close(now);
                    self.completed += u64::from(!fetch.broken);
                    self.users_waiting -= 1;
                    self.last_done = now;
                    event = Some(AppEvent::Complete { tag: transfer.tag });
                }
                Next::Ask(request) => socket.write(now, &request),
                Next::Wait => {
                    let heard = fetch.body_bytes;
                    let reached = transfer.notify_at.is_some_and(|at| before < at && at <= heard);
                    event = reached.then_some(AppEvent::Reached { tag: transfer.tag });
                }
            }
        }
        let (app, whole) = (connection.app, event.is_some_and(|e| matches!(e, AppEvent::Complete { .. })));
        self.pump(fabric, now, id, CLIENT);
        if whole {
            self.reply(id);
        }
        if let Some(event) = event {
            self.tell(fabric, now, app, event);
        }
        self.end_if_over(now, id, CLIENT);
    }

    fn reply(&mut self, id: u32) {
        let connection = &self.connections[id];
        let mut reply = Reply {
            connection: connection.number,
            app: connection.app,
            tag: connection.transfer.tag,
            tcp: connection.transfer.tcp,
            status: 200,
            body_bytes: connection.transfer.bytes,
            digest: 0,
            whole: true,
        };
        if let Kind::Serve { status, .. } = connection.kind {
            reply.status = status;
            reply.whole = !connection.ends[SERVER].as_ref().is_some_and(Socket::was_reset);
        }
        if let Kind::Fetch(fetch) = &connection.kind {
            reply.status = fetch.status;
            reply.body_bytes = fetch.body_bytes;
            reply.digest = fetch.digest;
            reply.whole = !fetch.broken;
        }
        self.audience.replied(&reply);
    }

    /// A simulated server has heard from a real client.
    fn on_request(&mut self, fabric: &mut Fabric, now: Time, id: u32, heard: Heard) {
        let connection = &mut self.connections[id];
        let Kind::Serve { request, status } = &mut connection.kind else { return };
        let Some(socket) = &mut connection.ends[SERVER] else { return };
        if heard == Heard::Reset {
            connection.done_at_client.get_or_insert(now);
        } else if !connection.responded
            && let Some(path) = http::read_request(request)
        {
            let at = socket.ends().0;
            let document = path.ok().and_then(|path| {
                let known = self.documents.get(&(at, path.to_string())).copied();
                known.or_else(|| path.rsplit('/').next()?.parse().ok())
            });
            let (line, bytes) = document.map_or(("404 Not Found", 0), |bytes| ("200 OK", bytes));
            *status = if document.is_some() { 200 } else { 404 };
            let head = http::response_head(line, bytes);
            let whole = head.len() as u64 + bytes;
            let context = connection.transfer.tells_size.then(|| FlowContext::document(whole));
            connection.transfer.bytes = bytes;
            connection.responded = true;
            socket.write(now, &head);
            socket.fill(now, bytes, context, true);
        } else if socket.peer_closed() {
            socket.close(now);
        }
        self.pump(fabric, now, id, SERVER);
        self.end_if_over(now, id, SERVER);
    }

    /// Closes a connection with a real host once both sides know that it is over.
    fn end_if_over(&mut self, now: Time, id: u32, end: usize) {
        let connection = &mut self.connections[id];
        let over = connection.ends[end].as_ref().is_none_or(Socket::is_over);
        if !over || connection.closed.is_some() {
            return;
        }
        if end == SERVER {
            connection.done_at_client.get_or_insert(now);
        }
        if !connection.ends[end].as_ref().is_some_and(Socket::was_reset) {
            connection.linger_until = now + LINGER;
            connection.planned[end] = connection.linger_until;
            self.timers.push(connection.linger_until, Timer::End { connection: id, end }.pack());
        }
        self.close(now, id);
        if end == SERVER {
            self.reply(id);
        }
        self.retire_if_over(now, id);
    }

    /// A packet that is for nobody: a SYN for a service, or to be refused.
    fn on_stray(&mut self, fabric: &mut Fabric, now: Time, node: NodeId, packet: &Packet) {
        self.stray += 1;
        // Its buffer was released, and nothing has been written since.
        let bytes = self.buffers.packet_mut(packet.body).to_vec();
        let Some((ends, tcp)) = parse(&bytes) else { return };
        let Some(&peer) = self.nodes.get(ends.1.ip()).filter(|peer| self.is_real[peer.0 as usize]) else {
            return;
        };
        let syn = tcp.flags().contains(TcpFlags::SYN) && !tcp.flags().contains(TcpFlags::ACK);
        let listener =
            self.listeners.get(&ends.0).filter(|_| syn && self.connections.in_use() < MOST_CONNECTIONS);
        if let Some(&listener) = listener {
            self.stray -= 1;
            return self.accept(fabric, now, (node, peer), &tcp, ends, listener);
        }
        let addresses = Addresses {
            source: (*ends.0.ip()).into(),
            destination: (*ends.1.ip()).into(),
            traffic_class: 0,
            hop_limit: 64,
        };
        let mut answer = [0; 80];
        let Some(len) = refuse(&tcp, &addresses, &mut answer) else { return };
        self.say(fabric, now, node, peer, &answer[..len]);
    }

    /// Sends a packet that belongs to no connection.
    fn say(&mut self, fabric: &mut Fabric, now: Time, from: NodeId, to: NodeId, bytes: &[u8]) {
        let Some(flow) = self.pair_flow(fabric, from, to) else { return };
        let Some(slot) = self.buffers.take() else { return };
        self.buffers.bytes_mut(slot)[..bytes.len()].copy_from_slice(bytes);
        let packet = Packet {
            arrived: now,
            flow,
            len: bytes.len() as u32,
            body: slot,
            ecn: Ecn::NotEct,
            priority: Priority::Low,
            class: 0,
        };
        self.launch(fabric, from, packet, bytes.len(), Parcel::default());
    }

    /// A real client knocks at a simulated server.
    fn accept(
        &mut self,
        fabric: &mut Fabric,
        now: Time,
        (server, client): (NodeId, NodeId),
        syn: &Tcp<'_>,
        (local, remote): Ends,
        tcp: TcpId,
    ) {
        let number = self.opened;
        self.opened += 1;
        let (config, marker) = self.tcp[tcp.0 as usize].clone();
        let mut rng = Rng::new(self.seed, Stream::Connection(number as u32));
        let phase = tick_phase(config.slowest_clock(), rng.uniform());
        let identity = Identity { local, remote, initial_sequence: rng.next_u32(), stranger: true };
        let mut socket = Socket::new(now, Role::Passive, &config, phase, identity);
        socket.receive(now, syn, |_| ());
        let transfer = Transfer {
            server,
            client,
            request_bytes: 0,
            bytes: 0,
            tells_size: true,
            opener: Opener::Client,
            tcp,
            notify_at: None,
            tag: 0,
        };
        let id = self.insert(Connection {
            ends: [None, Some(socket)],
            planned: [Time::NEVER; 2],
            in_network: 0,
            transfer,
            responded: false,
            done_at_client: None,
            closed: None,
            recorded: false,
            linger_until: Time::ZERO,
            dropped: 0,
            sent_high: 0,
            marker: marker.map_or(AnyMarker::None, |parameters| AnyMarker::Spm(Spm::new(parameters))),
            app: NOBODY,
            number,
            opened: now,
            kind: Kind::Serve { request: Vec::new(), status: 0 },
        });
        fabric.set_destination(id << 1 | SERVER as u32, client);
        self.pump(fabric, now, id, SERVER);
    }

    /// The flow of packets from one host to another; none if there is no route.
    fn pair_flow(&mut self, fabric: &mut Fabric, from: NodeId, to: NodeId) -> Option<u32> {
        if let Some(&flow) = self.pair_flows.get(&(from, to)) {
            return flow;
        }
        let reachable = from != to && self.topology.check_routes([(from, to)]).is_ok();
        let flow = reachable.then(|| {
            let flow = Fabric::SECOND_FLOWS + (self.flows.len() + self.pair_flows.len()) as u32;
            fabric.set_destination(flow, to);
            flow
        });
        self.pair_flows.insert((from, to), flow);
        flow
    }

    /// Records a closed connection when its last packet has left the network, and forgets it when its time has come.
    fn retire_if_over(&mut self, now: Time, id: u32) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let (Some(_), Some(_), 0) = (connection.closed, connection.done_at_client, connection.in_network)
        else {
            return;
        };
        self.record(now, id);
        let connection = &self.connections[id];
        if now < connection.linger_until {
            return;
        }
        for socket in connection.ends.iter().flatten() {
            self.by_ends.remove(&socket.ends());
        }
        self.connections.remove(id);
    }

    fn record(&mut self, now: Time, id: u32) {
        let connection = &mut self.connections[id];
        let (Some(acked), Some(received)) = (connection.closed, connection.done_at_client) else { return };
        if std::mem::replace(&mut connection.recorded, true) {
            return;
        }
        let server = connection.ends[SERVER].as_ref().and_then(Socket::sender);
        let stats = server.map(|sender| sender.stats()).unwrap_or_default();
        let (sent, retransmitted) = match &connection.kind {
            Kind::Fetch(fetch) => (fetch.server.sent, fetch.server.retransmitted),
            _ => (stats.sent, stats.retransmitted),
        };
        let record = ConnectionRecord {
            connection: connection.number,
            app: connection.app,
            bytes: connection.transfer.bytes,
            opened: connection.opened,
            received,
            acked,
            sent,
            sent_high: connection.sent_high,
            retransmitted,
            timeouts: stats.timeouts,
            fast_retransmits: stats.fast_retransmits,
            dropped: connection.dropped,
        };
        self.audience.record(now, &Event::Connection(record));
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
                } else {
                    self.app_timers -= 1;
                }
                self.tell(fabric, now, app, AppEvent::Timer);
            }
            Timer::End { connection: id, end } => {
                let Some(connection) = self.connections.get_mut(id) else { return };
                if connection.planned[end] != now {
                    return;
                }
                connection.planned[end] = Time::NEVER;
                if connection.closed.is_some() {
                    return self.retire_if_over(now, id);
                }
                let Some(socket) = &mut connection.ends[end] else { return };
                if matches!(connection.kind, Kind::Serve { .. })
                    && !socket.is_open()
                    && now >= connection.opened + LINGER
                {
                    // Whoever knocked has gone away.
                    connection.done_at_client = Some(now);
                    self.close(now, id);
                    return self.retire_if_over(now, id);
                }
                let expired = socket.on_time(now);
                if A::PACKETS
                    && expired
                    && let Some(sender) = socket.sender()
                {
                    let view = sender_view(connection.number, sender, sender.una(), 0, true, Priority::Low);
                    self.audience.record(now, &Event::Timeout(view));
                }
                self.pump(fabric, now, id, end);
            }
        }
    }

    /// Sends what this end has to send, and plans its timer.
    fn pump(&mut self, fabric: &mut Fabric, now: Time, id: u32, end: usize) {
        while let Some(slot) = self.buffers.take() {
            let connection = &mut self.connections[id];
            let sent = connection.ends[end]
                .as_mut()
                .and_then(|socket| socket.transmit(now, self.buffers.bytes_mut(slot)));
            let Some((out, len)) = sent else {
                self.buffers.release(slot);
                break;
            };
            let config = &self.tcp[connection.transfer.tcp.0 as usize].0;
            let bytes = &mut self.buffers.bytes_mut(slot)[..len];
            let mut packet = Packet {
                arrived: now,
                flow: id << 1 | end as u32,
                len: len as u32,
                body: slot,
                ecn: Ecn::NotEct,
                priority: Priority::Low,
                class: 0,
            };
            if matches!(connection.kind, Kind::Simulated) {
                // Between simulated hosts a packet is as long as the model says.
                packet.len = config.wire_bytes(out.segment.seq, out.segment.len, out.segment.sack.len());
            }
            mark(connection, end, now, &out, &mut packet, bytes);
            connection.in_network += 1;
            connection.sent_high += u32::from(packet.priority == Priority::High && end == SERVER);
            self.data_sent += u64::from(out.segment.len > 0 && end == SERVER);
            if A::PACKETS
                && out.segment.span() > 0
                && let Some(sender) = connection.ends[end].as_ref().and_then(Socket::sender)
            {
                let (seq, again) = (out.segment.seq, out.retransmission);
                let view = sender_view(connection.number, sender, seq, packet.len, again, packet.priority);
                self.audience.record(now, &Event::Sent(view));
            }
            let from = if end == CLIENT { connection.transfer.client } else { connection.transfer.server };
            let parcel =
                Parcel { owner: Owner::End(id, end), seq: out.segment.seq, data_bytes: out.segment.len };
            self.launch(fabric, from, packet, len, parcel);
        }
        let Some(connection) = self.connections.get_mut(id).filter(|c| c.closed.is_none()) else { return };
        if let Some(deadline) = connection.ends[end].as_ref().and_then(Socket::deadline)
            && deadline < connection.planned[end]
        {
            connection.planned[end] = deadline;
            self.timers.push(deadline, Timer::End { connection: id, end }.pack());
        }
    }
}

/// A packet that was given to a socket.
struct Seen {
    id: u32,
    end: usize,
    heard: Heard,
    before: u64,
}

/// The addresses in a TCP packet, the receiver's first.
fn parse(bytes: &[u8]) -> Option<(Ends, Tcp<'_>)> {
    let ip = Ip::parse(bytes).ok()?;
    let tcp = Tcp::parse(ip.transport(ip::TCP).ok()?).ok()?;
    let (IpAddr::V4(source), IpAddr::V4(destination)) = (ip.source(), ip.destination()) else { return None };
    // A piece of a packet is not the packet.
    if ip.fragment().is_some() {
        return None;
    }
    let to = SocketAddrV4::new(destination, tcp.destination_port());
    Some(((to, SocketAddrV4::new(source, tcp.source_port())), tcp))
}

/// Has a packet of a simulated host marked, if its connection is.
fn mark(
    connection: &mut Connection,
    end: usize,
    now: Time,
    out: &Outgoing,
    packet: &mut Packet,
    bytes: &mut [u8],
) {
    if matches!(connection.marker, AnyMarker::None) || out.segment.span() == 0 {
        return;
    }
    let sending = connection.ends[end].as_ref().and_then(|socket| socket.sending(out));
    connection.marker.mark(now, sending.as_ref(), packet);
    // It was just written as an IP packet.
    let _ = PriorityCodec::default().write(bytes, packet.priority);
}

/// The phase of a clock tick that a connection's host has, from a uniform number in [0, 1).
fn tick_phase(tick: Span, uniform: f64) -> Span {
    Span::from_nanos((tick.as_nanos() as f64 * uniform) as u64)
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

/// A UDP packet of this length to the discard port, without a checksum of its own.
fn write_datagram([from, to]: [Ipv4Addr; 2], packet: &mut [u8]) {
    const DISCARD: u8 = 9;
    let total = packet.len().min(usize::from(u16::MAX)) as u16;
    packet.fill(0);
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    packet[6] = 0x40;
    packet[8] = 64;
    packet[9] = ip::UDP;
    packet[12..16].copy_from_slice(&from.octets());
    packet[16..20].copy_from_slice(&to.octets());
    let sum = checksum::checksum(&packet[..20]).to_be_bytes();
    packet[10..12].copy_from_slice(&sum);
    packet[21] = DISCARD;
    packet[23] = DISCARD;
    packet[24..26].copy_from_slice(&(total - 20).to_be_bytes());
}

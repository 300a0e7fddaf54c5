//! What happens between a simulated host and one outside: connections of which only one end is ours.

use super::fetch::{Fetch, Next};
use super::http::{self, Version};
use crate::classify::flow;
use crate::frames::{Belongs, Foreign, Frames, Outside};
use crate::socket::{Ends, Heard, Identity, Socket, addresses, parse, refuse};
use catnip_base::{FlowContext, Slab, Span, Time};
use catnip_lab::{ObjectName, Plan, Service};
use catnip_net::{DropReason, NodeId, Packet, PortId, Route};
use catnip_sim::app::{AnyApp, AppEvent, Http};
use catnip_sim::medium::Medium;
use catnip_sim::record::{NOBODY, Reply};
use catnip_sim::{Account, CLIENT, Event, Opener, SERVER, TcpId, Transfer, Watch, World, tick_phase};
use catnip_tcp::{Role, Sender};
use catnip_wire::{Tcp, TcpFlags};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};

/// The connections of simulated hosts with hosts outside, and the services that simulated hosts offer them.
#[derive(Debug, Default)]
pub struct Strangers {
    connections: Slab<Connection>,
    by_ends: BTreeMap<Ends, u32>,
    /// By [`TcpId`].
    services: Vec<Service>,
    /// Traffic groups by where their simulated servers wait.
    listeners: BTreeMap<SocketAddrV4, TcpId>,
    /// What these servers have.
    documents: BTreeMap<(SocketAddrV4, String), u64>,
    /// Ports given to clients, per node.
    ports: Vec<u16>,
    /// Packets for connections and services that do not exist.
    stray: u64,
}

/// A world whose simulated hosts talk to hosts outside.
type FrameWorld<O, W> = World<Frames<O, Strangers>, W>;

/// A connection of which one end is simulated.
#[derive(Debug)]
struct Connection {
    socket: Socket,
    /// Which end that is.
    side: usize,
    /// The way of what it sends.
    route: Route,
    /// Of its entries in the calendar of timers, only the one with this time is valid.
    planned: Time,
    account: Account,
    talk: Talk,
    recorded: bool,
    /// Kept so long after the end, to answer what comes again.
    linger_until: Time,
}

/// What is talked about.
#[derive(Debug)]
enum Talk {
    /// The server is outside.
    Fetch(Box<Fetch>),
    /// The client is outside: what it has asked so far, and the status of the answer.
    Serve { request: Vec<u8>, status: u16 },
}

/// As long as the kernel keeps connections in TIME-WAIT.
const LINGER: Span = Span::from_secs(60);
const MOST_CONNECTIONS: usize = 1 << 16;
const FIRST_PORT: u16 = 32768;
const PORTS: u16 = u16::MAX - FIRST_PORT;
const LONGEST_REQUEST: usize = 1 << 17;

impl Strangers {
    /// Those of a plan: simulated servers wait for clients outside.
    pub(crate) fn of(
        plan: &Plan,
        is_outside: impl Fn(NodeId) -> bool,
        at: impl Fn(NodeId) -> Ipv4Addr,
    ) -> Self {
        let mut strangers =
            Self { services: plan.groups().map(|group| group.service.clone()).collect(), ..Self::default() };
        for (group, index) in plan.groups().zip(0..) {
            for &(server, client) in group.pairs {
                if !is_outside(client) {
                    continue;
                }
                let at = SocketAddrV4::new(at(server), group.service.port);
                strangers.listeners.entry(at).or_insert(TcpId(index));
                let documents = plan.documents(server).into_iter().map(|(path, bytes)| ((at, path), bytes));
                strangers.documents.extend(documents);
            }
        }
        strangers
    }

    /// Ends the run: records connections whose documents have arrived, though the last word is missing.
    pub(crate) fn finish<W: Watch>(&mut self, now: Time, watch: &mut W) {
        let mut open: Vec<u32> = self.by_ends.values().copied().collect();
        open.sort_unstable();
        for id in open {
            let connection = &mut self.connections[id];
            if connection.account.done_at_client.is_some() {
                connection.account.closed.get_or_insert(now);
                self.record(now, id, watch);
            }
        }
    }

    /// Packets for connections and services that do not exist.
    pub(crate) fn stray_packets(&self) -> u64 {
        self.stray
    }

    fn insert(&mut self, connection: Connection) -> u32 {
        let ends = connection.socket.ends();
        let id = self.connections.insert(connection);
        self.by_ends.insert(ends, id);
        id
    }

    /// Records a closed connection when its last packet has left the network, and forgets it when its time has come.
    fn retire_if_over<W: Watch>(&mut self, now: Time, id: u32, watch: &mut W) {
        let connection = &self.connections[id];
        if !connection.account.is_over() {
            return;
        }
        self.record(now, id, watch);
        let connection = &mut self.connections[id];
        if now < connection.linger_until {
            return;
        }
        connection.planned = Time::NEVER;
        let ends = connection.socket.ends();
        // A later connection may have taken its place.
        if self.by_ends.get(&ends) == Some(&id) {
            self.by_ends.remove(&ends);
        }
        self.connections.release(id);
    }

    fn record<W: Watch>(&mut self, now: Time, id: u32, watch: &mut W) {
        let connection = &mut self.connections[id];
        let ours = Some(&connection.socket).filter(|_| connection.side == SERVER);
        let mut stats = ours.and_then(Socket::sender).map(Sender::stats).unwrap_or_default();
        if let Talk::Fetch(fetch) = &connection.talk {
            (stats.sent, stats.retransmitted) = (fetch.server.sent, fetch.server.retransmitted);
        }
        let Some(record) = connection.account.record(stats) else { return };
        if !std::mem::replace(&mut connection.recorded, true) {
            watch.record(now, &Event::Connection(record));
        }
    }
}

impl Foreign for Strangers {
    fn see(&mut self, packet: &[u8], high: bool) -> Option<Belongs> {
        if self.by_ends.is_empty() {
            return None;
        }
        let (ends, tcp) = parse(packet)?;
        let &id = self.by_ends.get(&ends)?;
        let connection = &mut self.connections[id];
        connection.account.in_network += 1;
        if let Talk::Fetch(fetch) = &mut connection.talk {
            fetch.server.see(&tcp);
            connection.account.sent_high += u32::from(high);
        }
        let data_bytes = tcp.payload().len() as u32;
        Some(Belongs { connection: id, from_server: connection.side == CLIENT, seq: 0, data_bytes })
    }

    fn left<W: Watch>(&mut self, now: Time, id: u32, watch: &mut W) {
        self.connections[id].account.in_network -= 1;
        self.retire_if_over(now, id, watch);
    }

    fn dropped<W: Watch>(
        &mut self,
        now: Time,
        port: PortId,
        packet: &Packet,
        of: Belongs,
        why: DropReason,
        watch: &mut W,
    ) {
        let connection = &mut self.connections[of.connection];
        connection.account.loses(of.from_server && of.data_bytes > 0);
        if W::PACKETS {
            watch.record(now, &connection.account.lost(of.seq, port, packet, why));
        }
        self.retire_if_over(now, of.connection, watch);
    }

    fn connections(&self) -> usize {
        self.connections.in_use()
    }

    fn server_port(&self, tcp: TcpId) -> u16 {
        self.services[tcp.0 as usize].port
    }

    fn client_at(&mut self, client: NodeId, address: Ipv4Addr, server: SocketAddrV4) -> SocketAddrV4 {
        let index = client.0 as usize;
        self.ports.resize(self.ports.len().max(index + 1), 0);
        let mut at = SocketAddrV4::new(address, FIRST_PORT);
        // If all are in use, the oldest one's connection is past its time.
        for _ in 0..PORTS {
            at.set_port(FIRST_PORT + self.ports[index]);
            self.ports[index] = (self.ports[index] + 1) % PORTS;
            if !self.by_ends.contains_key(&(at, server)) {
                break;
            }
        }
        at
    }

    fn fetch<O: Outside, W: Watch>(world: &mut FrameWorld<O, W>, now: Time, app: u32, transfer: Transfer) {
        let server = world.medium().server_at(&transfer);
        let local = world.medium_mut().client_at(transfer.client, server);
        let paths = &world.medium().foreign.services[transfer.tcp.0 as usize].paths;
        let mut fetch = request(world.app(app), app, &transfer, server, paths);
        let route = world.fabric().checked_route(transfer.client, transfer.server);
        let mut connection = begin(world, now, transfer, Role::Active, (local, server), route);
        if let Some(request) = fetch.ask() {
            connection.socket.write(now, &request);
        }
        connection.account.app = app;
        let talk = Talk::Fetch(Box::new(fetch));
        let id = world.medium_mut().foreign.insert(Connection { talk, ..connection });
        pump(world, now, id);
    }

    fn delivered<O: Outside, W: Watch>(
        world: &mut FrameWorld<O, W>,
        now: Time,
        node: NodeId,
        packet: Packet,
    ) {
        let (frames, watch) = world.parts_mut();
        let sender = frames.belongs(packet.body);
        if let Some(of) = sender {
            frames.foreign.connections[of.connection].account.in_network -= 1;
        }
        let (bytes, strangers) = frames.packet_and_foreign(packet.body);
        let known = parse(bytes).and_then(|(ends, tcp)| Some((*strangers.by_ends.get(&ends)?, tcp)));
        if let Some((id, tcp)) = known {
            let (heard, before) = strangers.connections[id].hear(now, &tcp, packet.len, watch);
            frames.release(packet.body);
            return match frames.foreign.connections[id].talk {
                Talk::Fetch(_) => on_response(world, now, id, heard, before),
                Talk::Serve { .. } => on_request(world, now, id, heard),
            };
        }
        let bytes = bytes.to_vec();
        frames.release(packet.body);
        if let Some(of) = sender {
            frames.foreign.retire_if_over(now, of.connection, watch);
        }
        on_stray(world, now, node, &bytes);
    }

    fn on_timer<O: Outside, W: Watch>(world: &mut FrameWorld<O, W>, now: Time, id: u32) {
        let (frames, watch) = world.parts_mut();
        let strangers = &mut frames.foreign;
        let connection = &mut strangers.connections[id];
        if connection.planned != now {
            return;
        }
        connection.planned = Time::NEVER;
        if connection.account.closed.is_some() {
            return strangers.retire_if_over(now, id, watch);
        }
        let knocked = matches!(connection.talk, Talk::Serve { .. }) && !connection.socket.is_open();
        if knocked && now >= connection.account.opened + LINGER {
            // Whoever knocked has gone away.
            connection.account.done_at_client = Some(now);
            close(world, now, id);
            let (frames, watch) = world.parts_mut();
            return frames.foreign.retire_if_over(now, id, watch);
        }
        let expired = connection.socket.on_time(now);
        let sender = connection.socket.sender().filter(|_| W::PACKETS && expired);
        if let Some(event) = connection.account.timed_out(sender) {
            watch.record(now, &event);
        }
        pump(world, now, id);
    }
}

impl Connection {
    fn reply(&self) -> Reply {
        let (status, body_bytes, digest, whole) = match &self.talk {
            Talk::Serve { status, .. } => (*status, self.account.transfer.bytes, 0, !self.socket.was_reset()),
            Talk::Fetch(fetch) => (fetch.status, fetch.body_bytes, fetch.digest, !fetch.broken),
        };
        Reply {
            connection: self.account.number,
            app: self.account.app,
            tag: self.account.transfer.tag,
            tcp: self.account.transfer.tcp,
            status,
            body_bytes,
            digest,
            whole,
        }
    }

    /// Gives a packet to the socket; also says how much of an answer was there before.
    fn hear<W: Watch>(&mut self, now: Time, tcp: &Tcp<'_>, wire_bytes: u32, watch: &mut W) -> (Heard, u64) {
        let (heard, before) = match &mut self.talk {
            Talk::Fetch(fetch) => {
                let before = fetch.body_bytes;
                (self.socket.receive(now, tcp, |bytes| fetch.hear(bytes)), before)
            }
            Talk::Serve { request, .. } => {
                let hear = |bytes: &[u8]| {
                    let room = LONGEST_REQUEST - request.len().min(LONGEST_REQUEST);
                    request.extend_from_slice(&bytes[..bytes.len().min(room)]);
                };
                (self.socket.receive(now, tcp, hear), 0)
            }
        };
        if W::PACKETS
            && let Heard::Segment(segment) = &heard
            && let Some(event) = self.account.acked(self.socket.sender(), segment, wire_bytes)
        {
            watch.record(now, &event);
        }
        (heard, before)
    }
}

/// What an application wants when it opens a connection to a server outside.
fn request(
    app: &AnyApp,
    user: u32,
    transfer: &Transfer,
    server: SocketAddrV4,
    paths: &catnip_lab::Paths,
) -> Fetch {
    let host = match server.port() {
        80 => server.ip().to_string(),
        _ => server.to_string(),
    };
    let name = ObjectName { object: transfer.tag, bytes: transfer.bytes, user, page: 0 };
    match app {
        AnyApp::Web(client) if client.http() == Http::V11 => {
            let objects = (0..).zip(client.objects());
            let all = objects
                .map(|(object, &bytes)| paths.of(ObjectName { object, bytes, page: client.page(), ..name }));
            Fetch::new(all, host, Version::V11)
        }
        AnyApp::Web(client) => {
            let path = paths.of(ObjectName { page: client.page(), ..name });
            Fetch::new([path], host, Version::V10)
        }
        _ => Fetch::new([paths.of(name)], host, Version::V10),
    }
}

/// A client has heard from a server outside.
fn on_response<O: Outside, W: Watch>(
    world: &mut FrameWorld<O, W>,
    now: Time,
    id: u32,
    heard: Heard,
    before: u64,
) {
    let connection = &mut world.medium_mut().foreign.connections[id];
    let Talk::Fetch(fetch) = &mut connection.talk else { return };
    let socket = &mut connection.socket;
    let (transfer, app) = (connection.account.transfer, connection.account.app);
    let mut event = None;
    let mut whole = None;
    if connection.account.done_at_client.is_none() {
        let next = if heard == Heard::Reset { Next::Over } else { fetch.next(socket.peer_closed()) };
        match next {
            Next::Over => {
                fetch.broken |= heard == Heard::Reset;
                whole = Some(!fetch.broken);
                connection.account.done_at_client = Some(now);
                socket.close(now);
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
    pump(world, now, id);
    if let Some(whole) = whole {
        let tally = world.tally_mut();
        tally.completed += u64::from(whole);
        tally.waiting -= 1;
        tally.last_end = now;
        tell_reply(world, now, id);
    }
    if let Some(event) = event {
        world.tell(now, app, event);
    }
    end_if_over(world, now, id);
}

/// A simulated server has heard from a client outside.
fn on_request<O: Outside, W: Watch>(world: &mut FrameWorld<O, W>, now: Time, id: u32, heard: Heard) {
    let strangers = &mut world.medium_mut().foreign;
    let connection = &mut strangers.connections[id];
    let Talk::Serve { request, status } = &mut connection.talk else { return };
    let socket = &mut connection.socket;
    if heard == Heard::Reset {
        connection.account.done_at_client.get_or_insert(now);
    } else if !connection.account.responded
        && let Some(path) = http::read_request(request)
    {
        let at = socket.ends().0;
        let document = path.ok().and_then(|path| {
            let known = strangers.documents.get(&(at, path.to_string())).copied();
            known.or_else(|| path.rsplit('/').next()?.parse().ok())
        });
        let (line, bytes) = document.map_or(("404 Not Found", 0), |bytes| ("200 OK", bytes));
        *status = if document.is_some() { 200 } else { 404 };
        let head = http::response_head(line, bytes);
        let whole = head.len() as u64 + bytes;
        let context = connection.account.transfer.tells_size.then(|| FlowContext::document(whole));
        connection.account.transfer.bytes = bytes;
        connection.account.responded = true;
        socket.write(now, &head);
        socket.fill(now, bytes, context, true);
    } else if socket.peer_closed() {
        socket.close(now);
    }
    pump(world, now, id);
    end_if_over(world, now, id);
}

fn tell_reply<O: Outside, W: Watch>(world: &mut FrameWorld<O, W>, now: Time, id: u32) {
    let (frames, watch) = world.parts_mut();
    watch.record(now, &Event::Reply(frames.foreign.connections[id].reply()));
}

/// Closes a connection once both sides know that it is over.
fn end_if_over<O: Outside, W: Watch>(world: &mut FrameWorld<O, W>, now: Time, id: u32) {
    let connection = &mut world.medium_mut().foreign.connections[id];
    if !connection.socket.is_over() || connection.account.closed.is_some() {
        return;
    }
    let (side, reset) = (connection.side, connection.socket.was_reset());
    if side == SERVER {
        connection.account.done_at_client.get_or_insert(now);
    }
    if !reset {
        let until = now + LINGER;
        (connection.linger_until, connection.planned) = (until, until);
        world.plan(until, id);
    }
    close(world, now, id);
    if side == SERVER {
        tell_reply(world, now, id);
    }
    let (frames, watch) = world.parts_mut();
    frames.foreign.retire_if_over(now, id, watch);
}

fn close<O: Outside, W: Watch>(world: &mut FrameWorld<O, W>, now: Time, id: u32) {
    let connection = &mut world.medium_mut().foreign.connections[id];
    if connection.account.closed.is_none() {
        connection.account.closed = Some(now);
        let of_app = usize::from(connection.account.app != NOBODY);
        world.tally_mut().open -= of_app;
    }
}

/// A packet that is for nobody: a SYN for a service, or to be refused.
fn on_stray<O: Outside, W: Watch>(world: &mut FrameWorld<O, W>, now: Time, node: NodeId, bytes: &[u8]) {
    let frames = world.medium_mut();
    frames.foreign.stray += 1;
    let Some((ends, tcp)) = parse(bytes) else { return };
    let Some(peer) = frames.node(*ends.1.ip()).filter(|&peer| frames.is_outside(peer)) else { return };
    let syn = tcp.flags().contains(TcpFlags::SYN) && !tcp.flags().contains(TcpFlags::ACK);
    let room = frames.foreign.connections() < MOST_CONNECTIONS;
    if let Some(&listener) = frames.foreign.listeners.get(&ends.0).filter(|_| syn && room) {
        frames.foreign.stray -= 1;
        return accept(world, now, (node, peer), &tcp, ends, listener);
    }
    let mut answer = [0; 80];
    let Some(len) = refuse(&tcp, &addresses(*ends.0.ip(), *ends.1.ip()), &mut answer) else { return };
    say(world, now, node, peer, &answer[..len]);
}

/// A client outside knocks at a simulated server.
fn accept<O: Outside, W: Watch>(
    world: &mut FrameWorld<O, W>,
    now: Time,
    (server, client): (NodeId, NodeId),
    syn: &Tcp<'_>,
    ends: Ends,
    tcp: TcpId,
) {
    let Some(route) = world.fabric().route(server, client) else { return };
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
    let mut connection = begin(world, now, transfer, Role::Passive, ends, route);
    connection.socket.receive(now, syn, |_| ());
    let id = world.medium_mut().foreign.insert(connection);
    pump(world, now, id);
}

/// Our end of a connection that begins now.
fn begin<O: Outside, W: Watch>(
    world: &mut FrameWorld<O, W>,
    now: Time,
    transfer: Transfer,
    role: Role,
    (local, remote): Ends,
    route: Route,
) -> Connection {
    let (number, mut rng) = world.number();
    let (config, marker) = world.tcp(transfer.tcp).clone();
    let phase = tick_phase(config.slowest_clock(), rng.uniform());
    let identity = Identity { local, remote, initial_sequence: rng.next_u32(), stranger: true };
    let config = world.medium_mut().config(transfer.tcp, &config);
    let socket = Socket::new(now, role, &config, phase, identity);
    let side = if role == Role::Active { CLIENT } else { SERVER };
    Connection {
        socket,
        side,
        route,
        planned: Time::NEVER,
        account: Account::new(number, transfer, now, marker),
        talk: Talk::Serve { request: Vec::new(), status: 0 },
        recorded: false,
        linger_until: Time::ZERO,
    }
}

/// Sends a packet that belongs to no connection.
fn say<O: Outside, W: Watch>(
    world: &mut FrameWorld<O, W>,
    now: Time,
    from: NodeId,
    to: NodeId,
    bytes: &[u8],
) {
    let Some(route) = world.fabric().route(from, to) else { return };
    let frames = world.medium_mut();
    let Some(body) = frames.take() else { return };
    frames.room(body)[..bytes.len()].copy_from_slice(bytes);
    frames.put(body, bytes.len(), None);
    world.launch(now, from, Packet::new(now, route, bytes.len() as u32, body));
}

/// Sends what our end has to send, and plans its timer.
fn pump<O: Outside, W: Watch>(world: &mut FrameWorld<O, W>, now: Time, id: u32) {
    while let Some(body) = world.medium_mut().take() {
        let (frames, watch) = world.parts_mut();
        let (room, strangers) = frames.room_and_foreign(body);
        let connection = &mut strangers.connections[id];
        let from_server = connection.side == SERVER;
        let Some((out, len)) = connection.socket.transmit(now, room) else {
            frames.release(body);
            break;
        };
        let mut packet = Packet::new(now, connection.route, len as u32, body);
        let (account, socket) = (&mut connection.account, &connection.socket);
        let sending = || socket.sending(&out);
        let marked = account.sends(now, connection.side, &out.segment, &mut packet, sending);
        if W::PACKETS
            && let Some(event) = connection.account.sent(socket.sender(), &out, &packet)
        {
            watch.record(now, &event);
        }
        let from = connection.account.transfer.node(connection.side);
        let (seq, data_bytes) = (out.segment.seq, out.segment.len);
        frames.put(body, len, Some(Belongs { connection: id, from_server, seq, data_bytes }));
        packet.flow = flow(frames.ip_packet(body));
        if marked {
            frames.stamp(&packet);
        }
        world.tally_mut().data_sent += u64::from(out.segment.len > 0 && from_server);
        world.launch(now, from, packet);
    }
    let connection = &mut world.medium_mut().foreign.connections[id];
    if connection.account.closed.is_none()
        && let Some(deadline) = connection.socket.deadline()
        && deadline < connection.planned
    {
        connection.planned = deadline;
        world.plan(deadline, id);
    }
}

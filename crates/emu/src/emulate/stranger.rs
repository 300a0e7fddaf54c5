//! What happens between a simulated host and one outside: connections of which only one end is ours.

use super::fetch::Fetch;
use super::services::Services;
use super::talk::{Answer, Awaited, Connection, Talk, answer_at_once};
use crate::classify::flow;
use crate::frames::{Belongs, Foreign, Frames, Outside};
use crate::socket::{Ends, Heard, Identity, Socket, addresses, ends_and_tcp, parse, refuse, whole};
use catnip_base::{Rng, Slab, Span, Stream, Time};
use catnip_lab::{Plan, Protocol};
use catnip_net::{DropReason, Ecn, NodeId, Packet, PortId, Route};
use catnip_sim::app::AppEvent;
use catnip_sim::medium::Medium;
use catnip_sim::record::{NOBODY, Reply, ServedStep};
use catnip_sim::{
    Account, Act, CLIENT, Conn, Event, Message, Parties, SERVER, TcpId, Watch, World, tick_phase,
};
use catnip_tcp::Role;
use catnip_wire::{Tcp, TcpFlags};
use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};

/// The connections of simulated hosts with hosts outside, and the services that simulated hosts offer them.
#[derive(Debug, Default)]
pub struct Strangers {
    connections: Slab<Connection>,
    by_ends: BTreeMap<Ends, u32>,
    services: Services,
    /// Ports given to clients, per node.
    ports: Vec<u16>,
    /// Connections that may have something to send once their programs have returned.
    touched: Vec<u32>,
    /// Connections that are over and kept for a while, the oldest first; some may be gone already.
    lingering: VecDeque<(u32, u64)>,
    /// Packets for connections and services that do not exist.
    stray: u64,
    /// Packets with a wrong checksum.
    damaged: u64,
}

/// A world whose simulated hosts talk to hosts outside.
type FrameWorld<O, W> = World<Frames<O, Strangers>, W>;

/// As long as the kernel keeps connections in TIME-WAIT.
const LINGER: Span = Span::from_secs(60);
const MOST_CONNECTIONS: usize = 1 << 16;
const FIRST_PORT: u16 = 32768;
const PORTS: u16 = u16::MAX - FIRST_PORT;

impl Strangers {
    /// Those of a plan: simulated servers wait for clients outside.
    pub(crate) fn of(
        plan: &Plan,
        is_outside: impl Fn(NodeId) -> bool,
        at: impl Fn(NodeId) -> Ipv4Addr,
    ) -> Self {
        Self { services: Services::of(plan, is_outside, at), ..Self::default() }
    }

    /// Ends the run: records connections whose documents have arrived, though the last word is missing.
    pub(crate) fn finish<W: Watch>(&mut self, now: Time, watch: &mut W) {
        let open: Vec<u32> = self.connections.iter().map(|(id, _)| id).collect();
        for id in open {
            let connection = &mut self.connections[id];
            if connection.account.received.is_some() {
                connection.account.closed.get_or_insert(now);
                self.record(now, id, watch);
            }
        }
    }

    /// Is a simulated server in a conversation with a client outside?
    pub(crate) fn serves(&self) -> bool {
        let open = |connection: &Connection| connection.side == SERVER && connection.account.closed.is_none();
        self.connections.iter().any(|(_, connection)| open(connection))
    }

    /// Packets for connections and services that do not exist.
    pub(crate) fn stray_packets(&self) -> u64 {
        self.stray
    }

    /// Packets with a wrong checksum.
    pub fn damaged_packets(&self) -> u64 {
        self.damaged
    }

    /// Is there room for one more connection? One that is over makes room.
    fn has_room<W: Watch>(&mut self, now: Time, watch: &mut W) -> bool {
        while self.connections.in_use() >= MOST_CONNECTIONS {
            let Some((id, number)) = self.lingering.pop_front() else { return false };
            let connection = &self.connections[id];
            if connection.account.number == number && self.by_ends.get(&connection.socket.ends()) == Some(&id)
            {
                self.forget(now, id, watch);
            }
        }
        true
    }

    /// Whoever knocks from where this connection came from begins another one. What is still under way belongs to this one.
    fn forget<W: Watch>(&mut self, now: Time, id: u32, watch: &mut W) {
        let connection = &mut self.connections[id];
        connection.linger_until = now;
        self.by_ends.remove(&connection.socket.ends());
        self.retire_if_over(now, id, watch);
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
        if connection.account.received.is_some() && !std::mem::replace(&mut connection.recorded, true) {
            watch.record(now, &Event::Connection(connection.record()));
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

    fn copied(&mut self, id: u32) {
        self.connections[id].account.in_network += 1;
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
            if of.from_server && of.data_bytes > 0 {
                let dropped = connection.served(ServedStep::Dropped { seq: of.seq });
                dropped.iter().for_each(|what| watch.served(now, what));
            }
        }
        self.retire_if_over(now, of.connection, watch);
    }

    fn connections(&self) -> usize {
        self.connections.in_use()
    }

    fn unfinished(&self, tell: &mut dyn FnMut(Event, u64)) {
        let known = self.connections.iter().map(|(_, connection)| connection);
        let mut open: Vec<&Connection> = known.filter(|connection| !connection.recorded).collect();
        open.sort_unstable_by_key(|connection| connection.account.number);
        for connection in open {
            let [_, delivered] = connection.arrived();
            if let Some(status) = connection.answered() {
                tell(Event::Reply(connection.reply(0, status, delivered, 0, false)), delivered);
            }
            tell(Event::Connection(connection.record()), delivered);
        }
    }

    fn arrived(&self, conn: Conn) -> u64 {
        let Some((id, number)) = conn.as_foreign() else { return 0 };
        let connection = &self.connections[id];
        let [underway, _] = connection.arrived();
        if connection.account.number as u32 == number { underway } else { 0 }
    }

    fn server_port(&self, tcp: TcpId) -> u16 {
        self.services.get(tcp).port
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

    fn open<O: Outside, W: Watch>(
        world: &mut FrameWorld<O, W>,
        now: Time,
        program: u32,
        parties: Parties,
    ) -> Conn {
        let server = world.medium().server_at(&parties);
        let local = world.medium_mut().client_at(parties.client, server);
        let route = world.fabric().checked_route(parties.client, parties.server);
        let host = match server.port() {
            80 => server.ip().to_string(),
            _ => server.to_string(),
        };
        let talk = match world.medium().foreign.services.get(parties.tcp).speaks {
            Protocol::Http { persistent } => Talk::Fetch(Box::new(Fetch::new(host, persistent))),
            Protocol::Echo => Talk::Echo(Box::default()),
        };
        let opening = Opening { role: Role::Active, ends: (local, server), first: None };
        let connection = begin(world, now, parties, program, opening, route, talk);
        let number = connection.account.number;
        let strangers = &mut world.medium_mut().foreign;
        let id = strangers.insert(connection);
        strangers.touched.push(id);
        Conn::foreign(id, number)
    }

    fn act<O: Outside, W: Watch>(world: &mut FrameWorld<O, W>, now: Time, conn: Conn, what: Act) {
        let Some((id, number)) = conn.as_foreign() else { return };
        let strangers = &mut world.medium_mut().foreign;
        let connection = &mut strangers.connections[id];
        if connection.account.number as u32 != number || connection.account.closed.is_some() {
            return;
        }
        match what {
            Act::Send(message) => {
                let paths = &strangers.services.get(connection.account.parties.tcp).paths;
                let awaits = connection.send(now, message, paths);
                world.tally_mut().waiting += usize::from(awaits);
            }
            Act::Close => connection.socket.close(now),
            Act::Notify(bytes) => {
                if let Talk::Fetch(fetch) = &mut connection.talk {
                    fetch.notify(bytes);
                }
            }
            Act::Serve(options) => {
                let tcp = connection.account.parties.tcp;
                let service = world.tcp(tcp).service;
                let seed = world.seed();
                let connection = &mut world.medium_mut().foreign.connections[id];
                let (side, stream) = (connection.side, Stream::Connection(number));
                if let Some(spec) = &options.marker {
                    let rng = || Rng::new(seed, stream).branch(2 + side as u32);
                    connection.account.set_marker(side, service, spec, rng);
                }
            }
        }
        world.medium_mut().foreign.touched.push(id);
    }

    fn flush<O: Outside, W: Watch>(world: &mut FrameWorld<O, W>, now: Time) {
        while let Some(id) = world.medium_mut().foreign.touched.pop() {
            pump(world, now, id);
            end_if_over(world, now, id);
        }
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
        let Some(ip) = whole(bytes) else {
            // RFC 9293, section 3.1, MUST-3, and for the header of IP RFC 1122, section 3.2.1.2.
            strangers.damaged += 1;
            frames.release(packet.body);
            if let Some(of) = sender {
                frames.foreign.retire_if_over(now, of.connection, watch);
            }
            return;
        };
        let known = ends_and_tcp(&ip).and_then(|(ends, tcp)| Some((*strangers.by_ends.get(&ends)?, tcp)));
        let followed = known.filter(|(id, tcp)| {
            let connection = &strangers.connections[*id];
            let socket = &connection.socket;
            connection.account.closed.is_some() && (socket.was_reset() || socket.is_followed_by(tcp))
        });
        if let Some((id, _)) = followed {
            let bytes = bytes.to_vec();
            let behind = strangers.connections[id].socket.numbers_behind();
            frames.release(packet.body);
            frames.foreign.forget(now, id, watch);
            return on_stray(world, now, node, &bytes, Some(behind));
        }
        if let Some((id, tcp)) = known {
            let connection = &mut strangers.connections[id];
            if !tcp.payload().is_empty() {
                connection.account.hears(connection.side, packet.dscp);
            }
            let heard = connection.hear(now, (&packet, &tcp), watch);
            if heard == Heard::Impossible {
                let (ours, theirs) = connection.socket.ends();
                let peer = connection.account.parties.node(1 - connection.side);
                let mut answer = [0; 80];
                let len = refuse(&tcp, &addresses(*ours.ip(), *theirs.ip()), &mut answer);
                frames.release(packet.body);
                return len.into_iter().for_each(|len| say(world, now, node, peer, &answer[..len]));
            }
            let is_over = connection.account.closed.is_some();
            frames.release(packet.body);
            if heard == Heard::Reset && is_over {
                // RFC 9293, section 3.10.7.4: in TIME-WAIT, "enter the CLOSED state, delete the TCB, and return".
                return frames.foreign.forget(now, id, watch);
            }
            return on_heard(world, now, id, heard);
        }
        let bytes = bytes.to_vec();
        frames.release(packet.body);
        if let Some(of) = sender {
            frames.foreign.retire_if_over(now, of.connection, watch);
        }
        on_stray(world, now, node, &bytes, None);
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
        let knocked = connection.side == SERVER && !connection.socket.is_open();
        if knocked && now >= connection.account.opened + LINGER {
            // Whoever knocked has gone away.
            connection.account.received = Some(now);
            close(world, now, id);
            let (frames, watch) = world.parts_mut();
            return frames.foreign.retire_if_over(now, id, watch);
        }
        let expired = connection.socket.on_time(now);
        let sender = connection.socket.sender().filter(|_| W::PACKETS && expired);
        if let Some(event) = connection.account.timed_out(connection.side, sender) {
            watch.record(now, &event);
            connection.served(ServedStep::Timeout).iter().for_each(|what| watch.served(now, what));
        }
        pump(world, now, id);
    }
}

/// What a program is to hear, and what is to be recorded before.
type News = (Option<Reply>, AppEvent);

/// One of our hosts has heard from outside: its program hears of that, and then what it says leaves.
fn on_heard<O: Outside, W: Watch>(world: &mut FrameWorld<O, W>, now: Time, id: u32, heard: Heard) {
    let strangers = &mut world.medium_mut().foreign;
    strangers.touched.push(id);
    let connection = &mut strangers.connections[id];
    let (conn, program, side) = (connection.conn(id), connection.program, connection.side);
    let over = heard == Heard::Reset || connection.socket.peer_closed();
    let opened = connection.socket.is_open() && !std::mem::replace(&mut connection.told[0], true);
    let mut events = Vec::new();
    if opened {
        events.push((None, if side == CLIENT { AppEvent::Opened(conn) } else { AppEvent::Accepted(conn) }));
    }
    match side {
        CLIENT => hear_answers(world, now, id, over, &mut events),
        _ => hear_requests(world, now, id, heard == Heard::Reset, &mut events),
    }
    let connection = &mut world.medium_mut().foreign.connections[id];
    if over && !std::mem::replace(&mut connection.told[1], true) {
        events.push((None, AppEvent::PeerClosed(conn)));
        if program == NOBODY {
            connection.socket.close(now);
        }
    }
    for (reply, event) in events {
        // Who keeps records takes an object for that of the last answer.
        if let Some(reply) = reply {
            world.watch_mut().record(now, &Event::Reply(reply));
        }
        world.tell(now, program, event);
    }
    Strangers::flush(world, now);
}

/// What a client has heard from a server outside.
fn hear_answers<O: Outside, W: Watch>(
    world: &mut FrameWorld<O, W>,
    now: Time,
    id: u32,
    over: bool,
    events: &mut Vec<News>,
) {
    let connection = &mut world.medium_mut().foreign.connections[id];
    let conn = connection.conn(id);
    let mut answered: Vec<(Option<Reply>, Message, u64, bool)> = Vec::new();
    let mut given_up = 0;
    match &mut connection.talk {
        Talk::Fetch(fetch) => {
            let persists = !over || fetch.end();
            if !persists {
                given_up = fetch.give_up();
            }
            let mut answers = Vec::new();
            while let Some(answer) = fetch.answer() {
                answers.push(answer);
            }
            let progress = fetch.progress();
            for answer in answers {
                let super::fetch::Answer { request, status, body_bytes, digest, whole } = answer;
                let reply = connection.reply(request.tag, status, body_bytes, digest, whole);
                answered.push((Some(reply), request, body_bytes, whole));
            }
            events.extend(progress.map(|tag| (None, AppEvent::Progress { conn, tag })));
        }
        Talk::Echo(echo) => {
            while let Some((message, whole)) = echo.answer() {
                answered.push((None, message, message.asks, whole));
            }
            if over {
                given_up = echo.give_up();
            }
        }
        Talk::Serve(_) | Talk::Repeat(_) => {}
    }
    if !answered.is_empty() {
        connection.account.received = Some(now);
    }
    let tally = world.tally_mut();
    tally.waiting -= answered.len() + given_up;
    if given_up + answered.len() > 0 {
        tally.last_end = now;
    }
    for (reply, request, bytes, whole) in answered {
        tally.completed += u64::from(whole);
        let message = catnip_sim::Heard { bytes, tag: request.tag, asks: 0 };
        events.push((reply, AppEvent::Message { conn, message, whole }));
    }
}

/// What a server has heard from a client outside.
fn hear_requests<O: Outside, W: Watch>(
    world: &mut FrameWorld<O, W>,
    now: Time,
    id: u32,
    reset: bool,
    events: &mut Vec<News>,
) {
    let Strangers { connections, services, .. } = &mut world.medium_mut().foreign;
    let connection = &mut connections[id];
    let conn = connection.conn(id);
    if reset {
        connection.account.received.get_or_insert(now);
        return;
    }
    match &mut connection.talk {
        Talk::Serve(serving) => {
            let at = connection.socket.ends().0;
            let persists =
                services.get(connection.account.parties.tcp).speaks == Protocol::Http { persistent: true };
            let goes_on = |last: Option<&Awaited>| last.is_none_or(|last| last.persistent);
            while !connection.socket.is_closing()
                && goes_on(serving.awaited.back())
                && let Some(request) = serving.requests.read()
            {
                let document = request.path.and_then(|path| services.document(at, &path));
                let persistent = persists && request.persistent;
                let answer = match &document {
                    Some(document) if request.is_head => Answer::Header(document.clone()),
                    Some(document) => Answer::Document(document.clone()),
                    None => Answer::Missing,
                };
                serving.awaited.push_back(Awaited { answer, persistent });
                serving.status = if document.is_some() && serving.status <= 200 { 200 } else { 404 };
                if let Some(document) = document.filter(|_| !request.is_head) {
                    let message = catnip_sim::Heard { bytes: request.bytes, tag: 0, asks: document.bytes };
                    events.push((None, AppEvent::Message { conn, message, whole: true }));
                }
            }
            answer_at_once(serving, &mut connection.socket, now);
        }
        Talk::Repeat(repeating) => {
            let bytes = (repeating.said.len() - repeating.announced) as u64;
            repeating.announced = repeating.said.len();
            if bytes > 0 {
                let message = catnip_sim::Heard { bytes, tag: 0, asks: bytes };
                events.push((None, AppEvent::Message { conn, message, whole: true }));
            }
        }
        Talk::Fetch(_) | Talk::Echo(_) => {}
    }
}

/// Closes a connection once both sides know that it is over.
fn end_if_over<O: Outside, W: Watch>(world: &mut FrameWorld<O, W>, now: Time, id: u32) {
    let connection = &mut world.medium_mut().foreign.connections[id];
    if !connection.socket.is_over() || connection.account.closed.is_some() {
        return;
    }
    let (side, reset) = (connection.side, connection.socket.was_reset());
    if side == SERVER {
        connection.account.received.get_or_insert(now);
    }
    if !reset {
        let until = now + LINGER;
        (connection.linger_until, connection.planned) = (until, until);
        let number = connection.account.number;
        world.medium_mut().foreign.lingering.push_back((id, number));
        world.plan(until, id);
    }
    close(world, now, id);
    let (frames, watch) = world.parts_mut();
    let connection = &frames.foreign.connections[id];
    let (conn, program) = (connection.conn(id), connection.program);
    if let Some(status) = connection.answered() {
        let [_, arrived] = connection.arrived();
        let body_bytes = if reset { arrived } else { connection.account.bytes };
        let reply = connection.reply(0, status, body_bytes, 0, !reset);
        watch.record(now, &Event::Reply(reply));
    }
    frames.foreign.retire_if_over(now, id, watch);
    world.tell(now, program, AppEvent::Closed(conn));
}

fn close<O: Outside, W: Watch>(world: &mut FrameWorld<O, W>, now: Time, id: u32) {
    let connection = &mut world.medium_mut().foreign.connections[id];
    if connection.account.closed.is_none() {
        connection.account.closed = Some(now);
        let of_app = usize::from(connection.account.app != NOBODY);
        world.tally_mut().open -= of_app;
    }
}

/// A packet that is for nobody: a SYN for a service, or to be refused. A connection that follows another one between the same ends
/// counts from `first` on.
fn on_stray<O: Outside, W: Watch>(
    world: &mut FrameWorld<O, W>,
    now: Time,
    node: NodeId,
    bytes: &[u8],
    first: Option<u32>,
) {
    let (frames, watch) = world.parts_mut();
    frames.foreign.stray += 1;
    let Some((ends, tcp)) = parse(bytes) else { return };
    let Some(peer) = frames.node(*ends.1.ip()).filter(|&peer| frames.is_outside(peer)) else { return };
    let syn = tcp.flags().contains(TcpFlags::SYN) && !tcp.flags().contains(TcpFlags::ACK);
    let listener = frames.foreign.services.waits_at(ends.0).filter(|_| syn);
    if let Some(listener) = listener
        && frames.foreign.has_room(now, watch)
    {
        frames.foreign.stray -= 1;
        return accept(
            world,
            now,
            (node, peer),
            &tcp,
            Opening { ends, first, role: Role::Passive },
            listener,
        );
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
    opening: Opening,
    tcp: TcpId,
) {
    let Some(route) = world.fabric().route(server, client) else { return };
    let parties = Parties { client, server, opener: CLIENT, tcp };
    let program = world.service(server, tcp);
    let talk = match world.medium().foreign.services.get(tcp).speaks {
        Protocol::Http { .. } => Talk::Serve(Box::default()),
        Protocol::Echo => Talk::Repeat(Box::default()),
    };
    let mut connection = begin(world, now, parties, program, opening, route, talk);
    connection.socket.receive(now, Ecn::NotEct, syn, |_| ());
    let id = world.medium_mut().foreign.insert(connection);
    pump(world, now, id);
}

/// How our end of a connection begins.
#[derive(Clone, Copy, Debug)]
struct Opening {
    role: Role,
    ends: Ends,
    /// Its initial sequence number, if it must not be just any.
    first: Option<u32>,
}

/// Our end of a connection that begins now.
fn begin<O: Outside, W: Watch>(
    world: &mut FrameWorld<O, W>,
    now: Time,
    parties: Parties,
    program: u32,
    Opening { role, ends: (local, remote), first }: Opening,
    route: Route,
    talk: Talk,
) -> Connection {
    let (number, mut rng) = world.number();
    let options = world.tcp(parties.tcp).clone();
    let phase = tick_phase(options.config.slowest_clock(), rng.uniform());
    let drawn = rng.next_u32();
    let identity = Identity { local, remote, initial_sequence: first.unwrap_or(drawn), stranger: true };
    let config = world.medium_mut().config(parties.tcp, &options.config);
    let socket = Socket::new(now, role, &config, phase, identity);
    let (side, app) = if role == Role::Active { (CLIENT, program) } else { (SERVER, NOBODY) };
    Connection {
        socket,
        side,
        program,
        told: [false; 2],
        route,
        planned: Time::NEVER,
        account: Account::new(number, app, parties, now, &options, &rng),
        talk,
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
        let mut packet = Packet { ecn: out.ecn, ..Packet::new(now, connection.route, len as u32, body) };
        let (account, socket) = (&mut connection.account, &connection.socket);
        let side = connection.side;
        let marked = account.is_marked(side) && account.mark(now, side, socket.sending(&out), &mut packet);
        account.enters();
        if marked {
            account.counts(side, packet.dscp);
        }
        if W::PACKETS
            && let Some(event) = connection.account.sent(side, socket.sender(), &out, &packet)
        {
            watch.record(now, &event);
        }
        if W::PACKETS && out.segment.len > 0 {
            let (seq, bytes, retransmission) = (out.segment.seq, out.segment.len, out.retransmission);
            let sent = connection.served(ServedStep::Sent { seq, bytes, retransmission });
            sent.iter().for_each(|what| watch.served(now, what));
        }
        let from = connection.account.parties.node(connection.side);
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

use super::events::{hear_answers, hear_requests};
use super::fetch::Fetch;
use super::listener::{Opening, begin, on_stray, say};
use super::session::{Connection, Talk};
use super::transmit::pump;
use super::{FIRST_PORT, FrameWorld, LINGER, PORTS, Strangers};
use crate::datapath::frames::{Belongs, Foreign, Outside};
use crate::socket::{Heard, addresses, ends_and_tcp, parse, refuse, whole};
use catnip_base::{Rng, Stream, Time};
use catnip_lab::Protocol;
use catnip_net::{DropReason, NodeId, Packet, PortId};
use catnip_sim::app::AppEvent;
use catnip_sim::medium::Medium;
use catnip_sim::record::{NO_APP, ServedStep};
use catnip_sim::{Act, CLIENT, Conn, Event, Parties, SERVER, TcpId, Watch};
use catnip_tcp::Role;
use std::net::{Ipv4Addr, SocketAddrV4};

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
        // If all ports are in use, the last one tried is used again.
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
                    connection.account.set_marker(side, service, spec, &rng);
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
            // The client has not completed the handshake.
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

/// Handles a packet from an external host: notifies the program, then sends the data that it writes.
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
        if program == NO_APP {
            connection.socket.close(now);
        }
    }
    for (reply, event) in events {
        // Records assign an object to the last reply, so the reply precedes the event.
        if let Some(reply) = reply {
            world.watch_mut().record(now, &Event::Reply(reply));
        }
        world.tell(now, program, event);
    }
    Strangers::flush(world, now);
}

/// Closes a connection if both directions are closed or it was reset.
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
        let of_app = usize::from(connection.account.app != NO_APP);
        world.tally_mut().open -= of_app;
    }
}

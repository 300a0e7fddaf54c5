use super::events::{receive_answers, receive_requests};
use super::fetch::Fetch;
use super::listener::{Opening, begin, on_stray, say};
use super::session::{AppProtocol, Connection};
use super::transmit::transmit_pending;
use super::{ExternalPeers, FIRST_PORT, FrameWorld, LINGER, PORTS};
use crate::datapath::frames::{ConnectionRef, Egress, ExternalHosts};
use crate::socket::{Received, addresses, ends_and_tcp, parse, refuse, whole};
use catnip_base::{Rng, Stream, Time};
use catnip_lab::Protocol;
use catnip_net::{DropReason, NodeId, Packet, PortId};
use catnip_sim::app::AppEvent;
use catnip_sim::medium::Medium;
use catnip_sim::record::{NO_APP, ServedStep};
use catnip_sim::{Act, CLIENT, Conn, ConnectionSpec, Event, SERVER, TcpId, Watch};
use catnip_tcp::Role;
use std::net::{Ipv4Addr, SocketAddrV4};

impl ExternalHosts for ExternalPeers {
    fn see(&mut self, packet: &[u8], high: bool) -> Option<ConnectionRef> {
        if self.by_ends.is_empty() {
            return None;
        }
        let (ends, tcp) = parse(packet)?;
        let &id = self.by_ends.get(&ends)?;
        let connection = &mut self.connections[id];
        connection.info.in_network += 1;
        if let AppProtocol::Fetch(fetch) = &mut connection.protocol {
            fetch.server.see(&tcp);
            connection.info.sent_high += u32::from(high);
        }
        let data_bytes = tcp.payload().len() as u32;
        Some(ConnectionRef { connection: id, from_server: connection.side == CLIENT, seq: 0, data_bytes })
    }

    fn copied(&mut self, id: u32) {
        self.connections[id].info.in_network += 1;
    }

    fn left<W: Watch>(&mut self, now: Time, id: u32, watch: &mut W) {
        self.connections[id].info.in_network -= 1;
        self.retire_if_over(now, id, watch);
    }

    fn dropped<W: Watch>(
        &mut self,
        now: Time,
        port: PortId,
        packet: &Packet,
        of: ConnectionRef,
        why: DropReason,
        watch: &mut W,
    ) {
        let connection = &mut self.connections[of.connection];
        connection.info.loses(of.from_server && of.data_bytes > 0);
        if W::PACKETS {
            watch.record(now, &connection.info.lost(of.seq, port, packet, why));
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

    fn unfinished_connections(&self, visit: &mut dyn FnMut(Event, u64)) {
        let known = self.connections.iter().map(|(_, connection)| connection);
        let mut open: Vec<&Connection> = known.filter(|connection| !connection.recorded).collect();
        open.sort_unstable_by_key(|connection| connection.info.number);
        for connection in open {
            let [_, delivered] = connection.arrived();
            if let Some(status) = connection.answered() {
                visit(Event::Reply(connection.reply(0, status, delivered, 0, false)), delivered);
            }
            visit(Event::Connection(connection.record()), delivered);
        }
    }

    fn arrived(&self, conn: Conn) -> u64 {
        let Some((id, number)) = conn.as_external() else { return 0 };
        let connection = &self.connections[id];
        let [underway, _] = connection.arrived();
        if connection.info.number as u32 == number { underway } else { 0 }
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

    fn open<O: Egress, W: Watch>(
        world: &mut FrameWorld<O, W>,
        now: Time,
        program: u32,
        spec: ConnectionSpec,
    ) -> Conn {
        let server = world.medium().server_at(&spec);
        let local = world.medium_mut().client_at(spec.client, server);
        let route = world.fabric().checked_route(spec.client, spec.server);
        let host = match server.port() {
            80 => server.ip().to_string(),
            _ => server.to_string(),
        };
        let protocol = match world.medium().external.services.get(spec.tcp).speaks {
            Protocol::Http { persistent } => AppProtocol::Fetch(Box::new(Fetch::new(host, persistent))),
            Protocol::Echo => AppProtocol::Echo(Box::default()),
        };
        let opening = Opening { role: Role::Active, ends: (local, server), first: None };
        let connection = begin(world, now, spec, program, opening, route, protocol);
        let number = connection.info.number;
        let strangers = &mut world.medium_mut().external;
        let id = strangers.insert(connection);
        strangers.dirty_ends.push(id);
        Conn::external(id, number)
    }

    fn act<O: Egress, W: Watch>(world: &mut FrameWorld<O, W>, now: Time, conn: Conn, what: Act) {
        let Some((id, number)) = conn.as_external() else { return };
        let strangers = &mut world.medium_mut().external;
        let connection = &mut strangers.connections[id];
        if connection.info.number as u32 != number || connection.info.closed.is_some() {
            return;
        }
        match what {
            Act::Send(message) => {
                let paths = &strangers.services.get(connection.info.spec.tcp).paths;
                let awaits = connection.send(now, message, paths);
                world.tally_mut().waiting += usize::from(awaits);
            }
            Act::Close => connection.socket.close(now),
            Act::Notify(bytes) => {
                if let AppProtocol::Fetch(fetch) = &mut connection.protocol {
                    fetch.notify(bytes);
                }
            }
            Act::Serve(options) => {
                let tcp = connection.info.spec.tcp;
                let service = world.tcp(tcp).service;
                let seed = world.seed();
                let connection = &mut world.medium_mut().external.connections[id];
                let (side, stream) = (connection.side, Stream::Connection(number));
                if let Some(spec) = &options.marker {
                    let rng = || Rng::new(seed, stream).branch(2 + side as u32);
                    connection.info.set_marker(side, service, spec, &rng);
                }
            }
        }
        world.medium_mut().external.dirty_ends.push(id);
    }

    fn flush<O: Egress, W: Watch>(world: &mut FrameWorld<O, W>, now: Time) {
        while let Some(id) = world.medium_mut().external.dirty_ends.pop() {
            transmit_pending(world, now, id);
            end_if_over(world, now, id);
        }
    }

    fn delivered<O: Egress, W: Watch>(world: &mut FrameWorld<O, W>, now: Time, node: NodeId, packet: Packet) {
        let (frames, watch) = world.parts_mut();
        let sender = frames.belongs(packet.body);
        if let Some(of) = sender {
            frames.external.connections[of.connection].info.in_network -= 1;
        }
        let (bytes, strangers) = frames.packet_and_foreign(packet.body);
        let Some(ip) = whole(bytes) else {
            // Packets with a wrong checksum are discarded: RFC 9293, section 3.1, MUST-3, and for the IP header RFC 1122, section 3.2.1.2.
            strangers.damaged += 1;
            frames.release(packet.body);
            if let Some(of) = sender {
                frames.external.retire_if_over(now, of.connection, watch);
            }
            return;
        };
        let known = ends_and_tcp(&ip).and_then(|(ends, tcp)| Some((*strangers.by_ends.get(&ends)?, tcp)));
        let followed = known.filter(|(id, tcp)| {
            let connection = &strangers.connections[*id];
            let socket = &connection.socket;
            connection.info.closed.is_some() && (socket.was_reset() || socket.is_followed_by(tcp))
        });
        if let Some((id, _)) = followed {
            let bytes = bytes.to_vec();
            let behind = strangers.connections[id].socket.numbers_behind();
            frames.release(packet.body);
            frames.external.forget(now, id, watch);
            return on_stray(world, now, node, &bytes, Some(behind));
        }
        if let Some((id, tcp)) = known {
            let connection = &mut strangers.connections[id];
            if !tcp.payload().is_empty() {
                connection.info.on_data_received(connection.side, packet.dscp);
            }
            let received = connection.receive(now, (&packet, &tcp), watch);
            if received == Received::Impossible {
                let (ours, theirs) = connection.socket.ends();
                let peer = connection.info.spec.node(1 - connection.side);
                let mut answer = [0; 80];
                let len = refuse(&tcp, &addresses(*ours.ip(), *theirs.ip()), &mut answer);
                frames.release(packet.body);
                return len.into_iter().for_each(|len| say(world, now, node, peer, &answer[..len]));
            }
            let is_over = connection.info.closed.is_some();
            frames.release(packet.body);
            if received == Received::Reset && is_over {
                // RFC 9293, section 3.10.7.4: in TIME-WAIT, "enter the CLOSED state, delete the TCB, and return".
                return frames.external.forget(now, id, watch);
            }
            return on_received(world, now, id, received);
        }
        let bytes = bytes.to_vec();
        frames.release(packet.body);
        if let Some(of) = sender {
            frames.external.retire_if_over(now, of.connection, watch);
        }
        on_stray(world, now, node, &bytes, None);
    }

    fn on_timer<O: Egress, W: Watch>(world: &mut FrameWorld<O, W>, now: Time, id: u32) {
        let (frames, watch) = world.parts_mut();
        let strangers = &mut frames.external;
        let connection = &mut strangers.connections[id];
        if connection.planned != now {
            return;
        }
        connection.planned = Time::NEVER;
        if connection.info.closed.is_some() {
            return strangers.retire_if_over(now, id, watch);
        }
        let knocked = connection.side == SERVER && !connection.socket.is_open();
        if knocked && now >= connection.info.opened + LINGER {
            // The client has not completed the handshake in time, so the connection is closed.
            connection.info.received = Some(now);
            close(world, now, id);
            let (frames, watch) = world.parts_mut();
            return frames.external.retire_if_over(now, id, watch);
        }
        let expired = connection.socket.on_time(now);
        let sender = connection.socket.sender().filter(|_| W::PACKETS && expired);
        if let Some(event) = connection.info.timed_out(connection.side, sender) {
            watch.record(now, &event);
            connection.served(ServedStep::Timeout).iter().for_each(|what| watch.served(now, what));
        }
        transmit_pending(world, now, id);
    }
}

/// Handles a packet from an external host: notifies the program, then sends the data that it writes.
fn on_received<O: Egress, W: Watch>(world: &mut FrameWorld<O, W>, now: Time, id: u32, received: Received) {
    let strangers = &mut world.medium_mut().external;
    strangers.dirty_ends.push(id);
    let connection = &mut strangers.connections[id];
    let (conn, program, side) = (connection.conn(id), connection.program, connection.side);
    let over = received == Received::Reset || connection.socket.peer_closed();
    let opened = connection.socket.is_open() && !std::mem::replace(&mut connection.told[0], true);
    let mut events = Vec::new();
    if opened {
        events.push((None, if side == CLIENT { AppEvent::Opened(conn) } else { AppEvent::Accepted(conn) }));
    }
    match side {
        CLIENT => receive_answers(world, now, id, over, &mut events),
        _ => receive_requests(world, now, id, received == Received::Reset, &mut events),
    }
    let connection = &mut world.medium_mut().external.connections[id];
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
        world.deliver(now, program, event);
    }
    ExternalPeers::flush(world, now);
}

/// Closes a connection if both directions are closed or it was reset.
fn end_if_over<O: Egress, W: Watch>(world: &mut FrameWorld<O, W>, now: Time, id: u32) {
    let connection = &mut world.medium_mut().external.connections[id];
    if !connection.socket.is_over() || connection.info.closed.is_some() {
        return;
    }
    let (side, reset) = (connection.side, connection.socket.was_reset());
    if side == SERVER {
        connection.info.received.get_or_insert(now);
    }
    if !reset {
        let until = now + LINGER;
        (connection.linger_until, connection.planned) = (until, until);
        let number = connection.info.number;
        world.medium_mut().external.lingering.push_back((id, number));
        world.plan(until, id);
    }
    close(world, now, id);
    let (frames, watch) = world.parts_mut();
    let connection = &frames.external.connections[id];
    let (conn, program) = (connection.conn(id), connection.program);
    if let Some(status) = connection.answered() {
        let [_, arrived] = connection.arrived();
        let body_bytes = if reset { arrived } else { connection.info.bytes };
        let reply = connection.reply(0, status, body_bytes, 0, !reset);
        watch.record(now, &Event::Reply(reply));
    }
    frames.external.retire_if_over(now, id, watch);
    world.deliver(now, program, AppEvent::Closed(conn));
}

fn close<O: Egress, W: Watch>(world: &mut FrameWorld<O, W>, now: Time, id: u32) {
    let connection = &mut world.medium_mut().external.connections[id];
    if connection.info.closed.is_none() {
        connection.info.closed = Some(now);
        let of_app = usize::from(connection.info.app != NO_APP);
        world.tally_mut().open -= of_app;
    }
}

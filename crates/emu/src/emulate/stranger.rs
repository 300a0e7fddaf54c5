//! What happens between a simulated host and a real one.

use super::audience::{Audience, Reply};
use super::connection::*;
use super::fetch::{Fetch, Next};
use super::hosts::Hosts;
use super::http::{self, Version};
use super::socket::{Heard, Identity, Socket, refuse};
use catnip_base::{FlowContext, Rng, Stream, Time};
use catnip_lab::{ObjectName, Plan};
use catnip_net::mark::{AnyMarker, Spm};
use catnip_net::{Ecn, Fabric, NodeId, Packet, Priority};
use catnip_sim::app::{AnyApp, AppEvent, Http};
use catnip_sim::{Opener, TcpId, Transfer};
use catnip_tcp::Role;
use catnip_wire::{Addresses, Tcp, TcpFlags};
use std::net::SocketAddrV4;

const MOST_CONNECTIONS: usize = 1 << 16;

impl<A: Audience> Hosts<A> {
    /// Prepares simulated servers for the real clients of their groups.
    pub(super) fn listen(&mut self, plan: &Plan) {
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

    /// What an application wants when it opens a connection to a real server.
    pub(super) fn fetch(&self, app: u32, transfer: &Transfer, server: SocketAddrV4) -> Fetch {
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

    /// A client has heard from a real server.
    pub(super) fn on_response(&mut self, fabric: &mut Fabric, now: Time, id: u32, heard: Heard, before: u64) {
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

    /// A simulated server has heard from a real client.
    pub(super) fn on_request(&mut self, fabric: &mut Fabric, now: Time, id: u32, heard: Heard) {
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
    pub(super) fn on_stray(&mut self, fabric: &mut Fabric, now: Time, node: NodeId, packet: &Packet) {
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

    /// The flow of packets from one host to another; none if there is no route.
    pub(super) fn pair_flow(&mut self, fabric: &mut Fabric, from: NodeId, to: NodeId) -> Option<u32> {
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
}

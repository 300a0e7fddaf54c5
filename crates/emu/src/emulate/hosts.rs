use super::audience::{Audience, Datagrams, Outside};
use super::connection::*;
use super::slab::Slab;
use super::socket::{Heard, Identity, Socket};
use crate::buffers::{Buffers, Entry};
use crate::mark::Marker;
use catnip_base::{Rng, Stream, Time};
use catnip_lab::Service;
use catnip_net::mark::{AnyMarker, Spm, SpmParameters};
use catnip_net::{
    Calendar, DropReason, Ecn, Fabric, NetworkFate, NodeId, Packet, PortId, Priority, Topology,
};
use catnip_sim::app::{AnyApp, AppAction, AppEvent, Application};
use catnip_sim::record::{ConnectionRecord, DatagramStep, Event};
use catnip_sim::{FlowId, Opener, TcpId, Transfer};
use catnip_tcp::{Role, TcpConfig};
use catnip_wire::ip;
use catnip_wire::{PriorityCodec, checksum};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

/// Everything at the edges of the network, as in the simulator, but with bytes.
#[derive(Debug)]
pub(super) struct Hosts<A> {
    pub(super) topology: Topology,
    /// Flows of packets that belong to no connection of ours, by their two ends; none if there is no route.
    pub(super) pair_flows: BTreeMap<(NodeId, NodeId), Option<u32>>,
    pub(super) tcp: Vec<(Arc<TcpConfig>, Option<SpmParameters>)>,
    pub(super) services: Vec<Service>,
    /// Traffic groups by where their simulated servers wait for real clients.
    pub(super) listeners: BTreeMap<SocketAddrV4, TcpId>,
    /// What these servers have.
    pub(super) documents: BTreeMap<(SocketAddrV4, String), u64>,
    pub(super) addresses: Vec<Ipv4Addr>,
    pub(super) nodes: BTreeMap<Ipv4Addr, NodeId>,
    pub(super) is_real: Vec<bool>,
    /// Real hosts whose packets are marked for them as they come.
    pub(super) is_marked: Vec<bool>,
    pub(super) marker: Marker,
    /// Ports given to clients, per node.
    pub(super) ports: Vec<u16>,
    pub(super) by_ends: BTreeMap<Ends, (u32, usize)>,
    pub(super) apps: Vec<AnyApp>,
    pub(super) connections: Slab<Connection>,
    /// Transfers of users that have not arrived, their connections that are not closed, and when the last one arrived.
    pub(super) users_waiting: usize,
    pub(super) users_live: usize,
    pub(super) last_done: Time,
    pub(super) buffers: Buffers,
    pub(super) parcels: Vec<Parcel>,
    pub(super) entered: u64,
    pub(super) flows: Vec<(NodeId, NodeId, Datagrams)>,
    pub(super) timers: Calendar,
    pub(super) opened: u64,
    pub(super) completed: u64,
    pub(super) data_sent: u64,
    pub(super) data_dropped: u64,
    pub(super) seed: u64,
    pub(super) sources: usize,
    pub(super) source_timers: usize,
    pub(super) app_timers: usize,
    pub(super) stray: u64,
    pub(super) audience: A,
    pub(super) actions: Vec<AppAction>,
}

const FIRST_PORT: u16 = 32768;
const PORTS: u16 = u16::MAX - FIRST_PORT;
const UDP_HEADERS: usize = 28;

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
    /// Sends what is in the packet's buffer.
    pub(super) fn launch(
        &mut self,
        fabric: &mut Fabric,
        from: NodeId,
        packet: Packet,
        len: usize,
        parcel: Parcel,
    ) {
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
    pub(super) fn forward(&mut self, fabric: &mut Fabric, from: NodeId, mut packet: Packet) {
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

    pub(super) fn tell(&mut self, fabric: &mut Fabric, now: Time, app: u32, event: AppEvent) {
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
        let mut port = FIRST_PORT;
        // If all are in use, the oldest one's connection is past its time.
        for _ in 0..PORTS {
            port = FIRST_PORT + *used;
            *used = (*used + 1) % PORTS;
            if !self.by_ends.contains_key(&(SocketAddrV4::new(address, port), server)) {
                break;
            }
        }
        port
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

    pub(super) fn insert(&mut self, connection: Connection) -> u32 {
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

    pub(super) fn on_delivery(
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

    pub(super) fn close(&mut self, now: Time, id: u32) {
        let connection = &mut self.connections[id];
        if connection.closed.is_none() {
            connection.closed = Some(now);
            self.users_live -= usize::from(connection.app != NOBODY);
        }
    }

    /// Records a closed connection when its last packet has left the network, and forgets it when its time has come.
    pub(super) fn retire_if_over(&mut self, now: Time, id: u32) {
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
        for (end, socket) in connection.ends.iter().enumerate() {
            let Some(ends) = socket.as_ref().map(Socket::ends) else { continue };
            if self.by_ends.get(&ends) == Some(&(id, end)) {
                self.by_ends.remove(&ends);
            }
        }
        self.connections.remove(id);
    }

    pub(super) fn record(&mut self, now: Time, id: u32) {
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

    pub(super) fn on_timer(&mut self, fabric: &mut Fabric, now: Time) {
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
    pub(super) fn pump(&mut self, fabric: &mut Fabric, now: Time, id: u32, end: usize) {
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

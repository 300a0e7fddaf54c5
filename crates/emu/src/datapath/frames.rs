//! Network medium that carries real IP packets between simulated hosts, external hosts, or both.

use crate::datapath::buffers::Buffers;
use crate::datapath::classify::{Class, flow};
use crate::datapath::frame_end::FrameEnd;
use crate::external::observed_sender::ObservedSender;
use crate::external::session::SocketSession;
use crate::mark::Marker;
use crate::socket::{Ends, Identity, Received, Socket, addresses, parse};
use catnip_base::{Rng, Span, Time};
use catnip_net::{Ecn, NodeId, Packet, Route};
use catnip_sim::medium::{Medium, Owner};
use catnip_sim::watch::{Origin, Refusal, Step, Watch};
use catnip_sim::{CLIENT, ConnectionSpec, Handler, SERVER, TcpId, World};
use catnip_tcp::{Outgoing, Segment, TcpConfig};
use catnip_wire::{PriorityCodec, ip, udp};
use ipnet::IpNet;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

/// Output for packets that leave the network at an external host.
pub trait Egress: std::fmt::Debug {
    /// Writes a packet to the device of the external host `node`, at which the packet arrives at the time `ideal` in the model.
    fn deliver(&mut self, ideal: Time, node: NodeId, packet: &[u8]) -> Delivery;
}

/// Packet from an external host that has not entered the network yet.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Number of the buffer that contains the packet.
    pub body: u32,
    /// Length of the headers before the IP packet, such as an Ethernet header, bytes.
    pub header: usize,
    /// Length of the content of the buffer, including these headers, bytes.
    pub len: usize,
    /// Upper bound on the time that the packet waited in the device before it was read.
    pub waited: Span,
}

/// Outcome of the delivery of a packet to an external host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Time of the write to the device.
    pub actual: Time,
    /// True if the device accepted the packet.
    pub written: bool,
}

/// Output of a network without external hosts: no packet is written.
impl Egress for () {
    fn deliver(&mut self, ideal: Time, _node: NodeId, _packet: &[u8]) -> Delivery {
        Delivery { actual: ideal, written: false }
    }
}

/// Connections between simulated and external hosts, as far as the medium must know them. The unit type is for networks without such
/// connections.
pub trait ExternalHosts: std::fmt::Debug + Default {
    /// Returns the connection to which a packet from an external host belongs; `None` if it belongs to no known connection.
    fn connection_of(&self, _packet: &[u8]) -> Option<ConnectionRef> {
        None
    }
    /// Returns the TCP port on which the servers of a traffic group listen.
    fn server_port(&self, _tcp: TcpId) -> u16 {
        80
    }
    /// Returns an address and port for a client: the address `address`, and a port that no connection of the client to this server uses.
    fn client_at(&mut self, _client: NodeId, address: Ipv4Addr, _server: SocketAddrV4) -> SocketAddrV4 {
        SocketAddrV4::new(address, 1 << 15)
    }
    /// Returns the session of a simulated client whose socket opens a connection to an external server.
    fn open(&mut self, _now: Time, _socket: Socket, _tcp: TcpId) -> SocketSession {
        unreachable!("no application has a connection with an external host")
    }
    /// Records the addresses and ports of a new connection. The connection has the slot `_connection` in the engine and the end `_external`
    /// at the external host.
    fn opened(&mut self, _ends: Ends, _connection: u32, _external: usize) {}
    /// Records that a connection has ended and is kept only to answer retransmissions.
    fn ended(&mut self, _connection: u32, _number: u64) {}
    /// Forgets the addresses and ports of a connection whose slot in the engine is about to be reused.
    fn released(&mut self, _connection: u32, _ends: Ends) {}
    /// Handles a packet from an external host that has reached a simulated host, and releases the packet's buffer.
    fn delivered<O: Egress, W: Watch>(
        world: &mut World<Frames<O, Self>, W>,
        _now: Time,
        _node: NodeId,
        packet: Packet,
    ) {
        world.medium_mut().release(packet.body);
    }
}

impl ExternalHosts for () {}

/// Connection to which a packet from an external host belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionRef {
    /// Number of the connection's slot in the engine.
    pub connection: u32,
    /// End of the connection at the external host: [`CLIENT`] or [`SERVER`].
    pub end: usize,
    /// Number of data bytes in the packet.
    pub data_bytes: u32,
}

/// Medium that stores real packets in buffers, and that has the addresses of the nodes and a routing table for external packets.
#[derive(Debug)]
pub struct Frames<O, F = ()> {
    /// Output for packets to external hosts.
    pub egress: O,
    /// Connections between simulated and external hosts.
    pub external: F,
    buffers: Buffers,
    /// Properties of the packet in each buffer.
    packets: Vec<PacketInfo>,
    /// Number of packets that have entered the network.
    entered: u64,
    /// Largest length of packets from external hosts, bytes.
    mtu: usize,
    codec: PriorityCodec,
    marking: Option<Marking>,
    routing: Routing,
    is_external: Vec<bool>,
    /// IPv4 address of each node.
    addresses: Vec<Ipv4Addr>,
    /// Shared TCP parameters of connections, by [`TcpId`].
    configs: Vec<Option<Arc<TcpConfig>>>,
}

/// Routing table for packets from external hosts, from addresses to nodes.
#[derive(Clone, Debug, Default)]
pub struct Routing {
    /// Nodes of single hosts, by IP address.
    pub hosts: BTreeMap<IpAddr, NodeId>,
    /// IP networks, and the nodes through which they are reached; the longest matching prefix applies.
    pub networks: Vec<(IpNet, NodeId)>,
    /// Nodes at the two ends of a bridge, which forwards all packets from one end to the other, regardless of their addresses. `None` if
    /// packets are routed by address.
    pub bridge: Option<[NodeId; 2]>,
}

impl Routing {
    fn destination(&self, from: NodeId, address: IpAddr) -> Option<NodeId> {
        if self.bridge.is_some() { self.bridge_peer(from) } else { self.node(address) }
    }

    /// Returns the node of a host, or the node through which its network is reached.
    fn node(&self, address: IpAddr) -> Option<NodeId> {
        let network = || self.networks.iter().find(|(network, _)| network.contains(&address));
        self.hosts.get(&address).copied().or_else(|| network().map(|(_, node)| *node))
    }

    /// Returns the node at the other end of the bridge; `None` if packets are routed by address.
    pub(crate) fn bridge_peer(&self, from: NodeId) -> Option<NodeId> {
        let [a, b] = self.bridge?;
        Some(if from == a { b } else { a })
    }
}

/// Marker of packets from external hosts, and the place at which it processes them.
#[derive(Debug)]
struct Marking {
    marker: Marker,
    /// True for each node whose packets are marked, if the marker is located at the servers: it then processes packets to a server when
    /// they reach the server. `None` if it is located in the network, where it processes all packets on entry.
    at_servers: Option<Vec<bool>>,
}

/// Properties of the packet that a buffer contains.
#[derive(Clone, Copy, Debug)]
struct PacketInfo {
    origin: Origin,
    owner: Owner,
    /// Offset of the packet's data in the TCP stream (0 if an external host has sent it), and length of the data, bytes.
    data: (u64, u32),
    /// Length of the content of the buffer, and length of the headers before the IP packet, bytes.
    len: u32,
    header: u32,
}

impl Default for PacketInfo {
    fn default() -> Self {
        Self { origin: Origin::default(), owner: Owner::Other, data: (0, 0), len: 0, header: 0 }
    }
}

/// Largest number of packets inside the network. With large buffers, [`MAX_BYTES`] allows fewer.
const MAX_PACKETS: u32 = 1 << 18;
const MAX_BYTES: usize = 4 << 30;

impl<O: Egress, F: ExternalHosts> Frames<O, F> {
    /// Creates a medium for packets of up to `mtu` bytes from the external hosts `nodes`, and of up to `max_packet` bytes from simulated
    /// hosts.
    pub fn new(
        egress: O,
        nodes: impl IntoIterator<Item = NodeId>,
        routing: Routing,
        mtu: usize,
        max_packet: usize,
    ) -> Self {
        // One byte more than the MTU, so that longer packets are detected.
        let slot = (max_packet.max(mtu) + 1).next_multiple_of(64);
        let max_slots = MAX_PACKETS.min((MAX_BYTES / slot) as u32);
        let mut is_external = Vec::new();
        for NodeId(node) in nodes {
            is_external.resize(is_external.len().max(node as usize + 1), false);
            is_external[node as usize] = true;
        }
        let mut routing = routing;
        routing.networks.sort_by_key(|(network, _)| std::cmp::Reverse(network.prefix_len()));
        Self {
            egress,
            external: F::default(),
            buffers: Buffers::new(slot, max_slots),
            packets: Vec::new(),
            entered: 0,
            mtu,
            codec: PriorityCodec::default(),
            marking: None,
            routing,
            is_external,
            addresses: Vec::new(),
            configs: Vec::new(),
        }
    }

    /// Sets the codec that reads priorities from packets and writes them into packets.
    pub fn with_codec(self, codec: PriorityCodec) -> Self {
        Self { codec, ..self }
    }

    /// Sets the marker of all packets from external hosts. Its marks take precedence over the marks in the packets.
    pub fn with_marker(self, marker: Option<Marker>) -> Self {
        Self { marking: marker.map(|marker| Marking { marker, at_servers: None }), ..self }
    }

    /// Sets a marker that is located at the servers: it marks only packets from nodes for which `servers` is true.
    pub(crate) fn with_marker_at(self, marker: Marker, servers: Vec<bool>) -> Self {
        Self { marking: Some(Marking { marker, at_servers: Some(servers) }), ..self }
    }

    /// Sets the IPv4 addresses of the nodes, by index of the node.
    pub(crate) fn with_addresses(self, addresses: Vec<Ipv4Addr>) -> Self {
        Self { addresses, ..self }
    }

    /// Returns the IPv4 address of a node.
    pub fn address(&self, node: NodeId) -> Ipv4Addr {
        self.addresses[node.0 as usize]
    }

    /// Returns the host with this IPv4 address.
    pub(crate) fn node(&self, address: Ipv4Addr) -> Option<NodeId> {
        self.routing.hosts.get(&address.into()).copied()
    }

    pub(crate) fn routing(&self) -> &Routing {
        &self.routing
    }

    /// Returns the number of packets that have entered the network.
    pub(crate) fn entered(&self) -> u64 {
        self.entered
    }

    /// Returns the largest length of packets from external hosts, bytes.
    pub(crate) fn mtu(&self) -> usize {
        self.mtu
    }

    pub(crate) fn codec(&self) -> PriorityCodec {
        self.codec
    }

    /// Allocates a buffer and returns its number; `None` if all buffers are in use.
    pub fn allocate(&mut self) -> Option<u32> {
        self.buffers.allocate()
    }

    /// Returns the bytes of the packet in the buffer `body`, from its IP header on.
    pub(crate) fn packet_bytes(&self, body: u32) -> &[u8] {
        let PacketInfo { len, header, .. } = self.packets[body as usize];
        &self.buffers.bytes(body)[header as usize..len as usize]
    }

    /// Returns all bytes of the buffer `body`, and the output to external hosts.
    pub(crate) fn buffer_and_egress(&mut self, body: u32) -> (&mut [u8], &mut O) {
        (self.buffers.bytes_mut(body), &mut self.egress)
    }

    /// Returns all bytes of the buffer `body` mutably.
    pub fn buffer_mut(&mut self, body: u32) -> &mut [u8] {
        self.buffers.bytes_mut(body)
    }

    /// Returns the bytes of the packet in the buffer `body`, from its IP header on, mutably.
    pub(crate) fn ip_packet(&mut self, body: u32) -> &mut [u8] {
        let PacketInfo { len, header, .. } = self.packets[body as usize];
        &mut self.buffers.bytes_mut(body)[header as usize..len as usize]
    }

    /// Returns the TCP parameters with the number `tcp`, shared by its connections. The first call for a number stores `config`.
    pub(crate) fn config(&mut self, tcp: TcpId, config: &TcpConfig) -> Arc<TcpConfig> {
        let index = tcp.0 as usize;
        self.configs.resize(self.configs.len().max(index + 1), None);
        self.configs[index].get_or_insert_with(|| Arc::new(config.clone())).clone()
    }

    /// Returns the address and port at which the server of a connection listens.
    pub(crate) fn server_at(&self, spec: &ConnectionSpec) -> SocketAddrV4 {
        SocketAddrV4::new(self.address(spec.server), self.external.server_port(spec.tcp))
    }

    /// Returns the client's address with a port that no connection of the client to `server` uses.
    pub(crate) fn client_at(&mut self, client: NodeId, server: SocketAddrV4) -> SocketAddrV4 {
        let address = self.address(client);
        self.external.client_at(client, address, server)
    }

    /// Records that the buffer `body` contains a packet of `len` bytes that belongs to no connection ([`Owner::Other`]).
    pub(crate) fn record_packet(&mut self, body: u32, len: usize) {
        self.set_info(body, PacketInfo { len: len as u32, ..PacketInfo::default() });
    }

    /// Determines the priority and the connection of a packet from an external host, and returns the packet in the form that the network
    /// forwards.
    pub(crate) fn accept(
        &mut self,
        at: Time,
        from: NodeId,
        class: Class,
        route: Route,
        Arrival { body, header, len, waited }: Arrival,
    ) -> Packet {
        let mut priority = class.priority;
        let bytes = &mut self.buffers.bytes_mut(body)[header..len];
        if let Some(Marking { marker, at_servers }) = &mut self.marking
            && at_servers.as_ref().is_none_or(|servers| servers[from.0 as usize])
            && let Some(marked) = marker.mark(Some(from.0 as usize), bytes)
        {
            priority = marked;
            if marker.writes_marks() {
                // The mark of a packet that cannot carry it applies inside the network only.
                let _ = self.codec.write(bytes, priority);
            }
        }
        let (owner, data) = match self.external.connection_of(bytes) {
            Some(ConnectionRef { connection, end, data_bytes }) => {
                (Owner::External { connection, end }, (0, data_bytes))
            }
            None => (Owner::Other, (0, 0)),
        };
        let (len, header) = (len as u32, header as u32);
        let origin = Origin { waited, ..Origin::default() };
        self.set_info(body, PacketInfo { owner, data, len, header, origin });
        Packet {
            flow: class.flow,
            dscp: priority.into(),
            ecn: class.ecn,
            ..Packet::new(at, route, class.len, body)
        }
    }

    /// Returns the destination node of a packet from an external host. Refuses a packet whose source address belongs to another host (BCP
    /// 38).
    #[inline]
    pub(crate) fn destination(&self, from: NodeId, class: &Class) -> Result<NodeId, Refusal> {
        if self.routing.bridge.is_none() && self.routing.node(class.source) != Some(from) {
            return Err(Refusal::WrongSource);
        }
        let to = self.routing.destination(from, class.destination);
        to.filter(|&to| to != from).ok_or(Refusal::NoRoute)
    }

    fn set_info(&mut self, body: u32, info: PacketInfo) {
        let index = body as usize;
        if self.packets.len() <= index {
            self.packets.resize(index + 1, PacketInfo::default());
        }
        self.packets[index] = info;
    }
}

impl<O: Egress, F: ExternalHosts> Medium for Frames<O, F> {
    type End = FrameEnd;

    fn connect(
        &mut self,
        now: Time,
        spec: &ConnectionSpec,
        config: &TcpConfig,
        [client_phase, server_phase]: [Span; 2],
        rng: &mut Rng,
    ) -> [FrameEnd; 2] {
        let config = self.config(spec.tcp, config);
        let server_at = self.server_at(spec);
        let client_at = self.client_at(spec.client, server_at);
        let is_external = self.is_external(spec.server);
        let mut end = |local, remote, role, phase| {
            let identity = Identity { local, remote, isn: rng.next_u32(), is_external };
            Socket::new(now, role, &config, phase, identity)
        };
        let [client_role, server_role] = spec.roles();
        if is_external {
            let socket = end(client_at, server_at, client_role, client_phase);
            let session = self.external.open(now, socket, spec.tcp);
            return [FrameEnd::Session(Box::new(session)), FrameEnd::External(ObservedSender::default())];
        }
        let mut server = end(server_at, client_at, server_role, server_phase);
        let mut client = end(client_at, server_at, client_role, client_phase);
        if !config.handshake {
            Socket::introduce(&mut client, &mut server);
        }
        [FrameEnd::Socket(client), FrameEnd::Socket(server)]
    }

    fn pack(
        &mut self,
        now: Time,
        end: &mut FrameEnd,
        owner: Owner,
        _config: &TcpConfig,
    ) -> Option<(Outgoing, u32)> {
        let body = self.buffers.allocate()?;
        let buffer = self.buffers.bytes_mut(body);
        let packet = match end {
            FrameEnd::Socket(socket) => socket.transmit(now, buffer),
            FrameEnd::Session(session) => session.transmit(now, buffer),
            FrameEnd::External(_) => None,
        };
        let Some((out, len)) = packet else {
            self.buffers.release(body);
            return None;
        };
        let data = (out.segment.seq, out.segment.len);
        self.set_info(body, PacketInfo { owner, data, len: len as u32, ..PacketInfo::default() });
        Some((out, body))
    }

    fn packet(
        &self,
        now: Time,
        connection: u32,
        route: Route,
        end: &FrameEnd,
        (out, body): (&Outgoing, u32),
        config: &TcpConfig,
    ) -> Packet {
        let (flow, len) = match end {
            FrameEnd::Session(_) => (flow(self.packet_bytes(body)), self.packets[body as usize].len),
            FrameEnd::Socket(_) | FrameEnd::External(_) => {
                let segment = &out.segment;
                (connection as u16, config.wire_bytes(segment.seq, segment.len, segment.sack.len()))
            }
        };
        Packet { flow, ecn: out.ecn, ..Packet::new(now, route, len, body) }
    }

    /// Writes a UDP packet with zeros as data to a new buffer. The packet is truncated to the size of the buffer.
    fn fill(&mut self, _now: Time, from: NodeId, to: NodeId, owner: Owner, bytes: u32) -> Option<u32> {
        let body = self.buffers.allocate()?;
        let ends = [self.address(from), self.address(to)];
        let buffer = self.buffers.bytes_mut(body);
        let [source, destination] = ends;
        let len = udp::write_zeros(&addresses(source, destination), bytes as usize, buffer);
        self.set_info(body, PacketInfo { owner, len: len as u32, ..PacketInfo::default() });
        Some(body)
    }

    fn owner(&self, body: u32) -> Owner {
        self.packets[body as usize].owner
    }

    fn data(&self, body: u32) -> (u64, u32) {
        self.packets[body as usize].data
    }

    fn receive(
        &mut self,
        now: Time,
        packet: &Packet,
        end: &mut FrameEnd,
        _config: &TcpConfig,
    ) -> Option<Segment> {
        let (_, tcp) = parse(self.packet_bytes(packet.body))?;
        match end {
            FrameEnd::Socket(socket) => match socket.receive(now, packet.ecn, &tcp, |_| ()) {
                Received::Segment(segment) => Some(segment),
                Received::Reset | Received::UnacceptableAck | Received::Discarded => None,
            },
            FrameEnd::Session(session) => session.receive(now, packet.ecn, &tcp),
            FrameEnd::External(_) => None,
        }
    }

    fn copy(&mut self, body: u32) -> Option<u32> {
        let copy = self.buffers.allocate()?;
        let info = self.packets[body as usize];
        self.buffers.copy(body, copy, info.len as usize);
        self.set_info(copy, info);
        Some(copy)
    }

    fn observe(&self, body: u32, end: &mut FrameEnd) {
        if let FrameEnd::External(observed) = end
            && let Some((_, tcp)) = parse(self.packet_bytes(body))
        {
            observed.observe(&tcp);
        }
    }

    fn corrupt(&mut self, body: u32, bit: u32) {
        let bytes = self.ip_packet(body);
        let at = bit as usize / 8 % bytes.len().max(1);
        // The IP version stays as it is, since no device accepts a packet with an unknown version.
        let bits = if at == 0 { 4 } else { 8 };
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= 1 << (bit % bits);
        }
    }

    fn release(&mut self, body: u32) {
        self.buffers.release(body);
    }

    fn in_use(&self) -> usize {
        self.buffers.in_use()
    }

    fn stamp(&mut self, packet: &Packet) {
        let (codec, priority) = (self.codec, packet.dscp.priority());
        // The packet was just written as an IP packet.
        let _ = codec.write(self.ip_packet(packet.body), priority);
    }

    fn enter(&mut self, packet: &Packet, from: NodeId) {
        let origin = &mut self.packets[packet.body as usize].origin;
        *origin = Origin { number: self.entered, at: packet.arrived, from, waited: origin.waited };
        self.entered += 1;
    }

    fn origin(&self, body: u32) -> Origin {
        self.packets[body as usize].origin
    }

    fn bytes(&self, body: u32) -> &[u8] {
        &self.buffers.bytes(body)[..self.packets[body as usize].len as usize]
    }

    fn is_external(&self, node: NodeId) -> bool {
        self.is_external.get(node.0 as usize).copied().unwrap_or(false)
    }

    fn opened(&mut self, connection: u32, ends: &[FrameEnd; 2]) {
        for (of, external) in [(&ends[CLIENT], SERVER), (&ends[SERVER], CLIENT)] {
            if let Some(ends) = of.ends() {
                self.external.opened(ends, connection, external);
            }
        }
    }

    fn ended(&mut self, connection: u32, number: u64) {
        self.external.ended(connection, number);
    }

    fn released(&mut self, connection: u32, ends: &mut [FrameEnd; 2]) {
        for end in ends {
            if let FrameEnd::Session(session) = end {
                session.end_linger();
                self.external.released(connection, session.socket().ends());
            }
        }
    }
}

impl<O: Egress, F: ExternalHosts> Handler for Frames<O, F> {
    fn delivered<W: Watch>(world: &mut World<Self, W>, now: Time, node: NodeId, packet: Packet) {
        let frames = world.medium_mut();
        if packet.ecn == Ecn::CE {
            // The packet was read or written as an IP packet when it entered.
            let _ = ip::set_ecn(frames.ip_packet(packet.body), Ecn::CE);
        }
        if !frames.is_external(node) {
            return F::delivered(world, now, node, packet);
        }
        let PacketInfo { len, header, origin, .. } = frames.packets[packet.body as usize];
        let bytes = &mut frames.buffers.bytes_mut(packet.body)[..len as usize];
        if let Some(Marking { marker, at_servers: Some(servers) }) = &mut frames.marking
            && servers[node.0 as usize]
        {
            // A marker at a server processes a packet to the server when the packet reaches the server.
            marker.mark(None, &bytes[header as usize..]);
        }
        let Delivery { actual, written } = frames.egress.deliver(now, node, bytes);
        frames.release(packet.body);
        world.watch_mut().packet(now, &packet, origin, Step::Egress { at: node, actual, written });
    }
}

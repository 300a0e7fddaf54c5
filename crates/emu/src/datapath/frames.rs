//! Medium of real packets, between simulated hosts and also with external hosts.

use crate::datapath::buffers::Buffers;
use crate::datapath::classify::Class;
use crate::mark::Marker;
use crate::socket::{Identity, Received, Socket, addresses, parse};
use catnip_base::{FlowContext, Rng, Span, Time};
use catnip_net::mark::{Place, SenderState};
use catnip_net::{Colour, DropReason, Ecn, NodeId, Packet, PortId, Route};
use catnip_sim::medium::{End, Medium, Owner};
use catnip_sim::watch::{Origin, Refusal, Step, Watch};
use catnip_sim::{Act, Conn, ConnectionSpec, Event, Handler, TcpId, World};
use catnip_tcp::{Outgoing, Segment, Sender, TcpConfig};
use catnip_wire::{PriorityCodec, ip, udp};
use ipnet::IpNet;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

/// Output for packets that leave the network at an external host.
pub trait Egress: std::fmt::Debug {
    /// Delivers a packet that reaches an external host at this ideal time.
    fn deliver(&mut self, ideal: Time, node: NodeId, packet: &[u8]) -> Delivery;
}

/// Packet from an external host.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Buffer that contains the packet.
    pub body: u32,
    /// Number of bytes before the IP packet.
    pub header: usize,
    /// Number of bytes including those before the IP packet.
    pub len: usize,
    /// Upper bound on the time that the packet waited in its device.
    pub waited: Span,
}

/// Result of a delivery to an external host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Time of the write to the device.
    pub actual: Time,
    /// True if the device accepted the packet.
    pub written: bool,
}

/// Output of a network without external hosts.
impl Egress for () {
    fn deliver(&mut self, ideal: Time, _node: NodeId, _packet: &[u8]) -> Delivery {
        Delivery { actual: ideal, written: false }
    }
}

/// Connections of simulated hosts with external hosts. The unit type has none.
///
/// Methods for packets are called only for packets that belong to one of these connections (see [`ConnectionRef`]).
pub trait ExternalHosts: std::fmt::Debug + Default {
    /// Records the entry of a packet from an external host. Returns the connection of the packet, if any.
    fn see(&mut self, _packet: &[u8], _high: bool) -> Option<ConnectionRef> {
        None
    }
    /// Records that the network has copied a packet of this connection.
    fn copied(&mut self, _connection: u32) {}
    /// Records that a packet of this connection has left the network at an external host.
    fn left<W: Watch>(&mut self, _now: Time, _connection: u32, _watch: &mut W) {}
    /// Records the drop of a packet of this connection at a port.
    fn dropped<W: Watch>(
        &mut self,
        _now: Time,
        _at: PortId,
        _packet: &Packet,
        _of: ConnectionRef,
        _why: DropReason,
        _watch: &mut W,
    ) {
    }
    /// Returns the number of connections that still have state.
    fn connections(&self) -> usize {
        0
    }
    /// Reports the connections that are not over.
    fn unfinished_connections(&self, _tell: &mut dyn FnMut(Event, u64)) {}
    /// Returns the number of bytes of the next message that have arrived over a connection.
    fn arrived(&self, _conn: Conn) -> u64 {
        0
    }
    /// Returns the port at which servers of a traffic group listen.
    fn server_port(&self, _tcp: TcpId) -> u16 {
        80
    }
    /// Returns an address of a client with a port that no connection to this server uses.
    fn client_at(&mut self, _client: NodeId, address: Ipv4Addr, _server: SocketAddrV4) -> SocketAddrV4 {
        SocketAddrV4::new(address, 1 << 15)
    }
    /// Opens a connection of a program with an external host.
    fn open<O: Egress, W: Watch>(
        _world: &mut World<Frames<O, Self>, W>,
        _now: Time,
        _program: u32,
        _parties: ConnectionSpec,
    ) -> Conn {
        unreachable!("no program has a connection with an external host")
    }
    /// Performs an operation of a program on its end of a connection.
    fn act<O: Egress, W: Watch>(_world: &mut World<Frames<O, Self>, W>, _now: Time, _conn: Conn, _what: Act) {
        unreachable!("no program has a connection with an external host")
    }
    /// Sends what programs have written to external hosts.
    fn flush<O: Egress, W: Watch>(_world: &mut World<Frames<O, Self>, W>, _now: Time) {}
    /// Handles the delivery of a packet of [`Owner::Other`] to a simulated host.
    fn delivered<O: Egress, W: Watch>(
        world: &mut World<Frames<O, Self>, W>,
        _now: Time,
        _node: NodeId,
        packet: Packet,
    ) {
        world.medium_mut().release(packet.body);
    }
    /// Handles a timer that a connection has scheduled.
    fn on_timer<O: Egress, W: Watch>(_world: &mut World<Frames<O, Self>, W>, _now: Time, _key: u32) {
        unreachable!("it plans nothing")
    }
}

impl ExternalHosts for () {}

/// Connection with an external host to which a packet belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionRef {
    /// Number of the connection.
    pub connection: u32,
    /// True if the server has sent the packet.
    pub from_server: bool,
    /// Offset of the data in the stream, for packets of the simulated end.
    pub seq: u64,
    /// Number of data bytes.
    pub data_bytes: u32,
}

/// Medium that stores packets in buffers, with the addresses and routes of nodes.
#[derive(Debug)]
pub struct Frames<O, F = ()> {
    /// Output to external hosts.
    pub outside: O,
    /// Connections with external hosts.
    pub external: F,
    buffers: Buffers,
    /// Properties of the packet in each buffer.
    parcels: Vec<Parcel>,
    /// Number of packets that have entered the network.
    entered: u64,
    /// Largest length of packets from external hosts, bytes.
    mtu: usize,
    codec: PriorityCodec,
    marking: Option<Marking>,
    routing: Routing,
    is_external: Vec<bool>,
    /// Address of each node.
    addresses: Vec<Ipv4Addr>,
    /// Shared TCP parameters of connections, by [`TcpId`].
    configs: Vec<Option<Arc<TcpConfig>>>,
}

/// Routing of packets from external hosts.
#[derive(Clone, Debug, Default)]
pub struct Routing {
    /// Hosts by address.
    pub hosts: BTreeMap<IpAddr, NodeId>,
    /// Networks and the nodes that represent them; the longest matching prefix applies.
    pub networks: Vec<(IpNet, NodeId)>,
    /// Ends of a bridge, which forwards all packets from one end to the other, regardless of their addresses.
    pub bridge: Option<[NodeId; 2]>,
}

impl Routing {
    fn destination(&self, from: NodeId, address: IpAddr) -> Option<NodeId> {
        if self.bridge.is_some() { self.across(from) } else { self.node(address) }
    }

    /// Returns the node with an address.
    fn node(&self, address: IpAddr) -> Option<NodeId> {
        let network = || self.networks.iter().find(|(network, _)| network.contains(&address));
        self.hosts.get(&address).copied().or_else(|| network().map(|(_, node)| *node))
    }

    /// Returns the other end of the bridge, if there is one.
    pub(crate) fn across(&self, from: NodeId) -> Option<NodeId> {
        let [a, b] = self.bridge?;
        Some(if from == a { b } else { a })
    }
}

/// Marker of packets from external hosts, and its location.
#[derive(Debug)]
struct Marking {
    marker: Marker,
    /// True for each node whose packets are marked, if the marker is located at the servers: it then processes packets to a server when
    /// they reach the server. `None` if it is located in the network, where it processes all packets on entry.
    at_servers: Option<Vec<bool>>,
}

/// Properties of the packet in a buffer.
#[derive(Clone, Copy, Debug)]
struct Parcel {
    origin: Origin,
    owner: Owner,
    /// Offset and length of the data in its stream, for segments of connections between simulated hosts.
    data: (u64, u32),
    external: Option<ConnectionRef>,
    /// Length of the content of the buffer, and of the part before the IP packet, bytes.
    len: u32,
    header: u32,
}

impl Default for Parcel {
    fn default() -> Self {
        Self {
            origin: Origin::default(),
            owner: Owner::Other,
            data: (0, 0),
            external: None,
            len: 0,
            header: 0,
        }
    }
}

/// Largest number of packets inside the network, and largest amount of memory for them.
const MOST_PACKETS: u32 = 1 << 18;
const MOST_BYTES: usize = 4 << 30;

impl<O: Egress, F: ExternalHosts> Frames<O, F> {
    /// Creates a medium for packets of up to `mtu` bytes from the external hosts at these nodes, and of up to `longest` bytes from
    /// simulated hosts.
    pub fn new(
        outside: O,
        nodes: impl IntoIterator<Item = NodeId>,
        routing: Routing,
        mtu: usize,
        longest: usize,
    ) -> Self {
        // One byte more than the MTU, so that longer packets are detected.
        let slot = (longest.max(mtu) + 1).next_multiple_of(64);
        let most = MOST_PACKETS.min((MOST_BYTES / slot) as u32);
        let mut is_external = Vec::new();
        for NodeId(node) in nodes {
            is_external.resize(is_external.len().max(node as usize + 1), false);
            is_external[node as usize] = true;
        }
        let mut routing = routing;
        routing.networks.sort_by_key(|(network, _)| std::cmp::Reverse(network.prefix_len()));
        Self {
            outside,
            external: F::default(),
            buffers: Buffers::new(slot, most),
            parcels: Vec::new(),
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

    /// Sets the codec by which priorities are read and written.
    pub fn with_codec(self, codec: PriorityCodec) -> Self {
        Self { codec, ..self }
    }

    /// Sets the marker of all packets from external hosts, which overrides their own marks.
    pub fn with_marker(self, marker: Option<Marker>) -> Self {
        Self { marking: marker.map(|marker| Marking { marker, at_servers: None }), ..self }
    }

    /// Sets the marker of packets from these nodes only.
    pub(crate) fn with_marker_at(self, marker: Marker, servers: Vec<bool>) -> Self {
        Self { marking: Some(Marking { marker, at_servers: Some(servers) }), ..self }
    }

    /// Sets the addresses of the nodes.
    pub(crate) fn with_addresses(self, addresses: Vec<Ipv4Addr>) -> Self {
        Self { addresses, ..self }
    }

    /// Returns the address of a node.
    pub fn address(&self, node: NodeId) -> Ipv4Addr {
        self.addresses[node.0 as usize]
    }

    /// Returns the node with an address.
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

    /// Allocates a buffer.
    pub fn take(&mut self) -> Option<u32> {
        self.buffers.take()
    }

    /// Returns the bytes of a packet from its IP header on, and the connections with external hosts.
    pub(crate) fn packet_and_foreign(&mut self, body: u32) -> (&[u8], &mut F) {
        let Parcel { len, header, .. } = self.parcels[body as usize];
        (&self.buffers.bytes(body)[header as usize..len as usize], &mut self.external)
    }

    /// Returns all bytes of a buffer, and the connections with external hosts.
    pub(crate) fn room_and_foreign(&mut self, body: u32) -> (&mut [u8], &mut F) {
        (self.buffers.bytes_mut(body), &mut self.external)
    }

    /// Returns all bytes of a buffer, and the output to external hosts.
    pub(crate) fn room_and_outside(&mut self, body: u32) -> (&mut [u8], &mut O) {
        (self.buffers.bytes_mut(body), &mut self.outside)
    }

    /// Returns all bytes of a buffer.
    pub fn room(&mut self, body: u32) -> &mut [u8] {
        self.buffers.bytes_mut(body)
    }

    /// Returns the bytes of a packet from its IP header on.
    pub(crate) fn ip_packet(&mut self, body: u32) -> &mut [u8] {
        let Parcel { len, header, .. } = self.parcels[body as usize];
        &mut self.buffers.bytes_mut(body)[header as usize..len as usize]
    }

    /// Returns the connection with an external host to which a packet belongs.
    pub(crate) fn belongs(&self, body: u32) -> Option<ConnectionRef> {
        self.parcels[body as usize].external
    }

    /// Returns the shared TCP parameters of a connection, stored at the first call for their number.
    pub(crate) fn config(&mut self, tcp: TcpId, config: &TcpConfig) -> Arc<TcpConfig> {
        let index = tcp.0 as usize;
        self.configs.resize(self.configs.len().max(index + 1), None);
        self.configs[index].get_or_insert_with(|| Arc::new(config.clone())).clone()
    }

    /// Returns the address and port at which a server of this traffic group listens.
    pub(crate) fn server_at(&self, spec: &ConnectionSpec) -> SocketAddrV4 {
        SocketAddrV4::new(self.address(spec.server), self.external.server_port(spec.tcp))
    }

    /// Returns an unused address and port for a client of a server.
    pub(crate) fn client_at(&mut self, client: NodeId, server: SocketAddrV4) -> SocketAddrV4 {
        let address = self.address(client);
        self.external.client_at(client, address, server)
    }

    /// Records the packet of [`Owner::Other`] that was written to a buffer.
    pub(crate) fn put(&mut self, body: u32, len: usize, external: Option<ConnectionRef>) {
        self.note(body, Parcel { external, len: len as u32, ..Parcel::default() });
    }

    /// Marks a packet from an external host that is in a buffer, and returns it as a packet of the network.
    pub(crate) fn accept(
        &mut self,
        at: Time,
        from: NodeId,
        class: Class,
        route: Route,
        Arrival { body, header, len, waited }: Arrival,
    ) -> Packet {
        let mut colour = class.colour;
        let bytes = &mut self.buffers.bytes_mut(body)[header..len];
        if let Some(Marking { marker, at_servers }) = &mut self.marking
            && at_servers.as_ref().is_none_or(|servers| servers[from.0 as usize])
            && let Some(marked) = marker.mark(from.0 as usize, bytes)
        {
            colour = marked;
            if marker.writes() {
                // The mark of a packet that cannot carry it applies inside the network only.
                let _ = self.codec.write(bytes, colour);
            }
        }
        let external = self.external.see(bytes, colour == Colour::Green);
        let (len, header) = (len as u32, header as u32);
        let origin = Origin { waited, ..Origin::default() };
        self.note(body, Parcel { external, len, header, origin, ..Parcel::default() });
        Packet {
            flow: class.flow,
            dscp: colour.into(),
            ecn: class.ecn,
            ..Packet::new(at, route, class.len, body)
        }
    }

    /// Returns the destination node of a packet from an external host. A packet with a source address of another host is refused (BCP 38).
    #[inline]
    pub(crate) fn way(&self, from: NodeId, class: &Class) -> Result<NodeId, Refusal> {
        if self.routing.bridge.is_none() && self.routing.node(class.source) != Some(from) {
            return Err(Refusal::WrongSource);
        }
        let to = self.routing.destination(from, class.destination);
        to.filter(|&to| to != from).ok_or(Refusal::NoRoute)
    }

    fn note(&mut self, body: u32, parcel: Parcel) {
        let index = body as usize;
        if self.parcels.len() <= index {
            self.parcels.resize(index + 1, Parcel::default());
        }
        self.parcels[index] = parcel;
    }
}

impl<O: Egress, F: ExternalHosts> Medium for Frames<O, F> {
    type End = Socket;

    fn connect(
        &mut self,
        now: Time,
        spec: &ConnectionSpec,
        config: &TcpConfig,
        [client_phase, server_phase]: [Span; 2],
        rng: &mut Rng,
    ) -> [Socket; 2] {
        let config = self.config(spec.tcp, config);
        let server_at = self.server_at(spec);
        let client_at = self.client_at(spec.client, server_at);
        let mut end = |local, remote, role, phase| {
            let identity = Identity { local, remote, initial_sequence: rng.next_u32(), stranger: false };
            Socket::new(now, role, &config, phase, identity)
        };
        let [client_role, server_role] = spec.roles();
        let mut server = end(server_at, client_at, server_role, server_phase);
        let mut client = end(client_at, server_at, client_role, client_phase);
        if !config.handshake {
            Socket::introduce(&mut client, &mut server);
        }
        [client, server]
    }

    fn pack(
        &mut self,
        now: Time,
        end: &mut Socket,
        owner: Owner,
        _config: &TcpConfig,
    ) -> Option<(Outgoing, u32)> {
        let body = self.buffers.take()?;
        let Some((out, len)) = end.transmit(now, self.buffers.bytes_mut(body)) else {
            self.buffers.release(body);
            return None;
        };
        let data = (out.segment.seq, out.segment.len);
        self.note(body, Parcel { owner, data, len: len as u32, ..Parcel::default() });
        Some((out, body))
    }

    /// Writes a UDP packet, truncated to the size of a buffer.
    fn fill(&mut self, _now: Time, from: NodeId, to: NodeId, owner: Owner, bytes: u32) -> Option<u32> {
        let body = self.buffers.take()?;
        let ends = [self.address(from), self.address(to)];
        let buffer = self.buffers.bytes_mut(body);
        let [source, destination] = ends;
        let len = udp::write_zeros(&addresses(source, destination), bytes as usize, buffer);
        self.note(body, Parcel { owner, len: len as u32, ..Parcel::default() });
        Some(body)
    }

    fn owner(&self, body: u32) -> Owner {
        self.parcels[body as usize].owner
    }

    fn data(&self, body: u32) -> (u64, u32) {
        self.parcels[body as usize].data
    }

    fn receive(
        &mut self,
        now: Time,
        packet: &Packet,
        end: &mut Socket,
        _config: &TcpConfig,
    ) -> Option<Segment> {
        let (_, tcp) = parse(self.ip_packet(packet.body))?;
        match end.receive(now, packet.ecn, &tcp, |_| ()) {
            Received::Segment(segment) => Some(segment),
            Received::Reset | Received::Impossible | Received::Nothing => None,
        }
    }

    fn copy(&mut self, body: u32) -> Option<u32> {
        let copy = self.buffers.take()?;
        let parcel = self.parcels[body as usize];
        self.buffers.copy(body, copy, parcel.len as usize);
        self.note(copy, parcel);
        Some(copy)
    }

    fn copied(&mut self, copy: u32) {
        if let Some(of) = self.parcels[copy as usize].external {
            self.external.copied(of.connection);
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
        let (codec, colour) = (self.codec, packet.dscp.colour());
        // The packet was just written as an IP packet.
        let _ = codec.write(self.ip_packet(packet.body), colour);
    }

    fn enter(&mut self, packet: &Packet, from: NodeId) {
        let origin = &mut self.parcels[packet.body as usize].origin;
        *origin = Origin { number: self.entered, at: packet.arrived, from, waited: origin.waited };
        self.entered += 1;
    }

    fn origin(&self, body: u32) -> Origin {
        self.parcels[body as usize].origin
    }

    fn bytes(&self, body: u32) -> &[u8] {
        &self.buffers.bytes(body)[..self.parcels[body as usize].len as usize]
    }

    fn is_external(&self, node: NodeId) -> bool {
        self.is_external.get(node.0 as usize).copied().unwrap_or(false)
    }

    fn connections(&self) -> usize {
        self.external.connections()
    }

    fn unfinished_connections(&self, visit: &mut dyn FnMut(Event, u64)) {
        self.external.unfinished_connections(visit);
    }

    fn arrived(&self, conn: Conn) -> u64 {
        self.external.arrived(conn)
    }

    fn dropped<W: Watch>(
        &mut self,
        now: Time,
        at: PortId,
        packet: &Packet,
        why: DropReason,
        watch: &mut W,
    ) -> bool {
        let Some(of) = self.parcels[packet.body as usize].external else { return false };
        self.external.dropped(now, at, packet, of, why, watch);
        of.from_server && of.data_bytes > 0
    }
}

impl<O: Egress, F: ExternalHosts> Handler for Frames<O, F> {
    fn open<W: Watch>(world: &mut World<Self, W>, now: Time, program: u32, spec: ConnectionSpec) -> Conn {
        F::open(world, now, program, spec)
    }

    fn act<W: Watch>(world: &mut World<Self, W>, now: Time, conn: Conn, what: Act) {
        F::act(world, now, conn, what);
    }

    fn flush<W: Watch>(world: &mut World<Self, W>, now: Time) {
        F::flush(world, now);
    }

    fn delivered<W: Watch>(world: &mut World<Self, W>, now: Time, node: NodeId, packet: Packet) {
        let frames = world.medium_mut();
        if packet.ecn == Ecn::CE {
            // The packet was read or written as an IP packet when it entered.
            let _ = ip::set_ecn(frames.ip_packet(packet.body), Ecn::CE);
        }
        if !frames.is_external(node) {
            return F::delivered(world, now, node, packet);
        }
        let Parcel { len, header, origin, external, .. } = frames.parcels[packet.body as usize];
        let bytes = &mut frames.buffers.bytes_mut(packet.body)[..len as usize];
        if let Some(Marking { marker, at_servers: Some(servers) }) = &mut frames.marking
            && servers[node.0 as usize]
        {
            // A marker at a server processes a packet to the server when the packet reaches the server.
            marker.mark(usize::MAX, &bytes[header as usize..]);
        }
        let Delivery { actual, written } = frames.outside.deliver(now, node, bytes);
        frames.release(packet.body);
        let (frames, watch) = world.parts_mut();
        watch.packet(now, &packet, origin, Step::Left { at: node, actual, written });
        if let Some(belongs) = external {
            frames.external.left(now, belongs.connection, watch);
        }
    }

    fn on_timer<W: Watch>(world: &mut World<Self, W>, now: Time, key: u32) {
        F::on_timer(world, now, key);
    }
}

impl End for Socket {
    fn write(
        &mut self,
        now: Time,
        bytes: u64,
        context: Option<FlowContext>,
        last: bool,
        _config: &TcpConfig,
    ) {
        self.fill(now, bytes, context, last);
    }
    fn on_time(&mut self, now: Time, _config: &TcpConfig) -> bool {
        Socket::on_time(self, now)
    }
    fn deadline(&self) -> Option<Time> {
        Socket::deadline(self)
    }
    fn received(&self) -> u64 {
        Socket::received(self)
    }
    fn sender(&self) -> Option<&Sender> {
        Socket::sender(self)
    }
    fn sending(&self, out: &Outgoing, _config: &TcpConfig) -> SenderState {
        Socket::sending(self, out)
    }
    fn place(&self, seq: u64) -> Place {
        self.place(seq)
    }
    fn is_open(&self) -> bool {
        Socket::is_open(self)
    }
    fn peer_closed(&self) -> bool {
        Socket::peer_closed(self)
    }
    fn syn_timeouts(&self) -> u32 {
        Socket::syn_timeouts(self)
    }
}

//! The medium of bytes: what hosts send to each other are real packets, and some of the hosts are outside.

use crate::datapath::buffers::Buffers;
use crate::datapath::classify::Class;
use crate::mark::Marker;
use crate::socket::{Heard, Identity, Socket, addresses, parse};
use catnip_base::{FlowContext, Rng, Span, Time};
use catnip_net::mark::{Place, Sending};
use catnip_net::{Colour, DropReason, Ecn, NodeId, Packet, PortId, Route};
use catnip_sim::medium::{End, Medium, Owner};
use catnip_sim::watch::{Origin, Refusal, Step, Watch};
use catnip_sim::{Act, Conn, Event, Handler, Parties, TcpId, World};
use catnip_tcp::{Outgoing, Segment, Sender, TcpConfig};
use catnip_wire::{PriorityCodec, ip, udp};
use ipnet::IpNet;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

/// Where packets go that leave the network at a host that is not simulated.
pub trait Outside: std::fmt::Debug {
    /// A packet arrives there at this ideal time.
    fn deliver(&mut self, ideal: Time, node: NodeId, packet: &[u8]) -> Delivery;
}

/// What has come from outside.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The buffer that it is in.
    pub body: u32,
    /// Bytes before the IP packet.
    pub header: usize,
    /// Bytes with them.
    pub len: usize,
    /// How long it had waited in its device, at most.
    pub waited: Span,
}

/// How a packet got out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// When it was written to its device.
    pub actual: Time,
    /// The device took it.
    pub written: bool,
}

/// Every host is simulated.
impl Outside for () {
    fn deliver(&mut self, ideal: Time, _node: NodeId, _packet: &[u8]) -> Delivery {
        Delivery { actual: ideal, written: false }
    }
}

/// What simulated hosts have to do with hosts outside. The unit type: nothing.
///
/// Its methods without a world are told of packets that it has said are its own.
pub trait Foreign: std::fmt::Debug + Default {
    /// A packet from outside enters the network: what it belongs to, if to anything.
    fn see(&mut self, _packet: &[u8], _high: bool) -> Option<Belongs> {
        None
    }
    /// One of its packets was copied in the network.
    fn copied(&mut self, _connection: u32) {}
    /// One of its packets has left the network at a host outside.
    fn left<W: Watch>(&mut self, _now: Time, _connection: u32, _watch: &mut W) {}
    /// One of its packets was dropped at a port.
    fn dropped<W: Watch>(
        &mut self,
        _now: Time,
        _at: PortId,
        _packet: &Packet,
        _of: Belongs,
        _why: DropReason,
        _watch: &mut W,
    ) {
    }
    /// How many connections are remembered.
    fn connections(&self) -> usize {
        0
    }
    /// Tells of those that are not over.
    fn unfinished(&self, _tell: &mut dyn FnMut(Event, u64)) {}
    /// How many bytes of the next message have come over one of them.
    fn arrived(&self, _conn: Conn) -> u64 {
        0
    }
    /// Where servers of a traffic group listen.
    fn server_port(&self, _tcp: TcpId) -> u16 {
        80
    }
    /// An address of a client with a port that no connection to this server uses.
    fn client_at(&mut self, _client: NodeId, address: Ipv4Addr, _server: SocketAddrV4) -> SocketAddrV4 {
        SocketAddrV4::new(address, 1 << 15)
    }
    /// A program opens a connection with a host outside.
    fn open<O: Outside, W: Watch>(
        _world: &mut World<Frames<O, Self>, W>,
        _now: Time,
        _program: u32,
        _parties: Parties,
    ) -> Conn {
        unreachable!("no program knows of anybody outside")
    }
    /// A program does something with its end of one.
    fn act<O: Outside, W: Watch>(
        _world: &mut World<Frames<O, Self>, W>,
        _now: Time,
        _conn: Conn,
        _what: Act,
    ) {
        unreachable!("no program knows of anybody outside")
    }
    /// What programs have to say to hosts outside may leave.
    fn flush<O: Outside, W: Watch>(_world: &mut World<Frames<O, Self>, W>, _now: Time) {}
    /// A packet has come to a simulated host, from outside or from somebody unknown.
    fn delivered<O: Outside, W: Watch>(
        world: &mut World<Frames<O, Self>, W>,
        _now: Time,
        _node: NodeId,
        packet: Packet,
    ) {
        world.medium_mut().release(packet.body);
    }
    /// A timer that it has planned has come.
    fn on_timer<O: Outside, W: Watch>(_world: &mut World<Frames<O, Self>, W>, _now: Time, _key: u32) {
        unreachable!("it plans nothing")
    }
}

impl Foreign for () {}

/// The connection with a host outside that a packet belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Belongs {
    /// Its number.
    pub connection: u32,
    /// The server has sent the packet, not the client.
    pub from_server: bool,
    /// Where in the stream its data begins, if it is ours.
    pub seq: u64,
    /// Bytes of data.
    pub data_bytes: u32,
}

/// Packets in buffers, and all that is known of addresses.
#[derive(Debug)]
pub struct Frames<O, F = ()> {
    /// What is not simulated.
    pub outside: O,
    /// What simulated hosts have to do with it.
    pub foreign: F,
    buffers: Buffers,
    /// What is in each buffer.
    parcels: Vec<Parcel>,
    /// How many packets have entered the network.
    entered: u64,
    /// Longest packet from outside, bytes.
    mtu: usize,
    codec: PriorityCodec,
    marking: Option<Marking>,
    routing: Routing,
    is_outside: Vec<bool>,
    /// Of each node.
    addresses: Vec<Ipv4Addr>,
    /// As often as a connection needs them, by [`TcpId`].
    configs: Vec<Option<Arc<TcpConfig>>>,
}

/// How a packet from outside finds its way.
#[derive(Clone, Debug, Default)]
pub struct Routing {
    /// Single hosts.
    pub hosts: BTreeMap<IpAddr, NodeId>,
    /// Hosts that stand for whole networks; of two that fit, the more specific one counts.
    pub networks: Vec<(IpNet, NodeId)>,
    /// A bridge takes everything from either of these to the other, whatever its address.
    pub bridge: Option<[NodeId; 2]>,
}

impl Routing {
    fn destination(&self, from: NodeId, address: IpAddr) -> Option<NodeId> {
        if self.bridge.is_some() { self.across(from) } else { self.node(address) }
    }

    /// Who has an address.
    fn node(&self, address: IpAddr) -> Option<NodeId> {
        let network = || self.networks.iter().find(|(network, _)| network.contains(&address));
        self.hosts.get(&address).copied().or_else(|| network().map(|(_, node)| *node))
    }

    /// The other end of the bridge, if there is one.
    pub(crate) fn across(&self, from: NodeId) -> Option<NodeId> {
        let [a, b] = self.bridge?;
        Some(if from == a { b } else { a })
    }
}

/// A marker of packets from outside, and where it stands.
#[derive(Debug)]
struct Marking {
    marker: Marker,
    /// At the servers that are marked: it hears what they hear. Otherwise it stands in the network, and everything passes it.
    at_servers: Option<Vec<bool>>,
}

/// What is known of the packet in a buffer.
#[derive(Clone, Copy, Debug)]
struct Parcel {
    origin: Origin,
    owner: Owner,
    /// Of an end of the engine: where in the stream its data begins, and how much there is.
    data: (u64, u32),
    foreign: Option<Belongs>,
    /// Bytes in the buffer, and how many of them are before the IP packet.
    len: u32,
    header: u32,
}

impl Default for Parcel {
    fn default() -> Self {
        Self {
            origin: Origin::default(),
            owner: Owner::Other,
            data: (0, 0),
            foreign: None,
            len: 0,
            header: 0,
        }
    }
}

/// Most packets that can be inside, and most memory for them.
const MOST_PACKETS: u32 = 1 << 18;
const MOST_BYTES: usize = 4 << 30;

impl<O: Outside, F: Foreign> Frames<O, F> {
    /// Packets of up to `mtu` bytes from outside, of up to `longest` bytes from simulated hosts. The hosts at these nodes
    /// are outside.
    pub fn new(
        outside: O,
        nodes: impl IntoIterator<Item = NodeId>,
        routing: Routing,
        mtu: usize,
        longest: usize,
    ) -> Self {
        // One byte more than the MTU shows that a packet is longer.
        let slot = (longest.max(mtu) + 1).next_multiple_of(64);
        let most = MOST_PACKETS.min((MOST_BYTES / slot) as u32);
        let mut is_outside = Vec::new();
        for NodeId(node) in nodes {
            is_outside.resize(is_outside.len().max(node as usize + 1), false);
            is_outside[node as usize] = true;
        }
        let mut routing = routing;
        routing.networks.sort_by_key(|(network, _)| std::cmp::Reverse(network.prefix_len()));
        Self {
            outside,
            foreign: F::default(),
            buffers: Buffers::new(slot, most),
            parcels: Vec::new(),
            entered: 0,
            mtu,
            codec: PriorityCodec::default(),
            marking: None,
            routing,
            is_outside,
            addresses: Vec::new(),
            configs: Vec::new(),
        }
    }

    /// Reads and writes loss priorities by this codec.
    pub fn with_codec(self, codec: PriorityCodec) -> Self {
        Self { codec, ..self }
    }

    /// Marks what comes from outside, whatever its own mark says.
    pub fn with_marker(self, marker: Option<Marker>) -> Self {
        Self { marking: marker.map(|marker| Marking { marker, at_servers: None }), ..self }
    }

    /// Marks what comes from these nodes, and nothing else.
    pub(crate) fn with_marker_at(self, marker: Marker, servers: Vec<bool>) -> Self {
        Self { marking: Some(Marking { marker, at_servers: Some(servers) }), ..self }
    }

    /// Nodes have these addresses.
    pub(crate) fn with_addresses(self, addresses: Vec<Ipv4Addr>) -> Self {
        Self { addresses, ..self }
    }

    /// The address of a node.
    pub fn address(&self, node: NodeId) -> Ipv4Addr {
        self.addresses[node.0 as usize]
    }

    /// The node with an address.
    pub(crate) fn node(&self, address: Ipv4Addr) -> Option<NodeId> {
        self.routing.hosts.get(&address.into()).copied()
    }

    pub(crate) fn routing(&self) -> &Routing {
        &self.routing
    }

    /// How many packets have entered the network.
    pub(crate) fn entered(&self) -> u64 {
        self.entered
    }

    /// Longest packet from outside, bytes.
    pub(crate) fn mtu(&self) -> usize {
        self.mtu
    }

    pub(crate) fn codec(&self) -> PriorityCodec {
        self.codec
    }

    /// A free buffer.
    pub fn take(&mut self) -> Option<u32> {
        self.buffers.take()
    }

    /// The bytes of a packet from its IP header on, beside those who may want to read it.
    pub(crate) fn packet_and_foreign(&mut self, body: u32) -> (&[u8], &mut F) {
        let Parcel { len, header, .. } = self.parcels[body as usize];
        (&self.buffers.bytes(body)[header as usize..len as usize], &mut self.foreign)
    }

    /// All bytes of a buffer, beside those who may want to write to it.
    pub(crate) fn room_and_foreign(&mut self, body: u32) -> (&mut [u8], &mut F) {
        (self.buffers.bytes_mut(body), &mut self.foreign)
    }

    /// All bytes of a buffer, beside the devices from which they may be read.
    pub(crate) fn room_and_outside(&mut self, body: u32) -> (&mut [u8], &mut O) {
        (self.buffers.bytes_mut(body), &mut self.outside)
    }

    /// All bytes of a buffer.
    pub fn room(&mut self, body: u32) -> &mut [u8] {
        self.buffers.bytes_mut(body)
    }

    /// The bytes of a packet, from its IP header on.
    pub(crate) fn ip_packet(&mut self, body: u32) -> &mut [u8] {
        let Parcel { len, header, .. } = self.parcels[body as usize];
        &mut self.buffers.bytes_mut(body)[header as usize..len as usize]
    }

    /// The connection with a host outside that a packet belongs to.
    pub(crate) fn belongs(&self, body: u32) -> Option<Belongs> {
        self.parcels[body as usize].foreign
    }

    /// The parameters of a connection, to keep.
    pub(crate) fn config(&mut self, tcp: TcpId, config: &TcpConfig) -> Arc<TcpConfig> {
        let index = tcp.0 as usize;
        self.configs.resize(self.configs.len().max(index + 1), None);
        self.configs[index].get_or_insert_with(|| Arc::new(config.clone())).clone()
    }

    /// Where a server of this traffic group listens.
    pub(crate) fn server_at(&self, parties: &Parties) -> SocketAddrV4 {
        SocketAddrV4::new(self.address(parties.server), self.foreign.server_port(parties.tcp))
    }

    /// Where a client of a server connects from.
    pub(crate) fn client_at(&mut self, client: NodeId, server: SocketAddrV4) -> SocketAddrV4 {
        let address = self.address(client);
        self.foreign.client_at(client, address, server)
    }

    /// A packet that the engine knows nothing of is in a buffer.
    pub(crate) fn put(&mut self, body: u32, len: usize, foreign: Option<Belongs>) {
        self.note(body, Parcel { foreign, len: len as u32, ..Parcel::default() });
    }

    /// A packet from outside is in a buffer: marks it, and makes a packet of the network of it.
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
                // What cannot carry a mark is known to the network alone.
                let _ = self.codec.write(bytes, colour);
            }
        }
        let foreign = self.foreign.see(bytes, colour == Colour::Green);
        let (len, header) = (len as u32, header as u32);
        let origin = Origin { waited, ..Origin::default() };
        self.note(body, Parcel { foreign, len, header, origin, ..Parcel::default() });
        Packet {
            flow: class.flow,
            dscp: colour.into(),
            ecn: class.ecn,
            ..Packet::new(at, route, class.len, body)
        }
    }

    /// Where a packet from outside goes. What says that it comes from somewhere else is not let in (BCP 38).
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

impl<O: Outside, F: Foreign> Medium for Frames<O, F> {
    type End = Socket;

    fn connect(
        &mut self,
        now: Time,
        parties: &Parties,
        config: &TcpConfig,
        [client_phase, server_phase]: [Span; 2],
        rng: &mut Rng,
    ) -> [Socket; 2] {
        let config = self.config(parties.tcp, config);
        let server_at = self.server_at(parties);
        let client_at = self.client_at(parties.client, server_at);
        let mut end = |local, remote, role, phase| {
            let identity = Identity { local, remote, initial_sequence: rng.next_u32(), stranger: false };
            Socket::new(now, role, &config, phase, identity)
        };
        let [client_role, server_role] = parties.roles();
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

    /// A UDP packet, as far as a buffer holds it.
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

    fn hear(&mut self, now: Time, packet: &Packet, end: &mut Socket, _config: &TcpConfig) -> Option<Segment> {
        let (_, tcp) = parse(self.ip_packet(packet.body))?;
        match end.receive(now, packet.ecn, &tcp, |_| ()) {
            Heard::Segment(segment) => Some(segment),
            Heard::Reset | Heard::Impossible | Heard::Nothing => None,
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
        if let Some(of) = self.parcels[copy as usize].foreign {
            self.foreign.copied(of.connection);
        }
    }

    fn corrupt(&mut self, body: u32, bit: u32) {
        let bytes = self.ip_packet(body);
        let at = bit as usize / 8 % bytes.len().max(1);
        // No device takes what has another version than those of IP.
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
        // It was just written as an IP packet.
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

    fn is_outside(&self, node: NodeId) -> bool {
        self.is_outside.get(node.0 as usize).copied().unwrap_or(false)
    }

    fn connections(&self) -> usize {
        self.foreign.connections()
    }

    fn unfinished(&self, tell: &mut dyn FnMut(Event, u64)) {
        self.foreign.unfinished(tell);
    }

    fn arrived(&self, conn: Conn) -> u64 {
        self.foreign.arrived(conn)
    }

    fn dropped<W: Watch>(
        &mut self,
        now: Time,
        at: PortId,
        packet: &Packet,
        why: DropReason,
        watch: &mut W,
    ) -> bool {
        let Some(of) = self.parcels[packet.body as usize].foreign else { return false };
        self.foreign.dropped(now, at, packet, of, why, watch);
        of.from_server && of.data_bytes > 0
    }
}

impl<O: Outside, F: Foreign> Handler for Frames<O, F> {
    fn open<W: Watch>(world: &mut World<Self, W>, now: Time, program: u32, parties: Parties) -> Conn {
        F::open(world, now, program, parties)
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
            // It was read or written as an IP packet when it came.
            let _ = ip::set_ecn(frames.ip_packet(packet.body), Ecn::CE);
        }
        if !frames.is_outside(node) {
            return F::delivered(world, now, node, packet);
        }
        let Parcel { len, header, origin, foreign, .. } = frames.parcels[packet.body as usize];
        let bytes = &mut frames.buffers.bytes_mut(packet.body)[..len as usize];
        if let Some(Marking { marker, at_servers: Some(servers) }) = &mut frames.marking
            && servers[node.0 as usize]
        {
            // What the marker of a server knows, it knows when the server does.
            marker.mark(usize::MAX, &bytes[header as usize..]);
        }
        let Delivery { actual, written } = frames.outside.deliver(now, node, bytes);
        frames.release(packet.body);
        let (frames, watch) = world.parts_mut();
        watch.packet(now, &packet, origin, Step::Left { at: node, actual, written });
        if let Some(belongs) = foreign {
            frames.foreign.left(now, belongs.connection, watch);
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
    fn sending(&self, out: &Outgoing, _config: &TcpConfig) -> Sending {
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

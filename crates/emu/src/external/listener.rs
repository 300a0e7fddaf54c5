//! Handling of packets from external hosts that reach a simulated host: packets of its connections, SYNs for its listeners, and all others.

use super::observed_sender::ObservedSender;
use super::peers::{FrameWorld, has_free_space};
use super::session::SocketSession;
use crate::datapath::frame_end::FrameEnd;
use crate::datapath::frames::Egress;
use crate::socket::{Identity, Socket, addresses, ends_and_tcp, parse, parse_verified, write_reset};
use catnip_base::Time;
use catnip_net::{Ecn, NodeId, Packet};
use catnip_sim::medium::Medium;
use catnip_sim::{CLIENT, ConnectionSpec, SERVER, TcpId, Watch};
use catnip_tcp::Role;
use catnip_wire::{Tcp, TcpFlags};
use std::net::SocketAddrV4;

/// Handles a packet from an external host that reaches the simulated host `node`, and releases the packet's buffer.
pub(super) fn receive<O: Egress, W: Watch>(
    world: &mut FrameWorld<O, W>,
    now: Time,
    node: NodeId,
    packet: Packet,
) {
    match Destination::of(world, packet.body) {
        Destination::Damaged => {
            world.medium_mut().external.damaged += 1;
            world.medium_mut().release(packet.body);
        }
        Destination::Connection { id, end } => world.on_external_packet(now, packet, id, end),
        Destination::Unmatched => {
            let bytes = take_bytes(world, packet.body);
            on_unmatched(world, now, node, &bytes, None);
        }
        Destination::NewIncarnation { id, isn } => {
            let bytes = take_bytes(world, packet.body);
            world.forget(now, id);
            on_unmatched(world, now, node, &bytes, Some(isn));
        }
        Destination::Reset { peer } => {
            let bytes = take_bytes(world, packet.body);
            send_reset(world, now, (node, peer), &bytes);
        }
    }
}

/// Destination of a packet within a simulated host.
enum Destination {
    /// No destination, because a checksum is wrong: RFC 9293, section 3.1, MUST-3, and for the IP header RFC 1122, section 3.2.1.2.
    Damaged,
    /// End `end` of the connection in slot `id`.
    Connection { id: u32, end: usize },
    /// Listener, for a new connection that replaces the ended one in slot `id` between the same addresses and ports.
    NewIncarnation { id: u32, isn: u32 },
    /// Connection that does not accept the packet. The answer to the sender `peer` is a reset.
    Reset { peer: NodeId },
    /// No connection. The packet may be a SYN for a listener.
    Unmatched,
}

impl Destination {
    fn of<O: Egress, W: Watch>(world: &FrameWorld<O, W>, body: u32) -> Self {
        let frames = world.medium();
        let Some(ip) = parse_verified(frames.packet_bytes(body)) else { return Self::Damaged };
        let Some((ends, tcp)) = ends_and_tcp(&ip) else { return Self::Unmatched };
        let Some(&(id, external)) = frames.external.by_ends.get(&ends) else { return Self::Unmatched };
        let end = 1 - external;
        let info = world.connection_info(id);
        let Some(socket) = world.end(id, end).socket() else { unreachable!("a session has a socket") };
        if info.closed.is_some() && (socket.was_reset() || socket.accepts_new_incarnation(&tcp)) {
            Self::NewIncarnation { id, isn: socket.next_isn() }
        } else if socket.answers_with_reset(&tcp) {
            Self::Reset { peer: info.spec.node(external) }
        } else {
            Self::Connection { id, end }
        }
    }
}

/// Returns a copy of the packet in a buffer, and releases the buffer.
fn take_bytes<O: Egress, W: Watch>(world: &mut FrameWorld<O, W>, body: u32) -> Vec<u8> {
    let frames = world.medium_mut();
    let bytes = frames.packet_bytes(body).to_vec();
    frames.release(body);
    bytes
}

/// Handles a packet that belongs to no connection: accepts a SYN for a service, and refuses any other packet with a reset. `isn` is the
/// initial sequence number for a connection that follows another one between the same addresses and ports.
fn on_unmatched<O: Egress, W: Watch>(
    world: &mut FrameWorld<O, W>,
    now: Time,
    node: NodeId,
    bytes: &[u8],
    isn: Option<u32>,
) {
    let frames = world.medium_mut();
    frames.external.unmatched += 1;
    let Some((ends, tcp)) = parse(bytes) else { return };
    let Some(peer) = frames.node(*ends.1.ip()).filter(|&peer| frames.is_external(peer)) else { return };
    let syn = tcp.flags().contains(TcpFlags::SYN) && !tcp.flags().contains(TcpFlags::ACK);
    let listener = frames.external.services.listener_at(ends.0).filter(|_| syn);
    if let Some(listener) = listener
        && has_free_space(world, now)
    {
        world.medium_mut().external.unmatched -= 1;
        return accept(world, now, (node, peer), &tcp, isn, listener);
    }
    send_reset(world, now, (node, peer), bytes);
}

/// Answers a packet from `peer` with a reset, unless the packet is itself a reset.
fn send_reset<O: Egress, W: Watch>(
    world: &mut FrameWorld<O, W>,
    now: Time,
    (node, peer): (NodeId, NodeId),
    bytes: &[u8],
) {
    let mut reset = [0; 80];
    if let Some((ends, tcp)) = parse(bytes)
        && let Some(len) = write_reset(&tcp, &addresses(*ends.0.ip(), *ends.1.ip()), &mut reset)
    {
        send(world, now, node, peer, &reset[..len]);
    }
}

/// Accepts the connection of an external client to a simulated server.
fn accept<O: Egress, W: Watch>(
    world: &mut FrameWorld<O, W>,
    now: Time,
    (server, client): (NodeId, NodeId),
    syn: &Tcp<'_>,
    isn: Option<u32>,
    tcp: TcpId,
) {
    if world.fabric().route(server, client).is_none() {
        return;
    }
    let spec = ConnectionSpec { client, server, opener: CLIENT, tcp };
    world.accept(now, spec, |frames, config, phases, rng| {
        let random_isn = rng.next_u32();
        let isn = isn.unwrap_or(random_isn);
        let local = frames.server_at(&spec);
        let remote = SocketAddrV4::new(frames.address(client), syn.source_port());
        let identity = Identity { local, remote, isn, is_external: true };
        let config = frames.config(tcp, config);
        let mut socket = Socket::new(now, Role::Passive, &config, phases[SERVER], identity);
        socket.receive(now, Ecn::NOT_ECT, syn, |_| ());
        let session = SocketSession::server(now, socket, frames.external.services.clone(), tcp);
        [FrameEnd::External(ObservedSender::default()), FrameEnd::Session(Box::new(session))]
    });
}

/// Sends a packet that belongs to no connection.
fn send<O: Egress, W: Watch>(
    world: &mut FrameWorld<O, W>,
    now: Time,
    from: NodeId,
    to: NodeId,
    bytes: &[u8],
) {
    let Some(route) = world.fabric().route(from, to) else { return };
    let frames = world.medium_mut();
    let Some(body) = frames.allocate() else { return };
    frames.buffer_mut(body)[..bytes.len()].copy_from_slice(bytes);
    frames.record_packet(body, bytes.len());
    world.inject(now, from, Packet::new(now, route, bytes.len() as u32, body));
}

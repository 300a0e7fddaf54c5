use super::FrameWorld;
use super::session::{AppProtocol, Connection};
use super::transmit::transmit_pending;
use crate::datapath::frames::Egress;
use crate::socket::{Ends, Identity, Socket, addresses, parse, refuse};
use catnip_base::Time;
use catnip_lab::Protocol;
use catnip_net::{Ecn, NodeId, Packet, Route};
use catnip_sim::medium::Medium;
use catnip_sim::record::NO_APP;
use catnip_sim::{CLIENT, ConnectionInfo, ConnectionSpec, SERVER, TcpId, Watch, tick_phase};
use catnip_tcp::Role;
use catnip_wire::{Tcp, TcpFlags};

/// Handles a packet that belongs to no connection: accepts a SYN for a service, and refuses any other packet with a reset. `first` is the
/// initial sequence number for a connection that follows another one between the same addresses and ports.
pub(super) fn on_stray<O: Egress, W: Watch>(
    world: &mut FrameWorld<O, W>,
    now: Time,
    node: NodeId,
    bytes: &[u8],
    first: Option<u32>,
) {
    let (frames, watch) = world.parts_mut();
    frames.external.stray += 1;
    let Some((ends, tcp)) = parse(bytes) else { return };
    let Some(peer) = frames.node(*ends.1.ip()).filter(|&peer| frames.is_external(peer)) else { return };
    let syn = tcp.flags().contains(TcpFlags::SYN) && !tcp.flags().contains(TcpFlags::ACK);
    let listener = frames.external.services.waits_at(ends.0).filter(|_| syn);
    if let Some(listener) = listener
        && frames.external.has_room(now, watch)
    {
        frames.external.stray -= 1;
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

/// Accepts the connection of an external client to a simulated server.
fn accept<O: Egress, W: Watch>(
    world: &mut FrameWorld<O, W>,
    now: Time,
    (server, client): (NodeId, NodeId),
    syn: &Tcp<'_>,
    opening: Opening,
    tcp: TcpId,
) {
    let Some(route) = world.fabric().route(server, client) else { return };
    let spec = ConnectionSpec { client, server, opener: CLIENT, tcp };
    let program = world.service(server, tcp);
    let protocol = match world.medium().external.services.get(tcp).speaks {
        Protocol::Http { .. } => AppProtocol::Serve(Box::default()),
        Protocol::Echo => AppProtocol::Repeat(Box::default()),
    };
    let mut connection = begin(world, now, spec, program, opening, route, protocol);
    connection.socket.receive(now, Ecn::NOT_ECT, syn, |_| ());
    let id = world.medium_mut().external.insert(connection);
    transmit_pending(world, now, id);
}

/// Opening of the simulated end of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opening {
    pub(super) role: Role,
    pub(super) ends: Ends,
    /// Initial sequence number; `None` for a random one.
    pub(super) first: Option<u32>,
}

/// Creates the simulated end of a connection.
pub(super) fn begin<O: Egress, W: Watch>(
    world: &mut FrameWorld<O, W>,
    now: Time,
    spec: ConnectionSpec,
    program: u32,
    Opening { role, ends: (local, remote), first }: Opening,
    route: Route,
    protocol: AppProtocol,
) -> Connection {
    let (number, mut rng) = world.number();
    let options = world.tcp(spec.tcp).clone();
    let phase = tick_phase(options.config.slowest_clock(), rng.uniform());
    let drawn = rng.next_u32();
    let identity = Identity { local, remote, initial_sequence: first.unwrap_or(drawn), stranger: true };
    let config = world.medium_mut().config(spec.tcp, &options.config);
    let socket = Socket::new(now, role, &config, phase, identity);
    let (side, app) = if role == Role::Active { (CLIENT, program) } else { (SERVER, NO_APP) };
    Connection {
        socket,
        side,
        program,
        told: [false; 2],
        route,
        planned: Time::NEVER,
        info: ConnectionInfo::new(number, app, spec, now, &options, &rng),
        protocol,
        recorded: false,
        linger_until: Time::ZERO,
    }
}

/// Sends a packet that belongs to no connection.
pub(super) fn say<O: Egress, W: Watch>(
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
    world.inject(now, from, Packet::new(now, route, bytes.len() as u32, body));
}

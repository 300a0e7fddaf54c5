//! Connections between simulated and external hosts, of which only one end is simulated.

pub mod documents;
mod echo;
mod events;
mod fetch;
mod hosts;
pub mod http;
mod listener;
mod services;
mod session;
mod transmit;

use crate::datapath::frames::Frames;
use crate::socket::Ends;
use catnip_base::{Slab, Span, Time};
use catnip_lab::Plan;
use catnip_net::NodeId;
use catnip_sim::{Event, SERVER, Watch, World};
use services::Services;
use session::Connection;
use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;

/// Connections of simulated hosts with external hosts, and the services of simulated hosts for them.
#[derive(Debug, Default)]
pub struct ExternalPeers {
    connections: Slab<Connection>,
    by_ends: BTreeMap<Ends, u32>,
    services: Services,
    /// Next port of each client, by node, counted from [`FIRST_PORT`].
    ports: Vec<u16>,
    /// Connections that may have data to send once their programs have returned.
    dirty_ends: Vec<u32>,
    /// Closed connections that are kept for [`LINGER`], oldest first, by index and number; some may already be released.
    lingering: VecDeque<(u32, u64)>,
    /// Number of packets for connections and services that do not exist.
    stray: u64,
    /// Number of packets with a wrong checksum.
    damaged: u64,
}

/// World whose simulated hosts may have connections with external hosts.
type FrameWorld<O, W> = World<Frames<O, ExternalPeers>, W>;

/// Time for which a closed connection is kept, equal to that of TIME-WAIT in Linux.
const LINGER: Span = Span::from_secs(60);
const MOST_CONNECTIONS: usize = 1 << 16;
const FIRST_PORT: u16 = 32768;
const PORTS: u16 = u16::MAX - FIRST_PORT;

impl ExternalPeers {
    /// Creates the services of a plan: simulated servers listen for external clients.
    pub(crate) fn of(
        plan: &Plan,
        is_external: impl Fn(NodeId) -> bool,
        at: impl Fn(NodeId) -> Ipv4Addr,
    ) -> Self {
        Self { services: Services::of(plan, is_external, at), ..Self::default() }
    }

    /// Ends the run: records connections whose documents have arrived, even if the close is incomplete.
    pub(crate) fn finish<W: Watch>(&mut self, now: Time, watch: &mut W) {
        let open: Vec<u32> = self.connections.iter().map(|(id, _)| id).collect();
        for id in open {
            let connection = &mut self.connections[id];
            if connection.info.received.is_some() {
                connection.info.closed.get_or_insert(now);
                self.record(now, id, watch);
            }
        }
    }

    /// Returns true if a connection of a simulated server with an external client is open.
    pub(crate) fn serves(&self) -> bool {
        let open = |connection: &Connection| connection.side == SERVER && connection.info.closed.is_none();
        self.connections.iter().any(|(_, connection)| open(connection))
    }

    /// Returns the number of packets for connections and services that do not exist.
    pub(crate) fn stray_packets(&self) -> u64 {
        self.stray
    }

    /// Returns the number of packets with a wrong checksum.
    pub fn damaged_packets(&self) -> u64 {
        self.damaged
    }

    /// Returns true if the table of connections has free space. Releases the oldest closed connections if necessary.
    fn has_room<W: Watch>(&mut self, now: Time, watch: &mut W) -> bool {
        while self.connections.in_use() >= MOST_CONNECTIONS {
            let Some((id, number)) = self.lingering.pop_front() else { return false };
            let connection = &self.connections[id];
            if connection.info.number == number && self.by_ends.get(&connection.socket.ends()) == Some(&id) {
                self.forget(now, id, watch);
            }
        }
        true
    }

    /// Releases the addresses of a connection, so that a SYN from the same client opens another one. Packets still in the network belong to
    /// the old connection.
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

    /// Records a closed connection when its last packet has left the network, and releases it when its lingering time is over.
    fn retire_if_over<W: Watch>(&mut self, now: Time, id: u32, watch: &mut W) {
        let connection = &self.connections[id];
        if !connection.info.is_over() {
            return;
        }
        self.record(now, id, watch);
        let connection = &mut self.connections[id];
        if now < connection.linger_until {
            return;
        }
        connection.planned = Time::NEVER;
        let ends = connection.socket.ends();
        // A later connection may use the same addresses.
        if self.by_ends.get(&ends) == Some(&id) {
            self.by_ends.remove(&ends);
        }
        self.connections.release(id);
    }

    fn record<W: Watch>(&mut self, now: Time, id: u32, watch: &mut W) {
        let connection = &mut self.connections[id];
        if connection.info.received.is_some() && !std::mem::replace(&mut connection.recorded, true) {
            watch.record(now, &Event::Connection(connection.record()));
        }
    }
}

//! What happens between a simulated host and one outside: connections of which only one end is ours.

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

/// The connections of simulated hosts with hosts outside, and the services that simulated hosts offer them.
#[derive(Debug, Default)]
pub struct Strangers {
    connections: Slab<Connection>,
    by_ends: BTreeMap<Ends, u32>,
    services: Services,
    /// Ports given to clients, per node.
    ports: Vec<u16>,
    /// Connections that may have something to send once their programs have returned.
    touched: Vec<u32>,
    /// Connections that are over and kept for a while, the oldest first; some may be gone already.
    lingering: VecDeque<(u32, u64)>,
    /// Packets for connections and services that do not exist.
    stray: u64,
    /// Packets with a wrong checksum.
    damaged: u64,
}

/// A world whose simulated hosts talk to hosts outside.
type FrameWorld<O, W> = World<Frames<O, Strangers>, W>;

/// As long as the kernel keeps connections in TIME-WAIT.
const LINGER: Span = Span::from_secs(60);
const MOST_CONNECTIONS: usize = 1 << 16;
const FIRST_PORT: u16 = 32768;
const PORTS: u16 = u16::MAX - FIRST_PORT;

impl Strangers {
    /// Those of a plan: simulated servers wait for clients outside.
    pub(crate) fn of(
        plan: &Plan,
        is_outside: impl Fn(NodeId) -> bool,
        at: impl Fn(NodeId) -> Ipv4Addr,
    ) -> Self {
        Self { services: Services::of(plan, is_outside, at), ..Self::default() }
    }

    /// Ends the run: records connections whose documents have arrived, though the last word is missing.
    pub(crate) fn finish<W: Watch>(&mut self, now: Time, watch: &mut W) {
        let open: Vec<u32> = self.connections.iter().map(|(id, _)| id).collect();
        for id in open {
            let connection = &mut self.connections[id];
            if connection.account.received.is_some() {
                connection.account.closed.get_or_insert(now);
                self.record(now, id, watch);
            }
        }
    }

    /// Is a simulated server in a conversation with a client outside?
    pub(crate) fn serves(&self) -> bool {
        let open = |connection: &Connection| connection.side == SERVER && connection.account.closed.is_none();
        self.connections.iter().any(|(_, connection)| open(connection))
    }

    /// Packets for connections and services that do not exist.
    pub(crate) fn stray_packets(&self) -> u64 {
        self.stray
    }

    /// Packets with a wrong checksum.
    pub fn damaged_packets(&self) -> u64 {
        self.damaged
    }

    /// Is there room for one more connection? One that is over makes room.
    fn has_room<W: Watch>(&mut self, now: Time, watch: &mut W) -> bool {
        while self.connections.in_use() >= MOST_CONNECTIONS {
            let Some((id, number)) = self.lingering.pop_front() else { return false };
            let connection = &self.connections[id];
            if connection.account.number == number && self.by_ends.get(&connection.socket.ends()) == Some(&id)
            {
                self.forget(now, id, watch);
            }
        }
        true
    }

    /// Whoever knocks from where this connection came from begins another one. What is still under way belongs to this one.
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

    /// Records a closed connection when its last packet has left the network, and forgets it when its time has come.
    fn retire_if_over<W: Watch>(&mut self, now: Time, id: u32, watch: &mut W) {
        let connection = &self.connections[id];
        if !connection.account.is_over() {
            return;
        }
        self.record(now, id, watch);
        let connection = &mut self.connections[id];
        if now < connection.linger_until {
            return;
        }
        connection.planned = Time::NEVER;
        let ends = connection.socket.ends();
        // A later connection may have taken its place.
        if self.by_ends.get(&ends) == Some(&id) {
            self.by_ends.remove(&ends);
        }
        self.connections.release(id);
    }

    fn record<W: Watch>(&mut self, now: Time, id: u32, watch: &mut W) {
        let connection = &mut self.connections[id];
        if connection.account.received.is_some() && !std::mem::replace(&mut connection.recorded, true) {
            watch.record(now, &Event::Connection(connection.record()));
        }
    }
}

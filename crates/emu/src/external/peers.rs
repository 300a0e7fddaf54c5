use super::services::Services;
use crate::datapath::frames::{Egress, Frames};
use crate::socket::Ends;
use catnip_base::Time;
use catnip_lab::Plan;
use catnip_net::NodeId;
use catnip_sim::{CLIENT, SERVER, Watch, World};
use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use std::sync::Arc;

/// Addresses of the connections between simulated and external hosts, and services of simulated hosts.
#[derive(Debug, Default)]
pub struct ExternalPeers {
    /// Slot in the engine and external end of each connection, by the addresses and ports of its simulated and its external end.
    pub(super) by_ends: BTreeMap<Ends, (u32, usize)>,
    pub(super) services: Arc<Services>,
    /// Next port of each client as an offset from [`FIRST_PORT`], by index of the node.
    pub(super) ports: Vec<u16>,
    /// Slots and numbers of closed connections that are kept to answer retransmissions, oldest first; some may already be released.
    pub(super) lingering: VecDeque<(u32, u64)>,
    /// Number of packets for connections and services that do not exist.
    pub(super) unmatched: u64,
    /// Number of packets with a wrong checksum.
    pub(super) damaged: u64,
}

/// World whose simulated hosts may have connections with external hosts.
pub(super) type FrameWorld<O, W> = World<Frames<O, ExternalPeers>, W>;

pub(super) const MAX_CONNECTIONS: usize = 1 << 16;
pub(super) const FIRST_PORT: u16 = 32768;
pub(super) const PORTS: u16 = u16::MAX - FIRST_PORT;

impl ExternalPeers {
    /// Creates the state without connections, and the services of a plan: simulated servers listen for external clients.
    pub(crate) fn of(
        plan: &Plan,
        is_external: impl Fn(NodeId) -> bool,
        at: impl Fn(NodeId) -> Ipv4Addr,
    ) -> Self {
        Self { services: Arc::new(Services::of(plan, is_external, at)), ..Self::default() }
    }

    /// Returns the number of packets for connections and services that do not exist.
    pub(crate) fn unmatched_packets(&self) -> u64 {
        self.unmatched
    }

    /// Returns the number of packets with a wrong checksum.
    pub fn damaged_packets(&self) -> u64 {
        self.damaged
    }
}

/// Makes space for another connection, if necessary by forgetting the oldest closed connections. Returns false if there is no space.
pub(super) fn has_free_space<O: Egress, W: Watch>(world: &mut FrameWorld<O, W>, now: Time) -> bool {
    while world.medium().external.by_ends.len() >= MAX_CONNECTIONS {
        let Some((id, number)) = world.medium_mut().external.lingering.pop_front() else { return false };
        let ends = world.end(id, SERVER).ends().or_else(|| world.end(id, CLIENT).ends());
        let is_known = |ends| world.medium().external.by_ends.get(&ends).is_some_and(|(of, _)| *of == id);
        if world.connection_info(id).number == number && ends.is_some_and(is_known) {
            world.forget(now, id);
        }
    }
    true
}

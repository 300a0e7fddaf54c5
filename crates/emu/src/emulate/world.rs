use crate::datapath::frames::{Egress, Frames, Routing};
use crate::external::ExternalPeers;
use crate::mark::Marker;
use catnip_base::Span;
use catnip_lab::Plan;
use catnip_net::NodeId;
use catnip_sim::{Watch, World};
use std::collections::BTreeMap;

/// Longest time to wait, after the last message has arrived, until all connections are closed.
const CLOSE_GRACE: Span = Span::from_secs(5);
/// Upper bound on the length of the headers of a segment from a simulated host, bytes.
const HEADERS: u32 = 80;

/// Creates the world of a plan at time zero, with all applications started. Packets of external hosts have at most `mtu` bytes.
///
/// The world has no clock: the caller advances it to a given time and passes in the packets of external hosts. Events between simulated
/// hosts happen at their ideal times, regardless of how late the caller is.
pub fn world<O: Egress, W: Watch>(
    plan: &Plan,
    seed: u64,
    mtu: u32,
    egress: O,
    watch: W,
) -> World<Frames<O, ExternalPeers>, W> {
    let count = plan.topology().node_count();
    let addresses = plan.addresses();
    let at = |node: NodeId| addresses[node.0 as usize];
    let external_nodes = || plan.external_nodes().iter().map(|external| external.node);
    // Only the hosts of traffic groups and external hosts receive packets; other hosts and routers do not.
    let ends = plan.groups().flat_map(|group| group.pairs).flat_map(|&(server, client)| [server, client]);
    let hosts: BTreeMap<_, _> = external_nodes().chain(ends).map(|node| (at(node).into(), node)).collect();
    let routing = Routing { hosts, ..Routing::default() };
    let mut markers = vec![None; count];
    plan.markers().for_each(|(node, parameters)| markers[node.0 as usize] = Some(parameters));
    let marked = markers.iter().map(Option::is_some).collect();
    let max_packet = (plan.longest_segment() + HEADERS) as usize;
    let external = ExternalPeers::of(plan, |node| external_nodes().any(|other| other == node), at);
    let mut frames = Frames::new(egress, external_nodes(), routing, mtu as usize, max_packet)
        .with_marker_at(Marker::new(markers, true), marked)
        .with_addresses(addresses);
    frames.external = external;
    let mut world = World::over(plan.topology(), seed, frames, watch);
    plan.start(seed, &mut world);
    world
}

/// Returns true if all simulated users have finished, and all connections are closed or have failed to close within `CLOSE_GRACE`.
/// Background traffic does not count. Returns false if there are no users.
pub fn is_done<O: Egress, W: Watch>(world: &World<Frames<O, ExternalPeers>, W>) -> bool {
    let tally = world.tally();
    let quiet = tally.open == 0 || world.advanced_to() >= tally.last_end + CLOSE_GRACE;
    world.is_idle() && quiet
}

/// Ends a run: records connections with external hosts whose documents have arrived, even if the close is incomplete.
pub fn finish<O: Egress, W: Watch>(world: &mut World<Frames<O, ExternalPeers>, W>) {
    world.finish(world.advanced_to());
}

use crate::datapath::frames::{Frames, Outside, Routing};
use crate::external::Strangers;
use crate::mark::Marker;
use catnip_base::Span;
use catnip_lab::Plan;
use catnip_net::NodeId;
use catnip_sim::{Watch, World};
use std::collections::BTreeMap;

/// A server that has not closed so long after its response never will.
const LAST_WORDS: Span = Span::from_secs(5);
/// What the headers of a segment from a simulated host need at most, bytes.
const HEADERS: u32 = 80;

/// The world of a plan at time zero, with all applications started. Packets of real hosts have `mtu` bytes at most.
///
/// It has no clock: it is told up to when to go on, and of packets that come from real hosts. All that happens between
/// simulated hosts happens at its ideal time, however late that is.
pub fn world<O: Outside, W: Watch>(
    plan: &Plan,
    seed: u64,
    mtu: u32,
    outside: O,
    watch: W,
) -> World<Frames<O, Strangers>, W> {
    let count = plan.topology().node_count();
    let addresses = plan.addresses();
    let at = |node: NodeId| addresses[node.0 as usize];
    let real = || plan.real_nodes().iter().map(|real| real.node);
    // Nobody is at home at other hosts, and no packet is for a router.
    let ends = plan.groups().flat_map(|group| group.pairs).flat_map(|&(server, client)| [server, client]);
    let hosts: BTreeMap<_, _> = real().chain(ends).map(|node| (at(node).into(), node)).collect();
    let routing = Routing { hosts, ..Routing::default() };
    let mut markers = vec![None; count];
    plan.markers().for_each(|(node, parameters)| markers[node.0 as usize] = Some(parameters));
    let marked = markers.iter().map(Option::is_some).collect();
    let longest = (plan.longest_segment() + HEADERS) as usize;
    let strangers = Strangers::of(plan, |node| real().any(|other| other == node), at);
    let mut frames = Frames::new(outside, real(), routing, mtu as usize, longest)
        .with_marker_at(Marker::new(markers, true), marked)
        .with_addresses(addresses);
    frames.foreign = strangers;
    let mut world = World::over(plan.topology(), seed, frames, watch);
    plan.start(seed, &mut world);
    world
}

/// Is all that simulated users came for done, and nothing of theirs on its way? Background traffic does not count, and
/// never if there were no users.
pub fn is_done<O: Outside, W: Watch>(world: &World<Frames<O, Strangers>, W>) -> bool {
    let tally = world.tally();
    let quiet = tally.open == 0 || world.told() >= tally.last_end + LAST_WORDS;
    world.is_idle() && quiet
}

/// Ends a run: records connections with real hosts whose documents have arrived, though the last word is missing.
pub fn finish<O: Outside, W: Watch>(world: &mut World<Frames<O, Strangers>, W>) {
    let told = world.told();
    let (frames, watch) = world.parts_mut();
    frames.foreign.finish(told, watch);
}

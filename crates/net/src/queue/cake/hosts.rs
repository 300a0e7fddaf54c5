use crate::Route;
use catnip_base::keywords;
use std::collections::BTreeMap;

keywords! {
    /// Hosts among which CAKE shares the rate fairly. CAKE then shares the part of each host fairly among the host's connections.
    #[derive(Default)]
    pub enum Isolation {
        /// Source and destination host. The host with more connections of these two determines the share of a connection.
        #[default]
        Triple = ("triple-isolate", "source and destination host, of which the one with more connections counts"),
        /// Source host.
        Source = ("dual-srchost", "source host"),
        /// Destination host.
        Destination = ("dual-dsthost", "destination host"),
        /// No hosts: fairness between connections only.
        Flows = ("flows", "connections only"),
    }
}

/// Source and destination host of each connection, by flow identifier and route.
#[derive(Debug, Default)]
pub(super) struct Hosts(BTreeMap<(u16, u32), Pair>);

/// Ids of the source and the destination host.
pub(super) type Pair = [u32; 2];

impl Hosts {
    pub(super) fn set(&mut self, flow: u16, route: Route, pair: Pair) {
        self.0.insert((flow, route.0), pair);
    }

    /// Returns the hosts of a connection's packets. Without an entry the source host is unknown, and the route identifies the destination
    /// host.
    pub(super) fn of(&self, flow: u16, route: Route) -> Pair {
        self.0.get(&(flow, route.0)).copied().unwrap_or([u32::MAX, !route.0])
    }
}

/// Counts of bulk connections by source host and by destination host. Each host has a position in its list, so that the search for a host
/// is needed only when a connection begins.
#[derive(Debug, Default)]
pub(super) struct Loads {
    positions: [BTreeMap<u32, u32>; 2],
    counts: [Vec<u32>; 2],
}

/// Positions of the source and the destination host of a connection in [`Loads`].
pub(super) type Positions = [u32; 2];

impl Loads {
    /// Returns the positions of two hosts, which are added if they have none.
    pub(super) fn positions(&mut self, pair: Pair) -> Positions {
        std::array::from_fn(|side| {
            let counts = &mut self.counts[side];
            *self.positions[side].entry(pair[side]).or_insert_with(|| {
                counts.push(0);
                counts.len() as u32 - 1
            })
        })
    }

    pub(super) fn add(&mut self, at: Positions) {
        self.counts.iter_mut().zip(at).for_each(|(counts, at)| counts[at as usize] += 1);
    }

    pub(super) fn remove(&mut self, at: Positions) {
        self.counts.iter_mut().zip(at).for_each(|(counts, at)| counts[at as usize] -= 1);
    }

    /// Returns the number of connections that share the quantum of a host.
    pub(super) fn of(&self, isolation: Isolation, at: Positions) -> u32 {
        let count = |side: usize| self.counts[side][at[side] as usize];
        let sharing = match isolation {
            Isolation::Triple => count(0).max(count(1)),
            Isolation::Source => count(0),
            Isolation::Destination => count(1),
            Isolation::Flows => 1,
        };
        sharing.max(1)
    }
}

use crate::Route;
use catnip_base::words;
use std::collections::BTreeMap;

words! {
    /// Between whom CAKE is fair before it is fair between connections.
    #[derive(Default)]
    pub enum Isolation {
        /// Both ends: what counts is the end with more connections.
        #[default]
        Triple = ("triple-isolate", "both ends, whichever has more connections"),
        /// Who sends.
        Source = ("dual-srchost", "who sends"),
        /// Who receives.
        Destination = ("dual-dsthost", "who receives"),
        /// Connections alone.
        Flows = ("flows", "connections alone"),
    }
}

/// Of each connection and direction, who sends and who receives.
#[derive(Debug, Default)]
pub(super) struct Hosts(BTreeMap<(u16, u32), Pair>);

/// Who sends and who receives, by number.
pub(super) type Pair = [u32; 2];

impl Hosts {
    pub(super) fn set(&mut self, flow: u16, route: Route, pair: Pair) {
        self.0.insert((flow, route.0), pair);
    }

    /// Of packets of which nobody has said where they come from it is known where they go.
    pub(super) fn of(&self, flow: u16, route: Route) -> Pair {
        self.0.get(&(flow, route.0)).copied().unwrap_or([u32::MAX, !route.0])
    }
}

/// How many connections hosts have that wait for their turn.
#[derive(Debug, Default)]
pub(super) struct Loads([BTreeMap<u32, u32>; 2]);

impl Loads {
    pub(super) fn add(&mut self, pair: Pair) {
        for (load, host) in self.0.iter_mut().zip(pair) {
            *load.entry(host).or_default() += 1;
        }
    }

    pub(super) fn remove(&mut self, pair: Pair) {
        for (load, host) in self.0.iter_mut().zip(pair) {
            if let Some(count) = load.get_mut(&host) {
                *count -= 1;
                if *count == 0 {
                    load.remove(&host);
                }
            }
        }
    }

    /// Among how many a connection shares its quantum.
    pub(super) fn of(&self, isolation: Isolation, pair: Pair) -> u32 {
        let count = |side: usize| self.0[side].get(&pair[side]).copied().unwrap_or(0);
        let sharing = match isolation {
            Isolation::Triple => count(0).max(count(1)),
            Isolation::Source => count(0),
            Isolation::Destination => count(1),
            Isolation::Flows => 1,
        };
        sharing.max(1)
    }
}

//! Look-ups of host names over UDP (RFC 1035), by a browser and its resolver.

use super::Site;
use crate::FlowId;
use crate::host::Host;
use catnip_base::{Distribution, Rng, Span, Stream};

/// Look-ups of the names of a site by the browsers of a group.
#[derive(Clone, Debug)]
pub struct LookUps {
    /// Time from the arrival of a query at the resolver to the answer, seconds.
    pub resolver_s: Distribution,
    /// Time until queries without an answer are repeated; twice as long each time, up to [`LookUps::LONGEST_WAIT`].
    pub timeout: Span,
    /// True if names are looked up anew for each page; otherwise an answer is valid until the end of the run.
    pub each_page: bool,
}

impl LookUps {
    /// Largest time until queries are repeated, that of Chromium.
    pub const LONGEST_WAIT: Span = Span::from_secs(5);
    /// Number of queries of a look-up: for addresses of IPv4 and of IPv6. It is over once both are answered.
    pub const QUERIES: usize = 2;
    /// Bytes of a query beside the name: the headers of IPv4, UDP and DNS, the ends of the name, type and class.
    pub const QUERY_BYTES: u32 = 20 + 8 + 12 + 2 + 4;
    /// Bytes by which the answer is longer than its query, for each family: a record that refers to the name, with an address.
    pub const ANSWER_BYTES: [u32; Self::QUERIES] = [12 + 4, 12 + 16];
}

/// Flows of the queries and answers of a name: for each family, one to the resolver and one back.
pub type NameFlows = [[FlowId; 2]; LookUps::QUERIES];

/// Names of a site as a browser knows them, and the resolver that answers it.
#[derive(Debug)]
pub(super) struct Names {
    config: LookUps,
    names: Vec<Name>,
    rng: Rng,
}

#[derive(Debug)]
struct Name {
    /// Length, characters.
    length: u32,
    flows: NameFlows,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Unknown,
    /// Look-up since a time: the time until the queries are repeated, and for each whether it is answered.
    Asked(Span, [bool; LookUps::QUERIES]),
    Known,
}

/// Timer of a name, in the key of a timer of the browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    /// Repetition of queries.
    Repeat(usize),
    /// Answer of the resolver to a query.
    Answer(usize, usize),
}

/// Smallest key of the timers of names.
pub(super) const FIRST_KEY: u64 = 1 << 40;

impl Names {
    /// Returns the names of a site, none of them known. `flows` are those of each name.
    pub(super) fn new(config: LookUps, site: &Site, flows: Vec<NameFlows>, seed: u64, user: u32) -> Self {
        let name = |(&length, flows)| Name { length, flows, state: State::Unknown };
        let names = site.names.iter().zip(flows).map(name).collect();
        Self { config, names, rng: Rng::new(seed, Stream::Resolver(user)) }
    }

    /// Requests the delivery of queries and answers.
    pub(super) fn start(&self, host: &mut Host<'_>) {
        self.names.iter().flat_map(|name| name.flows.iter().flatten()).for_each(|&flow| host.receive(flow));
    }

    /// Forgets all names if they are looked up anew for each page.
    pub(super) fn start_page(&mut self) {
        if self.config.each_page {
            self.names.iter_mut().for_each(|name| name.state = State::Unknown);
        }
    }

    /// Returns true if a name is known. If it is not, its look-up begins or goes on.
    pub(super) fn ask(&mut self, name: u32, host: &mut Host<'_>) -> bool {
        let number = name as usize;
        match self.names[number].state {
            State::Known => true,
            State::Asked(..) => false,
            State::Unknown => {
                self.names[number].state = State::Asked(self.config.timeout, [false; LookUps::QUERIES]);
                self.send_queries(number, host);
                false
            }
        }
    }

    /// Handles the timer with this key.
    pub(super) fn on_timer(&mut self, key: u64, host: &mut Host<'_>) {
        match Timer::of(key) {
            Timer::Answer(number, query) => {
                let Name { length, flows, .. } = self.names[number];
                let bytes = LookUps::QUERY_BYTES + length + LookUps::ANSWER_BYTES[query];
                host.datagram(flows[query][1], bytes);
            }
            Timer::Repeat(number) => {
                if let State::Asked(wait, _) = &mut self.names[number].state {
                    *wait = (*wait * 2).min(LookUps::LONGEST_WAIT.max(self.config.timeout));
                    self.send_queries(number, host);
                }
            }
        }
    }

    /// Handles a datagram: a query at the resolver, or an answer at the browser. Returns the name that is now known.
    pub(super) fn on_datagram(&mut self, flow: FlowId, host: &mut Host<'_>) -> Option<u32> {
        let mut all = self.names.iter().zip(0..).flat_map(|(name, number)| {
            name.flows.iter().zip(0..).map(move |(flows, query)| (flows, number, query))
        });
        let (&[to_resolver, _], number, query) = all.find(|(flows, ..)| flows.contains(&flow))?;
        if flow == to_resolver {
            let pause = Span::from_secs_f64(self.config.resolver_s.draw(&mut self.rng));
            host.timer(host.now() + pause, Timer::Answer(number, query).key());
            return None;
        }
        let State::Asked(_, answered) = &mut self.names[number].state else { return None };
        answered[query] = true;
        if !answered.iter().all(|it| *it) {
            return None;
        }
        host.cancel(Timer::Repeat(number).key());
        self.names[number].state = State::Known;
        Some(number as u32)
    }

    /// Sends the queries of a name that are not answered.
    fn send_queries(&mut self, number: usize, host: &mut Host<'_>) {
        let Name { length, flows, state: State::Asked(wait, answered) } = self.names[number] else { return };
        for ([to_resolver, _], is_answered) in flows.into_iter().zip(answered) {
            if !is_answered {
                host.datagram(to_resolver, LookUps::QUERY_BYTES + length);
            }
        }
        host.timer(host.now() + wait, Timer::Repeat(number).key());
    }
}

impl Timer {
    fn key(self) -> u64 {
        let (number, kind) = match self {
            Self::Repeat(number) => (number, 0),
            Self::Answer(number, query) => (number, 1 + query),
        };
        FIRST_KEY + (number * (1 + LookUps::QUERIES) + kind) as u64
    }

    fn of(key: u64) -> Self {
        let packed = (key - FIRST_KEY) as usize;
        let number = packed / (1 + LookUps::QUERIES);
        match packed % (1 + LookUps::QUERIES) {
            0 => Self::Repeat(number),
            kind => Self::Answer(number, kind - 1),
        }
    }
}

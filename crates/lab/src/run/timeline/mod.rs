//! Timeline of one run: queues, senders, drops and marks, and the packets of one connection.

mod chosen;
pub(super) mod grid;
pub(super) mod recorder;

use crate::{Plan, Table};
use catnip_base::{Span, Time};
use catnip_sim::Sim;
use chosen::Chosen;
use grid::Grid;
use recorder::Recorder;
use std::collections::BTreeMap;

/// Request for the timeline of a run.
#[derive(Clone, Debug)]
pub struct TimelineRequest {
    /// Seed of the run.
    pub seed: u64,
    /// Start and end of the timeline, from the start of the run. `None` for the whole run or, if its connections are short, the time around
    /// one of the largest.
    pub range: Option<(Span, Span)>,
    /// True if links and connections are chosen by what happens up to the end of `range` only, for which the run goes no further.
    pub is_brief: bool,
    /// Number of intervals, at the end of each of which there is a sample.
    pub samples: u32,
    /// Connections to sample; `None` for those that send most, some of each traffic group.
    pub connections: Option<Vec<u64>>,
    /// Connection whose packets and segments are recorded; `None` for the first of the sampled ones.
    pub followed: Option<u64>,
}

/// Timeline of a run, as tables.
///
/// - `links`: the links and directions that are shown, by `name`.
/// - `link_samples`: per link and interval: `link` (its row), `at_s`, `high_packets`, `med_packets` and `low_packets` in the queue and in
///   transmission at the end of the interval; of the packets that left in it, `delay_s` (mean time there; NaN without one) and `rate_mbps`.
/// - `connections`: the connections that are sampled: `connection`, `group`, `client`.
/// - `sender_samples`: per connection and interval at whose end it is open: `connection` (its row), `at_s`, `cwnd_bytes`, `ssthresh_bytes`,
///   `in_flight_bytes` (SND.MAX - SND.UNA), `srtt_s`, `goodput_mbps`.
/// - `ticks`: drops, CE marks and expiries of retransmission timers: `at_s`, `kind` (`drop`, `mark`, `timeout`), `link` and `connection`
///   (their rows; NaN without one), `priority`.
/// - `segments`: what the followed connection's server sends and receives: `at_s`, `kind` (`data`, `retransmission`, `fin`, `ack`, `sack`,
///   `drop`, `timeout`), `from_bytes`, `to_bytes`. Those of an ACK are its number and the right edge of the window.
/// - `packets`: the packets of the followed connection: `packet`, `end`, `kind` (`syn`, `data`, `retransmission`, `ack`), `priority`,
///   `wire_bytes`, `from_bytes`, `to_bytes`.
/// - `steps`: their steps through the network: `packet`, `at_s`, `kind` (`enters` a queue, `passes` a link, `dropped`, `delivered`), `node`
///   (the one at the far end of the link).
#[derive(Clone, Debug)]
pub struct Timeline {
    /// Tables by name.
    pub tables: BTreeMap<&'static str, Table>,
    /// Names of the nodes, by number.
    pub nodes: Vec<String>,
    /// Start and end.
    pub range: (Time, Time),
    /// Number of ticks, segments and steps beyond the limits, which the tables do not have.
    pub left_out: u64,
}

/// Executes a run and returns its timeline. Returns `None` if `should_continue`, which is called several times a second, has returned
/// false.
pub fn timeline(
    plan: &Plan,
    request: &TimelineRequest,
    should_continue: &mut dyn FnMut() -> bool,
) -> Option<Timeline> {
    let chosen = Chosen::of(plan, request, should_continue)?;
    let (from, until) = chosen.range;
    let grid = Grid::new(from, until, request.samples.max(1));
    let followed = request.followed.or_else(|| chosen.connections.first().map(|it| it.number));
    let links: Vec<_> = chosen.links.iter().map(|&link| &plan.ports()[link]).collect();
    let recorder = Recorder::new(plan.topology(), grid, &links, chosen.connections, followed);
    let mut sim = Sim::new(plan.topology(), request.seed, recorder);
    plan.start(request.seed, &mut sim);
    for number in 0..=grid.intervals() {
        let at = grid.end_of(number);
        let next = sim.run_while(at, should_continue)?;
        let mut samples = Vec::new();
        sim.for_each_open(&mut |connection| samples.push(connection));
        sim.watch_mut().sample(number, &samples);
        if next == Time::NEVER {
            break;
        }
    }
    Some(sim.into_watch().into_timeline())
}

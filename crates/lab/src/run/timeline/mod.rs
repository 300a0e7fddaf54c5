//! What happens over time in one run: queues, senders, drops and marks, and the packets of one connection.

pub(super) mod grid;
pub(super) mod recorder;

use crate::{Column, Plan, Table, TableName, run_one};
use catnip_base::{Span, Time};
use catnip_sim::{Memory, Sim};
use grid::Grid;
use recorder::{Recorder, SampledConnection};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Request for the timeline of a run.
#[derive(Clone, Debug)]
pub struct TimelineRequest {
    /// Seed of the run.
    pub seed: u64,
    /// Start and end of the timeline, from the start of the run. `None` for the whole run or, if its connections are short, the time around
    /// the connection that sends most.
    pub range: Option<(Span, Span)>,
    /// Number of intervals, at the end of each of which there is a sample.
    pub samples: u32,
    /// Connections to sample; `None` for those that send most, some of each traffic group.
    pub connections: Option<Vec<u64>>,
    /// Connection whose packets and segments are recorded; `None` for the first of the sampled ones.
    pub followed: Option<u64>,
}

/// Timeline of a run, as tables.
///
/// | table | one row per | columns |
/// |---|---|---|
/// | `links` | link and direction that is shown | `name` |
/// | `link_samples` | link and interval | `link`, `at_s`, `high_packets`, `med_packets`, `low_packets` (in the queue and in transmission at the end of the interval), `delay_s` (mean time in the queue and in transmission of the packets that left in the interval; NaN without one), `rate_mbps` (of the packets that left) |
/// | `connections` | connection that is sampled | `connection`, `group`, `client` |
/// | `sender_samples` | connection and interval in which it is open | `connection` (its row), `at_s`, `cwnd_bytes`, `ssthresh_bytes`, `in_flight_bytes` (SND.MAX - SND.UNA), `srtt_s`, `goodput_mbps` |
/// | `ticks` | drop, CE mark and expiry of a retransmission timer | `at_s`, `kind`, `link` and `connection` (their rows; NaN without one), `priority` |
/// | `segments` | event of the followed connection's server | `at_s`, `kind`, `from_bytes`, `to_bytes` |
/// | `packets` | packet of the followed connection | `packet`, `end`, `kind`, `priority`, `wire_bytes`, `from_bytes`, `to_bytes` |
/// | `steps` | step of such a packet through the network | `packet`, `at_s`, `kind`, `node` |
///
/// The kinds of segments are `data`, `retransmission`, `fin`, `ack` (`from_bytes` is the acknowledgement number, `to_bytes` the right edge of the
/// window), `sack`, `drop` and `timeout`; those of packets `syn`, `data`, `retransmission` and `ack`; those of steps `sent`, `enters` (a queue),
/// `passes` (a link, and arrives at the node), `dropped` and `delivered`.
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

/// Largest number of links and of connections that are chosen.
const MOST_LINKS: usize = 4;
const MOST_CONNECTIONS: usize = 6;

/// Executes a run and returns its timeline. Returns `None` if `should_continue`, which is called several times a second, has returned false.
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

/// Links and connections that are shown.
#[derive(Debug)]
struct Chosen {
    /// Indices in [`Plan::ports`].
    links: Vec<usize>,
    connections: Vec<SampledConnection>,
    range: (Time, Time),
}

impl Chosen {
    /// Chooses by a run of its own what is shown: the links at which packets wait longest and are dropped, and the connections that send
    /// most, in turn from each traffic group.
    fn of(plan: &Plan, request: &TimelineRequest, should_continue: &mut dyn FnMut() -> bool) -> Option<Self> {
        let needed = [TableName::RUNS, TableName::CONNECTIONS, TableName::PORTS];
        let tables = run_one(plan, request.seed, &needed, None, should_continue, &mut Memory::default())?;
        let ports = &tables[&TableName::PORTS];
        let [high, med, low, delivered] = ["dropped_high", "dropped_med", "dropped_low", "delivered"]
            .map(|name| integers(ports.column(name)));
        let delays_s = floats(ports.column("queue_delay_mean_s"));
        let weight = |port: usize| {
            let waited_s = if delays_s[port] > 0.0 { delays_s[port] * delivered[port] as f64 } else { 0.0 };
            waited_s + (high[port] + med[port] + low[port]) as f64
        };
        let mut links: Vec<usize> = (0..delivered.len()).filter(|&port| delivered[port] > 0).collect();
        links.sort_by(|&a, &b| weight(b).total_cmp(&weight(a)));
        let least = links.first().map_or(0.0, |&first| weight(first)) * LEAST_WEIGHT;
        links.retain(|&port| weight(port) >= least);
        links.truncate(MOST_LINKS);
        links.sort_unstable();
        let connections = &tables[&TableName::CONNECTIONS];
        let [numbers, clients, sent] =
            ["connection", "client", "sent"].map(|name| integers(connections.column(name)));
        let Column::Text(groups) = connections.column("group") else { unreachable!("groups have names") };
        let row_of = |row: usize| SampledConnection {
            number: numbers[row],
            group: groups[row].to_string(),
            client: clients[row],
        };
        let end_s = floats(tables[&TableName::RUNS].column("end_s"))[0];
        let end = Time::ZERO + Span::from_secs_f64(end_s);
        let [starts_s, ends_s] = ["start_s", "acked_s"].map(|name| floats(connections.column(name)));
        // One that is not over is open until the end.
        let open_s = |row: usize| (starts_s[row], ends_s[row].min(end_s));
        let rows = 0..numbers.len();
        let range = match request.range {
            Some((from, until)) => {
                let [from, until] = [from, until].map(|at| (Time::ZERO + at).min(end));
                (from, until.max(from))
            }
            None => {
                let largest = rows.clone().max_by_key(|&row| (sent[row], Reverse(row)));
                let (start_s, over_s) = largest.map_or((0.0, end_s), open_s);
                let around_s = AROUND * (over_s - start_s);
                if over_s - start_s < SHORT * end_s {
                    let at = |at_s: f64| Time::ZERO + Span::from_secs_f64(at_s.clamp(0.0, end_s));
                    (at(start_s - around_s), at(over_s + around_s))
                } else {
                    (Time::ZERO, end)
                }
            }
        };
        let is_shown = |&row: &usize| {
            let (start_s, over_s) = open_s(row);
            start_s <= range.1.since(Time::ZERO).as_secs() && over_s >= range.0.since(Time::ZERO).as_secs()
        };
        let connections = match &request.connections {
            Some(asked) => {
                let rows =
                    asked.iter().filter_map(|number| rows.clone().find(|&row| numbers[row] == *number));
                rows.map(row_of).collect()
            }
            None => {
                let mut by_group: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
                rows.filter(is_shown).for_each(|row| by_group.entry(&groups[row]).or_default().push(row));
                let mut ranked: Vec<(usize, usize)> = Vec::new();
                for rows in by_group.values_mut() {
                    rows.sort_by_key(|&row| Reverse(sent[row]));
                    ranked.extend(rows.iter().take(MOST_CONNECTIONS).copied().enumerate());
                }
                ranked.sort_by_key(|&(rank, row)| (rank, Reverse(sent[row])));
                ranked.truncate(MOST_CONNECTIONS);
                ranked.into_iter().map(|(_, row)| row_of(row)).collect()
            }
        };
        Some(Self { links, connections, range })
    }
}

/// Share of a run below which its largest connection is short, and the share of the connection's time that is shown before and after it.
const SHORT: f64 = 0.05;
const AROUND: f64 = 0.5;
/// Share of the weight of the link that matters most from which on another link is shown.
const LEAST_WEIGHT: f64 = 0.05;

fn integers(column: &Column) -> &[u64] {
    let Column::Integer(values) = column else { unreachable!("the column has integers") };
    values
}

fn floats(column: &Column) -> &[f64] {
    let Column::Float(values) = column else { unreachable!("the column has measured values") };
    values
}

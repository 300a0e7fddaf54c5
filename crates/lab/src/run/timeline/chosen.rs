//! Choice of what a timeline shows, by a run of its own.

use super::TimelineRequest;
use super::recorder::SampledConnection;
use crate::{Column, Plan, Table, TableName, run_one};
use catnip_base::{Span, Time};
use catnip_sim::Memory;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Largest number of links and of connections that are chosen.
const MOST_LINKS: usize = 4;
const MOST_CONNECTIONS: usize = 6;
/// Share of the weight of the link that matters most from which on another link is shown.
const LEAST_WEIGHT: f64 = 0.05;
/// Share of what the connection that sends most does from which on another one is large, and the share of the run that is its start.
const LARGE: f64 = 0.8;
const START: f64 = 0.05;
/// Share of a run below which a large connection is short, and the share of the connection's time that is shown before and after it.
const SHORT: f64 = 0.05;
const AROUND: f64 = 0.5;

/// Links, connections and time that are shown.
#[derive(Debug)]
pub(super) struct Chosen {
    /// Indices in [`Plan::ports`].
    pub(super) links: Vec<usize>,
    pub(super) connections: Vec<SampledConnection>,
    pub(super) range: (Time, Time),
}

impl Chosen {
    /// Chooses the links at which packets wait longest and are dropped, the time and, unless they are asked for, the connections that
    /// send most in this time, in turn from each traffic group.
    pub(super) fn of(
        plan: &Plan,
        request: &TimelineRequest,
        should_continue: &mut dyn FnMut() -> bool,
    ) -> Option<Self> {
        let needed = [TableName::RUNS, TableName::CONNECTIONS, TableName::PORTS];
        let brief = request.range.filter(|_| request.is_brief);
        let end = brief.map_or(plan.duration(), |(_, until)| until.max(plan.warm_up() + Span::from_nanos(1)));
        let run = &plan.until(end);
        let tables = run_one(run, request.seed, &needed, None, should_continue, &mut Memory::default())?;
        let end_s = tables[&TableName::RUNS].floats("end_s")[0];
        let connections = Connections::of(&tables[&TableName::CONNECTIONS], end_s);
        let range_s = match request.range {
            Some((from, until)) => (from.as_secs(), until.as_secs().max(from.as_secs())),
            None => connections.usual_range_s(end_s),
        };
        // A brief run ends before the others would.
        let last_s = if brief.is_some() { f64::INFINITY } else { end_s };
        let at = |at_s: f64| Time::ZERO + Span::from_secs_f64(at_s.clamp(0.0, last_s));
        let shown = match &request.connections {
            Some(numbers) => connections.numbered(numbers),
            None => connections.largest_of_each_group(range_s),
        };
        let links = busiest_links(&tables[&TableName::PORTS]);
        Some(Self { links, connections: shown, range: (at(range_s.0), at(range_s.1)) })
    }
}

/// Returns the indices of the links at which packets wait longest and are dropped, in ascending order.
fn busiest_links(ports: &Table) -> Vec<usize> {
    let [high, med, low, delivered] =
        ["dropped_high", "dropped_med", "dropped_low", "delivered"].map(|name| ports.integers(name));
    let delays_s = ports.floats("queue_delay_mean_s");
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
    links
}

/// Connections of a run.
struct Connections<'a> {
    numbers: &'a [u64],
    groups: Vec<&'a str>,
    clients: &'a [u64],
    sent: &'a [u64],
    /// Time at which each was opened, and at which it was over; one that is not over is open until the end of the run.
    open_s: Vec<(f64, f64)>,
}

impl<'a> Connections<'a> {
    fn of(table: &'a Table, end_s: f64) -> Self {
        let Column::Text(groups) = table.column("group") else { unreachable!("groups have names") };
        let open_s = table.floats("start_s").iter().zip(table.floats("acked_s"));
        Self {
            numbers: table.integers("connection"),
            groups: groups.iter().collect(),
            clients: table.integers("client"),
            sent: table.integers("sent"),
            open_s: open_s.map(|(&start_s, &over_s)| (start_s, over_s.min(end_s))).collect(),
        }
    }

    /// Returns the whole run or, if its largest connections are short, the time around the first of them after the start of the run, as what
    /// comes before it has to be run, too.
    fn usual_range_s(&self, end_s: f64) -> (f64, f64) {
        let most = self.sent.iter().copied().max().unwrap_or(0) as f64;
        let large = (0..self.sent.len()).filter(|&row| self.sent[row] as f64 >= LARGE * most);
        let mut open_s: Vec<(f64, f64)> = large.map(|row| self.open_s[row]).collect();
        open_s.sort_by(|one, other| one.0.total_cmp(&other.0));
        let late = open_s.iter().find(|(start_s, _)| *start_s >= START * end_s);
        let (start_s, over_s) = late.or(open_s.first()).copied().unwrap_or((0.0, end_s));
        let around_s = AROUND * (over_s - start_s);
        if over_s - start_s < SHORT * end_s { (start_s - around_s, over_s + around_s) } else { (0.0, end_s) }
    }

    fn numbered(&self, numbers: &[u64]) -> Vec<SampledConnection> {
        let rows = numbers.iter().filter_map(|number| self.numbers.iter().position(|other| other == number));
        rows.map(|row| self.row(row)).collect()
    }

    /// Returns the connections that send most of those that are open in this time, in turn from each group.
    fn largest_of_each_group(&self, range_s: (f64, f64)) -> Vec<SampledConnection> {
        let mut by_group: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (row, (start_s, over_s)) in self.open_s.iter().enumerate() {
            if *start_s <= range_s.1 && *over_s >= range_s.0 {
                by_group.entry(self.groups[row]).or_default().push(row);
            }
        }
        let mut ranked: Vec<(usize, usize)> = Vec::new();
        for rows in by_group.values_mut() {
            rows.sort_by_key(|&row| Reverse(self.sent[row]));
            ranked.extend(rows.iter().take(MOST_CONNECTIONS).copied().enumerate());
        }
        ranked.sort_by_key(|&(rank, row)| (rank, Reverse(self.sent[row])));
        ranked.truncate(MOST_CONNECTIONS);
        ranked.into_iter().map(|(_, row)| self.row(row)).collect()
    }

    fn row(&self, row: usize) -> SampledConnection {
        SampledConnection {
            number: self.numbers[row],
            group: self.groups[row].to_string(),
            client: self.clients[row],
        }
    }
}

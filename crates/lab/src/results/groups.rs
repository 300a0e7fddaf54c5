//! Results of the traffic groups of a run: sums over their users, and the single transfers that the users wait for.

use crate::Plan;
use crate::results::rows::{ConnectionRow, GroupRow, TransferRow, Unit};
use catnip_base::{Span, Time};
use catnip_net::{PortCounters, PortId};
use catnip_sim::record::ConnectionRecord;
use catnip_sim::{Event, Handler, Watch, World};
use std::collections::BTreeMap;

/// Counts of a run at the end of its warm-up, which are subtracted from the final counts.
#[derive(Clone, Debug)]
pub struct WarmUp {
    /// Time at which the warm-up ended.
    pub end: Time,
    ports: Vec<PortCounters>,
    open: BTreeMap<u64, (ConnectionRecord, u64)>,
}

impl WarmUp {
    /// Returns the counts of a world at its present time, at which all events of the warm-up must have been executed.
    pub fn of<M: Handler, W: Watch>(world: &mut World<M, W>) -> Self {
        world.catch_up();
        let ports = (0..world.fabric().ports() as u32).map(|id| world.fabric().counters(PortId(id)));
        let mut snapshot = Self { end: world.advanced_to(), ports: ports.collect(), open: BTreeMap::new() };
        world.unfinished_connections(&mut |event, delivered| {
            if let Event::Connection(it) = event {
                snapshot.open.insert(it.connection, (it, delivered));
            }
        });
        snapshot
    }

    /// Returns the counts of a port since the end of the warm-up, from its final counts.
    pub(crate) fn since(&self, port: PortId, counters: &PortCounters) -> PortCounters {
        counters.since(&self.ports[port.0 as usize])
    }
}

/// Rows of the traffic groups of a run, and of the transfers that their users wait for.
pub(crate) struct Groups<'a> {
    pub(crate) groups: Vec<GroupRow<'a>>,
    pub(crate) transfers: Vec<TransferRow<'a>>,
}

impl<'a> Groups<'a> {
    /// Computes the rows of a run that ended at `end` from its connections and from the activities that are transfers.
    pub(crate) fn of(
        plan: &'a Plan,
        warm_up: Option<&WarmUp>,
        end: Time,
        activities: Vec<TransferRow<'a>>,
        connections: &[ConnectionRow<'a>],
    ) -> Self {
        let start = warm_up.map_or(Time::ZERO, |it| it.end);
        let mut rows = Self { groups: empty_rows(plan, end.since(start)), transfers: Vec::new() };
        let over_connections = connections.iter().map(|it| {
            let ConnectionRecord { app, connection, opened, acked, .. } = it.record;
            TransferRow::new(Unit::TRANSFER, it.group, app, connection, opened..acked, end)
        });
        for transfer in activities.into_iter().chain(over_connections) {
            let group = rows.groups.iter_mut().find(|it| it.group == transfer.group);
            let Some(group) = group.filter(|it| it.unit == transfer.unit && transfer.start >= start) else {
                continue;
            };
            group.started += 1;
            group.finished += u64::from(transfer.end < Time::NEVER);
            rows.transfers.push(transfer);
        }
        let mut received = vec![0.0; plan.users()];
        for it in connections {
            let record = &it.record;
            if record.acked < start {
                continue;
            }
            let before = warm_up.and_then(|it| it.open.get(&record.connection));
            let (before, delivered_before) =
                before.map_or((ConnectionRecord::none(), 0), |&(before, received)| (before, received));
            let delivered = it.delivered.saturating_sub(delivered_before);
            if let Some(user) = received.get_mut(record.app as usize) {
                *user += delivered as f64;
            }
            if let Some(group) = rows.groups.iter_mut().find(|group| group.group == it.group) {
                group.connections += 1;
                group.delivered_bytes += delivered;
                group.sent += u64::from(record.sent - before.sent);
                group.retransmitted += u64::from(record.retransmitted - before.retransmitted);
                group.timeouts += u64::from(record.timeouts - before.timeouts);
                group.dropped += u64::from(record.dropped - before.dropped);
                group.rtt_samples += u64::from(record.rtt_samples - before.rtt_samples);
                group.rtt_sum += record.rtt_sum.saturating_sub(before.rtt_sum);
            }
        }
        for group in &mut rows.groups {
            let traffic = plan.traffic().iter().filter(|traffic| traffic.name == group.group);
            let users = traffic.flat_map(|traffic| &traffic.users).map(|&user| received[user as usize]);
            group.fairness = jain(users);
        }
        rows
    }
}

fn empty_rows(plan: &Plan, measured: Span) -> Vec<GroupRow<'_>> {
    let mut groups: Vec<GroupRow<'_>> = Vec::new();
    for traffic in plan.traffic().iter().filter(|it| it.measured && !it.workload.is_datagrams()) {
        if groups.iter().all(|group| group.group != traffic.name) {
            // External clients report no pages or keystrokes, so each of their connections is a transfer.
            let unit = if traffic.users.is_empty() { Unit::TRANSFER } else { traffic.workload.unit() };
            groups.push(GroupRow::empty(&traffic.name, unit, measured));
        }
    }
    groups
}

/// Returns Jain's fairness index of the numbers of bytes that the users received, from 1 / n for n users to 1 (Jain, Chiu and Hawe 1984,
/// equation 1); NaN for fewer than two users, and if no user received any bytes.
fn jain(received: impl Iterator<Item = f64>) -> f64 {
    let (count, sum, squares) = received
        .fold((0.0, 0.0, 0.0), |(count, sum, squares), it| (count + 1.0, sum + it, squares + it * it));
    if count < 2.0 { f64::NAN } else { sum * sum / (count * squares) }
}

//! How the groups of traffic fare in a run: sums over all that their users do, and what these wait for, one by one.

use crate::Plan;
use crate::results::rows::{ConnectionRow, EchoRow, GroupRow, PageRow, TransferRow, Unit};
use catnip_base::{Span, Time};
use catnip_net::{PortCounters, PortId};
use catnip_sim::record::ConnectionRecord;
use catnip_sim::{Event, Handler, Watch, World};
use std::collections::BTreeMap;

/// What a run has come to at the end of its warm-up: what was counted before it does not count.
#[derive(Clone, Debug)]
pub struct WarmUp {
    /// When it ends.
    pub end: Time,
    ports: Vec<PortCounters>,
    open: BTreeMap<u64, (ConnectionRecord, u64)>,
}

impl WarmUp {
    /// Looks at a world in which everything up to now has happened.
    pub fn of<M: Handler, W: Watch>(world: &mut World<M, W>) -> Self {
        world.catch_up();
        let ports = (0..world.fabric().ports() as u32).map(|id| world.fabric().counters(PortId(id)));
        let mut made = Self { end: world.told(), ports: ports.collect(), open: BTreeMap::new() };
        world.unfinished(&mut |event, delivered| {
            if let Event::Connection(it) = event {
                made.open.insert(it.connection, (it, delivered));
            }
        });
        made
    }

    /// What a port has counted since.
    pub(crate) fn since(&self, port: PortId, counters: &PortCounters) -> PortCounters {
        counters.since(&self.ports[port.0 as usize])
    }
}

/// The rows of a run's groups of traffic, and of what their users wait for.
pub(crate) struct Groups<'a> {
    pub(crate) groups: Vec<GroupRow<'a>>,
    pub(crate) transfers: Vec<TransferRow<'a>>,
}

impl<'a> Groups<'a> {
    /// Of a run that has ended, from the rows of its other tables.
    pub(crate) fn of(
        plan: &'a Plan,
        warm_up: Option<&WarmUp>,
        end: Time,
        pages: &[PageRow<'a>],
        echoes: &[EchoRow<'a>],
        connections: &[ConnectionRow<'a>],
    ) -> Self {
        let start = warm_up.map_or(Time::ZERO, |it| it.end);
        let mut made = Self { groups: begin(plan, end.since(start)), transfers: Vec::new() };
        let waits = |unit, group, client, number, start: Time, end_of: Time| {
            let until = if end_of == Time::NEVER { end } else { end_of };
            TransferRow { group, unit, client, number, start, end: end_of, waited: until.since(start) }
        };
        let over_pages = pages.iter().map(|it| {
            let number = u64::from(it.record.page) + 1;
            waits(Unit::Page, it.group, it.record.app, number, it.record.start, it.end)
        });
        let over_echoes = echoes.iter().map(|it| {
            waits(Unit::Keystroke, it.group, it.record.app, it.record.number, it.record.start, it.end)
        });
        let over_connections = connections.iter().map(|it| {
            let record = &it.record;
            waits(Unit::Transfer, it.group, record.app, record.connection, record.opened, record.acked)
        });
        for transfer in over_pages.chain(over_echoes).chain(over_connections) {
            let group = made.groups.iter_mut().find(|it| it.group == transfer.group);
            let Some(group) = group.filter(|it| it.unit == transfer.unit && transfer.start >= start) else {
                continue;
            };
            group.started += 1;
            group.finished += u64::from(transfer.end < Time::NEVER);
            made.transfers.push(transfer);
        }
        let mut got = vec![0.0; plan.users()];
        for it in connections {
            let record = &it.record;
            if record.acked < start {
                continue;
            }
            let before = warm_up.and_then(|it| it.open.get(&record.connection));
            let (then, delivered_then) =
                before.map_or((ConnectionRecord::none(), 0), |&(then, got)| (then, got));
            let delivered = it.delivered.saturating_sub(delivered_then);
            if let Some(user) = got.get_mut(record.app as usize) {
                *user += delivered as f64;
            }
            if let Some(group) = made.groups.iter_mut().find(|group| group.group == it.group) {
                group.connections += 1;
                group.delivered_bytes += delivered;
                group.sent += u64::from(record.sent - then.sent);
                group.retransmitted += u64::from(record.retransmitted - then.retransmitted);
                group.timeouts += u64::from(record.timeouts - then.timeouts);
                group.dropped += u64::from(record.dropped - then.dropped);
                group.rtt_samples += u64::from(record.rtt_samples - then.rtt_samples);
                group.rtt_sum += record.rtt_sum.saturating_sub(then.rtt_sum);
            }
        }
        for group in &mut made.groups {
            let traffic = plan.traffic().iter().filter(|traffic| traffic.name == group.group);
            let users = traffic.flat_map(|traffic| &traffic.users).map(|&user| got[user as usize]);
            group.fairness = jain(users);
        }
        made
    }
}

fn begin(plan: &Plan, measured: Span) -> Vec<GroupRow<'_>> {
    let mut groups: Vec<GroupRow<'_>> = Vec::new();
    for traffic in plan.traffic().iter().filter(|it| it.measured && !it.workload.is_datagrams()) {
        if groups.iter().all(|group| group.group != traffic.name) {
            // Of real clients nothing is known but their connections.
            let unit = if traffic.users.is_empty() { Unit::Transfer } else { traffic.workload.unit() };
            groups.push(GroupRow::nothing(&traffic.name, unit, measured));
        }
    }
    groups
}

/// Jain's index of fairness, from 1 / their number to 1 (Jain, Chiu and Hawe 1984, equation 1); NaN of fewer than two users, and if
/// nobody got anything.
fn jain(got: impl Iterator<Item = f64>) -> f64 {
    let (count, sum, squares) =
        got.fold((0.0, 0.0, 0.0), |(count, sum, squares), it| (count + 1.0, sum + it, squares + it * it));
    if count < 2.0 { f64::NAN } else { sum * sum / (count * squares) }
}

use crate::results::activities::{Activities, ActivityKind, RunContext};
use crate::results::groups::{Groups, WarmUp};
use crate::results::rows::{
    BurstRow, ConnectionRow, DatagramRow, EmulatorStats, PortRow, Run, RunRow, TableName,
};
use crate::traffic::activity_kinds;
use crate::{Bursts, Plan, Tables};
use catnip_base::Time;
use catnip_net::PortId;
use catnip_sim::record::{Activity, ConnectionRecord, NO_APP, Reply};
use catnip_sim::{Event, Handler, Watch, World};
use std::collections::BTreeMap;

/// Records of the activities and connections of a run, as needed for the requested tables. Events of packets are not recorded.
#[derive(Debug)]
pub struct Records {
    activities: Vec<Box<dyn Activities>>,
    connections: Option<Vec<(ConnectionRecord, Option<Reply>)>>,
    /// True if the tables of groups or transfers are requested, which are computed from these records.
    has_groups: bool,
    /// Combined responses so far over each open connection with an external host, by number of the connection.
    replies: BTreeMap<u64, Reply>,
    /// Most recent response. The next activity describes it if the application and the tag match.
    last_reply: Option<Reply>,
}

impl Records {
    /// Creates empty records of the activities and connections that `tables` need.
    pub fn new(tables: &[TableName]) -> Self {
        let has_groups = tables.contains(&TableName::GROUPS) || tables.contains(&TableName::TRANSFERS);
        let series = tables.contains(&TableName::CONNECTION_SERIES);
        let is_needed = |table: TableName| tables.contains(&table) || (has_groups && table.unit().is_some());
        Self {
            activities: activity_kinds()
                .filter(|kind| is_needed(kind.table()))
                .map(ActivityKind::new_list)
                .collect(),
            connections: (has_groups || series || tables.contains(&TableName::CONNECTIONS)).then(Vec::new),
            has_groups,
            replies: BTreeMap::new(),
            last_reply: None,
        }
    }

    /// Adds a list for activities of `kind`, which no kind of traffic declares, such as the activities of a custom application.
    pub fn with(mut self, kind: ActivityKind) -> Self {
        self.activities.push(kind.new_list());
        self
    }

    /// Returns the connections that have ended, in the order in which they ended, from index `first` on. Empty if no table needs
    /// connections.
    pub(crate) fn ended_from(&self, first: usize) -> &[(ConnectionRecord, Option<Reply>)] {
        self.connections.as_ref().map_or(&[], |connections| &connections[first..])
    }

    /// Adds the rows of the run `run`, executed in `world`, to all tables except the tables of bursts, events and time series.
    pub fn fill<M: Handler, W: Watch>(
        &self,
        tables: &mut Tables,
        run: Run,
        plan: &Plan,
        world: &World<M, W>,
        warm_up: Option<&WarmUp>,
        emulator: Option<EmulatorStats>,
    ) {
        let start = warm_up.map_or(Time::ZERO, |it| it.end);
        let run_row = || {
            let warm_up = start.since(Time::ZERO);
            let ports = 0..plan.topology().ports().len() as u32;
            let hops = ports.map(|port| world.fabric().counters(PortId(port)).delivered).sum();
            let open = world.packets_out() as u64;
            RunRow { end: world.now(), warm_up, tally: world.tally(), open, hops, emulator }
        };
        tables.extend(run, std::iter::once_with(run_row));
        let context = RunContext { group_of: &|app| plan.measured_group(app), end: world.now() };
        let mut transfers = Vec::new();
        let mut unfinished: Vec<_> = self.activities.iter().map(|list| list.new_list()).collect();
        world.unfinished_activities(&mut |activity, delivered| {
            unfinished.iter_mut().for_each(|list| list.push(activity, Time::NEVER, Some(delivered), None));
        });
        for (ended, unfinished) in self.activities.iter().zip(&unfinished) {
            ended.fill(tables, run, &context, &mut transfers);
            unfinished.fill(tables, run, &context, &mut transfers);
        }
        let mut open = Vec::new();
        let mut replies = self.replies.clone();
        world.unfinished_connections(&mut |event, delivered| match event {
            Event::Reply(reply) => {
                replies.insert(reply.connection, reply);
            }
            Event::Connection(it) => open.push((it, replies.get(&it.connection).copied(), delivered)),
            _ => {}
        });
        let ended = self.ended_from(0).iter().map(|&(connection, reply)| {
            // All requested bytes have arrived, unless an external server closed the connection early.
            (connection, reply, reply.map_or(connection.bytes, |reply| reply.body_bytes))
        });
        let connections = ended.chain(open.into_iter().filter(|_| self.connections.is_some()));
        let connections =
            connections.filter(|(connection, ..)| plan.measured_group(connection.app).is_some());
        let connections: Vec<_> = connections
            .map(|(record, reply, delivered)| {
                let group = match reply {
                    // An external client belongs to the traffic group of the server that it contacts.
                    Some(reply) if record.app == NO_APP => {
                        plan.groups().nth(reply.tcp.0 as usize).map_or("", |group| group.name)
                    }
                    None if record.app == NO_APP => "",
                    _ => plan.group_of(record.app),
                };
                ConnectionRow { group, record, reply, delivered }
            })
            .collect();
        if self.has_groups {
            let rows = Groups::of(plan, warm_up, world.now(), transfers, &connections);
            tables.extend(run, rows.groups);
            tables.extend(run, rows.transfers);
        }
        tables.extend(run, connections);
        let measured = world.now().since(start);
        let ports = plan.ports().iter().map(|named| {
            let rate = |id: &PortId| &plan.topology().ports()[id.0 as usize].wire.rate;
            let capacity_bits = named.ids.iter().map(|id| rate(id).capacity_bits(start, world.now())).sum();
            let counted = |&id: &PortId| {
                let counters = world.fabric().counters(id);
                warm_up.map_or(counters.clone(), |it| it.since(id, &counters))
            };
            let counters = named.ids.iter().map(counted).sum();
            PortRow { name: &named.name, links: named.ids.len() as u64, counters, capacity_bits, measured }
        });
        tables.extend(run, ports);
        let sources = plan.sources().map(|(source, flow)| DatagramRow {
            group: plan.group_of(source),
            source,
            counters: world.datagrams(flow),
        });
        tables.extend(run, sources);
    }
}

impl Bursts {
    /// Adds the rows of the bursts in a run of this plan.
    pub fn fill(&self, tables: &mut Tables, run: Run, plan: &Plan) {
        let rows = self.finished().iter().chain(self.unfinished()).filter_map(|burst| {
            let group = plan.traffic().get(burst.tcp.0 as usize).filter(|group| group.measured)?;
            Some(BurstRow { group: &group.name, burst })
        });
        tables.extend(run, rows);
    }
}

/// Combines two responses over a connection. Status and hash are taken from the first response if it is incomplete, otherwise from the
/// second response.
fn merge_replies(before: &Reply, now: &Reply) -> Reply {
    let Reply { status, digest, .. } = if before.complete { *now } else { *before };
    let body_bytes = before.body_bytes + now.body_bytes;
    Reply { status, digest, body_bytes, complete: before.complete && now.complete, ..*now }
}

impl Watch for Records {
    const PACKETS: bool = false;
    fn record(&mut self, _now: Time, event: &Event) {
        match event {
            Event::Connection(connection) => {
                let reply = self.replies.remove(&connection.connection);
                self.connections.iter_mut().for_each(|all| all.push((*connection, reply)));
            }
            Event::Reply(reply) => {
                self.last_reply = Some(*reply);
                let all = self.replies.entry(reply.connection);
                all.and_modify(|all| *all = merge_replies(all, reply)).or_insert(*reply);
            }
            Event::Sent(_) | Event::Acked(_) | Event::Timeout(_) => {}
            Event::Dropped { .. } | Event::Datagram { .. } => {}
        }
    }

    fn activity(&mut self, now: Time, activity: &dyn Activity) {
        self.activities.iter_mut().for_each(|list| list.push(activity, now, None, self.last_reply));
    }
}

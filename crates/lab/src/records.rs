use crate::rows::{
    BurstRow, ConnectionRow, DatagramRow, EchoRow, ObjectRow, PageRow, PortRow, RealTime, Run, RunRow,
    TableName,
};
use crate::{Bursts, Plan, Tables};
use catnip_base::Time;
use catnip_net::PortId;
use catnip_sim::record::{ConnectionRecord, EchoRecord, NOBODY, ObjectRecord, PageRecord, Reply};
use catnip_sim::{Event, Handler, Watch, World};
use std::collections::BTreeMap;

/// What a run tells of pages, objects and connections, kept if there are tables for it. Hears of no packets.
#[derive(Debug)]
pub struct Records {
    pages: Option<Vec<(Time, PageRecord)>>,
    objects: Option<Vec<(Time, ObjectRecord, Option<Reply>)>>,
    connections: Option<Vec<(ConnectionRecord, Option<Reply>)>>,
    echoes: Option<Vec<(Time, EchoRecord)>>,
    /// Of connections that are not over: what has come over each so far.
    replies: BTreeMap<u64, Reply>,
    /// What came last.
    last: Option<Reply>,
}

impl Records {
    /// For these tables.
    pub fn new(tables: &[TableName]) -> Self {
        Self {
            pages: tables.contains(&TableName::Pages).then(Vec::new),
            objects: tables.contains(&TableName::Objects).then(Vec::new),
            connections: tables.contains(&TableName::Connections).then(Vec::new),
            echoes: tables.contains(&TableName::Echoes).then(Vec::new),
            replies: BTreeMap::new(),
            last: None,
        }
    }

    /// Adds the rows of this world's run to all tables but that of events.
    pub fn fill<M: Handler, W: Watch>(
        &self,
        tables: &mut Tables,
        run: Run,
        plan: &Plan,
        world: &World<M, W>,
        real: Option<RealTime>,
    ) {
        let whole = || {
            let ports = 0..plan.topology().ports().len() as u32;
            let hops = ports.map(|port| world.fabric().counters(PortId(port)).delivered).sum();
            let open = world.packets_out() as u64;
            RunRow { end: world.now(), tally: world.tally(), open, hops, real }
        };
        tables.extend(run, std::iter::once_with(whole));
        let is_measured = Measured::of(plan);
        let pages = self.pages.iter().flatten().filter(|(_, page)| is_measured.app(page.app));
        tables.extend(
            run,
            pages.map(|(end, record)| PageRow { group: plan.group_of(record.app), end: *end, record }),
        );
        let objects = self.objects.iter().flatten().filter(|(_, object, _)| is_measured.app(object.app));
        tables
            .extend(run, objects.map(|(end, record, reply)| ObjectRow { end: *end, record, reply: *reply }));
        let connections = self.connections.iter().flatten().filter(|(it, _)| is_measured.app(it.app));
        tables.extend(
            run,
            connections.map(|(record, reply)| {
                let group = match reply {
                    // A real client belongs to the group that it asks.
                    Some(reply) if record.app == NOBODY => {
                        plan.groups().nth(reply.tcp.0 as usize).map_or("", |group| group.name)
                    }
                    None if record.app == NOBODY => "",
                    _ => plan.group_of(record.app),
                };
                ConnectionRow { group, record, reply: *reply }
            }),
        );
        let echoes = self.echoes.iter().flatten().filter(|(_, echo)| is_measured.app(echo.app));
        tables.extend(
            run,
            echoes.map(|(end, record)| EchoRow { group: plan.group_of(record.app), end: *end, record }),
        );
        let ports = plan.ports().iter().map(|(name, id)| {
            let rate = plan.topology().ports()[id.0 as usize].wire.rate.mean();
            let bits_per_s = rate.map_or(f64::INFINITY, |rate| rate.bits_per_second() as f64);
            let capacity_bits = bits_per_s * world.now().as_secs();
            PortRow { name, counters: world.fabric().counters(*id), capacity_bits }
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
    /// Adds the rows of a run of this plan.
    pub fn fill(&self, tables: &mut Tables, run: Run, plan: &Plan) {
        let rows = self.over().iter().filter_map(|burst| {
            let group = plan.traffic().get(burst.tcp.0 as usize).filter(|group| group.measured)?;
            Some(BurstRow { group: &group.name, burst })
        });
        tables.extend(run, rows);
    }
}

/// Which applications have rows.
struct Measured(Vec<bool>);

impl Measured {
    fn of(plan: &Plan) -> Self {
        let groups = plan.traffic().iter();
        Self(groups.flat_map(|group| group.users.iter().map(|_| group.measured)).collect())
    }

    fn app(&self, app: u32) -> bool {
        self.0.get(app as usize).copied().unwrap_or(true)
    }
}

/// What has come over a connection with both: the status of the first that did not come, or of the last.
fn both(before: &Reply, now: &Reply) -> Reply {
    let Reply { status, digest, .. } = if before.whole { *now } else { *before };
    let body_bytes = before.body_bytes + now.body_bytes;
    Reply { status, digest, body_bytes, whole: before.whole && now.whole, ..*now }
}

impl Watch for Records {
    const PACKETS: bool = false;
    fn record(&mut self, now: Time, event: &Event) {
        match event {
            Event::Page(page) => self.pages.iter_mut().for_each(|pages| pages.push((now, *page))),
            Event::Object(object) => {
                let tag = u64::from(object.page) << 32 | u64::from(object.object);
                let answers = |reply: &Reply| reply.app == object.app && reply.tag == tag;
                let reply = self.last.filter(answers);
                self.objects.iter_mut().for_each(|objects| objects.push((now, *object, reply)));
            }
            Event::Connection(connection) => {
                let reply = self.replies.remove(&connection.connection);
                self.connections.iter_mut().for_each(|all| all.push((*connection, reply)));
            }
            Event::Reply(reply) => {
                self.last = Some(*reply);
                let all = self.replies.entry(reply.connection);
                all.and_modify(|all| *all = both(all, reply)).or_insert(*reply);
            }
            Event::Sent(_) | Event::Acked(_) | Event::Timeout(_) => {}
            Event::Dropped { .. } | Event::Datagram { .. } => {}
            Event::Echo(echo) => self.echoes.iter_mut().for_each(|echoes| echoes.push((now, *echo))),
        }
    }
}

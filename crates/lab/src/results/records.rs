use crate::results::groups::{Groups, WarmUp};
use crate::results::rows::{
    BurstRow, ConnectionRow, DatagramRow, EchoRow, ObjectRow, PageRow, PortRow, RealTime, Run, RunRow,
    TableName,
};
use crate::{Bursts, Plan, Tables};
use catnip_base::Time;
use catnip_net::PortId;
use catnip_sim::record::{ConnectionRecord, EchoRecord, NO_APP, ObjectRecord, PageRecord, Reply};
use catnip_sim::{Event, Handler, Watch, World};
use std::collections::BTreeMap;

/// Records of the pages, objects, connections and keystrokes of a run, as far as tables need them. Events of packets are not recorded.
#[derive(Debug)]
pub struct Records {
    pages: Option<Vec<(Time, PageRecord)>>,
    objects: Option<Vec<(Time, ObjectRecord, Option<Reply>)>>,
    connections: Option<Vec<(ConnectionRecord, Option<Reply>)>>,
    echoes: Option<Vec<(Time, EchoRecord)>>,
    /// True if the tables of groups or transfers are requested, which are computed from these records.
    sums: bool,
    /// Combined responses so far over each open connection with an external host, by number of the connection.
    replies: BTreeMap<u64, Reply>,
    /// Most recent response. The next event of an object refers to it if the application and the tag match.
    last: Option<Reply>,
}

impl Records {
    /// Creates the records that these tables need.
    pub fn new(tables: &[TableName]) -> Self {
        let series = tables.contains(&TableName::ConnectionSeries);
        let sums = tables.contains(&TableName::Groups) || tables.contains(&TableName::Transfers);
        Self {
            pages: (sums || tables.contains(&TableName::Pages)).then(Vec::new),
            objects: tables.contains(&TableName::Objects).then(Vec::new),
            connections: (sums || series || tables.contains(&TableName::Connections)).then(Vec::new),
            echoes: (sums || tables.contains(&TableName::Echoes)).then(Vec::new),
            sums,
            replies: BTreeMap::new(),
            last: None,
        }
    }

    /// Returns the connections that are over, in the order in which they ended, from index `first`; none unless a table needs them.
    pub(crate) fn ended_from(&self, first: usize) -> &[(ConnectionRecord, Option<Reply>)] {
        self.connections.as_ref().map_or(&[], |connections| &connections[first..])
    }

    /// Adds the rows of the run of this world to all tables except those of bursts, events and time series.
    pub fn fill<M: Handler, W: Watch>(
        &self,
        tables: &mut Tables,
        run: Run,
        plan: &Plan,
        world: &World<M, W>,
        warm_up: Option<&WarmUp>,
        real: Option<RealTime>,
    ) {
        let start = warm_up.map_or(Time::ZERO, |it| it.end);
        let whole = || {
            let warm_up = start.since(Time::ZERO);
            let ports = 0..plan.topology().ports().len() as u32;
            let hops = ports.map(|port| world.fabric().counters(PortId(port)).delivered).sum();
            let open = world.packets_out() as u64;
            RunRow { end: world.now(), warm_up, tally: world.tally(), open, hops, real }
        };
        tables.extend(run, std::iter::once_with(whole));
        let is_measured = Measured::of(plan);
        let mut open = Vec::new();
        let mut replies = self.replies.clone();
        world.unfinished(&mut |event, delivered| match event {
            Event::Reply(reply) => {
                replies.insert(reply.connection, reply);
            }
            _ => open.push((event, delivered)),
        });
        let group = |app| plan.group_of(app);
        let pages = both(
            &self.pages,
            &open,
            |&(end, page)| (end, page, page.bytes),
            |event, delivered| match event {
                Event::Page(page) => Some((Time::NEVER, page, delivered)),
                _ => None,
            },
        );
        let pages = pages.filter(|(_, page, _)| is_measured.app(page.app));
        let pages: Vec<_> = pages
            .map(|(end, record, delivered)| PageRow { group: group(record.app), end, record, delivered })
            .collect();
        let objects = both(
            &self.objects,
            &open,
            |&(end, object, reply)| (end, object, reply, came(&reply, object.bytes)),
            |event, delivered| match event {
                Event::Object(object) => Some((Time::NEVER, object, None, delivered)),
                _ => None,
            },
        );
        let objects = objects.filter(|(_, object, ..)| is_measured.app(object.app));
        tables.extend(
            run,
            objects.map(|(end, record, reply, delivered)| ObjectRow {
                group: group(record.app),
                end,
                record,
                reply,
                delivered,
            }),
        );
        let connections = both(
            &self.connections,
            &open,
            |&(connection, reply)| (connection, reply, came(&reply, connection.bytes)),
            |event, delivered| match event {
                Event::Connection(it) => Some((it, replies.get(&it.connection).copied(), delivered)),
                _ => None,
            },
        );
        let connections = connections.filter(|(connection, ..)| is_measured.app(connection.app));
        let connections: Vec<_> = connections
            .map(|(record, reply, delivered)| {
                let group = match reply {
                    // An external client belongs to the traffic group of the server that it contacts.
                    Some(reply) if record.app == NO_APP => {
                        plan.groups().nth(reply.tcp.0 as usize).map_or("", |group| group.name)
                    }
                    None if record.app == NO_APP => "",
                    _ => group(record.app),
                };
                ConnectionRow { group, record, reply, delivered }
            })
            .collect();
        let echoes = both(
            &self.echoes,
            &open,
            |&echo| echo,
            |event, _| match event {
                Event::Echo(echo) => Some((Time::NEVER, echo)),
                _ => None,
            },
        );
        let echoes = echoes.filter(|(_, echo)| is_measured.app(echo.app));
        let echoes: Vec<_> =
            echoes.map(|(end, record)| EchoRow { group: group(record.app), end, record }).collect();
        if self.sums {
            let made = Groups::of(plan, warm_up, world.now(), &pages, &echoes, &connections);
            tables.extend(run, made.groups);
            tables.extend(run, made.transfers);
        }
        tables.extend(run, pages);
        tables.extend(run, connections);
        tables.extend(run, echoes);
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
    /// Adds the rows of a run of this plan.
    pub fn fill(&self, tables: &mut Tables, run: Run, plan: &Plan) {
        let rows = self.over().iter().chain(self.unfinished()).filter_map(|burst| {
            let group = plan.traffic().get(burst.tcp.0 as usize).filter(|group| group.measured)?;
            Some(BurstRow { group: &group.name, burst })
        });
        tables.extend(run, rows);
    }
}

/// Flag of each application, by its number: true if the results have rows for its activity.
pub(crate) struct Measured(Vec<bool>);

impl Measured {
    pub(crate) fn of(plan: &Plan) -> Self {
        let groups = plan.traffic().iter();
        Self(groups.flat_map(|group| group.users.iter().map(|_| group.measured)).collect())
    }

    pub(crate) fn app(&self, app: u32) -> bool {
        self.0.get(app as usize).copied().unwrap_or(true)
    }
}

/// Returns the number of bytes of an ended transfer that have arrived: all requested bytes, unless an external server closed the connection
/// early.
fn came(reply: &Option<Reply>, bytes: u64) -> u64 {
    reply.map_or(bytes, |reply| reply.body_bytes)
}

/// Returns a row for each ended item of `kept`, followed by a row for each item of `open` that the end of the run has cut short. Returns no
/// rows if `kept` is `None`, since no table needs them.
fn both<'a, K, R>(
    kept: &'a Option<Vec<K>>,
    open: &'a [(Event, u64)],
    ended: impl Fn(&K) -> R + 'a,
    cut_short: impl Fn(Event, u64) -> Option<R> + 'a,
) -> impl Iterator<Item = R> + 'a {
    let open = kept
        .iter()
        .flat_map(move |_| open)
        .filter_map(move |&(event, delivered)| cut_short(event, delivered));
    kept.iter().flatten().map(ended).chain(open)
}

/// Combines two responses over a connection. Status and hash are those of the first incomplete response, or else of the last response.
fn joined(before: &Reply, now: &Reply) -> Reply {
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
                all.and_modify(|all| *all = joined(all, reply)).or_insert(*reply);
            }
            Event::Sent(_) | Event::Acked(_) | Event::Timeout(_) => {}
            Event::Dropped { .. } | Event::Datagram { .. } => {}
            Event::Echo(echo) => self.echoes.iter_mut().for_each(|echoes| echoes.push((now, *echo))),
        }
    }
}

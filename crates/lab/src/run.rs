use crate::{Column, InputError, Plan, Scenario, Table};
use catnip_base::Time;
use catnip_net::{DropReason, Priority};
use catnip_sim::record::{ConnectionRecord, ObjectRecord, PageRecord, SenderView};
use catnip_sim::{Event, Memory, Sim, Watch};
use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// The tables that a run can fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TableName {
    /// One row per run.
    Runs,
    /// One per page fetched.
    Pages,
    /// One per object fetched.
    Objects,
    /// One per connection.
    Connections,
    /// One per port of a named link.
    Ports,
    /// One per source of background traffic.
    Datagrams,
    /// One per packet sent, ACK received, drop and timeout of a connection.
    Events,
}

impl TableName {
    const ALL: [(&str, Self); 7] = [
        ("runs", Self::Runs),
        ("pages", Self::Pages),
        ("objects", Self::Objects),
        ("connections", Self::Connections),
        ("ports", Self::Ports),
        ("datagrams", Self::Datagrams),
        ("events", Self::Events),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, table)| *table == self).expect("every table is listed").0
    }
}

impl FromStr for TableName {
    type Err = InputError;
    fn from_str(text: &str) -> Result<Self, InputError> {
        Self::ALL.iter().find(|(name, _)| *name == text).map(|(_, table)| *table).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|(name, _)| *name).collect();
            InputError::new("", "tables", format!("{text:?}: expected one of {}", names.join(", ")))
        })
    }
}

/// Runs to do: every variant with every seed.
#[derive(Clone, Debug)]
pub struct RunRequest<'a> {
    /// Names of variants.
    pub variants: Vec<&'a str>,
    /// Seeds; the same seed gives the same users and pages to each variant.
    pub seeds: Vec<u64>,
    /// What to keep.
    pub tables: Vec<TableName>,
    /// Threads; 0: one per core.
    pub threads: usize,
}

/// Called with the number of finished runs, several times a second and when some are done; `false` stops.
pub type Progress<'a> = &'a mut dyn FnMut(usize) -> bool;

const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);
const BATCHES_PER_THREAD: usize = 50;
const LARGEST_BATCH: usize = 500;

type Tables = BTreeMap<TableName, Table>;

/// Does all runs over all cores. The tables are in order of variant and seed, whatever the threads did.
/// `None` if it was told to stop.
pub fn run_all(
    scenario: &Scenario,
    request: &RunRequest<'_>,
    progress: Progress<'_>,
) -> Result<Option<BTreeMap<TableName, Table>>, InputError> {
    let plans: Vec<&Plan> =
        request.variants.iter().map(|name| scenario.plan(name)).collect::<Result<_, _>>()?;
    let jobs: Vec<(usize, u64)> =
        (0..plans.len()).flat_map(|variant| request.seeds.iter().map(move |&seed| (variant, seed))).collect();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = if request.threads == 0 { cores } else { request.threads }.min(jobs.len()).max(1);
    // Short runs are handed out many at a time, or telling of them would take longer than doing them.
    let size = (jobs.len() / (threads * BATCHES_PER_THREAD)).clamp(1, LARGEST_BATCH);
    let batches: Vec<&[(usize, u64)]> = jobs.chunks(size).collect();
    let next = AtomicUsize::new(0);
    let mut results: Vec<Option<Tables>> = batches.iter().map(|_| None).collect();
    let mut finished = 0;
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for _ in 0..threads {
            let (sender, batches, plans, next) = (sender.clone(), &batches, &plans, &next);
            scope.spawn(move || {
                let mut memory = Memory::default();
                while let Some((number, batch)) = claim(next, batches) {
                    let mut tables = Tables::new();
                    for &(variant, seed) in *batch {
                        run_one(plans[variant], variant, seed, &request.tables, &mut memory, &mut tables);
                    }
                    if sender.send((number, tables)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        loop {
            match receiver.recv_timeout(PROGRESS_INTERVAL) {
                Ok((number, tables)) => {
                    results[number] = Some(tables);
                    finished += batches[number].len();
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
            if !progress(finished) {
                next.store(batches.len(), Ordering::Relaxed);
                break;
            }
        }
    });
    if finished < jobs.len() {
        return Ok(None);
    }
    let mut all: Tables = request.tables.iter().map(|&name| (name, Table::default())).collect();
    for (name, table) in results.into_iter().flatten().flatten() {
        all.get_mut(&name).expect("only tables asked for are made").append(table);
    }
    Ok(Some(all))
}

fn claim<'a, T>(next: &AtomicUsize, jobs: &'a [T]) -> Option<(usize, &'a T)> {
    let job = next.fetch_add(1, Ordering::Relaxed);
    jobs.get(job).map(|it| (job, it))
}

/// Adds the rows of one run.
fn run_one(
    plan: &Plan,
    variant: usize,
    seed: u64,
    wanted: &[TableName],
    memory: &mut Memory,
    tables: &mut Tables,
) {
    let kept = Kept {
        pages: wanted.contains(&TableName::Pages),
        objects: wanted.contains(&TableName::Objects),
        connections: wanted.contains(&TableName::Connections),
    };
    let rows = Rows { kept, ..Rows::default() };
    let before = std::mem::take(memory);
    if wanted.contains(&TableName::Events) {
        let sim = plan.run_in(seed, Detailed { rows, events: Vec::new() }, before);
        add_rows(plan, &sim, &sim.watch().rows, variant, seed, wanted, tables);
        let events = tables.entry(TableName::Events).or_default();
        add_events(&sim.watch().events, variant, seed, events);
        *memory = sim.into_memory();
    } else {
        let sim = plan.run_in(seed, rows, before);
        add_rows(plan, &sim, sim.watch(), variant, seed, wanted, tables);
        *memory = sim.into_memory();
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    pages: bool,
    objects: bool,
    connections: bool,
}

/// Keeps what pages, objects and connections tell; hears of no packets.
#[derive(Debug, Default)]
struct Rows {
    kept: Kept,
    pages: Vec<(Time, PageRecord)>,
    objects: Vec<(Time, ObjectRecord)>,
    connections: Vec<ConnectionRecord>,
}

impl Watch for Rows {
    const PACKETS: bool = false;
    fn record(&mut self, now: Time, event: &Event) {
        match event {
            Event::Page(page) if self.kept.pages => self.pages.push((now, *page)),
            Event::Object(object) if self.kept.objects => self.objects.push((now, *object)),
            Event::Connection(connection) if self.kept.connections => self.connections.push(*connection),
            _ => {}
        }
    }
}

/// Keeps everything.
#[derive(Debug)]
struct Detailed {
    rows: Rows,
    events: Vec<(Time, Event)>,
}

impl Watch for Detailed {
    const PACKETS: bool = true;
    fn record(&mut self, now: Time, event: &Event) {
        self.rows.record(now, event);
        self.events.push((now, *event));
    }
}

fn add_rows<R: Watch>(
    plan: &Plan,
    sim: &Sim<R>,
    rows: &Rows,
    variant: usize,
    seed: u64,
    wanted: &[TableName],
    tables: &mut Tables,
) {
    for &name in wanted {
        let table = tables.entry(name).or_default();
        let start = |table: &mut Table| {
            table.integer("variant", variant as u64).integer("seed", seed);
        };
        match name {
            TableName::Runs => {
                start(table);
                let tally = sim.tally();
                let hops: u64 = (0..plan.topology().ports().len())
                    .map(|p| sim.fabric().counters(catnip_net::PortId(p as u32)).delivered)
                    .sum();
                table
                    .float("end_s", sim.now().as_secs())
                    .integer("packets_sent", tally.data_sent)
                    .integer("packets_dropped", tally.data_dropped)
                    .integer("packets_open", sim.packets_out() as u64)
                    .integer("connections", tally.opened)
                    .integer("hops", hops);
            }
            TableName::Pages => {
                for (end, page) in &rows.pages {
                    start(table);
                    table
                        .text("group", plan.group_of(page.app))
                        .integer("client", page.app.into())
                        .integer("page", u64::from(page.page) + 1)
                        .float("start_s", page.start.as_secs())
                        .float("time_s", (*end - page.start).as_secs())
                        .integer("bytes", page.bytes)
                        .integer("connections", page.connections.into());
                }
            }
            TableName::Objects => {
                for (end, object) in &rows.objects {
                    start(table);
                    table
                        .integer("client", object.app.into())
                        .integer("page", u64::from(object.page) + 1)
                        .integer("object", object.object.into())
                        .integer("bytes", object.bytes)
                        .float("start_s", object.start.as_secs())
                        .float("time_s", (*end - object.start).as_secs());
                }
            }
            TableName::Connections => {
                for c in &rows.connections {
                    start(table);
                    table
                        .integer("connection", c.connection)
                        .text("group", plan.group_of(c.app))
                        .integer("client", c.app.into())
                        .integer("bytes", c.bytes)
                        .float("start_s", c.opened.as_secs())
                        .float("received_s", c.received.as_secs())
                        .float("acked_s", c.acked.as_secs())
                        .integer("sent", c.sent.into())
                        .integer("sent_high", c.sent_high.into())
                        .integer("retransmitted", c.retransmitted.into())
                        .integer("timeouts", c.timeouts.into())
                        .integer("fast_retransmits", c.fast_retransmits.into())
                        .integer("dropped", c.dropped.into());
                }
            }
            TableName::Ports => {
                for (port, id) in plan.ports() {
                    start(table);
                    let counters = sim.fabric().counters(*id);
                    let by_reason =
                        |why: DropReason| counters.dropped.iter().map(|of| of[why as usize]).sum::<u64>();
                    let rate = plan.topology().ports()[id.0 as usize].wire.rate.mean();
                    let bits_per_s = rate.map_or(f64::INFINITY, |rate| rate.bits_per_second() as f64);
                    let capacity = bits_per_s * sim.now().as_secs();
                    table
                        .text("port", port)
                        .integer("arrived_high", counters.arrived[Priority::High as usize])
                        .integer("arrived_low", counters.arrived[Priority::Low as usize])
                        .integer("dropped_high", counters.dropped_of(Priority::High))
                        .integer("dropped_low", counters.dropped_of(Priority::Low))
                        .integer("delivered", counters.delivered)
                        .integer("delivered_bytes", counters.delivered_bytes)
                        .float("utilization", counters.delivered_bytes as f64 * 8.0 / capacity);
                    for (why, name) in DropReason::NAMES {
                        table.integer(name, by_reason(why));
                    }
                }
            }
            TableName::Datagrams => {
                for (app, flow) in plan.sources() {
                    start(table);
                    let counters = sim.datagrams(flow);
                    table
                        .text("group", plan.group_of(app))
                        .integer("source", app.into())
                        .integer("sent", counters.sent)
                        .integer("sent_bytes", counters.sent_bytes)
                        .integer("received", counters.received)
                        .integer("dropped", counters.dropped)
                        .float("delay_mean_s", counters.delay_s.mean())
                        .float("delay_variance_s2", counters.delay_s.variance());
                }
            }
            TableName::Events => continue,
        }
    }
}

fn add_events(events: &[(Time, Event)], variant: usize, seed: u64, table: &mut Table) {
    for (now, event) in events {
        let (kind, connection, seq, view): (_, _, _, Option<&SenderView>) = match event {
            Event::Sent(view) => ("send", view.connection, view.seq, Some(view)),
            Event::Acked(view) => ("ack", view.connection, view.seq, Some(view)),
            Event::Timeout(view) => ("rto", view.connection, view.seq, Some(view)),
            Event::Dropped { connection, seq, .. } => ("drop", *connection, *seq, None),
            Event::Connection(_)
            | Event::Object(_)
            | Event::Page(_)
            | Event::Datagram { .. }
            | Event::Reply(_) => continue,
        };
        let bytes = |value: Option<u64>| value.map_or(f64::NAN, |bytes| bytes as f64);
        table
            .integer("variant", variant as u64)
            .integer("seed", seed)
            .float("time_s", now.as_secs())
            .text("kind", kind)
            .integer("connection", connection)
            .integer("seq_bytes", seq)
            .float("cwnd_bytes", bytes(view.map(|v| v.cwnd)))
            .float("ssthresh_bytes", bytes(view.and_then(|v| v.ssthresh)))
            .integer("dupacks", view.map_or(0, |v| v.dupacks.into()))
            .integer("wire_bytes", view.map_or(0, |v| v.wire_bytes.into()));
    }
    debug_assert!(
        table.columns().iter().all(|(_, column)| !matches!(column, Column::Text(v) if v.is_empty()))
    );
}

//! Execution of the runs of an experiment on all cores.

pub mod memory;
pub(crate) mod timeline;
pub(crate) mod trace;

use crate::results::rows::{EventRow, Run};
use crate::results::series::Series;
use crate::{Bursts, InputError, Plan, Records, Scenario, Table, TableName, Tables, WarmUp};
use catnip_base::{Span, Time};
use catnip_sim::{Event, Memory, Sim, Watch};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// Runs to execute: every named variant with every seed.
#[derive(Clone, Debug)]
pub struct RunRequest<'a> {
    /// Names of the variants to run.
    pub variants: Vec<&'a str>,
    /// Seeds. With the same seed, all variants have the same users and pages.
    pub seeds: Vec<u64>,
    /// Tables of results to fill.
    pub tables: Vec<TableName>,
    /// Number of threads; 0 for one thread per core.
    pub threads: usize,
    /// Interval between the samples of time series; `None` for no time series.
    pub every: Option<Span>,
}

/// Callback that receives the number of finished runs, several times a second and when runs finish. The execution stops if the callback
/// returns false.
pub type Progress<'a> = &'a mut dyn FnMut(usize) -> bool;

const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);
const BATCHES_PER_THREAD: usize = 50;
const LARGEST_BATCH: usize = 500;

/// Executes all requested runs on several threads. The rows of the tables are in the order of variants and seeds, regardless of the number
/// of threads. Returns `None` if `progress` has stopped the execution.
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
    let largest = plans.iter().map(|plan| plan.memory_bytes()).max().unwrap_or(0);
    let memory_error =
        |message: String| InputError::new(&scenario.path.display().to_string(), "memory", message);
    if let Some(reason) = memory::shortage(largest.saturating_mul(threads as u64)) {
        return Err(memory_error(format!("{threads} runs in parallel: {reason}; try --threads 1")));
    }
    let recorded = Recorded { tables: &request.tables, every: request.every };
    let (mut is_short, mut no_thread) = (false, None);
    // Short runs are executed in batches, since a message for each of them would take longer than the run.
    let size = (jobs.len() / (threads * BATCHES_PER_THREAD)).clamp(1, LARGEST_BATCH);
    let batches: Vec<&[(usize, u64)]> = jobs.chunks(size).collect();
    let (next, stopped) = (AtomicUsize::new(0), AtomicBool::new(false));
    let mut results: Vec<Option<Tables>> = batches.iter().map(|_| None).collect();
    let mut finished = 0;
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for started in 0..threads {
            let (sender, batches, plans) = (sender.clone(), &batches, &plans);
            let (next, stopped) = (&next, &stopped);
            let thread = std::thread::Builder::new().spawn_scoped(scope, move || {
                let mut memory = Memory::default();
                let mut should_continue = || !stopped.load(Ordering::Relaxed);
                while let Some((number, batch)) = claim(next, batches) {
                    let mut tables = Tables::new(&request.tables);
                    let done = batch.iter().try_for_each(|&(variant, seed)| {
                        let run = Run { variant: variant as u64, seed };
                        add_run(plans[variant], run, recorded, &mut should_continue, &mut memory, &mut tables)
                            .filter(|()| should_continue())
                    });
                    if done.is_none() || sender.send((number, tables)).is_err() {
                        break;
                    }
                }
            });
            if let Err(error) = thread {
                // With fewer threads the runs take longer; with none they would not begin.
                no_thread = (started == 0).then_some(error);
                break;
            }
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
            is_short = memory::is_short();
            if is_short || !progress(finished) {
                stopped.store(true, Ordering::Relaxed);
                break;
            }
        }
    });
    if let Some(error) = no_thread {
        let file = scenario.path.display().to_string();
        return Err(InputError::new(&file, "threads", format!("no thread can be started: {error}")));
    }
    if is_short {
        let message = format!("out of memory after {finished} of {} runs; ", jobs.len());
        return Err(memory_error(
            message + "try fewer seeds or tables, or --out, which writes tables to disk",
        ));
    }
    if finished < jobs.len() {
        return Ok(None);
    }
    let mut all = Tables::new(&request.tables);
    results.into_iter().flatten().for_each(|tables| all.append(tables));
    Ok(Some(all.into_map()))
}

/// Executes the run of a plan with this seed on the calling thread, and returns the rows of these tables, whose variant is 0. `every` is the
/// interval between the samples of time series. `memory` is that of an earlier run, and is kept for the next one. Returns `None` if
/// `should_continue`, which is called several times a second, has returned false.
pub fn run_one(
    plan: &Plan,
    seed: u64,
    tables: &[TableName],
    every: Option<Span>,
    should_continue: &mut dyn FnMut() -> bool,
    memory: &mut Memory,
) -> Option<BTreeMap<TableName, Table>> {
    let mut rows = Tables::new(tables);
    let run = Run { variant: 0, seed };
    add_run(plan, run, Recorded { tables, every }, should_continue, memory, &mut rows)?;
    Some(rows.into_map())
}

/// Recorded tables of a run, and the interval of its time series.
#[derive(Clone, Copy)]
struct Recorded<'a> {
    tables: &'a [TableName],
    every: Option<Span>,
}

fn claim<'a, T>(next: &AtomicUsize, jobs: &'a [T]) -> Option<(usize, &'a T)> {
    let job = next.fetch_add(1, Ordering::Relaxed);
    jobs.get(job).map(|it| (job, it))
}

/// Executes one run and adds its rows to the tables. Returns `None` if the run was stopped before its end.
fn add_run(
    plan: &Plan,
    run: Run,
    recorded: Recorded<'_>,
    should_continue: &mut dyn FnMut() -> bool,
    memory: &mut Memory,
    tables: &mut Tables,
) -> Option<()> {
    let records = Records::new(recorded.tables);
    let reused = std::mem::take(memory);
    let [bursts, events] = [TableName::BURSTS, TableName::EVENTS].map(|name| recorded.tables.contains(&name));
    if bursts || events {
        let of_packets = (bursts.then(Bursts::default), events.then(Events::default));
        let mut sim = plan.begin(run.seed, (records, of_packets), reused);
        let warm_up =
            execute(&mut sim, |(records, _)| records, plan, run, recorded, should_continue, tables)?;
        let (records, (bursts, events)) = sim.watch();
        records.fill(tables, run, plan, &sim, warm_up.as_ref(), None);
        bursts.iter().for_each(|bursts| bursts.fill(tables, run, plan));
        let events = events.iter().flat_map(|Events(events)| events);
        tables.extend(run, events.filter_map(|(at, event)| EventRow::of(*at, event)));
        *memory = sim.into_memory();
    } else {
        let mut sim = plan.begin(run.seed, records, reused);
        let warm_up = execute(&mut sim, |records| records, plan, run, recorded, should_continue, tables)?;
        sim.watch().fill(tables, run, plan, &sim, warm_up.as_ref(), None);
        *memory = sim.into_memory();
    }
    Some(())
}

/// Executes a run to its end, with a snapshot at the end of the warm-up and samples of time series. Returns `None` if the run was stopped,
/// otherwise `Some` of the snapshot, which is `None` if the run has no warm-up.
fn execute<W: Watch>(
    sim: &mut Sim<W>,
    records: fn(&W) -> &Records,
    plan: &Plan,
    run: Run,
    recorded: Recorded<'_>,
    should_continue: &mut dyn FnMut() -> bool,
    tables: &mut Tables,
) -> Option<Option<WarmUp>> {
    let end = Time::ZERO + plan.duration();
    let mut series = recorded.every.map(|every| (every, Series::new(plan)));
    let mut sample_at = recorded.every.map_or(Time::NEVER, |every| Time::ZERO + every);
    let mut warm_up_at = if plan.warm_up() > Span::ZERO { Time::ZERO + plan.warm_up() } else { Time::NEVER };
    let mut warm_up = None;
    loop {
        let until = end.min(warm_up_at).min(sample_at);
        let next = sim.run_while(until, should_continue)?;
        let is_over = until == end || next == Time::NEVER;
        if until == warm_up_at || (is_over && warm_up_at < Time::NEVER) {
            warm_up = Some(WarmUp::of(sim));
            warm_up_at = Time::NEVER;
        }
        if let Some((every, series)) = &mut series
            && (until == sample_at || is_over)
        {
            sim.catch_up();
            let at = if next == Time::NEVER { sim.now() } else { until };
            series.sample(at, sim, records(sim.watch()), plan, run, tables);
            sample_at += *every;
        }
        if is_over {
            sim.catch_up();
            return Some(warm_up);
        }
    }
}

/// Watch that keeps all events.
#[derive(Debug, Default)]
struct Events(Vec<(Time, Event)>);

impl Watch for Events {
    const PACKETS: bool = true;
    fn record(&mut self, now: Time, event: &Event) {
        self.0.push((now, *event));
    }
}

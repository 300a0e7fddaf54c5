use crate::rows::{EventRow, Run};
use crate::{Bursts, InputError, Plan, Records, Scenario, Table, TableName, Tables};
use catnip_base::Time;
use catnip_sim::{Event, Memory, Watch};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

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
                    let mut tables = Tables::new(&request.tables);
                    for &(variant, seed) in *batch {
                        let run = Run { variant: variant as u64, seed };
                        add_run(plans[variant], run, &request.tables, &mut memory, &mut tables);
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
    let mut all = Tables::new(&request.tables);
    results.into_iter().flatten().for_each(|tables| all.append(tables));
    Ok(Some(all.into_map()))
}

fn claim<'a, T>(next: &AtomicUsize, jobs: &'a [T]) -> Option<(usize, &'a T)> {
    let job = next.fetch_add(1, Ordering::Relaxed);
    jobs.get(job).map(|it| (job, it))
}

/// Adds the rows of one run.
fn add_run(plan: &Plan, run: Run, wanted: &[TableName], memory: &mut Memory, tables: &mut Tables) {
    let records = Records::new(wanted);
    let before = std::mem::take(memory);
    let [bursts, events] = [TableName::Bursts, TableName::Events].map(|name| wanted.contains(&name));
    if bursts || events {
        let of_packets = (bursts.then(Bursts::default), events.then(Events::default));
        let sim = plan.run_in(run.seed, (records, of_packets), before);
        let (records, (bursts, events)) = sim.watch();
        records.fill(tables, run, plan, &sim, None);
        bursts.iter().for_each(|bursts| bursts.fill(tables, run, plan));
        let events = events.iter().flat_map(|Events(events)| events);
        tables.extend(run, events.filter_map(|(at, event)| EventRow::of(*at, event)));
        *memory = sim.into_memory();
    } else {
        let sim = plan.run_in(run.seed, records, before);
        sim.watch().fill(tables, run, plan, &sim, None);
        *memory = sim.into_memory();
    }
}

/// Keeps everything.
#[derive(Debug, Default)]
struct Events(Vec<(Time, Event)>);

impl Watch for Events {
    const PACKETS: bool = true;
    fn record(&mut self, now: Time, event: &Event) {
        self.0.push((now, *event));
    }
}

use catnip_cli::failure::Failure;
use catnip_cli::out::{print_json, print_stdout};
use catnip_drill::case::Case;
use catnip_drill::kernel::Lane;
use catnip_drill::record::{Difference, first_difference};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// Run random scripts, and make those smaller in which the kernel differs
#[derive(Debug, clap::Args)]
pub(crate) struct Random {
    /// Number of scripts
    #[arg(long, default_value_t = 100)]
    count: u32,
    /// Seed of the scripts
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of network namespaces at a time
    #[arg(long, default_value_t = 50)]
    jobs: u32,
    /// Number of network namespaces at a time in which a difference is looked at again
    #[arg(long, default_value_t = 1)]
    alone: u32,
    /// Run only the script with this number
    #[arg(long, value_name = "NUMBER")]
    only: Option<u32>,
    /// Print the scripts that differ as they are, not smaller ones
    #[arg(long)]
    whole: bool,
    /// Largest number of differences to print as scripts
    #[arg(long, default_value_t = 20, value_name = "NUMBER")]
    most: usize,
    /// Write the scripts with which the kernel agrees to this folder
    #[arg(long, value_name = "FOLDER")]
    write: Option<PathBuf>,
    /// Print the results as JSON: the number of scripts, and the differences by script
    #[arg(long)]
    json: bool,
}

/// Results of random scripts.
#[derive(Debug, Serialize)]
struct Results {
    /// Seed of the scripts.
    seed: u64,
    /// Number of scripts.
    scripts: usize,
    /// Scripts in which the kernel always differs.
    differing: Vec<Differing>,
}

/// Random script in which the kernel always differs.
#[derive(Debug, Serialize)]
struct Differing {
    /// Number of the script.
    number: u32,
    /// First difference.
    #[serde(flatten)]
    difference: Difference,
}

/// Number of times that a difference must be seen by a kernel that does nothing else.
const TIMES: usize = 3;

/// Returns true if the kernel agrees with all scripts.
pub(crate) fn run(options: &Random) -> Result<bool, Failure> {
    let numbers: Vec<u32> = options.only.map_or_else(|| (0..options.count).collect(), |only| vec![only]);
    let case = |number: u32| Case::random(options.seed, number);
    let suspects = in_parallel(options.jobs, &numbers, |lane, number| difference(lane, &case(number)))?;
    let suspects: Vec<u32> = suspects.into_iter().map(|(number, _)| number).collect();
    let differing =
        in_parallel(options.alone, &suspects, |lane, number| always_differs(lane, &case(number)))?;
    if !options.json {
        print_differences(options, &differing, numbers.len())?;
    }
    if let Some(folder) = &options.write {
        for number in numbers.iter().filter(|number| !suspects.contains(number)) {
            let path = folder.join(format!("random-{}-{number}.pkt", options.seed));
            let written = std::fs::write(&path, script(&case(*number))?.to_string());
            written.map_err(|error| {
                Failure::new(&path.display().to_string(), format!("cannot write it: {error}"))
            })?;
        }
    }
    let is_same = differing.is_empty();
    if options.json {
        let differing = differing.into_iter().map(|(number, difference)| Differing { number, difference });
        print_json(&Results { seed: options.seed, scripts: numbers.len(), differing: differing.collect() })?;
    }
    Ok(is_same)
}

/// Prints the differences, and the scripts, smaller if possible.
fn print_differences(
    options: &Random,
    differing: &[(u32, Difference)],
    scripts: usize,
) -> Result<(), Failure> {
    for (number, difference) in differing {
        print_stdout(format_args!("case {number}: {difference}\n"));
    }
    print_stdout(format_args!("{} of {scripts} scripts differ\n", differing.len()));
    let mut lane = Lane::enter()?;
    for (number, _) in differing.iter().take(options.most) {
        let whole = Case::random(options.seed, *number);
        let small = if options.whole { whole } else { smallest(&mut lane, &whole)? };
        if let Some(difference) = always_differs(&mut lane, &small)? {
            print_stdout(format_args!("\n// Case {number}: {difference}\n{}", script(&small)?));
        }
    }
    Ok(())
}

/// Does something with each number in several network namespaces at a time. Returns the numbers for which it returns something, in order.
fn in_parallel<T: Send>(
    jobs: u32,
    numbers: &[u32],
    work: impl Fn(&mut Lane, u32) -> Result<Option<T>, Failure> + Sync,
) -> Result<Vec<(u32, T)>, Failure> {
    let next = AtomicU32::new(0);
    let parts: Vec<Result<Vec<(u32, T)>, Failure>> = std::thread::scope(|scope| {
        let worker = || {
            let (mut lane, mut found) = (Lane::enter()?, Vec::new());
            while let Some(&number) = numbers.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                found.extend(work(&mut lane, number)?.map(|it| (number, it)));
            }
            Ok(found)
        };
        let workers: Vec<_> =
            (0..jobs.clamp(1, numbers.len().max(1) as u32)).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().map(|worker| worker.join().expect("a worker does not panic")).collect()
    });
    let mut found = Vec::new();
    for part in parts {
        found.extend(part?);
    }
    found.sort_unstable_by_key(|(number, _)| *number);
    Ok(found)
}

fn script(case: &Case) -> Result<catnip_drill::script::Script, Failure> {
    case.script().map_err(|error| Failure::new("a random case", error))
}

/// Returns where the kernel differs from the script of a case.
fn difference(lane: &mut Lane, case: &Case) -> Result<Option<Difference>, Failure> {
    let script = script(case)?;
    let record = lane.run(&script)?;
    Ok(first_difference(&script, &record))
}

fn always_differs(lane: &mut Lane, case: &Case) -> Result<Option<Difference>, Failure> {
    let mut last = None;
    for _ in 0..TIMES {
        last = difference(lane, case)?;
        if last.is_none() {
            break;
        }
    }
    Ok(last)
}

/// Makes a case smaller as long as the kernel still differs.
fn smallest(lane: &mut Lane, case: &Case) -> Result<Case, Failure> {
    let mut small = case.clone();
    'smaller: loop {
        for simpler in small.simpler() {
            if always_differs(lane, &simpler)?.is_some() {
                small = simpler;
                continue 'smaller;
            }
        }
        return Ok(small);
    }
}

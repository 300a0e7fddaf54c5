use catnip_cli::failure::Failure;
use catnip_cli::out::{print_json, print_stdout};
use catnip_drill::kernel::Lane;
use catnip_drill::record::{Difference, Record, first_difference};
use catnip_drill::script::Script;
use catnip_drill::simulated;
use serde::Serialize;
use std::path::PathBuf;

/// Run scripts in packetdrill's language
#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    /// Scripts
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Do not step the kernel, which needs root
    #[arg(long)]
    simulated: bool,
    /// Print what was sent and the values of assertions
    #[arg(long)]
    verbose: bool,
    /// Print the results as JSON: for each script and host the first difference, or null
    #[arg(long, conflicts_with = "verbose")]
    json: bool,
}

/// Result of a script on a host.
#[derive(Debug, Serialize)]
struct Outcome {
    /// Name of the script's file.
    file: String,
    /// The host: simulated, or kernel.
    host: &'static str,
    /// First difference; `None` if the host agrees.
    difference: Option<Difference>,
}

/// Returns true if both worlds agree with all scripts.
pub(crate) fn run(options: &Run) -> Result<bool, Failure> {
    let mut outcomes = Vec::new();
    let mut lane = if options.simulated { None } else { Some(Lane::enter()?) };
    for file in &options.files {
        let name = &file.display().to_string();
        let wrong = |error: String| Failure::new(name, error);
        let text =
            std::fs::read_to_string(file).map_err(|error| wrong(format!("cannot read it: {error}")))?;
        let script = Script::parse(&text).map_err(wrong)?;
        let simulated = simulated::run(&script).map_err(wrong)?;
        let kernel = lane.as_mut().map(|lane| lane.run(&script)).transpose()?;
        for (host, record) in [("simulated", Some(simulated)), ("kernel", kernel)] {
            let Some(record) = record else { continue };
            let difference = first_difference(&script, &record);
            if !options.json {
                let told = difference.as_ref().map_or("agrees".to_owned(), Difference::to_string);
                print_stdout(format_args!("{name}: {host}: {told}\n"));
            }
            if options.verbose {
                print(&record);
            }
            outcomes.push(Outcome { file: name.clone(), host, difference });
        }
    }
    if options.json {
        print_json(&outcomes)?;
    }
    Ok(outcomes.iter().all(|outcome| outcome.difference.is_none()))
}

fn print(record: &Record) {
    for (at, packet) in &record.sent {
        print_stdout(format_args!("  {:.6} > {packet}\n", at.as_secs()));
    }
    print_stdout(format_args!("  {:?}\n", record.values));
}

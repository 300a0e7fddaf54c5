use catnip_cli::failure::Failure;
use catnip_cli::out::print_stdout;
use catnip_drill::kernel::Lane;
use catnip_drill::record::{Record, first_difference};
use catnip_drill::script::Script;
use catnip_drill::simulated;
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
}

/// Returns true if both worlds agree with all scripts.
pub(crate) fn run(options: &Run) -> Result<bool, Failure> {
    let mut is_same = true;
    let mut lane = if options.simulated { None } else { Some(Lane::enter()?) };
    for file in &options.files {
        let name = &file.display().to_string();
        let wrong = |error: String| Failure::new(name, error);
        let text =
            std::fs::read_to_string(file).map_err(|error| wrong(format!("cannot read it: {error}")))?;
        let script = Script::parse(&text).map_err(wrong)?;
        let simulated = simulated::run(&script).map_err(wrong)?;
        let kernel = lane.as_mut().map(|lane| lane.run(&script)).transpose()?;
        for (of, record) in [("simulated", Some(simulated)), ("kernel", kernel)] {
            let Some(record) = record else { continue };
            let difference = first_difference(&script, &record);
            is_same &= difference.is_none();
            let told = difference.map_or("agrees".to_owned(), |it| it.to_string());
            print_stdout(format_args!("{name}: {of}: {told}\n"));
            if options.verbose {
                print(&record);
            }
        }
    }
    Ok(is_same)
}

fn print(record: &Record) {
    for (at, packet) in &record.sent {
        print_stdout(format_args!("  {:.6} > {packet}\n", at.as_secs()));
    }
    print_stdout(format_args!("  {:?}\n", record.values));
}

//! Command `catnip-emu emulate`.

use super::options::TimingOptions;
use super::outputs::{Output, OutputOptions, exit_code, wrap_for_terminal};
use catnip_cli::failure::Failure;
use catnip_cli::out::{ignore_closed_pipe, print_json, write_failure};
use catnip_cli::text::wrapped;
use catnip_emu::emulate::files::{Manifest, write_csv, write_parquet};
use catnip_emu::emulate::results::{Results, RunCertificate};
use catnip_emu::emulate::{self, Finished, Setup};
use catnip_lab::{Plan, Scenario, TableName};
use catnip_linux::file_lock::{FOLDER_LOCK, FileLock};
use catnip_linux::sys;
use catnip_net::NodeId;
use catnip_wire::pcapng::LinkType;
use clap::Args;
use serde_json::json;
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Runs a scenario in real time, with its links, its simulated hosts, and programs at its external hosts.
///
/// External hosts: the scenario file is that of the simulator. A host with a command is external: a network namespace of its own, in which
/// the command runs. Simulated clients use TCP and HTTP with external servers, simulated servers answer external clients, and external
/// hosts reach each other. A scenario without external hosts runs as in the simulator, in real time.
///
/// Environment variables: commands find their own address in $CATNIP_HERE, the address of the node "server" in $CATNIP_SERVER, a folder
/// with all documents that simulated clients fetch from them in $CATNIP_DOCUMENTS, and the folder of the scenario in $CATNIP_SCENARIO.
///
/// Duration: a run ends when all simulated users are done, when a command with ends_run has ended, or after its duration.
///
/// Exit codes: 0, or that of the command that ended the run; 2: bad input; 3: the certificate is red; 126: a command cannot be run; 127: a
/// command is not found; 130: interrupted.
#[derive(Args, Debug)]
#[command(after_help = AFTER, args_override_self = true)]
pub(crate) struct Emulate {
    /// Scenario, a TOML file
    scenario: PathBuf,
    /// Variant of the scenario [default: the first]
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// Key to change in all variants, such as link.line.queue=red:10; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_and_value)]
    set: Vec<(String, String)>,
    /// Seed of all random choices
    #[arg(long, value_name = "INTEGER", default_value_t = 1, allow_hyphen_values = true)]
    seed: u64,
    /// MTU of external hosts in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1500, allow_hyphen_values = true, value_parser = clap::value_parser!(u32).range(576..=65535))]
    mtu: u32,
    #[command(flatten)]
    timing: TimingOptions,
    /// Write the tables of `catnip run --out` as Parquet, manifest.json and certificate.json to this folder, which must be new or empty
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write the final messages to the folder of --out, for the program that has started this one
    #[arg(long, hide = true, requires = "out")]
    hand_over: bool,
    /// Write the table of the bursts of simulated servers as well
    #[arg(long)]
    bursts: bool,
    #[command(flatten)]
    outputs: OutputOptions,
    /// Print all tables and the certificate as JSON on standard output
    #[arg(long)]
    json: bool,
}

const AFTER: &str = "Examples:
  catnip-emu emulate testbed-web.toml --variant '64 KB CATNIP' --out results

Exit codes:
  exit code of the command that ends the run, if any and not 0
  2    bad input, or not supported by this machine
  3    the certificate is red
  126  a command cannot be run
  127  a command is not found
  128 plus the number of the signal that ended the run";

pub(crate) fn run(options: &Emulate) -> Result<u8, Failure> {
    let notes = options.outputs.notes();
    let bad_input = |error: catnip_lab::InputError| Failure { message: error.to_string(), code: 2 };
    let scenario = Scenario::load_set(&options.scenario, &options.set).map_err(bad_input)?;
    scenario.warnings.iter().for_each(|warning| options.outputs.warn(warning));
    let names: Vec<&str> = scenario.variants().collect();
    let name = options.variant.as_deref().unwrap_or(names[0]);
    let plan = scenario.emulation(name).map_err(bad_input)?;
    let variant = names.iter().position(|other| *other == name).unwrap_or(0);
    let (seed, mtu, bursts) = (options.seed, options.mtu, options.bursts);
    let manifest = Manifest::new(&scenario, name, seed).map_err(bad_input)?;
    let reserves_stdout = options.json;
    let setup = Setup { seed, mtu, timing: options.timing.spec()?, bursts, reserves_stdout };
    let (tolerance, outputs) = (options.timing.tolerance()?, &options.outputs);
    // A folder that cannot be used is reported before the run.
    let _lock = options.out.as_deref().map(prepare_folder).transpose()?;
    let certificate_file = outputs.certificate()?;
    let hand_over_folder = options.hand_over.then_some(()).and(options.out.as_deref());
    let topology = plan.topology();
    let nodes = (0..topology.node_count() as u32).map(|node| topology.name(NodeId(node)).to_string());
    let capture = |stopwatch| {
        hand_over_folder.map_or(Ok(()), |folder| report_start(folder, plan))?;
        notes.note(format_args!("{name}: started, runs for at most {}", plan.duration()));
        outputs.capture(LinkType::Raw, stopwatch, nodes.collect(), 0)
    };
    let folder = options.scenario.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = fs::canonicalize(folder.unwrap_or(Path::new("."))).unwrap_or_default();
    notes.note(format_args!(
        "{}: {} external hosts",
        options.scenario.display(),
        plan.external_nodes().len()
    ));
    let (finished, world) = emulate::run(plan, &setup, &folder, capture)?;
    notes.note(format_args!("run ended: {}", finished.early_end.unwrap_or("complete")));
    // Writing results may take longer than a real-time thread may run.
    sys::run_as_sched_other()
        .map_err(|error| Failure::new("SCHED_FIFO", format!("cannot return to SCHED_OTHER: {error}")))?;
    let results = Results::new(plan, variant, options.seed, &finished, &world, tolerance);
    let messages = FinalMessages { finished: &finished, certificate: &results.certificate };
    // An output that cannot be written does not prevent the others.
    let written = [
        outputs.finish(world.into_watch().capture),
        certificate_file.map_or(Ok(()), |file| file.write_json(&results.certificate)),
        options.out.as_deref().map_or(Ok(()), |folder| write_files(folder, &results, &manifest, name)),
        hand_over_folder.map(|folder| folder.join(MESSAGES_FILE)).map_or(Ok(()), |file| {
            fs::write(&file, wrap_for_terminal(&messages)).map_err(|error| write_failure(&file, error))
        }),
        if options.hand_over { Ok(()) } else { print(options, &results, name) },
    ];
    if !options.hand_over {
        outputs.print_text(&messages);
    }
    written.into_iter().collect::<Result<(), Failure>>()?;
    Ok(exit_code(finished.code, results.certificate.verdict))
}

/// Parses a setting of --set.
fn key_and_value(setting: &str) -> Result<(String, String), String> {
    let trimmed = setting.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
    match trimmed.filter(|(key, _)| key.split('.').all(|part| !part.trim().is_empty())) {
        Some((key, value)) => Ok((key.into(), value.into())),
        None => Err("expected KEY=VALUE, such as link.line.queue=drop-tail:10".into()),
    }
}

/// Name of the file in the results folder that contains the final messages, with --hand-over.
const MESSAGES_FILE: &str = "told.txt";
/// Name of the file in the results folder whose existence shows that the clock has started, with --hand-over.
const START_FILE: &str = "begun.json";

/// Creates and locks the folder for results, and checks that it is empty and that files can be written to it.
fn prepare_folder(folder: &Path) -> Result<FileLock, Failure> {
    let failure = |error| write_failure(folder, error);
    fs::create_dir_all(folder).map_err(failure)?;
    let lock = folder.join(FOLDER_LOCK);
    let held = FileLock::take(&lock).map_err(failure)?.ok_or_else(|| {
        let problem = format!("{} writes there; wait for it, or choose another one", FileLock::holder(&lock));
        Failure::new(&format!("--out: {}", folder.display()), problem)
    })?;
    if fs::read_dir(folder).map_err(failure)?.flatten().any(|entry| entry.file_name() != FOLDER_LOCK) {
        let problem =
            format!("{} is not empty; choose another folder, or remove its contents", folder.display());
        return Err(Failure::new("--out", problem));
    }
    tempfile::tempfile_in(folder).map_err(failure)?;
    Ok(held)
}

/// Writes [`START_FILE`] for the parent program: the maximum duration of the run, and whether a command can end the run.
fn report_start(folder: &Path, plan: &Plan) -> Result<(), Failure> {
    // The run must not outlive the parent program.
    sys::end_with_parent().map_err(|error| Failure::new("--hand-over", error))?;
    let ends_run = plan.external_nodes().iter().any(|node| node.ends_run);
    let description = json!({ "duration_s": plan.duration().as_secs(), "a_command_ends_it": ends_run });
    let (new, file) = (folder.join("new"), folder.join(START_FILE));
    fs::write(&new, description.to_string())
        .and_then(|()| fs::rename(&new, &file))
        .map_err(|error| write_failure(&file, error))
}

fn write_files(folder: &Path, results: &Results, manifest: &Manifest, variant: &str) -> Result<(), Failure> {
    for (name, table) in &results.tables {
        let path = folder.join(format!("{}.parquet", name.name()));
        let file = Output::create(&path)?.file;
        write_parquet(table, variant, file).map_err(|error| write_failure(&path, error.into()))?;
    }
    Output::create(&folder.join("certificate.json"))?.write_json(&results.certificate)?;
    Output::create(&folder.join("manifest.json"))?.write_json(manifest)?;
    Ok(())
}

/// Prints the results on standard output: all of them as JSON with --json. Otherwise, if no folder is given for the tables, prints the
/// table of pages, or of connections if there are no pages.
fn print(options: &Emulate, results: &Results, variant: &str) -> Result<(), Failure> {
    let with_rows = [TableName::PAGES, TableName::CONNECTIONS].map(|name| &results.tables[&name]);
    if options.json {
        print_json(&results.json(variant))
    } else if let (None, Some(table)) = (&options.out, with_rows.into_iter().find(|table| table.rows() > 0)) {
        ignore_closed_pipe(write_csv(table, variant, &mut io::stdout().lock()))
    } else {
        Ok(())
    }
}

/// Final messages of a run for the user. A format width, as in `{:80}`, is the number of columns of the terminal.
struct FinalMessages<'a> {
    finished: &'a Finished,
    certificate: &'a RunCertificate,
}

impl Display for FinalMessages<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { finished, certificate } = self;
        let width = f.width().unwrap_or(usize::MAX);
        let mut line = |text: String| writeln!(f, "{}", wrapped(&text, width, "  "));
        for remark in &finished.remarks {
            line(remark.clone())?;
        }
        if let Some(early_end) = finished.early_end {
            line(format!("the run was cut short: {early_end}"))?;
        }
        for failure in &certificate.failures {
            line(format!("out of tolerance: {failure}"))?;
        }
        if let Some(warning) = certificate.cores.warning() {
            line(format!("warning: {warning}"))?;
        }
        let [median, p99, max] = certificate.lateness_us;
        if max > 0.0 {
            line(format!("simulated hosts: lateness p50 {median:.0}, p99 {p99:.0}, max {max:.0} us"))?;
        }
        for host in &certificate.hosts {
            let [median, p99, max] = host.lateness_us;
            line(format!(
                "{}: {} packets written, lateness p50 {median:.0}, p99 {p99:.0}, max {max:.0} us",
                host.name, host.written
            ))?;
        }
        for link in &certificate.links {
            write!(f, "{}: ", link.name)?;
            link.certificate.fmt(f)?;
        }
        Ok(())
    }
}

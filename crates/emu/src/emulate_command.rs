//! `catnip-emu emulate`.

use crate::options::TimingOptions;
use crate::outputs::{Output, OutputOptions, cannot, exit_code, write_json};
use catnip_emu::emulate::files::{Manifest, write_csv, write_parquet};
use catnip_emu::emulate::results::{Results, RunCertificate};
use catnip_emu::emulate::{self, Finished, Setup};
use catnip_emu::failure::Failure;
use catnip_emu::sys;
use catnip_lab::{Scenario, TableName};
use catnip_net::NodeId;
use catnip_wire::pcapng::LinkType;
use clap::Args;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Runs a scenario in real time: its links, its simulated hosts, and real programs at its real hosts.
///
/// The file is that of the simulator. A host with a command is real: it is a network namespace of its own, in which the
/// command runs ($CATNIP_HERE is its address, $CATNIP_SERVER that of the node "server", $CATNIP_DOCUMENTS a folder with
/// all that simulated clients fetch from it, $CATNIP_SCENARIO the folder of the scenario). Simulated clients speak
/// TCP and HTTP with real servers, simulated servers answer real clients, and real hosts reach each other. Without
/// real hosts it is the simulator's run, in real time.
///
/// A run ends when all simulated users are done, when a command with ends_run has ended, or with its duration.
///
/// Exit codes: 0, or that of the command that ended the run; 2: bad input; 3: the certificate is red; 126, 127: a command cannot
/// be run, or is not there; 130: interrupted.
#[derive(Args, Debug)]
#[command(args_override_self = true)]
pub(crate) struct Emulate {
    /// The scenario, a TOML file
    scenario: PathBuf,
    /// Which of its variants [default: the first]
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Longest packet of real hosts in bytes
    #[arg(long, default_value_t = 1500, value_parser = clap::value_parser!(u32).range(576..=65535))]
    mtu: u32,
    #[command(flatten)]
    timing: TimingOptions,
    /// Write the tables of `catnip run --out` to this folder, as Parquet, with manifest.json, and certificate.json
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Also write the table of the bursts in which simulated servers send
    #[arg(long)]
    bursts: bool,
    #[command(flatten)]
    outputs: OutputOptions,
    /// Print all tables and the certificate to standard output, as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Emulate) -> Result<u8, Failure> {
    let bad_input = |error: catnip_lab::InputError| Failure { message: error.to_string(), code: 2 };
    let scenario = Scenario::load(&options.scenario).map_err(bad_input)?;
    let names: Vec<&str> = scenario.variants().collect();
    let name = options.variant.as_deref().unwrap_or(names[0]);
    let plan = scenario.emulation(name).map_err(bad_input)?;
    let variant = names.iter().position(|other| *other == name).unwrap_or(0);
    let (seed, mtu, bursts) = (options.seed, options.mtu, options.bursts);
    let setup = Setup { seed, mtu, timing: options.timing.spec()?, bursts };
    let (tolerance, outputs) = (options.timing.tolerance()?, &options.outputs);
    // Before the run, so that it does not run in vain.
    if let Some(folder) = &options.out {
        fs::create_dir_all(folder).map_err(|error| cannot(folder, error))?;
    }
    let certificate_file = outputs.certificate()?;
    let topology = plan.topology();
    let nodes = (0..topology.node_count() as u32).map(|node| topology.name(NodeId(node)).to_string());
    let capture = |stopwatch| outputs.capture(LinkType::Raw, stopwatch, nodes.collect(), 0);
    let folder = options.scenario.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = fs::canonicalize(folder.unwrap_or(Path::new("."))).unwrap_or_default();
    let (finished, world) = emulate::run(plan, &setup, &folder, capture)?;
    // Writing results takes as long as it takes.
    sys::run_as_others().map_err(|error| Failure::new("SCHED_FIFO", format!("cannot leave it: {error}")))?;
    let results = Results::new(plan, variant, options.seed, &finished, &world, tolerance);
    outputs.finish(world.into_watch().capture)?;
    if let Some(file) = certificate_file {
        file.write_json(&results.certificate)?;
    }
    if let Some(folder) = &options.out {
        write_files(folder, &results, &Manifest::new(&scenario, name, options.seed), name)?;
    }
    print(options, &results)?;
    if !outputs.quiet {
        tell(&finished, &results.certificate);
    }
    Ok(exit_code(finished.code, results.certificate.verdict))
}

fn write_files(folder: &Path, results: &Results, manifest: &Manifest, variant: &str) -> Result<(), Failure> {
    for (name, table) in &results.tables {
        let path = folder.join(format!("{}.parquet", name.name()));
        let file = Output::create(&path)?.file;
        write_parquet(table, variant, file).map_err(|error| cannot(&path, error.into()))?;
    }
    Output::create(&folder.join("certificate.json"))?.write_json(&results.certificate)?;
    Output::create(&folder.join("manifest.json"))?.write_json(manifest)
}

/// To standard output: everything as JSON, or what there is of pages or connections if it is written nowhere else.
fn print(options: &Emulate, results: &Results) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let with_rows = [TableName::Pages, TableName::Connections].map(|name| &results.tables[&name]);
    let written = if options.json {
        write_json(&mut out, &results.json())
    } else if let (None, Some(table)) = (&options.out, with_rows.into_iter().find(|table| table.rows() > 0)) {
        write_csv(table, &mut out)
    } else {
        Ok(())
    };
    match written {
        // Whoever reads has enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|error| cannot(Path::new("standard output"), error)),
    }
}

fn tell(finished: &Finished, certificate: &RunCertificate) {
    for remark in &finished.remarks {
        eprintln!("{remark}");
    }
    if let Some(cut) = finished.cut {
        eprintln!("the run was cut short: {cut}");
    }
    for failure in &certificate.failures {
        eprintln!("out of tolerance: {failure}");
    }
    let [median, p99, max] = certificate.lateness_us;
    if max > 0.0 {
        eprintln!("simulated hosts: lateness p50 {median:.0}, p99 {p99:.0}, max {max:.0} us");
    }
    for host in &certificate.hosts {
        let [median, p99, max] = host.lateness_us;
        eprintln!(
            "{}: {} packets written, lateness p50 {median:.0}, p99 {p99:.0}, max {max:.0} us",
            host.name, host.written
        );
    }
    for link in &certificate.links {
        eprint!("{}: {}", link.name, link.certificate);
    }
}

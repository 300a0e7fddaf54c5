//! `catnip-emu emulate`.

use crate::options::TimingOptions;
use crate::{RED, finish};
use catnip_emu::capture::Capture;
use catnip_emu::certificate::{Tolerance, Verdict};
use catnip_emu::clock::Stopwatch;
use catnip_emu::emulate::files::{Manifest, write_csv, write_parquet};
use catnip_emu::emulate::results::{Results, RunCertificate};
use catnip_emu::emulate::{self, Finished, Setup};
use catnip_emu::failure::Failure;
use catnip_emu::sys;
use catnip_lab::{Plan, Scenario, TableName};
use catnip_net::NodeId;
use catnip_wire::pcapng::LinkType;
use clap::Args;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
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
    /// Write every packet to this file, as pcapng with a comment that says what became of it
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Write the certificate to this file, as JSON
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// Print all tables and the certificate to standard output, as JSON
    #[arg(long)]
    json: bool,
    /// Print no certificate
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) fn run(options: &Emulate) -> Result<u8, Failure> {
    let bad_input = |error: catnip_lab::InputError| Failure { message: error.to_string(), code: 2 };
    let scenario = Scenario::load(&options.scenario).map_err(bad_input)?;
    let names: Vec<&str> = scenario.variants().collect();
    let name = options.variant.as_deref().unwrap_or(names[0]);
    let plan = scenario.emulation(name).map_err(bad_input)?;
    let variant = names.iter().position(|other| *other == name).unwrap_or(0);
    let setup = Setup {
        seed: options.seed,
        mtu: options.mtu,
        real_time: !options.timing.no_real_time,
        spin: options.timing.spin()?,
    };
    let lateness_p99_ms = 1e3 * options.timing.tolerance()?.as_secs();
    let tolerance = Tolerance { lateness_p99_ms, ..Tolerance::default() };
    // Before the run, so that it does not run in vain.
    if let Some(folder) = &options.out {
        fs::create_dir_all(folder).map_err(|error| cannot(folder, error))?;
    }
    let certificate = options.certificate.as_deref().map(|path| Ok((path, create(path)?))).transpose()?;
    let capture = |stopwatch| capture(options, plan, stopwatch);
    let folder = options.scenario.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = fs::canonicalize(folder.unwrap_or(Path::new("."))).unwrap_or_default();
    let (finished, world) = emulate::run(plan, &setup, &folder, capture)?;
    // Writing results takes as long as it takes.
    sys::run_as_others().map_err(|error| Failure::new("SCHED_FIFO", format!("cannot leave it: {error}")))?;
    let results = Results::new(plan, variant, options.seed, &finished, &world, tolerance);
    if let (Some(capture), Some(path)) = (world.into_watch().capture, options.pcap.as_deref()) {
        finish(capture, path)?;
    }
    if let Some((path, mut file)) = certificate {
        write_json(&mut file, &results.certificate).map_err(|error| cannot(path, error))?;
    }
    if let Some(folder) = &options.out {
        write_files(folder, &results, &Manifest::new(&scenario, name, options.seed), name)?;
    }
    print(options, &results)?;
    if !options.quiet {
        tell(&finished, &results.certificate);
    }
    let red = results.certificate.verdict == Verdict::Red;
    Ok(if finished.code == 0 && red { RED } else { finished.code })
}

fn cannot(path: &Path, error: io::Error) -> Failure {
    Failure::new(&path.display().to_string(), format!("cannot write it: {error}"))
}

fn create(path: &Path) -> Result<BufWriter<File>, Failure> {
    File::create(path).map(BufWriter::new).map_err(|error| cannot(path, error))
}

fn write_json(out: &mut impl Write, value: &impl serde::Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)?;
    out.flush()
}

fn capture(options: &Emulate, plan: &Plan, stopwatch: Stopwatch) -> Result<Option<Capture>, Failure> {
    let Some(path) = options.pcap.as_deref() else { return Ok(None) };
    let topology = plan.topology();
    let nodes = (0..topology.node_count() as u32).map(|node| topology.name(NodeId(node)).to_string());
    let capture = Capture::create(path, LinkType::Raw, stopwatch.since_1970(), nodes.collect(), 0);
    capture.map(Some).map_err(|error| cannot(path, error))
}

fn write_files(folder: &Path, results: &Results, manifest: &Manifest, variant: &str) -> Result<(), Failure> {
    for (name, table) in &results.tables {
        let path = folder.join(format!("{}.parquet", name.name()));
        write_parquet(table, variant, create(&path)?).map_err(|error| cannot(&path, error.into()))?;
    }
    let path = folder.join("certificate.json");
    write_json(&mut create(&path)?, &results.certificate).map_err(|error| cannot(&path, error))?;
    let path = folder.join("manifest.json");
    write_json(&mut create(&path)?, manifest).map_err(|error| cannot(&path, error))
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

//! `catnip-emu router`.

use crate::options::{DEFAULT_QUEUE, TimingOptions, WireOptions, read};
use crate::{RED, finish, write_certificate};
use catnip_base::Span;
use catnip_emu::capture::Capture;
use catnip_emu::certificate::{Certificate, Tolerance, Verdict};
use catnip_emu::clock::Stopwatch;
use catnip_emu::failure::Failure;
use catnip_emu::link::LinkTopology;
use catnip_emu::report::{Counters, Reporter};
use catnip_emu::router::{self, Setup};
use catnip_wire::pcapng::LinkType;
use clap::Args;
use std::cell::OnceCell;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Puts an emulated link between two existing Ethernet interfaces, until SIGINT or SIGTERM.
///
/// Frames that come in at one interface leave at the other one, whatever their addresses, as over a cable that has the
/// rate, the delay and the queues of the link. Rates and lengths count IP packets without the Ethernet header. Frames
/// with IPv4 and IPv6 packets go through the link; all others, ARP and IPv6 neighbour discovery among them, are handed
/// over at once and counted apart. Packets that a host has left to its network card to cut or to complete (TSO, GSO,
/// GRO) are cut and completed first.
///
/// Both interfaces become promiscuous as long as this runs; nothing else is changed, so nothing has to be restored.
/// They should have no addresses: what this machine itself answers or forwards does not cross the link.
#[derive(Args, Debug)]
#[command(args_override_self = true)]
pub(crate) struct Router {
    /// Where --up begins
    #[arg(long, value_name = "INTERFACE")]
    inside: String,
    /// Where --up leads
    #[arg(long, value_name = "INTERFACE")]
    outside: String,
    #[command(flatten)]
    wires: WireOptions,
    #[command(flatten)]
    timing: TimingOptions,
    /// How often to tell the counters
    #[arg(long, default_value = "1s")]
    report: String,
    /// Write the counters to this file, one JSON object a line; "-" is standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the counters to this file for the textfile collector of Prometheus, replaced at every report
    #[arg(long, value_name = "FILE")]
    prometheus: Option<PathBuf>,
    /// Write the certificate to this file, as JSON
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// Print no certificate
    #[arg(long, short)]
    quiet: bool,
    /// Write every packet that came to this file, as pcapng with a comment that says what became of it
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
}

pub(crate) fn run(options: &Router) -> Result<u8, Failure> {
    let ([up, down], marking) = options.wires.directions(DEFAULT_QUEUE)?;
    let every: Span = read("--report", &options.report)?;
    if every < Span::from_millis(10) {
        return Err(Failure::new("--report", format!("{:?}: expected 10ms or more", options.report)));
    }
    let setup = Setup {
        inside: options.inside.clone(),
        outside: options.outside.clone(),
        up,
        down,
        codec: options.wires.codec()?,
        marking,
        seed: options.wires.seed,
        real_time: !options.timing.no_real_time,
        spin: options.timing.spin()?,
        report: (options.json.is_some() || options.prometheus.is_some()).then_some(every),
    };
    let lateness_p99_ms = 1e3 * options.timing.tolerance()?.as_secs();
    let tolerance = Tolerance { lateness_p99_ms, ..Tolerance::default() };
    let cannot =
        |path: &Path, error| Failure::new(&path.display().to_string(), format!("cannot write it: {error}"));
    let mut certificate_file = options
        .certificate
        .as_deref()
        .map(|path| File::create(path).map_err(|e| cannot(path, e)))
        .transpose()?;
    let capture = |stopwatch: Stopwatch| {
        let names = ["up", "down"].map(String::from).to_vec();
        let create = |path| Capture::create(path, LinkType::Ethernet, stopwatch.since_1970(), names, 0);
        options.pcap.as_deref().map(|path| create(path).map_err(|e| cannot(path, e))).transpose()
    };
    let reporter = OnceCell::new();
    let watch = |link: &LinkTopology, stopwatch| {
        let _ = reporter.set(self::reporter(options)?);
        Ok((link.monitor(), capture(stopwatch)?))
    };
    let (outcome, emulator) = router::run(&setup, watch, |emulator, so_far| {
        if let Some(reporter) = reporter.get() {
            reporter.tell(Counters::new(&emulator.world.watch().0, so_far));
        }
    })?;
    let (monitor, capture) = emulator.world.into_watch();
    let told = reporter.into_inner().map_or(Ok(()), |it| it.finish(Counters::new(&monitor, &outcome)));
    if let (Some(capture), Some(path)) = (capture, options.pcap.as_deref()) {
        finish(capture, path)?;
    }
    let wires = [&setup.up, &setup.down];
    let certificate = Certificate::new(
        wires,
        setup.seed,
        setup.marking.edges,
        &outcome,
        monitor.directions_and_gates(),
        tolerance,
    );
    if let (Some(file), Some(path)) = (&mut certificate_file, options.certificate.as_deref()) {
        write_certificate(file, &certificate).map_err(|error| cannot(path, error))?;
    }
    if !options.quiet {
        eprint!("{certificate}");
    }
    told.map_err(|error| Failure::new("--json", format!("cannot write the counters: {error}")))?;
    Ok(if certificate.verdict == Verdict::Red { RED } else { 0 })
}

fn reporter(options: &Router) -> Result<Reporter, Failure> {
    let lines = match options.json.as_deref() {
        None => None,
        Some(path) if path == Path::new("-") => Some(Box::new(std::io::stdout()) as Box<dyn Write + Send>),
        Some(path) => {
            let file = File::create(path).map_err(|error| {
                Failure::new(&path.display().to_string(), format!("cannot write it: {error}"))
            })?;
            Some(Box::new(file) as Box<dyn Write + Send>)
        }
    };
    let link = format!("{}-{}", options.inside, options.outside);
    Reporter::start(lines, options.prometheus.clone(), link)
        .map_err(|error| Failure::new("--prometheus", format!("cannot write it: {error}")))
}

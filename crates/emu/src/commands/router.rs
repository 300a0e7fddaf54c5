//! Command `catnip-emu router`.

use super::options::{DEFAULT_QUEUE, TimingOptions, WireOptions, parse};
use super::outputs::{Output, OutputOptions, exit_code};
use catnip_base::Span;
use catnip_cli::failure::Failure;
use catnip_emu::link::{EDGES, LinkTopology};
use catnip_emu::observe::certificate::Certificate;
use catnip_emu::observe::report::{Counters, Reporter};
use catnip_emu::router::{self, Setup};
use catnip_wire::pcapng::LinkType;
use clap::Args;
use std::cell::OnceCell;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Emulates a link between two existing Ethernet interfaces, until SIGINT or SIGTERM.
///
/// Frames: frames that arrive at one interface leave at the other one, regardless of their addresses, as over a cable with the rate, the
/// delay and the queues of the link. Frames with IPv4 and IPv6 packets cross the link; all others, including ARP and IPv6 neighbour
/// discovery, are forwarded at once and counted separately. Rates and lengths count IP packets without the Ethernet header.
///
/// Offloads: packets that a host leaves to its network card to segment or to complete (TSO, GSO, GRO) are segmented and completed first.
///
/// Interfaces: both are promiscuous as long as the router runs; nothing else is changed, so nothing has to be restored. They should have no
/// addresses: packets that this machine itself answers or forwards do not cross the link.
///
/// Exit codes: 0: done; 2: bad input; 3: the certificate is red; 130: interrupted.
#[derive(Args, Debug)]
#[command(after_help = AFTER, args_override_self = true)]
pub(crate) struct Router {
    /// Interface at which --up begins
    #[arg(long, value_name = "INTERFACE")]
    inside: String,
    /// Interface at which --up ends
    #[arg(long, value_name = "INTERFACE")]
    outside: String,
    #[command(flatten)]
    wires: WireOptions,
    #[command(flatten)]
    timing: TimingOptions,
    /// Interval of the counters
    #[arg(long, value_name = "TIME", default_value = "1s", allow_hyphen_values = true)]
    report: String,
    /// Write the counters to this file, one JSON object per line; "-" is standard output
    #[arg(long, value_name = "FILE")]
    counters: Option<PathBuf>,
    /// Write the counters to this file for the textfile collector of Prometheus, replaced at every report
    #[arg(long, value_name = "FILE")]
    prometheus: Option<PathBuf>,
    #[command(flatten)]
    outputs: OutputOptions,
    /// Print only the certificate on standard output, as JSON at the end
    #[arg(long)]
    json: bool,
}

const AFTER: &str = "Examples:
  A slow link between two interfaces, with counters on standard output:
    catnip-emu router --inside eth1 --outside eth2 --rate 16Mbit --delay 10ms --counters -

Exit codes:
  0    ended by SIGINT, SIGTERM or SIGHUP
  2    bad input, or not supported by this machine
  3    the certificate is red";

pub(crate) fn run(options: &Router) -> Result<u8, Failure> {
    let link = options.wires.link(DEFAULT_QUEUE, &options.timing)?;
    let interval: Span = parse("--report", &options.report)?;
    if interval < Span::from_millis(10) {
        return Err(Failure::new("--report", format!("{:?}: expected 10ms or more", options.report)));
    }
    let on_stdout = options.counters.as_deref() == Some(Path::new("-"));
    if options.json && on_stdout {
        return Err(Failure::new("--json and --counters -", "both write to standard output"));
    }
    let setup = Setup {
        inside: options.inside.clone(),
        outside: options.outside.clone(),
        link,
        report: (options.counters.is_some() || options.prometheus.is_some()).then_some(interval),
    };
    let mut control = options.wires.control(DEFAULT_QUEUE, &setup.link, false)?;
    let notes = options.outputs.notes();
    let (tolerance, outputs) = (options.timing.tolerance()?, &options.outputs);
    let certificate_file = outputs.certificate()?;
    let reporter = OnceCell::new();
    let watch = |link: &LinkTopology, stopwatch| {
        let _ = reporter.set(self::reporter(options)?);
        notes.note(format_args!("emulates a link between {} and {}", options.inside, options.outside));
        let capture = outputs.capture(LinkType::Ethernet, stopwatch, EDGES.map(String::from).into(), 0)?;
        Ok((link.monitor(), capture))
    };
    let (outcome, emulator) = router::run(&setup, &mut control, watch, |emulator, so_far| {
        if let Some(reporter) = reporter.get() {
            reporter.report(Counters::new(&emulator.world.watch().0, so_far));
        }
    })?;
    notes.note(outcome.early_end.as_ref().map_or("stopped by a signal", |failure| &failure.message));
    let (monitor, capture) = emulator.world.into_watch();
    let counters_result =
        reporter.into_inner().map_or(Ok(()), |it| it.finish(Counters::new(&monitor, &outcome)));
    let certificate = Certificate::of_link(&setup.link, &outcome, &monitor, tolerance);
    // An output that cannot be written does not prevent the others.
    let written = [
        outputs.finish(capture),
        certificate_file.map_or(Ok(()), |file| file.write_json(&certificate)),
        outputs.print_certificate(&certificate, options.json),
        counters_result
            .map_err(|error| Failure::new("--counters", format!("cannot write the counters: {error}"))),
    ];
    written.into_iter().chain([outcome.early_end.map_or(Ok(()), Err)]).collect::<Result<(), Failure>>()?;
    Ok(exit_code(0, certificate.verdict))
}

fn reporter(options: &Router) -> Result<Reporter, Failure> {
    let lines: Option<Box<dyn Write + Send>> = match options.counters.as_deref() {
        None => None,
        Some(path) if path == Path::new("-") => Some(Box::new(std::io::stdout())),
        Some(path) => Some(Box::new(Output::create(path)?.file)),
    };
    let link = format!("{}-{}", options.inside, options.outside);
    Reporter::start(lines, options.prometheus.clone(), link)
        .map_err(|error| Failure::new("--prometheus", format!("cannot write the counters: {error}")))
}

//! Runs programs behind an emulated link.

mod emulate_command;
mod options;
mod router_command;

use catnip_emu::capture::Capture;
use catnip_emu::certificate::{Certificate, Tolerance, Verdict};
use catnip_emu::clock::Stopwatch;
use catnip_emu::failure::Failure;
use catnip_emu::link::{self, LinkTopology, Setup};
use catnip_emu::record::Log;
use catnip_emu::sys::VIRTUAL_HEADER;
use catnip_wire::pcapng::LinkType;
use clap::{Args, Parser, Subcommand};
use emulate_command::Emulate;
use options::{DEFAULT_QUEUE, DEFAULT_QUEUE_BYTES, TimingOptions, WireOptions, takes_super_packets};
use router_command::Router;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Runs unmodified programs over emulated networks, in real time.
#[derive(Debug, Parser)]
#[command(name = "catnip-emu", version)]
struct Cli {
    #[command(subcommand)]
    command: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Link(Link),
    Emulate(Emulate),
    Router(Router),
}

/// Runs a command in a network namespace of its own, behind one emulated link.
///
/// The command reaches the namespace of the caller and nothing else: there is no NAT and no name service, so the
/// Internet is out of reach. Services outside are reached at $CATNIP_OUTSIDE (IPv6: $CATNIP_OUTSIDE6) or any address
/// of the caller's namespace but 127.0.0.1; $CATNIP_INSIDE is the command's own address. Links nest: start one
/// inside another and their effects add up.
///
/// Ordinary users get namespaces of their own, if the kernel allows it. Then the caller's namespace is a new one too,
/// and empty: start the server in an enclosing link, as in the last example.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES, args_override_self = true)]
struct Link {
    #[command(flatten)]
    wires: WireOptions,
    /// Longest packet in bytes
    #[arg(long, default_value_t = 1500, value_parser = clap::value_parser!(u32).range(68..=65535))]
    mtu: u32,
    /// Initial congestion window of TCP connections through the link, in segments
    #[arg(long, value_name = "SEGMENTS", value_parser = clap::value_parser!(u32).range(1..=1000))]
    initial_window: Option<u32>,
    /// Move up to 64 KiB of a TCP connection at once: several times as fast, but for plain rates and delays only.
    /// Queues are drop-tail:LIMIT with a unit [default: drop-tail:4MB]
    #[arg(long)]
    offload: bool,
    /// Name of the device in the caller's namespace; %d becomes a free number
    #[arg(long, default_value = "catnip%d")]
    device: String,
    #[command(flatten)]
    timing: TimingOptions,
    /// Write the certificate to this file, as JSON
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// Print the certificate as JSON, not as a table (on standard error)
    #[arg(long)]
    json: bool,
    /// Print no certificate
    #[arg(long, short)]
    quiet: bool,
    /// Write every arrival, departure and drop to this file, as CSV
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Write every packet that came to this file, as pcapng with a comment that says what became of it
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// What to run
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

const EXAMPLES: &str = "Examples:
  A Web server outside, a client behind a DSL line:
    python3 -m http.server 8000 &
    catnip-emu link --rate 1.5Mbit --delay 25ms --queue catnip-good:10 -- \\
      sh -c 'curl -o /dev/null http://$CATNIP_OUTSIDE:8000/'

  A fast way in and a slow, lossy way out:
    catnip-emu link --delay 10ms --down rate=16Mbit --up rate=1Mbit,loss=bernoulli:0.01 -- bash

  The same for ordinary users, with the server in an enclosing link:
    catnip-emu link -- sh -c 'python3 -m http.server 8000 & sleep 1;
      catnip-emu link --rate 1.5Mbit --delay 25ms -- sh -c \"curl http://\\$CATNIP_OUTSIDE:8000/\"'";

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => {
            let text = error.to_string();
            let what: Vec<&str> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
            let command = std::env::args().nth(1).filter(|command| !command.starts_with('-'));
            let command = command.map(|command| command + " ").unwrap_or_default();
            eprintln!("{}, see catnip-emu {command}--help", what.join(" "));
            return ExitCode::from(2);
        }
        Err(help) => {
            print!("{help}");
            return ExitCode::SUCCESS;
        }
    };
    let result = match &cli.command {
        What::Link(options) => run_link(options),
        What::Emulate(options) => emulate_command::run(options),
        What::Router(options) => router_command::run(options),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(failure.code)
        }
    }
}

/// The exit code of a link that was out of tolerance though its command succeeded.
const RED: u8 = 3;

fn run_link(options: &Link) -> Result<u8, Failure> {
    let default_queue = if options.offload { DEFAULT_QUEUE_BYTES } else { DEFAULT_QUEUE };
    let (wires, marking) = options.wires.directions(default_queue)?;
    if options.offload {
        takes_super_packets(&wires)?;
    }
    let [up, down] = wires;
    let setup = Setup {
        up,
        down,
        codec: options.wires.codec()?,
        marking,
        seed: options.wires.seed,
        mtu: options.mtu,
        initial_window: options.initial_window,
        offload: options.offload,
        device: options.device.clone(),
        real_time: !options.timing.no_real_time,
        spin: options.timing.spin()?,
    };
    let lateness_p99_ms = 1e3 * options.timing.tolerance()?.as_secs();
    let tolerance = Tolerance { lateness_p99_ms, ..Tolerance::default() };
    let cannot =
        |path: &Path, error| Failure::new(&path.display().to_string(), format!("cannot write it: {error}"));
    // Before the command runs, so that it does not run in vain.
    let mut certificate_file = options
        .certificate
        .as_deref()
        .map(|path| File::create(path).map_err(|e| cannot(path, e)))
        .transpose()?;
    let log =
        || options.log.as_deref().map(|path| Log::create(path).map_err(|e| cannot(path, e))).transpose();
    let capture = |stopwatch: Stopwatch| {
        let names = ["up", "down"].map(String::from).to_vec();
        let skip = if options.offload { VIRTUAL_HEADER } else { 0 };
        let create = |path| Capture::create(path, LinkType::Raw, stopwatch.since_1970(), names, skip);
        options.pcap.as_deref().map(|path| create(path).map_err(|e| cannot(path, e))).transpose()
    };
    let watch = |link: &LinkTopology, stopwatch| Ok((link.monitor(), (log()?, capture(stopwatch)?)));
    let (outcome, emulator) = link::run(&setup, &options.command, watch)?;
    let (monitor, (log, capture)) = emulator.world.into_watch();
    if let (Some(log), Some(path)) = (log, options.log.as_deref()) {
        log.finish(outcome.ended).map_err(|error| cannot(path, error))?;
    }
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
    if options.json {
        // Where standard error is closed, nobody wants it.
        let _ = write_certificate(&mut std::io::stderr(), &certificate);
    } else if !options.quiet {
        eprint!("{certificate}");
    }
    Ok(if outcome.code == 0 && certificate.verdict == Verdict::Red { RED } else { outcome.code })
}

fn write_certificate(to: &mut dyn Write, certificate: &Certificate) -> std::io::Result<()> {
    let json = serde_json::to_string_pretty(certificate).map_err(std::io::Error::other)?;
    writeln!(to, "{json}")
}

/// Ends a capture, and says so if it is not whole.
fn finish(capture: Capture, path: &Path) -> Result<(), Failure> {
    let name = path.display().to_string();
    let left_out =
        capture.finish().map_err(|error| Failure::new(&name, format!("cannot write it: {error}")))?;
    if left_out > 0 {
        eprintln!("warning: {name}: {left_out} packets are missing, the disk was too slow");
    }
    Ok(())
}
